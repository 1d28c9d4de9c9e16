"""Core or pod as a module of LiteX."""

from typing import Any

from amaranth.lib.wiring import Flow
from litex.gen import LiteXModule
from litex.soc.interconnect.axi import AXIInterface, AXILiteInterface
from litex.soc.interconnect.csr_eventmanager import EventManager, EventSourceLevel
from migen import ClockSignal, Instance, ResetSignal, Signal
from migen.genlib.cdc import MultiReg

from celosia.hw.arch.config import ADDRESS_BITS, Config
from celosia.hw.arch.pod import PodConfig
from celosia.hw.axi.signature import axi4, axi4_lite
from celosia.hw.litex.crossing import Crossing
from celosia.hw.verilog.build import TOP

#: LiteX makes members where they are named.
_Module: Any = LiteXModule


class Celosia(_Module):
    """Instance of the Verilog of a core or a pod.

    Parameters
    ----------
    config : Config or PodConfig
        Sizes.
    domain : str
        Its clock domain. If it is not that of the system, its buses and its interrupt cross.

    Attributes
    ----------
    memories : list of AXIInterface
        Masters, one for each memory port: programs, weights, activations. Addresses begin at 0.
    registers : AXILiteInterface
        Slave: registers of ``hw/arch/registers.py``, and of ``hw/arch/pod.py``.
    ev : EventManager
        The interrupt, of any core, for a system with a processor.
    """

    def __init__(self, config: Config | PodConfig, domain: str = "sys") -> None:
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
        memories = [AXIInterface(**sizes) for _ in masters]
        registers = AXILiteInterface(data_width=32, address_width=32)
        self.memories, self.registers = memories, registers
        pending = Signal()
        if domain == "sys":
            self.comb += pending.eq(irq != 0)
        else:
            self.memories = [AXIInterface(**sizes) for _ in masters]
            self.registers = AXILiteInterface(data_width=32, address_width=32)
            self.submodules += Crossing(self.registers, registers, "sys", domain)
            for inner, outer in zip(memories, self.memories, strict=True):
                self.submodules += Crossing(inner, outer, domain, "sys")
            # No glitch of the gate may reach the other clock.
            registered = Signal()
            sync = getattr(self.sync, domain)
            sync += registered.eq(irq != 0)
            self.specials += MultiReg(registered, pending)
        self.ev = EventManager()
        self.ev.core = EventSourceLevel()
        self.ev.finalize()
        self.comb += self.ev.core.trigger.eq(pending)
        ports = _ports("s_axil", slave.members, registers, Flow.In)
        for name, memory in zip(masters, memories, strict=True):
            ports |= _ports(name, port.members, memory, Flow.Out)
        clock = {"i_clk": ClockSignal(domain), "i_rst": ResetSignal(domain)}
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
