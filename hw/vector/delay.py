"""Registers that let a value keep step with a pipe beside it."""

from amaranth.hdl import Module, ShapeLike, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.fanout import COPY


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
    own : bool
        Whether the last register is kept apart from others of the same content.

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

    def __init__(
        self, shape: ShapeLike, *, cycles: int, reset_less: bool = False, own: bool = False
    ) -> None:
        if cycles < 1:
            raise ValueError(f"cycles: wanted at least 1, got {cycles}")
        self.shape = shape
        self.cycles = cycles
        self.reset_less = reset_less
        self.own = own
        super().__init__({"i": In(shape), "o": Out(shape)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        value = self.i
        for cycle in range(self.cycles):
            attrs = COPY if self.own and cycle == self.cycles - 1 else {}
            name = f"later_{cycle + 1}"
            later = Signal(self.shape, name=name, reset_less=self.reset_less, attrs=attrs)
            m.d.sync += later.eq(value)
            value = later
        m.d.comb += self.o.eq(value)
        return m
