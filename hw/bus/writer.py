"""AXI4 write master."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.bus.queue import EagerFIFO
from celosia.hw.bus.reader import length_bits
from celosia.hw.bus.signature import INCR, axi4_write
from celosia.hw.bus.slice import Slice
from celosia.hw.fanout import reset_less


def write_beat(data_bytes: int) -> data.StructLayout:
    """Return the payload of one beat to write: ``data``, and ``strobe``, one bit a byte."""
    return data.StructLayout({"data": unsigned(8 * data_bytes), "strobe": unsigned(data_bytes)})


class WriteMaster(wiring.Component):
    """Issues bursts, sends their beats and counts the answers.

    Parameters
    ----------
    data_bytes : int
        Bytes of one beat, a power of two.
    burst_beats : int
        Longest burst in beats, at most 256.
    outstanding : int
        Bursts that may wait for an answer.

    Members
    -------
    request : In(stream of ``streams.burst``)
        Bursts, aligned to beats, not crossing 4 KiB.
    beats : In(stream of :func:`write_beat`)
        Their beats, in the same order, before or after the request.
    answered, refused : Out(1)
        The oldest burst has been answered; and with an error.
    abort : In(1)
        Takes no request. What requests already taken still lack is sent with strobes zero; beats
        offered are ignored.
    bus : Out(axi4_write)
        Write half of the bus.
    idle : Out(1)
        All bursts taken have been answered.

    Timing
    ------
    A request taken in one cycle is on the address channel in the next, a beat on the data channel
    likewise, once its burst is known, two cycles after the request. One of each a cycle.

    Raises
    ------
    ValueError
        If ``outstanding`` is not positive.
    """

    request: stream.Interface
    beats: stream.Interface
    answered: Signal
    refused: Signal
    abort: Signal
    bus: Any
    idle: Signal

    def __init__(self, *, data_bytes: int, burst_beats: int, outstanding: int) -> None:
        if outstanding < 1:
            raise ValueError(f"outstanding: wanted at least 1, got {outstanding}")
        self.data_bytes = data_bytes
        self.outstanding = outstanding
        self.burst = streams.burst(length_bits=length_bits(burst_beats))
        super().__init__(
            {
                "request": In(stream.Signature(self.burst)),
                "beats": In(stream.Signature(write_beat(data_bytes))),
                "answered": Out(1),
                "refused": Out(1),
                "abort": In(1),
                "bus": Out(axi4_write(data_bytes)),
                "idle": Out(1),
            }
        )
        reset_less(self.bus, "wdata", "wstrb", "wlast")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus = self.bus
        count = Signal(range(self.outstanding + 1))
        # In a register of its own, since all that make bursts wait for it.
        full = Signal()
        m.submodules.addresses = addresses = Slice(self.burst)
        m.submodules.lengths = lengths = EagerFIFO(
            width=self.burst["beats"].width, depth=self.outstanding
        )
        accept = Signal()
        may = addresses.i.ready & lengths.w_rdy & ~full & ~self.abort
        m.d.comb += [
            self.request.ready.eq(may),
            accept.eq(may & self.request.valid),
            addresses.i.valid.eq(accept),
            addresses.i.payload.eq(self.request.payload),
            lengths.w_en.eq(accept),
            lengths.w_data.eq(self.request.payload.beats),
            bus.awvalid.eq(addresses.o.valid),
            bus.awaddr.eq(addresses.o.payload.address),
            bus.awlen.eq(addresses.o.payload.beats),
            bus.awsize.eq((self.data_bytes - 1).bit_length()),
            bus.awburst.eq(INCR),
            addresses.o.ready.eq(bus.awready),
            self.idle.eq(count == 0),
        ]

        sent = Signal.like(lengths.r_data)
        free = Signal()
        send = Signal()
        last = Signal()
        m.d.comb += [
            free.eq((~bus.wvalid | bus.wready) & lengths.r_rdy),
            self.beats.ready.eq(free & ~self.abort),
            send.eq(free & (self.beats.valid | self.abort)),
            last.eq(sent == lengths.r_data),
            lengths.r_en.eq(send & last),
        ]
        with m.If(bus.wready):
            m.d.sync += bus.wvalid.eq(0)
        with m.If(send):
            m.d.sync += [
                bus.wvalid.eq(1),
                bus.wdata.eq(self.beats.payload.data),
                bus.wstrb.eq(Mux(self.abort, 0, self.beats.payload.strobe)),
                bus.wlast.eq(last),
                sent.eq(Mux(last, 0, sent + 1)),
            ]

        m.d.comb += bus.bready.eq(1)
        m.d.sync += [
            Cat(self.answered, self.refused).eq(Cat(bus.bvalid, bus.bvalid & bus.bresp[1])),
            count.eq(count + accept - bus.bvalid),
            full.eq((full | (accept & (count == self.outstanding - 1))) & ~bus.bvalid),
        ]
        return m
