"""Spacing of passes that add to the same rows of the accumulators."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from celosia.hw.arch.config import ADD_CYCLES
from celosia.hw.lib.component import Component, In, Out


class PassSpacing(Component):
    """Spacing of passes that add to the same rows of the accumulators.

    A sum that was read to be added to can be read again ``ADD_CYCLES`` cycles later. A pass of at
    least ``ADD_CYCLES`` pixels needs no gap after it, because the next pass adds to the same rows
    in the same order. A gap follows a shorter pass, and the last pass of an instruction: the next
    instruction may begin with any row.

    Parameters
    ----------
    forwards : bool
        A pass of one pixel needs no gap after it, see ``Accumulators``.

    Members
    -------
    fired : In(1)
        A request of a pass is taken.
    last, final : In(1)
        Of that request: last of its pass, of its instruction.
    accumulate : In(1)
        The request that waits adds to its row.
    clear : Out(1)
        That request may be the first of a pass.

    Timing
    ------
    ``clear`` follows ``accumulate`` at once, and ``fired`` one cycle later.
    """

    def __init__(self, *, forwards: bool) -> None:
        self.forwards = forwards
        self.fired = In(1)
        self.last = In(1)
        self.final = In(1)
        self.accumulate = In(1)
        self.clear = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Pixels of this pass with the one that is taken, up to ADD_CYCLES.
        pixels = Signal(range(ADD_CYCLES + 1), init=1)
        # Bit c: no pass that adds may begin in c cycles.
        gap = Signal(ADD_CYCLES - 1)
        m.d.comb += self.clear.eq(~gap[0] | ~self.accumulate)
        m.d.sync += gap.eq(gap[1:])
        with m.If(self.fired):
            more = Mux(pixels == ADD_CYCLES, ADD_CYCLES, pixels + 1)
            m.d.sync += pixels.eq(Mux(self.last, 1, more))
            with m.If(self.final):
                m.d.sync += gap.eq(-1)
            with m.Elif(self.last & ((pixels != 1) if self.forwards else Const(1))):
                m.d.sync += gap.eq(Cat(pixels < ADD_CYCLES - c for c in range(ADD_CYCLES - 1)))
        return m
