import pysim
import pytest
from amaranth.hdl import ResetInserter, Signal
from vector_bench import SHAPES, Bench, run, sizes, span

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Error, Instruction, Opcode, Space, Window
from celosia.hw.arch.registers import Activity
from celosia.sim.timing import costs


def from_unified(channels, **changes):
    """Return a VECTOR of ten pixels from one half of 1024 bytes to the other."""
    fields = {
        "x_count": 10,
        "channels": channels,
        "source_x_stride": 40,
        "window_x_stride": 16,
        "destination_base": 512,
        "destination_x_stride": channels,
        "window": Window.SUM,
    }
    return Instruction(Opcode.VECTOR, **fields | changes)


@pytest.mark.parametrize(
    ("name", "channels", "window", "skip", "reads", "cycles"),
    [
        # Two elements a group of two lanes, four groups a read: no read waits.
        ("micro", 15, 3, 0, 2 * 3, 4 + 4),
        ("micro", 15, 5, 0, 2 * 5, 5 + 5),
        ("micro", 15, 3, 1, 8 * 3, 8 * 3),
        ("micro", 3, 1, 0, 1, 2),
        ("edge", 16, 1, 0, 1, 2),
        ("edge", 16, 1, 1, 2, 2),
        ("edge", 40, 1, 0, 3, 5),
        ("edge", 40, 2, 0, 3 * 2, 6),
        ("edge", 37, 3, 0, 3 * 3, 9),
        ("edge", 7, 2, 0, 2, 2),
        # One group a read, since rows or columns are no more than the lanes.
        ("tall", 10, 2, 0, 3 * 2, 6),
        ("twelve", 10, 2, 0, 3 * 2, 6),
        # Two of the six groups of a row: the port has four bytes.
        ("wide", 9, 1, 0, 3, 5),
    ],
)
def test_pace_from_unified_buffer(rng, name, channels, window, skip, reads, cycles):
    instruction = from_unified(
        channels, window_x_count=window, source_skip=skip, source_run=15 if skip else 65535
    )
    bench, taken = run(rng, name, [instruction], unified_bytes=1024, tables=1)
    assert bench.reads[0] - taken[0] == bench.dut.PREPARE
    assert len(bench.reads) == 10 * reads
    config = Config(weight_tiles=2, **bench.sizes)
    assert len(costs.reads(instruction, config)) * window == reads
    assert span(bench.reads) == costs.elements(instruction, config)
    last = costs.reads(instruction, config)[-1]
    assert span(bench.reads) == 10 * cycles - max(last, window) + window
    assert len(bench.writes) == 10 * -(-channels // SHAPES[name][2])
    assert bench.done[0] - bench.reads[-1] <= 32


def test_reads_that_are_taken_at_once_are_no_wait(rng):
    instruction = from_unified(8, x_count=30, source_x_stride=8)
    bench, taken = run(rng, "micro", [instruction], tables=1, unified_bytes=1024)
    during = bench.activity[taken[0] + 1 : bench.done[0]]
    assert Activity.MEMORY not in during
    assert during.count(Activity.BUSY) >= span(bench.reads) == 29 * 4 + 1


@pytest.mark.parametrize("name", ["micro", "edge", "wide"])
@pytest.mark.parametrize("space", [Space.UNIFIED, Space.ACCUMULATORS])
@pytest.mark.parametrize("stall", [0.0, pytest.param(0.5, marks=pytest.mark.slow), 0.9])
def test_wide_reads_wait_for_the_port_and_for_space(rng, name, space, stall):
    columns = SHAPES[name][1]
    channels = [1, columns, columns - 1, columns // 2 + 1]
    channels += [] if space is Space.ACCUMULATORS else [2 * columns + 1, 39]
    instructions = [
        from_unified(
            count,
            # Nine of ten cycles are waited for.
            x_count=4 if stall == 0.9 else 8,
            window=order % 2,
            window_x_count=1 + 2 * (order // 2 % 2),
            destination=space,
            destination_base=3 if space is Space.ACCUMULATORS else 512,
            destination_x_stride=1 if space is Space.ACCUMULATORS else count,
        )
        for order, count in enumerate(channels)
    ]
    bench, _ = run(
        rng,
        name,
        [*instructions, Instruction(Opcode.FILL, channels=columns, value=3)],
        stall=stall,
        tables=1,
        unified_bytes=1024,
        parameter_channels=48,
    )
    assert not bench.faults


@pytest.mark.parametrize("name", ["tall", "full"])
def test_windows_of_one_group_wait_for_space(rng, name):
    """One may end in each cycle, and writes are slower than that."""
    fill = Instruction(Opcode.FILL, x_count=60, channels=4, destination_x_stride=4, value=7)
    run(rng, name, [fill], stall=0.9, tables=1)


@pytest.mark.parametrize("name", ["micro", "edge", "wide"])
@pytest.mark.parametrize("skip", [0, 1])
async def test_reads_nothing_but_channels(rng, name, skip):
    """The last bytes of the buffer, and one too many."""
    lanes = SHAPES[name][2]
    bench = Bench(rng, **sizes(name, tables=1, unified_bytes=1024))
    reset = Signal()

    async def attempt(ctx, channels):
        run_ = {"source_run": channels, "source_skip": skip}
        good = from_unified(channels, x_count=1, source_base=1024 - channels, **run_)
        bad = from_unified(channels, x_count=1, source_base=1025 - channels, **run_)
        bench.touched.clear()
        bench.faults.clear()
        bench.state.execute(good)
        await bench.issue(ctx, good, 6)
        await bench.settle(ctx)
        bench.compare()
        assert not bench.faults
        assert set(bench.touched) == set(range(1024 - channels, 1024))
        await bench.issue(ctx, bad, 7)
        await ctx.tick().repeat(80)
        assert [fault[:2] for fault in bench.faults] == [(Error.RANGE, 7)]
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        bench.state.unified[:] = bench.unified_seen

    ctx = await pysim.simulation(ResetInserter(reset)(bench.dut), background=[bench.memories])
    await bench.load_parameters(ctx, pysim.put, tables=False)
    for channels in (1, lanes + 1, 2 * lanes, 3 * lanes - 1, 5 * lanes + 1):
        await attempt(ctx, channels)
