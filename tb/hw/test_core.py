"""The core: short programs against the machine model, in Amaranth's simulator."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from devices.axi import AxiMemory
from devices.axi_lite import AxiLiteHost
from memory_bench import flip, recorded
from pysim import pulse, simulation

from celosia.hw.arch import commands
from celosia.hw.arch.commands import WORD_BYTES
from celosia.hw.arch.isa import Error, Instruction, Opcode, Space, Unit
from celosia.hw.arch.registers import (
    COUNTERS,
    COUNTERS_PER_UNIT,
    OFFSETS,
    Activity,
    Control,
    Interrupt,
    Status,
)
from celosia.hw.core import Core
from celosia.hw.memory import accumulators, unified_buffer
from celosia.sim.model.machine import Machine, MachineError
from celosia.sw.fuzz import stage
from celosia.sw.fuzz.programs.configurations import CONFIGURATIONS
from celosia.sw.fuzz.programs.legal import program

LEAST = CONFIGURATIONS["least"]
PARITY = replace(LEAST, protection="parity")
HALT = Instruction(Opcode.HALT)
#: Instructions past an end of the unified buffer: noticed by each unit, before or in the buffer.
SIZE = LEAST.unified_bytes
JUMP = {"skip": SIZE // LEAST.rows - 1, "run": 1}
PAST = {
    "load": Instruction(Opcode.LOAD, unified=SIZE - 1, length=2),
    "store": Instruction(Opcode.STORE, external=stage.DUMP, unified=SIZE - 1, length=2),
    "matrix": Instruction(Opcode.MATMUL, unified=4, taps=4, **JUMP),
    "source": Instruction(
        Opcode.VECTOR, source_base=4, channels=2, **{f"source_{k}": v for k, v in JUMP.items()}
    ),
    "destination": Instruction(
        Opcode.FILL,
        destination_base=4,
        channels=2,
        **{f"destination_{k}": v for k, v in JUMP.items()},
    ),
}


class Bench:
    """A core, its memory and its host."""

    def __init__(self, config, seed, stall=0.0):
        self.config = config
        self.rng = random.Random(seed)
        self.dut = Core(config=config)
        content = stage.content(config, np.random.default_rng(seed))
        self.memory = AxiMemory(
            bytearray(content.tobytes()),
            data_bytes=config.bus_bytes,
            burst_beats=config.burst_beats,
            latency=4,
            rng=self.rng,
            stall=stall,
        )
        self.host = AxiLiteHost(self.dut.s_axil)
        self.machine = Machine(config, memory_bytes=content.size)

    async def reads(self, ctx):
        await self.memory.serve_reads(ctx, self.dut.m_axi)

    async def writes(self, ctx):
        await self.memory.serve_writes(ctx, self.dut.m_axi)

    def simulation(self):
        return simulation(self.dut, background=(self.reads, self.writes), cycles_limit=40_000)

    async def write(self, ctx, **values):
        """Write registers."""
        for name, value in values.items():
            await self.host.write(ctx, OFFSETS[name], value)

    async def read(self, ctx, *names):
        """Read registers."""
        return [(await self.host.read(ctx, OFFSETS[name]))[0] for name in names]

    async def activities(self, ctx, unit):
        """Return the counters of a unit."""
        first = COUNTERS + 4 * COUNTERS_PER_UNIT * unit.value
        return [(await self.host.read(ctx, first + 4 * n))[0] for n in range(COUNTERS_PER_UNIT)]

    async def start(self, ctx, items):
        """Start a program on the core, and run it on the machine model; return its error."""
        code = commands.encode(items)
        self.memory.content[stage.CODE : stage.CODE + len(code)] = code
        self.machine.memory[:] = np.frombuffer(self.memory.content, np.uint8)
        await self.write(
            ctx,
            program_address=stage.CODE,
            program_length=len(code) // WORD_BYTES,
            interrupt_enable=3,
            control=Control.START.value,
        )
        try:
            self.machine.run(items)
        except MachineError as error:
            return error.error, error.unit, error.index
        return None

    async def end(self, ctx):
        """Wait for the interrupt and clear it; return the error, or None."""
        await ctx.tick().until(self.dut.irq)
        status, interrupt = await self.read(ctx, "status", "interrupt")
        await self.write(ctx, interrupt=interrupt)
        await ctx.tick().repeat(2)
        assert not ctx.get(self.dut.irq)
        if status == Status.DONE.value:
            assert interrupt == Interrupt.DONE.value
            return None
        assert interrupt == Interrupt.ERROR.value and status & Status.ERROR.value
        code, unit, index = await self.read(ctx, "error_code", "error_unit", "error_index")
        return Error(code), Unit(unit), index

    async def agree(self, ctx, items):
        """Run a program; its end and external memory must be those of the machine model."""
        expected = await self.start(ctx, items)
        assert await self.end(ctx) == expected
        if expected is None:
            assert self.memory.content == self.machine.memory.tobytes()

    async def clear(self, ctx):
        """Set all counters to zero."""
        await self.write(ctx, control=Control.CLEAR.value)
        await ctx.tick().repeat(COUNTERS_PER_UNIT)

    async def reset(self, ctx):
        await self.write(ctx, control=Control.RESET.value)
        await ctx.tick().repeat(20)
        assert await self.read(ctx, "status") == [0]


@pytest.mark.parametrize(
    ("config", "stall"),
    [(LEAST, 0.4), (CONFIGURATIONS["small"], 0.0)],
    ids=["least", "small"],
)
async def test_random_programs(config, stall, seed):
    bench = Bench(config, seed, stall)
    ctx: Any = await bench.simulation()
    await ctx.tick()
    for _ in range(2):
        await bench.agree(ctx, program(config, bench.rng, 6))


LONG = {
    Unit.LOAD: Instruction(Opcode.LOAD, rows=60, length=64),
    Unit.STORE: Instruction(Opcode.STORE, external=stage.DUMP, rows=60, length=64),
    Unit.VECTOR: Instruction(Opcode.FILL, destination_base=64, x_count=5000),
}


async def test_an_error_stops_all_units_and_a_program_runs_after_a_soft_reset(seed):
    bench = Bench(LEAST, seed)
    ctx: Any = await bench.simulation()
    await ctx.tick()
    for name, wrong in PAST.items():
        # The store unit reads before the others, which would wait for it.
        late = {wrong.unit, Unit.STORE} if name in ("matrix", "source") else {wrong.unit}
        long = [i for unit, i in LONG.items() if unit not in late]
        await bench.clear(ctx)
        await bench.agree(ctx, [*long, wrong, Instruction(Opcode.MATMUL), *LONG.values(), HALT])
        (cycles,) = await bench.read(ctx, "cycles")
        assert 0 < cycles < 300, name
        await bench.reset(ctx)
        await bench.agree(ctx, program(LEAST, bench.rng, 1))


async def test_registers_and_counters(seed):
    bench = Bench(LEAST, seed)
    ctx: Any = await bench.simulation()
    await ctx.tick()
    assert await bench.read(ctx, "fingerprint", "status", "cycles") == [LEAST.fingerprint, 0, 0]
    waiting = [Instruction(Opcode.FILL, wait=8), HALT]
    await bench.write(ctx, watchdog=100)
    await bench.start(ctx, waiting)
    assert await bench.end(ctx) == (Error.WATCHDOG, Unit.VECTOR, 0)
    (cycles,) = await bench.read(ctx, "cycles")
    for unit in (Unit.LOAD, Unit.STORE, Unit.MATRIX, Unit.VECTOR):
        counts = await bench.activities(ctx, unit)
        assert sum(counts) == cycles
        waits = counts[Activity.SEMAPHORE.value + 3]
        assert waits > 100 if unit is Unit.VECTOR else not waits
    await bench.clear(ctx)
    assert await bench.read(ctx, "cycles") == [0]
    assert not any(await bench.activities(ctx, Unit.VECTOR))


async def test_the_reset_of_the_core_stops_a_program(seed):
    bench = Bench(LEAST, seed)
    ctx: Any = await bench.simulation()
    await ctx.tick()
    await bench.start(ctx, [Instruction(Opcode.FILL, wait=8), HALT])
    await ctx.tick().repeat(50)
    assert await bench.read(ctx, "status", "program_address") == [1, stage.CODE]
    await pulse(ctx, bench.dut.reset)
    await ctx.tick().repeat(2)
    assert await bench.read(ctx, "status", "program_address", "interrupt_enable") == [0, 0, 0]
    await bench.agree(ctx, program(LEAST, bench.rng, 1))


READS = {
    Unit.STORE: Instruction(Opcode.STORE, external=stage.DUMP, length=8),
    Unit.MATRIX: Instruction(Opcode.MATMUL, taps=4),
    Unit.VECTOR: Instruction(Opcode.VECTOR, channels=4, destination_base=32),
}


async def test_a_wrong_byte_stops_the_unit_that_reads_it(monkeypatch, seed):
    banks = recorded(monkeypatch, unified_buffer)
    bench = Bench(PARITY, seed)
    ctx: Any = await bench.simulation()
    await ctx.tick()
    fill = Instruction(Opcode.FILL, channels=16, value=5)
    for unit, read in READS.items():
        await bench.agree(ctx, [fill, HALT])
        for bank in banks:
            flip(ctx, bank, 0, bench.rng.randrange(9))
        await bench.start(ctx, [read, HALT])
        assert await bench.end(ctx) == (Error.MEMORY, unit, 0)
        await bench.reset(ctx)
        await bench.agree(ctx, [fill, Instruction(Opcode.FENCE), read, HALT])


async def test_a_wrong_sum_stops_the_vector_unit(monkeypatch, seed):
    halves = recorded(monkeypatch, accumulators)
    bench = Bench(PARITY, seed)
    ctx: Any = await bench.simulation()
    await ctx.tick()
    await bench.agree(ctx, [Instruction(Opcode.MATMUL), HALT])
    for half in halves:
        flip(ctx, half, 0, bench.rng.randrange(33))
    read = Instruction(Opcode.VECTOR, source=Space.ACCUMULATORS, channels=4)
    await bench.start(ctx, [read, HALT])
    assert await bench.end(ctx) == (Error.MEMORY, Unit.VECTOR, 0)
