"""Instructions in pieces: what was cut is joined, for every instruction."""

import pysim
import pytest

from celosia.hw.arch import isa
from celosia.hw.sequencer.dispatch import EXECUTORS
from celosia.hw.sequencer.pieces import PIECE_BITS, Join, piece_count


@pytest.mark.parametrize("unit", EXECUTORS, ids=lambda unit: unit.name)
@pytest.mark.parametrize(("producer", "consumer"), [(0.0, 0.0), (0.6, 0.0), (0.0, 0.6), (0.4, 0.4)])
def test_what_was_cut_is_joined(unit, producer, consumer, rng):
    dut = Join(opcodes=EXECUTORS[unit])
    opcodes = [rng.choice(list(EXECUTORS[unit])) for _ in range(12)]
    words = [
        int.from_bytes(rng.bytes(64), "little") % (1 << isa.LAYOUTS[opcode].size)
        for opcode in opcodes
    ]
    pieces = [
        {"index": n, "bits": (word >> PIECE_BITS * k) % (1 << PIECE_BITS)}
        for n, word in enumerate(words)
        for k in range(piece_count(*EXECUTORS[unit]))
    ]

    async def send(ctx):
        await pysim.put_all(ctx, dut.i, pieces, rng=rng, stall=producer)

    async def bench(ctx):
        assert ctx.get(dut.idle)
        got = await pysim.get_all(ctx, dut.o, len(words), rng=rng, stall=consumer)
        assert ctx.get(dut.idle)
        for n, (payload, opcode, word) in enumerate(zip(got, opcodes, words, strict=True)):
            fields = getattr(payload.fields, opcode.name.lower())
            assert payload.index == n and fields == isa.LAYOUTS[opcode].from_bits(word)

    pysim.run(dut, bench, background=[send])
