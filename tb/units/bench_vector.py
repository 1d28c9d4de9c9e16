"""The vector unit between unified buffer and accumulators."""

from typing import Any

import cocotb
import numpy as np
from cosim.bench import Bench
from cosim.golden import block, generator_of, machine_of, parameter_beats, run, same
from cosim.memories import Accumulators, UnifiedReads, UnifiedWrites
from cosim.streams import put
from cosim.units import Unit

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Error, Instruction, Mode, Opcode, Space
from celosia.hw.arch.registers import Activity
from celosia.hw.lib.skid_buffer import PipelineRegister
from celosia.hw.memory.unified_buffer import UnifiedBuffer
from celosia.sim.timing.costs import elements


def make(config: Config) -> Any:
    return block(config, "vector")


class VectorBench(Bench):
    """The unit with all its memories, and a machine with the same contents."""

    async def begin(self) -> None:
        await self.start()
        self.machine, self.generator, self.runs = machine_of(self), generator_of(self), Unit(self)
        self.bytes, self.sums = self.machine.unified.copy(), self.machine.accumulators.copy()
        ports, latency = self.ports, UnifiedBuffer.READ_LATENCY
        self.reads = UnifiedReads(self, ports.reads, self.bytes, latency)
        visible = UnifiedBuffer.WRITE_LATENCY + PipelineRegister.LATENCY
        self.writes = UnifiedWrites(
            self, ports.unified_write, self.bytes, visible, ports.write_fault
        )
        self.rows = Accumulators(self, self.sums)
        for process in (self.runs.watch, self.reads.serve, self.writes.serve, self.rows.serve):
            cocotb.start_soon(process())
        await self.write_parameters()

    async def write_parameters(self) -> None:
        """Write parameters and tables as the load unit does."""
        for beat in parameter_beats(self.machine):
            await put(self, self.ports.parameters, beat)

    async def compare(self, program: list[Instruction]) -> None:
        """Run a program, and compare all that can be written with the machine's."""
        assert run(self.machine, *program) is None
        await self.runs.run(program)
        await self.ticks(8)
        same(self.bytes, self.machine.unified, program)
        same(self.sums, self.machine.accumulators, program)

    def draw(self) -> Instruction:
        softmax = self.config.softmax and self.rng.random() < 0.3
        if softmax:
            return self.generator.softmax()
        return self.generator.fill() if self.rng.random() < 0.2 else self.generator.vector()


@cocotb.test()
async def random_programs(dut: Any) -> None:
    """Bytes and sums are those of the machine."""
    bench = VectorBench(dut, make)
    await bench.begin()
    for number in range(bench.options["rounds"]):
        bench.stall = 0.6 * (number % 2)
        await bench.compare([bench.draw() for _ in range(bench.rng.randint(1, 6))])
        if number % 3 == 2:
            bench.machine.parameters[:] = bench.numbers.permutation(bench.machine.parameters)
            await bench.write_parameters()


@cocotb.test()
async def all_into_one_row(dut: Any) -> None:
    """Sums that are added to, or compared, in consecutive cycles."""
    bench = VectorBench(dut, make)
    await bench.begin()
    for mode in (Mode.ADD, Mode.MAX):
        fields = {"x_count": 20, "source_x_stride": 3, "channels": bench.config.columns}
        fields |= {"destination": Space.ACCUMULATORS, "destination_base": 5, "mode": mode}
        await bench.compare([Instruction(Opcode.VECTOR, **fields)])


@cocotb.test()
async def pace(dut: Any) -> None:
    """Elements are read, and groups written, in the cycles of the estimator."""
    bench = VectorBench(dut, make)
    await bench.begin()
    columns = bench.config.columns
    for windows in (1, 2):
        fields = {"x_count": 6, "source_x_stride": 1, "channels": columns, "per_channel": 1}
        fields |= {"window_x_count": windows, "window_y_count": windows, "window_y_stride": 2}
        fields |= {"source": Space.ACCUMULATORS, "destination_x_stride": columns}
        instruction = Instruction(Opcode.VECTOR, **fields)
        bench.rows.cycles.clear()
        bench.writes.cycles.clear()
        await bench.compare([instruction])
        groups, lasting = -(-columns // bench.config.lanes), bench.config.group_cycles
        cycles = elements(instruction, bench.config)
        span = np.ptp(bench.rows.cycles) + 1
        assert bench.rows.cycles[0] - bench.runs.taken[-1] == bench.unit.PREPARE - 1
        assert cycles - groups * lasting < span <= cycles, (span, cycles)
        writes = np.ptp(bench.writes.cycles) + 1
        assert writes == cycles - windows * windows + (groups - 1) * lasting + 1, (writes, cycles)


#: Fields that lie outside, of a core with 2 ** n bytes and rows.
def outside(config: Config) -> list[dict[str, Any]]:
    size, rows, skip = config.unified_bytes, config.accumulator_rows, config.unified_rows - 4
    return [
        {"source_base": size - 1, "source_x_stride": size // 2, "x_count": 2, "channels": 2},
        {"source_base": size - 6, "source_run": 1, "source_skip": skip},
        {"destination_base": size - 1, "channels": 2},
        {"destination_base": size - 56, "destination_y_stride": 57, "y_count": 2},
        {"destination_base": 3, "destination_run": 2, "destination_skip": skip + 4 - 1},
        {"source": Space.ACCUMULATORS, "source_base": rows - 2, "source_x_stride": 2, "x_count": 2},
        {"source": Space.ACCUMULATORS, "source_base": rows - 1, "window_y_count": 2},
        {"destination": Space.ACCUMULATORS, "destination_base": rows},
        {"destination": Space.ACCUMULATORS, "destination_base": rows - 1, "x_count": 3},
        {"params": config.parameter_channels - config.lanes, "per_channel": 1},
    ]


@cocotb.test()
async def refusals(dut: Any) -> None:
    """Instructions out of range: the error, and nothing changes that they do not name."""
    bench = VectorBench(dut, make)
    await bench.begin()
    for number, fields in enumerate(outside(bench.config)):
        bench.stall = 0.5 * (number % 2)
        fields = {"channels": 3, "window_y_stride": 1, "destination_x_stride": 1} | fields
        wrong = Instruction(Opcode.VECTOR, **fields)
        expected = run(bench.machine, wrong)
        if expected is None:  # on this core it lies inside
            await bench.runs.run([wrong])
            continue
        assert expected == (Error.RANGE, 0)
        after = Instruction(Opcode.FILL, channels=bench.config.unified_bytes // 2, value=7)
        before = bench.bytes.copy(), bench.sums.copy()
        assert await bench.runs.failure([wrong, after]) == expected, fields
        # What comes after the first address of the destination may have changed.
        ends = [len(bench.bytes), len(bench.sums)]
        ends[wrong.destination] = wrong.destination_base
        for seen, content, end in zip((bench.bytes, bench.sums), before, ends, strict=True):
            same(seen[:end], content[:end], fields)
        assert (bench.bytes == 7).sum() < bench.config.unified_bytes // 4
        await bench.reset()
        bench.runs.forget()
        bench.machine.unified[:], bench.machine.accumulators[:] = bench.bytes, bench.sums
    await bench.compare([bench.generator.vector() for _ in range(3)])


@cocotb.test()
async def abort(dut: Any) -> None:
    """After an abort the unit writes what is under way, becomes idle, and stays so."""
    bench = VectorBench(dut, make)
    await bench.begin()
    bench.stall = 0.3
    for wait in (1, 9, 20, 33, 60):
        for _ in range(2):
            await bench.runs.issue(bench.generator.vector())
        await bench.ticks(wait)
        bench.ports.abort.drive(1)
        await bench.ticks(2)
        await bench.until(lambda: bench.ports.idle.bits, 100, "idle")
        await bench.ticks(8)
        seen = len(bench.reads.cycles), len(bench.writes.cycles), len(bench.rows.writes)
        await bench.ticks(40)
        assert bench.ports.idle.bits and not bench.ports.instruction.ready.bits
        again = len(bench.reads.cycles), len(bench.writes.cycles), len(bench.rows.writes)
        assert again == seen and bench.runs.activity[-1] == Activity.IDLE.value
        bench.ports.abort.drive(0)
        await bench.reset()
        bench.runs.forget()
    bench.machine.unified[:], bench.machine.accumulators[:] = bench.bytes, bench.sums
    await bench.compare([bench.generator.vector() for _ in range(3)])
