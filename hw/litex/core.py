"""Core as a module of LiteX."""

from typing import Any

from amaranth.lib.wiring import Flow
from litex.gen import LiteXModule
from litex.soc.interconnect.axi import AXIInterface, AXILiteInterface
from litex.soc.interconnect.csr_eventmanager import EventManager, EventSourceLevel
from migen import ClockSignal, Instance, ResetSignal, Signal

from celosia.hw.arch.config import ADDRESS_BITS, Config
from celosia.hw.axi.signature import axi4, axi4_lite
from celosia.hw.build import TOP

#: LiteX makes members where they are named.
_Module: Any = LiteXModule


class Celosia(_Module):
    """Instance of the Verilog of a core.

    Parameters
    ----------
    config : Config
        Sizes of the core.

    Attributes
    ----------
    memory : AXIInterface
        Master: programs, weights, activations. Addresses begin at 0.
    registers : AXILiteInterface
        Slave: registers of ``hw/arch/registers.py``.
    ev : EventManager
        The interrupt, for a system with a processor.
    """

    def __init__(self, config: Config) -> None:
        width = 8 * config.bus_bytes
        self.memory = AXIInterface(data_width=width, address_width=ADDRESS_BITS, id_width=1)
        self.registers = AXILiteInterface(data_width=32, address_width=32)
        self.ev = EventManager()
        self.ev.core = EventSourceLevel()
        self.ev.finalize()
        irq = Signal()
        self.comb += self.ev.core.trigger.eq(irq)
        self.specials += Instance(
            TOP,
            i_clk=ClockSignal(),
            i_rst=ResetSignal(),
            o_irq=irq,
            **_ports("m_axi", axi4(config.bus_bytes).members, self.memory, Flow.Out),
            **_ports("s_axil", axi4_lite().members, self.registers, Flow.In),
        )


def _ports(prefix: str, members: Any, bus: Any, flow: Flow) -> dict[str, Any]:
    """Return the connections of one bus of the core, whose members have ``flow`` at a master."""
    ports = {}
    for name, member in members.items():
        channel = name[:2] if name.startswith("a") else name[:1]
        signal = getattr(getattr(bus, channel), name.removeprefix(channel))
        direction = "o" if (member.flow is Flow.Out) == (flow is Flow.Out) else "i"
        ports[f"{direction}_{prefix}__{name}"] = signal[: member.shape]
    return ports
