"""Counting semaphores that order the units."""

from amaranth.hdl import Cat, Module, Signal, Value, signed
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
        self.want = In(masks)
        self.requesting = In(units)
        self.granted = Out(units)
        self.lacking = Out(count)
        self.post = In(masks)
        self.overflow = Out(units)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # What is taken is subtracted one cycle late (`fewer`): grants come late in a cycle. So do
        # posts: registers show which counts are zero, and which are one.
        counts = [
            Signal(range(GREATEST + self.units + 2), name=f"count_{s}") for s in range(self.count)
        ]
        fewer = Signal(self.count)
        zero = Signal(self.count, init=-1)
        one = Signal(self.count)
        m.d.comb += self.lacking.eq(zero | (one & fewer))
        can = Signal(self.units)
        m.d.comb += can.eq(
            Cat(
                self.requesting[u] & ~(self.want[u] & self.lacking).any() for u in range(self.units)
            )
        )
        for u in range(self.units):
            m.d.comb += self.granted[u].eq(can[u] & ~can[:u].any())
        # At most one unit is granted, so masks need no priority.
        for s in range(self.count):
            masks = Cat(self.want[u][s] & self.granted[u] for u in range(self.units))
            m.d.sync += fewer[s].eq(masks.any())
        for s, count in enumerate(counts):
            posted_by = (self.post[u][s] for u in range(1, self.units))
            posts = Value.cast(sum(posted_by, self.post[0][s]))
            # One adder for both.
            change = Signal(signed(len(posts) + 1), name=f"change_{s}")
            following = Signal.like(count, name=f"following_{s}")
            m.d.comb += [change.eq(posts - fewer[s]), following.eq(count + change)]
            m.d.sync += [count.eq(following), zero[s].eq(following == 0), one[s].eq(following == 1)]
        over = Cat(count > GREATEST for count in counts)
        # The posts of the cycle before, which `counts` have now. `InFlight` names the instruction
        # that posted one cycle later.
        posted = Signal(data.ArrayLayout(self.count, self.units))
        m.d.sync += [
            posted.eq(self.post),
            self.overflow.eq(Cat((posted[u] & over).any() for u in range(self.units))),
        ]
        return m
