"""Formats of the instructions: opcodes, enumerations, fields, layouts and the limits of fields.

One table, ``FORMATS``, declares every field; encoder, decoder, assembler, machine model, gateware
and the reference page all read it, through ``celosia.hw.arch.isa``.
"""

from functools import cache
from typing import NamedTuple

from amaranth.hdl import ShapeLike, signed, unsigned
from amaranth.lib import data, enum

from celosia.hw.arch.config import (
    ADDRESS_BITS,
    PARAMETER_BYTES,
    SEMAPHORES,
    SOFTMAX_ELEMENTS,
    SOFTMAX_ROWS,
    Config,
)


class Opcode(enum.Enum, shape=8):
    """Operation of an instruction. Zero is no opcode, so that blank memory does not run."""

    # Members are dictionary keys several times for each instruction: identity is the faster hash.
    __hash__ = object.__hash__

    NOP = 1
    FENCE = 2
    HALT = 3
    LOAD = 4
    LOAD_WEIGHTS = 5
    LOAD_PARAMS = 6
    STORE = 7
    MATMUL = 8
    VECTOR = 9
    FILL = 10
    MOVE_WEIGHTS = 11
    SOFTMAX = 12


class Unit(enum.Enum, shape=3):
    """Unit that executes an instruction or noticed an error."""

    __hash__ = object.__hash__

    SEQUENCER = 0
    LOAD = 1
    STORE = 2
    MATRIX = 3
    VECTOR = 4


class Error(enum.Enum, shape=4):
    """Reason for which the core stopped."""

    NONE = 0
    OPCODE = 1
    FIELD = 2
    RANGE = 3
    BUS = 4
    WATCHDOG = 5
    SEMAPHORE = 6
    PROGRAM = 7
    MEMORY = 8


class Kind(enum.Enum, shape=1):
    """Content that LOAD_PARAMS loads."""

    CHANNELS = 0
    TABLES = 1


class Space(enum.Enum, shape=1):
    """Memory that VECTOR reads or writes."""

    UNIFIED = 0
    ACCUMULATORS = 1


class Window(enum.Enum, shape=1):
    """Operation of VECTOR on the elements of a window."""

    MAX = 0
    SUM = 1


class Mode(enum.Enum, shape=3):
    """Effect of VECTOR on the accumulators that it writes."""

    OVERWRITE = 0
    ADD = 1
    MAX = 2
    MULTIPLY = 3
    SQUARED_DIFFERENCE = 4


#: Modes of cores with ``elementwise_products``.
PRODUCT_MODES = (Mode.MULTIPLY, Mode.SQUARED_DIFFERENCE)

#: Lower bits of a factor, signed, that count: a difference of two int8 with 7 bits after the point.
FACTOR_BITS = 16


class Rounding(enum.Enum, shape=1):
    """Rounding of the requantiser, see ``docs/design/arithmetic.md``."""

    DOUBLE = 0
    SINGLE = 1


class Field(NamedTuple):
    """One field of an instruction.

    ``shape`` is a width in bits, negative for a signed field, or an enumeration; ``default`` is
    the value of a field that is not given.
    """

    name: str
    shape: int | type[enum.Enum]
    default: int
    text: str

    @property
    def amaranth_shape(self) -> ShapeLike:
        """Amaranth shape of the field."""
        if not isinstance(self.shape, int):
            return self.shape
        return unsigned(self.shape) if self.shape > 0 else signed(-self.shape)

    @property
    def representable(self) -> tuple[int, int]:
        """Least and greatest value that the field's bits can hold."""
        if not isinstance(self.shape, int):
            members = [int(member.value) for member in self.shape]
            return min(members), max(members)
        if self.shape < 0:
            return -(1 << (-self.shape - 1)), (1 << (-self.shape - 1)) - 1
        return 0, (1 << self.shape) - 1


#: Widths of fields that several instructions share, in bits.
UNIFIED_BITS = 25
COUNT_BITS = 16
TAPS_BITS = 20

HEADER_FIELDS = (
    Field("opcode", Opcode, 0, "operation"),
    Field("wait", SEMAPHORES, 0, "semaphores to take one count from, all at once, before starting"),
    Field("post", SEMAPHORES, 0, "semaphores to add one count to, after finishing"),
)

_BLOCK = (
    Field("external", ADDRESS_BITS, 0, "byte address of the first row in external memory"),
    Field("external_pitch", ADDRESS_BITS, 0, "bytes from row to row in external memory"),
    Field("unified", UNIFIED_BITS, 0, "byte address of the first row in the unified buffer"),
    Field("unified_pitch", UNIFIED_BITS, 0, "bytes from row to row in the unified buffer"),
    Field("rows", COUNT_BITS, 1, "rows"),
    Field("length", UNIFIED_BITS, 1, "bytes of each row"),
)

_PIXELS = (
    Field("x_count", COUNT_BITS, 1, "pixels, innermost loop"),
    Field("y_count", COUNT_BITS, 1, "rows of pixels"),
    Field("z_count", COUNT_BITS, 1, "images, outermost loop"),
)


def _strides(side: str, text: str, axes: str = "xyz") -> tuple[Field, ...]:
    return tuple(
        Field(f"{side}{axis}_stride", UNIFIED_BITS, 0, f"{text} from one {axis} to the next")
        for axis in axes
    )


def _vectors(taps: str) -> tuple[Field, ...]:
    """Return the fields of the vectors that the matrix unit reads, one for each pixel."""
    return (
        Field("unified", UNIFIED_BITS, 0, "byte address of tap 0 of the first pixel"),
        *_PIXELS,
        *_strides("", "bytes"),
        Field("taps", TAPS_BITS, 1, taps),
        Field("run", TAPS_BITS, (1 << TAPS_BITS) - 1, "taps that lie side by side"),
        Field("skip", COUNT_BITS, 0, "rows of R bytes left out after each run"),
    )


_DESTINATION = (
    Field("destination_base", UNIFIED_BITS, 0, "byte address, or row of the accumulators"),
    *_strides("destination_", "bytes, or rows of the accumulators,"),
    Field("destination_run", COUNT_BITS, (1 << COUNT_BITS) - 1, "channels that lie side by side"),
    Field("destination_skip", COUNT_BITS, 0, "rows of R bytes left out after each run"),
)

#: Fields of each instruction after the header, least significant first.
FORMATS: dict[Opcode, tuple[Field, ...]] = {
    Opcode.NOP: (),
    Opcode.FENCE: (),
    Opcode.HALT: (),
    Opcode.LOAD: _BLOCK,
    Opcode.LOAD_WEIGHTS: (
        Field("external", ADDRESS_BITS, 0, "byte address of the first tile in external memory"),
        Field("tile", COUNT_BITS, 0, "first tile of the weight buffer"),
        Field("tiles", COUNT_BITS, 1, "tiles"),
    ),
    Opcode.LOAD_PARAMS: (
        Field("external", ADDRESS_BITS, 0, "byte address in external memory"),
        Field("kind", Kind, 0, "channels' parameters, or tables"),
        Field("first", COUNT_BITS, 0, "first channel, or first table"),
        Field("count", COUNT_BITS, 1, "channels, or tables"),
    ),
    Opcode.STORE: _BLOCK,
    Opcode.MATMUL: (
        *_vectors("length K of the reduction; lanes past it read zero"),
        Field("tile", COUNT_BITS, 0, "tile of the first reduction step; the others follow it"),
        Field("accumulator", COUNT_BITS, 0, "row of the accumulators for the first pixel"),
        Field("accumulate", 1, 0, "1: the first step adds to the accumulators; 0: it overwrites"),
    ),
    Opcode.VECTOR: (
        Field("source", Space, 0, "memory of the elements"),
        Field("destination", Space, 0, "memory of the results"),
        *_PIXELS,
        Field("channels", COUNT_BITS, 1, "channels of each pixel"),
        Field("source_base", UNIFIED_BITS, 0, "byte address, or row of the accumulators"),
        *_strides("source_", "bytes, or rows of the accumulators,"),
        Field("source_run", COUNT_BITS, (1 << COUNT_BITS) - 1, "channels that lie side by side"),
        Field("source_skip", COUNT_BITS, 0, "rows of R bytes left out after each run"),
        Field("window", Window, 0, "combination of the elements of a window, as int32"),
        Field("window_x_count", 8, 1, "elements of the window, innermost loop"),
        Field("window_y_count", 8, 1, "rows of the window"),
        *_strides("window_", "bytes, or rows of the accumulators,", "xy"),
        *_DESTINATION,
        Field("mode", Mode, 0, "operation on the accumulators written"),
        Field("params", COUNT_BITS, 0, "channel of the parameter memory for channel 0"),
        Field("per_channel", 1, 0, "1: each channel has its parameters; 0: each lane has its own"),
        Field("rounding", Rounding, 0, "rounding of the requantiser"),
        Field("zero_point", -8, 0, "added after requantising, unified buffer only"),
        Field("low", -8, -128, "least result, unified buffer only"),
        Field("high", -8, 127, "greatest result, unified buffer only"),
        Field("use_table", 1, 0, "1: results pass through a table, unified buffer only"),
        Field("table", 8, 0, "table"),
    ),
    Opcode.FILL: (
        *_PIXELS,
        Field("channels", COUNT_BITS, 1, "bytes of each pixel"),
        *_DESTINATION,
        Field("value", -8, 0, "the constant"),
    ),
    Opcode.MOVE_WEIGHTS: (
        *_vectors("bytes of each row of a tile; columns past them become zero"),
        Field("tile", COUNT_BITS, 0, "tile of the first R pixels; the others follow it"),
    ),
    Opcode.SOFTMAX: (
        Field("x_count", COUNT_BITS, 1, "rows"),
        Field("channels", COUNT_BITS, 1, "elements of each row, side by side"),
        Field("source_base", UNIFIED_BITS, 0, "byte address of the first row"),
        Field("source_x_stride", UNIFIED_BITS, 0, "bytes from row to row"),
        Field("destination_base", UNIFIED_BITS, 0, "byte address of the first row of results"),
        Field("destination_x_stride", UNIFIED_BITS, 0, "bytes from row to row of results"),
    ),
}

#: The unit whose queue takes each instruction.
UNITS: dict[Opcode, Unit] = {
    Opcode.NOP: Unit.SEQUENCER,
    Opcode.FENCE: Unit.SEQUENCER,
    Opcode.HALT: Unit.SEQUENCER,
    Opcode.LOAD: Unit.LOAD,
    Opcode.LOAD_WEIGHTS: Unit.LOAD,
    Opcode.LOAD_PARAMS: Unit.LOAD,
    Opcode.STORE: Unit.STORE,
    Opcode.MATMUL: Unit.MATRIX,
    Opcode.VECTOR: Unit.VECTOR,
    Opcode.FILL: Unit.VECTOR,
    Opcode.MOVE_WEIGHTS: Unit.MATRIX,
    Opcode.SOFTMAX: Unit.VECTOR,
}

#: Units with a queue, in the order of their numbers.
EXECUTING = (Unit.LOAD, Unit.STORE, Unit.MATRIX, Unit.VECTOR)

#: Instructions that only cores with an option run: the field of ``Config`` that turns it on.
OPTIONS: dict[Opcode, str] = {
    Opcode.MOVE_WEIGHTS: "activation_weights",
    Opcode.SOFTMAX: "softmax",
}

HEADER = data.StructLayout({field.name: field.amaranth_shape for field in HEADER_FIELDS})


def _unit_layout(unit: Unit) -> data.StructLayout:
    return data.StructLayout(
        {field.name: field.amaranth_shape for field in HEADER_FIELDS}
        | {
            field.name: field.amaranth_shape
            for opcode, fields in FORMATS.items()
            if UNITS[opcode] is unit
            for field in fields
        }
    )


def _layout(opcode: Opcode) -> data.FlexibleLayout:
    unit = UNIT_LAYOUTS[UNITS[opcode]]
    names = [field.name for field in (*HEADER_FIELDS, *FORMATS[opcode])]
    return data.FlexibleLayout(unit.size, {name: unit[name] for name in names})


#: Layout of the header and of all fields of a unit, side by side, as the core hands them on.
UNIT_LAYOUTS = {unit: _unit_layout(unit) for unit in Unit}

#: The same for the fields of one instruction; a field has the same offset in all of a unit.
LAYOUTS = {opcode: _layout(opcode) for opcode in Opcode}


def has(opcode: Opcode, config: Config) -> bool:
    """Return True if a core of this configuration runs an opcode."""
    return opcode not in OPTIONS or getattr(config, OPTIONS[opcode])


class Limit(NamedTuple):
    """Values that a field may take: from ``low`` to ``high``, in steps of ``multiple``."""

    low: int
    high: int
    multiple: int = 1


@cache
def limits(config: Config) -> dict[Opcode, dict[str, Limit]]:
    """Return the limits of each field on a core of this configuration.

    Ranges that need more than one field (the end of a block, the last row of a loop) are checked
    while the instruction runs, see ``Error.RANGE``. Two rules about the meaning of several fields
    are in ``cross_check``.
    """
    parameter_step = max(PARAMETER_BYTES, config.bus_bytes)
    narrower = {
        "unified": config.unified_bytes - 1,
        "unified_pitch": config.unified_bytes - 1,
        "length": config.unified_bytes,
        "tile": config.weight_tiles - 1,
        "tiles": config.weight_tiles,
        "accumulator": config.accumulator_rows - 1,
        "source_base": config.unified_bytes - 1,
        "destination_base": config.unified_bytes - 1,
        "params": config.parameter_channels - 1,
        "table": config.tables - 1,
        "mode": (Mode.SQUARED_DIFFERENCE if config.elementwise_products else Mode.MAX).value,
    }
    at_least_one = {"rows", "length", "tiles", "count", "taps", "channels"}
    multiples = {
        (Opcode.LOAD_WEIGHTS, "external"): config.bus_bytes,
        (Opcode.LOAD_PARAMS, "external"): parameter_step,
        (Opcode.VECTOR, "params"): config.lanes,
    }
    of_one = {
        (Opcode.MOVE_WEIGHTS, "taps"): config.columns,
        (Opcode.SOFTMAX, "x_count"): SOFTMAX_ROWS,
        (Opcode.SOFTMAX, "channels"): SOFTMAX_ELEMENTS,
    }

    def limit(opcode: Opcode, field: Field) -> Limit:
        low, high = field.representable
        if field.name in at_least_one or field.name.endswith(("_count", "run")):
            low = 1
        if field.name.endswith("_stride"):
            high = config.unified_bytes - 1
        if field.name.endswith("skip"):
            high = min(high, config.unified_rows - 1)
        high = min(high, narrower.get(field.name, high))
        high = min(high, of_one.get((opcode, field.name), high))
        return Limit(low, high, multiples.get((opcode, field.name), 1))

    return {
        opcode: {field.name: limit(opcode, field) for field in fields}
        for opcode, fields in FORMATS.items()
    }
