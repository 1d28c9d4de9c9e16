"""Bench of a core in cocotb: it copies 64 bytes of memory."""

from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam

#: Offsets of registers: docs/reference/registers.md.
CONTROL, STATUS, ENABLE, ADDRESS, LENGTH, CYCLES = 0x0C, 0x10, 0x14, 0x1C, 0x20, 0x34


@cocotb.test()
async def copy(dut: Any) -> None:
    """A program copies 64 bytes of memory, and raises the interrupt."""
    Clock(dut.clk, 10, "ns").start()
    registers: Any = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil_"), dut.clk, dut.rst)
    memory: Any = AxiRam(AxiBus.from_prefix(dut, "m_axi_"), dut.clk, dut.rst, size=4096)
    dut.rst.value = 1
    await ClockCycles(dut.clk, 8)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 8)

    program = Path("copy.bin").read_bytes()
    memory.write(0, bytes(range(64)))
    memory.write(0x800, program)
    await registers.write_dword(ENABLE, 3)
    await registers.write_dword(ADDRESS, 0x800)
    await registers.write_dword(LENGTH, len(program) // 4)
    await registers.write_dword(CONTROL, 1)
    await with_timeout(RisingEdge(dut.irq), 50, "us")
    assert await registers.read_dword(STATUS) == 2
    assert memory.read(0x400, 64) == bytes(range(64))
    print(f"64 bytes copied in {await registers.read_dword(CYCLES)} cycles")
