"""Long counter in two halves."""

from amaranth.hdl import Cat, Module, Signal

from celosia.hw.lib.component import Component, In, Out


class HalvedCounter(Component):
    """Counter whose upper half counts by a register, so that its carry passes one half at most.

    Parameters
    ----------
    width : int
        Bits, an even number of at least 4.
    start : int
        Count after ``clear``, 0 or 1.

    Members
    -------
    clear : In(1)
        Sets the count to ``start``.
    enable : In(1)
        Counts in this cycle, unless ``clear``.
    count : Out(width)
        Count. A reset does not change it.

    Timing
    ------
    ``count`` follows ``clear`` and ``enable`` by one cycle.

    Raises
    ------
    ValueError
        If ``width`` is odd or below 4.
    """

    def __init__(self, width: int, *, start: int = 0) -> None:
        if width < 4 or width % 2:
            raise ValueError(f"width: wanted an even number of at least 4, got {width}")
        self.width = width
        self.start = start
        self.clear = In(1)
        self.enable = In(1)
        self.count = Out(width)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        half = self.width // 2
        low = Signal(half, init=self.start, reset_less=True)
        high = Signal(half, reset_less=True)
        # All bits of `low` are ones.
        carries = Signal(reset_less=True)
        m.d.comb += self.count.eq(Cat(low, high))
        with m.If(self.clear):
            m.d.sync += [low.eq(self.start), high.eq(0), carries.eq(0)]
        with m.Elif(self.enable):
            m.d.sync += [
                low.eq(low + 1),
                high.eq(high + carries),
                carries.eq(low == (1 << half) - 2),
            ]
        return m
