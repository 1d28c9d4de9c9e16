"""The reading side of the store unit: beats gathered from the unified buffer."""

from typing import Any

from amaranth.hdl import Module, Mux, ShapeLike, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.bus.queue import EagerFIFO
from celosia.hw.bus.receiver import lane_mask
from celosia.hw.bus.writer import write_beat
from celosia.hw.fanout import COPY, reset_less


def gathered_layout(
    *, data_bytes: int, length_bits: int, place_bits: int, tag: ShapeLike | None = None
) -> data.StructLayout:
    """Return what a gatherer must know of a burst: part of ``segment_layout``."""
    offset_bits = (data_bytes - 1).bit_length()
    return data.StructLayout(
        {
            "beats": unsigned(length_bits),
            "place": unsigned(place_bits),
            "first_offset": unsigned(offset_bits),
            "last_offset": unsigned(offset_bits),
            **({"tag": tag} if tag is not None else {}),
        }
    )


class Gatherer(wiring.Component):
    """Reads the beats of bursts from the unified buffer.

    Lane ``i`` of an answer is byte ``i`` of the beat, so that bytes need no moving.

    Parameters
    ----------
    rows, unified_bytes, bus_bytes : int
        See ``Config``.
    length_bits, place_bits : int
        As for ``segment_layout``.
    tag : ShapeLike, optional
        What is told of answers.

    Members
    -------
    bursts : In(stream of :func:`gathered_layout`)
        What to read.
    beats : Out(stream of ``write_beat``)
        The beats, with strobes.
    request : Out(stream of ``streams.unified_read``)
        Requests to the unified buffer.
    valid, data : In
        Its answers, in order, ``ROOM`` or fewer cycles later.
    tag : Out(tag)
        If there are tags, one cycle behind an answer: the one of its burst.
    abort : In(1)
        Drops everything but a request that is offered, takes nothing.
    idle : Out(1)
        No request waits and none is under way. Beats may be left, after ``abort``.

    Timing
    ------
    One beat each cycle if answers take at most ``ROOM`` - 4 cycles.
    """

    #: Beats that may be under way or wait to be sent.
    ROOM = 16

    bursts: stream.Interface
    beats: stream.Interface
    request: stream.Interface
    valid: Signal
    data: data.View
    tag: Any
    abort: Signal
    idle: Signal

    def __init__(
        self,
        *,
        rows: int,
        unified_bytes: int,
        bus_bytes: int,
        length_bits: int,
        place_bits: int,
        tag: ShapeLike | None = None,
    ) -> None:
        self.bus_bytes = bus_bytes
        self.has_tags = tag is not None
        self.burst = gathered_layout(
            data_bytes=bus_bytes, length_bits=length_bits, place_bits=place_bits, tag=tag
        )
        request = streams.unified_read(rows=rows, unified_bytes=unified_bytes)
        super().__init__(
            {
                "bursts": In(stream.Signature(self.burst)),
                "beats": Out(stream.Signature(write_beat(bus_bytes))),
                "request": Out(stream.Signature(request)),
                "valid": In(1),
                "data": In(data.ArrayLayout(unsigned(8), rows)),
                "abort": In(1),
                "idle": Out(1),
                **({"tag": Out(tag)} if tag is not None else {}),
            }
        )
        reset_less(self.request, "payload")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.strobes = strobes = EagerFIFO(width=self.bus_bytes, depth=self.ROOM)
        m.submodules.answers = answers = EagerFIFO(width=8 * self.bus_bytes, depth=self.ROOM)
        request = self.request
        burst = Signal(self.burst, reset_less=True)
        busy = Signal()
        # Twice, since others wait for it far away.
        offered = Signal(attrs=COPY)
        valid = Signal(attrs=COPY)
        begins = Signal(reset_less=True)
        waited_for = Signal(range(self.ROOM + 1))
        under_way = Signal(range(self.ROOM + 1))

        step = Signal()
        # Whether it is the last beat, out of a register: everything that takes a burst waits for it.
        ends = Signal(reset_less=True)
        sent = Signal()
        m.d.comb += [
            request.valid.eq(valid),
            step.eq(busy & (~offered | request.ready) & (under_way != self.ROOM) & ~self.abort),
            self.bursts.ready.eq((~busy | (step & ends)) & ~self.abort),
            sent.eq(self.beats.valid & self.beats.ready),
            self.idle.eq(~busy & ~offered & (waited_for == 0)),
        ]
        with m.If(request.ready):
            m.d.sync += [valid.eq(0), offered.eq(0)]
        first = Mux(begins, burst.first_offset, 0)
        last = Mux(ends, burst.last_offset, self.bus_bytes - 1)
        mask = lane_mask(first, last, lanes=self.bus_bytes)
        with m.If(step):
            m.d.sync += [
                valid.eq(1),
                offered.eq(1),
                request.payload.address.eq(burst.place),
                request.payload.mask.eq(mask),
                burst.place.eq(burst.place + self.bus_bytes),
                burst.beats.eq(burst.beats - 1),
                ends.eq(burst.beats == 1),
                begins.eq(0),
                busy.eq(~ends),
            ]
        with m.If(self.bursts.valid & self.bursts.ready):
            m.d.sync += [
                burst.eq(self.bursts.payload),
                ends.eq(self.bursts.payload.beats == 0),
                begins.eq(1),
                busy.eq(1),
            ]
        with m.If(self.abort):
            m.d.sync += busy.eq(0)

        m.d.sync += [
            waited_for.eq(waited_for + step - self.valid),
            under_way.eq(under_way + step - sent),
        ]
        m.d.comb += [
            strobes.w_en.eq(step),
            strobes.w_data.eq(mask),
            strobes.r_en.eq(sent),
            answers.w_en.eq(self.valid),
            answers.w_data.eq(self.data),
            answers.r_en.eq(sent),
            self.beats.valid.eq(strobes.r_rdy & answers.r_rdy),
            self.beats.payload.strobe.eq(strobes.r_data),
            self.beats.payload.data.eq(answers.r_data),
        ]
        if self.has_tags:
            tag = Value.cast(burst["tag"])
            m.submodules.tags = tags = SyncFIFO(width=len(tag), depth=self.ROOM)
            m.d.comb += [tags.w_en.eq(step), tags.w_data.eq(tag), tags.r_en.eq(self.valid)]
            m.d.sync += self.tag.eq(tags.r_data)
        return m
