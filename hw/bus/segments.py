"""Byte ranges cut into bursts of whole beats."""

from amaranth.hdl import Cat, Const, Module, Mux, ShapeLike, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.arch.config import ADDRESS_BITS
from celosia.hw.bus.reader import length_bits
from celosia.hw.bus.rows import RowLoop, row_layout
from celosia.hw.bus.slice import Slice
from celosia.hw.fanout import reset_less


def segment_layout(
    *, data_bytes: int, burst_beats: int, place_bits: int, tag: ShapeLike
) -> data.StructLayout:
    """Return what :class:`Segmenter` gives: one burst.

    Members
    -------
    address
        Byte address of the first beat.
    beats
        Beats, less one.
    place
        Place of the first byte of the first beat.
    first_offset, last_offset
        First byte wanted of the first beat, last byte wanted of the last beat.
    start
        First burst of its row.
    final
        Last burst of its block.
    bad
        No burst at all: the row leaves a memory. Nothing follows.
    tag
        As given.
    """
    offset_bits = (data_bytes - 1).bit_length()
    return data.StructLayout(
        {
            "address": unsigned(ADDRESS_BITS),
            "beats": unsigned(length_bits(burst_beats)),
            "place": unsigned(place_bits),
            "first_offset": unsigned(offset_bits),
            "last_offset": unsigned(offset_bits),
            "start": 1,
            "final": 1,
            "bad": 1,
            "tag": tag,
        }
    )


class Segmenter(wiring.Component):
    """Turns rows into bursts.

    Bursts end where an address is a multiple of a full burst, hence never cross 4 KiB, and all but
    the ends of a row are full and aligned.

    Parameters
    ----------
    data_bytes : int
        Bytes of one beat, a power of two.
    burst_beats : int
        Longest burst in beats, a power of two, at most 4096 bytes.
    place_bits, extent_bits, tag
        As for ``RowLoop``.

    Members
    -------
    i : In(stream of ``row_layout``)
        Rows.
    o : Out(stream of :func:`segment_layout`)
        Their bursts.
    abort : In(1)
        Drops everything, takes nothing.
    idle : Out(1)
        Nothing inside.

    Timing
    ------
    First burst after ``LATENCY`` cycles, then one burst each cycle, also across rows.

    Raises
    ------
    ValueError
        If a full burst is longer than 4096 bytes.
    """

    LATENCY = 3

    i: stream.Interface
    o: stream.Interface
    abort: Signal
    idle: Signal

    def __init__(
        self,
        *,
        data_bytes: int,
        burst_beats: int,
        place_bits: int,
        extent_bits: int,
        tag: ShapeLike,
    ) -> None:
        if data_bytes * burst_beats > 4096:
            raise ValueError(
                f"burst_beats: wanted bursts of at most 4096 bytes, "
                f"got {burst_beats} beats of {data_bytes}"
            )
        self.data_bytes = data_bytes
        self.burst_beats = burst_beats
        self.row = row_layout(
            place_bits=place_bits,
            extent_bits=extent_bits,
            frame_bytes=data_bytes * burst_beats,
            tag=tag,
        )
        self.segment = segment_layout(
            data_bytes=data_bytes, burst_beats=burst_beats, place_bits=place_bits, tag=tag
        )
        super().__init__(
            {
                "i": In(stream.Signature(self.row)),
                "o": Out(stream.Signature(self.segment)),
                "abort": In(1),
                "idle": Out(1),
            }
        )
        reset_less(self.o, "payload")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        beat_at = (self.data_bytes - 1).bit_length()
        frame_at = beat_at + (self.burst_beats - 1).bit_length()
        row = Signal(self.row, reset_less=True)
        frame = Signal(ADDRESS_BITS - frame_at, reset_less=True)
        begins = Signal(reset_less=True)
        busy = Signal()
        middle = Signal(self.segment, reset_less=True)
        middle_valid = Signal()

        out_free = Signal()
        middle_free = Signal()
        # In a register of its own, since rows wait for it.
        ends = Signal(reset_less=True)
        m.d.comb += [
            out_free.eq(~self.o.valid | self.o.ready),
            middle_free.eq(~middle_valid | out_free),
            self.i.ready.eq((~busy | (middle_free & ends)) & ~self.abort),
            self.idle.eq(~busy & ~middle_valid & ~self.o.valid),
        ]

        first = Mux(begins, row.first[:frame_at], 0)
        last = Mux(ends, row.last[:frame_at], (1 << frame_at) - 1)
        with m.If(middle_free):
            m.d.sync += [
                middle_valid.eq(busy),
                middle.address.eq(Cat(Const(0, beat_at), first[beat_at:frame_at], frame)),
                middle.beats.eq(last[beat_at:] - first[beat_at:]),
                middle.place.eq(row.place),
                middle.first_offset.eq(first[:beat_at]),
                middle.last_offset.eq(last[:beat_at]),
                middle.start.eq(begins),
                middle.final.eq(ends & row.final),
                middle.bad.eq(row.bad),
                middle.tag.eq(row.tag),
                frame.eq(frame + 1),
                row.frames.eq(row.frames - 1),
                ends.eq(row.frames == 1),
                begins.eq(0),
            ]
            with m.If(ends):
                m.d.sync += busy.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                row.eq(self.i.payload),
                frame.eq(self.i.payload.first[frame_at:]),
                ends.eq(self.i.payload.frames == 0),
                begins.eq(1),
                busy.eq(1),
            ]

        with m.If(out_free):
            m.d.sync += [
                self.o.valid.eq(middle_valid),
                self.o.payload.eq(middle),
                self.o.payload.place.eq(middle.place + middle.address),
            ]
        with m.If(self.abort):
            m.d.sync += [busy.eq(0), middle_valid.eq(0), self.o.valid.eq(0)]
        return m


class Blocks(wiring.Component):
    """Turns blocks into bursts: a ``RowLoop``, a ``Slice`` and a :class:`Segmenter`.

    Parameters
    ----------
    data_bytes, burst_beats, place_bits, extent_bits, limit, tag
        As for both.

    Members
    -------
    i : In(stream of ``block_layout``)
        Blocks.
    o : Out(stream of :func:`segment_layout`)
        Their bursts.
    abort : In(1)
        Drops everything, takes nothing.
    idle : Out(1)
        Nothing inside.

    Timing
    ------
    First burst after ``LATENCY`` cycles, then one burst each cycle, also across blocks. Rows wait
    for ``o.ready`` through many gates: it should come out of a register, or nearly so.
    """

    LATENCY = RowLoop.LATENCY + Slice.LATENCY + Segmenter.LATENCY

    i: stream.Interface
    o: stream.Interface
    abort: Signal
    idle: Signal

    def __init__(
        self,
        *,
        data_bytes: int,
        burst_beats: int,
        place_bits: int,
        extent_bits: int,
        limit: int,
        tag: ShapeLike,
    ) -> None:
        self._rows = RowLoop(
            place_bits=place_bits,
            extent_bits=extent_bits,
            frame_bytes=data_bytes * burst_beats,
            limit=limit,
            tag=tag,
        )
        self._segments = Segmenter(
            data_bytes=data_bytes,
            burst_beats=burst_beats,
            place_bits=place_bits,
            extent_bits=extent_bits,
            tag=tag,
        )
        self.block = self._rows.block
        self.segment = self._segments.segment
        super().__init__(
            {
                "i": In(stream.Signature(self.block)),
                "o": Out(stream.Signature(self.segment)),
                "abort": In(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.rows = rows = self._rows
        m.submodules.segments = segments = self._segments
        wiring.connect(m, wiring.flipped(self.i), rows.i)
        m.submodules.between = between = Slice(segments.row)
        wiring.connect(m, rows.o, between.i)
        wiring.connect(m, between.o, segments.i)
        wiring.connect(m, wiring.flipped(self.o), segments.o)
        m.d.comb += [
            rows.abort.eq(self.abort),
            segments.abort.eq(self.abort),
            # Rows that nobody takes any more leave with the reset.
            self.idle.eq(rows.idle & (between.idle | self.abort) & segments.idle),
        ]
        return m
