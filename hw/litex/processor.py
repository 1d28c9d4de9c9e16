"""Processor in a system with a core; the host writes its program and has the end of its UART."""

from pathlib import Path
from typing import Any

from migen import Constant

#: VexRiscv with a cache for instructions alone, so that it sees what the core writes.
KIND = "vexriscv"
#: Package of its Verilog.
PACKAGE = "pythondata_cpu_vexriscv"
#: First byte of its program in external memory; those before it belong to the core.
PROGRAM = 4 << 20
#: Pages of registers of its UART and its timer, the same in all systems: programs know them.
_PAGES = {"uart": 16, "timer0": 17}
#: Bytes that the UART holds: a line of text, for which the processor does not wait.
_UART_BYTES = 32
#: Bit of the register ``ctrl_reset`` that holds it in reset.
HELD = 2

#: Inputs of its cache that it leaves without a driver, which the flow does not accept.
_UNDRIVEN = ("IBusCachedPlugin_cache_", "IBusCachedPlugin_mmuBus_"), ("Removed", "Translation")

#: Address of external memory.
_MEMORY = 0x40000000

#: Options of the system.
OPTIONS = {
    "cpu_type": KIND,
    "cpu_variant": "lite",
    "with_ctrl": True,
    "cpu_reset_address": _MEMORY + PROGRAM,
}


def hold(soc: Any) -> None:
    """Hold the processor in reset until the host has started the memory and written a program.

    It gets a UART, whose other end is on the bus, and a timer that counts the cycles of the bus.
    """
    for name, page in _PAGES.items():
        soc.csr.add(name, n=page)
    soc.add_uart(uart_name="crossover", fifo_depth=_UART_BYTES)
    soc.add_timer()
    soc.timer0.add_uptime()
    storage = soc.ctrl._reset.storage
    storage.reset = Constant(HELD, len(storage))
    soc.celosia_held = True


def is_held(soc: Any) -> bool:
    """Return whether the processor of a system waits for the host."""
    return getattr(soc, "celosia_held", False)


def processor_verilog(soc: Any) -> list[str]:
    """Return the Verilog that a finished system needs besides its own: that of its processor."""
    files = [Path(name).read_text() for name, *_ in soc.platform.sources]
    return ["".join(map(_driven, text.splitlines(keepends=True))) for text in files]


def _driven(line: str) -> str:
    """Return a line in which a wire that nothing drives is zero."""
    words = line.split()
    begins, ends = _UNDRIVEN
    if len(words) == 2 and words[0] == "wire" and words[1].startswith(begins):
        name = words[1].removesuffix(";")
        return line.replace(";", " = 1'b0;") if name.endswith(ends) else line
    return line


def describe_processor(soc: Any, registers: dict[str, int]) -> dict[str, int]:
    """Return what the host must know of a processor that is held, nothing without one."""
    if not is_held(soc):
        return {}
    reset, uart = (registers[name] for name in ("ctrl_reset", "uart_xover_rxtx"))
    return {"reset": reset, "held": HELD, "program": PROGRAM, "uart": uart}
