"""Core or pod as a module of LiteX."""

from typing import Any

from amaranth.lib.wiring import Flow
from litex.gen import LiteXModule
from litex.soc.interconnect.axi import AXIInterface, AXILiteInterface
from litex.soc.interconnect.csr_eventmanager import EventManager, EventSourceLevel
from migen import ClockSignal, Instance, ResetSignal, Signal

from celosia.hw.arch.config import ADDRESS_BITS, Config
from celosia.hw.arch.pod import PodConfig
from celosia.hw.axi.signature import axi4, axi4_lite
from celosia.hw.verilog.build import TOP

#: LiteX makes members where they are named.
_Module: Any = LiteXModule


class Celosia(_Module):
    """Instance of the Verilog of a core or a pod.

    Parameters
    ----------
    config : Config or PodConfig
        Sizes.

    Attributes
    ----------
    memories : list of AXIInterface
        Masters, one for each memory port: programs, weights, activations. Addresses begin at 0.
    registers : AXILiteInterface
        Slave: registers of ``hw/arch/registers.py``, and of ``hw/arch/pod.py``.
    ev : EventManager
        The interrupt, of any core, for a system with a processor.
    """

    def __init__(self, config: Config | PodConfig) -> None:
        if isinstance(config, PodConfig):
            port = axi4(config.core.bus_bytes, id_bits=config.id_bits)
            masters = [f"m_axi_{n}" for n in range(config.ports)]
            slave, irq = axi4_lite(config.address_bits), Signal(config.cores)
        else:
            port, masters, slave, irq = axi4(config.bus_bytes), ["m_axi"], axi4_lite(), Signal()
        sizes = {
            "data_width": port.members["rdata"].shape,
            "address_width": ADDRESS_BITS,
            "id_width": port.members["rid"].shape,
        }
        self.memories = [AXIInterface(**sizes) for _ in masters]
        self.registers = AXILiteInterface(data_width=32, address_width=32)
        self.ev = EventManager()
        self.ev.core = EventSourceLevel()
        self.ev.finalize()
        self.comb += self.ev.core.trigger.eq(irq != 0)
        ports = _ports("s_axil", slave.members, self.registers, Flow.In)
        for name, memory in zip(masters, self.memories, strict=True):
            ports |= _ports(name, port.members, memory, Flow.Out)
        clock = {"i_clk": ClockSignal(), "i_rst": ResetSignal()}
        self.specials += Instance(TOP, o_irq=irq, **clock, **ports)


def _ports(prefix: str, members: Any, bus: Any, flow: Flow) -> dict[str, Any]:
    """Return the connections of one bus of the core, whose members have ``flow`` at a master."""
    ports = {}
    for name, member in members.items():
        channel = name[:2] if name.startswith("a") else name[:1]
        signal = getattr(getattr(bus, channel), name.removeprefix(channel))
        direction = "o" if (member.flow is Flow.Out) == (flow is Flow.Out) else "i"
        ports[f"{direction}_{prefix}__{name}"] = signal[: member.shape]
    return ports
