"""Pod: cores that run the same program on parts of a batch."""

from typing import Any

from amaranth.hdl import ClockDomain, Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, flipped

from celosia.hw.arch.pod import PodConfig
from celosia.hw.axi.arbiter import Arbiter
from celosia.hw.axi.signature import axi4
from celosia.hw.axi.windows import Windows
from celosia.hw.lib.component import Component

#: Module of one core in the Verilog of a pod, see ``Top``.
CORE = "celosia_core"


class Pod(Component):
    """Cores with one AXI4-Lite slave and one or more AXI4 masters.

    Each core has its own part of the memory: the pod ORs a base address, which the host writes, to
    all addresses of a core. A port of several cores takes their bursts in turn, by a tree of
    ``Arbiter``. The cores are instances of a module of Verilog, so that tools read it once.

    Parameters
    ----------
    config : PodConfig
        Sizes.

    Members
    -------
    clk, rst : In(1)
        Clock, and synchronous reset, active high.
    m_axi_0, ... : Out(axi4(bus_bytes, id_bits))
        Memory ports. Core ``n`` uses number ``n // (cores // ports)``.
    s_axil : In(axi4_lite(address_bits))
        Registers of the cores and of the pod, see ``Windows``.
    irq : Out(cores)
        Interrupt of each core, level.

    Timing
    ------
    A memory port takes an address in the cycle in which the core's is taken. Write data come two
    cycles later for each level of the tree.
    """

    def __init__(self, *, config: PodConfig) -> None:
        self.config = config
        self.windows = Windows(config=config)
        self.port = axi4(config.core.bus_bytes, id_bits=config.id_bits)
        super().__init__(
            {
                "clk": In(1),
                "rst": In(1),
                **{f"m_axi_{n}": Out(self.port) for n in range(config.ports)},
                "s_axil": self.windows.signature.members["bus"],
                "irq": Out(config.cores),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sync: Any = ClockDomain()
        m.domains.sync = sync
        m.d.comb += [sync.clk.eq(self.clk), sync.rst.eq(self.rst)]
        m.submodules.windows = windows = self.windows
        wiring.connect(m, flipped(self.s_axil), windows.bus)
        masters = [self._core(m, n) for n in range(self.config.cores)]
        each = self.config.cores // self.config.ports
        for number in range(self.config.ports):
            port = self._tree(m, masters[number * each : (number + 1) * each], number)
            wiring.connect(m, port, flipped(getattr(self, f"m_axi_{number}")))
        return m

    def _core(self, m: Module, number: int) -> Any:
        """Add a core; return its memory port, with addresses in its part of the memory."""
        bus: Any = axi4(self.config.core.bus_bytes).create()
        registers = getattr(self.windows, f"core_{number}")
        base = self.windows.bases[number]
        ports: dict[str, Any] = {"i_clk": self.clk, "i_rst": self.rst, "o_irq": self.irq[number]}
        for prefix, interface, driven in (("m_axi", bus, Out), ("s_axil", registers, In)):
            for name, member in interface.signature.members.items():
                flow = "o" if member.flow is driven else "i"
                ports[f"{flow}_{prefix}__{name}"] = getattr(interface, name)
        for channel in ("ar", "aw"):
            name = f"{channel}addr"
            address = Signal(len(getattr(bus, name)), name=f"{name}_{number}")
            ports[f"o_m_axi__{name}"] = address
            m.d.comb += getattr(bus, name).eq(address | base)
        m.submodules[f"core_{number}"] = Instance(CORE, **ports)
        return bus

    def _tree(self, m: Module, masters: list[Any], port: int) -> Any:
        """Join the masters of a port by pairs, level by level; return the one that is left."""
        level = 1
        while len(masters) > 1:
            joined = []
            for pair in zip(masters[::2], masters[1::2], strict=True):
                arbiter: Any = Arbiter(data_bytes=self.config.core.bus_bytes, id_bits=level)
                m.submodules[f"arbiter_{port}_{level}_{len(joined)}"] = arbiter
                for source, sink in zip(pair, (arbiter.port_0, arbiter.port_1), strict=True):
                    wiring.connect(m, source, sink)
                joined.append(arbiter.bus)
            masters, level = joined, level + 1
        return masters[0]
