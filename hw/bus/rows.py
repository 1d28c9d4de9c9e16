"""The rows of a two-dimensional block, checked against the ends of both memories."""

from amaranth.hdl import Cat, Module, Mux, ShapeLike, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.arch.config import ADDRESS_BITS
from celosia.hw.arch.isa import COUNT_BITS
from celosia.hw.fanout import reset_less


def block_layout(*, place_bits: int, extent_bits: int, tag: ShapeLike) -> data.StructLayout:
    """Return what :class:`RowLoop` takes.

    Parameters
    ----------
    place_bits : int
        Width in bits of a place inside the core.
    extent_bits : int
        Width in bits of the length of a row in bytes, less one.
    tag : ShapeLike
        What travels along untouched.

    Members
    -------
    external, external_pitch
        Byte address of the first row in external memory; bytes from row to row.
    place, place_pitch
        Place of the first row inside the core, and from row to row.
    extent
        Bytes of a row, less one.
    rows
        Rows, less one.
    bounded
        ``place`` is a byte address, and a row may not end past ``limit`` bytes.
    bad
        The block is out of range, whatever its rows say.
    """
    return data.StructLayout(
        {
            "external": unsigned(ADDRESS_BITS),
            "external_pitch": unsigned(ADDRESS_BITS),
            "place": unsigned(place_bits),
            "place_pitch": unsigned(place_bits),
            "extent": unsigned(extent_bits),
            "rows": unsigned(COUNT_BITS),
            "bounded": 1,
            "bad": 1,
            "tag": tag,
        }
    )


def row_layout(
    *, place_bits: int, extent_bits: int, frame_bytes: int, tag: ShapeLike
) -> data.StructLayout:
    """Return what :class:`RowLoop` gives.

    Members
    -------
    first, last
        Byte addresses of the ends of the row in external memory.
    frames
        Frames, aligned ranges of ``frame_bytes``, that it enters after the first; 0 if ``bad``.
    place
        Place of the row less ``first``, modulo its width.
    bad
        The row leaves a memory. It is the last one given.
    final
        Last row of its block.
    """
    return data.StructLayout(
        {
            "first": unsigned(ADDRESS_BITS),
            "last": unsigned(ADDRESS_BITS),
            "frames": unsigned(max(extent_bits - (frame_bytes - 1).bit_length(), 0) + 1),
            "place": unsigned(place_bits),
            "bad": 1,
            "final": 1,
            "tag": tag,
        }
    )


class RowLoop(wiring.Component):
    """Turns blocks into rows.

    Parameters
    ----------
    place_bits, extent_bits, tag
        See :func:`block_layout`. A place past ``limit`` by one pitch must still fit.
    frame_bytes : int
        See :func:`row_layout`, a power of two.
    limit : int
        First byte address that a row of a ``bounded`` block may not touch.

    Members
    -------
    i : In(stream of :func:`block_layout`)
        Blocks.
    o : Out(stream of :func:`row_layout`)
        Their rows.
    abort : In(1)
        Drops everything, takes nothing.
    idle : Out(1)
        Nothing inside.

    Timing
    ------
    First row after ``LATENCY`` cycles, then one row each cycle, also across blocks.
    """

    LATENCY = 3

    i: stream.Interface
    o: stream.Interface
    abort: Signal
    idle: Signal

    def __init__(
        self, *, place_bits: int, extent_bits: int, frame_bytes: int, limit: int, tag: ShapeLike
    ) -> None:
        self.limit = limit
        self.frame_bytes = frame_bytes
        self.block = block_layout(place_bits=place_bits, extent_bits=extent_bits, tag=tag)
        self.row = row_layout(
            place_bits=place_bits, extent_bits=extent_bits, frame_bytes=frame_bytes, tag=tag
        )
        super().__init__(
            {
                "i": In(stream.Signature(self.block)),
                "o": Out(stream.Signature(self.row)),
                "abort": In(1),
                "idle": Out(1),
            }
        )
        reset_less(self.o, "payload")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        block = Signal(self.block, reset_less=True)
        beyond = Signal(reset_less=True)
        busy = Signal()
        middle = Signal(self.row, reset_less=True)
        middle_valid = Signal()
        end = Signal(max(len(block.place), len(block.extent)) + 1, reset_less=True)
        bounded = Signal(reset_less=True)
        halted = Signal()

        out_free = Signal()
        middle_free = Signal()
        final = Signal()
        m.d.comb += [
            out_free.eq((~self.o.valid | self.o.ready) & ~halted),
            middle_free.eq(~middle_valid | out_free),
            final.eq(block.rows == 0),
            self.i.ready.eq((~busy | (middle_free & final)) & ~self.abort),
            self.idle.eq(~busy & ~middle_valid & ~self.o.valid),
        ]

        with m.If(middle_free):
            m.d.sync += [
                middle_valid.eq(busy),
                # Past the end of the address space a row has no last byte: bad says so.
                Cat(middle.last, middle.bad).eq(block.external + block.extent),
                middle.first.eq(block.external),
                middle.place.eq(block.place),
                middle.final.eq(final),
                middle.tag.eq(block.tag),
                end.eq(block.place + block.extent),
                bounded.eq(block.bounded),
                Cat(block.external, beyond).eq(block.external + block.external_pitch),
                block.place.eq(block.place + block.place_pitch),
                block.rows.eq(block.rows - 1),
            ]
            with m.If(block.bad | beyond):
                m.d.sync += middle.bad.eq(1)
            with m.If(final):
                m.d.sync += busy.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [block.eq(self.i.payload), busy.eq(1), beyond.eq(0)]

        bad = middle.bad | (bounded & (end >= self.limit))
        frame_at = (self.frame_bytes - 1).bit_length()
        frames = (middle.last[frame_at:] - middle.first[frame_at:])[: len(middle.frames)]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(out_free):
            m.d.sync += [
                self.o.valid.eq(middle_valid),
                self.o.payload.eq(middle),
                self.o.payload.place.eq(middle.place - middle.first),
                self.o.payload.frames.eq(Mux(bad, 0, frames)),
                self.o.payload.bad.eq(bad),
                halted.eq(middle_valid & bad),
            ]
        with m.If(self.abort):
            m.d.sync += [busy.eq(0), middle_valid.eq(0), self.o.valid.eq(0)]
        return m
