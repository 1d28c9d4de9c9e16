"""The matrix unit with parity: what is wrong stops the instruction that meets it, and no other."""

import numpy as np
import pysim
import pytest
from amaranth.hdl import ResetInserter, Signal
from matrix_bench import Bench, issued
from memory_bench import flip, recorded

from celosia.hw.arch import isa
from celosia.hw.memory import accumulators, weight_buffer


class ParityBench(Bench):
    """A matrix unit that repeats a program, with a bit flipped and a reset each time."""

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
                self.faults.append((fault.code, fault.tag))

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
    [(4, 4, 4, 6), (4, 1, 4, 7), (4, 1, 4, 8), (8, 3, 2, 6), (4, 5, 1, 7)],
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


@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (4, 9), (8, 3)])
def test_a_wrong_byte_stops_the_move_that_reads_it(rows, columns, monkeypatch, rng):
    """Between passes as close as they may be; the tiles that it fills have right parity."""
    bench = ParityBench(monkeypatch, rows=rows, columns=columns, activation_weights=True)
    passes = -(-columns // rows)
    move = {"opcode": isa.Opcode.MOVE_WEIGHTS, "taps": columns, "x_count": rows, "x_stride": 1}
    product = {"opcode": isa.Opcode.MATMUL, "taps": rows, "x_count": 3, "x_stride": 1}
    programs = [move, product, move | {"tile": 1}, move, product | {"taps": 2 * rows}, product]
    requests = [rows * passes, 3, rows * passes, rows * passes, 6, 3]

    async def main(ctx):
        await bench.write_tiles(ctx)
        # Wrong weights that a move replaces are not read.
        for row in range(rows):
            bench.flip_weight(ctx, 0, row, int(rng.integers(columns)), 3)
        for index, last in enumerate(np.cumsum(requests)):
            assert await bench.attempt(ctx, programs) == ([], len(programs))
            assert len(bench.fired) == sum(requests)
            bench.wrong = int(last) - int(rng.integers(1, requests[index] + 1))
            assert await bench.attempt(ctx, programs) == ([(isa.Error.MEMORY, index)], index)
            bench.wrong = None

    bench.run_bench(main)


@pytest.mark.parametrize("columns", [1, 4])
def test_sums_of_wrong_parity_are_reported_where_they_are_used(columns, monkeypatch, rng):
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
                assert ctx.get(bench.dut.accumulator_port.wrong) == (other == row) << column
            result = await bench.attempt(ctx, programs)
            # The first instruction writes anew.
            wanted = [(isa.Error.MEMORY, index)] if index else []
            assert result == (wanted, index if index else len(programs))
            zero = {"enable": 1, "row": row, "mask": (1 << columns) - 1, "sums": [0] * columns}
            ctx.set(bench.dut.accumulator_port.write, zero)
            await ctx.tick()
            ctx.set(bench.dut.accumulator_port.write.enable, 0)

    bench.run_bench(main)


def test_parity_changes_no_sum():
    bench = Bench(rows=4, columns=4, weight_rows=2, parity=True, stall=0.3)
    bench.run([{"taps": 11, "x_count": 3, "accumulate": n > 0, "tile": n} for n in range(4)])
