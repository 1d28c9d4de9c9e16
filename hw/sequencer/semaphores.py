"""Counting semaphores that order the units."""

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
        Each unit waits for the semaphores of its ``want``, until the cycle of ``granted``. It may
        be granted from the second cycle on.
    want : In(ArrayLayout(count, units))
        Mask of semaphores, for each unit. It stays until the cycle after ``granted``.
    granted : Out(units)
        A count is taken from each semaphore of the unit's ``want`` in this cycle. At most one unit
        a cycle: the one with the lowest number whose semaphores all have counts, and are none of
        those taken from in the cycle before.
    lacking : Out(count)
        Semaphores whose count was zero before the takes of the cycle before.
    post : In(ArrayLayout(count, units))
        Semaphores that get a count from each unit in this cycle.
    overflow : Out(units)
        Two cycles after a post of this unit: it took a count past GREATEST, even if a unit took one
        in the cycle of the post or in that before.

    Timing
    ------
    ``granted`` depends on registers alone: on ``requesting`` and ``want`` of the cycle before. A
    count posted in one cycle can be taken in the next. A semaphore that gave a count gives none in
    the next cycle.
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
        # Units granted in the cycle before; their takes are subtracted in the next one.
        took = Signal(self.units)
        late = Signal(self.count)
        counts = [
            Signal(range(GREATEST + self.units + 2), name=f"count_{s}") for s in range(self.count)
        ]
        # Posts come late in a cycle: registers show which counts are zero, and which units lack one
        # of those.
        zero = Signal(self.count, init=-1)
        left = Signal(self.count)
        short = Signal(self.units)
        m.d.comb += self.lacking.eq(zero)
        can = Signal(self.units)
        # Masks stay from the request to the cycle after the grant, so they are compared before.
        asked = Signal(self.units)
        m.d.sync += [asked.eq(self.requesting), zero.eq(~left)]
        for u in range(self.units):
            overlaps = Signal(self.units, name=f"overlaps_{u}", reset_less=True)
            for v in range(self.units):
                m.d.sync += overlaps[v].eq((self.want[v] & self.want[u]).any())
            m.d.sync += short[u].eq((self.want[u] & ~left).any())
            m.d.comb += can[u].eq(asked[u] & ~took[u] & ~short[u] & ~(took & overlaps).any())
        for u in range(self.units):
            m.d.comb += self.granted[u].eq(can[u] & ~can[:u].any())
        m.d.sync += took.eq(self.granted)
        for s, count in enumerate(counts):
            units = range(self.units)
            posts = Value.cast(sum((self.post[u][s] for u in units[1:]), self.post[0][s]))
            # One adder for both.
            change = Signal(signed(len(posts) + 1), name=f"change_{s}")
            following = Signal.like(count, name=f"following_{s}")
            # At most one unit is granted, so the masks need no priority.
            fewer = Cat(self.want[u][s] & took[u] for u in units).any()
            m.d.comb += [change.eq(posts - late[s]), following.eq(count + change)]
            # No takes of two cycles in a row: with `fewer`, nothing is late. Without their carries.
            more = Cat(self.post[u][s] for u in units).any()
            m.d.comb += left[s].eq(Mux(fewer, count != 1, ~zero[s]) | more)
            m.d.sync += [late[s].eq(fewer), count.eq(following)]
        over = Cat(count > GREATEST for count in counts)
        # The posts of the cycle before, which `counts` have now. `InFlight` names the instruction
        # that posted one cycle later.
        posted = Signal(data.ArrayLayout(self.count, self.units))
        m.d.sync += [
            posted.eq(self.post),
            self.overflow.eq(Cat((posted[u] & over).any() for u in range(self.units))),
        ]
        return m
