"""Commands to the chip after power-up, and the times of its refreshes."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from celosia.hw.lib.component import Component
from celosia.hw.sdram.signature import ALL_BANKS, Command, command_layout
from celosia.hw.sdram.timing import Timing

#: Refreshes between power-up and use.
FIRST_REFRESHES = 8


class Startup(Component):
    """Waits, precharges all banks, refreshes and sets the mode register.

    Parameters
    ----------
    timing : Timing
        Times of the chip.
    row_bits : int
        Address pins.
    words : int
        Length of the chip's bursts: 2, 4 or 8.

    Members
    -------
    command : Out(command_layout)
        For the chip; ``DESELECT`` between commands and when done.
    done : Out(1)
        The chip may be used.

    Timing
    ------
    Runs once after reset.
    """

    def __init__(self, *, timing: Timing, row_bits: int, words: int) -> None:
        self.timing = timing
        self.row_bits = row_bits
        self.words = words
        super().__init__({"command": Out(command_layout(row_bits)), "done": Out(1)})

    @property
    def mode(self) -> int:
        """Content of the mode register: sequential bursts for reads and writes."""
        return self.words.bit_length() - 1 | self.timing.cas_latency << 4

    def elaborate(self, platform: object) -> Module:
        m = Module()
        timing = self.timing
        steps = [(Command.PRECHARGE, ALL_BANKS, timing.rp)]
        steps += [(Command.REFRESH, 0, timing.rfc)] * FIRST_REFRESHES
        steps += [(Command.MODE, self.mode, timing.mrd)]
        left = Signal(range(timing.startup + 1), init=timing.startup)
        step = Signal(range(len(steps) + 1))
        m.d.comb += self.command.command.eq(Command.DESELECT)
        m.d.sync += left.eq(Mux(left == 0, 0, left - 1))
        with m.If(left == 0):
            with m.Switch(step):
                for number, (command, address, cycles) in enumerate(steps):
                    with m.Case(number):
                        m.d.comb += [
                            self.command.command.eq(command),
                            self.command.address.eq(address),
                        ]
                        m.d.sync += [left.eq(cycles - 1), step.eq(number + 1)]
                with m.Default():
                    m.d.sync += self.done.eq(1)
        return m


class RefreshTimer(Component):
    """Counts the refreshes that are due.

    Parameters
    ----------
    interval : int
        Cycles from one falling due to the next.

    Members
    -------
    run : In(1)
        Counts; else nothing is owed.
    refreshed : In(1)
        One was given in this cycle.
    owed : Out(1)
        At least one is due.

    Timing
    ------
    ``owed`` follows by one cycle. Up to 15 are remembered.
    """

    def __init__(self, *, interval: int) -> None:
        self.interval = interval
        super().__init__({"run": In(1), "refreshed": In(1), "owed": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        left = Signal(range(self.interval), init=self.interval - 1)
        count = Signal(4)
        due = Signal()
        m.d.comb += [due.eq(self.run & (left == 0)), self.owed.eq(count != 0)]
        with m.If(self.run):
            m.d.sync += left.eq(Mux(due, self.interval - 1, left - 1))
        with m.If(due & ~self.refreshed & (count != 15)):
            m.d.sync += count.eq(count + 1)
        with m.Elif(~due & self.refreshed & self.owed):
            m.d.sync += count.eq(count - 1)
        return m
