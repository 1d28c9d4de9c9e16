"""Registers in a stream, forward or in both directions."""

from amaranth.hdl import Module, ShapeLike, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.fanout import reset_less


class Stage(wiring.Component):
    """One-entry queue: nothing of what is offered reaches through it in the same cycle.

    Parameters
    ----------
    shape : ShapeLike
        Payload.

    Members
    -------
    i, o : In / Out(stream of shape)
        Both sides. ``i`` is ready whenever ``o`` is, too.

    Timing
    ------
    A payload taken in one cycle is offered in the next: ``LATENCY`` = 1. One payload each cycle.
    """

    LATENCY = 1

    i: stream.Interface
    o: stream.Interface

    def __init__(self, shape: ShapeLike) -> None:
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})
        reset_less(self.o, "payload")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.i.ready.eq(~self.o.valid | self.o.ready)
        with m.If(self.i.ready):
            m.d.sync += [self.o.valid.eq(self.i.valid), self.o.payload.eq(self.i.payload)]
        return m


class Slice(wiring.Component):
    """Two-entry queue that leaves no combinational path between its two sides.

    Parameters
    ----------
    shape : ShapeLike
        Payload.

    Members
    -------
    i, o : In / Out(stream of shape)
        Both sides.
    idle : Out(1)
        Nothing inside.

    Timing
    ------
    A payload taken in one cycle is offered in the next: ``LATENCY`` = 1. One payload each cycle.
    """

    LATENCY = 1

    i: stream.Interface
    o: stream.Interface
    idle: Signal

    def __init__(self, shape: ShapeLike) -> None:
        self.shape = shape
        super().__init__(
            {"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)), "idle": Out(1)}
        )
        reset_less(self.o, "payload")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spare = Signal.like(self.i.payload, reset_less=True)
        spare_valid = Signal()
        m.d.comb += [self.i.ready.eq(~spare_valid), self.idle.eq(~self.o.valid & ~spare_valid)]
        # Taken in any case: who takes what is offered comes late, and far too late for so many.
        with m.If(~spare_valid):
            m.d.sync += spare.eq(self.i.payload)
        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += [self.o.valid.eq(self.i.valid | spare_valid), spare_valid.eq(0)]
            with m.If(spare_valid):
                m.d.sync += self.o.payload.eq(spare)
            with m.Else():
                m.d.sync += self.o.payload.eq(self.i.payload)
        with m.Elif(~spare_valid):
            m.d.sync += spare_valid.eq(self.i.valid)
        return m
