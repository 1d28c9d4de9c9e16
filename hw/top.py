"""Core with clock and reset as ports: the top module of its Verilog."""

from typing import Any

from amaranth.hdl import ClockDomain, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import flipped

from celosia.hw.axi.signature import axi4, axi4_lite
from celosia.hw.core import Core
from celosia.hw.lib.component import Component, In, Out


class Top(Component):
    """Core with ports ``clk`` and ``rst``.

    The reset passes through a register of each block, so an input does not change the logic of
    every register in a simulation.

    Parameters
    ----------
    core : Core
        Core that is wrapped.

    Members
    -------
    clk, rst : In(1)
        Clock, and synchronous reset, active high.
    m_axi, s_axil, irq
        Ports of the core.

    Timing
    ------
    ``rst`` takes effect one cycle later.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        self.clk = In(1)
        self.rst = In(1)
        self.m_axi = Out(axi4(core.config.bus_bytes))
        self.s_axil = In(axi4_lite())
        self.irq = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sync: Any = ClockDomain(reset_less=True)
        m.domains.sync = sync
        m.submodules.core = self.core
        m.d.comb += [
            sync.clk.eq(self.clk),
            self.core.reset.eq(self.rst),
            self.irq.eq(self.core.irq),
        ]
        wiring.connect(m, flipped(self.m_axi), self.core.m_axi)
        wiring.connect(m, flipped(self.s_axil), self.core.s_axil)
        return m
