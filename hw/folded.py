"""Wrapper with three pins around a component, to measure its area and clock."""

from typing import Any

from amaranth.hdl import Cat, ClockDomain, Module, Signal, Value

from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import COPY


class Folded(Component):
    """Wrapper of a component that has more ports than a part has pads.

    Inputs come from a shift register after ``pin_in``. Outputs are registered and combined into
    ``pin_out`` by exclusive or, with a register after every eight bits. So synthesis can remove
    nothing, and every path of the component starts and ends at a register. The wrapper has no
    reset; that of the component must be one of its ports.

    Parameters
    ----------
    inner : Component
        Component that is wrapped.

    Members
    -------
    clk : In(1)
        Clock.
    pin_in, pin_out : In(1), Out(1)
        One bit of the inputs, and the combination of the outputs.

    Timing
    ------
    One bit in and one bit out each cycle.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.clk = In(1)
        self.pin_in = In(1)
        self.pin_out = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sync: Any = ClockDomain(reset_less=True)
        m.domains.sync = sync
        m.d.comb += sync.clk.eq(self.clk)
        m.submodules.inner = self.inner
        ports = list(self.inner.signature.flatten(self.inner))
        inputs = [Value.cast(value) for _, member, value in ports if member.flow == In]
        outputs = [Value.cast(value) for _, member, value in ports if member.flow == Out]
        # Kept under this name, to tell it from the registers of the component.
        shift = Signal(sum(len(value) for value in inputs), attrs=COPY)
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
