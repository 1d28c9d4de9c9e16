"""The host of a core: its registers through AxiLiteMaster, its memory, and a machine beside it."""

import itertools
from typing import Any

import numpy as np
from cocotb.triggers import with_timeout
from cocotbext.axi import AxiLiteBus, AxiLiteMaster
from cosim.bench import Bench
from cosim.memories import ExternalMemory

from celosia.hw.arch import isa
from celosia.hw.arch.commands import WORD_BYTES
from celosia.hw.arch.registers import (
    COUNTERS,
    COUNTERS_PER_UNIT,
    OFFSETS,
    Control,
    Interrupt,
    Status,
    activity_names,
)
from celosia.sim.check.schedule import MachineError
from celosia.sim.model.machine import Machine
from celosia.sw.fuzz import stage
from celosia.sw.fuzz.programs.generator import Generator
from celosia.sw.fuzz.stage import CODE, PARAMETERS, SIZE, SOURCE, TARGET

Failure = tuple[isa.Error, isa.Unit, int]


class Host:
    """Runs programs on the core and on a machine.

    ``bench``: the core; channels of both buses pause with its ``stall``.
    """

    def __init__(self, bench: Bench, *, size: int = SIZE) -> None:
        self.bench = bench
        self.config = bench.config
        self.memory = ExternalMemory(bench, bench.ports.m_axi, size)
        bus = AxiLiteBus.from_prefix(bench.dut, "s_axil_")
        self.registers: Any = AxiLiteMaster(bus, bench.dut.clk, bench.dut.rst)
        writes, reads = self.registers.write_if, self.registers.read_if
        channels = (writes.aw_channel, writes.w_channel, writes.b_channel)
        for channel in (*channels, reads.ar_channel, reads.r_channel):
            channel.set_pause_generator(bench.rests() for _ in itertools.count())
        self.machine = Machine(bench.config, memory_bytes=size)
        self.generator = Generator(
            bench.config, bench.rng, source=SOURCE, target=TARGET, parameters=PARAMETERS
        )

    def fill_memory(self) -> None:
        """Give both the same external memory: parameters where they belong, else anything."""
        content = self.machine.memory
        content[:] = stage.content(self.config, self.bench.numbers, content.size)
        self.memory.write(0, content)

    def write_memory(self, address: int, content: bytes) -> None:
        """Write to the memory of both."""
        self.memory.write(address, content)
        data = np.frombuffer(content, np.uint8)
        self.machine.memory[address : address + data.size] = data

    async def read(self, name: str | int) -> int:
        """Read a register by its name or offset."""
        offset = OFFSETS[name] if isinstance(name, str) else name
        return await with_timeout(self.registers.read_dword(offset), 20, "us")

    async def write(self, name: str, value: int) -> None:
        """Write a register."""
        await with_timeout(self.registers.write_dword(OFFSETS[name], value), 20, "us")

    async def begin(self, address: int, count: int) -> None:
        """Ring the doorbell."""
        assert not await self.read("status") & (Status.BUSY | Status.ERROR).value
        await self.write("interrupt_enable", (Interrupt.DONE | Interrupt.ERROR).value)
        await self.write("memory_limit", self.machine.memory.size - 1)
        await self.write("program_address", address)
        await self.write("program_length", count)
        await self.write("control", Control.CLEAR.value)
        await self.bench.ticks(COUNTERS_PER_UNIT + 2)
        await self.write("control", Control.START.value)

    async def run(self, address: int, count: int, limit: int = 30_000) -> Failure | None:
        """Run a program that lies in memory; return the error, or None."""
        await self.begin(address, count)
        await self.bench.until(lambda: self.bench.ports.irq.bits, limit, "interrupt")
        status = Status(await self.read("status"))
        pending = await self.read("interrupt")
        await self.write("interrupt", pending)
        failed = bool(status & Status.ERROR)
        assert pending == (Interrupt.ERROR if failed else Interrupt.DONE).value
        assert failed or Status.DONE in status
        assert Status.BUSY not in status
        await self.bench.ticks(3)
        assert not self.bench.ports.irq.bits
        if not failed:
            return None
        code, unit = await self.read("error_code"), await self.read("error_unit")
        return isa.Error(code), isa.Unit(unit), await self.read("error_index")

    async def run_words(self, words: bytes, address: int = CODE) -> Failure | None:
        """Put a program into the memory of both and run it on the core."""
        self.write_memory(address, words)
        return await self.run(address, len(words) // WORD_BYTES)

    async def reset(self) -> None:
        """Reset softly and wait until the bus is quiet."""
        await self.write("control", Control.RESET.value)
        for _ in range(200):
            status = Status(await self.read("status"))
            if not status & (Status.BUSY | Status.ERROR | Status.DRAINING):
                return
        raise AssertionError("no end of the reset")

    async def counters(self) -> dict[str, dict[str, int]]:
        """Read all counters, check that those of a unit sum to the cycles, and return them."""
        cycles = await self.read("cycles")
        result = {}
        for unit in isa.Unit:
            counts = {}
            for place, name in activity_names().items():
                number = unit.value * COUNTERS_PER_UNIT + place
                counts[name] = await self.read(COUNTERS + 4 * number)
            total = sum(counts.values())
            assert total == cycles, f"{unit.name}: {total} cycles counted of {cycles}: {counts}"
            result[unit.name.lower()] = counts
        return result

    def compare(self, what: str) -> None:
        """Compare all external memory with the machine's."""
        wrong = np.flatnonzero(self.memory.content != self.machine.memory)
        assert not wrong.size, (
            f"memory differs at {wrong[:8].tolist()} of {wrong.size} after {what}"
        )


def failure_of(machine: Machine, words: bytes) -> Failure | None:
    """Run a program on the machine and return how it ends."""
    try:
        machine.run(words)
    except MachineError as error:
        return error.error, error.unit, error.index
    return None


def check_damage(host: Host, program: Any, stores: list[np.ndarray]) -> None:
    """Check that external memory has changed only where stores name it; the machine follows."""
    content = host.memory.content
    may = np.zeros(content.size, np.bool_)
    for places in stores:
        may[places[places < content.size]] = True
    assert np.array_equal(content[~may], host.machine.memory[~may]), f"{program} wrote elsewhere"
    host.machine.memory[:] = content
