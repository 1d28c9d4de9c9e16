"""Pod: cores that run the same program on parts of a batch."""

from typing import Any

from amaranth.hdl import Cat, ClockDomain, Instance, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import flipped

from celosia.hw.arch.pod import PodConfig
from celosia.hw.axi.arbiter import Arbiter
from celosia.hw.axi.joined import JoinedReads
from celosia.hw.axi.signature import axi4, axi4_read, axi4_write, connect
from celosia.hw.axi.windows import Windows
from celosia.hw.lib.component import Component, In, Out

#: Module of one core in the Verilog of a pod, see ``Top``.
CORE = "celosia_core"


class Pod(Component):
    """Cores with one AXI4-Lite slave and one or more AXI4 masters.

    Each core has private bytes of the memory: the pod ORs a base address, which the host writes, to
    addresses of a range. All other bytes are shared, and read once for all cores of a port, see
    ``JoinedReads``. A port takes bursts of writes in turn, by a tree of ``Arbiter``. The cores are
    instances of a module of Verilog, so that tools read it once.

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
    A port of several cores has a read address three cycles after it was taken of the core; a write
    address in the same cycle, and its data two cycles later for each level of the tree.
    """

    def __init__(self, *, config: PodConfig) -> None:
        self.config = config
        self.windows = Windows(config=config)
        self.port = axi4(config.core.bus_bytes, id_bits=config.id_bits)
        self.clk = In(1)
        self.rst = In(1)
        for n in range(config.ports):
            setattr(self, f"m_axi_{n}", Out(self.port))
        self.s_axil = In(self.windows.bus.signature.flip())
        self.irq = Out(config.cores)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sync: Any = ClockDomain()
        m.domains.sync = sync
        m.d.comb += [sync.clk.eq(self.clk), sync.rst.eq(self.rst)]
        m.submodules.windows = windows = self.windows
        wiring.connect(m, flipped(self.s_axil), windows.bus)
        masters = [self._core(m, n) for n in range(self.config.cores)]
        count = self.config.each
        for number in range(self.config.ports):
            port = getattr(self, f"m_axi_{number}")
            group = masters[number * count : (number + 1) * count]
            self._reads(m, group, port, number)
            self._writes(m, [bus for bus, _ in group], port, number)
        return m

    def _core(self, m: Module, number: int) -> tuple[Any, Value]:
        """Add a core; return its memory port, and whether its read is of shared bytes."""
        bus: Any = axi4(self.config.core.bus_bytes).create()
        windows = self.windows
        registers, base = getattr(windows, f"core_{number}"), windows.bases[number]
        ports: dict[str, Any] = {"i_clk": self.clk, "i_rst": self.rst, "o_irq": self.irq[number]}
        for prefix, interface, driven in (("m_axi", bus, Out), ("s_axil", registers, In)):
            for name, member in interface.signature.members.items():
                flow = "o" if member.flow is driven else "i"
                ports[f"{flow}_{prefix}__{name}"] = getattr(interface, name)
        private = {}
        for name in ("araddr", "awaddr"):
            address = Signal(len(getattr(bus, name)), name=f"{name}_{number}")
            private[name] = (address >= windows.private[0]) & (address < windows.private[1])
            ports[f"o_m_axi__{name}"] = address
            m.d.comb += getattr(bus, name).eq(address | Mux(private[name], base, 0))
        m.submodules[f"core_{number}"] = Instance(CORE, **ports)
        return bus, ~private["araddr"]

    def _reads(self, m: Module, group: list[tuple[Any, Value]], port: Any, number: int) -> None:
        """Connect the read channels of a port with those of its cores."""
        if len(group) == 1:
            connect(m, axi4_read(1), group[0][0], port)
            return
        core = self.config.core
        reads: Any = JoinedReads(
            masters=len(group), data_bytes=core.bus_bytes, outstanding=core.outstanding
        )
        m.submodules[f"reads_{number}"] = reads
        first = number * len(group)
        m.d.comb += [
            # A core that has ended has no requests until the host has seen its interrupt.
            reads.working.eq(self.windows.working[first:] & ~self.irq[first:]),
            reads.shared.eq(Cat(shared for _, shared in group)),
        ]
        for n, (bus, _) in enumerate(group):
            connect(m, axi4_read(1), bus, getattr(reads, f"port_{n}"))
        connect(m, axi4_read(1), reads.bus, port)

    def _writes(self, m: Module, masters: list[Any], port: Any, number: int) -> None:
        """Join the write channels of cores by pairs, level by level; connect the last to a port."""
        level = 1
        while len(masters) > 1:
            joined = []
            for pair in zip(masters[::2], masters[1::2], strict=True):
                arbiter: Any = Arbiter(data_bytes=self.config.core.bus_bytes, id_bits=level)
                m.submodules[f"writes_{number}_{level}_{len(joined)}"] = arbiter
                for source, sink in zip(pair, (arbiter.port_0, arbiter.port_1), strict=True):
                    connect(m, axi4_write(1), source, sink)
                joined.append(arbiter.bus)
            masters, level = joined, level + 1
        connect(m, axi4_write(1), masters[0], port)
