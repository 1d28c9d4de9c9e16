"""Reads of the passes: one vector of activations for each pixel of each pass."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.lib.component import Component
from celosia.hw.lib.slice import FAR, link
from celosia.hw.matrix.walker import MATMUL, PassWalker
from celosia.hw.memory.runs import Runs

#: Outputs of ``PassWalker`` that belong to a read of any core, besides its request.
_WALKED = ("row", "accumulate", "first", "last", "final", "outside")


class PassReads(Component):
    """Address generator of the matrix unit: the reads of an instruction, vector by vector.

    ``PassWalker`` and ``Runs`` give the address and the jumps of each vector. While the passes of
    one instruction are read, the jumps of the next one are prepared.

    Parameters
    ----------
    rows, unified_bytes, weight_tiles, accumulator_depth, blocks : int
        See ``PassWalker``.
    skid : bool
        See ``Config``.

    Members
    -------
    prepare, arriving : In(1), In(layout of MATMUL)
        Prepares the jumps of an instruction.
    ready : Out(1)
        The instruction prepared last may begin.
    begin, instruction, tag : In(1), In(layout of MATMUL), In(TAG_BITS)
        That instruction begins. Only while ``ready`` is high.
    running : Out(1)
        The loops have more reads.
    o : Out(stream of ``PassReads.read``)
        Reads, in order. ``request``: for the unified buffer; ``tag``: of the instruction; the
        other fields as of ``PassWalker``.

    Timing
    ------
    A register separates the loops from ``o``: the first read comes two cycles after ``begin``,
    then one each cycle.
    """

    def __init__(
        self,
        *,
        rows: int,
        unified_bytes: int,
        weight_tiles: int,
        accumulator_depth: int,
        blocks: int = 0,
        skid: bool = True,
    ) -> None:
        self.rows = rows
        self.skid = skid
        self.walker = PassWalker(
            rows=rows,
            unified_bytes=unified_bytes,
            weight_tiles=weight_tiles,
            accumulator_depth=accumulator_depth,
            blocks=blocks,
        )
        self.walked = (*_WALKED, "move", "block") if blocks else _WALKED
        request = streams.unified_read(rows=rows, unified_bytes=unified_bytes)
        fields = {name: getattr(self.walker, name).shape() for name in self.walked}
        # What the control needs at once comes first: it shares a copy of the register's state.
        self.read = data.StructLayout({**fields, "tag": streams.TAG_BITS, "request": request})
        super().__init__(
            {
                "prepare": In(1),
                "arriving": In(MATMUL),
                "ready": Out(1),
                "begin": In(1),
                "instruction": In(MATMUL),
                "tag": In(streams.TAG_BITS),
                "running": Out(1),
                "o": Out(stream.Signature(self.read)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.walker = walker = self.walker
        skip = self.o.payload.request.skip
        m.submodules.runs = runs = Runs(
            lanes=self.rows, count_bits=walker.taps_bits, row_bits=len(skip[0])
        )
        m.submodules.register = register = link(self.read, skid=self.skid, block=FAR)
        wiring.connect(m, register.o, wiring.flipped(self.o))
        taken = Signal()
        ends = Signal()
        tag = Signal(streams.TAG_BITS, reset_less=True)
        read = register.i.payload
        m.d.comb += [
            taken.eq(self.running & register.i.ready),
            ends.eq(taken & walker.final),
            self.ready.eq(runs.ready & (~self.running | ends)),
            runs.start.eq(self.prepare),
            # A `run` above all numbers of taps becomes the greatest value.
            runs.run.eq(Mux(self.arriving.run[walker.taps_bits :].any(), -1, self.arriving.run)),
            runs.skip_rows.eq(self.arriving.skip),
            runs.restart.eq(self.begin),
            runs.advance.eq(taken & walker.last),
            walker.begin.eq(self.begin),
            walker.instruction.eq(self.instruction),
            walker.advance.eq(taken & ~walker.final),
            register.i.valid.eq(self.running),
            read.request.address.eq(walker.address),
            read.request.mask.eq(walker.mask),
            read.request.skip.eq(runs.skip),
            read.tag.eq(tag),
            *(read[name].eq(getattr(walker, name)) for name in self.walked),
        ]
        with m.If(self.begin):
            m.d.sync += [self.running.eq(1), tag.eq(self.tag)]
        with m.Elif(ends):
            m.d.sync += self.running.eq(0)
        return m
