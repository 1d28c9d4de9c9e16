"""The pixels of a MATMUL against nested loops."""

import pysim
import pytest
from matrix_passes import MATMUL as DEFAULTS
from matrix_passes import pixels, sizes

from celosia.hw.arch import isa
from celosia.hw.matrix.addresses import PassAddresses

MOVE = isa.Opcode.MOVE_WEIGHTS


def addresses(**changes):
    standard = {"rows": 4, "unified_bytes": 64, "weight_tiles": 4, "accumulator_depth": 4}
    return PassAddresses(sizes=sizes(**(standard | changes)))


def seen(ctx, dut, wanted):
    return {name: ctx.get(getattr(dut, name)) for name in wanted}


def read_all(dut, programs, rng=None, stall=0.0):
    """Run each program to its end or its first pixel outside; return how many went outside."""
    outside = 0

    async def bench(ctx):
        nonlocal outside
        for fields in programs:
            ctx.set(dut.instruction, DEFAULTS | {"opcode": isa.Opcode.MATMUL} | fields)
            pysim.drive(ctx, dut, idle=1, begin=1, advance=1)
            await ctx.tick()
            pysim.drive(ctx, dut, idle=0, begin=0, advance=0)
            # Only in the cycle of `begin` are the fields looked at.
            ctx.set(dut.instruction, {name: 0 for name in DEFAULTS})
            for wanted in pixels(dut, fields):
                while rng is not None and rng.random() < stall:
                    ctx.set(dut.advance, 0)
                    if not wanted["outside"]:
                        assert seen(ctx, dut, wanted) == wanted
                    await ctx.tick()
                if wanted["outside"]:
                    assert ctx.get(dut.outside)
                    outside += 1
                    break
                assert seen(ctx, dut, wanted) == wanted
                ctx.set(dut.advance, not wanted["final"])
                await ctx.tick()
            ctx.set(dut.advance, 0)

    pysim.run(dut, bench, cycles_limit=100_000)
    return outside


@pytest.mark.parametrize(
    ("rows", "unified_bytes", "depth"), [(4, 64, 8), (8, 128, 4), (4, 48, 4), (16, 1040, 16)]
)
@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_random_loops(rows, unified_bytes, depth, stall, rng):
    dut = addresses(rows=rows, unified_bytes=unified_bytes, accumulator_depth=depth)
    programs = []
    for _ in range(60):
        small = rng.random() < 0.7
        stride = 6 if small else unified_bytes
        programs.append(
            {
                "unified": int(rng.integers(0, 8 if small else unified_bytes)),
                **{f"{axis}_count": int(rng.integers(1, 4)) for axis in "xyz"},
                **{f"{axis}_stride": int(rng.integers(0, stride)) for axis in "xyz"},
                "taps": int(rng.integers(1, 3 * rows + 2)),
                "accumulator": int(rng.choice([0, depth - 1, depth, 2 * depth - 1, depth // 2])),
                "accumulate": int(rng.integers(0, 2)),
            }
        )
    outside = read_all(dut, programs, rng, stall)
    assert 0 < outside < len(programs)


@pytest.mark.parametrize(
    ("rows", "tiles", "depth", "blocks"),
    [(4, 8, 4, 1), (4, 3, 16, 2), (8, 5, 4, 3), (16, 2, 64, 1)],
)
@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_rows_of_tiles_between_matmuls(rows, tiles, depth, blocks, stall, rng):
    dut = addresses(
        rows=rows, unified_bytes=256, weight_tiles=tiles, accumulator_depth=depth, blocks=blocks
    )
    programs = []
    for _ in range(80):
        move = rng.random() < 0.6
        most = min(2 * depth - 1, 3 * rows if move else 3)
        fields = {
            "unified": int(rng.integers(0, 100)),
            **{f"{axis}_count": int(rng.integers(1, 4)) for axis in "yz"},
            "x_count": int(rng.integers(1, most + 1)),
            **{f"{axis}_stride": int(rng.integers(0, 6)) for axis in "xyz"},
            "taps": int(rng.integers(1, blocks * rows + 1)),
            "tile": int(rng.integers(0, tiles)),
            # What a MATMUL set before must not matter.
            "accumulator": int(rng.integers(0, 2 * depth)),
            "accumulate": int(rng.integers(0, 2)),
        }
        programs.append(fields | {"opcode": MOVE if move else isa.Opcode.MATMUL})
    outside = read_all(dut, programs, rng, stall)
    assert 0 < outside < len(programs)


def test_the_last_row_of_the_weight_buffer_is_inside_and_the_next_is_not():
    for tiles in (3, 4):
        dut = addresses(weight_tiles=tiles, accumulator_depth=16, blocks=1)
        whole = {"opcode": MOVE, "x_count": 4, "y_count": tiles}
        assert read_all(dut, [whole]) == 0
        assert read_all(dut, [whole | {"tile": 1}, whole | {"z_count": 2}]) == 2


def test_construction():
    dut = addresses(unified_bytes=48, weight_tiles=3, accumulator_depth=8)
    assert dut.address_bits == 7 and len(dut.address) == 7 and len(dut.row) == 4


@pytest.mark.parametrize("taps", [1, 3, 4, 5, 8, 9])
def test_steps_at_the_edges_of_the_lanes(taps):
    read_all(addresses(), [{"taps": taps}])


@pytest.mark.parametrize("accumulator", [0, 4])
def test_a_whole_half_is_inside_and_one_more_row_is_not(accumulator):
    dut = addresses()
    whole = {"accumulator": accumulator, "x_count": 2, "y_count": 2, "taps": 9}
    assert read_all(dut, [whole]) == 0
    assert read_all(dut, [whole | {"x_count": 5, "y_count": 1}]) == 1
    assert read_all(dut, [whole | {"accumulator": accumulator + 1}]) == 1


@pytest.mark.parametrize("size", [64, 48])
def test_the_last_byte_is_inside_and_the_next_is_not(size):
    dut = addresses(unified_bytes=size, accumulator_depth=8)
    assert read_all(dut, [{"unified": size - 1}]) == 0
    assert read_all(dut, [{"unified": size - 4, "taps": 5}]) == 1
    for axis in "xyz":
        long = {f"{axis}_count": 2, f"{axis}_stride": size - 1}
        assert read_all(dut, [long]) == 0
        assert read_all(dut, [long | {"unified": 1}]) == 1
        assert read_all(dut, [long | {"unified": size - 1}]) == 1


def test_long_counts():
    dut = addresses(weight_tiles=512, accumulator_depth=512)
    read_all(dut, [{"y_count": 300, "z_count": 1, "x_count": 1}, {"z_count": 260, "taps": 5}])
