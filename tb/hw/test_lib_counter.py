"""Counter in two halves against a sum."""

import pysim
import pytest

from celosia.hw.lib.counter import HalvedCounter


@pytest.mark.parametrize("width", [2, 5])
def test_refusals(width):
    with pytest.raises(
        ValueError, match=f"^width: wanted an even number of at least 4, got {width}$"
    ):
        HalvedCounter(width)


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("width", [4, 6, 8])
async def test_counts_and_clears(width, start, rng):
    dut = HalvedCounter(width, start=start)
    ctx = await pysim.simulation(dut)
    count = start
    wraps = 0
    for _ in range(6 << width):
        clear, enable = bool(rng.random() < 0.5 / (1 << width)), bool(rng.random() < 0.8)
        pysim.drive(ctx, dut, clear=clear, enable=enable)
        await ctx.tick()
        wraps += not clear and enable and count == (1 << width) - 1
        count = start if clear else (count + enable) % (1 << width)
        assert ctx.get(dut.count) == count
    assert wraps
