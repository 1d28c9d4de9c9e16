import itertools

import pysim
import pytest

from celosia.hw.lib.loop_nest import LoopNest


@pytest.mark.parametrize("levels", [1, 2, 4, 6])
async def test_rounds_in_order(rng, levels):
    firsts = tuple(rng.integers(0, 2, levels).tolist())
    dut = LoopNest(bits=14, count_bits=tuple(range(3, 3 + levels)), firsts=firsts)
    ctx = await pysim.simulation(dut, cycles_limit=200000)
    for _ in range(12):
        rounds = rng.integers(1, 5, levels).tolist()
        strides = rng.integers(0, 1 << 13, levels).tolist()
        base = int(rng.integers(0, 1 << 13))
        ctx.set(dut.counts, {str(n): rounds[n] - 1 + firsts[n] for n in range(levels)})
        pysim.drive(ctx, dut, strides=strides, base=base)
        # Single rounds are compared a cycle before the start.
        await ctx.tick()
        pysim.drive(ctx, dut, start=1, step=int(rng.integers(2)))
        await ctx.tick()
        pysim.drive(ctx, dut, start=0, base=0, step=0)
        for outer_first in itertools.product(*map(range, reversed(rounds))):
            at = outer_first[::-1]
            for _ in range(rng.integers(0, 2)):
                await ctx.tick()
            address = base + sum(n * stride for n, stride in zip(at, strides, strict=True))
            assert ctx.get(dut.address) == address % (1 << 14)
            last = sum(
                (n == all_ - 1) << level
                for level, (n, all_) in enumerate(zip(at, rounds, strict=True))
            )
            assert ctx.get(dut.last) == last
            ends = [last % (2 << level) == (2 << level) - 1 for level in range(levels)]
            assert ctx.get(dut.ends) == sum(end << level for level, end in enumerate(ends))
            await pysim.pulse(ctx, dut.step)
