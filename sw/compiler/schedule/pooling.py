"""Elements of the layers of the vector unit, as one instruction counts them."""

from celosia.hw.arch.formats import COUNT_BITS
from celosia.sw.compiler.layout.placement import Arranged
from celosia.sw.compiler.schedule.actions import PoolRegion
from celosia.sw.layers.spec import Pooling, Transpose


def pooled_extents(about: Arranged, action: PoolRegion) -> tuple[tuple[int, int, int], int]:
    """Return the samples, rows and columns of some results, and the channels of each.

    Where each result is one element, and those of a row lie side by side in both values, the row is
    one pixel, so that every lane has an element whatever the channels. So are rows side by side.
    """
    layer = about.network.layers[action.layer]
    assert isinstance(layer, Pooling)
    windows = layer.windows[action.windows]
    (samples, rows), (first, last) = action.samples, action.rows
    extents = (rows - samples, last - first, windows.count[1])
    ends = [about.placement.layouts[value] for value in (layer.source, layer.result)]
    depth = about.network.values[layer.source].channels
    pitches, pixels = [end.pitch for end in ends], [end.pixel for end in ends]
    if layer.seen:
        depth = layer.seen[2]
        pitches[0], pixels[0] = layer.seen[1] * depth, depth
    if (
        isinstance(layer, Transpose)
        or layer.exponentials is not None
        or (*windows.size, *layer.stride) != (1, 1, 1, 1)
        or depth % about.config.lanes == 0
        or pixels != [depth, depth]
    ):
        return extents, depth
    for axis in (2, 1):
        length = depth * extents[axis]
        if length >> COUNT_BITS:
            break
        extents, depth = (*extents[:axis], 1, *extents[axis + 1 :]), length
        if pitches != [length, length]:
            break
    return (extents[0], extents[1], extents[2]), depth
