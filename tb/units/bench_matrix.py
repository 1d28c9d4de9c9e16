"""The matrix unit between a unified buffer and a vector unit."""

from typing import Any

import cocotb
import numpy as np
from cosim.bench import Bench
from cosim.golden import block, generator_of, machine_of, run, same, weight_beats
from cosim.memories import UnifiedReads
from cosim.streams import put
from cosim.units import Unit

from celosia.hw.arch import isa
from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.memory.accumulators import ACCUMULATOR_LATENCY
from celosia.sim.timing.costs import spacing


def make(config: Config) -> Any:
    return block(config, "matrix")


class MatrixBench(Bench):
    """The unit, and a machine with the same weights and sums."""

    async def begin(self) -> None:
        await self.start()
        self.machine, self.generator, self.runs = machine_of(self), generator_of(self), Unit(self)
        latency = self.unit.read_latency
        self.reads = UnifiedReads(self, self.ports.reads, self.machine.unified, latency)
        cocotb.start_soon(self.runs.watch())
        cocotb.start_soon(self.reads.serve())
        for tile in range(self.config.weight_tiles):
            await self.write_tile(tile)
        for row in range(self.config.accumulator_rows):
            await self.write_row(row, self.machine.accumulators[row])

    async def write_tile(self, tile: int) -> None:
        """Write a tile as the load unit does."""
        for beat in weight_beats(self.machine, tile):
            await put(self, self.ports.weights, beat)

    async def write_row(self, row: int, sums: np.ndarray) -> None:
        """Write sums as the vector unit does: they come two cycles after the rest."""
        write = {"enable": 1, "row": row, "mask": -1, "sums": [0] * self.config.columns}
        self.ports.accumulator_port.write.drive(write)
        await self.ticks(1)
        self.ports.accumulator_port.write.drive(0)
        await self.ticks(1)
        self.ports.accumulator_port.write.drive({"sums": sums.tolist()})
        await self.ticks(1)

    async def compare(self, what: object) -> None:
        """Compare all sums with those of the machine."""
        rows = self.config.accumulator_rows
        sums = []
        for row in range(rows + ACCUMULATOR_LATENCY):
            self.ports.accumulator_port.read.drive({"enable": 1, "row": min(row, rows - 1)})
            await self.edge
            if row >= ACCUMULATOR_LATENCY:
                sums.append(list(self.ports.accumulator_port.sums.value))
        same(sums, self.machine.accumulators, what)

    def draw(self) -> Instruction:
        if self.config.activation_weights and self.rng.random() < 0.3:
            return self.generator.move_weights()
        return self.generator.matmul()


@cocotb.test()
async def random_programs(dut: Any) -> None:
    """Sums, and tiles by way of later sums, are those of the machine."""
    bench = MatrixBench(dut, make)
    await bench.begin()
    await bench.compare("before the first program")
    for number in range(bench.options["rounds"]):
        bench.stall = 0.4 * (number % 2)
        program = [bench.draw() for _ in range(bench.rng.randint(1, 12))]
        assert run(bench.machine, *program) is None
        await bench.runs.run(program)
        await bench.compare(program)
        tile = bench.rng.randrange(bench.config.weight_tiles)
        await bench.write_tile(tile)


@cocotb.test()
async def pace(dut: Any) -> None:
    """Passes follow one another at the pace of the estimator."""
    bench = MatrixBench(dut, make)
    await bench.begin()
    depth, rows = bench.config.accumulator_depth, bench.config.rows
    for pixels in (1, 2, 3, depth // 2, depth):
        fields = {"taps": 6 * rows, "x_count": pixels, "x_stride": 1}
        program = [Instruction(Opcode.MATMUL, **fields, accumulator=depth * n) for n in range(2)]
        assert run(bench.machine, *program) is None
        bench.reads.cycles.clear()
        await bench.runs.run(program)
        firsts = np.array(bench.reads.cycles)[::pixels]
        # The first two wait for their skips and tiles.
        load = rows if bench.config.serial_skips else rows // bench.config.weight_rows
        passes = max(spacing(program[0], bench.config), load)
        assert np.diff(firsts[2:6]).tolist() == [passes] * 3, (pixels, firsts)
        await bench.compare(program)


@cocotb.test()
async def refusals(dut: Any) -> None:
    """An instruction out of range ends in its error; it and those after it change no other sums."""
    bench = MatrixBench(dut, make)
    await bench.begin()
    config = bench.config
    for fields in (
        {"unified": config.unified_bytes - 1, "taps": 2},
        {"unified": config.unified_bytes - 2, "x_count": 4, "x_stride": 1},
        {"accumulator": config.accumulator_depth - 1, "y_count": 2},
        {"accumulator": config.accumulator_rows - 1, "x_count": 3},
        {"tile": config.weight_tiles - 1, "taps": config.rows + 1},
    ):
        good, wrong = bench.generator.matmul(), Instruction(Opcode.MATMUL, **fields)
        expected = run(bench.machine, good, wrong)
        assert expected == (isa.Error.RANGE, 1)
        await bench.runs.run([good])
        assert await bench.runs.failure([wrong, bench.generator.matmul()]) == (isa.Error.RANGE, 0)
        await bench.reset()
        bench.runs.forget()
        # The rows that the failing one names may have changed.
        end = min(wrong.accumulator + wrong.x_count * wrong.y_count, config.accumulator_rows)
        for row in range(wrong.accumulator, end):
            await bench.write_row(row, bench.machine.accumulators[row])
        await bench.compare(wrong)


@cocotb.test()
async def abort(dut: Any) -> None:
    """After an abort there are no requests, and the unit is idle when its sums are stored."""
    bench = MatrixBench(dut, make)
    await bench.begin()
    fields = {"taps": 3 * bench.config.rows, "x_count": bench.config.accumulator_depth}
    for wait in (1, 9, 14, 30):
        for _ in range(2):
            await bench.runs.issue(Instruction(Opcode.MATMUL, **fields))
        await bench.ticks(wait)
        bench.ports.abort.drive(1)
        await bench.ticks(2)
        requests = len(bench.reads.cycles)
        await bench.ticks(bench.unit.results_latency)
        assert bench.ports.idle.bits and len(bench.reads.cycles) == requests
        bench.ports.abort.drive(0)
        await bench.reset()
        bench.runs.forget()
