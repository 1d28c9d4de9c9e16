"""The core as a Verilog module of its own: its clock and reset become ports."""

from typing import Any

from amaranth.hdl import ClockDomain, Module, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, flipped

from celosia.hw.core import Core


class Top(wiring.Component):
    """A core with ports ``clk`` and ``rst``.

    The reset passes through a register: one net with a wide fan-out starts at a flip-flop, not at
    a pin, and simulators need not look at the logic of every register when an input changes.

    Parameters
    ----------
    core : Core
        What is wrapped.

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

    clk: Signal
    rst: Signal
    m_axi: Any
    s_axil: Any
    irq: Signal

    def __init__(self, core: Core) -> None:
        self.core = core
        super().__init__({"clk": In(1), "rst": In(1), **core.signature.members})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sync: Any = ClockDomain(reset_less=True)
        m.domains.sync = sync
        reset = Signal(init=1)
        m.submodules.core = ResetInserter(reset)(self.core)
        m.d.comb += [sync.clk.eq(self.clk), self.irq.eq(self.core.irq)]
        m.d.sync += reset.eq(self.rst)
        wiring.connect(m, flipped(self.m_axi), self.core.m_axi)
        wiring.connect(m, flipped(self.s_axil), self.core.s_axil)
        return m
