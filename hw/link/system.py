"""A core behind a serial line: link, core, and the memory port that they share."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, flipped

from celosia.hw.arch.config import Config
from celosia.hw.axi.arbiter import Arbiter
from celosia.hw.axi.signature import axi4
from celosia.hw.core import Core
from celosia.hw.link.link import Link

#: Bits of the ids on the memory port: the core's, and one for link or core.
ID_BITS = 2


class System(wiring.Component):
    """Everything of a board but clock, reset, pins and memory.

    Parameters
    ----------
    config : Config
        Sizes of the core.
    divisor : int
        Cycles of one bit on the line.
    memory_bytes : int
        External memory as the host is told, 0 where it is not known.
    slots, slot_bytes : int
        See ``Link``.

    Members
    -------
    rx, tx : In(1), Out(1)
        The line; ``rx`` is asynchronous.
    m_axi : Out(axi4(bus_bytes, id_bits=ID_BITS))
        External memory; the upper bit of an id is 1 for the core.
    irq : Out(1)
        Interrupt of the core, level: a lamp, as the host looks at the registers.
    """

    rx: Signal
    tx: Signal
    m_axi: Any
    irq: Signal

    def __init__(
        self,
        *,
        config: Config,
        divisor: int,
        memory_bytes: int = 0,
        slots: int = 4,
        slot_bytes: int = 512,
    ) -> None:
        self.config = config
        self.link = Link(
            divisor=divisor,
            bus_bytes=config.bus_bytes,
            slots=slots,
            slot_bytes=slot_bytes,
            memory_bytes=memory_bytes,
        )
        super().__init__(
            {
                "rx": In(1, init=1),  # pyright: ignore[reportCallIssue]
                "tx": Out(1, init=1),  # pyright: ignore[reportCallIssue]
                "m_axi": Out(axi4(config.bus_bytes, id_bits=ID_BITS)),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        link = self.link
        core: Any = Core(config=self.config)
        arbiter: Any = Arbiter(data_bytes=self.config.bus_bytes, id_bits=ID_BITS - 1)
        m.submodules.link = link
        m.submodules.core = core
        m.submodules.arbiter = arbiter
        m.d.comb += [link.rx.eq(self.rx), self.tx.eq(link.tx), self.irq.eq(core.irq)]
        wiring.connect(m, link.m_axil, core.s_axil)
        wiring.connect(m, link.m_axi, arbiter.port_0)
        wiring.connect(m, core.m_axi, arbiter.port_1)
        wiring.connect(m, arbiter.bus, flipped(self.m_axi))
        return m
