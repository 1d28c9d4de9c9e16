"""Registers that let a value keep step with a pipe beside it."""

from amaranth.hdl import Module, ShapeLike, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Delay(wiring.Component):
    """A value, some cycles later.

    Parameters
    ----------
    shape : ShapeLike
        Of the value.
    cycles : int
        How much later, at least 1.
    reset_less : bool
        Whether a reset leaves what is under way as it is.

    Members
    -------
    i, o : In, Out(shape)
        The value, and what it was ``cycles`` cycles ago; zero at first.

    Timing
    ------
    ``o`` follows ``i`` by ``cycles`` cycles.

    Raises
    ------
    ValueError
        If ``cycles`` is below 1.
    """

    i: Signal
    o: Signal

    def __init__(self, shape: ShapeLike, *, cycles: int, reset_less: bool = False) -> None:
        if cycles < 1:
            raise ValueError(f"cycles: wanted at least 1, got {cycles}")
        self.shape = shape
        self.cycles = cycles
        self.reset_less = reset_less
        super().__init__({"i": In(shape), "o": Out(shape)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        value = self.i
        for cycle in range(self.cycles):
            later = Signal(self.shape, name=f"later_{cycle + 1}", reset_less=self.reset_less)
            m.d.sync += later.eq(value)
            value = later
        m.d.comb += self.o.eq(value)
        return m
