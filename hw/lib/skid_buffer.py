"""Pipeline register and skid buffer of a stream, and the choice between them."""

from amaranth.hdl import Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import stream

from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import COPY, data_registers

#: ``SkidBuffer.block`` of requests to the unified buffer: wide, with loads all over the part.
FAR = 48


class PipelineRegister(Component):
    """Pipeline register of a stream: ``valid`` and payload are registered, ``ready`` is not.

    Parameters
    ----------
    shape : ShapeLike
        Payload.

    Members
    -------
    i, o : In / Out(stream of shape)
        Input and output. ``i`` is ready when the register is empty or ``o`` is ready.
    space : Out(1)
        ``i.ready``.

    Timing
    ------
    A payload taken in one cycle is offered in the next: ``LATENCY`` = 1. One payload each cycle.
    """

    LATENCY = 1

    def __init__(self, shape: ShapeLike) -> None:
        self.i = In(stream.Signature(shape))
        self.o = Out(stream.Signature(shape))
        self.space = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        [payload] = data_registers(m, self.o.payload)
        m.d.comb += [
            self.i.ready.eq(~self.o.valid | self.o.ready),
            self.space.eq(self.i.ready),
        ]
        with m.If(self.i.ready):
            m.d.sync += [self.o.valid.eq(self.i.valid), payload.eq(self.i.payload)]
        return m


class SkidBuffer(Component):
    """Skid buffer: queue of two entries without a combinational path between its two sides.

    Parameters
    ----------
    shape : ShapeLike
        Payload.
    block : int, optional
        Bits of the payload that share one copy of the state; all of them if left out. Limits the
        fan-out of the state in a wide payload.
    direct : int
        So many first bits of the output are registers, for logic that comes after it: ``ready``
        reaches their enables.

    Members
    -------
    i, o : In / Out(stream of shape)
        Input and output.
    space : Out(1)
        Equal to ``i.ready``; with ``block`` from another register.
    idle : Out(1)
        Both entries are empty.

    Timing
    ------
    A payload taken in one cycle is offered in the next: ``LATENCY`` = 1. One payload each cycle.
    """

    LATENCY = 1

    def __init__(self, shape: ShapeLike, *, block: int | None = None, direct: int = 0) -> None:
        self.shape = shape
        self.block = block
        self.direct = direct
        self.i = In(stream.Signature(shape))
        self.o = Out(stream.Signature(shape))
        self.space = Out(1)
        self.idle = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Two registers, written and read in turn.
        even = Signal.like(self.i.payload, reset_less=True)
        odd = Signal.like(self.i.payload, reset_less=True)
        taken, offered = Value.cast(self.i.payload), Value.cast(self.o.payload)
        slots = Value.cast(even), Value.cast(odd)
        direct = self.direct
        firsts = range(direct, max(len(taken), 1), self.block or max(len(taken), 1))
        # The state of each block: there is an entry, there are two, the older one is in `odd`.
        states = [
            [
                Signal(name=name + suffix, attrs=COPY if len(firsts) > 1 else {})
                for name in ("valid", "full", "front")
            ]
            for suffix in ("", *(f"_{first}" for first in firsts[1:]))
        ]
        full = states[0][1]
        m.d.comb += [
            self.o.valid.eq(states[0][0]),
            self.i.ready.eq(~full),
            self.space.eq(~states[-1][1]),
            self.idle.eq(~self.o.valid),
        ]
        if direct:
            # The oldest of two entries, and the other one: `even` and `odd` here, not in turn.
            with m.If(~self.o.valid | self.o.ready):
                m.d.sync += slots[0][:direct].eq(Mux(full, slots[1], taken)[:direct])
            with m.If(~full):
                m.d.sync += slots[1][:direct].eq(taken[:direct])
            m.d.comb += offered[:direct].eq(slots[0][:direct])
        for first, (valid, held, turn) in zip(firsts, states, strict=True):
            bits = slice(first, first + firsts.step)
            # `ready` comes late in a cycle. It reaches these three registers only, at their data
            # inputs, which are faster than enables.
            m.d.sync += [
                valid.eq(self.i.valid | held | (valid & ~self.o.ready)),
                held.eq((self.i.valid | held) & valid & ~self.o.ready),
                turn.eq(turn ^ (valid & self.o.ready)),
            ]
            # Written without regard to `valid` of the input.
            for n, slot in enumerate(slots):
                with m.If(~held & ((turn ^ valid) == n)):
                    m.d.sync += slot[bits].eq(taken[bits])
            m.d.comb += offered[bits].eq(Mux(turn, slots[1][bits], slots[0][bits]))
        return m


def link(
    shape: ShapeLike, *, skid: bool, block: int | None = None, direct: int = 0
) -> PipelineRegister | SkidBuffer:
    """Return a ``SkidBuffer`` if ``skid``, else a ``PipelineRegister``, which is half as large.

    Both pass one payload a cycle and delay it by one. Through a ``PipelineRegister``, ``ready`` is
    a combinational path.
    """
    return SkidBuffer(shape, block=block, direct=direct) if skid else PipelineRegister(shape)
