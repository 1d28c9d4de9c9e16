"""Which places of which memories an instruction touches, and whether they exist."""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from celosia.hw.arch.config import ADDRESS_BITS, PARAMETER_BYTES, TABLE_BYTES, Config
from celosia.hw.arch.isa import Instruction, Kind, Mode, Opcode, Space
from celosia.sim.addresses import Pattern


class Memory(Enum):
    """A memory; the value names its unit of address."""

    EXTERNAL = "byte"
    UNIFIED = "byte of the unified buffer"
    WEIGHTS = "tile"
    ACCUMULATORS = "sum"
    PARAMETERS = "channel"
    TABLES = "table"


class Touch(NamedTuple):
    """Places of one memory that an instruction reads or writes."""

    memory: Memory
    write: bool
    pattern: Pattern


class OutOfRange(ValueError):
    """An instruction touches what is not there."""


def extent(memory: Memory, config: Config) -> int:
    """Return the number of addresses of a memory.

    Sums of the accumulators are numbered row by row, ``columns`` to a row.
    """
    match memory:
        case Memory.UNIFIED:
            return config.unified_bytes
        case Memory.WEIGHTS:
            return config.weight_tiles
        case Memory.ACCUMULATORS:
            return config.accumulator_rows * config.columns
        case Memory.PARAMETERS:
            return config.parameter_channels
        case Memory.TABLES:
            return config.tables
    return 1 << ADDRESS_BITS


def external_block(i: Instruction) -> Pattern:
    """Return the external side of LOAD and STORE."""
    return Pattern(i.external, [(i.rows, i.external_pitch)], i.length)


def unified_block(i: Instruction) -> Pattern:
    """Return the unified buffer's side of LOAD and STORE."""
    return Pattern(i.unified, [(i.rows, i.unified_pitch)], i.length)


def _pixels(i: Instruction, side: str) -> list[tuple[int, int]]:
    f = i.fields
    return [
        (f["z_count"], f[f"{side}z_stride"]),
        (f["y_count"], f[f"{side}y_stride"]),
        (f["x_count"], f[f"{side}x_stride"]),
    ]


def taps(i: Instruction, config: Config) -> Pattern:
    """Return what MATMUL reads of the unified buffer, loops (z, y, x)."""
    return Pattern(i.unified, _pixels(i, ""), i.taps, i.run, i.skip * config.rows)


def steps(i: Instruction, config: Config) -> int:
    """Return the number of reduction steps, one tile each, of MATMUL."""
    return -(-i.taps // config.rows)


def pixels(i: Instruction) -> int:
    """Return the number of pixels of MATMUL, VECTOR or FILL."""
    return i.x_count * i.y_count * i.z_count


def _of_rows(base: int, loops: list[tuple[int, int]], channels: int, config: Config) -> Pattern:
    width = config.columns
    return Pattern(base * width, [(count, stride * width) for count, stride in loops], channels)


def destination(i: Instruction, config: Config) -> Pattern:
    """Return what VECTOR or FILL writes, loops (z, y, x)."""
    loops = _pixels(i, "destination_")
    if i.opcode is Opcode.VECTOR and i.destination == Space.ACCUMULATORS.value:
        return _of_rows(i.destination_base, loops, i.channels, config)
    jump = i.destination_skip * config.rows
    return Pattern(i.destination_base, loops, i.channels, i.destination_run, jump)


def source(i: Instruction, config: Config, offset: int = 0) -> Pattern:
    """Return one element of the window that VECTOR reads, loops (z, y, x).

    ``offset`` is where the element lies in the window, in bytes or rows.
    """
    loops = _pixels(i, "source_")
    if i.source == Space.ACCUMULATORS.value:
        return _of_rows(i.source_base + offset, loops, i.channels, config)
    jump = i.source_skip * config.rows
    return Pattern(i.source_base + offset, loops, i.channels, i.source_run, jump)


def window(i: Instruction) -> list[int]:
    """Return the offsets, in bytes or rows, of the elements of the window of VECTOR."""
    return [
        y * i.window_y_stride + x * i.window_x_stride
        for y in range(i.window_y_count)
        for x in range(i.window_x_count)
    ]


def _window_source(i: Instruction, config: Config) -> Pattern:
    inner = [(i.window_y_count, i.window_y_stride), (i.window_x_count, i.window_x_stride)]
    loops = _pixels(i, "source_") + inner
    if i.source == Space.ACCUMULATORS.value:
        return _of_rows(i.source_base, loops, i.channels, config)
    jump = i.source_skip * config.rows
    return Pattern(i.source_base, loops, i.channels, i.source_run, jump)


def _matmul(i: Instruction, config: Config) -> list[Touch]:
    count = pixels(i)
    last = i.accumulator + count - 1
    if last // config.accumulator_depth != i.accumulator // config.accumulator_depth:
        low = i.accumulator // config.accumulator_depth * config.accumulator_depth
        high = low + config.accumulator_depth - 1
        raise OutOfRange(f"accumulator: wanted rows {low} to {high} of one half, got {last}")
    sums = Pattern(i.accumulator * config.columns, [], count * config.columns)
    touches = [
        Touch(Memory.UNIFIED, False, taps(i, config)),
        Touch(Memory.WEIGHTS, False, Pattern(i.tile, [], steps(i, config))),
    ]
    if i.accumulate:
        touches.append(Touch(Memory.ACCUMULATORS, False, sums))
    return [*touches, Touch(Memory.ACCUMULATORS, True, sums)]


def _vector(i: Instruction, config: Config) -> list[Touch]:
    spaces = (Memory.UNIFIED, Memory.ACCUMULATORS)
    channels = i.channels if i.per_channel else min(i.channels, config.lanes)
    touches = [
        Touch(spaces[i.source], False, _window_source(i, config)),
        Touch(Memory.PARAMETERS, False, Pattern(i.params, [], channels)),
    ]
    result = destination(i, config)
    if i.destination == Space.UNIFIED.value and i.use_table:
        touches.append(Touch(Memory.TABLES, False, Pattern(i.table, [])))
    if i.destination == Space.ACCUMULATORS.value and i.mode != Mode.OVERWRITE.value:
        touches.append(Touch(Memory.ACCUMULATORS, False, result))
    return [*touches, Touch(spaces[i.destination], True, result)]


def _all_touches(i: Instruction, config: Config) -> list[Touch]:
    match i.opcode:
        case Opcode.LOAD | Opcode.STORE:
            outward = i.opcode is Opcode.STORE
            return [
                Touch(Memory.UNIFIED, not outward, unified_block(i)),
                Touch(Memory.EXTERNAL, outward, external_block(i)),
            ]
        case Opcode.LOAD_WEIGHTS:
            tiles = Pattern(i.external, [], i.tiles * config.tile_bytes)
            return [
                Touch(Memory.EXTERNAL, False, tiles),
                Touch(Memory.WEIGHTS, True, Pattern(i.tile, [], i.tiles)),
            ]
        case Opcode.LOAD_PARAMS:
            channels = i.kind == Kind.CHANNELS.value
            width = PARAMETER_BYTES if channels else TABLE_BYTES
            memory = Memory.PARAMETERS if channels else Memory.TABLES
            return [
                Touch(Memory.EXTERNAL, False, Pattern(i.external, [], i.count * width)),
                Touch(memory, True, Pattern(i.first, [], i.count)),
            ]
        case Opcode.MATMUL:
            return _matmul(i, config)
        case Opcode.VECTOR:
            return _vector(i, config)
        case Opcode.FILL:
            return [Touch(Memory.UNIFIED, True, destination(i, config))]
    return []


def work(i: Instruction, config: Config) -> int:
    """Return how many elements an instruction moves or multiplies, with repetition.

    A FILL that stays where it is writes the same again, and needs no second time.
    """
    if i.opcode is Opcode.FILL:
        return destination(i, config).distinct.size
    if i.opcode is Opcode.VECTOR:
        return _window_source(i, config).size
    return max((touch.pattern.size for touch in _all_touches(i, config)), default=0)


def reach(instructions: Iterable[Instruction], memory: Memory, config: Config) -> int:
    """Return how many units of a memory instructions use, up to the last that they touch.

    Raises
    ------
    OutOfRange
        If some of it lies outside its memory.
    """
    found = (touch for i in instructions for touch in touches(i, config))
    return max((touch.pattern.last + 1 for touch in found if touch.memory is memory), default=0)


def touches(i: Instruction, config: Config) -> list[Touch]:
    """Return everything that an instruction reads and writes.

    Raises
    ------
    OutOfRange
        If some of it lies outside its memory: what a core reports as ``Error.RANGE``.
    """
    found = _all_touches(i, config)
    for memory, _, pattern in found:
        limit = extent(memory, config)
        if pattern.last >= limit:
            raise OutOfRange(
                f"wanted {memory.name.lower()} up to {memory.value} {limit - 1}, got {pattern.last}"
            )
    return found
