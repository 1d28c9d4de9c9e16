"""Small component that the tests of the campaign change. Not in the core."""

from amaranth.hdl import Cat, Module, Mux, Signal

from celosia.hw.lib.component import Component, In, Out


class Tally(Component):
    """Counter of set bits; from 9 on it holds until it is cleared.

    ``bits`` (In(2)): counted; ``clear`` (In(1)): sets the sum to 0 whatever ``bits``; ``sum``:
    out(4); ``state`` (Out(2)): bit 0: the sum is at least 9; bit 1: it is 0.
    """

    def __init__(self) -> None:
        self.bits = In(2)
        self.clear = In(1)
        self.sum = Out(4)
        self.state = Out(2)
        super().__init__()

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
