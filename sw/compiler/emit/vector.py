"""Instructions of the vector unit that compute."""

from typing import Any, NamedTuple

from celosia.hw.arch.isa import Instruction, Mode, Opcode, Space
from celosia.sw.compiler.emit.access import Access, Step, span
from celosia.sw.compiler.emit.addressing import Addressing, loops
from celosia.sw.compiler.layout.bands import vectors
from celosia.sw.compiler.schedule.actions import AddRegion, Block, Drain, PoolRegion, Region, Stripe
from celosia.sw.compiler.schedule.blocks import sums
from celosia.sw.compiler.schedule.pooling import pooled_extents
from celosia.sw.layers.spec import DynamicProduct, MatrixLayer, Pooling, Sum, Transpose
from celosia.sw.layers.values import Scaling


def vector(
    about: Addressing,
    layer: int,
    accesses: tuple[Access, ...],
    slot: int,
    scaling: Scaling,
    table: int | None = None,
    *,
    each: int = 0,
    **fields: Any,
) -> Step:
    """Return VECTOR of a layer with its parameters, from ``slot`` on, and table.

    ``accesses``: besides those of parameters and table; ``each``: channels with parameters of their
    own, 0 if all share one set; ``fields``: the other fields.
    """
    names = ("rounding", "zero_point", "low", "high")
    fields |= {name: getattr(scaling, name) for name in names}
    fields |= {"params": slot, "per_channel": int(each > 0)}
    accesses += (span("parameters", False, slot, each or about.config.lanes),)
    if table is not None:
        fields |= {"use_table": 1, "table": table}
        accesses += (span("tables", False, table, 1),)
    return Step(Instruction(Opcode.VECTOR, **fields), accesses, layer)


class Ends(NamedTuple):
    """Pixels of a value that are written: the first one, and strides over nested loops."""

    region: Region
    first: int
    extents: tuple[int, int, int]
    strides: tuple[int, int, int]


def drain(
    about: Addressing, action: Drain, slot: int, table: int | None, ends: Ends | None = None
) -> Step:
    """Return the pooling and requantisation of a tile; ``ends``: of pixels on a grid."""
    block, layer = action.block, about.network.layers[action.layer]
    assert isinstance(layer, MatrixLayer | DynamicProduct)
    if about.tiling.layers[action.layer].band:
        return _drain_band(about, action, slot, table)
    first, last = about.channels(action.layer, action.tile)
    written = (layer.first + first, layer.first + last)
    if ends:
        region, extents = ends.region, ends.extents
        _, high, wide = extents
        destination = _only(loops(extents, ends.strides, "destination_"))
        destination["destination_base"] = about.address(region) + ends.first + written[0]
    else:
        region = _writes(about, layer.result, block, action.sub_batch, written, action.result)
        extents = block.extents
        _, high, wide = sums(layer.pool, block)
        destination = _destination(about, region, extents)
    (window_y, window_x), (down, right) = layer.pool.window, layer.pool.stride
    each = isinstance(layer, MatrixLayer) or layer.by_channel
    return vector(
        about,
        action.layer,
        (about.access(region, writes=True), about.half(action.half, writes=False)),
        slot,
        layer.scaling,
        table,
        each=last - first if each else 0,
        source=Space.ACCUMULATORS,
        destination=Space.UNIFIED,
        channels=last - first,
        source_base=action.half * about.config.accumulator_depth + action.accumulator,
        **loops(extents, (high * wide, down * wide, right), "source_"),
        window_x_count=window_x,
        window_y_count=window_y,
        window_x_stride=int(window_x > 1),
        window_y_stride=wide if window_y > 1 else 0,
        **destination,
    )


def _drain_band(about: Addressing, action: Drain, slot: int, table: int | None) -> Step:
    """Return the requantisation of a tile whose columns are channels of several pixels."""
    block, layer = action.block, about.network.layers[action.layer]
    tiled = about.tiling.layers[action.layer]
    assert isinstance(layer, MatrixLayer) and tiled.band
    layout, count = about.placement.layouts[layer.result], tiled.band.count
    channels = about.channels(action.layer, action.tile)
    rows, wide = vectors(tiled.band, *block.extents[1:], layout.row)
    region = _writes(about, layer.result, block, action.sub_batch, channels, action.result)
    # Includes the results after the end of a row.
    last = region.columns[0] + (wide * count - 1) * layout.pixel + tiled.channels
    region = region._replace(columns=(region.columns[0], last))
    if tiled.band.joined:
        region = region._replace(rows=(block.rows[0], block.rows[0] + 1))
    extents = (block.extents[0], rows, wide)
    return vector(
        about,
        action.layer,
        (about.access(region, writes=True), about.half(action.half, writes=False)),
        slot,
        layer.scaling,
        table,
        each=tiled.parameters if tiled.parameters != about.config.lanes else 0,
        source=Space.ACCUMULATORS,
        destination=Space.UNIFIED,
        channels=count * tiled.channels,
        source_base=action.half * about.config.accumulator_depth + action.accumulator,
        **loops(extents, (rows * wide, wide, 1), "source_"),
        **_destination(about, region, extents, count),
        destination_run=tiled.channels,
        destination_skip=(layout.pixel - tiled.channels) // about.config.rows,
    )


def add(about: Addressing, action: AddRegion, slot: int, table: int | None) -> Step:
    """Return one step of a sum; a half of the accumulators holds it."""
    block, layer = action.block, about.network.layers[action.layer]
    assert isinstance(layer, Sum)
    first, last = about.channels(action.layer, action.tile)
    row = action.half * about.config.accumulator_depth + action.accumulator
    _, high, wide = block.extents
    value = (layer.source, layer.second, layer.result)[action.step]
    stripe = (*action.sources, action.result)[action.step]
    layout, pixels = about.placement.layouts[value], _pixels(about, value, block)
    region = _writes(about, value, pixels, action.sub_batch, (first, last), stripe)
    # The only row or column of a value is repeated.
    outside = _strides(pixels, (layout.sample_pitch, layout.pitch, layout.pixel))
    inside = _strides(block, (high * wide, wide, 1))
    ends = {"accumulators": (row, inside), "unified": (about.address(region), outside)}
    source, destination = ("unified", "accumulators")
    if action.step == 2:
        source, destination = destination, source
    fields: dict[str, int] = {"x_count": wide, "y_count": high, "z_count": block.extents[0]}
    for side, space in (("source", source), ("destination", destination)):
        fields[side] = Space[space.upper()].value
        fields[f"{side}_base"], strides = ends[space]
        fields |= {f"{side}_{axis}_stride": strides[axis] for axis in "xyz"}
    accesses = (
        about.access(region, writes=action.step == 2),
        about.half(action.half, writes=action.step < 2),
    )
    return vector(
        about,
        action.layer,
        accesses,
        slot,
        layer.scalings[action.step],
        table,
        channels=last - first,
        mode=layer.mode if action.step == 1 else Mode.OVERWRITE,
        **fields,
    )


def pool(about: Addressing, action: PoolRegion, slot: int, table: int | None) -> Step:
    """Return one rectangle of windows of a layer without weights."""
    layer = about.network.layers[action.layer]
    assert isinstance(layer, Pooling)
    if isinstance(layer, Transpose):
        return _transpose(about, action, layer, slot)
    windows = layer.windows[action.windows]
    value, layout = about.network.values[layer.source], about.placement.layouts[layer.source]
    result = about.placement.layouts[layer.result]
    pitch, pixel, depth = layout.pitch, layout.pixel, value.channels
    if layer.seen:
        pitch, pixel, depth = layer.seen[1] * layer.seen[2], layer.seen[2], layer.seen[2]
    left, columns = windows.result[1], windows.count[1]
    block = Block(samples=action.samples, rows=action.rows, columns=(left, left + columns))
    first = windows.source[0] + (action.rows[0] - windows.result[0]) * layer.stride[0]
    last = first + (block.extents[1] - 1) * layer.stride[0] + windows.size[0]
    ends = (windows.source[1] * pixel, windows.ends(layer.stride)[1] * pixel)
    both = action.sub_batch, action.samples
    start = Region(layer.source, *both, (first, last), ends, stripe=action.source)
    base = about.address(start)
    if layer.seen:
        start = _all_of(about, layer.source, action)
        base = about.address(start) + first * pitch + windows.source[1] * pixel
    read = about.access(start, writes=False)
    ends = (left * result.pixel, (left + columns - 1) * result.pixel + depth)
    ends = (ends[0] + layer.first, ends[1] + layer.first)
    written = Region(layer.result, *both, block.rows, ends, stripe=action.result)
    strides = (layout.sample_pitch, layer.stride[0] * pitch, layer.stride[1] * pixel)
    extents, channels = pooled_extents(about, action)
    return vector(
        about,
        action.layer,
        (read, about.access(written, writes=True)),
        slot,
        layer.scalings[windows.parameters],
        table,
        source=Space.UNIFIED,
        destination=Space.UNIFIED,
        channels=channels,
        source_base=base,
        **loops(extents, strides, "source_"),
        window=layer.combine,
        window_x_count=windows.size[1],
        window_y_count=windows.size[0],
        window_x_stride=pixel if windows.size[1] > 1 else 0,
        window_y_stride=pitch if windows.size[0] > 1 else 0,
        **_destination(about, written, extents),
    )


def _transpose(about: Addressing, action: PoolRegion, layer: Transpose, slot: int) -> Step:
    """Return the copy of pixels to a result whose rows are the source's columns."""
    assert layer.seen
    rows, columns, depth = layer.seen
    source, result = (about.placement.layouts[value] for value in (layer.source, layer.result))
    image = about.network.values[layer.source].height > 1
    read, written = (_all_of(about, value, action) for value in (layer.source, layer.result))
    written = written._replace(columns=(0, about.network.values[layer.result].width * result.pixel))
    along = (source.pitch, source.pixel) if image else (columns * depth, depth)
    down = rows * result.pixel if about.network.values[layer.result].height == 1 else result.pitch
    extents = (action.samples[1] - action.samples[0], columns, rows)
    return vector(
        about,
        action.layer,
        (about.access(read, writes=False), about.access(written, writes=True)),
        slot,
        layer.scalings[0],
        source=Space.UNIFIED,
        destination=Space.UNIFIED,
        channels=depth,
        source_base=about.address(read),
        **loops(extents, (source.sample_pitch, along[1], along[0]), "source_"),
        destination_base=about.address(written),
        **_only(loops(extents, (result.sample_pitch, down, result.pixel), "destination_")),
    )


def _pixels(about: Addressing, value: int, block: Block) -> Block:
    """Return the pixels of a value for a block of a sum; one row or column serves all."""
    extents = about.network.values[value]
    rows = block.rows if extents.height > 1 else (0, 1)
    columns = block.columns if extents.width > 1 else (0, 1)
    return Block(samples=block.samples, rows=rows, columns=columns)


def _strides(block: Block, strides: tuple[int, int, int]) -> dict[str, int]:
    """Return strides by axis; a single turn has none."""
    counts = zip("zyx", block.extents, strides, strict=True)
    return {axis: stride if count > 1 else 0 for axis, count, stride in counts}


def _writes(
    about: Addressing,
    value: int,
    block: Block,
    sub_batch: int,
    channels: tuple[int, int],
    stripe: Stripe | None,
) -> Region:
    """Return the region of a block and some channels of a value."""
    pixel = about.placement.layouts[value].pixel
    left, right = block.columns
    columns = (left * pixel + channels[0], (right - 1) * pixel + channels[1])
    return Region(value, sub_batch, block.samples, block.rows, columns, channels, stripe)


def _destination(
    about: Addressing, region: Region, extents: tuple[int, int, int], apart: int = 1
) -> dict[str, int]:
    """Return the destination fields of VECTOR, ``apart`` pixels from x to x."""
    layout = about.placement.layouts[region.value]
    strides = (layout.sample_pitch, layout.pitch, apart * layout.pixel)
    fields = _only(loops(extents, strides, "destination_"))
    return {"destination_base": about.address(region), **fields}


def _only(fields: dict[str, int]) -> dict[str, int]:
    """Return the fields of loops that are strides of the destination."""
    return {name: value for name, value in fields.items() if name.startswith("destination")}


def _all_of(about: Addressing, number: int, action: PoolRegion) -> Region:
    """Return the region of all of a value."""
    value = about.network.values[number]
    columns = (0, value.width * value.channels)
    return Region(number, action.sub_batch, action.samples, (0, value.height), columns)
