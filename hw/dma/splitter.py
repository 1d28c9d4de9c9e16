"""Address generator of the load and store units: blocks to bursts.

A *block* is the transfer of one instruction: rows of bytes, with a pitch from row to row on both
sides. A *local address* is the position of a row inside the core: a byte address, a tile number or
a byte offset, by the *target*, the memory inside the core. A row is split into *bursts* of AXI4.
"""

from collections.abc import Sequence

from amaranth.hdl import Array, Cat, Const, Module, Mux, ShapeLike, Signal, unsigned
from amaranth.lib import data, stream

from celosia.hw.arch.config import ADDRESS_BITS
from celosia.hw.arch.isa import COUNT_BITS
from celosia.hw.axi.reader import length_bits
from celosia.hw.lib.component import Component, In, Out


def block_layout(
    *, local_bits: int, extent_bits: int, targets: int, tag: ShapeLike
) -> data.StructLayout:
    """Return the payload of a block, the input of :class:`BurstSplitter`.

    Parameters
    ----------
    local_bits : int
        Width in bits of a local address.
    extent_bits : int
        Width in bits of the length of a row in bytes, less one.
    targets : int
        Number of targets.
    tag : ShapeLike
        Shape of a value that all bursts of the block carry.

    Members
    -------
    external, external_pitch
        Byte address of the first row in external memory; bytes from row to row.
    local, local_pitch
        Local address of the first row; its distance from row to row.
    extent
        Bytes of a row, less one.
    rows
        Number of rows.
    bad
        The block is out of range; its other members are not used.
    target
        Number of the memory inside the core; selects the limit of local addresses.
    tag
        See above.
    """
    return data.StructLayout(
        {
            "external": unsigned(ADDRESS_BITS),
            "external_pitch": unsigned(ADDRESS_BITS),
            "local": unsigned(local_bits),
            "local_pitch": unsigned(local_bits),
            "extent": unsigned(extent_bits),
            "rows": unsigned(COUNT_BITS),
            "bad": 1,
            "target": unsigned((targets - 1).bit_length()),
            "tag": tag,
        }
    )


def burst_layout(
    *, data_bytes: int, burst_beats: int, local_bits: int, targets: int, tag: ShapeLike
) -> data.StructLayout:
    """Return the payload of a burst, the output of :class:`BurstSplitter`.

    Members
    -------
    address
        Byte address of the first beat, a multiple of the bytes of a beat.
    beats
        Number of beats, less one.
    local
        Local address of byte 0 of the first beat of the row. It is ``first_offset`` before that of
        the row, and wraps below 0; bytes before the row must be masked.
    first_offset, last_offset
        First byte of the first beat, and last byte of the last beat, that belong to the row.
    start
        First burst of its row.
    final
        Last burst of its block.
    bad
        An error instead of a burst: the row leaves a memory; past 2**32, after its bursts before.
        Nothing follows.
    target, tag
        Those of the block.
    """
    offset_bits = (data_bytes - 1).bit_length()
    return data.StructLayout(
        {
            "address": unsigned(ADDRESS_BITS),
            "beats": unsigned(length_bits(burst_beats)),
            "local": unsigned(local_bits),
            "first_offset": unsigned(offset_bits),
            "last_offset": unsigned(offset_bits),
            "start": 1,
            "final": 1,
            "bad": 1,
            "target": unsigned((targets - 1).bit_length()),
            "tag": tag,
        }
    )


class BurstSplitter(Component):
    """Splits blocks into rows, and rows into bursts.

    A frame is an aligned range of external addresses, as long as a full burst. Each frame that a
    row touches is one burst, so no burst crosses 4 KiB.

    Parameters
    ----------
    data_bytes : int
        Bytes of one beat, a power of two.
    burst_beats : int
        Longest burst in beats, a power of two, at most 4096 bytes.
    local_bits, extent_bits, tag
        See :func:`block_layout`.
    limits : sequence of int
        For each target, the least sum of ``local`` and ``extent`` that is out of range. A local
        address that is one pitch past the limit must fit ``local_bits``.

    Members
    -------
    i : In(stream of :func:`block_layout`)
        Blocks.
    o : Out(stream of :func:`burst_layout`)
        Their bursts.
    abort : In(1)
        Drops the block in work and takes none.
    idle : Out(1)
        No block is in work.

    Timing
    ------
    The first burst follows its block by ``LATENCY`` cycles; then one burst each cycle, also from
    row to row. The next block is taken in the cycle after the last row came into work, whatever
    ``o`` does, so one cycle is lost between two blocks of one burst each.

    Raises
    ------
    ValueError
        If a full burst is longer than 4096 bytes.
    """

    LATENCY = 2

    def __init__(
        self,
        *,
        data_bytes: int,
        burst_beats: int,
        local_bits: int,
        extent_bits: int,
        limits: Sequence[int],
        tag: ShapeLike,
    ) -> None:
        if data_bytes * burst_beats > 4096:
            raise ValueError(
                f"burst_beats: wanted bursts of at most 4096 bytes, "
                f"got {burst_beats} beats of {data_bytes}"
            )
        self.limits = limits
        self.beat_at = (data_bytes - 1).bit_length()
        self.frame_at = self.beat_at + (burst_beats - 1).bit_length()
        self.block = block_layout(
            local_bits=local_bits, extent_bits=extent_bits, targets=len(limits), tag=tag
        )
        self.burst = burst_layout(
            data_bytes=data_bytes,
            burst_beats=burst_beats,
            local_bits=local_bits,
            targets=len(limits),
            tag=tag,
        )
        #: Frames of a row after its first one.
        self.further = unsigned(max(extent_bits, self.frame_at) + 1 - self.frame_at)
        #: Row in work: first and last byte in their frames, and what its bursts share.
        self.row = data.StructLayout(
            {
                "first": unsigned(self.frame_at),
                "last": unsigned(self.frame_at),
                "local": unsigned(local_bits),
                "final": 1,
                "target": self.block["target"].shape,
                "tag": tag,
            }
        )
        self.i = In(stream.Signature(self.block))
        self.o = Out(stream.Signature(self.burst))
        self.abort = In(1)
        self.idle = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # What is left of the block in work; its next row begins past 2**32.
        block = Signal(self.block, reset_less=True)
        busy = Signal()
        beyond = Signal(reset_less=True)
        # Row in work, and the burst on offer: its frame, and that it is the first of the row.
        row = Signal(self.row, reset_less=True)
        frame = Signal(ADDRESS_BITS - self.frame_at, reset_less=True)
        begins = Signal(reset_less=True)
        # Frames of the row that follow; a register shows that none does.
        left = Signal(self.further, reset_less=True)
        closes = Signal(reset_less=True)
        active = Signal()
        # Stays set: no row follows an error.
        bad = Signal()

        burst = self.o.payload
        # The burst is the last of its row; the next row comes into work.
        ends = Signal()
        moves = Signal()
        m.d.comb += [
            ends.eq(bad | closes),
            moves.eq(busy & ~bad & (~active | (self.o.ready & ends))),
            # `o.ready` comes late in a cycle, and does not reach the block.
            self.i.ready.eq(~busy & ~self.abort),
            self.idle.eq(~busy & ~active),
            self.o.valid.eq(active),
        ]

        first = Mux(begins, row.first, 0)
        last = Mux(ends, row.last, -1)[: self.frame_at]
        m.d.comb += [
            burst.address.eq(Cat(Const(0, self.beat_at), first[self.beat_at :], frame)),
            burst.beats.eq(last[self.beat_at :] - first[self.beat_at :]),
            burst.first_offset.eq(first),
            burst.last_offset.eq(last),
            burst.start.eq(begins),
            burst.final.eq(ends & row.final),
            burst.bad.eq(bad),
            *(burst[name].eq(row[name]) for name in ("local", "target", "tag")),
        ]
        following = frame + 1
        with m.If(self.o.ready):
            m.d.sync += [
                frame.eq(following),
                begins.eq(0),
                left.eq(left - 1),
                closes.eq(left == 1),
            ]
            with m.If(ends):
                m.d.sync += active.eq(0)
            with m.Elif(active):
                m.d.sync += bad.eq(following[-1])

        limit = Array(self.limits)[block.target] if len(self.limits) > 1 else self.limits[0]
        end = block.external[: self.frame_at] + block.extent
        further = end >> self.frame_at
        with m.If(moves):
            m.d.sync += [
                active.eq(1),
                begins.eq(1),
                bad.eq(block.bad | beyond | (block.local + block.extent >= limit)),
                frame.eq(block.external[self.frame_at :]),
                left.eq(further),
                closes.eq(further == 0),
                row.first.eq(block.external),
                row.last.eq(end),
                row.local.eq(block.local - block.external[: self.beat_at]),
                row.final.eq(block.rows == 1),
                row.target.eq(block.target),
                row.tag.eq(block.tag),
                busy.eq(block.rows != 1),
            ]
        # Written without regard to `valid` of the input.
        with m.If(~busy):
            m.d.sync += [block.eq(self.i.payload), beyond.eq(0), busy.eq(self.i.valid)]
        with m.Elif(moves):
            m.d.sync += [
                Cat(block.external, beyond).eq(block.external + block.external_pitch),
                block.local.eq(block.local + block.local_pitch),
                block.rows.eq(block.rows - 1),
            ]
        with m.If(self.abort):
            m.d.sync += [busy.eq(0), active.eq(0)]
        return m
