"""Row stripes of values that the unified buffer does not hold whole.

Such a value lies in external memory. The layers that make and read it use buffers of some rows, two
each if they fit: while one stripe is computed, the next is loaded and the one before is stored.
"""

from collections.abc import Sequence

from celosia.hw.arch.config import Config
from celosia.sw.compiler.layout.bands import Band
from celosia.sw.compiler.layout.pitches import Layout
from celosia.sw.layers.network import Network
from celosia.sw.layers.spec import DynamicProduct, Layer, MatrixLayer, Pooling, Range, Sum


def result_rows(network: Network, layer: Layer) -> int:
    """Return the rows of each sample that a layer makes."""
    return network.values[layer.result].height


def source_rows(layer: Layer, rows: Range) -> Range:
    """Return the rows of its source that a layer reads for some rows of its result.

    They reach past the edges if the source is padded.
    """
    first, last = rows
    if isinstance(layer, MatrixLayer):
        down, stride = layer.pool.stride[0], layer.stride[0]
        sums = first * down, (last - 1) * down + layer.pool.window[0]
        reach = (layer.kernel[0] - 1) * layer.dilation[0] + 1
        start = layer.origin[0]
        return start + sums[0] * stride, start + (sums[1] - 1) * stride + reach
    if isinstance(layer, Sum | DynamicProduct):
        return rows
    starts, ends = [], []
    for windows in layer.windows:
        begin, end = max(first, windows.result[0]), min(last, windows.result[0] + windows.count[0])
        if begin < end:
            row = windows.source[0] + (begin - windows.result[0]) * layer.stride[0]
            starts.append(row)
            ends.append(row + (end - begin - 1) * layer.stride[0] + windows.size[0])
    return min(starts), max(ends)


def product_rows(layer: MatrixLayer, rows: Range, band: Band | None, layout: Layout) -> Range:
    """Return the rows of its source that a matrix layer reads for some rows of its result.

    The last vector of a band may end on pixels of the next row, whose weights are 0.
    """
    first, last = source_rows(layer, rows)
    if band is None:
        return first, last
    width = layer.output[1]
    made = width + band.count - 1 if band.joined else -(-width // band.count) * band.count
    reach = (made - 1) * layer.stride[1] + (layer.kernel[1] - 1) * layer.dilation[1]
    return first, last + (layer.origin[1] + reach >= layout.row - layout.left)


def stripe_bytes(
    network: Network, layouts: Sequence[Layout], number: int, rows: int, spilled: frozenset[int]
) -> dict[int, int]:
    """Return the bytes of one buffer for each spilled value of a layer, for stripes of ``rows``."""
    layer = network.layers[number]
    height = result_rows(network, layer)
    sizes = {}

    def size(value: int, count: int) -> int:
        layout = layouts[value]
        return count * layout.pitch + layout.spare * layout.pixel

    if layer.result in spilled:
        sizes[layer.result] = size(layer.result, rows)
    for source in sorted(spilled.intersection(layer.sources)):
        spans = [
            source_rows(layer, (first, min(first + rows, height)))
            for first in range(0, height, rows)
        ]
        sizes[source] = size(source, max(last - first for first, last in spans))
    return sizes


def widest(
    network: Network,
    layouts: Sequence[Layout],
    number: int,
    spilled: frozenset[int],
    space: int,
    config: Config,
) -> tuple[int, int]:
    """Return the most rows of a result whose buffers fit into ``space`` bytes, and the buffers.

    There are two buffers if one row fits twice, else one; zero rows if one row does not fit.
    """
    layer = network.layers[number]
    if isinstance(layer, DynamicProduct) or (isinstance(layer, Pooling) and layer.seen):
        return 0, 1

    def fits(rows: int, turns: int) -> bool:
        sizes = stripe_bytes(network, layouts, number, rows, spilled).values()
        return turns * sum(-(-size // config.rows) * config.rows for size in sizes) <= space

    for turns in (2, 1):
        low, high = 0, result_rows(network, layer) + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle, turns) else (low, middle)
        if low:
            return low, turns
    return 0, 1
