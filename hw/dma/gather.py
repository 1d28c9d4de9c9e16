"""Read side of the store unit: reads the beats of bursts from the unified buffer."""

from amaranth.hdl import Cat, Module, Mux, ShapeLike, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO

from celosia.hw import streams
from celosia.hw.axi.writer import write_beat
from celosia.hw.dma.receiver import lane_mask
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.queue import EagerFIFO
from celosia.hw.lib.skid_buffer import FAR, link


def gathered_layout(
    *, data_bytes: int, length_bits: int, local_bits: int, tag: ShapeLike
) -> data.StructLayout:
    """Return the payload of the gatherer's bursts: members of ``burst_layout`` that it reads."""
    offset_bits = (data_bytes - 1).bit_length()
    return data.StructLayout(
        {
            "beats": unsigned(length_bits),
            "local": unsigned(local_bits),
            "first_offset": unsigned(offset_bits),
            "last_offset": unsigned(offset_bits),
            "start": 1,
            "tag": tag,
        }
    )


class Gatherer(Component):
    """Reads the beats of bursts from the unified buffer.

    The address of a request is such that lane ``i`` of its response is byte ``i`` of the beat.

    Parameters
    ----------
    rows, unified_bytes, bus_bytes : int
        See ``Config``.
    length_bits, local_bits : int
        As for ``burst_layout``.
    tag : ShapeLike
        Shape of the tag of a burst.
    skid : bool
        A skid buffer holds the requests, else a pipeline register.

    Members
    -------
    bursts : In(stream of :func:`gathered_layout`)
        Bursts to read. The first after a reset starts a row.
    beats : Out(stream of ``write_beat``)
        The beats, with strobes.
    request : Out(stream of ``streams.unified_read``)
        Requests to the unified buffer.
    valid, data : In(1), In(ArrayLayout(unsigned(8), rows))
        Its responses, in order.
    tag : Out(tag)
        One cycle after a response, the tag of its burst.
    abort : In(1)
        Takes no more bursts. The burst that was taken last is read to its end.
    idle : Out(1)
        All requests of the bursts taken have been accepted.

    Timing
    ------
    The first request follows the burst by two cycles; a beat is offered two cycles after its
    response. One beat each cycle if responses take at most ``SPACE`` - 4 cycles.
    """

    #: Most beats that are requested and not sent.
    SPACE = 16

    def __init__(
        self,
        *,
        rows: int,
        unified_bytes: int,
        bus_bytes: int,
        length_bits: int,
        local_bits: int,
        tag: ShapeLike = 0,
        skid: bool = True,
    ) -> None:
        self.bus_bytes = bus_bytes
        self.skid = skid
        self.burst = gathered_layout(
            data_bytes=bus_bytes, length_bits=length_bits, local_bits=local_bits, tag=tag
        )
        request = streams.unified_read(rows=rows, unified_bytes=unified_bytes)
        self.bursts = In(stream.Signature(self.burst))
        self.beats = Out(stream.Signature(write_beat(bus_bytes)))
        self.request = Out(stream.Signature(request))
        self.valid = In(1)
        self.data = In(data.ArrayLayout(unsigned(8), rows))
        self.abort = In(1)
        self.idle = Out(1)
        self.tag = Out(tag)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.strobes = strobes = EagerFIFO(width=self.bus_bytes + 1, depth=self.SPACE)
        m.submodules.responses = responses = EagerFIFO(width=8 * self.bus_bytes, depth=self.SPACE)
        request = self.request
        m.submodules.register = register = link(request.payload.shape(), skid=self.skid, block=FAR)
        wiring.connect(m, register.o, wiring.flipped(request))
        # What is left of the burst that is read, and that its next beat is the first.
        burst = Signal(self.burst, reset_less=True)
        busy = Signal()
        begins = Signal(reset_less=True)
        # The next beat is the last of its burst; it enters the register of `request`; one leaves.
        ends = Signal(reset_less=True)
        step = Signal()
        sent = Signal()
        m.d.comb += [
            # A beat enters the queue of strobes with its request: that queue counts the beats.
            register.i.valid.eq(busy & strobes.w_rdy),
            step.eq(busy & register.i.ready & strobes.w_rdy),
            self.bursts.ready.eq((~busy | (step & ends)) & ~self.abort),
            sent.eq(self.beats.valid & self.beats.ready),
            self.idle.eq(~busy & ~request.valid),
        ]
        first = Mux(begins, burst.first_offset, 0)
        last = Mux(ends, burst.last_offset, self.bus_bytes - 1)
        mask = lane_mask(first, last, lanes=self.bus_bytes)
        m.d.comb += [
            register.i.payload.address.eq(burst.local),
            register.i.payload.mask.eq(mask),
        ]
        with m.If(step):
            m.d.sync += [
                burst.local.eq(burst.local + self.bus_bytes),
                burst.beats.eq(burst.beats - 1),
                ends.eq(burst.beats == 1),
                begins.eq(0),
                busy.eq(~ends),
            ]
        following = self.bursts.payload
        # `valid` comes late. What is taken without it is not used.
        with m.If(self.bursts.ready):
            m.d.sync += [
                burst[name].eq(following[name]) for name, _ in self.burst if name != "local"
            ]
            m.d.sync += [
                begins.eq(1),
                ends.eq(following.beats == 0),
                busy.eq(self.bursts.valid),
            ]
            with m.If(following.start):
                m.d.sync += burst.local.eq(following.local)

        m.d.comb += [
            strobes.w_en.eq(step),
            strobes.w_data.eq(Cat(mask, ends)),
            strobes.r_en.eq(sent),
            responses.w_en.eq(self.valid),
            responses.w_data.eq(self.data),
            responses.r_en.eq(sent),
            self.beats.valid.eq(strobes.r_rdy & responses.r_rdy),
            Cat(self.beats.payload.strobe, self.beats.payload.last).eq(strobes.r_data),
            self.beats.payload.data.eq(responses.r_data),
        ]
        tag = Value.cast(burst["tag"])
        if len(tag):
            m.submodules.tags = tags = SyncFIFO(width=len(tag), depth=self.SPACE)
            m.d.comb += [tags.w_en.eq(step), tags.w_data.eq(tag), tags.r_en.eq(self.valid)]
            m.d.sync += self.tag.eq(tags.r_data)
        return m
