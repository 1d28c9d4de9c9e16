"""State of one bank: its open row and what it must be given time for."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.wiring import In, Out

from celosia.hw.lib.component import Component
from celosia.hw.sdram.countdown import Countdown
from celosia.hw.sdram.timing import Timing


class Bank(Component):
    """Remembers the open row of a bank and says when it may be opened and closed.

    Parameters
    ----------
    timing : Timing
        Times of the chip.
    row_bits : int
        Width of a row's address.
    words : int
        Length of the chip's bursts.

    Members
    -------
    activate, precharge, read, write : In(1)
        The command that the bank is given in this cycle, at most one.
    row : In(row_bits)
        Row to open, and to compare with.
    open, hit : Out(1)
        A row is open; the row opened last is ``row``.
    may_activate, may_precharge : Out(1)
        The bank's own times allow it from the next cycle on: tRC; tRAS, tWR and the data of reads.

    Timing
    ------
    Outputs know of all commands of earlier cycles.
    """

    def __init__(self, *, timing: Timing, row_bits: int, words: int) -> None:
        self.timing = timing
        self.words = words
        super().__init__(
            {
                "activate": In(1),
                "precharge": In(1),
                "read": In(1),
                "write": In(1),
                "row": In(row_bits),
                "open": Out(1),
                "hit": Out(1),
                "may_activate": Out(1),
                "may_precharge": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        row = Signal.like(self.row)
        timing = self.timing
        # One cycle less each: who looks at the outputs registers them.
        after_read = timing.read_to_precharge(self.words) - 1
        after_write = timing.write_to_precharge(self.words) - 1
        m.submodules.cycle = cycle = Countdown([timing.rc - 1])
        m.submodules.active = active = Countdown([timing.ras - 1])
        m.submodules.column = column = Countdown([after_read, after_write])
        m.d.comb += [
            cycle.start.eq(self.activate),
            active.start.eq(self.activate),
            column.start.eq(Cat(self.read, self.write)),
            self.hit.eq(row == self.row),
            self.may_activate.eq(cycle.over),
            self.may_precharge.eq(active.over & column.over),
        ]
        with m.If(self.activate):
            m.d.sync += [self.open.eq(1), row.eq(self.row)]
        with m.If(self.precharge):
            m.d.sync += self.open.eq(0)
        return m
