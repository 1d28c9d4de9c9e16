"""Registers in a stream, forward or in both directions."""

from amaranth.hdl import Module, ShapeLike, Signal, Value
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
        reset_less(self.o, "payload")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spare = Signal.like(self.i.payload, reset_less=True)
        spare_valid = Signal()
        m.d.comb += [self.i.ready.eq(~spare_valid), self.idle.eq(~self.o.valid & ~spare_valid)]
        given, waiting, offered = (
            Value.cast(payload) for payload in (self.i.payload, spare, self.o.payload)
        )
        block = self.block or max(len(given), 1)
        self._block(m, self.o.valid, spare_valid, given[:block], waiting[:block], offered[:block])
        for first in range(block, len(given), block):
            bits = slice(first, first + block)
            valid = Signal(name=f"valid_{first}", attrs=COPY)
            held = Signal(name=f"spare_valid_{first}", attrs=COPY)
            self._block(m, valid, held, given[bits], waiting[bits], offered[bits])
        return m

    def _block(
        self,
        m: Module,
        valid: Value,
        spare_valid: Value,
        given: Value,
        spare: Value,
        offered: Value,
    ) -> None:
        """Move bits of the payload along, with the registers that say what is inside."""
        # Taken in any case: who takes what is offered comes late, and far too late for so many. And
        # by gates in front of data, since late enables and resets of registers are slower yet.
        moves = Signal.like(valid, name="moves")
        m.d.comb += moves.eq(~valid | self.o.ready)
        m.d.sync += [
            valid.eq(self.i.valid | spare_valid | ~moves),
            spare_valid.eq((self.i.valid | spare_valid) & ~moves),
        ]
        with m.If(~spare_valid):
            m.d.sync += spare.eq(given)
        with m.If(moves):
            with m.If(spare_valid):
                m.d.sync += offered.eq(spare)
            with m.Else():
                m.d.sync += offered.eq(given)
