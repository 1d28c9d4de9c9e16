"""The matrix unit between a unified buffer and a vector unit."""

from typing import Any

import cocotb
import numpy as np
from cosim.bench import Bench
from cosim.flips import Flips, check_flips
from cosim.golden import block, generator_of, machine_of, run, same, weight_beats
from cosim.memories import UnifiedReads
from cosim.streams import put
from cosim.units import Unit

from celosia.hw.arch import isa
from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.memory.accumulators import ACCUMULATOR_LATENCY
from celosia.sim.check.footprint import Memory
from celosia.sim.timing.costs import COSTS, spacing


def make(config: Config) -> Any:
    return block(config, "matrix")


class MatrixBench(Bench):
    """The unit, and a machine with the same weights and sums."""

    async def begin(self) -> None:
        await self.start()
        self.machine, self.generator = machine_of(self), generator_of(self)
        self.runs = Unit(self, drains=True)
        latency = self.unit.read_latency
        self.reads = UnifiedReads(self, self.ports.reads, self.machine.unified, latency)
        self.flips = Flips(self, {Memory.UNIFIED: self.reads.report})
        cocotb.start_soon(self.runs.watch())
        cocotb.start_soon(self.reads.serve())
        await self.write_all()

    async def write_all(self) -> None:
        """Write all tiles and sums of the machine."""
        for tile in range(self.config.weight_tiles):
            await self.write_tile(tile)
        for row in range(self.config.accumulator_rows):
            await self.write_row(row, self.machine.accumulators[row])

    async def write_tile(self, tile: int, rows: int | None = None) -> None:
        """Write a tile, or its first rows, as the load unit does."""
        for beat in weight_beats(self.machine, tile):
            if rows is None or beat["row"] < rows:
                await put(self, self.ports.weights, beat)

    async def write_row(self, row: int, sums: np.ndarray, mask: int = -1) -> None:
        """Write sums as the vector unit does: they come two cycles after the rest."""
        mask &= (1 << self.config.columns) - 1
        write = {"enable": 1, "row": row, "mask": mask, "sums": [0] * self.config.columns}
        self.ports.accumulator_port.write.drive(write)
        await self.ticks(1)
        self.ports.accumulator_port.write.drive(0)
        await self.ticks(1)
        self.ports.accumulator_port.write.drive({"sums": sums.tolist()})
        await self.ticks(1)

    async def compare(self, what: object, wrong: int | None = None) -> None:
        """Compare all sums with those of the machine; the address of one may be ``wrong``."""
        rows, port = self.config.accumulator_rows, self.ports.accumulator_port
        sums, flags = [], []
        for row in range(rows + ACCUMULATOR_LATENCY + 1):
            port.read.drive({"enable": 1, "row": min(row, rows - 1)})
            await self.edge
            if row >= ACCUMULATOR_LATENCY:
                sums.append(list(port.sums.value))
            if row > ACCUMULATOR_LATENCY and self.config.parity:
                flags.append(port.wrong.bits)
        expected = np.array(sums[:rows])
        if wrong is not None:
            row, column = divmod(wrong, self.config.columns)
            assert flags.pop(row) == 1 << column
            expected[row, column] = self.machine.accumulators[row, column]
        same(expected, self.machine.accumulators, what)
        assert not any(flags)

    async def execute(self, program: list[Instruction], wrong: int | None = None) -> None:
        """Run a program, and compare all sums with those of the machine."""
        assert run(self.machine, *program) is None
        await self.runs.run(program)
        await self.compare(program, wrong)

    def draw(self) -> Instruction:
        if self.config.activation_weights and self.rng.random() < 0.3:
            return self.generator.move_weights()
        return self.generator.matmul()


@MatrixBench.test(make)
async def random_programs(bench: MatrixBench) -> None:
    """Sums, and tiles by way of later sums, are those of the machine."""
    await bench.compare("before the first program")
    for number in range(bench.options["rounds"]):
        bench.stall = 0.4 * (number % 2)
        await bench.execute([bench.draw() for _ in range(bench.rng.randint(1, 12))])
        tile = bench.rng.randrange(bench.config.weight_tiles)
        await bench.write_tile(tile)
        row = bench.rng.randrange(bench.config.accumulator_rows)
        flags = bench.numbers.random(bench.config.columns) < 0.5
        sums = bench.numbers.integers(-(1 << 31), 1 << 31, flags.size)
        bench.machine.accumulators[row, flags] = sums[flags]
        await bench.write_row(row, sums, int(flags @ (1 << np.arange(flags.size))))


@MatrixBench.test(make)
async def pace(bench: MatrixBench) -> None:
    """Passes follow one another at the pace of the estimator."""
    depth, rows = bench.config.accumulator_depth, bench.config.rows
    for pixels in (1, 2, 3, depth // 2, depth):
        fields = {"taps": 6 * rows, "x_count": pixels, "x_stride": 1}
        program = [Instruction(Opcode.MATMUL, **fields, accumulator=depth * n) for n in range(2)]
        bench.reads.cycles.clear()
        await bench.execute(program)
        firsts = np.array(bench.reads.cycles)[::pixels]
        # The first two wait for their skips and tiles.
        load = rows if bench.config.serial_skips else rows // bench.config.weight_rows
        passes = max(spacing(program[0], bench.config), load)
        assert np.diff(firsts[2:6]).tolist() == [passes] * 3, (pixels, firsts)


@MatrixBench.test(make)
async def refusals(bench: MatrixBench) -> None:
    """An instruction out of range ends in its error; it and those after it change no other sums."""
    config = bench.config
    # Noticed by the buffer.
    late = {"unified": config.unified_bytes - config.rows - 3, "taps": 2, "run": 1, "skip": 1}
    # Fields, and the pixels before the first that is wrong: only their rows may change.
    for fields, pixels in (
        (late | {"x_count": 9, "x_stride": 1}, 2),
        ({"unified": config.unified_bytes - 1, "taps": 2}, 0),
        ({"unified": config.unified_bytes - 2, "x_count": 4, "x_stride": 1}, 2),
        ({"unified": config.unified_bytes - 7, "x_count": 9, "x_stride": 1}, 7),
        ({"accumulator": config.accumulator_depth - 1, "y_count": 2}, 1),
        ({"accumulator": config.accumulator_rows - 1, "x_count": 3}, 1),
        ({"tile": config.weight_tiles - 1, "taps": config.rows + 1}, 1),
    ):
        good, wrong = bench.generator.matmul(), Instruction(Opcode.MATMUL, **fields)
        expected = run(bench.machine, good, wrong)
        assert expected == (isa.Error.RANGE, 1)
        await bench.runs.run([good])
        assert await bench.runs.failure([wrong, bench.generator.matmul()]) == (isa.Error.RANGE, 0)
        await bench.reset()
        bench.runs.forget()
        for row in range(wrong.accumulator, wrong.accumulator + pixels):
            await bench.write_row(row, bench.machine.accumulators[row])
        await bench.compare(wrong)
    # One that is done before the fault has its sums.
    for _ in range(3):
        good = bench.generator.matmul()
        wrong = Instruction(Opcode.MATMUL, unified=config.unified_bytes - 1, taps=2)
        assert run(bench.machine, good, wrong) == (isa.Error.RANGE, 1)
        done = len(bench.runs.done)
        assert await bench.runs.failure([good, wrong]) == (isa.Error.RANGE, 1)
        if len(bench.runs.done) > done:
            await bench.compare(good)
        await bench.reset()
        bench.runs.forget()
        await bench.write_all()


@MatrixBench.test(make, needs="activation_weights")
async def refused_moves(bench: MatrixBench) -> None:
    """A MOVE_WEIGHTS out of range fills rows before the first that is wrong, and no others."""
    config = bench.config
    rows, last = config.rows, config.weight_tiles - 1
    late = {"unified": config.unified_bytes - rows - 3, "taps": 2, "run": 1, "skip": 1}
    # Fields, and the rows before the first that is wrong.
    for fields, pixels in (
        (late | {"x_count": 5, "x_stride": 1}, 2),
        # The read after the wrong one is right again.
        (late | {"x_count": 3, "x_stride": 1, "y_count": 2}, 2),
        ({"tile": last, "x_count": rows + 1}, rows),
        ({"unified": config.unified_bytes - 2, "x_count": 3, "x_stride": 1}, 2),
        ({"unified": config.unified_bytes - 1, "taps": 2}, 0),
        ({"z_count": config.weight_tiles * rows + 1}, 0),
        ({"y_count": 0x8001}, 0),
    ):
        wrong = Instruction(Opcode.MOVE_WEIGHTS, **fields)
        expected = run(bench.machine, wrong)
        assert expected == (isa.Error.RANGE, 0)
        requests = len(bench.reads.cycles)
        following = bench.generator.move_weights()
        assert await bench.runs.failure([wrong, following]) == expected, fields
        if "taps" not in fields:  # the buffer notices the others
            assert len(bench.reads.cycles) - requests <= pixels + 1
        await bench.reset()
        bench.runs.forget()
        await bench.write_tile(wrong.tile, pixels)
        tile = {"tile": wrong.tile, "taps": rows, "x_count": 9, "x_stride": 3}
        await bench.execute([Instruction(Opcode.MATMUL, **tile)])
        tile = {"tile": following.tile, "taps": rows, "x_count": 9, "x_stride": 3}
        await bench.execute([Instruction(Opcode.MATMUL, **tile)])


@MatrixBench.test(make, needs="activation_weights")
async def moves(bench: MatrixBench) -> None:
    """Rows do not overtake the tile before; tiles start when their last row will be there."""
    config = bench.config
    rows, columns = config.rows, config.columns
    taps = min(rows, columns)
    for count in (rows, 2 * rows, rows + 1, 3):
        first = Instruction(Opcode.MATMUL, taps=2 * rows, x_count=4, x_stride=1)
        move = Instruction(Opcode.MOVE_WEIGHTS, taps=taps, x_count=count, x_stride=1)
        last = first.but(taps=rows, x_count=2, accumulator=config.accumulator_depth)
        bench.reads.cycles.clear()
        await bench.execute([first, move, last])
        before, moved, after = np.split(np.array(bench.reads.cycles), [8, 8 + count])
        # The tile of the second pass starts a cycle after its first vector, if tiles take cycles.
        tile = config.rows != config.weight_rows
        assert moved[0] - before[-1] == max(1, columns - COSTS.overtaken - 7 + tile)
        assert np.ptp(moved) == count - 1
        row = (count - 1) % rows
        assert after[0] - moved[-1] == max(2, COSTS.landing + 1 - row), (count, after, moved)
    # Beats for other tiles wait for rows that are on their way.
    bench.machine.weights[1:] = bench.numbers.integers(-128, 128, bench.machine.weights[1:].shape)
    running = cocotb.start_soon(bench.runs.run([move]))
    for tile in range(1, config.weight_tiles):
        await bench.write_tile(tile)
    await running
    assert run(bench.machine, move) is None
    fields = {"taps": rows * config.weight_tiles, "x_count": 3, "x_stride": 2}
    await bench.execute([Instruction(Opcode.MATMUL, **fields)])


@MatrixBench.test(make, needs="parity")
async def flips(bench: MatrixBench) -> None:
    """A word of wrong parity ends the instruction that meets it, and no other."""
    await check_flips(bench, bench.flips, 10 * bench.options["rounds"], bench.write_all)


@MatrixBench.test(make)
async def abort(bench: MatrixBench) -> None:
    """After an abort there are no requests, and the unit is idle when its sums are stored."""
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
