"""The sequencer's check against ``isa.decode`` and ``isa.check``."""

import pysim
import pytest

from celosia.hw.arch import isa
from celosia.hw.arch.config import INSTRUCTION_BYTES, preset
from celosia.hw.arch.isa import Error, Opcode, Unit
from celosia.hw.sequencer.check import Check
from celosia.hw.sequencer.pieces import PIECE_BITS

CONFIGS = {
    name: preset(text)
    for name, text in {
        "nano": "nano",
        "micro": "micro",
        "edge": "edge",
        "odd": "micro,columns=6,unified_bytes=520,accumulator_depth=256,weight_tiles=5,parameter_channels=34,tables=3",
        "wide": "edge,rows=32,bus_bytes=32,tables=256,lanes=16",
    }.items()
}


#: Pieces that each unit gets.
COUNTS = {Unit.SEQUENCER: 1, Unit.LOAD: 2, Unit.STORE: 2, Unit.MATRIX: 3, Unit.VECTOR: 4}


def verdict(word, config):
    """Return the error that the definition finds in a word."""
    try:
        instruction = isa.decode(word)
        isa.check(instruction, config)
    except isa.Illegal as illegal:
        return illegal.error
    return Error.NONE


def legal(rng, config):
    """Return a random legal instruction, its fields often at the ends of what is allowed."""
    opcode = rng.choice(list(Opcode))
    values = {name: int(rng.integers(0, 1 << 16)) for name in ("wait", "post")}
    for field, (low, high, multiple) in isa.limits(config)[opcode].items():
        pick = rng.choice([low, high, rng.integers(low, high + 1)])
        values[field] = min(-(-int(pick) // multiple) * multiple, high // multiple * multiple)
    if opcode is Opcode.VECTOR:
        if values["source"] or values["destination"]:
            values["channels"] = int(rng.integers(1, config.columns + 1))
        if values["source"] and values["destination"]:
            values["mode"] = 0
    return isa.Instruction(opcode, **values)


def put_bits(word, opcode, name, value):
    place = isa.LAYOUTS[opcode][name]
    mask = (1 << place.width) - 1
    return word & ~(mask << place.offset) | (value & mask) << place.offset


def mutated(rng, config):
    """Return the bits of a legal word with one field, one bit or the opcode changed."""
    instruction = legal(rng, config)
    opcode = instruction.opcode
    word = int.from_bytes(isa.encode(instruction), "little")
    kind = rng.random()
    fields = isa.FORMATS[opcode]
    if kind < 0.65 and fields:
        field = fields[rng.integers(len(fields))]
        low, high, multiple = isa.limits(config)[opcode][field.name]
        edges = [low - 1, low, high, high + 1, high - 1, low + multiple, low + 1, 0]
        return put_bits(word, opcode, field.name, int(rng.choice(edges)))
    if kind < 0.9:
        return word ^ 1 << int(rng.integers(0, 8 * INSTRUCTION_BYTES))
    return word & ~255 | int(rng.choice([0, 11, 12, 255, *range(1, 11)]))


def words_of(rng, config, count):
    for n in range(count):
        kind = n % 8
        if kind == 0:
            yield isa.encode(legal(rng, config))
        elif kind == 1:
            noise = rng.bytes(INSTRUCTION_BYTES)
            yield bytes([int(rng.integers(0, 13))]) + noise[1:]
        else:
            yield mutated(rng, config).to_bytes(INSTRUCTION_BYTES, "little")


def fetched(index, word, error=0):
    return {"index": index, "word": int.from_bytes(word, "little"), "error": error}


def judge(config, payloads, rng=None, producer=0.0, consumer=0.0):
    """Return what comes out, its pieces put together, and the cycles in which pieces were taken."""
    dut = Check(config=config)
    results, cycles = [], []

    async def send(ctx):
        for payload in payloads:
            await pysim.rest(ctx, rng, producer)
            ctx.set(dut.i.payload, payload)
            ctx.set(dut.i.valid, 1)
            word = payload["word"]
            while True:
                _, _, taken, shift = await ctx.tick().sample(dut.i.ready, dut.shift)
                assert not (taken and shift)
                if taken:
                    break
                if shift:
                    # What comes in from above is anything.
                    word = word >> PIECE_BITS | -1 << 512 - PIECE_BITS
                    ctx.set(dut.i.payload.word, word % (1 << 512))
            ctx.set(dut.i.valid, 0)

    async def take(ctx):
        cycle = 0
        offered = None
        pieces = []
        while len(results) < len(payloads):
            ready = rng is None or rng.random() >= consumer
            ctx.set(dut.o.ready, ready)
            _, _, valid, o = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            # Once offered, it stays until it is taken.
            assert valid or offered is None
            got = (o.piece.index, o.error, o.unit, o.piece.bits) if valid else None
            assert offered in (None, got)
            offered = None if ready else got
            if valid and ready:
                pieces.append(got)
                cycles.append(cycle)
                if len(pieces) == COUNTS[o.unit]:
                    assert len({piece[:-1] for piece in pieces}) == 1
                    word = sum(piece[-1] << PIECE_BITS * n for n, piece in enumerate(pieces))
                    results.append((o.piece.index, word, o.error, o.unit))
                    pieces.clear()
            cycle += 1

    pysim.run(dut, send, take, cycles_limit=30 * len(payloads) + 100)
    return results, cycles


@pytest.mark.parametrize("name", CONFIGS)
def test_random_words_get_the_verdict_of_the_definition(name, rng):
    config = CONFIGS[name]
    words = list(words_of(rng, config, 900))
    results, _ = judge(config, [fetched(n & 0xFFFF, word) for n, word in enumerate(words)])
    wanted = [verdict(word, config) for word in words]
    for n, (index, word, error, unit) in enumerate(results):
        whole = int.from_bytes(words[n], "little")
        assert index == n and word == whole % (1 << PIECE_BITS * COUNTS[unit])
        assert error == wanted[n], f"{words[n].hex()}: wanted {wanted[n]}, got {error}"
        if wanted[n] is not Error.OPCODE:
            assert unit == isa.UNITS[Opcode(words[n][0])]
    for error in (Error.NONE, Error.OPCODE, Error.FIELD):
        assert wanted.count(error) > 25


@pytest.mark.parametrize("name", ["nano", "odd"])
def test_each_edge_of_each_field(name):
    config = CONFIGS[name]
    words = []
    for opcode in Opcode:
        plain = int.from_bytes(isa.encode(isa.Instruction(opcode)), "little")
        for field in isa.FORMATS[opcode]:
            low, high, multiple = isa.limits(config)[opcode][field.name]
            for value in {low - 1, low, low + 1, low + multiple, high, high + 1}:
                word = put_bits(plain, opcode, field.name, value)
                words.append(word.to_bytes(INSTRUCTION_BYTES, "little"))
        # Each reserved bit by itself.
        for bit in range(isa.LAYOUTS[opcode].size, 8 * INSTRUCTION_BYTES, 37):
            words.append((plain | 1 << bit).to_bytes(INSTRUCTION_BYTES, "little"))
        words.append((plain | 1 << 511).to_bytes(INSTRUCTION_BYTES, "little"))
    results, _ = judge(config, [fetched(0, word) for word in words])
    for word, (_, _, error, _) in zip(words, results, strict=True):
        assert error == verdict(word, config), word.hex()


def test_every_opcode_byte():
    config = CONFIGS["micro"]
    words = [bytes([code]) + bytes(63) for code in range(256)]
    results, _ = judge(config, [fetched(0, word) for word in words])
    for code, (_, _, error, _) in enumerate(results):
        assert error == verdict(words[code], config)


@pytest.mark.parametrize("producer", [0.0, 0.6])
@pytest.mark.parametrize("consumer", [0.0, 0.6])
def test_stalls_change_nothing(producer, consumer, rng):
    config = CONFIGS["micro"]
    words = list(words_of(rng, config, 150))
    payloads = [fetched(n, word) for n, word in enumerate(words)]
    results, _ = judge(config, payloads, rng, producer, consumer)
    assert [(index, error) for index, _, error, _ in results] == [
        (n, verdict(word, config)) for n, word in enumerate(words)
    ]


def test_a_refused_fetch_comes_before_what_the_word_says():
    config = CONFIGS["micro"]
    good = isa.encode(isa.Instruction(Opcode.HALT))
    words = [good, bytes(64), good[:-1] + b"\x80"]
    results, _ = judge(config, [fetched(n, word, 1) for n, word in enumerate(words)])
    assert [error for _, _, error, _ in results] == [Error.BUS] * 3


def test_pieces_come_two_cycles_after_their_instruction():
    words = [
        isa.encode(isa.Instruction(opcode)) for opcode in (Opcode.NOP, Opcode.MATMUL, Opcode.HALT)
    ]
    _, cycles = judge(CONFIGS["micro"], [fetched(n, word) for n, word in enumerate(words)])
    assert cycles == [2, 5, 6, 7, 10]


def test_pieces_hold_every_instruction():
    for opcode in Opcode:
        assert isa.LAYOUTS[opcode].size <= COUNTS[isa.UNITS[opcode]] * PIECE_BITS


def test_construction():
    assert Check(config=CONFIGS["edge"]).config is CONFIGS["edge"]
