"""The matrix unit with a unified buffer behind it, against NumPy."""

from typing import Any

import numpy as np
import pytest
from amaranth.hdl import ResetInserter, Signal
from memory_bench import flip, recorded

from celosia.hw.arch import isa
from celosia.hw.matrix import accumulators
from celosia.hw.matrix.unit import MatrixUnit
from celosia.hw.memory import weight_buffer
from celosia.sim import pysim

READ_LATENCY = 6


def issued(index, instruction):
    """Return the payload of an instruction stream."""
    layout = isa.LAYOUTS[isa.Opcode.MATMUL]
    word = int.from_bytes(isa.encode(instruction), "little")
    return {"index": index, "fields": {"matmul": layout.from_bits(word & ((1 << layout.size) - 1))}}


class Bench:
    """A matrix unit, and a unified buffer and a vector unit made of Python."""

    def __init__(
        self,
        *,
        rows,
        columns,
        weight_rows=1,
        depth=16,
        tiles=8,
        stall=0.0,
        seed=0,
        read_latency=READ_LATENCY,
        parity=False,
    ):
        self.read_latency, self.parity = read_latency, parity
        # The request whose answer has bytes of wrong parity.
        self.wrong: int | None = None
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
            read_latency=read_latency,
            parity=parity,
        )
        self.unified = self.rng.integers(-128, 128, self.unified_bytes)
        self.tiles = self.rng.integers(-128, 128, (tiles, rows, columns))
        self.sums = np.zeros((2 * depth, columns), np.int64)
        self.fired = []
        self.cycle = self.elapsed = 0

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
        """Answer requests ``read_latency`` cycles after they were taken; run in the background."""
        pending: list[Any] = [([0] * self.rows, False)] * (self.read_latency - 1)
        wrong = False
        while True:
            ctx.set(self.dut.request.ready, int(self.rng.random() >= self.stall))
            valid, ready, request = (
                ctx.get(self.dut.request.valid),
                ctx.get(self.dut.request.ready),
                ctx.get(self.dut.request.payload),
            )
            taken = valid and ready
            answer = [0] * self.rows
            pending.append((answer, bool(taken) and len(self.fired) == self.wrong))
            if taken:
                self.fired.append(self.cycle)
                for lane in range(self.rows):
                    address = request.address + lane + request.skip[lane] * self.rows
                    if request.mask >> lane & 1:
                        answer[lane] = int(self.unified[address]) & 255
            due, due_wrong = pending.pop(0)
            await ctx.tick()
            self.cycle += 1
            ctx.set(self.dut.read_data, due)
            if self.parity:
                # One cycle behind the answer.
                ctx.set(self.dut.read_wrong, wrong)
            wrong = due_wrong

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
        instructions = [self.matmul(**fields) for fields in programs]
        done = []

        async def feed(ctx):
            await self.write_tiles(ctx)
            start = self.cycle
            for index, instruction in enumerate(instructions):
                await pysim.put(ctx, self.dut.instruction, issued(index, instruction))
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
    dut = bench.dut
    good = bench.matmul(taps=4)
    outside = isa.Instruction(isa.Opcode.MATMUL, taps=12, tile=7)
    done = []

    async def main(ctx):
        await bench.write_tiles(ctx)
        for index, instruction in enumerate((good, outside)):
            await pysim.put(ctx, dut.instruction, issued(index, instruction))
        for _ in range(60):
            *_, finished = await ctx.tick().sample(dut.done)
            done.append(finished)
        got = await bench.read_row(ctx, 0)
        assert sum(done) == 0 or np.array_equal(got, bench.sums[0])

    pysim.run(dut, main, background=[bench.memory])


class ParityBench(Bench):
    """A matrix unit that runs a program again and again, with a bit flipped and a reset each time."""

    def __init__(self, monkeypatch, **sizes):
        super().__init__(parity=True, **sizes)
        self.banks = recorded(monkeypatch, weight_buffer)
        self.halves = recorded(monkeypatch, accumulators)
        self.clear = Signal()
        self.faults, self.done = [], 0

    async def watch(self, ctx):
        dut = self.dut
        async for _, _, done, valid, fault in ctx.tick().sample(
            dut.done, dut.fault_valid, dut.fault
        ):
            self.done += done
            if valid:
                self.faults.append((fault.code, fault.index))

    async def attempt(self, ctx, programs):
        """Return the faults, and the number of instructions done before."""
        dut = self.dut
        self.fired.clear()
        self.faults, self.done = [], 0
        for index, fields in enumerate(programs):
            ctx.set(dut.instruction.payload, issued(index, isa.Instruction(**fields)))
            ctx.set(dut.instruction.valid, 1)
            while not (ctx.get(dut.instruction.ready) or self.faults):
                await ctx.tick()
            await ctx.tick()
            ctx.set(dut.instruction.valid, 0)
        while not self.faults and self.done < len(programs):
            await ctx.tick()
        while not ctx.get(dut.idle):
            await ctx.tick()
        await ctx.tick().repeat(3)
        ctx.set(self.clear, 1)
        await ctx.tick()
        ctx.set(self.clear, 0)
        return self.faults, self.done

    def flip_weight(self, ctx, tile, row, column, bit):
        segment, place = divmod(row, self.rows // self.dut.buffer.weight_rows)
        word = tile * (self.rows // self.dut.buffer.weight_rows) + place
        flip(ctx, self.banks[segment * self.columns + column], word, bit)

    def flip_sum(self, ctx, row, column, bit):
        half, place = divmod(row, self.depth)
        flip(ctx, self.halves[2 * column + half], place, bit)

    def run_bench(self, bench):
        core = ResetInserter(self.clear)(self.dut)
        pysim.run(core, bench, background=[self.memory, self.watch], cycles_limit=20_000)


def several(rows):
    """Return instructions, the tiles and the requests of each: passes as close as they may be."""
    passes = [([0, 1, 2], 1), ([3], 3), ([1, 2], 2), ([4, 5, 6], 1), ([7], 1)]
    programs = [
        {
            "opcode": isa.Opcode.MATMUL,
            "tile": tiles[0],
            "taps": len(tiles) * rows,
            "x_count": pixels,
            "accumulator": 16 * (n % 2),
        }
        for n, (tiles, pixels) in enumerate(passes)
    ]
    return programs, [tiles for tiles, _ in passes], [len(t) * pixels for t, pixels in passes]


@pytest.mark.parametrize(
    ("rows", "columns", "weight_rows", "read_latency"),
    [(4, 4, 4, 6), (4, 1, 4, 8), (8, 3, 2, 6), (4, 5, 1, 7)],
)
def test_wrong_parity_stops_the_instruction_that_meets_it(
    rows, columns, weight_rows, read_latency, monkeypatch, rng
):
    """Bytes and weights: instructions before are done, it is not, and a reset mends it."""
    sizes = {"rows": rows, "columns": columns, "weight_rows": weight_rows}
    bench = ParityBench(monkeypatch, read_latency=read_latency, **sizes)
    programs, tiles, requests = several(rows)

    async def main(ctx):
        await bench.write_tiles(ctx)
        assert await bench.attempt(ctx, programs) == ([], len(programs))
        assert len(bench.fired) == sum(requests)
        for tile in range(8):
            where = (tile, *(int(rng.integers(count)) for count in (rows, columns, 9)))
            bench.flip_weight(ctx, *where)
            index = next(n for n, of_one in enumerate(tiles) if tile in of_one)
            assert await bench.attempt(ctx, programs) == ([(isa.Error.MEMORY, index)], index), where
            bench.flip_weight(ctx, *where)
        for index, last in enumerate(np.cumsum(requests)):
            bench.wrong = int(last) - int(rng.integers(1, requests[index] + 1))
            assert await bench.attempt(ctx, programs) == ([(isa.Error.MEMORY, index)], index)
        bench.wrong = None
        assert await bench.attempt(ctx, programs) == ([], len(programs))

    bench.run_bench(main)


@pytest.mark.parametrize("columns", [1, 4])
def test_sums_of_wrong_parity_are_told_where_they_are_used(columns, monkeypatch, rng):
    """To the vector unit that reads them, and as a fault of the instruction that adds to them."""
    bench = ParityBench(monkeypatch, rows=4, columns=columns, weight_rows=4)
    rows = [0, 3, 16, 21]
    programs = [
        {"opcode": isa.Opcode.MATMUL, "taps": 4, "accumulator": row, "accumulate": n > 0}
        for n, row in enumerate(rows)
    ]

    async def main(ctx):
        await bench.write_tiles(ctx)
        assert await bench.attempt(ctx, programs) == ([], len(programs))
        for index, row in enumerate(rows):
            column = int(rng.integers(columns))
            bench.flip_sum(ctx, row, column, int(rng.integers(33)))
            for other in range(32):
                await bench.read_row(ctx, other)
                await ctx.tick()
                assert ctx.get(bench.dut.sums_wrong) == (other == row) << column
            result = await bench.attempt(ctx, programs)
            # The first instruction writes anew.
            wanted = [(isa.Error.MEMORY, index)] if index else []
            assert result == (wanted, index if index else len(programs))
            zero = {"enable": 1, "row": row, "mask": (1 << columns) - 1, "sums": [0] * columns}
            ctx.set(bench.dut.accumulator_write, zero)
            await ctx.tick()
            ctx.set(bench.dut.accumulator_write.enable, 0)

    bench.run_bench(main)


def test_parity_changes_no_sum():
    bench = Bench(rows=4, columns=4, weight_rows=2, parity=True, stall=0.3)
    bench.run([{"taps": 11, "x_count": 3, "accumulate": n > 0, "tile": n} for n in range(4)])


def test_passes_add_to_what_the_vector_unit_wrote():
    bench = Bench(rows=4, columns=4, weight_rows=4)
    dut = bench.dut

    async def main(ctx):
        await bench.write_tiles(ctx)
        for row, mask in ((2, 0b1111), (2, 0b0101), (18, 0b1000)):
            sums = [int(v) for v in bench.rng.integers(-(1 << 31), 1 << 31, 4)]
            write = {"enable": 1, "row": row, "mask": mask, "sums": sums}
            ctx.set(dut.accumulator_write, write)
            await ctx.tick()
            ctx.set(dut.accumulator_write.enable, 0)
            for column in range(4):
                if mask >> column & 1:
                    bench.sums[row, column] = sums[column]
            assert np.array_equal(await bench.read_row(ctx, row), bench.sums[row])
        instruction = bench.matmul(taps=7, accumulator=2, accumulate=1)
        await pysim.put(ctx, dut.instruction, issued(0, instruction))
        await ctx.tick().until(dut.done)
        for row in (2, 18):
            assert np.array_equal(await bench.read_row(ctx, row), bench.sums[row])

    pysim.run(dut, main, background=[bench.memory])


def test_abort_ends_a_long_instruction():
    bench = Bench(rows=4, columns=4)
    dut = bench.dut
    long = isa.Instruction(isa.Opcode.MATMUL, x_count=1, y_count=16, taps=32)

    async def main(ctx):
        await bench.write_tiles(ctx)
        await pysim.put(ctx, dut.instruction, issued(0, long))
        while len(bench.fired) < 5:
            await ctx.tick()
        ctx.set(dut.abort, 1)
        await ctx.tick()
        assert not ctx.get(dut.request.valid)
        assert not ctx.get(dut.idle)
        await ctx.tick().repeat(dut.results_latency)
        assert ctx.get(dut.idle) and len(bench.fired) <= 6

    pysim.run(dut, main, background=[bench.memory])
