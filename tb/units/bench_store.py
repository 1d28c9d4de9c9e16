"""The store unit between the unified buffer and external memory."""

from typing import Any

import cocotb
import numpy as np
from cosim.bench import Bench
from cosim.golden import block, generator_of, machine_of, run, same
from cosim.memories import UnifiedReads, WrittenMemory
from cosim.units import Unit

from celosia.hw.arch import isa
from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.arch.registers import BOUND_BITS, Activity
from celosia.hw.memory.unified_buffer import UnifiedBuffer
from celosia.sim.check import footprint
from celosia.sim.timing.costs import bursts
from celosia.sw.fuzz.stage import TARGET


def make(config: Config) -> Any:
    return block(config, "store")


class StoreBench(Bench):
    """The unit, a memory on its bus, and a machine with the same contents."""

    async def begin(self) -> None:
        await self.start()
        self.machine, self.generator, self.runs = machine_of(self), generator_of(self), Unit(self)
        latency = UnifiedBuffer.READ_LATENCY
        self.reads = UnifiedReads(self, self.ports.reads, self.machine.unified, latency)
        self.memory = WrittenMemory(self, self.ports.bus, self.machine.memory.copy())
        self.ports.bounds.drive({"base": 0, "limit": -1})
        for process in (self.runs.watch, self.reads.serve, self.memory.serve):
            cocotb.start_soon(process())


@cocotb.test()
async def random_programs(dut: Any) -> None:
    """All bytes of external memory are those of the machine."""
    bench = StoreBench(dut, make)
    await bench.begin()
    for number in range(3 * bench.options["rounds"]):
        bench.stall = 0.4 * (number % 2)
        program = [bench.generator.store() for _ in range(bench.rng.randint(1, 6))]
        assert run(bench.machine, *program) is None
        await bench.runs.run(program)
        same(bench.memory.content, bench.machine.memory, program)


@cocotb.test()
async def pace(dut: Any) -> None:
    """One beat each cycle; bursts and their beats are those of the estimator."""
    bench = StoreBench(dut, make)
    await bench.begin()
    length = min(112, bench.config.unified_bytes // 2)
    for external, pitch in ((0, length), (5, 200), (32, 300)):
        first, beats = len(bench.memory.bursts), len(bench.memory.beats)
        rows = bench.config.unified_bytes // length
        fields = {"external": TARGET[0] + external, "external_pitch": pitch, "rows": rows}
        program = [Instruction(Opcode.STORE, **fields, unified_pitch=length, length=length)]
        assert run(bench.machine, *program) is None
        await bench.runs.run(program)
        same(bench.memory.content, bench.machine.memory, program)
        lengths = [beats for row in bursts(program[0], bench.config) for beats in row]
        assert [beats for _, _, beats in bench.memory.bursts[first:]] == lengths
        assert bench.memory.bursts[first][0] - bench.runs.taken[-1] == bench.unit.LATENCY
        assert np.ptp(bench.memory.beats[beats:]) + 1 <= sum(lengths) + len(lengths)


@cocotb.test()
async def refusals(dut: Any) -> None:
    """Out of range, out of bounds, or refused: the error of the machine, and no later effect."""
    bench = StoreBench(dut, make)
    await bench.begin()
    config, size = bench.config, bench.machine.memory.size
    page = 1 << BOUND_BITS
    bench.machine.bounds = page, size - page - 1
    bench.ports.bounds.drive({"base": 1, "limit": size // page - 2})
    wrong = [
        {"unified": config.unified_bytes - 1, "length": 2, "external": TARGET[0]},
        {"unified": 1, "unified_pitch": 64, "rows": 99, "length": 8, "external": TARGET[0]},
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
        await bench.reset()
        bench.runs.forget()
    bench.memory.refuses = True
    await bench.runs.run([])
    assert await bench.runs.failure([bench.generator.store()]) == (isa.Error.BUS, 0)


@cocotb.test()
async def abort(dut: Any) -> None:
    """After an abort bursts under way end as the bus wants, and nothing follows."""
    bench = StoreBench(dut, make)
    await bench.begin()
    bench.stall = 0.2
    for wait in (2, 8, 20, 50):
        for _ in range(2):
            fields = {"external": TARGET[0], "length": bench.config.unified_bytes}
            await bench.runs.issue(Instruction(Opcode.STORE, **fields))
        await bench.ticks(wait)
        bench.ports.abort.drive(1)
        await bench.until(lambda: bench.ports.idle.bits, 1_000, "idle")
        seen = len(bench.memory.bursts), len(bench.memory.beats)
        assert not bench.memory.open
        await bench.ticks(30)
        assert (len(bench.memory.bursts), len(bench.memory.beats)) == seen
        assert bench.runs.activity[-1] == Activity.IDLE.value
        bench.ports.abort.drive(0)
        await bench.reset()
        bench.runs.forget()
