"""The store unit between the unified buffer and external memory."""

from typing import Any

import cocotb
import numpy as np
from cosim.bench import Bench
from cosim.flips import Flips, check_flips
from cosim.golden import block, generator_of, machine_of, run, same
from cosim.memories import UnifiedReads, WrittenMemory
from cosim.units import Unit

from celosia.hw.arch import isa
from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.arch.registers import BOUND_BITS, Activity
from celosia.hw.dma.gather import Gatherer
from celosia.hw.memory.unified_buffer import UnifiedBuffer
from celosia.sim.check import footprint
from celosia.sim.check.footprint import Memory
from celosia.sim.timing.costs import bursts
from celosia.sw.fuzz.stage import TARGET


def make(config: Config) -> Any:
    return block(config, "store")


class StoreBench(Bench):
    """The unit, a memory on its bus, and a machine with the same contents."""

    async def begin(self, latency: int = UnifiedBuffer.READ_LATENCY) -> None:
        await self.start()
        self.machine, self.generator, self.runs = machine_of(self), generator_of(self), Unit(self)
        self.reads = UnifiedReads(self, self.ports.reads, self.machine.unified, latency)
        self.memory = WrittenMemory(self, self.ports.bus, self.machine.memory.copy())
        self.ports.bounds.drive({"base": 0, "limit": -1})
        for process in (self.runs.watch, self.reads.serve, self.memory.serve, self.watch):
            cocotb.start_soon(process())

    async def watch(self) -> None:
        """Check that the unit is busy when it moves bytes, and idle between instructions alone."""
        request, bus = self.ports.reads.request, self.ports.bus
        while True:
            await self.edge
            moves = request.valid.bits and request.ready.bits
            moves |= bus.wvalid.bits and bus.wready.bits
            assert bool(moves) == (self.ports.activity.bits == Activity.BUSY.value)
            assert not (self.ports.idle.bits and self.reads.under_way)
            under_way = len(self.runs.taken) > len(self.runs.done) and not self.runs.faults
            if under_way and self.runs.taken[-1] < self.cycle - 1:
                assert not self.ports.idle.bits

    def draw(self) -> Instruction:
        return self.generator.store()

    async def execute(self, program: list[Instruction]) -> None:
        """Run a program, and compare external memory with the machine's."""
        assert run(self.machine, *program) is None
        await self.runs.run(program)
        same(self.memory.content, self.machine.memory, program)

    async def again(self) -> None:
        """Reset; the machine has the bytes in memory then."""
        await self.reset()
        self.runs.forget()
        self.machine.memory[:] = self.memory.content


@StoreBench.test(make)
async def random_programs(bench: StoreBench) -> None:
    """All bytes of external memory are those of the machine."""
    for number in range(3 * bench.options["rounds"]):
        bench.stall = 0.4 * (number % 2)
        await bench.execute([bench.draw() for _ in range(bench.rng.randint(1, 6))])


@StoreBench.test(make)
async def pace(bench: StoreBench) -> None:
    """One beat each cycle; bursts and their beats are those of the estimator."""
    length = min(112, bench.config.unified_bytes // 2)
    for external, pitch in ((0, length), (5, 200), (32, 300)):
        first, beats = len(bench.memory.bursts), len(bench.memory.beats)
        rows = bench.config.unified_bytes // length
        fields = {"external": TARGET[0] + external, "external_pitch": pitch, "rows": rows}
        program = [Instruction(Opcode.STORE, **fields, unified_pitch=length, length=length)]
        await bench.execute(program)
        lengths = [beats for row in bursts(program[0], bench.config) for beats in row]
        assert [beats for _, _, beats in bench.memory.bursts[first:]] == lengths
        assert bench.memory.bursts[first][0] - bench.runs.taken[-1] == bench.unit.LATENCY
        assert np.ptp(bench.memory.beats[beats:]) + 1 <= sum(lengths) + len(lengths)
    program = [Instruction(Opcode.STORE, external=TARGET[0] + 96 * n, length=64) for n in range(9)]
    count = 9 * 64 // bench.config.bus_bytes
    taken = len(bench.runs.taken)
    await bench.execute(program)
    assert bench.runs.done[-1] - bench.runs.taken[taken] <= 1.1 * count + 60


@StoreBench.test(make, latency=Gatherer.SPACE - 4)
async def slow_memories(bench: StoreBench) -> None:
    """A beat each cycle before a slow buffer; a bus that waits holds back reads, then bursts."""
    config = bench.config
    long = Instruction(Opcode.STORE, external=TARGET[0], length=config.unified_bytes)
    await bench.execute([long])
    count = config.unified_bytes // config.bus_bytes
    beats = np.array(bench.memory.beats)
    assert np.ptp(beats) == count - 1 and np.ptp(bench.reads.cycles) == count - 1
    bench.memory.waits = "w"
    reads = len(bench.reads.cycles)
    await bench.runs.issue(long)
    await bench.ticks(300)
    # The oldest beat is in the register of the bus.
    assert len(bench.reads.cycles) - reads == Gatherer.SPACE + 1
    bench.memory.waits = ""
    await bench.until(lambda: bench.ports.idle.bits, 2_000, "idle")
    bench.memory.waits = "b"
    bursts = len(bench.memory.bursts)
    cells = {"external": TARGET[0], "external_pitch": 3 * config.bus_bytes, "rows": 99}
    await bench.runs.issue(Instruction(Opcode.STORE, **cells))
    await bench.ticks(600)
    assert len(bench.memory.bursts) - bursts == bench.unit.outstanding
    bench.memory.waits = ""
    await bench.until(lambda: bench.ports.idle.bits, 2_000, "idle")


@StoreBench.test(make, needs="parity")
async def flips(bench: StoreBench) -> None:
    """A byte of wrong parity ends the instruction that reads it, and no other."""

    async def renew() -> None:
        bench.machine.memory[:] = bench.memory.content

    flips = Flips(bench, {Memory.UNIFIED: bench.reads.report})
    await check_flips(bench, flips, 8 * bench.options["rounds"], renew)


@StoreBench.test(make)
async def refusals(bench: StoreBench) -> None:
    """Out of range, out of bounds, or refused: the error of the machine, and no later effect."""
    config, size = bench.config, bench.machine.memory.size
    page = 1 << BOUND_BITS
    bench.machine.bounds = page, size - page - 1
    bench.ports.bounds.drive({"base": 1, "limit": size // page - 2})
    wrong = [
        {"unified": config.unified_bytes - 1, "length": 2, "external": TARGET[0]},
        {"unified": 1, "unified_pitch": 64, "rows": 99, "length": 8, "external": TARGET[0]},
        # Out of range and out of bounds: RANGE.
        {"unified": config.unified_bytes - 1, "length": 2},
        {"external": page - 4, "length": 4},
        {"external": size - page - 2, "length": 3},
        {"external": TARGET[0], "external_pitch": size - TARGET[0], "rows": 2, "length": 3},
    ]
    for number, fields in enumerate(wrong):
        bench.stall = 0.3 * (number % 2)
        good, failing = bench.generator.store(), Instruction(Opcode.STORE, **fields)
        expected = run(bench.machine, good, failing)
        assert expected is not None and expected[1] == 1
        after = Instruction(Opcode.STORE, external=page, length=40)
        assert await bench.runs.failure([good, failing, after]) == expected, failing
        # Bursts before the first wrong one may be there, none out of bounds.
        named = footprint.external_block(failing).addresses().ravel()
        first, last = bench.machine.bounds
        named = named[(named >= first) & (named <= last)]
        bench.machine.memory[named] = bench.memory.content[named]
        same(bench.memory.content, bench.machine.memory, failing)
        await bench.again()
    for response in (2, 3):
        bench.memory.refuses = response
        assert await bench.runs.failure([bench.draw(), bench.draw()]) == (isa.Error.BUS, 0)
        await bench.again()
        bench.memory.refuses = 0
        await bench.execute([bench.draw()])
    bench.ports.bounds.drive({"base": 0, "limit": -1})
    far = {"external_pitch": 1 << 31, "rows": 3}
    for fields in ({"external": (1 << 32) - 3, "length": 4}, far):
        assert await bench.runs.failure([Instruction(Opcode.STORE, **fields)]) == (
            isa.Error.RANGE,
            0,
        )
        await bench.again()


@StoreBench.test(make)
async def abort(bench: StoreBench) -> None:
    """After an abort bursts under way end as the bus wants, and nothing follows."""
    for wait in (*range(1, 22), 50):
        bench.stall = 0.2 * (wait % 2)
        states = [bench.memory.content.copy()]
        for fields in ({}, {"rows": 4000}):
            fields = {"external": TARGET[0], "length": bench.config.unified_bytes, **fields}
            instruction = Instruction(Opcode.STORE, **fields)
            await bench.runs.issue(instruction)
        assert run(bench.machine, instruction.but(rows=1)) is None
        states.append(bench.machine.memory.copy())
        await bench.ticks(wait)
        bench.runs.taken.clear()
        bench.ports.abort.drive(1)
        await bench.until(lambda: bench.ports.idle.bits, 1_000, "idle")
        seen = len(bench.memory.bursts), len(bench.memory.beats)
        assert not bench.memory.open
        await bench.ticks(30)
        assert (len(bench.memory.bursts), len(bench.memory.beats)) == seen
        assert bench.runs.activity[-1] == Activity.IDLE.value
        assert np.any(np.array(states) == bench.memory.content, axis=0).all()
        bench.ports.abort.drive(0)
        await bench.again()
