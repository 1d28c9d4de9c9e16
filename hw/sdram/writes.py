"""The write half of the AXI4 port."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from celosia.hw.axi.signature import axi4_write
from celosia.hw.lib.slice import Slice
from celosia.hw.sdram.buffer import Buffer
from celosia.hw.sdram.chunks import Splitter, burst_layout
from celosia.hw.sdram.signature import chunk_layout
from celosia.hw.sdram.timing import Part

#: Bytes taken ahead of the chip, and answers that wait for the B channel.
BUFFER_BYTES = 1024
ANSWERS = 8


class Writes(wiring.Component):
    """Asks for the chunks of write bursts whose beats have all come, and answers the bursts.

    A burst is answered as soon as its last chunk is in order with all others: what is read behind
    it sees it. ``wlast`` is not looked at; the burst's length counts.

    Parameters
    ----------
    part : Part
        The chip.
    data_bytes, address_bits, id_bits : int
        As for ``axi4``.

    Members
    -------
    bus : In(axi4_write)
        Channels AW, W and B.
    chunks : Out(stream of chunk_layout)
        What to write.
    beat, strobe : Out(8 * data_bytes), Out(data_bytes)
        The next beat to write.
    next : In(1)
        It is written in this cycle.

    Timing
    ------
    Beats one each cycle.
    """

    bus: Any
    chunks: stream.Interface
    beat: Signal
    strobe: Signal
    next: Signal

    def __init__(self, *, part: Part, data_bytes: int, address_bits: int, id_bits: int) -> None:
        self.part = part
        self.data_bytes = data_bytes
        self.address_bits = address_bits
        self.id_bits = id_bits
        super().__init__(
            {
                "bus": In(axi4_write(data_bytes, address_bits, id_bits)),
                "chunks": Out(stream.Signature(chunk_layout(part, data_bytes))),
                "beat": Out(8 * data_bytes),
                "strobe": Out(data_bytes),
                "next": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus = self.bus
        m.submodules.bursts = bursts = Slice(burst_layout(self.address_bits, self.id_bits))
        m.submodules.splitter = splitter = Splitter(
            part=self.part,
            data_bytes=self.data_bytes,
            address_bits=self.address_bits,
            id_bits=self.id_bits,
            write=True,
        )
        wiring.connect(m, bursts.o, splitter.i)
        depth = BUFFER_BYTES // self.data_bytes
        m.submodules.beats = beats = Buffer(width=9 * self.data_bytes, depth=depth)
        # Far from who sends: ready comes out of a register.
        m.submodules.sent = sent = Slice(unsigned(9 * self.data_bytes))
        m.submodules.answers = answers = SyncFIFOBuffered(width=self.id_bits + 2, depth=ANSWERS)
        part = splitter.o.payload
        names = ("id", "addr", "len", "size", "burst")
        # Beats that have come and that no chunk was asked for yet.
        spare = Signal(range(depth + 1))
        come, taken = Signal(), Signal()
        m.d.comb += [
            bursts.i.valid.eq(bus.awvalid),
            bus.awready.eq(bursts.i.ready),
            bursts.i.payload.eq(Cat(getattr(bus, f"aw{name}") for name in names)),
            sent.i.valid.eq(bus.wvalid),
            bus.wready.eq(sent.i.ready),
            sent.i.payload.eq(Cat(bus.wdata, bus.wstrb)),
            beats.i.valid.eq(sent.o.valid),
            sent.o.ready.eq(beats.i.ready),
            beats.i.payload.eq(sent.o.payload),
            come.eq(sent.o.valid & beats.i.ready),
            Cat(self.beat, self.strobe).eq(beats.o.payload),
            beats.o.ready.eq(self.next),
            self.chunks.payload.eq(part.chunk),
            taken.eq(self.chunks.valid & self.chunks.ready),
            splitter.o.ready.eq(taken),
            answers.w_en.eq(taken & part.last),
            answers.w_data.eq(Cat(part.id, part.resp)),
            bus.bvalid.eq(answers.r_rdy),
            answers.r_en.eq(bus.bready),
            Cat(bus.bid, bus.bresp).eq(answers.r_data),
        ]
        m.d.sync += [
            spare.eq(spare + come - Mux(taken, part.chunk.beats + 1, 0)),
            self.chunks.valid.eq(
                splitter.o.valid & answers.w_rdy & (spare > part.chunk.beats) & ~taken
            ),
        ]
        return m
