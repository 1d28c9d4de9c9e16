"""Control of the vector unit, alone."""

import pysim
import pytest
from vector_bench import sizes

from celosia.hw.vector.control import VectorControl
from celosia.hw.vector.task import VectorSizes

SETTLE = 9


def control():
    given = sizes("micro")
    del given["bus_bytes"]
    return VectorControl(sizes=VectorSizes(**given), settle_cycles=SETTLE)


@pytest.mark.parametrize("late", ["awaited", "settling"])
async def test_idle_after_an_abort_only_when_all_answers_and_writes_are_through(late):
    """Whatever they take: memories may be slow to answer, or to show what was written."""
    dut = control()
    ctx = await pysim.simulation(dut)
    assert ctx.get(dut.idle)
    ctx.set(dut.abort, 1)
    ctx.set(getattr(dut, late), 1)
    await ctx.tick()
    for _ in range(3 * SETTLE):
        assert ctx.get(dut.stop) and not ctx.get(dut.idle)
        await ctx.tick()
    # And then the pipe empties.
    ctx.set(getattr(dut, late), 0)
    for _ in range(SETTLE):
        assert not ctx.get(dut.idle)
        await ctx.tick()
    assert ctx.get(dut.idle)
