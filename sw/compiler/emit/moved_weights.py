"""Instructions of products of two computed matrices."""

from celosia.hw.arch.isa import Instruction, Opcode, Space
from celosia.sw.compiler.emit.access import Step, span
from celosia.sw.compiler.emit.addressing import Addressing, loops
from celosia.sw.compiler.emit.vector import vector
from celosia.sw.compiler.layout.scratch import tile_columns
from celosia.sw.compiler.schedule.actions import MoveWeights, MultiplyMoved, Region, SpreadSums
from celosia.sw.layers.grids import Addend, Reads
from celosia.sw.layers.spec import DynamicProduct, Range
from celosia.sw.layers.terms import Term

_Fields = dict[str, int]


def move_weights(about: Addressing, action: MoveWeights) -> Step:
    """Return the move of tiles from the unified buffer: a pixel for each tap."""
    layer = about.network.layers[action.layer]
    assert isinstance(layer, DynamicProduct)
    channels, taps = about.channels(action.layer, action.tile), _taps(about, layer, action)
    if action.term is Term.LINES:
        region = _constant(about, layer, action, channels[1] - channels[0])
        fields = loops((1, 1, about.config.rows), (0, 0, 0))
    else:
        region, fields = _vectors(about, layer, action, 1, taps, channels)
    instruction = Instruction(
        Opcode.MOVE_WEIGHTS,
        unified=about.address(region),
        taps=channels[1] - channels[0],
        tile=action.slot,
        **fields,
    )
    accesses = (
        about.access(region, writes=False),
        span("weights", True, action.slot, action.last_step - action.first_step),
    )
    return Step(instruction, accesses, action.layer)


def multiply_moved(about: Addressing, action: MultiplyMoved) -> Step:
    """Return a pass over tiles made of activations: a pixel for each row."""
    layer = about.network.layers[action.layer]
    assert isinstance(layer, DynamicProduct)
    taps = _taps(about, layer, action)
    if isinstance(action.term, Addend):
        taps, region, fields = _addend(about, action, action.term)
    elif action.term is Term.COLUMNS:
        region = _constant(about, layer, action, taps[1] - taps[0])
        fields = loops((1, 1, action.rows[1] - action.rows[0]), (0, 0, 0))
    else:
        region, fields = _vectors(about, layer, action, 0, action.rows, taps)
    instruction = Instruction(
        Opcode.MATMUL,
        unified=about.address(region),
        taps=taps[1] - taps[0],
        tile=action.slot,
        accumulator=action.half * about.config.accumulator_depth + action.accumulator,
        accumulate=int(action.accumulate),
        **fields,
    )
    accesses = (
        about.access(region, writes=False),
        span("weights", False, action.slot, action.last_step - action.first_step),
        about.half(action.half, writes=True),
    )
    return Step(instruction, accesses, action.layer)


def spread_sums(about: Addressing, action: SpreadSums, slot: int) -> Step:
    """Return the copy of a row of sums to others."""
    layer = about.network.layers[action.layer]
    assert isinstance(layer, DynamicProduct)
    base = action.half * about.config.accumulator_depth
    # Passes add to all columns, but results have those of a tile alone.
    columns = tile_columns(about.config) if action.each else about.config.columns
    return vector(
        about,
        action.layer,
        (about.half(action.half, writes=True),),
        slot,
        layer.scalings[1],
        each=columns if action.each else 0,
        source=Space.ACCUMULATORS,
        destination=Space.ACCUMULATORS,
        channels=columns,
        source_base=base + action.row,
        **loops((1, 1, action.rows), (0, 0, int(action.each)), "source_"),
        destination_base=base + action.accumulator,
        destination_x_stride=int(action.rows > 1),
    )


def _taps(about: Addressing, layer: DynamicProduct, action: MoveWeights | MultiplyMoved) -> Range:
    """Return the first tap of an action's steps, and the one after the last."""
    rows = about.config.rows
    taps = layer.taps_of(action.group) * action.groups
    return action.first_step * rows, min(action.last_step * rows, taps)


def _vectors(
    about: Addressing,
    layer: DynamicProduct,
    action: MoveWeights | MultiplyMoved,
    side: int,
    pixels: Range,
    lanes: Range,
) -> tuple[Region, _Fields]:
    """Return a region of a head's first or second matrix, and the fields of its pixels.

    ``pixels`` are rows of the matrix, ``lanes`` columns; if it lies turned in its value, the
    bytes of a pixel are in several rows of that, one in each.
    """
    value, turned = layer.first_of(action.group), layer.turned[side]
    if side:
        value = layer.tiles_of(Term.PRODUCT, action.group)
    if layer.reads and not side:
        return _windows(about, layer, layer.reads, action, pixels, lanes)
    height, width = layer.extents[side]
    found, layout = about.network.values[value], about.placement.layouts[value]
    pitch = layout.pixel if found.channels == width or layer.reads else width
    matrix = layer.matrices[side][action.head]
    # In a flat value, a matrix follows the one before.
    row, before = (matrix, 0) if found.height > 1 else (0, matrix * height)
    rows, columns = (lanes, pixels) if turned else (pixels, lanes)
    if side and layer.column:
        columns = columns[0] + layer.column, columns[1] + layer.column
    if side and layer.reads:
        before = layer.reads.groups[action.group % layer.groups_of_pair].row
    first = (before + rows[0]) * pitch + columns[0]
    ends = first, (before + rows[1] - 1) * pitch + columns[1]
    region = Region(value, action.sub_batch, action.block.samples, (row, row + 1), ends)
    fields = loops((1, 1, pixels[1] - pixels[0]), (0, 0, 1 if turned else pitch))
    if turned:
        fields |= {"run": 1, "skip": (pitch - 1) // about.config.rows}
    return region, fields


def _windows(
    about: Addressing,
    layer: DynamicProduct,
    reads: Reads,
    action: MoveWeights | MultiplyMoved,
    rows: Range,
    taps: Range,
) -> tuple[Region, _Fields]:
    """Return the region of windows of a grid: all of it from the first byte on, and the loops."""
    number = layer.first_of(action.group)
    layout, value = about.placement.layouts[number], about.network.values[number]
    (outer, middle), counts = reads.box(rows)
    group = reads.groups[action.group % layer.groups_of_pair]
    first = outer * reads.strides[0] + middle * reads.strides[1] + group.pixel
    inner = 1 if layer.turned[0] else reads.strides[2] * layout.pixel
    strides = (reads.strides[0] * layout.pixel, reads.strides[1] * layout.pixel, inner)
    start = first * layout.pixel + taps[0] * (layout.pixel if layer.turned[0] else 1)
    start += group.column
    samples, ends = action.block.samples, (start, value.width * layout.pixel)
    fields = loops(counts, strides)
    if layer.turned[0]:
        fields |= {"run": 1, "skip": (layout.pixel - 1) // about.config.rows}
    elif action.groups > 1:
        fields |= {"run": reads.taps, "skip": reads.jump(layout.pixel, about.config.rows)[1]}
    return Region(number, action.sub_batch, samples, (0, 1), ends), fields


def _addend(
    about: Addressing, action: MultiplyMoved, addend: Addend
) -> tuple[Range, Region, _Fields]:
    """Return the channels of an output tile of an addend, their region, and the loops over it."""
    layer = about.network.layers[action.layer]
    assert isinstance(layer, DynamicProduct)
    first, last = about.channels(action.layer, action.tile)
    start, count = (addend.first + first) % addend.columns, last - first
    value, layout = about.network.values[addend.value], about.placement.layouts[addend.value]
    pitch = layout.pixel if value.channels == addend.columns else addend.columns
    rows = action.rows if addend.rows > 1 else (0, 1)
    columns = rows[0] * pitch + start, (rows[1] - 1) * pitch + start + count
    samples = action.block.samples
    region = Region(addend.value, action.sub_batch, samples, (0, 1), columns)
    turns, stride = action.rows[1] - action.rows[0], pitch if addend.rows > 1 else 0
    if addend.repeats:
        pixel, counts, strides = addend.repeats.box(action.rows)
        first = pixel * pitch + start
        last = sum((n - 1) * stride for n, stride in zip(counts, strides, strict=True))
        region = region._replace(columns=(first, first + last * pitch + count))
        down, right, _ = strides
        return (0, count), region, loops(counts, (down * pitch, right * pitch, 0))
    reads = layer.reads
    if reads and addend.rows not in (1, reads.rows):
        # The rows of an image begin one after those of the image before.
        (outer, middle), counts = reads.box(action.rows)
        first = (outer + middle * counts[2]) * pitch + start
        region = region._replace(columns=(first, addend.rows * pitch))
        return (0, count), region, loops(counts, (pitch, counts[2] * pitch, pitch))
    return (0, count), region, loops((1, 1, turns), (0, 0, stride))


def _constant(
    about: Addressing, layer: DynamicProduct, action: MoveWeights | MultiplyMoved, count: int
) -> Region:
    """Return the region of some bytes of the constant of a term."""
    assert isinstance(action.term, Term)
    term = {Term.COLUMNS: layer.columns, Term.LINES: layer.lines}[action.term]
    assert term
    return Region(term.value, action.sub_batch, action.block.samples, (0, 1), (0, count))
