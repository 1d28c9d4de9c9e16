"""Counting semaphores that order the units."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

#: A count may not pass this.
GREATEST = 4095


class Semaphores(wiring.Component):
    """``count`` counters; takers take from all of a mask at once, posters add to all of a mask.

    Parameters
    ----------
    count : int
        Semaphores.
    units : int
        Takers and posters.

    Members
    -------
    want : In(ArrayLayout(count, units))
        Mask that each unit waits for; ``asking`` says that it waits.
    granted : Out(units)
        The unit's mask was taken, in this cycle. At most one unit a cycle, the first that can.
    lacking : Out(count)
        Semaphores at zero.
    post : In(ArrayLayout(count, units))
        Masks added in this cycle.
    overflow : Out(units)
        A count passed GREATEST through a post of this unit, two cycles later.

    Timing
    ------
    A post can be taken from the next cycle on.
    """

    want: data.View
    asking: Signal
    granted: Signal
    lacking: Signal
    post: data.View
    overflow: Signal

    def __init__(self, *, count: int, units: int) -> None:
        self.count = count
        self.units = units
        masks = data.ArrayLayout(count, units)
        beginning: Any = Out
        super().__init__(
            {
                "want": In(masks),
                "asking": In(units),
                "granted": Out(units),
                "lacking": beginning(count, init=(1 << count) - 1),
                "post": In(masks),
                "overflow": Out(units),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Too high by what was taken in the cycle before: who is granted is known late in a cycle.
        counts = [
            Signal(range(GREATEST + self.units + 2), name=f"count_{s}") for s in range(self.count)
        ]
        fewer = Signal(self.count)
        free: Value = Signal(init=1, name="free")
        m.d.comb += free.eq(1)
        for u in range(self.units):
            can = self.asking[u] & ~(self.want[u] & self.lacking).any()
            m.d.comb += self.granted[u].eq(free & can)
            free = free & ~can
        taken = Signal(self.count)
        for u in range(self.units):
            with m.If(self.granted[u]):
                m.d.comb += taken.eq(self.want[u])
        over = Signal(self.count)
        for s, count in enumerate(counts):
            posts = sum((self.post[u][s] for u in range(1, self.units)), self.post[0][s])
            # One adder for both.
            change = Signal(signed(len(posts) + 1), name=f"change_{s}")
            m.d.comb += change.eq(posts - fewer[s])
            m.d.sync += count.eq(count + change)
            # In a register, since all grants wait for it; what is posted to is not zero.
            posted_to = Cat(self.post[u][s] for u in range(self.units)).any()
            one = ~count[2:].any() & (count[:2] == Mux(fewer[s], 2, 1))
            m.d.sync += self.lacking[s].eq(~posted_to & (self.lacking[s] | (one & taken[s])))
            past = count >= GREATEST + 1
            m.d.comb += over[s].eq(past & ~(fewer[s] & (count == GREATEST + 1)))
        m.d.sync += fewer.eq(taken)
        posted = Signal(self.post.shape())
        m.d.sync += posted.eq(self.post)
        # Late in a cycle, and what it leads to is far away.
        m.d.sync += self.overflow.eq(Cat((posted[u] & over).any() for u in range(self.units)))
        return m
