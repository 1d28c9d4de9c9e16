"""Bursts cut into chunks, and the order in which chunks are served."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.axi.signature import DECERR, INCR, OKAY, SLVERR
from celosia.hw.sdram.signature import chunk_beats, chunk_layout
from celosia.hw.sdram.timing import Part

#: Chunks served in one direction before the other's turn comes, if it waits.
RUN = 4


def burst_layout(address_bits: int, id_bits: int) -> data.StructLayout:
    """Return the payload of an address channel."""
    return data.StructLayout(
        {
            "id": unsigned(id_bits),
            "addr": unsigned(address_bits),
            "len": unsigned(8),
            "size": unsigned(3),
            "burst": unsigned(2),
        }
    )


def part_layout(part: Part, data_bytes: int, id_bits: int) -> data.StructLayout:
    """Return a chunk together with what its burst must be answered.

    ``last`` says that it ends the burst.
    """
    return data.StructLayout(
        {
            "chunk": chunk_layout(part, data_bytes),
            "id": unsigned(id_bits),
            "resp": unsigned(2),
            "last": unsigned(1),
        }
    )


class Splitter(wiring.Component):
    """Cuts bursts at multiples of ``CHUNK_BYTES``, and judges them.

    Bursts other than ``INCR`` or of other than whole beats are answered by ``SLVERR``; those past
    the end of the chip by ``DECERR``. They become void chunks.

    Parameters
    ----------
    part : Part
        The chip.
    data_bytes, address_bits, id_bits : int
        As for ``axi4``.
    write : bool
        Whether these are bursts to write.

    Members
    -------
    i : In(stream of burst_layout)
        Bursts that do not cross 4 KiB.
    o : Out(stream of part_layout)
        Their chunks.

    Timing
    ------
    A chunk follows its burst, or the chunk before it, by two cycles.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(
        self, *, part: Part, data_bytes: int, address_bits: int, id_bits: int, write: bool
    ) -> None:
        self.part = part
        self.data_bytes = data_bytes
        self.write = write
        super().__init__(
            {
                "i": In(stream.Signature(burst_layout(address_bits, id_bits))),
                "o": Out(stream.Signature(part_layout(part, data_bytes, id_bits))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        byte_bits = (self.data_bytes - 1).bit_length()
        most = chunk_beats(self.data_bytes) - 1
        asked, given = self.i.payload, self.o.payload
        left = Signal(8)
        beat = given.chunk.place.as_value()
        low, high = beat[: most.bit_length()], beat[most.bit_length() :]
        room = Signal(range(most + 1))
        busy = Signal()
        m.d.comb += [
            room.eq(~low),
            given.chunk.write.eq(self.write),
            given.chunk.void.eq(given.resp != OKAY),
            self.i.ready.eq(~busy),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [
                self.o.valid.eq(0),
                busy.eq(~given.last),
                low.eq(0),
                high.eq(high + 1),
                left.eq(left - given.chunk.beats - 1),
            ]
        with m.Elif(busy & ~self.o.valid):
            m.d.sync += [
                self.o.valid.eq(1),
                given.last.eq(left <= room),
                given.chunk.beats.eq(Mux(left <= room, left, room)),
            ]
        with m.Elif(self.i.valid & self.i.ready):
            m.d.sync += [
                busy.eq(1),
                beat.eq(asked.addr[byte_bits : self.part.address_bits]),
                left.eq(asked.len),
                given.id.eq(asked.id),
                given.resp.eq(OKAY),
            ]
            with m.If(asked.addr[self.part.address_bits :].any()):
                m.d.sync += given.resp.eq(DECERR)
            with m.Elif((asked.burst != INCR) | (asked.size != byte_bits)):
                m.d.sync += given.resp.eq(SLVERR)
        return m


class Arbiter(wiring.Component):
    """Brings the chunks of reads and writes in one order.

    Turning from reads to writes costs cycles, so a direction is kept for up to ``RUN`` chunks while
    it has some.

    Parameters
    ----------
    part : Part
        The chip.
    data_bytes : int
        Bytes of a beat.

    Members
    -------
    reads, writes : In(stream of chunk_layout)
        Chunks that nothing stands in the way of.
    o : Out(stream of chunk_layout)
        Both, in the order in which they take place.

    Timing
    ------
    ``o`` follows by one cycle. Up to one chunk each cycle.
    """

    reads: stream.Interface
    writes: stream.Interface
    o: stream.Interface

    def __init__(self, *, part: Part, data_bytes: int) -> None:
        chunks = stream.Signature(chunk_layout(part, data_bytes))
        super().__init__({"reads": In(chunks), "writes": In(chunks), "o": Out(chunks)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        writing = Signal()
        run = Signal(range(RUN + 1))
        pick_write = Signal()
        free = Signal()
        # The direction that goes first: the present one until its run is over.
        first_write = Signal()
        m.d.comb += [
            first_write.eq(writing ^ (run == RUN)),
            pick_write.eq(Mux(first_write, self.writes.valid, ~self.reads.valid)),
            free.eq(~self.o.valid | self.o.ready),
            self.writes.ready.eq(free & pick_write),
            self.reads.ready.eq(free & ~pick_write),
        ]
        with m.If(free):
            m.d.sync += [
                self.o.valid.eq(self.reads.valid | self.writes.valid),
                self.o.payload.eq(
                    Mux(pick_write, self.writes.payload.as_value(), self.reads.payload.as_value())
                ),
            ]
            with m.If(self.reads.valid | self.writes.valid):
                m.d.sync += writing.eq(pick_write)
                with m.If(writing != pick_write):
                    m.d.sync += run.eq(1)
                with m.Elif(run != RUN):
                    m.d.sync += run.eq(run + 1)
        return m
