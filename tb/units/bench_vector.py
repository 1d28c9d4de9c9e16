"""The vector unit between unified buffer and accumulators."""

from typing import Any

import cocotb
import numpy as np
from cosim.bench import Bench
from cosim.flips import Flips, check_flips
from cosim.golden import block, generator_of, machine_of, parameter_beats, run, same
from cosim.memories import Accumulators, UnifiedReads, UnifiedWrites
from cosim.streams import put
from cosim.units import Unit

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Error, Instruction, Mode, Opcode, Space
from celosia.hw.arch.registers import Activity
from celosia.hw.lib.skid_buffer import PipelineRegister
from celosia.hw.memory.unified_buffer import UnifiedBuffer
from celosia.sim.check import footprint
from celosia.sim.check.footprint import Memory
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
        around = {Memory.UNIFIED: self.reads.report, Memory.ACCUMULATORS: self.rows.report}
        self.flips = Flips(self, around)
        for process in (self.runs.watch, self.reads.serve, self.writes.serve, self.rows.serve):
            cocotb.start_soon(process())
        await self.write_parameters()

    async def write_parameters(self) -> None:
        """Write parameters and tables as the load unit does."""
        for beat in parameter_beats(self.machine):
            await put(self, self.ports.parameters, beat)

    async def execute(self, program: list[Instruction]) -> None:
        """Run a program, and compare all that can be written with the machine's."""
        assert run(self.machine, *program) is None
        await self.runs.run(program)
        await self.ticks(8)
        same(self.bytes, self.machine.unified, program)
        same(self.sums, self.machine.accumulators, program)

    def draw(self) -> Instruction:
        if self.config.softmax and self.rng.random() < 0.3:
            return self.generator.softmax()
        drawn = self.generator.fill() if self.rng.random() < 0.2 else self.generator.vector()
        if self.rng.random() < 0.7:
            return drawn
        # One group, so that the next instruction is close.
        short = dict.fromkeys(drawn.fields.keys() & COUNTS, 1)
        return drawn.but(**short, channels=min(drawn.channels, self.config.lanes))

    async def again(self) -> None:
        """Reset; the machine has the bytes and sums of the unit then."""
        await self.reset()
        self.runs.forget()
        self.machine.unified[:], self.machine.accumulators[:] = self.bytes, self.sums


COUNTS = {"x_count", "y_count", "z_count", "window_x_count", "window_y_count"}


@VectorBench.test(make)
async def random_programs(bench: VectorBench) -> None:
    """Bytes and sums are those of the machine."""
    for number in range(bench.options["rounds"]):
        bench.stall = 0.6 * (number % 2)
        await bench.execute([bench.draw() for _ in range(bench.rng.randint(1, 6))])
        if number % 3 == 2:
            bench.machine.parameters[:] = bench.numbers.permutation(bench.machine.parameters)
            await bench.write_parameters()


@VectorBench.test(make)
async def all_into_one_row(bench: VectorBench) -> None:
    """Sums that are added to, or compared, in consecutive cycles."""
    config = bench.config
    for mode in (Mode.ADD, Mode.MAX):
        fields = {"x_count": 20, "source_x_stride": 3, "channels": config.columns}
        fields |= {"destination": Space.ACCUMULATORS, "destination_base": 5, "mode": mode}
        bench.rows.writes.clear()
        await bench.execute([Instruction(Opcode.VECTOR, **fields)])
        if config.group_cycles == 1:
            assert np.ptp(bench.rows.writes) + 1 == 20 * config.groups


@VectorBench.test(make)
async def reads_and_pace_of_any_instruction(bench: VectorBench) -> None:
    """Nothing but the bytes of its footprint is read, in the cycles of the estimator."""
    config = bench.config
    for _ in range(4 * bench.options["rounds"]):
        instruction = bench.generator.vector()
        bench.reads.touched.clear()
        for cycles in (bench.reads.cycles, bench.rows.cycles, bench.writes.cycles):
            cycles.clear()
        await bench.execute([instruction])
        of_sums = instruction.source == Space.ACCUMULATORS.value
        named = footprint.touches(instruction, config)[0].pattern.addresses().ravel()
        assert of_sums or bench.reads.touched == set(named.tolist()), instruction
        if not of_sums:
            first = bench.reads.cycles[0] - bench.runs.taken[-1]
            span = np.ptp(bench.reads.cycles) + 1
            assert (first, span) == (bench.unit.PREPARE, elements(instruction, config)), instruction
        if instruction.destination == Space.UNIFIED.value:
            groups = -(-instruction.channels // config.lanes)
            assert len(bench.writes.cycles) == footprint.pixels(instruction) * groups


@VectorBench.test(make)
async def pace(bench: VectorBench) -> None:
    """Elements are read, and groups written, in the cycles of the estimator."""
    columns = bench.config.columns
    for windows in (1, 2):
        fields = {"x_count": 6, "source_x_stride": 1, "channels": columns, "per_channel": 1}
        fields |= {"window_x_count": windows, "window_y_count": windows, "window_y_stride": 2}
        fields |= {"source": Space.ACCUMULATORS, "destination_x_stride": columns}
        instruction = Instruction(Opcode.VECTOR, **fields)
        bench.rows.cycles.clear()
        bench.writes.cycles.clear()
        await bench.execute([instruction])
        groups, lasting = -(-columns // bench.config.lanes), bench.config.group_cycles
        cycles = elements(instruction, bench.config)
        span = np.ptp(bench.rows.cycles) + 1
        assert bench.rows.cycles[0] - bench.runs.taken[-1] == bench.unit.PREPARE - 1
        assert cycles - groups * lasting < span <= cycles, (span, cycles)
        writes = np.ptp(bench.writes.cycles) + 1
        assert writes == cycles - windows * windows + (groups - 1) * lasting + 1, (writes, cycles)
    fill = Instruction(Opcode.FILL, x_count=9, channels=columns, destination_x_stride=columns)
    bench.writes.cycles.clear()
    await bench.execute([fill])
    assert np.diff(bench.writes.cycles).tolist() == [lasting] * (9 * groups - 1)
    fields = {"source": Space.ACCUMULATORS, "x_count": 8, "channels": columns}
    bench.rows.cycles.clear()
    program = [Instruction(Opcode.VECTOR, **fields, params=n * bench.config.lanes) for n in (0, 1)]
    await bench.execute(program)
    gaps = np.diff(bench.rows.cycles)
    assert max(gaps[-9:]) <= bench.unit.PREPARE + 6 + groups * lasting, gaps


@VectorBench.test(make)
async def activity(bench: VectorBench) -> None:
    """A unit that waits reports MEMORY, and the next instruction waits for a write that is late."""
    fields = {"channels": bench.config.columns, "destination_x_stride": 1}
    bench.stall = 0.9  # the smallest core has a write in twenty cycles
    first = len(bench.runs.activity)
    fill = Instruction(Opcode.FILL, x_count=40, **fields)
    await bench.execute([Instruction(Opcode.VECTOR, x_count=10, **fields), fill])
    counts = np.bincount(bench.runs.activity[first:], minlength=len(Activity))
    assert counts[Activity.MEMORY.value] > 4 and counts[Activity.BUSY.value]
    bench.stall = 0
    # Lane 1 lies outside, which only the buffer notices.
    bad = Instruction(Opcode.FILL, channels=2, destination_base=bench.config.unified_bytes - 1)
    done, writes = len(bench.runs.done), len(bench.writes.cycles)
    await bench.runs.issue(bad)
    await bench.runs.issue(Instruction(Opcode.FILL, channels=60, value=1))
    bench.stall = 1.0
    await bench.ticks(60)
    bench.stall = 0
    await bench.ticks(60 + 3 * bench.config.group_cycles)
    assert bench.ports.idle.bits and [error for error, _ in bench.runs.faults] == [Error.RANGE]
    assert len(bench.runs.done) == done and len(bench.writes.cycles) == writes + 1


@VectorBench.test(make, needs="parity")
async def flips(bench: VectorBench) -> None:
    """A word of wrong parity ends the instruction that uses it, and no other."""

    async def renew() -> None:
        bench.machine.unified[:], bench.machine.accumulators[:] = bench.bytes, bench.sums
        await bench.write_parameters()

    await check_flips(bench, bench.flips, 8 * bench.options["rounds"], renew)


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
        *SOFTMAX_OUTSIDE[: len(SOFTMAX_OUTSIDE) * config.softmax],
    ]


#: The same of SOFTMAX, of 512 bytes.
SOFTMAX_OUTSIDE: list[dict[str, Any]] = [
    {"source_base": 511, "channels": 2},
    {"source_base": 506, "source_x_stride": 200, "x_count": 2},
    {"source_x_stride": 127, "x_count": 5, "channels": 5},
    {"source_base": 100, "source_x_stride": 511, "x_count": 64},
    {"destination_base": 511, "channels": 2},
    {"destination_base": 400, "destination_x_stride": 113, "x_count": 2},
    {"destination_base": 509, "x_count": 3, "channels": 9},
]


@VectorBench.test(make)
async def refusals(bench: VectorBench) -> None:
    """Instructions out of range: the error, and nothing changes that they do not name."""
    for number, fields in enumerate(outside(bench.config)):
        bench.stall = 0.5 * (number % 2)
        fields = {"channels": 3, "destination_x_stride": 1} | fields
        if number < len(outside(bench.config)) - len(SOFTMAX_OUTSIDE) * bench.config.softmax:
            wrong = Instruction(Opcode.VECTOR, **{"window_y_stride": 1} | fields)
        else:
            wrong = Instruction(Opcode.SOFTMAX, **fields)
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
        if wrong.opcode is Opcode.VECTOR or "destination_base" in fields:
            ends[wrong.fields.get("destination", 0)] = wrong.destination_base
        for seen, content, end in zip((bench.bytes, bench.sums), before, ends, strict=True):
            same(seen[:end], content[:end], fields)
        assert (bench.bytes == 7).sum() < bench.config.unified_bytes // 4
        await bench.again()
    await bench.execute([bench.draw() for _ in range(3)])


@VectorBench.test(make)
async def abort(bench: VectorBench) -> None:
    """After an abort the unit writes what is under way, becomes idle, and stays so."""
    bench.stall = 0.3
    for wait in (1, 3, 9, 20, 33, 60, 120, 240):
        for _ in range(2):
            await bench.runs.issue(bench.draw())
        await bench.ticks(wait)
        bench.ports.abort.drive(1)
        await bench.ticks(2)
        await bench.until(lambda: bench.ports.idle.bits, 100 * bench.config.group_cycles, "idle")
        await bench.ticks(8)
        seen = len(bench.reads.cycles), len(bench.writes.cycles), len(bench.rows.writes)
        await bench.ticks(40)
        assert bench.ports.idle.bits and not bench.ports.instruction.ready.bits
        again = len(bench.reads.cycles), len(bench.writes.cycles), len(bench.rows.writes)
        assert again == seen and bench.runs.activity[-1] == Activity.IDLE.value
        bench.ports.abort.drive(0)
        await bench.again()
    await bench.execute([bench.draw() for _ in range(3)])
