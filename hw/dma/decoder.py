"""Decoders of LOAD, LOAD_WEIGHTS, LOAD_PARAMS and STORE to blocks of ``BurstSplitter``."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, enum, stream

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.config import PARAMETER_BYTES, TABLE_BYTES
from celosia.hw.lib.component import Component, In, Out

#: Number of targets.
TARGETS = 4


class Target(enum.Enum, shape=2):
    """Memory that a block of the load unit goes to."""

    UNIFIED = 0
    WEIGHTS = 1
    CHANNELS = 2
    TABLES = 3


def copied(block: Any, fields: Any) -> list[Any]:
    """Return the assignments that make ``block`` the block of a LOAD or STORE."""
    return [
        block.external.eq(fields.external),
        block.external_pitch.eq(fields.external_pitch),
        block.local.eq(fields.unified),
        block.local_pitch.eq(fields.unified_pitch),
        block.extent.eq(fields.length - 1),
        block.rows.eq(fields.rows),
    ]


class LoadDecoder(Component):
    """Decoder of LOAD, LOAD_WEIGHTS and LOAD_PARAMS to blocks, see ``block_layout``.

    LOAD is a block of its rows. LOAD_WEIGHTS is a block with one row for each tile; the local
    address of a row is the number of the tile. LOAD_PARAMS is a block of one row; its local address
    is the byte offset in the memory. Fields must be within ``isa.limits``.

    Parameters
    ----------
    tile_bytes : int
        Bytes of a tile in external memory.
    block : StructLayout
        Layout of a block, see ``block_layout``.

    Members
    -------
    i : In(stream of ``streams.issued(LOAD, LOAD_WEIGHTS, LOAD_PARAMS)``)
        Instructions.
    o : Out(stream of ``block``)
        Their blocks.

    Timing
    ------
    Combinational.
    """

    def __init__(self, *, tile_bytes: int, block: data.StructLayout) -> None:
        self.tile_bytes = tile_bytes
        op = isa.Opcode
        instructions = streams.issued(op.LOAD, op.LOAD_WEIGHTS, op.LOAD_PARAMS)
        self.i = In(stream.Signature(instructions))
        self.o = Out(stream.Signature(block))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        block = self.o.payload
        fields = self.i.payload.fields
        m.d.comb += [
            self.o.valid.eq(self.i.valid),
            self.i.ready.eq(self.o.ready),
        ]
        with m.Switch(fields.load.opcode):
            with m.Case(isa.Opcode.LOAD_WEIGHTS):
                weights = fields.load_weights
                m.d.comb += [
                    block.external.eq(weights.external),
                    block.external_pitch.eq(self.tile_bytes),
                    block.local.eq(weights.tile),
                    block.local_pitch.eq(1),
                    block.extent.eq(self.tile_bytes - 1),
                    block.rows.eq(weights.tiles),
                    block.target.eq(Target.WEIGHTS),
                ]
            with m.Case(isa.Opcode.LOAD_PARAMS):
                params = fields.load_params
                tables = params.kind == isa.Kind.TABLES
                # Both may exceed the width of a local address: `bad` reports it.
                first, extent = (Signal(32, name=name) for name in ("first", "extent"))
                kinds = [
                    (Cat(Const(0, bits), params.first), Cat(Const(-1, bits), params.count - 1))
                    for bits in ((size - 1).bit_length() for size in (PARAMETER_BYTES, TABLE_BYTES))
                ]
                m.d.comb += [
                    first.eq(Mux(tables, kinds[1][0], kinds[0][0])),
                    extent.eq(Mux(tables, kinds[1][1], kinds[0][1])),
                    block.external.eq(params.external),
                    block.local.eq(first),
                    block.extent.eq(extent),
                    block.rows.eq(1),
                    block.bad.eq(
                        first[len(block.local) :].any() | extent[len(block.extent) :].any()
                    ),
                    block.target.eq(Mux(tables, Target.TABLES, Target.CHANNELS)),
                ]
            with m.Default():
                m.d.comb += copied(block, fields.load)
        return m


class StoreDecoder(Component):
    """Decoder of STORE to a block. Fields must be within ``isa.limits``.

    Parameters
    ----------
    block : StructLayout
        Layout of a block, see ``block_layout``.

    Members
    -------
    i : In(stream of ``streams.issued(STORE)``)
        Instructions.
    o : Out(stream of ``block``)
        Their blocks. The tag, if it has bits, is that of the instruction.

    Timing
    ------
    Combinational.
    """

    def __init__(self, *, block: data.StructLayout) -> None:
        instructions = streams.issued(isa.Opcode.STORE)
        self.i = In(stream.Signature(instructions))
        self.o = Out(stream.Signature(block))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += [
            self.o.valid.eq(self.i.valid),
            self.i.ready.eq(self.o.ready),
            Value.cast(self.o.payload.tag).eq(self.i.payload.tag),
            *copied(self.o.payload, self.i.payload.fields.store),
        ]
        return m
