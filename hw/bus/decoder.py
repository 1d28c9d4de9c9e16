"""From instructions to blocks: what the load and the store unit do with the fields they get."""

from typing import Any

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.config import PARAMETER_BYTES, TABLE_BYTES
from celosia.hw.bus.rows import block_layout
from celosia.hw.fanout import reset_less


class Target(enum.Enum, shape=2):
    """Memory that a block goes to."""

    UNIFIED = 0
    WEIGHTS = 1
    CHANNELS = 2
    TABLES = 3


#: What a burst of the load unit must remember.
LOAD_TAG = data.StructLayout({"target": Target, "index": unsigned(streams.INDEX_BITS)})
#: What a burst of the store unit must remember.
STORE_TAG = data.StructLayout({"index": unsigned(streams.INDEX_BITS)})


def _copy(block: Any, fields: Any) -> list[Any]:
    """Return the assignments that make ``block`` the block of a LOAD or STORE."""
    return [
        block.external.eq(fields.external),
        block.external_pitch.eq(fields.external_pitch),
        block.place.eq(fields.unified),
        block.place_pitch.eq(fields.unified_pitch),
        block.extent.eq(fields.length - 1),
        block.rows.eq(fields.rows - 1),
        block.bounded.eq(1),
    ]


class StoreDecoder(wiring.Component):
    """Turns STORE into a block.

    Fields are taken to be within ``isa.limits``.

    Parameters
    ----------
    place_bits, extent_bits : int
        As for ``block_layout``.

    Members
    -------
    i : In(stream of ``streams.issued(STORE)``)
        Instructions.
    o : Out(stream of ``block_layout`` with ``STORE_TAG``)
        Their blocks.
    abort : In(1)
        Drops the block it holds and the instruction it takes; takes none from the next cycle on.
    idle : Out(1)
        Nothing inside.

    Timing
    ------
    Blocks follow instructions by ``LATENCY`` cycles, before another is taken. ``i.ready`` comes out
    of a register.
    """

    LATENCY = 1

    i: stream.Interface
    o: stream.Interface
    abort: Signal
    idle: Signal

    def __init__(self, *, place_bits: int, extent_bits: int) -> None:
        block = block_layout(place_bits=place_bits, extent_bits=extent_bits, tag=STORE_TAG)
        super().__init__(
            {
                "i": In(stream.Signature(streams.issued(isa.Opcode.STORE))),
                "o": Out(stream.Signature(block)),
                "abort": In(1),
                "idle": Out(1),
            }
        )
        reset_less(self.o, "payload")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        takes = Signal()
        m.d.comb += [takes.eq(self.i.valid & self.i.ready), self.idle.eq(~self.o.valid)]
        # The queue in front of the unit waits for it, far away.
        m.d.sync += self.i.ready.eq(~takes & (~self.o.valid | self.o.ready) & ~self.abort)
        with m.If(takes | self.o.ready | self.abort):
            m.d.sync += self.o.valid.eq(takes & ~self.abort)
        with m.If(self.i.ready):
            m.d.sync += _copy(self.o.payload, self.i.payload.fields.store)
            m.d.sync += self.o.payload.tag.index.eq(self.i.payload.index)
        return m


class LoadDecoder(wiring.Component):
    """Turns LOAD, LOAD_WEIGHTS and LOAD_PARAMS into blocks.

    Weights are a block with a tile a row, whose first beat is placed by number. Parameters are a block of one row,
    placed by byte offset. Fields are taken to be within ``isa.limits``.

    Parameters
    ----------
    weight_tiles, tile_bytes, parameter_channels, tables : int
        Tiles of the weight buffer, bytes of a tile in external memory; see ``Config``.
    place_bits, extent_bits : int
        As for ``block_layout``.

    Members
    -------
    i : In(stream of ``streams.issued(LOAD, LOAD_WEIGHTS, LOAD_PARAMS)``)
        Instructions.
    o : Out(stream of ``block_layout`` with ``LOAD_TAG``)
        Their blocks.
    abort : In(1)
        Drops the block it holds and the instruction it takes; takes none from the next cycle on.
    idle : Out(1)
        Nothing inside.

    Timing
    ------
    Blocks follow instructions by ``LATENCY`` cycles, before another is taken. ``i.ready`` comes out
    of a register.
    """

    LATENCY = 2

    i: stream.Interface
    o: stream.Interface
    abort: Signal
    idle: Signal

    def __init__(
        self,
        *,
        weight_tiles: int,
        tile_bytes: int,
        parameter_channels: int,
        tables: int,
        place_bits: int,
        extent_bits: int,
    ) -> None:
        self.weight_tiles = weight_tiles
        self.tile_bytes = tile_bytes
        self.parameter_channels = parameter_channels
        self.tables = tables
        op = isa.Opcode
        block = block_layout(place_bits=place_bits, extent_bits=extent_bits, tag=LOAD_TAG)
        instructions = streams.issued(op.LOAD, op.LOAD_WEIGHTS, op.LOAD_PARAMS)
        super().__init__(
            {
                "i": In(stream.Signature(instructions)),
                "o": Out(stream.Signature(block)),
                "abort": In(1),
                "idle": Out(1),
            }
        )
        reset_less(self.o, "payload")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        block = Signal.like(self.o.payload)
        fields = self.i.payload.fields
        first = Signal(isa.COUNT_BITS)
        count = Signal(isa.COUNT_BITS)
        m.d.comb += block.tag.index.eq(self.i.payload.index)
        with m.Switch(fields.load.opcode):
            with m.Case(isa.Opcode.LOAD_WEIGHTS):
                weights = fields.load_weights
                m.d.comb += [
                    block.external.eq(weights.external),
                    block.external_pitch.eq(self.tile_bytes),
                    block.place.eq(weights.tile),
                    block.place_pitch.eq(1),
                    block.extent.eq(self.tile_bytes - 1),
                    block.rows.eq(weights.tiles - 1),
                    block.tag.target.eq(Target.WEIGHTS),
                    first.eq(weights.tile),
                    count.eq(weights.tiles),
                ]
            with m.Case(isa.Opcode.LOAD_PARAMS):
                params = fields.load_params
                m.d.comb += [
                    block.external.eq(params.external),
                    first.eq(params.first),
                    count.eq(params.count),
                ]
                for kind, target, item_bytes in (
                    (isa.Kind.CHANNELS, Target.CHANNELS, PARAMETER_BYTES),
                    (isa.Kind.TABLES, Target.TABLES, TABLE_BYTES),
                ):
                    with m.If(params.kind == kind):
                        m.d.comb += [
                            block.place.eq(params.first * item_bytes),
                            block.extent.eq(params.count * item_bytes - 1),
                            block.tag.target.eq(target),
                        ]
            with m.Default():
                m.d.comb += _copy(block, fields.load)

        taken = Signal()
        end = Signal(isa.COUNT_BITS + 1, reset_less=True)
        limits = {
            Target.WEIGHTS: self.weight_tiles,
            Target.CHANNELS: self.parameter_channels,
            Target.TABLES: self.tables,
        }
        takes = Signal()
        m.d.comb += takes.eq(self.i.valid & self.i.ready)
        # The queue in front of the unit waits for it, far away.
        free = ~takes & ~taken & (~self.o.valid | self.o.ready)
        m.d.sync += [self.i.ready.eq(free & ~self.abort), taken.eq(takes & ~self.abort)]
        with m.If(self.i.ready):
            m.d.sync += [self.o.payload.eq(block), end.eq(first + count)]
        with m.If(taken):
            m.d.sync += self.o.valid.eq(1)
            for target, limit in limits.items():
                with m.If(self.o.payload.tag.target == target):
                    m.d.sync += self.o.payload.bad.eq(end > limit)
        with m.If((self.o.valid & self.o.ready) | self.abort):
            m.d.sync += self.o.valid.eq(0)
        m.d.comb += self.idle.eq(~taken & ~self.o.valid)
        return m
