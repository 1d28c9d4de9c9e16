import numpy as np
import pysim
import pytest
from amaranth.hdl import ResetInserter, Signal
from vector_bench import SHAPES, Bench, run, settings, sizes, span
from vector_programs import Programs

from celosia.hw.arch.isa import Error, Instruction, Mode, Opcode, Space
from celosia.hw.arch.registers import Activity
from celosia.hw.vector.unit import VectorUnit


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *((name, {}) for name in SHAPES),
        ("nano", {"skid": False}),
        pytest.param("edge", {"skid": False}, marks=pytest.mark.slow),
        *((name, {"elementwise_products": True}) for name in ("micro", "twelve")),
    ],
    ids=str,
)
async def test_random_programs(rng, name, changes):
    bench = Bench(rng, **sizes(name, tables=2 if name == "micro" else 1, **changes))
    programs = Programs(rng, bench.sizes)
    ctx = await pysim.simulation(bench.dut, background=[bench.memories], cycles_limit=60000)
    await bench.load_parameters(ctx, pysim.put)
    await bench.play(ctx, rng, [programs.any() for _ in range(16)])


@pytest.mark.parametrize("name, window, cycles", [("edge", (1, 1), 2), ("edge", (2, 2), 4)])
def test_pace_from_accumulators(rng, name, window, cycles):
    columns = SHAPES[name][1]
    instruction = Instruction(
        Opcode.VECTOR,
        source=Space.ACCUMULATORS,
        x_count=12,
        source_x_stride=1,
        channels=columns,
        window_x_count=window[0],
        window_y_count=window[1],
        window_x_stride=1,
        window_y_stride=2,
        destination_x_stride=columns,
        per_channel=1,
    )
    bench, taken = run(rng, name, [instruction], tables=1)
    first = bench.reads[0]
    assert first - taken[0] == bench.dut.PREPARE
    assert span(bench.reads) <= 12 * cycles
    assert span(bench.writes) == 12 * cycles - (cycles - 2)
    busy = bench.activity[taken[0] : bench.done[0]].count(Activity.BUSY)
    assert busy <= 12 * cycles + bench.dut.PREPARE


def test_pace_of_fill(rng):
    instruction = Instruction(Opcode.FILL, x_count=20, channels=4, destination_x_stride=7, value=-3)
    bench, _ = run(rng, "micro", [instruction], tables=1)
    assert span(bench.writes) == 20 * 2


def test_next_instruction_starts_before_the_last_write(rng):
    instructions = [
        Instruction(
            Opcode.VECTOR,
            source=Space.ACCUMULATORS,
            x_count=8,
            source_x_stride=1,
            source_base=n,
            channels=8,
            destination_base=64 * n,
            destination_x_stride=8,
            rounding=n,
            zero_point=n,
        )
        for n in range(2)
    ]
    bench, _ = run(rng, "micro", instructions, tables=1)
    assert bench.reads[8] < bench.writes[31] - 8
    assert bench.reads[8] - bench.reads[7] <= bench.dut.PREPARE + 6


@pytest.mark.parametrize("stall", [0.0, 0.7])
def test_last_places_are_not_those_of_the_next_instruction(rng, stall):
    # More groups than there is space for: the descriptors come later than the reads.
    instructions = [
        Instruction(
            Opcode.VECTOR,
            source=Space.ACCUMULATORS,
            x_count=pixels,
            channels=8,
            destination_base=40,
            destination_x_stride=9,
        )
        for pixels in (12, 16, 9)
    ]
    fill = Instruction(Opcode.FILL, x_count=3, destination_base=1, destination_x_stride=2)
    run(rng, "micro", [i for vector in instructions for i in (vector, fill)], stall=stall, tables=1)


@pytest.mark.parametrize(
    ("lanes", "primitive", "stall"),
    [("nano", "logic", 0.6), ("micro", "portable", 0.0), ("full", "portable", 0.6)],
)
def test_products(rng, lanes, primitive, stall):
    """Products and squared differences, then sums that are added to and read at once."""
    columns = SHAPES[lanes][1]

    def vector(mode, count):
        return Instruction(
            Opcode.VECTOR,
            destination=Space.ACCUMULATORS,
            x_count=count,
            source_base=int(rng.integers(60)),
            source_x_stride=3,
            channels=columns - 1 or 1,
            destination_base=2,
            destination_x_stride=2,
            mode=mode,
            params=0,
        )

    read = Instruction(
        Opcode.VECTOR,
        source=Space.ACCUMULATORS,
        x_count=9,
        source_x_stride=1,
        channels=columns,
        destination_x_stride=columns + 1,
    )
    modes = (Mode.MULTIPLY, Mode.ADD, Mode.SQUARED_DIFFERENCE, Mode.MAX)
    instructions = [vector(mode, int(rng.integers(1, 8))) for mode in modes]
    program = [i for each in instructions for i in (each, read, each)]
    options = {"elementwise_products": True, "primitive": primitive}
    run(rng, lanes, program, stall=stall, tables=1, **options)


@pytest.mark.parametrize("mode", [Mode.ADD, Mode.MAX])
@pytest.mark.parametrize("lanes", ["nano", "full"])
def test_all_pixels_into_one_row(rng, mode, lanes):
    columns = SHAPES[lanes][1]
    instruction = Instruction(
        Opcode.VECTOR,
        destination=Space.ACCUMULATORS,
        x_count=40,
        source_x_stride=3,
        channels=columns,
        destination_base=5,
        mode=mode,
    )
    bench, _ = run(rng, lanes, [instruction], tables=1)
    groups = columns // SHAPES[lanes][2]
    assert span(bench.writes) == 40 * groups


OUTSIDE = [
    {"source_base": 255, "source_x_stride": 200, "channels": 2},
    {"source_base": 250, "source_run": 1, "source_skip": 60, "channels": 3},
    {"destination_base": 255, "channels": 2},
    {"destination_base": 200, "destination_y_stride": 57, "y_count": 2},
    {"destination_base": 3, "destination_run": 2, "destination_skip": 63, "channels": 5},
    {"source": Space.ACCUMULATORS, "source_base": 30, "source_x_stride": 2, "x_count": 2},
    {"source": Space.ACCUMULATORS, "source_base": 31, "window_y_count": 2, "window_y_stride": 1},
    {"destination": Space.ACCUMULATORS, "destination_base": 32},
    {"destination": Space.ACCUMULATORS, "destination_base": 255, "mode": Mode.ADD},
    {"params": 6, "per_channel": 1, "channels": 3},
]


async def test_range_and_reset(rng):
    bench = Bench(rng, **sizes("nano", tables=1))
    reset = Signal()
    before = Instruction(Opcode.FILL, channels=3, destination_base=9, value=1)
    behind = Instruction(Opcode.FILL, channels=200, value=7)

    async def attempt(ctx, fields):
        bad = Instruction(Opcode.VECTOR, **{"destination_base": 100, "x_count": 2} | fields)
        bench.state.execute(before)
        await bench.issue(ctx, before, 10)
        await bench.issue(ctx, bad, 11)
        # What comes after it must not be seen, whether it is taken or not.
        port = bench.dut.instruction
        ctx.set(port.valid, 1)
        ctx.set(port.payload.tag, 12)
        ctx.set(port.payload.fields.fill, {"opcode": behind.opcode, **behind.fields})
        await ctx.tick().repeat(120)
        ctx.set(port.valid, 0)
        assert ctx.get(bench.dut.idle)
        await pulse(ctx, reset)

    design = ResetInserter(reset)(bench.dut)
    ctx = await pysim.simulation(design, background=[bench.memories])
    await bench.load_parameters(ctx, pysim.put, tables=False)
    for fields in OUTSIDE:
        bench.done.clear()
        bench.faults.clear()
        await attempt(ctx, fields)
        assert [fault[:2] for fault in bench.faults] == [(Error.RANGE, 11)]
        assert len(bench.done) == 1
        assert max(bench.writes) <= bench.faults[0][2] + 1
        # Nothing but what the instruction names may have changed.
        changed = np.flatnonzero(bench.unified_seen != bench.state.unified)
        named = {100, 101, 102} if "destination_base" not in fields else set(range(256))
        assert set(changed.tolist()) <= named
        assert (bench.unified_seen == 7).sum() < 50
        assert (bench.sums_seen == bench.state.sums).all()
        bench.state.unified[:] = bench.unified_seen
    # And it runs again.
    good = Instruction(
        Opcode.VECTOR,
        channels=9,
        x_count=3,
        source_x_stride=9,
        destination_base=128,
        destination_x_stride=9,
    )
    bench.state.execute(good)
    await bench.issue(ctx, good, 23)
    await bench.settle(ctx)
    bench.compare()


async def test_late_fault_holds_back_the_next_instruction(rng):
    bench = Bench(rng, **sizes("micro", tables=1))
    last = bench.sizes["unified_bytes"] - 1
    ctx = await pysim.simulation(bench.dut, background=[bench.memories])
    # Lane 1 lies outside, which only the buffer notices.
    bad = Instruction(Opcode.FILL, channels=2, destination_base=last)
    bench.stall = 1.0
    await ctx.tick().repeat(2)
    await bench.issue(ctx, bad, 5)
    await bench.issue(ctx, Instruction(Opcode.FILL, channels=60, value=1), 6)
    await ctx.tick().repeat(60)
    bench.stall = 0.0
    await ctx.tick().repeat(60)
    assert ctx.get(bench.dut.idle)
    assert [fault[:2] for fault in bench.faults] == [(Error.RANGE, 5)]
    assert len(bench.writes) == 1
    assert not bench.done


async def pulse(ctx, signal):
    ctx.set(signal, 1)
    await ctx.tick()
    ctx.set(signal, 0)


async def test_abort_and_reset(rng):
    bench = Bench(rng, stall=0.3, **sizes("micro", tables=1))
    programs = Programs(rng, bench.sizes)
    dut = bench.dut
    reset = Signal()

    async def attempt(ctx, wait):
        for index in range(2):
            await bench.issue(ctx, programs.vector(x_count=2), index)
        await ctx.tick().repeat(wait)
        ctx.set(dut.abort, 1)
        await ctx.tick()
        reads, writes, done = len(bench.reads), len(bench.writes), len(bench.done)
        # Two writes of the accumulators may be under way: the bench sees sums two cycles late.
        for _ in range(2):
            await ctx.tick()
            assert len(bench.writes) <= writes + 1
            writes = len(bench.writes)
        cycles = 0
        while not ctx.get(dut.idle):
            await ctx.tick()
            cycles += 1
        assert cycles < 60
        # A read that was offered is taken.
        assert len(bench.reads) <= reads + 1
        reads = len(bench.reads)
        for _ in range(40):
            assert ctx.get(dut.idle)
            assert not ctx.get(dut.instruction.ready)
            await ctx.tick()
        assert (len(bench.reads), len(bench.writes), len(bench.done)) == (reads, writes, done)
        ctx.set(dut.abort, 0)
        await pulse(ctx, reset)

    ctx = await pysim.simulation(ResetInserter(reset)(dut), background=[bench.memories])
    await bench.load_parameters(ctx, pysim.put, tables=False)
    for wait in (1, 3, 9, 14, 20, 25, 33, 60):
        await attempt(ctx, wait)
    bench.state.unified[:] = bench.unified_seen
    bench.state.sums[:] = bench.sums_seen
    for index in range(3):
        good = programs.vector(use_table=0)
        bench.state.execute(good)
        await bench.issue(ctx, good, index)
    await bench.settle(ctx)
    bench.compare()


def test_activity(rng):
    instructions = [
        Instruction(
            Opcode.VECTOR,
            source=Space.ACCUMULATORS,
            x_count=30,
            channels=8,
            destination_x_stride=1,
        ),
        Instruction(Opcode.FILL, x_count=100, destination_x_stride=1),
    ]
    bench, taken = run(rng, "micro", instructions, stall=0.7, tables=1)
    during = bench.activity[taken[0] + 1 : bench.done[1]]
    assert Activity.IDLE not in during
    assert during.count(Activity.MEMORY) > 100
    assert during[-1] in (Activity.DRAIN, Activity.MEMORY)
    assert set(bench.activity[bench.done[1] + 1 :]) == {Activity.IDLE}


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"lanes": 3},
            "lanes: wanted a power of two up to rows = 8 that divides columns = 8, got 3",
        ),
        ({"visible_cycles": 1}, "visible_cycles: wanted at least 2, got 1"),
    ],
)
def test_refuses(changes, message):
    with pytest.raises(ValueError, match=message):
        VectorUnit(**settings(**{**sizes("micro"), "visible_cycles": 3, **changes}))
