"""Instructions that copy images to grids with zeros around them."""

from collections.abc import Iterator
from typing import NamedTuple

from celosia.hw.arch.isa import Instruction, Opcode, Space
from celosia.sw.compiler.emit.access import Step, span
from celosia.sw.compiler.emit.addressing import Addressing, loops
from celosia.sw.compiler.emit.vector import Ends, drain, vector
from celosia.sw.compiler.schedule.actions import Drain, PoolRegion, Region
from celosia.sw.layers.grids import Grid
from celosia.sw.layers.spec import DynamicProduct, Padded

#: Bytes that one FILL writes at most.
_MOST_BYTES = (1 << 16) - 1

#: Cycles of a FILL besides those in which it writes, about.
_FILL_CYCLES = 10


class _Zeros(NamedTuple):
    """Bytes of a grid that are 0: ``length`` from each start, in rows of images."""

    first: int
    length: int
    images: int = 1
    rows: int = 1
    strides: tuple[int, int] = (0, 0)

    def cycles(self, lanes: int) -> int:
        """Return the cycles in which they are written."""
        return self.images * self.rows * -(-self.length // lanes)


def _zeros(grid: Grid, rows: int, columns: int, pixel: int, lanes: int) -> list[_Zeros]:
    """Return the zeros around images of some rows and columns, or all bytes if that is faster."""
    everything = [_Zeros(0, grid.pixels * pixel)]
    if grid.diagonal or grid.stride != (1, 1):
        return everything
    row = grid.width * pixel
    image, length = grid.height * row, (rows - 1) * row + columns * pixel
    first = grid.origin[0] * row + grid.origin[1] * pixel
    last = first + (grid.images - 1) * image + length
    parts = (
        _Zeros(0, first),
        _Zeros(first + columns * pixel, row - columns * pixel, grid.images, rows - 1, (image, row)),
        _Zeros(first + length, image - length, 1, grid.images - 1, (0, image)),
        _Zeros(last, grid.pixels * pixel - last),
    )
    around = [part for part in parts if part.length and part.images * part.rows]
    cycles = sum(part.cycles(lanes) + _FILL_CYCLES for part in around)
    return around if cycles < everything[0].cycles(lanes) + _FILL_CYCLES else everything


def zeros(
    about: Addressing, layer: int, region: Region, grid: Grid, image: tuple[int, int]
) -> Iterator[Step]:
    """Yield the zeros of a grid in a region, around images of some rows and columns."""
    base, access = about.address(region), about.access(region, writes=True)
    pixel = about.placement.layouts[region.value].pixel
    for part in _zeros(grid, *image, pixel, about.config.lanes):
        for first in range(0, part.length, _MOST_BYTES):
            fill = Instruction(
                Opcode.FILL,
                channels=min(_MOST_BYTES, part.length - first),
                destination_base=base + part.first + first,
                **loops((1, part.images, part.rows), (0, *part.strides), "destination_"),
            )
            yield Step(fill, (access,), layer)


def loaded(about: Addressing, region: Region, layer: int) -> Iterator[Step]:
    """Yield the zeros of a grid, then the load of all images to it."""
    value, layout = about.network.values[region.value], about.placement.layouts[region.value]
    assert value.grid
    yield from zeros(about, layer, region, value.grid, value.image)
    grid, rows, length = value.grid, value.image[0], value.image[1] * value.channels
    external = about.placement.external[region.value] + region.samples[0] * value.bytes_per_item
    first = about.address(region) + grid.origin[1] * layout.pixel
    # Layers may store the images.
    stored = span("external", False, external, value.bytes_per_item)
    accesses = about.access(region, writes=True), stored
    for image in range(grid.images):
        load = Instruction(
            Opcode.LOAD,
            external=external + image * rows * length,
            external_pitch=length,
            unified=first + (image * grid.height + grid.origin[0]) * grid.width * layout.pixel,
            unified_pitch=grid.width * layout.pixel,
            rows=rows,
            length=length,
        )
        yield Step(load, accesses, layer)


def drained(about: Addressing, action: Drain, slot: int, table: int | None) -> Iterator[Step]:
    """Yield the drain of a tile; the first one of a layer to a grid comes after the zeros."""
    layer, (first, last) = about.network.layers[action.layer], action.block.columns
    if not isinstance(layer, DynamicProduct) or layer.grid is None:
        yield drain(about, action, slot, table)
        return
    grid, (rows, columns) = layer.grid, layer.image
    width = about.network.values[layer.result].width
    pixel = about.placement.layouts[layer.result].pixel
    columns_of_grid = (0, width * pixel)
    region = Region(layer.result, action.sub_batch, action.block.samples, (0, 1), columns_of_grid)
    if not first and not action.tile:
        yield from zeros(about, action.layer, region, grid, layer.image)
    (image, row), count = divmod(first // columns, rows), (last - first) // columns
    extents = (-(-count // rows), min(count, rows), columns)
    line = grid.width * pixel
    start = (image * grid.height + grid.origin[0] + row) * line + grid.origin[1] * pixel
    strides = (grid.height * line, line, pixel)
    yield drain(about, action, slot, table, Ends(region, start, extents, strides))


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
    yield from zeros(about, action.layer, written, grid, (rows // grid.images, columns))
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
