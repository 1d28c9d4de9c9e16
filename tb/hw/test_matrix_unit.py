"""The matrix unit with a unified buffer, against NumPy."""

import numpy as np
import pysim
import pytest
from matrix_bench import READ_LATENCY, Bench, issued, sizes

from celosia.hw.arch import isa
from celosia.hw.matrix.unit import MatrixUnit

SMALL = {"forwards": False, "skid": False}


@pytest.mark.parametrize(
    ("rows", "columns", "weight_rows", "form"),
    [
        *((4, 4, 1, form) for form in ({}, SMALL)),
        *((4, 6, 4, {}), (8, 3, 2, {}), (4, 1, 2, {}), (8, 3, 1, SMALL)),
    ],
)
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_random_programs(rows, columns, weight_rows, form, stall):
    seed = rows * 1000 + columns * 10 + int(stall * 10)
    sizes = {"rows": rows, "columns": columns, "weight_rows": weight_rows}
    bench = Bench(**sizes, stall=stall, seed=seed, **form)
    rng = np.random.default_rng(seed)
    programs = []
    for n in range(14):
        x, y, z = (
            int(v) for v in rng.choice([[1, 1, 1], [2, 1, 1], [3, 1, 1], [2, 2, 2], [5, 1, 2]])
        )
        run = int(rng.integers(1, 9))
        skip = int(rng.integers(0, 2))
        taps = int(rng.integers(1, 3 * rows))
        programs.append(
            {
                "unified": int(rng.integers(0, 10)),
                "x_count": x,
                "y_count": y,
                "z_count": z,
                "x_stride": int(rng.integers(0, 6)),
                "y_stride": int(rng.integers(0, 9)),
                "z_stride": int(rng.integers(0, 9)),
                "taps": taps,
                "run": run,
                "skip": skip,
                "tile": int(rng.integers(0, 5)),
                "accumulator": int(rng.integers(0, 5)) + 16 * int(rng.integers(0, 2)),
                "accumulate": int(n > 0 and rng.random() < 0.5),
            }
        )
    bench.run(programs)


@pytest.mark.parametrize(("weight_rows", "pass_cycles"), [(1, 8), (2, 4), (8, 1)])
def test_single_pixel_passes_cost_the_load_of_a_tile(weight_rows, pass_cycles):
    bench = Bench(rows=8, columns=4, weight_rows=weight_rows, tiles=8)
    bench.run([{"taps": 64}])
    # The first pass waits for the skips, while the second tile loads already.
    assert np.diff(bench.fired[1:]).tolist() == [pass_cycles] * 6


@pytest.mark.parametrize(("pixels", "pass_cycles"), [(2, 4), (3, 4), (4, 4), (9, 9)])
def test_passes_follow_without_a_bubble(pixels, pass_cycles):
    """But for one cycle before the next instruction, if the pass before has only two."""
    bench = Bench(rows=4, columns=4, weight_rows=4, tiles=8)
    bench.run(
        [
            {"taps": 16, "x_count": pixels, "x_stride": 1},
            {"taps": 16, "x_count": pixels, "x_stride": 1, "accumulator": 16, "tile": 4},
        ]
    )
    firsts = bench.fired[::pixels]
    assert np.diff(firsts).tolist() == [pass_cycles] * 3 + [max(pixels, 3)] + [pass_cycles] * 3


def test_constructor_passes_refusals_on():
    with pytest.raises(ValueError, match="weight_rows: wanted a divisor of rows = 4, got 3"):
        MatrixUnit(sizes=sizes(rows=4, weight_rows=3), read_latency=READ_LATENCY)
    with pytest.raises(ValueError, match="depth: wanted a power of two, at least 4, got 6"):
        MatrixUnit(sizes=sizes(rows=4, accumulator_depth=6), read_latency=READ_LATENCY)


async def test_done_before_a_fault_means_that_the_sums_are_there():
    bench = Bench(rows=4, columns=4, weight_rows=4, tiles=8)
    dut = bench.dut
    good = bench.matmul(taps=4)
    outside = isa.Instruction(isa.Opcode.MATMUL, taps=12, tile=7)
    done = []
    ctx = await pysim.simulation(dut, background=[bench.memory])
    await bench.write_tiles(ctx)
    for index, instruction in enumerate((good, outside)):
        await pysim.put(ctx, dut.instruction, issued(index, instruction))
    for _ in range(60):
        *_, finished = await ctx.tick().sample(dut.done)
        done.append(finished)
    got = await bench.read_row(ctx, 0)
    assert sum(done) == 0 or np.array_equal(got, bench.sums[0])


async def test_passes_add_to_what_the_vector_unit_wrote():
    bench = Bench(rows=4, columns=4, weight_rows=4)
    dut = bench.dut
    ctx = await pysim.simulation(dut, background=[bench.memory])
    await bench.write_tiles(ctx)
    for row, mask in ((2, 0b1111), (2, 0b0101), (18, 0b1000)):
        sums = [int(v) for v in bench.rng.integers(-(1 << 31), 1 << 31, 4)]
        write = {"enable": 1, "row": row, "mask": mask, "sums": sums}
        ctx.set(dut.accumulator_port.write, write)
        await ctx.tick()
        # The sums come two cycles after the rest.
        ctx.set(dut.accumulator_port.write.enable, 0)
        await ctx.tick().repeat(2)
        for column in range(4):
            if mask >> column & 1:
                bench.sums[row, column] = sums[column]
        assert np.array_equal(await bench.read_row(ctx, row), bench.sums[row])
    instruction = bench.matmul(taps=7, accumulator=2, accumulate=1)
    await pysim.put(ctx, dut.instruction, issued(0, instruction))
    await ctx.tick().until(dut.done)
    for row in (2, 18):
        assert np.array_equal(await bench.read_row(ctx, row), bench.sums[row])


async def test_abort_ends_a_long_instruction():
    bench = Bench(rows=4, columns=4)
    dut = bench.dut
    long = isa.Instruction(isa.Opcode.MATMUL, x_count=1, y_count=16, taps=32)
    ctx = await pysim.simulation(dut, background=[bench.memory])
    await bench.write_tiles(ctx)
    await pysim.put(ctx, dut.instruction, issued(0, long))
    while len(bench.fired) < 5:
        await ctx.tick()
    ctx.set(dut.abort, 1)
    await ctx.tick()
    assert not ctx.get(dut.reads.request.valid)
    assert not ctx.get(dut.idle)
    await ctx.tick().repeat(dut.results_latency)
    assert ctx.get(dut.idle) and len(bench.fired) <= 6


@pytest.mark.parametrize("refused", [0, 1, 4, 7])
async def test_what_was_read_outside_is_stored_nowhere(refused):
    """Nor what was requested after it; no row is touched that no instruction names."""
    bench = Bench(rows=4, columns=4, weight_rows=4)
    bench.refused = refused
    dut, depth = bench.dut, bench.depth
    before = bench.rng.integers(-(1 << 31), 1 << 31, (2 * depth, 4))
    faults = []
    ctx = await pysim.simulation(dut, background=[bench.memory])
    await bench.write_tiles(ctx)
    for row, sums in enumerate(before.tolist()):
        write = {"enable": 1, "row": row, "mask": 0b1111, "sums": sums}
        ctx.set(dut.accumulator_port.write, write)
        await ctx.tick()
        ctx.set(dut.accumulator_port.write.enable, 0)
        await ctx.tick().repeat(2)
    instruction = isa.Instruction(isa.Opcode.MATMUL, taps=4, x_count=9, x_stride=1)
    await pysim.put(ctx, dut.instruction, issued(3, instruction))
    async for _, _, valid, fault, idle in ctx.tick().sample(dut.fault_valid, dut.fault, dut.idle):
        if valid:
            faults.append((fault.code, fault.tag))
        if idle and faults:
            break
    assert faults == [(isa.Error.RANGE, 3)]
    for row in (*range(refused, depth), depth, 2 * depth - 1):
        assert np.array_equal(await bench.read_row(ctx, row), before[row]), row
