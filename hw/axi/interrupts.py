"""Interrupt of the core: events that stay pending until the host clears them."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.arch.registers import Interrupt

EVENTS = len(Interrupt)


class Interrupts(wiring.Component):
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

    events: Signal
    enable: Signal
    clear: Signal
    pending: Signal
    irq: Signal

    def __init__(self) -> None:
        super().__init__(
            {
                "events": In(EVENTS),
                "enable": In(EVENTS),
                "clear": In(EVENTS),
                "pending": Out(EVENTS),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        before = Signal(EVENTS)
        m.d.sync += [
            before.eq(self.events),
            self.pending.eq((self.pending & ~self.clear) | (self.events & ~before)),
            self.irq.eq((self.pending & self.enable).any()),
        ]
        return m
