"""Delay line."""

from amaranth.hdl import Module, ShapeLike, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Delay(wiring.Component):
    """Delay line of a value.

    Parameters
    ----------
    shape : ShapeLike
        Shape of the value.
    cycles : int
        Length in cycles, at least 1.
    reset_less : bool
        The registers have no reset.

    Members
    -------
    i, o : In, Out(shape)
        Input, and the input of ``cycles`` cycles before; zero at first.

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
