"""Instructions that move bytes, and those that write margins."""

from collections.abc import Iterator

from celosia.hw.arch.config import PARAMETER_BYTES
from celosia.hw.arch.isa import Instruction, Kind, Opcode
from celosia.sw.compiler.emit.access import Access, Step, span
from celosia.sw.compiler.emit.addressing import Addressing
from celosia.sw.compiler.layout.tile import copied_parameters
from celosia.sw.compiler.schedule.actions import Fetch, Region
from celosia.sw.layers.spec import DynamicProduct

#: Bytes that one pixel of FILL may have.
_MOST_CHANNELS = (1 << 16) - 1


def constants(about: Addressing, fetch: Fetch) -> Step:
    """Return a load of tiles, channel parameters or tables."""
    place, memory = about.placement, fetch.memory
    by_layer = {"weights": place.weights, "parameters": place.parameters}
    base = by_layer[memory][fetch.layer] if memory in by_layer else place.tables
    external = base + fetch.offset(about.config)
    layer = about.network.layers[fetch.layer]
    if memory == "parameters" and isinstance(layer, DynamicProduct) and layer.stepped >= 0:
        copied = copied_parameters(layer, about.tiling.layers[fetch.layer])
        if fetch.first >= copied:
            external = place.stepped[fetch.layer] + (fetch.first - copied) * PARAMETER_BYTES
    fields = {"external": external}
    if memory == "weights":
        i = Instruction(Opcode.LOAD_WEIGHTS, **fields, tile=fetch.slot, tiles=fetch.count)
    else:
        fields |= {"kind": Kind.CHANNELS if memory == "parameters" else Kind.TABLES}
        i = Instruction(Opcode.LOAD_PARAMS, **fields, first=fetch.slot, count=fetch.count)
    return Step(i, (span(memory, True, fetch.slot, fetch.count),), fetch.layer)


def move(about: Addressing, opcode: Opcode, region: Region, layer: int) -> Iterator[Step]:
    """Yield loads or stores of a region; those of single pixels if they do not lie side by side."""
    value, layout = about.network.values[region.value], about.placement.layouts[region.value]
    apart = region.channels or value.pitch or layout.pixel != value.channels
    yield from (_pixels if apart else _rows)(about, opcode, region, layer)


def _pixels(about: Addressing, opcode: Opcode, region: Region, layer: int) -> Iterator[Step]:
    """Yield moves of channels of each pixel of whole rows, or of a part of one row."""
    value = about.network.values[region.value]
    layout = about.placement.layouts[region.value]
    first, last = region.channels or (0, value.channels)
    rows, pitch = region.rows[1] - region.rows[0], value.pitch or value.channels
    start, end = (column // layout.pixel for column in region.columns)
    rows_at_once = rows if layout.pitch == value.width * layout.pixel else 1
    for row in range(region.rows[0], region.rows[1], rows_at_once):
        some = region._replace(rows=(row, row + rows_at_once))
        external = about.placement.external[region.value] + (row * value.width + start) * pitch
        if value.is_output:
            external += region.samples[0] * value.bytes_per_item
        instruction = Instruction(
            opcode,
            external=external + first,
            unified=about.address(some) + first,
            external_pitch=pitch,
            unified_pitch=layout.pixel,
            rows=rows_at_once * (end - start),
            length=last - first,
        )
        count = rows_at_once * (end - start) * pitch
        loads = opcode is Opcode.LOAD
        accesses = (about.access(some, writes=loads), span("external", not loads, external, count))
        yield Step(instruction, accesses, layer)


def _rows(about: Addressing, opcode: Opcode, region: Region, layer: int) -> Iterator[Step]:
    """Yield a load or store; rows that are contiguous on both ends become one row."""
    value = about.network.values[region.value]
    layout = about.placement.layouts[region.value]
    vector = value.height == 1
    row_bytes = value.width * value.channels
    external = about.placement.external[region.value] + region.rows[0] * row_bytes
    external += region.columns[0]
    constant = value.contents is not None
    if (value.is_input or value.is_output) and not constant:
        external += region.samples[0] * value.bytes_per_item
    ends = region.samples if vector else region.rows
    rows, length = ends[1] - ends[0], region.columns[1] - region.columns[0]
    pitch = layout.sample_pitch if vector else layout.pitch
    # All samples have the same constants.
    outside = 0 if vector and constant else row_bytes
    fields = {"external": external, "unified": about.address(region)}
    if rows == 1 or length == outside == pitch:
        fields["length"] = length * rows
    else:
        fields["length"] = length
        fields["rows"] = rows
        fields["external_pitch"] = outside
        fields["unified_pitch"] = pitch
    accesses = [about.access(region, writes=opcode is Opcode.LOAD)]
    if (region.stripe and not value.is_input) or region.value in about.network.reloaded:
        count = rows * row_bytes
        accesses.append(span("external", opcode is Opcode.STORE, external, count))
    yield Step(Instruction(opcode, **fields), tuple(accesses), layer)


def fill(about: Addressing, region: Region, layer: int) -> Iterator[Step]:
    """Yield the steps that fill the margins of a region: whole rows of one sample."""
    value, layout = about.network.values[region.value], about.placement.layouts[region.value]
    row_bytes = value.width * layout.pixel
    left, right = layout.left * layout.pixel, layout.right * layout.pixel
    start = min(max(region.rows[0], 0), region.rows[1])
    inside = start, max(min(region.rows[1], value.height), start)
    above, below = inside[0] - region.rows[0], region.rows[1] - inside[1]
    address = about.address(region._replace(columns=(-left, 0)))
    middle = address + above * layout.pitch
    rows = inside[1] - inside[0]
    after = layout.after if region.rows[1] == value.height + layout.bottom else 0
    if region.stripe:
        after = 0 if about.passage(region.value) else layout.beyond
    rectangles = (
        (address, above, layout.pitch),
        (middle, rows, left),
        (middle + left + row_bytes, rows, right),
        (middle + rows * layout.pitch, below, layout.pitch),
        (middle + (rows + below) * layout.pitch, 1, after * layout.pixel),
    )
    for start, rows, length in rectangles:
        for first in range(0, length if rows else 0, _MOST_CHANNELS):
            count = min(_MOST_CHANNELS, length - first)
            instruction = Instruction(
                Opcode.FILL,
                y_count=rows,
                channels=count,
                destination_base=start + first,
                destination_y_stride=layout.pitch if rows > 1 else 0,
                value=value.fill,
            )
            base = start + first
            access = Access("unified", True, base, layout.pitch, 0, rows, 0, count)
            yield Step(instruction, (access,), layer)
