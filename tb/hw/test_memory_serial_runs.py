"""Skips found one lane after the other, against a division."""

from itertools import pairwise

import pysim
import pytest
from test_memory_runs import check

from celosia.hw.memory.serial_runs import SerialRuns


async def cycles_until(ctx, port, most=100):
    """Wait for a port; return the cycles."""
    for cycles in range(most):
        if ctx.get(port):
            return cycles
        await ctx.tick()
    raise AssertionError("never")


async def start(ctx, dut, run, skip):
    pysim.drive(ctx, dut, run=run, skip_rows=skip)
    await pysim.pulse(ctx, dut.start)
    pysim.drive(ctx, dut, run=1, skip_rows=0)


async def begin(ctx, dut, *, closing):
    """Begin the next step."""
    ctx.set(dut.closing, closing)
    await pysim.pulse(ctx, dut.step)
    ctx.set(dut.closing, not closing)


@pytest.mark.parametrize("lanes", [2, 4, 16])
@pytest.mark.parametrize("prompt", [True, False])
async def test_steps_of_instructions(lanes, prompt, rng):
    """Instructions of 1 to 6 steps; the next one is started at some time while one runs."""
    dut = SerialRuns(lanes=lanes, row_bits=7, count_bits=12)
    ctx = await pysim.simulation(dut)
    runs = [int(rng.choice([1, 2, 3, lanes, lanes + 1, 3 * lanes - 1, 4095])) for _ in range(40)]
    values = [(run, int(rng.integers(0, 30))) for run in runs]
    await start(ctx, dut, *values[0])
    for current, following in pairwise([*values, (1, 0)]):
        steps = int(rng.integers(1, 7))
        starts = int(rng.integers(steps))
        for step in range(steps):
            await cycles_until(ctx, dut.valid)
            await begin(ctx, dut, closing=step == steps - 1)
            check(ctx, dut, step, *current)
            if step == starts:
                await start(ctx, dut, *following)
            if not prompt:
                await ctx.tick().repeat(int(rng.integers(1, 3 * lanes)))
            check(ctx, dut, step, *current)


@pytest.mark.parametrize("lanes", [2, 4, 8])
async def test_timing(lanes):
    dut = SerialRuns(lanes=lanes, row_bits=8, count_bits=8)
    ctx = await pysim.simulation(dut)
    for _ in range(3 * lanes):
        assert not ctx.get(dut.valid)
        await ctx.tick()
    await start(ctx, dut, 3, 2)
    assert await cycles_until(ctx, dut.valid) == dut.PREPARE - 1
    for step in range(4):
        await begin(ctx, dut, closing=False)
        check(ctx, dut, step, 3, 2)
        assert await cycles_until(ctx, dut.valid) == lanes - 1
    # The next instruction begins after the last step of this one, or when it is started.
    await start(ctx, dut, 5, 7)
    assert ctx.get(dut.valid)
    await begin(ctx, dut, closing=True)
    check(ctx, dut, 4, 3, 2)
    assert await cycles_until(ctx, dut.valid) == lanes
    await begin(ctx, dut, closing=True)
    check(ctx, dut, 0, 5, 7)
    for _ in range(3 * lanes):
        assert not ctx.get(dut.valid)
        await ctx.tick()
    await start(ctx, dut, 1, 1)
    assert await cycles_until(ctx, dut.valid) == dut.PREPARE - 1


async def test_a_start_is_taken_while_the_walk_before_begins():
    dut = SerialRuns(lanes=4, row_bits=8, count_bits=8)
    ctx = await pysim.simulation(dut)
    await start(ctx, dut, 6, 2)
    await start(ctx, dut, 2, 3)
    for closing in (False, False, True):
        await cycles_until(ctx, dut.valid)
        await begin(ctx, dut, closing=closing)
    check(ctx, dut, 2, 6, 2)
    await cycles_until(ctx, dut.valid)
    await begin(ctx, dut, closing=True)
    check(ctx, dut, 0, 2, 3)
