"""A host of ``soc.v``: loads a program and its data, starts the core, and compares the output."""

import logging
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam

from celosia.hw.arch.commands import WORD_BYTES
from celosia.hw.arch.isa import Error, Unit
from celosia.hw.arch.registers import COUNTERS_PER_UNIT, MAGIC, OFFSETS, Control, Interrupt, Status
from celosia.sw.ir.program import Program

#: Where the registers of the core lie for the host.
BASE = 0x4000_0000
PERIOD_NS = 10
INTERRUPTS = (Interrupt.DONE | Interrupt.ERROR).value


class Host:
    """A processor on the bus of the registers, and the memory that it shares with the core."""

    def __init__(self, dut: Any, memory_bytes: int) -> None:
        logging.getLogger(f"cocotb.{dut._name}").setLevel(
            logging.WARNING
        )  # not a line for each burst
        self.dut = dut
        self.memory_bytes = memory_bytes
        edge, reset = dut.clk, dut.reset_n
        bus = AxiLiteBus.from_prefix(dut, "host")
        self.registers: Any = AxiLiteMaster(bus, edge, reset, reset_active_level=False)
        memory = AxiBus.from_prefix(dut, "mem")
        self.memory: Any = AxiRam(memory, edge, reset, reset_active_level=False, size=memory_bytes)

    async def read(self, name: str) -> int:
        """Return a register of the core."""
        return await self.registers.read_dword(BASE + OFFSETS[name])

    async def write(self, name: str, value: int) -> None:
        """Set a register of the core."""
        await self.registers.write_dword(BASE + OFFSETS[name], value)

    async def start(self) -> None:
        """Start the clock, reset the design, and look who is there."""
        Clock(self.dut.clk, PERIOD_NS, "ns").start()
        self.dut.reset_n.value = 0
        await ClockCycles(self.dut.clk, 4)
        self.dut.reset_n.value = 1
        await ClockCycles(self.dut.clk, 8)
        assert await self.read("magic") == MAGIC
        await self.write("interrupt_enable", INTERRUPTS)

    async def run(self, address: int, words: int) -> None:
        """Run a program of ``words`` words at a byte address of the memory."""
        await self.write("memory_limit", self.memory_bytes - 1)
        await self.write("program_address", address)
        await self.write("program_length", words)
        await self.write("control", Control.CLEAR.value)
        await ClockCycles(self.dut.clk, COUNTERS_PER_UNIT + 2)
        await self.write("control", Control.START.value)
        if not self.dut.irq.value:
            await with_timeout(RisingEdge(self.dut.irq), 2, "ms")
        status = Status(await self.read("status"))
        await self.write("interrupt", INTERRUPTS)
        if Status.ERROR in status:
            code, unit = Error(await self.read("error_code")), Unit(await self.read("error_unit"))
            index = await self.read("error_index")
            raise RuntimeError(f"{code.name} in {unit.name}: instruction {index}")
        print(f"{words} words, {await self.read('cycles')} cycles")


@cocotb.test()
async def product(dut: Any) -> None:
    """``dense.s``: the output in memory is that of NumPy."""
    x, w, parameters = (np.load(f"{name}.npy") for name in ("x", "w", "params"))
    with open("dense.bin", "rb") as file:
        code = file.read()
    host = Host(dut, 4096)
    await host.start()
    for address, content in ((0, x), (0x100, w), (0x200, parameters)):
        host.memory.write(address, content.tobytes())
    host.memory.write(0x400, code)
    await host.run(0x400, len(code) // WORD_BYTES)
    found = np.frombuffer(host.memory.read(0x300, 16), np.int8).reshape(4, 4)
    wanted = np.clip(x.astype(np.int32) @ w + parameters[:, 0], -128, 127)
    print(f"{found}\n{np.count_nonzero(found != wanted)} of 16 bytes differ from NumPy")
    assert np.array_equal(found, wanted)


@cocotb.test()
async def network(dut: Any) -> None:
    """``digits.celosia``: the output in memory is that of the machine model."""
    program = Program.load("digits.celosia")
    host = Host(dut, program.memory_bytes)
    await host.start()
    found = await host.read("fingerprint")
    assert found == program.config.fingerprint, f"wanted a program for the core {found:#010x}"
    for segment in program.segments:
        host.memory.write(segment.address, segment.data)
    for _, section in program.sections:
        host.memory.write(section.address, section.code)
    await host.run(program.setup.address, program.setup.words)
    (source,), (result,) = program.inputs, program.outputs
    assert min(source.address, result.address) >= 0, "an operator at an end runs on the host"
    host.memory.write(source.address, np.load("image.npy").tobytes())
    await host.run(program.main.address, program.main.words)
    found = np.frombuffer(host.memory.read(result.address, result.bytes_per_item), np.int8)
    wanted = np.load("scores.npy")[0]
    print(f"{found}: a {found.argmax()}")
    print(f"{np.count_nonzero(found != wanted)} of {wanted.size} bytes differ from the model")
    assert np.array_equal(found, wanted)
