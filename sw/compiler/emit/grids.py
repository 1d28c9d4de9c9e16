"""Instructions that copy images to grids with zeros around them."""

from collections.abc import Iterator

from celosia.hw.arch.isa import Instruction, Opcode, Space
from celosia.sw.compiler.emit.access import Step
from celosia.sw.compiler.emit.addressing import Addressing, loops
from celosia.sw.compiler.emit.vector import vector
from celosia.sw.compiler.schedule.actions import PoolRegion, Region
from celosia.sw.layers.spec import Padded

#: Bytes that one FILL writes at most.
_MOST_BYTES = (1 << 16) - 1


def padded(about: Addressing, action: PoolRegion, slot: int) -> Iterator[Step]:
    """Yield the zeros of a grid, then the copy of all images into it."""
    layer = about.network.layers[action.layer]
    assert isinstance(layer, Padded) and layer.seen
    grid, (rows, columns, depth) = layer.grid, layer.seen
    source, result = (about.placement.layouts[n] for n in (layer.source, layer.result))
    widths = (about.network.values[n].width for n in (layer.source, layer.result))
    read, written = (
        Region(value, action.sub_batch, action.samples, (0, 1), (0, width * layout.pixel))
        for value, width, layout in zip(
            (layer.source, layer.result), widths, (source, result), strict=True
        )
    )
    base, access = about.address(written), about.access(written, writes=True)
    length = written.columns[1]
    for first in range(0, length, _MOST_BYTES):
        count = min(_MOST_BYTES, length - first)
        zeros = Instruction(Opcode.FILL, channels=count, destination_base=base + first)
        yield Step(zeros, (access,), action.layer)
    high = rows // grid.images
    pixel = source.pixel if about.network.values[layer.source].channels == depth else depth
    row, (down, right) = grid.width * result.pixel, grid.stride
    counts = (grid.images, high, columns)
    along = right * result.pixel + grid.diagonal
    ends = loops(counts, (grid.height * row, down * row, along), "destination_")
    strides = {name: n for name, n in ends.items() if name.startswith("destination")}
    yield vector(
        about,
        action.layer,
        (about.access(read, writes=False), access),
        slot,
        layer.scalings[0],
        source=Space.UNIFIED,
        destination=Space.UNIFIED,
        channels=depth,
        source_base=about.address(read),
        **loops(counts, (high * columns * pixel, columns * pixel, pixel), "source_"),
        destination_base=base + grid.origin[0] * row + grid.origin[1] * result.pixel,
        **strides,
    )
