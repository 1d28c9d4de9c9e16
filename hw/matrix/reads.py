"""Reads of the passes: one vector of activations for each pixel of each pass."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.lib.component import Component
from celosia.hw.lib.skid_buffer import FAR, link
from celosia.hw.matrix.addresses import MATMUL, PassAddresses
from celosia.hw.memory.runs import Runs

#: Outputs of ``PassAddresses`` that belong to a read of any core, besides its request.
_FIELDS = ("row", "accumulate", "first", "last", "final", "outside")


class PassReads(Component):
    """Address generator of the matrix unit: the reads of an instruction, vector by vector.

    ``PassAddresses`` and ``Runs`` give the address and the skips of each vector. While the passes
    of one instruction are read, the skips of the next one are prepared.

    Parameters
    ----------
    rows, unified_bytes, weight_tiles, accumulator_depth, blocks : int
        See ``PassAddresses``.
    skid : bool
        See ``Config``.

    Members
    -------
    prepare, arriving : In(1), In(layout of MATMUL)
        Prepares the skips of an instruction, in log2(rows) + 2 cycles.
    ready : Out(1)
        The instruction prepared last may begin.
    begin, instruction, tag : In(1), In(layout of MATMUL), In(TAG_BITS)
        That instruction begins. Only while ``ready`` is high.
    running : Out(1)
        The loops have more reads.
    o : Out(stream of ``PassReads.read``)
        Reads, in order. ``request``: for the unified buffer; ``tag``: of the instruction; the
        other fields as of ``PassAddresses``.

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
        self.addresses = PassAddresses(
            rows=rows,
            unified_bytes=unified_bytes,
            weight_tiles=weight_tiles,
            accumulator_depth=accumulator_depth,
            blocks=blocks,
        )
        self.addressed = (*_FIELDS, "move", "block") if blocks else _FIELDS
        request = streams.unified_read(rows=rows, unified_bytes=unified_bytes)
        fields = {name: getattr(self.addresses, name).shape() for name in self.addressed}
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
        m.submodules.addresses = addresses = self.addresses
        skip = self.o.payload.request.skip
        m.submodules.runs = runs = Runs(
            lanes=self.rows, count_bits=addresses.taps_bits, row_bits=len(skip[0])
        )
        m.submodules.register = register = link(self.read, skid=self.skid, block=FAR)
        wiring.connect(m, register.o, wiring.flipped(self.o))
        taken = Signal()
        ends = Signal()
        tag = Signal(streams.TAG_BITS, reset_less=True)
        read = register.i.payload
        m.d.comb += [
            taken.eq(self.running & register.i.ready),
            ends.eq(taken & addresses.final),
            self.ready.eq(runs.ready & (~self.running | ends)),
            runs.start.eq(self.prepare),
            # A `run` above all numbers of taps becomes the greatest value.
            runs.run.eq(Mux(self.arriving.run[addresses.taps_bits :].any(), -1, self.arriving.run)),
            runs.skip_rows.eq(self.arriving.skip),
            runs.restart.eq(self.begin),
            runs.advance.eq(taken & addresses.last),
            addresses.begin.eq(self.begin),
            addresses.instruction.eq(self.instruction),
            addresses.advance.eq(taken & ~addresses.final),
            register.i.valid.eq(self.running),
            read.request.address.eq(addresses.address),
            read.request.mask.eq(addresses.mask),
            read.request.skip.eq(runs.skip),
            read.tag.eq(tag),
            *(read[name].eq(getattr(addresses, name)) for name in self.addressed),
        ]
        with m.If(self.begin):
            m.d.sync += [self.running.eq(1), tag.eq(self.tag)]
        with m.Elif(ends):
            m.d.sync += self.running.eq(0)
        return m
