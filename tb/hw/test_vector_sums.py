"""Products of sums, by the multipliers of each family; tb/units has the rest."""

from collections import deque
from typing import Any

import numpy as np
import pysim
import pytest
from vector_sizes import factor

from celosia.hw.vector.sums import SumUpdate


def test_no_lanes_are_refused() -> None:
    with pytest.raises(ValueError, match="lanes: wanted at least 1, got 0"):
        SumUpdate(lanes=0)


@pytest.mark.parametrize("primitive", ["portable", "logic"])
async def test_products_against_the_reference(primitive: str, rng: np.random.Generator) -> None:
    """Products and squared differences in any order; of each factor 16 bits count."""
    dut = SumUpdate(lanes=2, products=True, primitive=primitive)
    ctx = await pysim.simulation(dut)
    ends = np.array([-(2**15), 2**15 - 1, 1 - 2**15, 0, 1, -1, 2**15, 2**31 - 1, -(2**31)])
    pairs = np.array(np.meshgrid(ends, ends)).reshape(2, -1).repeat(4, axis=1)
    pairs = np.hstack([pairs, rng.integers(-(2**31), 2**31, (2, 100))]).reshape(2, -1, 2)
    # The product of this cycle is taken `LATER` cycles after it, and seen one cycle after that.
    wanted: deque[Any] = deque([None] * SumUpdate.LATER)
    for n, (old, new) in enumerate(zip(*pairs, strict=True)):
        squared = n % 2
        pysim.drive(ctx, dut, old=old.tolist(), new=new.tolist(), squared=squared)
        ctx.set(dut.subtracts, 0b11 * squared)
        wanted.append((factor(new - old) ** 2 if squared else factor(old) * factor(new)).tolist())
        due = wanted.popleft()
        ctx.set(dut.multiplied, due is not None)
        await ctx.tick()
        assert due is None or list(ctx.get(dut.sums)) == due
