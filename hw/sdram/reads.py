"""The read half of the AXI4 port."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from celosia.hw.axi.signature import OKAY, axi4_read
from celosia.hw.lib.slice import Slice
from celosia.hw.sdram.buffer import Buffer
from celosia.hw.sdram.chunks import Splitter, burst_layout
from celosia.hw.sdram.signature import chunk_beats, chunk_layout
from celosia.hw.sdram.timing import Part

#: Bytes read ahead of the R channel, and chunks they belong to.
BUFFER_BYTES = 1024
CHUNKS = 16


class Reads(wiring.Component):
    """Asks for the chunks of read bursts that it has room for, and answers the bursts in order.

    Parameters
    ----------
    part : Part
        The chip.
    data_bytes, address_bits, id_bits : int
        As for ``axi4``.

    Members
    -------
    bus : In(axi4_read)
        Channels AR and R.
    chunks : Out(stream of chunk_layout)
        What to read.
    valid, data : In(1), In(8 * data_bytes)
        Beats read, in order; there is room for all that were asked for.

    Timing
    ------
    A chunk follows its burst's address by four cycles, a beat on R follows ``valid`` by four.
    """

    bus: Any
    chunks: stream.Interface
    valid: Signal
    data: Signal

    def __init__(self, *, part: Part, data_bytes: int, address_bits: int, id_bits: int) -> None:
        self.part = part
        self.data_bytes = data_bytes
        self.address_bits = address_bits
        self.id_bits = id_bits
        super().__init__(
            {
                "bus": In(axi4_read(data_bytes, address_bits, id_bits)),
                "chunks": Out(stream.Signature(chunk_layout(part, data_bytes))),
                "valid": In(1),
                "data": In(8 * data_bytes),
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
            write=False,
        )
        wiring.connect(m, bursts.o, splitter.i)
        names = ("id", "addr", "len", "size", "burst")
        m.d.comb += [
            bursts.i.valid.eq(bus.arvalid),
            bus.arready.eq(bursts.i.ready),
            bursts.i.payload.eq(Cat(getattr(bus, f"ar{name}") for name in names)),
        ]

        depth = BUFFER_BYTES // self.data_bytes
        m.submodules.beats = beats = Buffer(width=8 * self.data_bytes, depth=depth)
        asked = data.StructLayout(
            {
                "beats": unsigned((chunk_beats(self.data_bytes) - 1).bit_length()),
                "id": unsigned(self.id_bits),
                "resp": unsigned(2),
                "last": unsigned(1),
            }
        )
        m.submodules.answers = answers = SyncFIFOBuffered(width=asked.size, depth=CHUNKS)
        part, answer = splitter.o.payload, data.View(asked, answers.r_data)
        entry = data.View(asked, answers.w_data)
        room = Signal(range(depth + 1), init=depth)
        taken, sent = Signal(), Signal()
        m.d.comb += [
            self.chunks.payload.eq(part.chunk),
            taken.eq(self.chunks.valid & self.chunks.ready),
            splitter.o.ready.eq(taken),
            answers.w_en.eq(taken),
            entry.beats.eq(part.chunk.beats),
            entry.id.eq(part.id),
            entry.resp.eq(part.resp),
            entry.last.eq(part.last),
            beats.i.valid.eq(self.valid),
            beats.i.payload.eq(self.data),
        ]
        m.d.sync += [
            room.eq(room + sent - Mux(taken, part.chunk.beats + 1, 0)),
            self.chunks.valid.eq(
                splitter.o.valid & answers.w_rdy & (room >= chunk_beats(self.data_bytes)) & ~taken
            ),
        ]
        self._answer(m, beats, answers, answer, sent)
        return m

    def _answer(
        self,
        m: Module,
        beats: Buffer,
        answers: SyncFIFOBuffered,
        answer: data.View,
        sent: Signal,
    ) -> None:
        """Join beats and answers on the R channel; errors carry zeros."""
        bus = self.bus
        beat = data.StructLayout(
            {
                "data": unsigned(8 * self.data_bytes),
                "id": unsigned(self.id_bits),
                "resp": unsigned(2),
                "last": unsigned(1),
            }
        )
        m.submodules.out = out = Slice(beat)
        done = Signal.like(answer.beats)
        ends = Signal()
        m.d.comb += [
            ends.eq(done == answer.beats),
            out.i.valid.eq(beats.o.valid & answers.r_rdy),
            out.i.payload.data.eq(Mux(answer.resp == OKAY, beats.o.payload, 0)),
            out.i.payload.id.eq(answer.id),
            out.i.payload.resp.eq(answer.resp),
            out.i.payload.last.eq(answer.last & ends),
            sent.eq(out.i.valid & out.i.ready),
            beats.o.ready.eq(sent),
            answers.r_en.eq(sent & ends),
            bus.rvalid.eq(out.o.valid),
            out.o.ready.eq(bus.rready),
            bus.rdata.eq(out.o.payload.data),
            bus.rid.eq(out.o.payload.id),
            bus.rresp.eq(out.o.payload.resp),
            bus.rlast.eq(out.o.payload.last),
        ]
        with m.If(sent):
            m.d.sync += done.eq(Mux(ends, 0, done + 1))
