import numpy as np
import pysim
import pytest

from celosia.hw.memory.runs import LongRuns, Runs


def expected(step, lanes, run, skip, row_bits):
    taps = step * lanes + np.arange(lanes)
    rows = taps // run * skip
    outside = 1 << (row_bits - 1)
    return [int(row) if row < outside else None for row in rows], outside


def read(ctx, dut):
    return [ctx.get(dut.skip[i]) for i in range(dut.lanes)]


def check(ctx, dut, step, run, skip):
    wanted, outside = expected(step, dut.lanes, run, skip, dut.row_bits)
    for got, want in zip(read(ctx, dut), wanted, strict=True):
        assert got == want if want is not None else got & outside, (step, run, skip)


async def start(ctx, dut, run, skip):
    pysim.drive(ctx, dut, start=1, run=run, skip_rows=skip)
    await ctx.tick()
    pysim.drive(ctx, dut, start=0, run=1, skip_rows=0)
    cycles = 1
    while not ctx.get(dut.ready):
        await ctx.tick()
        cycles += 1
    assert cycles == dut.PREPARE


@pytest.mark.parametrize("lanes", [1, 2, 4, 16, 256])
async def test_steps(lanes):
    dut = Runs(lanes=lanes, row_bits=8, count_bits=20)
    random = np.random.default_rng(lanes)
    short = range(1, 2 * lanes + 3) if lanes <= 16 else random.integers(1, lanes, 6)
    runs = [*short, lanes, lanes + 1, 3 * lanes - 1, (1 << 20) - 1]
    runs += random.integers(1, 20 * lanes, 2).tolist()
    ctx = await pysim.simulation(dut)
    for run in map(int, runs):
        skip = int(random.integers(0, 5))
        await start(ctx, dut, run, skip)
        for _ in range(2):
            await pysim.pulse(ctx, dut.restart)
            ctx.set(dut.advance, 1)
            for step in range(12 if lanes <= 16 else 5):
                check(ctx, dut, step, run, skip)
                await ctx.tick()
            ctx.set(dut.advance, 0)


def entered(step, lanes, run):
    """Return the lanes that enter a new segment between a step and the next one."""
    taps = step * lanes + np.arange(lanes)
    return sum(int(n) << i for i, n in enumerate((taps + lanes) // run > taps // run))


@pytest.mark.parametrize("lanes", [2, 8])
async def test_long_segments_restart_two_cycles_after_their_start(lanes):
    dut = LongRuns(lanes=lanes, count_bits=8)
    ctx = await pysim.simulation(dut)
    for run in (lanes + 1, 5 * lanes, 2 * lanes - 1, 3 * lanes + 1):
        ctx.set(dut.run, run)
        await pysim.pulse(ctx, dut.start)
        ctx.set(dut.run, 1)
        await ctx.tick()
        assert ctx.get(dut.enters_first) == entered(0, lanes, run)
        await pysim.pulse(ctx, dut.restart)
        ctx.set(dut.advance, 1)
        for step in range(1, 12):
            assert ctx.get(dut.enters_next) == entered(step, lanes, run)
            await ctx.tick()
        ctx.set(dut.advance, 0)


@pytest.mark.parametrize("lanes", [1, 2, 8])
async def test_nothing_is_prepared_before_the_first_start(lanes):
    dut = Runs(lanes=lanes, row_bits=10, count_bits=16)
    ctx = await pysim.simulation(dut)
    for _ in range(2 * dut.PREPARE):
        assert not ctx.get(dut.ready)
        await ctx.tick()


@pytest.mark.parametrize("lanes", [1, 8])
async def test_prepares_beside_the_run_before(lanes):
    dut = Runs(lanes=lanes, row_bits=10, count_bits=16)
    random = np.random.default_rng(1)
    ctx = await pysim.simulation(dut)
    before = (3, 1)
    await start(ctx, dut, *before)
    await pysim.pulse(ctx, dut.restart)
    for run in [9, 2, 30, 8, 1, 100, 7, 17] * 3:
        skip = int(random.integers(0, 60))
        pysim.drive(ctx, dut, run=run, skip_rows=skip)
        step = 0
        for cycle in range(10):
            ctx.set(dut.start, cycle == 0)
            moves = int(random.integers(2))
            ctx.set(dut.advance, moves)
            check(ctx, dut, step, *before)
            await ctx.tick()
            step += moves
        before = (run, skip)
        ctx.set(dut.advance, 1)
        await pysim.pulse(ctx, dut.restart)
        ctx.set(dut.advance, 0)


@pytest.mark.parametrize("lanes", [1, 4])
async def test_restart_and_start_together_take_what_was_prepared(lanes):
    dut = Runs(lanes=lanes, row_bits=6, count_bits=16)
    ctx = await pysim.simulation(dut)
    await start(ctx, dut, 6, 2)
    pysim.drive(ctx, dut, run=1, skip_rows=7, start=1)
    await pysim.pulse(ctx, dut.restart)
    pysim.drive(ctx, dut, start=0, advance=1)
    for step in range(8):
        check(ctx, dut, step, 6, 2)
        await ctx.tick()


@pytest.mark.parametrize(
    ("sizes", "runs", "skip", "steps"),
    [
        ({"lanes": 4, "row_bits": 8, "count_bits": 7}, (63, 64, 65, 100, 127), 3, 80),
        ({"lanes": 1, "row_bits": 4, "count_bits": 5}, (1, 2, 5, 31), 3, 70),
        # Rows outside stay outside.
        ({"lanes": 2, "row_bits": 4, "count_bits": 8}, (1, 2, 5), 7, 60),
    ],
)
async def test_long_after_the_start(sizes, runs, skip, steps):
    dut = Runs(**sizes)
    ctx = await pysim.simulation(dut)
    for run in runs:
        await start(ctx, dut, run, skip)
        await pysim.pulse(ctx, dut.restart)
        ctx.set(dut.advance, 1)
        for step in range(steps):
            check(ctx, dut, step, run, skip)
            await ctx.tick()
        ctx.set(dut.advance, 0)


@pytest.mark.parametrize(
    "sizes, message",
    [
        ({"lanes": 3}, "lanes: wanted a power of two, got 3"),
        ({"row_bits": 1}, "row_bits: wanted at least 2, got 1"),
        ({"count_bits": 3}, "count_bits: wanted at least 4, got 3"),
    ],
)
def test_refuses(sizes, message):
    with pytest.raises(ValueError, match=message):
        Runs(**{"lanes": 4, "row_bits": 8, "count_bits": 16, **sizes})
