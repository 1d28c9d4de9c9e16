"""A component with three pins, for measuring area and clock without pads in the way."""

from typing import Any

from amaranth.hdl import Cat, ClockDomain, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Folded(wiring.Component):
    """Puts registers and two pins around a component that has more ports than a part has pads.

    What resets it must be among its ports; the registers around it have no reset.

    Inputs come from a shift register behind ``pin_in``; outputs are registered and folded into
    ``pin_out`` by exclusive or, with a register behind every eight bits. Nothing can be optimised
    away, and every path of the component starts and ends at a register.

    Parameters
    ----------
    inner : Component
        What is wrapped.

    Members
    -------
    clk : In(1)
        Clock.
    pin_in : In(1)
    pin_out : Out(1)

    Timing
    ------
    One bit in and one bit out each cycle.
    """

    clk: Signal
    pin_in: Signal
    pin_out: Signal

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        super().__init__({"clk": In(1), "pin_in": In(1), "pin_out": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sync: Any = ClockDomain(reset_less=True)
        m.domains.sync = sync
        m.d.comb += sync.clk.eq(self.clk)
        m.submodules.inner = self.inner
        ports = list(self.inner.signature.flatten(self.inner))
        inputs = [Value.cast(value) for _, member, value in ports if member.flow == In]
        outputs = [Value.cast(value) for _, member, value in ports if member.flow == Out]
        shift = Signal(sum(len(value) for value in inputs))
        m.d.sync += shift.eq(Cat(self.pin_in, shift))
        m.d.comb += Cat(inputs).eq(shift)
        folded: Value = Cat(outputs)
        while len(folded) > 1:
            width = -(-len(folded) // 8)
            level = Signal(len(folded), name=f"level_{len(folded)}")
            m.d.sync += level.eq(folded)
            folded = Cat(level[8 * n : 8 * n + 8].xor() for n in range(width))
        m.d.sync += self.pin_out.eq(folded)
        return m
