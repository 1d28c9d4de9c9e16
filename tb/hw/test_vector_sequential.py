"""Pace of windows before a requantiser that takes several cycles for a group."""

import numpy as np
import pysim
import pytest

from celosia.hw.vector.pace import Pace


@pytest.mark.parametrize("each", [1, 2, 3])
async def test_pace(rng: np.random.Generator, each: int) -> None:
    """Windows as soon as they may begin, and later; cycles that do not count."""
    dut = Pace(groups=4, group_cycles=each)
    ctx = await pysim.simulation(dut)
    # Cycles to come of the window, this one left out.
    left = 0
    for _ in range(400):
        hold, groups = int(rng.random() < 0.3), int(rng.integers(4))
        start = not left and rng.random() < 0.5
        pysim.drive(ctx, dut, hold=hold, start=start, groups_last=groups)
        assert ctx.get(dut.in_use) == (left > 0)
        assert ctx.get(dut.moves) == (left > 0 and left % each == 0 and not hold)
        await ctx.tick()
        if start:
            left = each * (groups + 1) - 1
        elif not hold:
            left = max(0, left - 1)


def test_refuses() -> None:
    with pytest.raises(ValueError, match="group_cycles: wanted at least 1, got 0"):
        Pace(groups=2, group_cycles=0)
