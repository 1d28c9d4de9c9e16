"""The sequencer's check against the decoder of ``celosia.hw.arch.commands`` and ``isa.check``."""

import numpy as np
import pysim
import pytest
from amaranth.hdl import ResetInserter, Signal

from celosia.hw.arch import commands, isa
from celosia.hw.arch.commands import CODE_BITS, REGISTERS, VALUE_BITS, register_limits
from celosia.hw.arch.config import SEMAPHORES
from celosia.hw.arch.isa import Error, Opcode, Unit
from celosia.hw.arch.presets import preset
from celosia.hw.sequencer.check import Check

CONFIGS = {
    name: preset(text)
    for name, text in {
        "nano": "nano",
        "micro": "micro",
        "edge": "edge",
        "odd": "micro,columns=6,unified_bytes=520,accumulator_depth=256,weight_tiles=5,parameter_channels=34,tables=3",
        "options": "micro,columns=5,lanes=1,activation_weights=true,softmax=true,elementwise_products=true",
        "wide": "edge,rows=32,columns=32,bus_bytes=32,tables=256,lanes=32",
    }.items()
}

UNIT_OF = {register.code: unit for unit, found in REGISTERS.items() for register in found}
UNIT_OF |= {opcode.value: unit for opcode, unit in isa.UNITS.items()}


def wanted(words, config):
    """Return index, error and unit of each word, up to the first error."""
    decoder, index, found = commands.Decoder(config), 0, []
    for word in words:
        error, instruction = Error.NONE, None
        try:
            instruction = decoder.feed(word)
            if instruction is not None:
                isa.check(instruction, config)
        except isa.Illegal as illegal:
            error = illegal.error
        unit = UNIT_OF[word % (1 << CODE_BITS)] if error is not Error.OPCODE else None
        found.append((index, error, unit))
        if error is not Error.NONE:
            break
        index += instruction is not None
    return found


def legal(rng, config):
    """Return a random legal instruction, its fields often at the ends of their range."""
    opcode = rng.choice([opcode for opcode in Opcode if isa.has(opcode, config)])
    values = {name: int(rng.integers(0, 1 << SEMAPHORES)) for name in ("wait", "post")}
    for field, (low, high, multiple) in isa.limits(config)[opcode].items():
        pick = rng.choice([low, high, rng.integers(low, high + 1)])
        values[field] = min(-(-int(pick) // multiple) * multiple, high // multiple * multiple)
    if opcode is Opcode.VECTOR:
        if values["source"] or values["destination"]:
            values["channels"] = int(rng.integers(1, config.columns + 1))
        if values["source"] and values["destination"]:
            values["mode"] = 0
    return isa.Instruction(opcode, **values)


def edges(config):
    """Return a word for each end of the range of each register, and just outside of it."""
    found = []
    for registers in REGISTERS.values():
        for register in registers:
            low, high, multiple = register_limits(config)[register.code]
            values = {low - 1, low, low + 1, low + multiple, high, high + 1, (1 << VALUE_BITS) - 1}
            values = {value for value in values if 0 <= value < 1 << VALUE_BITS}
            found += [register.code | value << CODE_BITS for value in values]
    for opcode in filter(lambda opcode: isa.has(opcode, config), Opcode):
        found += [opcode.value | 1 << bit for bit in range(CODE_BITS, 32)]
    return found


def check(config, words, rng=None, producer=0.0, consumer=0.0, errors=()):
    """Return the payloads that come out, and the cycles in which they were taken."""
    dut = Check(config=config)
    results, cycles = [], []

    async def send(ctx):
        payloads = [{"bits": word, "error": n in errors} for n, word in enumerate(words)]
        await pysim.put_all(ctx, dut.i, payloads, rng=rng, stall=producer)

    async def take(ctx):
        cycle, offered = 0, None
        while len(results) < len(words):
            ready = rng is None or rng.random() >= consumer
            ctx.set(dut.o.ready, ready)
            _, _, valid, o = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            # Once offered, it stays until it is taken.
            assert valid or offered is None
            got = (o.index, o.error, o.units, o.bits, o.go) if valid else None
            assert offered in (None, got)
            offered = None if ready else got
            if valid and ready:
                results.append(got)
                cycles.append(cycle)
            cycle += 1
        assert ctx.get(dut.empty)

    pysim.run(dut, send, take, cycles_limit=30 * len(words) + 100)
    return results, cycles


def check_each(config, programs):
    """Return the payloads that come out for each program, with a reset before it."""
    dut, reset, results = Check(config=config), Signal(), []
    # On offer without being valid: an address that LOAD_WEIGHTS must not have.
    (rubbish, _) = commands.Encoder().words(isa.Instruction(Opcode.LOAD, external=1))

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        for words in programs:
            await pysim.pulse(ctx, reset)
            found = []
            for word in [*words, None, None]:
                ctx.set(dut.i.valid, word is not None)
                ctx.set(dut.i.payload, {"bits": rubbish if word is None else word})
                _, _, valid, o = await ctx.tick().sample(dut.o.valid, dut.o.payload)
                if valid:
                    found.append((o.index, o.error, o.units, o.bits, o.go))
            results.append(found)

    pysim.run(ResetInserter(reset)(dut), bench, cycles_limit=100_000)
    return results


def compare(results, words, config):
    """Compare results with the definition up to its first error; return that error."""
    found = wanted(words, config)
    for (index, error, unit), got, word in zip(found, results, words, strict=False):
        place = f"{word:#x}: wanted {error}, got {got}"
        assert got[0] == index and got[1] == error and got[3] == word, place
        if unit is not None:
            assert got[2] == 1 << unit.value and got[4] == commands.starts(word), place
    return found[-1][1]


@pytest.mark.parametrize("name", CONFIGS)
def test_legal_programs_pass(name, rng):
    config = CONFIGS[name]
    encoder = commands.Encoder()
    words = [word for _ in range(120) for word in encoder.words(legal(rng, config))]
    results, _ = check(config, words)
    assert compare(results, words, config) is Error.NONE


@pytest.mark.parametrize("name", CONFIGS)
def test_changed_programs_get_the_verdict_of_the_definition(name, rng):
    config = CONFIGS[name]
    limits = edges(config)
    programs = []
    for _ in range(150):
        encoder = commands.Encoder()
        words = [word for _ in range(4) for word in encoder.words(legal(rng, config))]
        place = int(rng.integers(len(words)))
        match rng.integers(4):
            case 0:
                words[place] ^= 1 << int(rng.integers(32))
            case 1:
                words.insert(place, int(rng.choice(limits)))
            case 2:
                words[place] = words[place] >> CODE_BITS << CODE_BITS | int(rng.integers(128))
            case _:
                words.insert(place, words[int(rng.integers(len(words)))])
        programs.append(words)
    results = check_each(config, programs)
    errors = [compare(*pair, config) for pair in zip(results, programs, strict=True)]
    for error in (Error.NONE, Error.OPCODE, Error.FIELD):
        assert errors.count(error) > 5


@pytest.mark.parametrize("name", ["nano", "odd", "options"])
def test_ends_of_ranges(name):
    config = CONFIGS[name]
    programs = [[word] for word in edges(config)]
    results = check_each(config, programs)
    verdicts = {compare(*pair, config) for pair in zip(results, programs, strict=True)}
    assert verdicts == {Error.NONE, Error.FIELD}


@pytest.mark.parametrize("name", ["micro", "options"])
def test_every_code(name):
    config = CONFIGS[name]
    programs = [[code | 64 << CODE_BITS] for code in range(1 << CODE_BITS)]
    for result, words in zip(check_each(config, programs), programs, strict=True):
        compare(result, words, config)


@pytest.mark.parametrize(
    ("instruction", "error"),
    [
        (isa.Instruction(Opcode.LOAD_WEIGHTS, external=8), Error.NONE),
        (isa.Instruction(Opcode.LOAD_WEIGHTS, external=4), Error.FIELD),
        (isa.Instruction(Opcode.LOAD_PARAMS, external=8), Error.FIELD),
        (isa.Instruction(Opcode.LOAD, external=1), Error.NONE),
        (isa.Instruction(Opcode.VECTOR, source=1, channels=8), Error.NONE),
        (isa.Instruction(Opcode.VECTOR, source=1, channels=9), Error.FIELD),
        (isa.Instruction(Opcode.VECTOR, destination=1, channels=9), Error.FIELD),
        (isa.Instruction(Opcode.VECTOR, channels=9, mode=2), Error.NONE),
        (isa.Instruction(Opcode.VECTOR, source=1, destination=1, mode=1), Error.FIELD),
        (isa.Instruction(Opcode.VECTOR, source=1, destination=1), Error.NONE),
        (isa.Instruction(Opcode.FILL, channels=9), Error.NONE),
    ],
)
def test_fields_that_conflict(instruction, error):
    config = CONFIGS["micro"]
    words = commands.Encoder().words(instruction)
    results, _ = check(config, words)
    assert compare(results, words, config) is error


@pytest.mark.parametrize(
    ("taps", "opcode", "error"),
    [
        (5, Opcode.MOVE_WEIGHTS, Error.NONE),
        (6, Opcode.MOVE_WEIGHTS, Error.FIELD),
        (1 << 19, Opcode.MOVE_WEIGHTS, Error.FIELD),
        (6, Opcode.MATMUL, Error.NONE),
    ],
)
def test_rows_of_tiles_have_as_many_taps_as_columns(taps, opcode, error):
    config = CONFIGS["options"]
    words = commands.Encoder().words(isa.Instruction(opcode, taps=taps))
    # A number of taps that an earlier MATMUL set counts, too.
    words += [Opcode.MOVE_WEIGHTS.value] * (opcode is Opcode.MOVE_WEIGHTS)
    assert compare(check(config, words)[0], words, config) is error


def test_registers_keep_their_value():
    """A value that conflicts may have been set for an instruction before."""
    config = CONFIGS["micro"]
    encoder = commands.Encoder()
    first = isa.Instruction(Opcode.LOAD, external=4)
    words = [
        *encoder.words(first),
        *encoder.words(isa.Instruction(Opcode.LOAD_WEIGHTS, external=4)),
    ]
    assert compare(check(config, words)[0], words, config) is Error.FIELD


def test_values_end_with_their_program():
    """The last word of a program may stay in its register over the reset before the next one."""
    config = CONFIGS["micro"]
    first = commands.Encoder().words(isa.Instruction(Opcode.LOAD, external=4))[:1]
    second = [*commands.Encoder().words(isa.Instruction(Opcode.LOAD_WEIGHTS)), Opcode.NOP.value]
    _, results = check_each(config, [first, second])
    assert results and compare(results, second, config) is Error.NONE


@pytest.mark.parametrize(
    "codes",
    [
        (16, 16, Opcode.LOAD.value),
        (20, 16, Opcode.LOAD.value),
        (16, 32, Opcode.STORE.value),
        (16, Opcode.NOP.value),
        (49, Opcode.VECTOR.value),
        (16, Opcode.LOAD.value, 16, Opcode.LOAD.value),
    ],
)
def test_order_of_words(codes):
    config = CONFIGS["micro"]
    words = [code | (64 << CODE_BITS if code >= 16 else 0) for code in codes]
    error = compare(check(config, words)[0], words, config)
    assert error is (Error.NONE if len(codes) == 4 else Error.FIELD)


@pytest.mark.parametrize("producer", [0.0, 0.6])
@pytest.mark.parametrize("consumer", [0.0, 0.6])
def test_stalls_change_nothing(producer, consumer, rng):
    config = CONFIGS["micro"]
    encoder = commands.Encoder()
    words = [word for _ in range(40) for word in encoder.words(legal(rng, config))]
    results, _ = check(config, words, rng, producer, consumer)
    assert compare(results, words, config) is Error.NONE


def test_a_refused_fetch_comes_before_the_meaning_of_the_word():
    words = [Opcode.HALT.value, 0, Opcode.HALT.value | 1 << 31]
    results, _ = check(CONFIGS["micro"], words, errors=(0, 1, 2))
    assert [error for _, error, *_ in results] == [Error.BUS] * 3


def test_one_word_a_cycle_three_cycles_later():
    words = commands.Encoder().words(legal(np.random.default_rng(3), CONFIGS["micro"]))
    _, cycles = check(CONFIGS["micro"], words)
    assert cycles == list(range(3, 3 + len(words)))


def test_construction():
    assert Check(config=CONFIGS["edge"]).config is CONFIGS["edge"]
    assert {unit for unit in UNIT_OF.values()} == set(Unit)
