"""Commands: instructions as words of 32 bits, which set registers of a unit and start it.

A word has a code in its lower ``CODE_BITS`` bits and a value in the others. The code of an opcode
starts an instruction (GO): the value holds ``wait`` and ``post``. The other codes are registers of
the units (SET). Registers keep their value from one instruction of a unit to the next, and have
the fields' defaults when a program starts. So an instruction takes one word, and one more for each
register that changes.

The words of an instruction lie side by side: SETs of one unit, each register at most once in the
order of their codes, then GO. ``REGISTERS`` is made from ``celosia.hw.arch.formats``.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from amaranth.hdl import Shape

from celosia.hw.arch.config import PROGRAM_BYTES, SEMAPHORES, Config
from celosia.hw.arch.formats import (
    EXECUTING,
    FORMATS,
    UNITS,
    Error,
    Field,
    Limit,
    Opcode,
    Unit,
    limits,
)
from celosia.hw.arch.isa import Illegal, Instruction, require_option

WORD_BYTES = 4
CODE_BITS = 7
VALUE_BITS = 8 * WORD_BYTES - CODE_BITS
_CODES = (1 << CODE_BITS) - 1
_MASKS = (1 << SEMAPHORES) - 1


class FieldBits(NamedTuple):
    """Bits of a field in a register: ``width`` bits of the field from bit ``low`` on."""

    field: Field
    low: int
    width: int


class UnitRegister(NamedTuple):
    """Register of a unit: parts of fields, least significant first."""

    name: str
    code: int
    parts: tuple[FieldBits, ...]

    @property
    def width(self) -> int:
        """Bits in use."""
        return sum(part.width for part in self.parts)

    def value(self, fields: Mapping[str, int]) -> int:
        """Return the register's value for these values of fields."""
        value, at = 0, 0
        for field, low, width in self.parts:
            value |= (fields[field.name] >> low & (1 << width) - 1) << at
            at += width
        return value


#: First code of each unit's registers.
_FIRST = {unit: 16 * unit.value for unit in EXECUTING}

#: Fields that share a register. Only the last of them may have limits.
_SHARED = {
    Unit.LOAD: {"first": ("kind", "first")},
    Unit.MATRIX: {"sums": ("accumulate", "accumulator")},
    Unit.VECTOR: {
        "function": ("source", "destination", "window", "per_channel", "rounding", "mode"),
        "clamp": ("zero_point", "low", "high"),
        "lookup": ("use_table", "table"),
    },
}


def _width(field: Field) -> int:
    return Shape.cast(field.amaranth_shape).width


def _fields(unit: Unit) -> dict[str, Field]:
    """Return the fields of all instructions of a unit, by name."""
    return {
        field.name: field
        for opcode, fields in FORMATS.items()
        if UNITS[opcode] is unit
        for field in fields
    }


def _registers(unit: Unit) -> tuple[UnitRegister, ...]:
    fields, shared = _fields(unit), _SHARED.get(unit, {})
    groups = {member: name for name, members in shared.items() for member in members}
    parts: dict[str, tuple[FieldBits, ...]] = {}
    for name, field in fields.items():
        if name in groups:
            members = [fields[member] for member in shared[groups[name]]]
            parts[groups[name]] = tuple(FieldBits(f, 0, _width(f)) for f in members)
            continue
        width = _width(field)
        parts[name] = (FieldBits(field, 0, min(width, VALUE_BITS)),)
        if width > VALUE_BITS:
            parts[f"{name}_high"] = (FieldBits(field, VALUE_BITS, width - VALUE_BITS),)
    return tuple(
        UnitRegister(name, code, bits)
        for code, (name, bits) in enumerate(parts.items(), _FIRST[unit])
    )


#: Registers of each unit, in the order of their codes.
REGISTERS = {unit: _registers(unit) for unit in _FIRST}

_BY_CODE = {r.code: (unit, r) for unit, registers in REGISTERS.items() for r in registers}
# A code is an opcode or a register: each unit has 16 codes.
assert max(opcode.value for opcode in UNITS) < min(_BY_CODE)
assert len(_BY_CODE) == sum(map(len, REGISTERS.values()))
#: Parts of a register by its code: name of the field, lowest bit and width of the part, the field's
#: greatest number, and True if it is signed.
_DECODED = {
    code: tuple(
        (p.field.name, p.low, p.width, (1 << _width(p.field)) - 1, p.field.representable[0] < 0)
        for p in register.parts
    )
    for code, (_, register) in _BY_CODE.items()
}
_OPCODES = {int(opcode.value): opcode for opcode in Opcode}
_INITIAL = {
    unit: {field.name: field.default for field in _fields(unit).values()} for unit in REGISTERS
}
#: Registers that an instruction reads: the code, and each part's field, lowest bit, mask and shift.
_READ = {
    opcode: tuple(
        (
            register.code,
            tuple(
                (p.field.name, p.low, (1 << p.width) - 1, sum(q.width for q in register.parts[:n]))
                for n, p in enumerate(register.parts)
            ),
        )
        for register in REGISTERS.get(UNITS[opcode], ())
        if register.parts[0].field.name in {field.name for field in FORMATS[opcode]}
    )
    for opcode in Opcode
}


@cache
def register_limits(config: Config) -> dict[int, Limit]:
    """Return the limits of the value of each register, by its code, on a core of ``config``.

    Limits that depend on the instruction are checked at GO, by ``celosia.hw.arch.isa.check``.
    """
    result = {}
    for code, (unit, register) in _BY_CODE.items():
        *others, (last, *_) = register.parts
        (limit, *_) = [
            ranges[last.name]
            for opcode, ranges in limits(config).items()
            if UNITS[opcode] is unit and last.name in ranges
        ]
        plain = _whole(register) and not others
        multiple = limit.multiple if plain and last.name != "external" else 1
        high = _highest(register, limit.high)
        result[code] = Limit(limit.low if plain else 0, high, multiple)
    return result


def _whole(register: UnitRegister) -> bool:
    """Return True if the last field of a register is all there, and has no sign."""
    field, _, width = register.parts[-1]
    return width == _width(field) and field.representable[0] == 0


def _highest(register: UnitRegister, last: int) -> int:
    """Return the greatest value of a register whose last field is at most ``last``."""
    below = register.width - register.parts[-1].width
    high = last if _whole(register) else (1 << register.parts[-1].width) - 1
    return high << below | (1 << below) - 1


#: Limits of the values of registers, by their codes, that no core exceeds.
_ANY_CORE = {
    code: Limit(0, _highest(register, register.parts[-1].field.representable[1]))
    for code, (_, register) in _BY_CODE.items()
}


def go(opcode: Opcode, wait: int, post: int) -> int:
    """Return the word that starts an instruction."""
    return opcode.value | wait << CODE_BITS | post << CODE_BITS + SEMAPHORES


def starts(word: int) -> bool:
    """Return True if a word starts an instruction."""
    return word & _CODES in _OPCODES


class Encoder:
    """Encoder of a program: knows the registers' values after the words so far."""

    def __init__(self) -> None:
        self._values = {
            register.code: register.value(_INITIAL[unit])
            for unit, registers in REGISTERS.items()
            for register in registers
        }

    def words(self, instruction: Instruction) -> list[int]:
        """Return the words of the next instruction."""
        fields, values, result = instruction.fields, self._values, []
        for code, parts in _READ[instruction.opcode]:
            value = 0
            for name, low, mask, shift in parts:
                value |= (fields[name] >> low & mask) << shift
            if value != values[code]:
                values[code] = value
                result.append(code | value << CODE_BITS)
        result.append(go(instruction.opcode, fields["wait"], fields["post"]))
        return result

    def skip(self, raw: Iterable[int]) -> None:
        """Take note of words that were made elsewhere."""
        self._values |= {word & _CODES: word >> CODE_BITS for word in raw}


class Decoder:
    """Decoder of a program, word by word.

    Parameters
    ----------
    config : Config, optional
        Core whose limits the words are checked against; without it, only what no core can take
        is refused.
    """

    def __init__(self, config: Config | None = None) -> None:
        self.config = config
        self._fields = {unit: fields.copy() for unit, fields in _INITIAL.items()}
        self._last: tuple[Unit, int] | None = None

    def feed(self, word: int) -> Instruction | None:
        """Return the instruction that a word starts; None if it sets a register.

        Raises
        ------
        Illegal
            With ``Error.OPCODE`` or ``Error.FIELD``.
        """
        code, value = word & _CODES, word >> CODE_BITS
        if code in _OPCODES:
            if self.config is not None:
                require_option(_OPCODES[code], self.config)
            return self._go(_OPCODES[code], value)
        if code not in _BY_CODE:
            raise Illegal(Error.OPCODE, f"code: wanted an opcode or a register, got {code}")
        self._set(*_BY_CODE[code], value)
        return None

    def _set(self, unit: Unit, register: UnitRegister, value: int) -> None:
        name = f"{unit.name} {register.name}"
        if self._last and (unit is not self._last[0] or register.code <= self._last[1]):
            raise Illegal(
                Error.FIELD, f"{name}: wanted registers once, in the order of their codes"
            )
        self._last = unit, register.code
        limits = _ANY_CORE if self.config is None else register_limits(self.config)
        low, high, multiple = limits[register.code]
        if not low <= value <= high or value % multiple:
            of = f", a multiple of {multiple}" if multiple > 1 else ""
            raise Illegal(Error.FIELD, f"{name}: wanted {low} to {high}{of}, got {value}")
        fields = self._fields[unit]
        for field, lowest, width, most, is_signed in _DECODED[register.code]:
            mask = (1 << width) - 1
            bits = fields[field] & ~(mask << lowest) | (value & mask) << lowest
            negative = is_signed and bits >> width - 1 & 1
            fields[field] = bits | -1 << width if negative else bits & most
            value >>= width

    def _go(self, opcode: Opcode, value: int) -> Instruction:
        if value >> 2 * SEMAPHORES:
            raise Illegal(Error.FIELD, f"{opcode.name}: wanted a zero in bit 31")
        unit = UNITS[opcode]
        if self._last and unit is not self._last[0]:
            other = self._last[0].name
            raise Illegal(
                Error.FIELD, f"{opcode.name}: wanted an opcode of {other} after its registers"
            )
        self._last = None
        values = {"wait": value & _MASKS, "post": value >> SEMAPHORES}
        fields = self._fields.get(unit, {})
        values |= {field.name: fields[field.name] for field in FORMATS[opcode]}
        return Instruction.of(opcode, values)


def words(code: bytes) -> Iterator[int]:
    """Yield the words of a program's bytes.

    Raises
    ------
    ValueError
        If they are not whole words.
    """
    if len(code) % WORD_BYTES:
        raise ValueError(f"program: wanted a multiple of {WORD_BYTES} bytes, got {len(code)}")
    for start in range(0, len(code), WORD_BYTES):
        yield int.from_bytes(code[start : start + WORD_BYTES], "little")


def chunks(items: Iterable[Instruction | bytes]) -> Iterator[bytes]:
    """Yield the words of each item of a program, as bytes; words given as bytes are kept."""
    encoder = Encoder()
    for item in items:
        if isinstance(item, bytes):
            encoder.skip(words(item))
            yield item
        else:
            yield b"".join(word.to_bytes(WORD_BYTES, "little") for word in encoder.words(item))


def encode(items: Iterable[Instruction | bytes]) -> bytes:
    """Return the words of a program, as bytes; words given as bytes are kept."""
    return b"".join(chunks(items))


def decode(code: bytes) -> list[Instruction]:
    """Return the instructions of a program; words after the last GO are ignored.

    Raises
    ------
    Illegal
        If no core can take one; the message begins with its number.
    ValueError
        If they are not whole words.
    """
    decoder, instructions = Decoder(), []
    for word in words(code):
        try:
            instruction = decoder.feed(word)
        except Illegal as illegal:
            raise Illegal(illegal.error, f"instruction {len(instructions)}: {illegal}") from None
        if instruction is not None:
            instructions.append(instruction)
    return instructions


def padded(count: int) -> int:
    """Return the bytes of external memory that a core reads for a program of ``count`` words."""
    return -(-count * WORD_BYTES // PROGRAM_BYTES) * PROGRAM_BYTES


def require_place(address: int, count: int, memory_bytes: int) -> None:
    """Raise ValueError unless ``count`` bytes at ``address`` lie in external memory."""
    if address < 0 or count < 0 or address + count > memory_bytes:
        raise ValueError(
            f"external memory: wanted bytes below {memory_bytes:#x}, "
            f"got {count} bytes at {address:#x}"
        )
