"""The instruction set: instructions, their limits and their text.

Fields are declared once, in ``celosia.hw.arch.formats``; ``celosia.hw.arch.commands`` encodes them.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import assert_never

from amaranth.lib import enum

from celosia.hw.arch.config import PARAMETER_BYTES, SEMAPHORES, TABLE_BYTES, Config
from celosia.hw.arch.formats import (
    COUNT_BITS,
    EXECUTING,
    FACTOR_BITS,
    FORMATS,
    HEADER,
    HEADER_FIELDS,
    LAYOUTS,
    OPTIONS,
    PRODUCT_MODES,
    UNIFIED_BITS,
    UNIT_LAYOUTS,
    UNITS,
    Error,
    Field,
    Kind,
    Limit,
    Mode,
    Opcode,
    Rounding,
    Space,
    Unit,
    Window,
    has,
    limits,
)

__all__ = [
    "COUNT_BITS",
    "EXECUTING",
    "FACTOR_BITS",
    "FORMATS",
    "HEADER",
    "HEADER_FIELDS",
    "LAYOUTS",
    "OPTIONS",
    "PRODUCT_MODES",
    "UNIFIED_BITS",
    "UNITS",
    "UNIT_LAYOUTS",
    "Error",
    "Field",
    "Illegal",
    "Instruction",
    "Kind",
    "Limit",
    "Mode",
    "Opcode",
    "Rounding",
    "Space",
    "Unit",
    "Window",
    "assemble",
    "assemble_line",
    "check",
    "cross_check",
    "disassemble",
    "external_span",
    "has",
    "limits",
    "require_option",
]


#: Fields of each instruction; the opcode, which comes first, is not one.
_FIELDS = {opcode: (*HEADER_FIELDS[1:], *FORMATS[opcode]) for opcode in Opcode}
_RANGES = {
    opcode: {field.name: field.representable for field in fields}
    for opcode, fields in _FIELDS.items()
}
_DEFAULTS = {
    opcode: {field.name: field.default for field in fields} for opcode, fields in _FIELDS.items()
}


def _wanted(name: str, names: Iterable[str]) -> str:
    """Return the name closest to a wrong one, or else all names, for a message."""
    near = get_close_matches(name, names, 1)
    return near[0] if near else f"one of {', '.join(names)}"


def _number(value: int | enum.Enum) -> int:
    """Return a field's value, an enumeration's member or any whole number, as a plain int."""
    return int(value.value if isinstance(value, enum.Enum) else value)


class Instruction:
    """Instruction: an opcode and a value for each field of its format.

    Fields that are not given take their default. ``wait`` and ``post`` are masks, bit ``s`` for
    semaphore ``s``. Values are plain ints, also those of enumerated fields, and are read as
    attributes. Instructions are compared by value.

    Raises
    ------
    ValueError
        If a field does not belong to the format, or its value does not fit its bits.
    """

    __slots__ = ("fields", "opcode")

    def __init__(self, opcode: Opcode, **values: int | enum.Enum) -> None:
        self.opcode = opcode
        self.fields = _DEFAULTS[opcode].copy()
        self._set(values)

    @classmethod
    def of(cls, opcode: Opcode, fields: dict[str, int]) -> "Instruction":
        """Return the instruction with ``fields``: all of its fields, checked before, not copied."""
        self = cls.__new__(cls)
        self.opcode = opcode
        self.fields = fields
        return self

    def but(self, **values: int | enum.Enum) -> "Instruction":
        """Return a copy with other values of some fields; raises as the constructor does."""
        other = Instruction.of(self.opcode, self.fields.copy())
        other._set(values)
        return other

    def _set(self, values: Mapping[str, int | enum.Enum]) -> None:
        """Check and set values of fields."""
        fields, ranges = self.fields, _RANGES[self.opcode]
        for name, value in values.items():
            number = value if type(value) is int else _number(value)
            if name not in ranges:
                allowed = _wanted(name, ranges)
                raise ValueError(f"{self.opcode.name}: wanted {allowed}, got field {name!r}")
            low, high = ranges[name]
            if not low <= number <= high:
                allowed = f"{low} to {high}"
                raise ValueError(f"{self.opcode.name} {name}: wanted {allowed}, got {number}")
            fields[name] = number

    def __getattr__(self, name: str) -> int:
        if name != "fields" and name in self.fields:
            return self.fields[name]
        raise AttributeError(name)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Instruction)
            and self.opcode == other.opcode
            and self.fields == other.fields
        )

    def __hash__(self) -> int:
        return hash((self.opcode, *self.fields.values()))

    def __repr__(self) -> str:
        return f"Instruction({disassemble(self)})"

    @property
    def unit(self) -> Unit:
        """Unit that executes it."""
        return UNITS[self.opcode]


class Illegal(ValueError):
    """Instruction that a core refuses; ``error`` is the code that the core records."""

    def __init__(self, error: Error, message: str) -> None:
        super().__init__(message)
        self.error = error


def cross_check(instruction: Instruction, config: Config) -> str | None:
    """Return the conflict between fields of ``instruction``, or None.

    Accumulators are ``columns`` channels wide, and VECTOR reads them through one port: a result
    may not be combined with accumulators when its elements come from accumulators too.
    """
    if instruction.opcode is not Opcode.VECTOR:
        return None
    inside = (instruction.source, instruction.destination)
    if Space.ACCUMULATORS.value in inside and instruction.channels > config.columns:
        return f"channels: wanted 1 to {config.columns}, got {instruction.channels}"
    if inside == (1, 1) and instruction.mode != Mode.OVERWRITE.value:
        return f"mode: wanted OVERWRITE from accumulators to accumulators, got {instruction.mode}"
    return None


def require_option(opcode: Opcode, config: Config) -> None:
    """Refuse an opcode of an option that a core of ``config`` lacks.

    Raises
    ------
    Illegal
        With ``Error.OPCODE``, naming the option.
    """
    if not has(opcode, config):
        raise Illegal(Error.OPCODE, f"{opcode.name}: wanted a core with {OPTIONS[opcode]}=true")


def check(instruction: Instruction, config: Config) -> None:
    """Refuse an instruction that a core of ``config`` would refuse before running it.

    Raises
    ------
    Illegal
        With ``Error.FIELD``, naming the field, the values wanted and the value got; with
        ``Error.OPCODE`` if the core lacks the option of the instruction.
    """
    name = instruction.opcode.name
    require_option(instruction.opcode, config)
    for field, (low, high, multiple) in limits(config)[instruction.opcode].items():
        value = instruction.fields[field]
        if not low <= value <= high or value % multiple:
            of = f", a multiple of {multiple}" if multiple > 1 else ""
            raise Illegal(Error.FIELD, f"{name} {field}: wanted {low} to {high}{of}, got {value}")
    if wrong := cross_check(instruction, config):
        raise Illegal(Error.FIELD, f"{name} {wrong}")


def external_span(instruction: Instruction, config: Config) -> tuple[int, int] | None:
    """Return the first byte of external memory that is touched, and the one after the last.

    Between rows there may be bytes that are not touched. None for an instruction that touches none.
    """
    i = instruction
    match i.opcode:
        case Opcode.LOAD | Opcode.STORE:
            count = (i.rows - 1) * i.external_pitch + i.length
        case Opcode.LOAD_WEIGHTS:
            count = i.tiles * config.tile_bytes
        case Opcode.LOAD_PARAMS:
            count = i.count * (TABLE_BYTES if i.kind == Kind.TABLES.value else PARAMETER_BYTES)
        case Opcode.NOP | Opcode.FENCE | Opcode.HALT | Opcode.MATMUL | Opcode.MOVE_WEIGHTS:
            return None
        case Opcode.VECTOR | Opcode.FILL | Opcode.SOFTMAX:
            return None
        case other:
            assert_never(other)
    return i.external, i.external + count


def disassemble(instruction: Instruction) -> str:
    """Return one line of assembly; fields with their default are left out."""
    words = [instruction.opcode.name]
    for field in (*FORMATS[instruction.opcode], *HEADER_FIELDS[1:]):
        value = instruction.fields[field.name]
        if value == field.default:
            continue
        if field.name in ("wait", "post"):
            bits = (str(bit) for bit in range(SEMAPHORES) if value >> bit & 1)
            words.append(f"{field.name}={'+'.join(bits)}")
        elif isinstance(field.shape, int):
            words.append(f"{field.name}={value}")
        else:
            words.append(f"{field.name}={field.shape(value).name}")
    return " ".join(words)


def _value(field: Field, text: str) -> int:
    if field.name in ("wait", "post"):
        bits = [int(bit) for bit in text.split("+")]
        if any(not 0 <= bit < SEMAPHORES for bit in bits):
            raise ValueError(f"wanted semaphores 0 to {SEMAPHORES - 1} joined by '+'")
        return sum(1 << bit for bit in set(bits))
    if isinstance(field.shape, int):
        return int(text, 0)
    names = [member.name for member in field.shape]
    if text not in names:
        raise ValueError(f"wanted one of {', '.join(names)}")
    return int(field.shape[text].value)


def assemble_line(line: str) -> Instruction | None:
    """Return the instruction in one line of assembly; None for a blank line or a comment.

    A line is an opcode, then ``field=value`` for the fields that differ from their default, in any
    order; ``#`` starts a comment. Numbers may be written in any base that Python reads; semaphores
    are listed as ``wait=0+3``; enumerated fields take a member's name.

    Raises
    ------
    ValueError
        If a word cannot be read; names the word and the syntax wanted.
    """
    name, *words = line.split("#", 1)[0].split() or [""]
    if not name:
        return None
    if name not in Opcode.__members__:
        allowed = _wanted(name.upper(), Opcode.__members__)
        capitals = ", in capitals" * (name != name.upper())
        raise ValueError(f"opcode: wanted {allowed}{capitals}, got {name!r}")
    opcode = Opcode[name]
    known = {field.name: field for field in _FIELDS[opcode]}
    values: dict[str, int] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if word.startswith("+") or word.endswith("+"):
            raise ValueError(f"{name}: wanted no spaces around '+', got {word!r}")
        if key not in known:
            raise ValueError(f"{name}: wanted {_wanted(key, known)}, got field {key!r}")
        if not equals or key in values:
            raise ValueError(f"{name}: wanted {key}=value once, got {word!r}")
        try:
            values[key] = _value(known[key], text)
        except ValueError as error:
            why = str(error) if str(error).startswith("wanted") else "wanted a whole number"
            raise ValueError(f"{name} {key}: {why}, got {text!r}") from None
    return Instruction(opcode, **values)


def assemble(text: str) -> list[Instruction]:
    """Return the instructions of an assembly text.

    Raises
    ------
    ValueError
        As ``assemble_line``, after the number of the line.
    """
    instructions = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            instruction = assemble_line(line)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        if instruction is not None:
            instructions.append(instruction)
    return instructions
