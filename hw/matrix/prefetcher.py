"""Prefetcher of weight tiles: starts the tiles of MATMULs, one pass ahead of the activations."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.lib.comparison import above
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import data_registers
from celosia.hw.matrix.sizes import MatrixSizes

INSTRUCTION = streams.issued(isa.Opcode.MATMUL, isa.Opcode.MOVE_WEIGHTS)


class TilePrefetcher(Component):
    """Prefetcher of weight tiles: starts the tiles of MATMULs, one pass ahead.

    Parameters
    ----------
    sizes : MatrixSizes
        Sizes of the unit.

    Members
    -------
    instruction : In(stream of ``streams.issued(MATMUL, MOVE_WEIGHTS)``)
        Its tiles are started from the cycle on in which it ``arrives``, when the instruction before
        has started its last tile. Taken with ``begin``.
    enable : In(1)
        Instructions may arrive and tiles start.
    arrives : Out(1)
        ``instruction`` is new in this cycle.
    waiting : Out(1)
        ``instruction`` has arrived and not begun its passes.
    begin : In(1)
        The passes of ``instruction`` begin. Only while ``waiting``.
    tag : Out(TAG_BITS)
        Tag of the instruction whose tiles are being started.
    switched : In(1)
        The first request of a pass is taken: the shadow weights are free for the next tile.
    loaded : Out(1)
        The tile of the next pass has started; the pass may begin. The tile's rows load while the
        first activations are on their way.
    start, tile : Out(1), Out(range(weight_tiles))
        Start of a tile, to the weight buffer.
    outside : Out(1)
        The next tile is outside the weight buffer, or its instruction has more taps than all tiles,
        or a count of pixels of at least twice the depth of the accumulators.
    move, hold : Out(1), In(1)
        With ``activation_weights``: ``instruction`` is MOVE_WEIGHTS; no tile may start.

    Timing
    ------
    ``loaded`` follows ``start`` by one cycle. A tile starts in the cycle after ``switched`` at the
    earliest, and at least rows / weight_rows cycles after the tile before; if tiles start in each
    cycle, in that of ``switched``.
    """

    def __init__(self, *, sizes: MatrixSizes) -> None:
        self.sizes = sizes
        self.instruction = In(stream.Signature(INSTRUCTION))
        self.enable = In(1)
        self.arrives = Out(1)
        self.waiting = Out(1)
        self.begin = In(1)
        self.tag = Out(streams.TAG_BITS)
        self.switched = In(1)
        self.loaded = Out(1)
        self.start = Out(1)
        self.tile = Out(range(sizes.weight_tiles))
        self.outside = Out(1)
        if sizes.activation_weights:
            self.move = Out(1)
            self.hold = In(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        [tag] = data_registers(m, self.tag)
        taps_left = Signal(sizes.taps_bits, reset_less=True)
        more = Signal()
        excess = Signal(reset_less=True)
        tile = Signal(sizes.weight_tiles.bit_length(), reset_less=True)
        inside = Signal()
        # Cycles until the weight buffer is free again: `WeightBuffer.ready`, counted here.
        pause = Signal(range(sizes.rows // sizes.weight_rows))
        # `switched` comes late in a cycle. It may wait for the register, except if a tile starts in
        # every cycle.
        free = ~self.loaded | (self.switched if sizes.rows == sizes.weight_rows else 0)
        # A tile may start; the arriving instruction has tiles; an error.
        may, starts, outside = self.enable, 1, more & ~inside
        if sizes.activation_weights:
            opcode = self.instruction.payload.fields.matmul.opcode
            m.d.comb += self.move.eq(opcode == isa.Opcode.MOVE_WEIGHTS)
            starts = ~self.move
            may &= ~self.hold
            outside |= self.waiting & self.move & excess
        m.d.comb += [
            self.arrives.eq(self.instruction.valid & self.enable & ~self.waiting & ~more),
            self.instruction.ready.eq(self.begin),
            inside.eq((tile < sizes.weight_tiles) & ~excess),
            self.outside.eq(outside),
            self.tile.eq(tile),
            self.start.eq(may & more & inside & (pause == 0) & free),
        ]
        with m.If(pause != 0):
            m.d.sync += pause.eq(pause - 1)
        with m.If(self.begin):
            m.d.sync += self.waiting.eq(0)
        with m.If(self.switched):
            m.d.sync += self.loaded.eq(0)
        with m.If(self.start):
            m.d.sync += [
                self.loaded.eq(1),
                pause.eq(sizes.rows // sizes.weight_rows - 1),
                tile.eq(tile + 1),
                taps_left.eq(taps_left - sizes.rows),
                more.eq(above(taps_left, sizes.rows)),
            ]
        with m.If(self.arrives):
            fields = self.instruction.payload.fields.matmul
            count_bits = sizes.accumulator_depth.bit_length()
            counts = (fields.x_count, fields.y_count, fields.z_count)
            m.d.sync += [
                excess.eq(
                    Cat(
                        fields.taps[sizes.taps_bits :], *(count[count_bits:] for count in counts)
                    ).any()
                ),
                tag.eq(self.instruction.payload.tag),
                self.waiting.eq(1),
                more.eq(starts),
                tile.eq(fields.tile),
                taps_left.eq(fields.taps),
            ]
        return m
