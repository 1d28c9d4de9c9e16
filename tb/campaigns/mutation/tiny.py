"""Small component that the tests of the campaign change. Not in the core."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from celosia.hw.lib.component import Component


class Tally(Component):
    """Counter of set bits; from 9 on it holds until it is cleared.

    ``bits`` (In(2)): counted; ``clear`` (In(1)): sets the sum to 0 whatever ``bits``; ``sum``:
    out(4); ``state`` (Out(2)): bit 0: the sum is at least 9; bit 1: it is 0.
    """

    def __init__(self) -> None:
        super().__init__({"bits": In(2), "clear": In(1), "sum": Out(4), "state": Out(2)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        total = Signal(5)
        m.d.comb += [
            total.eq(self.sum + Mux(self.bits.all(), 2, 1)),
            self.state.eq(Cat(self.sum >= 9, ~self.sum.any())),
        ]
        with m.FSM():
            with m.State("COUNT"):
                with m.If(self.bits[0] | self.bits[1]):
                    m.d.sync += self.sum.eq(total[:4])
                    with m.If(total >= 9):
                        m.next = "HOLD"
            with m.State("HOLD"):
                with m.If(self.clear):
                    m.next = "COUNT"
        with m.If(self.clear):
            m.d.sync += self.sum.eq(0)
        return m
