"""Interrupt of the core: events that stay pending until the host clears them."""

from amaranth.hdl import Module, Signal

from celosia.hw.arch.registers import Interrupt
from celosia.hw.lib.component import Component, In, Out

EVENTS = len(Interrupt)


class Interrupts(Component):
    """Pending bits of events, set by a rising edge and cleared by the host.

    Members
    -------
    events : In(EVENTS)
        Levels, in the order of ``registers.Interrupt``.
    enable, clear : In(EVENTS)
        Events that reach ``irq``; pending bits to clear in this cycle.
    pending : Out(EVENTS)
        Events that rose since they were cleared.
    irq : Out(1)
        An enabled event is pending.

    Timing
    ------
    ``pending`` follows ``events`` by one cycle, ``irq`` by two. A rise in the cycle of its
    ``clear`` is kept.
    """

    def __init__(self) -> None:
        self.events = In(EVENTS)
        self.enable = In(EVENTS)
        self.clear = In(EVENTS)
        self.pending = Out(EVENTS)
        self.irq = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        before = Signal(EVENTS)
        m.d.sync += [
            before.eq(self.events),
            self.pending.eq((self.pending & ~self.clear) | (self.events & ~before)),
            self.irq.eq((self.pending & self.enable).any()),
        ]
        return m
