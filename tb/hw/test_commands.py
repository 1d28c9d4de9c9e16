"""Encoding of programs: words, registers, and what decoding refuses."""

import itertools

import numpy as np
import pytest
from test_isa import random_instruction

from celosia.hw.arch import commands, isa
from celosia.hw.arch.commands import CODE_BITS, REGISTERS, VALUE_BITS, Decoder, Encoder
from celosia.hw.arch.isa import Error, Illegal, Instruction, Opcode, Unit
from celosia.hw.arch.presets import PRESETS

EDGE = PRESETS["edge"]


def word(code: int, value: int) -> int:
    return code | value << CODE_BITS


def code_of(unit: Unit, name: str) -> int:
    (found,) = [register.code for register in REGISTERS[unit] if register.name == name]
    return found


def test_programs_round_trip(rng: np.random.Generator):
    opcodes = list(Opcode)
    program = [random_instruction(opcodes[rng.integers(len(opcodes))], rng) for _ in range(400)]
    assert commands.decode(commands.encode(program)) == program


def test_only_changes_take_words():
    encoder = Encoder()
    load = Instruction(Opcode.LOAD, external=64, length=32, post=1)
    external, length = code_of(Unit.LOAD, "external"), code_of(Unit.LOAD, "length")
    go = commands.go(Opcode.LOAD, 0, 1)
    assert encoder.words(load) == [word(external, 64), word(length, 32), go]
    assert encoder.words(load) == [go]
    weights = Instruction(Opcode.LOAD_WEIGHTS, external=128)
    assert encoder.words(weights) == [word(external, 128), Opcode.LOAD_WEIGHTS.value]
    # The other units have other registers.
    assert len(encoder.words(Instruction(Opcode.STORE, external=128))) == 2
    assert encoder.words(load.but(external=128)) == [go]


def test_words_written_down_once_more():
    program = [
        Instruction(Opcode.LOAD, external=0xFE00_0040, wait=0b101, post=0b10),
        Instruction(Opcode.FILL, value=-1),
        Instruction(Opcode.HALT),
    ]
    assert list(commands.words(commands.encode(program))) == [
        16 | 0x40 << 7,
        17 | 0x7F << 7,
        4 | 0b101 << 7 | 0b10 << 19,
        88 | 0xFF << 7,
        10,
        3,
    ]


def test_registers_have_codes_of_their_own_and_hold_every_field():
    codes = [register.code for found in REGISTERS.values() for register in found]
    assert codes == sorted(set(codes)) and codes[-1] < 1 << CODE_BITS
    assert not set(codes) & {opcode.value for opcode in Opcode}
    for unit, registers in REGISTERS.items():
        bits = [
            (field.name, low + bit)
            for register in registers
            for field, low, width in register.parts
            for bit in range(width)
        ]
        layout = isa.UNIT_LAYOUTS[unit]
        fields = [name for name, _ in layout if name not in isa.HEADER.members]
        assert sorted(bits) == sorted((f, bit) for f in fields for bit in range(layout[f].width))
        assert all(register.width <= VALUE_BITS for register in registers)


@pytest.mark.parametrize("config", PRESETS.values(), ids=lambda config: config.name)
def test_limits_of_registers_are_those_of_their_fields(config):
    limits, found = isa.limits(config), commands.register_limits(config)
    for unit, registers in REGISTERS.items():
        for register in registers:
            low, high, multiple = found[register.code]
            fields = {part.field.name for part in register.parts}
            for opcode, name in itertools.product(Opcode, fields):
                if isa.UNITS[opcode] is not unit or name not in limits[opcode]:
                    continue
                for value in limits[opcode][name][:2]:
                    value = value // limits[opcode][name].multiple * limits[opcode][name].multiple
                    held = register.value({**Instruction(opcode).fields, name: value})
                    assert low <= held <= high and held % multiple == 0, (opcode, name)


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ([0], Error.OPCODE, "code: wanted an opcode or a register, got 0"),
        ([15], Error.OPCODE, "got 15"),
        ([127], Error.OPCODE, "got 127"),
        ([1 | 1 << 31], Error.FIELD, "NOP: wanted a zero in bit 31"),
        ([word(16, 1), word(16, 2)], Error.FIELD, "LOAD external: wanted registers once"),
        ([word(20, 1), word(16, 2)], Error.FIELD, "LOAD external: wanted registers once"),
        ([word(16, 1), word(32, 2)], Error.FIELD, "STORE external: wanted registers once"),
        ([word(16, 1), 1], Error.FIELD, "NOP: wanted an opcode of LOAD after its registers"),
        ([word(17, 128)], Error.FIELD, "LOAD external_high: wanted 0 to 127, got 128"),
        ([word(code_of(Unit.VECTOR, "function"), 5 << 5)], Error.FIELD, "0 to 159, got 160"),
    ],
)
def test_refusals(words: list[int], error: Error, message: str):
    decoder = Decoder()
    with pytest.raises(Illegal, match=message) as caught:
        for one in words:
            decoder.feed(one)
    assert caught.value.error is error


@pytest.mark.parametrize(
    ("unit", "name", "value", "message"),
    [
        (Unit.LOAD, "rows", 0, "LOAD rows: wanted 1 to 65535, got 0"),
        (Unit.LOAD, "unified", 1 << 17, "LOAD unified: wanted 0 to 131071, got 131072"),
        (Unit.VECTOR, "params", 4, "VECTOR params: wanted 0 to 1023, a multiple of 8, got 4"),
        (Unit.VECTOR, "function", 3 << 5, "VECTOR function: wanted 0 to 95, got 96"),
        (Unit.VECTOR, "lookup", 4 << 1, "VECTOR lookup: wanted 0 to 7, got 8"),
    ],
)
def test_refusals_by_the_sizes_of_a_core(unit: Unit, name: str, value: int, message: str):
    with pytest.raises(Illegal, match=message) as caught:
        Decoder(EDGE).feed(word(code_of(unit, name), value))
    assert caught.value.error is Error.FIELD


def test_refusals_name_the_instruction():
    code = commands.encode([Instruction(Opcode.NOP)] * 3) + bytes(4)
    with pytest.raises(Illegal, match="^instruction 3: code: wanted"):
        commands.decode(code)
    with pytest.raises(ValueError, match="wanted a multiple of 4 bytes, got 15"):
        commands.decode(code[:-1])


def test_the_encoder_follows_foreign_words():
    encoder = Encoder()
    encoder.skip([word(16, 64)])
    assert encoder.words(Instruction(Opcode.LOAD, external=64)) == [Opcode.LOAD.value]
    assert len(encoder.words(Instruction(Opcode.LOAD))) == 2


@pytest.mark.parametrize(("count", "size"), [(1, 64), (16, 64), (17, 128)])
def test_blocks(count: int, size: int):
    assert commands.padded(count) == size
