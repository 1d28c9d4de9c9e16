"""Counting semaphores that order the units."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from celosia.hw.arch.config import MOST_COUNT
from celosia.hw.lib.component import Component, In, Out

#: Greatest legal count.
GREATEST = MOST_COUNT


class Semaphores(Component):
    """Counting semaphores: a unit takes one count from each of a mask at once, and adds likewise.

    Parameters
    ----------
    count : int
        Number of semaphores.
    units : int
        Number of units that take and post.

    Members
    -------
    requesting : In(units)
        Each unit waits for the semaphores of its ``want``.
    want : In(ArrayLayout(count, units))
        Mask of semaphores, for each unit.
    granted : Out(units)
        A count is taken from each semaphore of the unit's ``want`` in this cycle. At most one unit
        a cycle: the one with the lowest number whose semaphores all have counts.
    lacking : Out(count)
        Semaphores whose count is zero.
    post : In(ArrayLayout(count, units))
        Semaphores that get a count from each unit in this cycle.
    overflow : Out(units)
        Two cycles after a post of this unit: it took a count past GREATEST, even if a unit took one
        in the cycle of the post.

    Timing
    ------
    ``granted`` is combinational from ``requesting`` and ``want``. A count posted in one cycle can
    be taken in the next.
    """

    def __init__(self, *, count: int, units: int) -> None:
        self.count = count
        self.units = units
        masks = data.ArrayLayout(count, units)
        # The stubs do not know init yet.
        beginning: Any = Out
        self.want = In(masks)
        self.requesting = In(units)
        self.granted = Out(units)
        self.lacking = beginning(count, init=(1 << count) - 1)
        self.post = In(masks)
        self.overflow = Out(units)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # What is taken is subtracted one cycle late (`fewer`): grants come late in a cycle.
        counts = [
            Signal(range(GREATEST + self.units + 2), name=f"count_{s}") for s in range(self.count)
        ]
        fewer = Signal(self.count)
        free: Value = Signal(init=1, name="free")
        m.d.comb += free.eq(1)
        for u in range(self.units):
            can = self.requesting[u] & ~(self.want[u] & self.lacking).any()
            m.d.comb += self.granted[u].eq(free & can)
            free = free & ~can
        taken = Signal(self.count)
        for u in range(self.units):
            with m.If(self.granted[u]):
                m.d.comb += taken.eq(self.want[u])
        over = Signal(self.count)
        for s, count in enumerate(counts):
            posted_by = (self.post[u][s] for u in range(1, self.units))
            posts = Value.cast(sum(posted_by, self.post[0][s]))
            # One adder for both.
            change = Signal(signed(len(posts) + 1), name=f"change_{s}")
            following = Signal.like(count, name=f"following_{s}")
            m.d.comb += [
                change.eq(posts - fewer[s]),
                following.eq(count + change),
                over[s].eq(following > GREATEST),
            ]
            m.d.sync += count.eq(following)
            # Registered, because all grants depend on it. A semaphore that gets a post is not zero;
            # one whose last count is taken is. The register has 1 then, or 2 with one in `fewer`.
            posted_to = Cat(self.post[u][s] for u in range(self.units)).any()
            one = ~count[2:].any() & (count[:2] == Mux(fewer[s], 2, 1))
            m.d.sync += self.lacking[s].eq(~posted_to & (self.lacking[s] | (one & taken[s])))
        m.d.sync += fewer.eq(taken)
        # A second register: `InFlight` names the instruction that posted at that time.
        passed = Signal(self.units)
        m.d.sync += [
            passed.eq(Cat((self.post[u] & over).any() for u in range(self.units))),
            self.overflow.eq(passed),
        ]
        return m
