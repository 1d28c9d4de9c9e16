"""A time that must pass after an event."""

from collections.abc import Sequence

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from celosia.hw.lib.component import Component


class Countdown(Component):
    """Says when the time since the last event is over.

    Parameters
    ----------
    cycles : sequence of int
        For each event, cycles from it to what it forbids, at least 1.

    Members
    -------
    start : In(len(cycles))
        Events of this cycle, at most one. A new event replaces the one before.
    over : Out(1)
        What was forbidden is allowed: from a register.

    Timing
    ------
    ``over`` falls in the cycle after an event and rises ``cycles`` after it.
    """

    def __init__(self, cycles: Sequence[int]) -> None:
        self.cycles = tuple(cycles)
        super().__init__({"start": In(len(self.cycles)), "over": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        left = Signal(range(max(2, *self.cycles)))
        running = Signal()
        m.d.comb += self.over.eq(~running)
        m.d.sync += running.eq(left > 1)
        with m.If(running):
            m.d.sync += left.eq(left - 1)
        for number, cycles in enumerate(self.cycles):
            with m.If(self.start[number]):
                m.d.sync += [left.eq(cycles - 1), running.eq(cycles > 1)]
        return m
