"""Registers in a stream, forward or in both directions."""

from amaranth.hdl import Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.fanout import COPY, reset_less

#: ``Slice.block`` of requests, which bring a row for each of the lanes, far apart.
FAR = 48


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
    block : int, optional
        Bits of a wide payload that lie together: for each so many of them, registers of their own
        say what is inside, and enable them. All bits share one set of these when left out.

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

    def __init__(self, shape: ShapeLike, *, block: int | None = None) -> None:
        self.shape = shape
        self.block = block
        super().__init__(
            {"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)), "idle": Out(1)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Two registers, written and offered in turn.
        even = Signal.like(self.i.payload, reset_less=True)
        odd = Signal.like(self.i.payload, reset_less=True)
        front = Signal()
        full = Signal()
        m.d.comb += [self.i.ready.eq(~full), self.idle.eq(~self.o.valid)]
        given, offered = Value.cast(self.i.payload), Value.cast(self.o.payload)
        slots = Value.cast(even), Value.cast(odd)
        block = self.block or max(len(given), 1)
        for first in range(0, max(len(given), 1), block):
            bits = slice(first, first + block)
            valid, held, turn = (
                (self.o.valid, full, front)
                if first == 0
                else (
                    Signal(name=f"{name}_{first}", attrs=COPY)
                    for name in ("valid", "full", "front")
                )
            )
            # Who takes what is offered comes late, and far too late for so many bits: it reaches
            # these three alone, by gates in front of data, as late enables and resets are slower yet.
            m.d.sync += [
                valid.eq(self.i.valid | held | (valid & ~self.o.ready)),
                held.eq((self.i.valid | held) & valid & ~self.o.ready),
                turn.eq(turn ^ (valid & self.o.ready)),
            ]
            # Taken in any case: the valid bit tells whether there was anything.
            for n, slot in enumerate(slots):
                with m.If(~held & ((turn ^ valid) == n)):
                    m.d.sync += slot[bits].eq(given[bits])
            m.d.comb += offered[bits].eq(Mux(turn, slots[1][bits], slots[0][bits]))
        return m
