from dataclasses import replace

import numpy as np
import pytest

from celosia.hw.arch import commands
from celosia.hw.arch.config import SEMAPHORES, Config
from celosia.hw.arch.isa import (
    FORMATS,
    OPTIONS,
    UNITS,
    Error,
    Field,
    Illegal,
    Instruction,
    Mode,
    Opcode,
    Rounding,
    Space,
    Unit,
    Window,
    assemble,
    assemble_line,
    check,
    disassemble,
    limits,
)
from celosia.hw.arch.presets import PRESETS, preset

EDGE = PRESETS["edge"]
#: The presets, with all options.
WHOLE = [
    replace(config, activation_weights=True, requantizer="pipelined", softmax=True)
    for config in PRESETS.values()
]
EVERY_FIELD = [(opcode, field) for opcode, fields in FORMATS.items() for field in fields]


def name(value: object) -> str:
    return value.name if isinstance(value, Opcode | Field) else repr(value)


def random_instruction(opcode: Opcode, rng: np.random.Generator) -> Instruction:
    values = {
        "wait": int(rng.integers(1 << SEMAPHORES)),
        "post": int(rng.integers(1 << SEMAPHORES)),
    }
    for field in FORMATS[opcode]:
        low, high = field.representable
        drawn = int(rng.integers(low, high, endpoint=True))
        values[field.name] = int(rng.choice([low, high, field.default, drawn]))
    return Instruction(opcode, **values)


@pytest.mark.parametrize("opcode", Opcode)
def test_text_round_trips(opcode: Opcode, rng: np.random.Generator):
    for _ in range(50):
        i = random_instruction(opcode, rng)
        assert assemble_line(disassemble(i)) == i


def test_every_opcode_has_a_unit_and_a_format():
    assert set(UNITS) == set(FORMATS) == set(Opcode)
    assert Instruction(Opcode.FILL).unit is Unit.VECTOR


@pytest.mark.parametrize(("opcode", "field"), EVERY_FIELD, ids=name)
def test_what_does_not_fit_the_bits_is_refused(opcode: Opcode, field: Field):
    low, high = field.representable
    for value in (low, high):
        i = Instruction(opcode, **{field.name: value})
        assert commands.decode(commands.encode([i])) == [i]
    for value in (low - 1, high + 1):
        message = f"{opcode.name} {field.name}: wanted {low} to {high}, got {value}"
        with pytest.raises(ValueError, match=message):
            Instruction(opcode, **{field.name: value})


def test_a_changed_copy_leaves_the_instruction(rng: np.random.Generator):
    i = random_instruction(Opcode.VECTOR, rng)
    before = dict(i.fields)
    changed = i.but(wait=3, channels=77)
    assert i.fields == before
    assert changed == Instruction(Opcode.VECTOR, **(before | {"wait": 3, "channels": 77}))
    with pytest.raises(ValueError, match="VECTOR channels: wanted 0 to 65535, got 65536"):
        i.but(channels=65536)
    with pytest.raises(ValueError, match="VECTOR: wanted one of wait, .*, got field 'taps'"):
        i.but(taps=1)


@pytest.mark.parametrize("mask", ["wait", "post"])
def test_semaphore_masks_have_as_many_bits_as_there_are(mask: str):
    Instruction(Opcode.NOP, **{mask: (1 << SEMAPHORES) - 1})
    with pytest.raises(ValueError, match=f"NOP {mask}: wanted 0 to 4095, got 4096"):
        Instruction(Opcode.NOP, **{mask: 1 << SEMAPHORES})


def test_fields_of_other_formats_are_refused():
    with pytest.raises(ValueError, match="HALT: wanted one of wait, post, got field 'length'"):
        Instruction(Opcode.HALT, length=1)


def test_instructions_are_values():
    a = Instruction(Opcode.LOAD, length=3, wait=1)
    b = Instruction(Opcode.LOAD, wait=1, length=3)
    assert a == b
    assert hash(a) == hash(b)
    assert a != Instruction(Opcode.LOAD, length=4, wait=1)
    assert a != Instruction(Opcode.STORE, length=3, wait=1)
    assert a != "LOAD length=3 wait=0"
    assert repr(a) == "Instruction(LOAD length=3 wait=0)"
    assert (a.length, a.rows) == (3, 1)
    assert not hasattr(a, "taps")


@pytest.mark.parametrize("config", WHOLE, ids=lambda c: c.name)
@pytest.mark.parametrize(("opcode", "field"), EVERY_FIELD, ids=name)
def test_limits_are_the_edge_of_what_is_checked(opcode: Opcode, field: Field, config: Config):
    low, high, multiple = limits(config)[opcode][field.name]
    least, most = field.representable
    for value in (low, high // multiple * multiple):
        check(Instruction(opcode, **{field.name: value}), config)
    for value in (low - 1, high + 1, low + 1 if multiple > 1 else high + 1):
        if least <= value <= most:
            wanted = f"{opcode.name} {field.name}: wanted {low} to {high}.*, got {value}$"
            with pytest.raises(Illegal, match=wanted) as caught:
                check(Instruction(opcode, **{field.name: value}), config)
            assert caught.value.error is Error.FIELD


# Limits of the default core, written down once more.
AT_EDGE = {
    Opcode.LOAD: {"unified": (0, 131071, 1), "length": (1, 131072, 1), "rows": (1, 65535, 1)},
    Opcode.LOAD_WEIGHTS: {"external": (0, (1 << 32) - 1, 16), "tiles": (1, 512, 1)},
    Opcode.LOAD_PARAMS: {"external": (0, (1 << 32) - 1, 16), "count": (1, 65535, 1)},
    Opcode.MATMUL: {
        "taps": (1, (1 << 20) - 1, 1),
        "run": (1, (1 << 20) - 1, 1),
        "skip": (0, 8191, 1),
        "tile": (0, 511, 1),
        "accumulator": (0, 1023, 1),
        "x_stride": (0, 131071, 1),
    },
    Opcode.VECTOR: {
        "window_x_count": (1, 255, 1),
        "source_run": (1, 65535, 1),
        "params": (0, 1023, 8),
        "table": (0, 3, 1),
        "low": (-128, 127, 1),
    },
    Opcode.MOVE_WEIGHTS: {"taps": (1, 16, 1), "x_count": (1, 65535, 1), "tile": (0, 511, 1)},
    Opcode.SOFTMAX: {"x_count": (1, 64, 1), "channels": (1, 511, 1)},
}


@pytest.mark.parametrize("opcode", AT_EDGE, ids=name)
def test_limits_at_edge(opcode: Opcode):
    found = limits(EDGE)[opcode]
    assert {key: tuple(found[key]) for key in AT_EDGE[opcode]} == AT_EDGE[opcode]


@pytest.mark.parametrize(
    "instruction",
    [Instruction(Opcode.MOVE_WEIGHTS, taps=17), Instruction(Opcode.SOFTMAX, channels=512)],
    ids=lambda i: i.opcode.name,
)
def test_an_option_that_a_core_lacks(instruction: Instruction):
    option = OPTIONS[instruction.opcode]
    with pytest.raises(Illegal, match=f"wanted a core with {option}=true$") as caught:
        check(instruction, EDGE)
    assert caught.value.error is Error.OPCODE
    code = commands.encode([instruction, Instruction(Opcode.HALT)])
    decoder = commands.Decoder(EDGE)
    with pytest.raises(Illegal, match=f"{instruction.opcode.name}: wanted a core with") as caught:
        for word in commands.words(code):
            decoder.feed(word)
    assert caught.value.error is Error.OPCODE


def test_vectors_of_both_instructions_of_the_matrix_unit_share_registers():
    matmul = Instruction(Opcode.MATMUL, unified=3, taps=16, run=1, skip=2, tile=7, x_count=5)
    common = {field.name: matmul.fields[field.name] for field in FORMATS[Opcode.MOVE_WEIGHTS]}
    encoder = commands.Encoder()
    encoder.words(matmul)
    assert encoder.words(Instruction(Opcode.MOVE_WEIGHTS, **common)) == [11]


def test_parameters_lie_at_whole_beats_of_a_wide_bus():
    assert limits(PRESETS["tpu_v1"])[Opcode.LOAD_PARAMS]["external"].multiple == 64


@pytest.mark.parametrize("space", ["source", "destination"])
def test_accumulators_have_as_many_channels_as_columns(space: str):
    inside = {space: Space.ACCUMULATORS}
    check(Instruction(Opcode.VECTOR, channels=16, **inside), EDGE)
    check(Instruction(Opcode.VECTOR, channels=17), EDGE)
    with pytest.raises(Illegal, match="VECTOR channels: wanted 1 to 16, got 17") as caught:
        check(Instruction(Opcode.VECTOR, channels=17, **inside), EDGE)
    assert caught.value.error is Error.FIELD


@pytest.mark.parametrize("mode", [Mode.ADD, Mode.MAX])
def test_accumulators_are_read_at_one_place_only(mode: Mode):
    both = {"source": Space.ACCUMULATORS, "destination": Space.ACCUMULATORS}
    check(Instruction(Opcode.VECTOR, **both), EDGE)
    check(Instruction(Opcode.VECTOR, destination=Space.ACCUMULATORS, mode=mode), EDGE)
    with pytest.raises(Illegal, match="VECTOR mode: wanted OVERWRITE"):
        check(Instruction(Opcode.VECTOR, **both, mode=mode), EDGE)


@pytest.mark.parametrize(("mode", "value"), [(Mode.MULTIPLY, 3), (Mode.SQUARED_DIFFERENCE, 4)])
def test_products_are_an_option(mode: Mode, value: int):
    multiply = Instruction(Opcode.VECTOR, destination=Space.ACCUMULATORS, mode=mode)
    check(multiply, replace(EDGE, elementwise_products=True))
    with pytest.raises(Illegal, match=f"VECTOR mode: wanted 0 to 2, got {value}") as caught:
        check(multiply, EDGE)
    assert caught.value.error is Error.FIELD
    code = commands.encode([multiply])
    assert commands.decode(code) == [multiply]
    with pytest.raises(Illegal, match=f"function: wanted 0 to 95, got {value * 32 + 2}"):
        for word in commands.words(code):
            commands.Decoder(EDGE).feed(word)


def test_assembly_reads_as_documented():
    program = assemble(
        """
        # A comment, and a blank line.

        LOAD length=0x10 rows=2 post=0+3   # hexadecimal, several semaphores
        VECTOR post=11 wait=3 rounding=SINGLE source=ACCUMULATORS window=SUM low=-5 mode=ADD
        HALT
        """
    )
    assert program == [
        Instruction(Opcode.LOAD, length=16, rows=2, post=0b1001),
        Instruction(
            Opcode.VECTOR,
            wait=8,
            post=1 << 11,
            rounding=Rounding.SINGLE,
            source=Space.ACCUMULATORS,
            window=Window.SUM,
            low=-5,
            mode=Mode.ADD,
        ),
        Instruction(Opcode.HALT),
    ]
    assert commands.decode(commands.encode(program)) == program


def test_disassembly_leaves_defaults_out():
    i = Instruction(Opcode.VECTOR, low=-128, high=126, source=Space.ACCUMULATORS, post=5)
    assert disassemble(i) == "VECTOR source=ACCUMULATORS high=126 post=0+2"
    assert disassemble(Instruction(Opcode.HALT)) == "HALT"


MODES = "one of OVERWRITE, ADD, MAX, MULTIPLY, SQUARED_DIFFERENCE"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("JUMP", "opcode: wanted one of NOP, .*, got 'JUMP'"),
        ("load", "opcode: wanted LOAD, in capitals, got 'load'"),
        ("Vectr", "opcode: wanted VECTOR, in capitals, got 'Vectr'"),
        ("STOR", "opcode: wanted STORE, got 'STOR'"),
        ("LOAD length", "LOAD: wanted length=value once, got 'length'"),
        ("LOAD taps=1", "LOAD: wanted one of wait, post, external, .*, got field 'taps'"),
        ("LOAD rows=1 rows=2", "LOAD: wanted rows=value once, got 'rows=2'"),
        ("LOAD opcode=4", "LOAD: wanted one of wait, .*, got field 'opcode'"),
        ("VECTOR chanels=4", "VECTOR: wanted channels, got field 'chanels'"),
        ("MATMUL Taps=4", "MATMUL: wanted taps, got field 'Taps'"),
        ("LOAD rows=two", "LOAD rows: wanted a whole number, got 'two'"),
        ("LOAD rows=", "LOAD rows: wanted a whole number, got ''"),
        ("LOAD rows=70000", "LOAD rows: wanted 0 to 65535, got 70000"),
        ("LOAD wait=12", r"LOAD wait: wanted semaphores 0 to 11 joined by '\+', got '12'"),
        ("LOAD wait=1+x", r"LOAD wait: wanted a whole number, got '1\+x'"),
        ("VECTOR wait=2 + 3", r"VECTOR: wanted no spaces around '\+', got '\+'"),
        ("VECTOR wait=2+ 3", r"VECTOR: wanted no spaces around '\+', got 'wait=2\+'"),
        ("VECTOR wait=2 +3", r"VECTOR: wanted no spaces around '\+', got '\+3'"),
        ("VECTOR mode=MIN", f"VECTOR mode: wanted {MODES}, got 'MIN'"),
        ("VECTOR mode=1", f"VECTOR mode: wanted {MODES}, got '1'"),
    ],
)
def test_what_the_assembler_refuses(line: str, message: str):
    with pytest.raises(ValueError, match=f"^{message}$"):
        assemble_line(line)
    with pytest.raises(ValueError, match=f"^line 3: {message}$"):
        assemble(f"NOP\n\n{line}\nHALT")


def test_a_blank_line_is_no_instruction():
    assert assemble_line("   # nothing") is None
    assert assemble("\n\n") == []


def test_limits_follow_changed_presets():
    small = preset("edge,weight_tiles=7,tables=1")
    assert limits(small)[Opcode.MATMUL]["tile"].high == 6
    assert limits(small)[Opcode.VECTOR]["table"].high == 0
