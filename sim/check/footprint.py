"""Footprints of instructions: the addresses of each memory that they touch, and their limits."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from celosia.hw.arch.config import (
    ADDRESS_BITS,
    EXPONENTIAL_TABLES,
    PARAMETER_BYTES,
    TABLE_BYTES,
    Config,
)
from celosia.hw.arch.isa import FORMATS, Instruction, Kind, Mode, Opcode, Space
from celosia.sim.check.addresses import Pattern


class Memory(Enum):
    """Memory of a core; the value names one address of it."""

    EXTERNAL = "external memory byte"
    UNIFIED = "unified buffer byte"
    WEIGHTS = "weight tile"
    ACCUMULATORS = "sum"
    PARAMETERS = "parameters of channel"
    TABLES = "table"


class Touch(NamedTuple):
    """Addresses of one memory that an instruction reads or writes."""

    memory: Memory
    write: bool
    pattern: Pattern


class OutOfRange(ValueError):
    """Instruction that touches an address outside its memory."""


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
            return config.table_slots
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
    """Return the bytes that MATMUL or MOVE_WEIGHTS reads in the unified buffer, loops (z, y, x)."""
    return Pattern(i.unified, _pixels(i, ""), i.taps, i.run, i.skip * config.rows)


def steps(i: Instruction, config: Config) -> int:
    """Return the number of reads for a pixel of MATMUL, one tile each, or of MOVE_WEIGHTS."""
    return -(-i.taps // config.rows)


def pixels(i: Instruction) -> int:
    """Return the number of pixels of MATMUL, MOVE_WEIGHTS, VECTOR or FILL."""
    f = i.fields
    return f["x_count"] * f["y_count"] * f["z_count"]


def _of_rows(base: int, loops: list[tuple[int, int]], channels: int, config: Config) -> Pattern:
    width = config.columns
    return Pattern(base * width, [(count, stride * width) for count, stride in loops], channels)


def destination(i: Instruction, config: Config) -> Pattern:
    """Return the addresses that VECTOR or FILL writes, loops (z, y, x)."""
    loops = _pixels(i, "destination_")
    if i.opcode is Opcode.VECTOR and i.destination == Space.ACCUMULATORS.value:
        return _of_rows(i.destination_base, loops, i.channels, config)
    jump = i.destination_skip * config.rows
    return Pattern(i.destination_base, loops, i.channels, i.destination_run, jump)


def source(i: Instruction, config: Config, offset: int = 0) -> Pattern:
    """Return the addresses of one element of the window that VECTOR reads, loops (z, y, x).

    ``offset`` is that of the element in the window, in bytes or rows.
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


@dataclass(frozen=True, eq=False)
class _RelativeTouch:
    """Touch relative to a field of the instruction.

    ``memory``, ``write``: as in ``Touch``; ``field``: field with the base address, in rows for the
    accumulators, or empty; ``pattern``: addresses from base 0, or from their own.
    """

    memory: Memory
    write: bool
    field: str
    pattern: Pattern


#: Fields that no footprint depends on.
_IGNORED = {"wait", "post", "rounding", "zero_point", "low", "high", "value"}

#: Fields that are the base of some touch; all others determine the shape of a footprint.
_BASES = {
    "external",
    "unified",
    "tile",
    "first",
    "accumulator",
    "source_base",
    "destination_base",
    "params",
    "table",
}
#: Getters of the fields that determine the shape, for opcodes that touch memories.
_OF_SHAPE = {
    opcode: itemgetter(*names)
    for opcode, fields in FORMATS.items()
    if (names := [field.name for field in fields if field.name not in _BASES | _IGNORED])
}


def _matmul(i: Instruction, config: Config) -> list[_RelativeTouch]:
    sums = Pattern(0, [], pixels(i) * config.columns)
    touches = [
        _RelativeTouch(Memory.UNIFIED, False, "unified", taps(i, config)),
        _RelativeTouch(Memory.WEIGHTS, False, "tile", Pattern(0, [], steps(i, config))),
    ]
    if i.accumulate:
        touches.append(_RelativeTouch(Memory.ACCUMULATORS, False, "accumulator", sums))
    return [*touches, _RelativeTouch(Memory.ACCUMULATORS, True, "accumulator", sums)]


def _move_weights(i: Instruction, config: Config) -> list[_RelativeTouch]:
    tiles = -(-pixels(i) // config.rows)
    return [
        _RelativeTouch(Memory.UNIFIED, False, "unified", taps(i, config)),
        _RelativeTouch(Memory.WEIGHTS, True, "tile", Pattern(0, [], tiles)),
    ]


def _vector(i: Instruction, config: Config) -> list[_RelativeTouch]:
    spaces = (Memory.UNIFIED, Memory.ACCUMULATORS)
    channels = i.channels if i.per_channel else min(i.channels, config.lanes)
    touches = [
        _RelativeTouch(spaces[i.source], False, "source_base", _window_source(i, config)),
        _RelativeTouch(Memory.PARAMETERS, False, "params", Pattern(0, [], channels)),
    ]
    result = destination(i, config)
    if i.destination == Space.UNIFIED.value and i.use_table:
        touches.append(_RelativeTouch(Memory.TABLES, False, "table", Pattern(0, [])))
    if i.destination == Space.ACCUMULATORS.value and i.mode != Mode.OVERWRITE.value:
        touches.append(_RelativeTouch(Memory.ACCUMULATORS, False, "destination_base", result))
    return [*touches, _RelativeTouch(spaces[i.destination], True, "destination_base", result)]


def copy_of(i: Instruction) -> Instruction:
    """Return the VECTOR that reads and writes the bytes of a SOFTMAX in the same order."""
    return Instruction(Opcode.VECTOR, **i.fields)


def _softmax(i: Instruction, config: Config) -> list[_RelativeTouch]:
    copy, exponentials = copy_of(i), Pattern(config.tables, [], EXPONENTIAL_TABLES)
    return [
        _RelativeTouch(Memory.UNIFIED, False, "source_base", source(copy, config)),
        _RelativeTouch(Memory.TABLES, False, "", exponentials),
        _RelativeTouch(Memory.UNIFIED, True, "destination_base", destination(copy, config)),
    ]


def _relative_touches(i: Instruction, config: Config) -> list[_RelativeTouch]:
    """Return the touches of an instruction whose bases are all 0."""
    match i.opcode:
        case Opcode.LOAD | Opcode.STORE:
            outward = i.opcode is Opcode.STORE
            return [
                _RelativeTouch(Memory.UNIFIED, not outward, "unified", unified_block(i)),
                _RelativeTouch(Memory.EXTERNAL, outward, "external", external_block(i)),
            ]
        case Opcode.LOAD_WEIGHTS:
            tiles = Pattern(0, [], i.tiles * config.tile_bytes)
            return [
                _RelativeTouch(Memory.EXTERNAL, False, "external", tiles),
                _RelativeTouch(Memory.WEIGHTS, True, "tile", Pattern(0, [], i.tiles)),
            ]
        case Opcode.LOAD_PARAMS:
            channels = i.kind == Kind.CHANNELS.value
            width = PARAMETER_BYTES if channels else TABLE_BYTES
            memory = Memory.PARAMETERS if channels else Memory.TABLES
            return [
                _RelativeTouch(Memory.EXTERNAL, False, "external", Pattern(0, [], i.count * width)),
                _RelativeTouch(memory, True, "first", Pattern(0, [], i.count)),
            ]
        case Opcode.MATMUL:
            return _matmul(i, config)
        case Opcode.MOVE_WEIGHTS:
            return _move_weights(i, config)
        case Opcode.VECTOR:
            return _vector(i, config)
        case Opcode.SOFTMAX:
            return _softmax(i, config)
        case Opcode.FILL:
            return [
                _RelativeTouch(Memory.UNIFIED, True, "destination_base", destination(i, config))
            ]
        case Opcode.NOP | Opcode.FENCE | Opcode.HALT:
            return []


class Footprints:
    """Footprints on one core; those that differ only in their bases are computed once.

    Equal touches of instructions of one shape are one object while the cache holds it.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.known: dict[object, list[_RelativeTouch]] = {}
        self.resolved: dict[tuple[_RelativeTouch, int], Touch] = {}

    def relative(self, i: Instruction) -> list[_RelativeTouch]:
        """Return the touches of an instruction, relative to its bases."""
        of_shape = _OF_SHAPE.get(i.opcode)
        if of_shape is None:
            return []
        key = of_shape, of_shape(i.fields)
        relative = self.known.get(key)
        if relative is None:
            fields = i.fields | dict.fromkeys(_BASES & i.fields.keys(), 0)
            relative = _relative_touches(Instruction.of(i.opcode, fields), self.config)
            if len(self.known) >= _MOST_KNOWN:
                self.known.clear()
            self.known[key] = relative
        return relative

    def touches(self, i: Instruction, only: Memory | None = None) -> list[Touch]:
        """Return the touches of an instruction, see the function ``touches``."""
        if i.opcode is Opcode.MATMUL:
            _require_half(i, self.config)
        elif i.opcode is Opcode.MOVE_WEIGHTS:
            _require_counts(i, self.config)
        fields, known = i.fields, self.resolved
        return [
            known.get((touch, base)) or self._touch(touch, base)
            for touch in self.relative(i)
            if only is None or touch.memory is only
            for base in [fields[touch.field] if touch.field else touch.pattern.base]
        ]

    def _touch(self, relative: _RelativeTouch, base: int) -> Touch:
        """Return the touch from a base; raises OutOfRange if it ends outside its memory."""
        memory, last = relative.memory, extent(relative.memory, self.config) - 1
        unit = self.config.columns if memory is Memory.ACCUMULATORS else 1
        pattern = relative.pattern.at(base * unit)
        if pattern.last > last:
            requirement = f"up to {memory.value} {last}"
            raise OutOfRange(f"wanted {requirement}, got {pattern.last}")
        if len(self.resolved) >= _MOST_KNOWN:
            self.resolved.clear()
        touch = self.resolved[relative, base] = Touch(memory, relative.write, pattern)
        return touch


#: Most shapes of instruction, and most touches, in a cache.
_MOST_KNOWN = 1 << 14

footprints = lru_cache(maxsize=8)(Footprints)


def work(i: Instruction, config: Config) -> int:
    """Return the number of elements that an instruction moves or multiplies, with repetition.

    Repetitions of a FILL do not count, because it writes the same value again.
    """
    touched = footprints(config).relative(i)
    if i.opcode is Opcode.FILL:
        return touched[-1].pattern.distinct.size
    if i.opcode is Opcode.VECTOR:
        return touched[0].pattern.size
    return max((touch.pattern.size for touch in touched), default=0)


def results(i: Instruction, config: Config) -> int:
    """Return the number of elements that an instruction writes, with repetition."""
    return footprints(config).relative(i)[-1].pattern.size


def reach(instructions: Iterable[Instruction], memory: Memory, config: Config) -> int:
    """Return the addresses of a memory that instructions need, up to the last that they touch.

    Raises ``OutOfRange`` if some of it lies outside its memory.
    """
    all_touches = (touch for i in instructions for touch in touches(i, config))
    return max(
        (touch.pattern.last + 1 for touch in all_touches if touch.memory is memory), default=0
    )


def touches(i: Instruction, config: Config, only: Memory | None = None) -> list[Touch]:
    """Return all touches of an instruction, or ``only`` those of one memory.

    Raises ``OutOfRange`` if some address lies outside its memory; a core reports that as
    ``Error.RANGE``.
    """
    return footprints(config).touches(i, only)


def _require_half(i: Instruction, config: Config) -> None:
    """Refuse a MATMUL whose sums are not all in one half of the accumulators."""
    first, depth = i.fields["accumulator"], config.accumulator_depth
    last = first + pixels(i) - 1
    if last // depth != first // depth:
        low = first // depth * depth
        requirement = f"rows {low} to {low + depth - 1} of one half"
        raise OutOfRange(f"accumulator: wanted {requirement}, got {last}")


def _require_counts(i: Instruction, config: Config) -> None:
    """Refuse a MOVE_WEIGHTS with a count that the counters of the matrix unit cannot hold."""
    last = config.accumulator_rows - 1
    for name in ("x_count", "y_count", "z_count"):
        if i.fields[name] > last:
            raise OutOfRange(f"{name}: wanted 1 to {last}, got {i.fields[name]}")
