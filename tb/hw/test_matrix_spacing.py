"""Cycles in which a pass may begin after the pass before."""

import pytest
from pysim import drive, simulation

from celosia.hw.arch.config import ADD_CYCLES
from celosia.hw.matrix.spacing import PassSpacing


def earliest(before, cycle, pixels, final, forwards):
    """Return the first cycle of a pass that adds, after one whose last request is in ``cycle``.

    ``before``: that of the pass before, which may lie later if that pass did not add.
    """
    if final:
        return cycle + ADD_CYCLES
    if forwards and pixels == 1:
        return max(before, cycle + 1)
    return cycle + 1 + ADD_CYCLES - min(pixels, ADD_CYCLES)


@pytest.mark.parametrize("forwards", [False, True])
@pytest.mark.parametrize("stall", [0.0, 0.4])
async def test_passes_against_the_reference(rng, forwards, stall):
    dut = PassSpacing(forwards=forwards)
    ctx = await simulation(dut)
    cycle = begins = 0
    # Cycle of the read of each row in the pass before, if that pass is of this instruction.
    read = []
    for n in range(200):
        pixels = (1, 2, 3, 4, 5)[n] if n < 5 else int(rng.integers(1, 8))
        final = n % 7 == 6 or rng.random() < 0.2
        taken = []
        while len(taken) < pixels:
            accumulate = int(rng.random() < 0.8 if not taken else taken[0][1])
            ctx.set(dut.accumulate, accumulate)
            assert ctx.get(dut.clear) == (cycle >= begins or not accumulate)
            fires = rng.random() >= stall and (taken or ctx.get(dut.clear))
            last = len(taken) == pixels - 1
            drive(ctx, dut, fired=bool(fires), last=last, final=last and final)
            if fires:
                taken.append((cycle, accumulate))
            await ctx.tick()
            ctx.set(dut.fired, 0)
            cycle += 1
        begins = earliest(begins, taken[-1][0], pixels, final, forwards)
        # The sums are there, or forwarded.
        if taken[0][1] and not (forwards and len(read) == 1):
            for (now, _), before in zip(taken, read, strict=False):
                assert now - before >= ADD_CYCLES
        read = [] if final else [now for now, _ in taken]
