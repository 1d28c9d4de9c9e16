"""Control of the matrix unit: starts weight tiles, then requests the vectors of their passes."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring

from celosia.hw import streams
from celosia.hw.arch.registers import Activity
from celosia.hw.lib.component import In, Out
from celosia.hw.lib.fanout import COPY
from celosia.hw.matrix.completion import Completion
from celosia.hw.matrix.moves import MoveOrder
from celosia.hw.matrix.prefetcher import INSTRUCTION, TilePrefetcher
from celosia.hw.matrix.reads import PassReads
from celosia.hw.matrix.sizes import MatrixSizes
from celosia.hw.matrix.spacing import PassSpacing


class MatrixControl(streams.Unit):
    """Control of the matrix unit: weight tiles, reads of activations, accumulator rows.

    ``TilePrefetcher`` starts the tiles of a MATMUL, one pass ahead. ``PassReads`` gives the
    reads of its passes, which ``PassSpacing`` keeps apart, and ``Completion`` reports its end.
    ``MoveOrder`` keeps MOVE_WEIGHTS and the tiles of MATMULs in order.

    Parameters
    ----------
    sizes : MatrixSizes
        Sizes of the unit.
    read_latency : int
        Cycles from a request taken to its response.
    results_latency : int
        Cycles from a request taken until its sums can be read in all columns.

    Members
    -------
    instruction, done, fault_valid, fault, abort, idle, activity
        See "Contract of a unit" in ``docs/design/architecture.md``.
    request : Out(stream of ``streams.unified_read``)
        Reads of activations, one vector each.
    read_fault : In(1)
        The response is of an address outside the buffer.
    wrong : In(1)
        The request taken ``results_latency`` cycles before used a wrong word.
    start, tile : Out(1), Out(range(weight_tiles))
        Start of a tile, to the weight buffer.
    fired : Out(1)
        A request is taken in this cycle.
    first, row, accumulate : Out(1), Out(row_bits), Out(1)
        Of that request: first of its pass; row, see ``PassAddresses``; its sums are added.
    move, block : Out(1), Out(range(blocks))
        With ``sizes.blocks``, of that request: it belongs to MOVE_WEIGHTS; number of its pass,
        which writes columns ``block * rows`` and following.
    drop : Out(1)
        With ``sizes.blocks``: the response of this cycle is not written, because of a fault or an
        abort.
    stopped : Out(1)
        There was a fault.

    Timing
    ------
    One request each cycle while the port is free. Passes that add to the same rows start at least 4
    cycles apart, or with ``forwards`` one cycle if they have a single pixel; see ``Accumulators``.
    """

    def __init__(self, *, sizes: MatrixSizes, read_latency: int, results_latency: int) -> None:
        self.sizes = sizes
        self.read_latency = read_latency
        self.results_latency = results_latency
        self.prefetcher = TilePrefetcher(sizes=sizes)
        self.reads = PassReads(sizes=sizes)
        self.order = None
        if sizes.blocks:
            self.order = MoveOrder(
                rows=sizes.rows, columns=sizes.columns, read_latency=read_latency
            )
        read = self.reads.read
        self.request = Out(stream.Signature(read["request"].shape))
        self.read_fault = In(1)
        self.start = Out(1)
        self.tile = Out(range(sizes.weight_tiles))
        self.fired = Out(1)
        self.first = Out(1)
        self.row = Out(read["row"].shape)
        self.accumulate = Out(1)
        self.stopped = Out(1)
        self.wrong = In(1)
        if sizes.blocks:
            self.drop = Out(1)
            self.move = Out(read["move"].shape)
            self.block = Out(read["block"].shape)
        super().__init__(INSTRUCTION)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.prefetcher = prefetcher = self.prefetcher
        m.submodules.reads = reads = self.reads
        m.submodules.spacing = spacing = PassSpacing(forwards=self.sizes.forwards)
        may_begin = Signal()
        # Two equal registers: `halted` stops tiles, `held` stops requests.
        halted = Signal(attrs=COPY)
        held = Signal(attrs=COPY)
        with m.If(self.fault_valid | self.abort):
            m.d.sync += [halted.eq(1), held.eq(1)]

        # The next instruction is prepared during the passes of this one.
        wiring.connect(m, prefetcher.instruction, wiring.flipped(self.instruction))
        m.d.comb += [
            prefetcher.enable.eq(~halted),
            may_begin.eq(prefetcher.waiting & reads.ready),
            prefetcher.begin.eq(may_begin),
            reads.prepare.eq(prefetcher.arrives),
            reads.instruction.eq(self.instruction.payload.fields.matmul),
            reads.begin.eq(prefetcher.waiting),
            reads.tag.eq(self.instruction.payload.tag),
        ]
        m.d.comb += [self.start.eq(prefetcher.start), self.tile.eq(prefetcher.tile)]

        now = reads.o.payload
        begins: Value = prefetcher.loaded & spacing.clear
        multiplies: Value = self.fired
        if self.order:
            settled = self._moves(m, self.order, now, may_begin, halted)
            begins = Mux(now.move, settled, begins)
            multiplies &= ~now.move
        m.d.comb += [
            self.request.payload.eq(now.request),
            self.request.valid.eq(reads.o.valid & ~held & ~now.outside & (~now.first | begins)),
            self.fired.eq(self.request.valid & self.request.ready),
            reads.o.ready.eq(self.fired),
            prefetcher.switched.eq(multiplies & now.first),
            self.first.eq(now.first),
            self.row.eq(now.row),
            self.accumulate.eq(now.accumulate),
            spacing.fired.eq(multiplies),
            spacing.last.eq(now.last),
            spacing.final.eq(now.final),
            spacing.accumulate.eq(now.accumulate),
        ]
        self._complete(m, now)
        self._report(m, spacing.clear, now)
        return m

    def _complete(self, m: Module, now: data.View) -> None:
        """Drive ``done``, ``idle`` and the first fault."""
        prefetcher, reads = self.prefetcher, self.reads
        m.submodules.completion = completion = Completion(
            read_latency=self.read_latency, results_latency=self.results_latency
        )
        m.d.comb += [
            completion.outside.eq(reads.o.valid & now.outside),
            completion.tile_outside.eq(prefetcher.outside),
            completion.tile_tag.eq(prefetcher.tag),
            completion.pending.eq(reads.running | reads.o.valid | prefetcher.waiting),
            completion.final.eq(now.final),
            completion.tag.eq(now.tag),
            completion.fired.eq(self.fired),
            completion.read_fault.eq(self.read_fault),
            completion.wrong.eq(self.wrong),
            completion.abort.eq(self.abort),
            self.done.eq(completion.done),
            self.fault_valid.eq(completion.fault_valid),
            self.fault.eq(completion.fault),
            self.idle.eq(completion.idle),
            self.stopped.eq(completion.stopped),
        ]

    def _report(self, m: Module, clear: Value, now: data.View) -> None:
        """Drive ``activity``."""
        reads = self.reads
        # The last request ended its instruction, whose sums are awaited then.
        ended = Signal(reset_less=True)
        with m.If(self.fired):
            m.d.sync += ended.eq(now.final)
        awaits = Mux(reads.o.valid, clear | ~ended, reads.running) | self.prefetcher.waiting
        activity = streams.activity_of(
            (self.fired, Activity.BUSY),
            (self.request.valid, Activity.MEMORY),
            (awaits, Activity.WEIGHTS),
            (~self.idle, Activity.DRAIN),
        )
        m.d.comb += self.activity.eq(activity)

    def _moves(
        self, m: Module, order: MoveOrder, now: data.View, begin: Value, halted: Value
    ) -> Value:
        """Drive the outputs of MOVE_WEIGHTS; return True if its first request may be taken."""
        prefetcher = self.prefetcher
        m.submodules.order = order
        # No row is written from the response with a fault on: `read_fault` is high in its cycle,
        # `refused` one cycle later, `halted` after that.
        refused = Signal()
        m.d.sync += refused.eq(self.read_fault)
        m.d.comb += [
            order.begin.eq(begin & prefetcher.move),
            order.fired.eq(self.fired & now.move),
            order.final.eq(now.final),
            order.row.eq(now.row),
            order.start.eq(self.start),
            prefetcher.hold.eq(order.hold),
            self.move.eq(now.move),
            self.block.eq(now.block),
            self.drop.eq(self.read_fault | refused | halted),
        ]
        return order.settled
