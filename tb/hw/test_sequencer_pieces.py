"""Instructions in pieces: what is split is what is joined, for every instruction."""

import numpy as np
import pytest
from amaranth.hdl import Module

from celosia.hw.arch import isa
from celosia.hw.arch.isa import Error, Opcode, Unit
from celosia.hw.sequencer.dispatch import EXECUTORS
from celosia.hw.sequencer.pieces import PIECE_BITS, Join, Split, piece_count
from celosia.sim import pysim

COUNTS = {Unit.SEQUENCER: 1, Unit.LOAD: 2, Unit.STORE: 2, Unit.MATRIX: 3, Unit.VECTOR: 4}


def drawn(rng, opcode):
    """Return a word of which the fields of an opcode are any bits."""
    return int.from_bytes(rng.bytes(64), "little") % (1 << isa.LAYOUTS[opcode].size)


def test_pieces_hold_every_instruction():
    for opcode in Opcode:
        count = COUNTS[isa.UNITS[opcode]]
        assert piece_count(opcode) <= count and isa.LAYOUTS[opcode].size <= count * PIECE_BITS
    assert {unit: piece_count(*opcodes) for unit, opcodes in EXECUTORS.items()} == {
        unit: count for unit, count in COUNTS.items() if unit is not Unit.SEQUENCER
    }


@pytest.mark.parametrize(("producer", "consumer"), [(0.0, 0.0), (0.6, 0.0), (0.0, 0.6), (0.4, 0.4)])
def test_split_gives_each_unit_its_pieces(producer, consumer, rng):
    dut = Split()
    opcodes = [rng.choice(list(Opcode)) for _ in range(60)]
    words = [drawn(rng, opcode) for opcode in opcodes]
    payloads = [
        {"index": n, "word": word, "error": Error.NONE, "unit": isa.UNITS[opcode]}
        for n, (opcode, word) in enumerate(zip(opcodes, words, strict=True))
    ]
    wanted = [
        (n, (word >> PIECE_BITS * k) % (1 << PIECE_BITS), isa.UNITS[opcode].value)
        for n, (opcode, word) in enumerate(zip(opcodes, words, strict=True))
        for k in range(COUNTS[isa.UNITS[opcode]])
    ]

    async def send(ctx):
        await pysim.put_all(ctx, dut.i, payloads, rng=rng, stall=producer)

    async def bench(ctx):
        got = await pysim.get_all(ctx, dut.o, len(wanted), rng=rng, stall=consumer)
        assert [(g.piece.index, g.piece.bits, g.unit.value) for g in got] == wanted

    pysim.run(dut, bench, background=[send])


@pytest.mark.parametrize("unit", EXECUTORS, ids=lambda unit: unit.name)
def test_what_is_split_is_joined(unit, rng):
    m = Module()
    m.submodules.split = split = Split()
    m.submodules.join = join = Join(opcodes=EXECUTORS[unit])
    m.d.comb += [
        join.i.valid.eq(split.o.valid),
        join.i.payload.eq(split.o.payload.piece),
        split.o.ready.eq(join.i.ready),
    ]
    opcodes = [rng.choice(list(EXECUTORS[unit])) for _ in range(12)]
    words = [drawn(rng, opcode) for opcode in opcodes]
    payloads = [
        {"index": n, "word": word, "error": Error.NONE, "unit": unit}
        for n, word in enumerate(words)
    ]

    async def send(ctx):
        await pysim.put_all(ctx, split.i, payloads, rng=rng, stall=0.3)

    async def bench(ctx):
        assert ctx.get(join.idle)
        got = await pysim.get_all(ctx, join.o, len(words), rng=rng, stall=0.3)
        for n, (payload, opcode, word) in enumerate(zip(got, opcodes, words, strict=True)):
            fields = getattr(payload.fields, opcode.name.lower())
            assert payload.index == n and fields == isa.LAYOUTS[opcode].from_bits(word)

    pysim.run(m, bench, background=[send])


def test_an_instruction_takes_a_cycle_more_than_its_pieces():
    dut = Split()
    cycles = []

    async def bench(ctx):
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.i.payload.unit, Unit.MATRIX)
        ctx.set(dut.o.ready, 1)
        for cycle in range(12):
            *_, ready, valid = await ctx.tick().sample(dut.i.ready, dut.o.valid)
            assert ready != valid
            cycles.extend([cycle] * ready)
        assert np.diff(cycles).tolist() == [1 + COUNTS[Unit.MATRIX]] * 2

    pysim.run(dut, bench)
