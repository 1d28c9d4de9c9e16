"""Control of the vector unit, alone."""

import pysim
import pytest
from vector_bench import sizes

from celosia.hw.arch.registers import Activity
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


@pytest.mark.parametrize("cause", ["abort", "bytes_fault", "sums_fault"])
async def test_a_prepared_task_does_not_start_after_a_stop(cause):
    dut = control()
    ctx = await pysim.simulation(dut)
    await pysim.put(ctx, dut.instruction, {})
    # It would start in the next cycle.
    ctx.set(dut.prepared, 1)
    ctx.set(getattr(dut, cause), 1)
    await ctx.tick()
    ctx.set(getattr(dut, cause), 0)
    for _ in range(5):
        assert ctx.get(dut.stop) and not ctx.get(dut.launch)
        await ctx.tick()


async def test_activity():
    dut = control()
    ctx = await pysim.simulation(dut)

    def activity(*high):
        for name in ("issues", "reads_wait", "writes_wait"):
            ctx.set(getattr(dut, name), name in high)
        return Activity(ctx.get(dut.activity))

    assert activity() is Activity.IDLE
    ctx.set(dut.instruction.valid, 1)
    assert activity() is Activity.BUSY
    await pysim.put(ctx, dut.instruction, {})
    assert activity() is Activity.BUSY
    for name in ("prepared", "running"):
        ctx.set(getattr(dut, name), 1)
    await ctx.tick().until(dut.launch)
    for high, wanted in (
        ((), Activity.BUSY),
        (("issues",), Activity.BUSY),
        (("reads_wait",), Activity.MEMORY),
        (("issues", "reads_wait"), Activity.MEMORY),
        (("writes_wait",), Activity.MEMORY),
        (("issues", "writes_wait"), Activity.BUSY),
    ):
        assert activity(*high) is wanted, high
    ctx.set(dut.running, 0)
    await ctx.tick()
    assert activity() is Activity.DRAIN
    assert activity("writes_wait") is Activity.MEMORY
    ctx.set(dut.abort, 1)
    await ctx.tick()
    for _ in range(SETTLE):
        assert activity("writes_wait") is Activity.DRAIN
        await ctx.tick()
    assert activity() is Activity.IDLE
