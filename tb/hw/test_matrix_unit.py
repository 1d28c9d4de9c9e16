"""The matrix unit with a unified buffer behind it, against NumPy."""

from typing import Any

import numpy as np
import pytest

from celosia.hw.arch import isa
from celosia.hw.matrix.unit import MatrixUnit
from celosia.sim import pysim

READ_LATENCY = 6


class Bench:
    """A matrix unit, and a unified buffer and a vector unit made of Python."""

    def __init__(self, *, rows, columns, weight_rows=1, depth=16, tiles=8, stall=0.0, seed=0):
        self.rows, self.columns, self.depth = rows, columns, depth
        self.unified_bytes = 64 * rows
        self.rng = np.random.default_rng(seed)
        self.stall = stall
        self.bus_bytes = 4
        self.dut = MatrixUnit(
            rows=rows,
            columns=columns,
            unified_bytes=self.unified_bytes,
            weight_tiles=tiles,
            weight_rows=weight_rows,
            accumulator_depth=depth,
            bus_bytes=self.bus_bytes,
            dsp_columns=columns // 2,
            cells="portable",
            read_latency=READ_LATENCY,
        )
        self.unified = self.rng.integers(-128, 128, self.unified_bytes)
        self.tiles = self.rng.integers(-128, 128, (tiles, rows, columns))
        self.sums = np.zeros((2 * depth, columns), np.int64)
        self.fired = []
        self.elapsed = 0

    def matmul(self, **fields):
        """Run the instruction on NumPy and return it."""
        i = isa.Instruction(isa.Opcode.MATMUL, **fields)
        pixels = [
            x * i.x_stride + y * i.y_stride + z * i.z_stride
            for z in range(i.z_count)
            for y in range(i.y_count)
            for x in range(i.x_count)
        ]
        k = np.arange(i.taps)
        taps = i.unified + k + k // i.run * i.skip * self.rows
        steps = -(-i.taps // self.rows)
        weights = self.tiles[i.tile : i.tile + steps].reshape(-1, self.columns)[: i.taps]
        for p, origin in enumerate(pixels):
            result = self.unified[taps + origin] @ weights
            row = i.accumulator + p
            old = self.sums[row] if i.accumulate else 0
            self.sums[row] = (result + old + 2**31) % 2**32 - 2**31
        return i

    async def memory(self, ctx):
        """Answer requests READ_LATENCY cycles after they were taken; run in the background."""
        pending = []
        while True:
            ctx.set(self.dut.request.ready, int(self.rng.random() >= self.stall))
            valid, ready, request = (
                ctx.get(self.dut.request.valid),
                ctx.get(self.dut.request.ready),
                ctx.get(self.dut.request.payload),
            )
            taken = valid and ready
            answer = [0] * self.rows
            if taken:
                self.fired.append(self.cycle)
                for lane in range(self.rows):
                    address = request.address + lane + request.skip[lane] * self.rows
                    if request.mask >> lane & 1:
                        answer[lane] = int(self.unified[address]) & 255
            pending.append(answer)
            if len(pending) >= READ_LATENCY:
                due = pending.pop(0)
            else:
                due = [0] * self.rows
            await ctx.tick()
            self.cycle += 1
            ctx.set(self.dut.read_data, due)

    async def write_tiles(self, ctx):
        stream = self.dut.weights
        for tile, rows in enumerate(self.tiles):
            for row, weights in enumerate(rows):
                for block in range(-(-self.columns // self.bus_bytes)):
                    beat = [int(w) & 255 for w in weights[block * 4 : block * 4 + 4]]
                    beat += [0] * (4 - len(beat))
                    await pysim.put(
                        ctx, stream, {"tile": tile, "row": row, "block": block, "data": beat}
                    )
        for _ in range(3):
            await ctx.tick()

    async def read_row(self, ctx, row):
        ctx.set(self.dut.accumulator_read.row, row)
        await ctx.tick().repeat(2)
        return np.array([ctx.get(self.dut.sums[j]) for j in range(self.columns)])

    def run(self, programs):
        """Run lists of field sets and compare the accumulators at the end; return the cycles."""
        self.cycle = 0
        instructions = [self.matmul(**fields) for fields in programs]
        done = []

        async def feed(ctx):
            await self.write_tiles(ctx)
            start = self.cycle
            for index, instruction in enumerate(instructions):
                bits = int.from_bytes(isa.encode(instruction), "little")
                layout = isa.LAYOUTS[isa.Opcode.MATMUL]
                payload = {
                    "index": index,
                    "fields": {"matmul": layout.from_bits(bits & ((1 << layout.size) - 1))},
                }
                await pysim.put(ctx, self.dut.instruction, payload)
            while len(done) < len(instructions):
                await ctx.tick()
            self.elapsed = self.cycle - start
            assert ctx.get(self.dut.idle)
            for row in range(2 * self.depth):
                got = await self.read_row(ctx, row)
                assert np.array_equal(got, self.sums[row]), f"row {row}"

        async def count(ctx):
            async for _, _, finished in ctx.tick().sample(self.dut.done):
                if finished:
                    done.append(self.cycle)

        pysim.run(self.dut, feed, background=[self.memory, count], cycles_limit=50_000)
        return self.elapsed


@pytest.mark.parametrize(
    ("rows", "columns", "weight_rows"), [(4, 4, 1), (4, 6, 4), (8, 3, 2), (4, 1, 2)]
)
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_random_programs(rows, columns, weight_rows, stall):
    seed = rows * 1000 + columns * 10 + int(stall * 10)
    bench = Bench(rows=rows, columns=columns, weight_rows=weight_rows, stall=stall, seed=seed)
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
    bench = Bench(rows=4, columns=4, weight_rows=4, tiles=8)
    bench.run(
        [
            {"taps": 16, "x_count": pixels, "x_stride": 1},
            {"taps": 16, "x_count": pixels, "x_stride": 1, "accumulator": 16, "tile": 4},
        ]
    )
    firsts = bench.fired[::pixels]
    assert np.diff(firsts).tolist() == [pass_cycles] * 3 + [pixels] + [pass_cycles] * 3


def test_constructor_passes_refusals_on():
    sizes: dict[str, Any] = {"unified_bytes": 64, "weight_tiles": 4, "bus_bytes": 4}
    sizes |= {"dsp_columns": 0, "cells": "portable"}
    more: dict[str, Any] = {"read_latency": READ_LATENCY, "accumulator_depth": 8}
    with pytest.raises(ValueError, match="weight_rows: wanted a divisor of rows = 4, got 3"):
        MatrixUnit(rows=4, columns=4, weight_rows=3, **sizes, **more)
    with pytest.raises(ValueError, match="depth: wanted a power of two, at least 4, got 6"):
        more["accumulator_depth"] = 6
        MatrixUnit(rows=4, columns=4, weight_rows=1, **sizes, **more)


def test_done_before_a_fault_means_that_the_sums_are_there():
    bench = Bench(rows=4, columns=4, weight_rows=4, tiles=8)
    bench.cycle = 0
    dut = bench.dut
    good = bench.matmul(taps=4)
    outside = isa.Instruction(isa.Opcode.MATMUL, taps=12, tile=7)
    done = []

    async def main(ctx):
        await bench.write_tiles(ctx)
        layout = isa.LAYOUTS[isa.Opcode.MATMUL]
        for index, instruction in enumerate((good, outside)):
            word = int.from_bytes(isa.encode(instruction), "little") & ((1 << layout.size) - 1)
            fields = {"matmul": layout.from_bits(word)}
            await pysim.put(ctx, dut.instruction, {"index": index, "fields": fields})
        for _ in range(60):
            *_, finished = await ctx.tick().sample(dut.done)
            done.append(finished)
        got = await bench.read_row(ctx, 0)
        assert sum(done) == 0 or np.array_equal(got, bench.sums[0])

    pysim.run(dut, main, background=[bench.memory])
