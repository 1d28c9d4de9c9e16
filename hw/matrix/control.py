"""Control of the matrix unit: starts weight tiles, then requests the vectors of their passes."""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.registers import Activity
from celosia.hw.lib.component import Component
from celosia.hw.lib.delay import Delay
from celosia.hw.lib.fanout import COPY
from celosia.hw.lib.slice import FAR, link
from celosia.hw.matrix.feeder import INSTRUCTION, TileFeeder
from celosia.hw.matrix.moves import MoveOrder
from celosia.hw.matrix.walker import PassWalker
from celosia.hw.memory.runs import Runs

#: Outputs of ``PassWalker`` that belong to a vector of any core, besides its request.
_WALKED = ("row", "accumulate", "first", "last", "final", "outside")


class MatrixControl(Component):
    """Control of the matrix unit: weight tiles, reads of activations, accumulator rows.

    ``TileFeeder`` takes a MATMUL and starts its tiles, one pass ahead. ``PassWalker`` and ``Runs``
    give the address of each vector. While the passes of one instruction are requested, the next one
    is prepared. ``MoveOrder`` keeps MOVE_WEIGHTS and the tiles of MATMULs in order.

    Parameters
    ----------
    rows, unified_bytes, weight_tiles, weight_rows, accumulator_depth : int
        See ``Config``.
    read_latency : int
        Cycles from a request taken to its response.
    results_latency : int
        Cycles from a request taken until its sums can be read in all columns.
    parity : bool
        Memories report words of wrong parity.
    forwards : bool
        See ``Accumulators``.
    skid : bool
        See ``Config``.
    columns, blocks : int
        Columns of the array, and passes of the longest MOVE_WEIGHTS; ``blocks`` is 0 if there is
        none.

    Members
    -------
    instruction, done, fault_valid, fault, abort, idle, activity
        See "Contract of a unit" in ``docs/design/architecture.md``.
    request : Out(stream of ``streams.unified_read``)
        Reads of activations, one vector each.
    read_fault : In(1)
        The response is of an address outside the buffer.
    wrong : In(1)
        With ``parity``: the request taken ``results_latency`` cycles before used a wrong word.
    start, tile : Out(1), Out(range(weight_tiles))
        Start of a tile, to the weight buffer.
    fired : Out(1)
        A request is taken in this cycle.
    first, row, accumulate : Out(1), Out(row_bits), Out(1)
        Of that request: first of its pass; row, see ``PassWalker``; its sums are added.
    move, block : Out(1), Out(range(blocks))
        With ``blocks``, of that request: it belongs to MOVE_WEIGHTS; number of its pass.
    drop : Out(1)
        With ``blocks``: the response of this cycle is not written, because of a fault or an abort.
    stopped : Out(1)
        There was a fault.

    Timing
    ------
    One request each cycle while the port is free. Passes that add to the same rows start at least 4
    cycles apart, or with ``forwards`` one cycle if they have a single pixel; see ``Accumulators``.
    """

    def __init__(
        self,
        *,
        rows: int,
        unified_bytes: int,
        weight_tiles: int,
        weight_rows: int,
        accumulator_depth: int,
        read_latency: int,
        results_latency: int,
        parity: bool = False,
        forwards: bool = True,
        skid: bool = True,
        columns: int = 1,
        blocks: int = 0,
    ) -> None:
        self.parity = parity
        self.forwards = forwards
        self.skid = skid
        self.blocks = blocks
        self.rows = rows
        self.unified_bytes = unified_bytes
        self.read_latency = read_latency
        self.results_latency = results_latency
        self.feeder = TileFeeder(
            rows=rows,
            weight_tiles=weight_tiles,
            weight_rows=weight_rows,
            accumulator_depth=accumulator_depth,
            moves=blocks > 0,
        )
        self.walker = PassWalker(
            rows=rows,
            unified_bytes=unified_bytes,
            weight_tiles=weight_tiles,
            accumulator_depth=accumulator_depth,
            blocks=blocks,
        )
        self.order = None
        if blocks:
            self.order = MoveOrder(rows=rows, columns=columns, read_latency=read_latency)
        read = streams.unified_read(rows=rows, unified_bytes=unified_bytes)
        flags = {name: getattr(self.walker, name).shape() for name in self._walked}
        moves = {name: Out(flags[name]) for name in self._walked if name in ("move", "block")}
        self._vector = data.StructLayout({"request": read, "tag": streams.TAG_BITS, **flags})
        super().__init__(
            {
                **streams.unit_ports(INSTRUCTION),
                "request": Out(stream.Signature(read)),
                "read_fault": In(1),
                "start": Out(1),
                "tile": Out(range(weight_tiles)),
                "fired": Out(1),
                "first": Out(1),
                "row": Out(self.walker.row_bits),
                "accumulate": Out(1),
                "stopped": Out(1),
                **({"wrong": In(1)} if parity else {}),
                **({"drop": Out(1)} | moves if blocks else {}),
            }
        )

    @property
    def _walked(self) -> tuple[str, ...]:
        """Outputs of ``PassWalker`` that belong to a vector, besides its request."""
        return (*_WALKED, "move", "block") if self.blocks else _WALKED

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.feeder = feeder = self.feeder
        m.submodules.walker = walker = self.walker
        skip = self.request.payload.skip
        m.submodules.runs = runs = Runs(
            lanes=self.rows, count_bits=self.feeder.taps_bits, row_bits=len(skip[0])
        )
        stopped = self.stopped
        running = Signal()
        taken = Signal()
        clear = Signal()
        may_begin = Signal()
        # Two equal registers: one for the tiles, one for the requests.
        halted = Signal(attrs=COPY)
        held = Signal(attrs=COPY)
        with m.If(self.fault_valid | self.abort):
            m.d.sync += [halted.eq(1), held.eq(1)]

        # The next instruction is prepared during the passes of this one.
        wiring.connect(m, feeder.instruction, wiring.flipped(self.instruction))
        arriving = self.instruction.payload.fields.matmul
        m.d.comb += [
            feeder.enable.eq(~halted),
            runs.start.eq(feeder.taken),
            # A `run` above all numbers of taps becomes the greatest value.
            runs.run.eq(Mux(arriving.run[self.feeder.taps_bits :].any(), -1, arriving.run)),
            runs.skip_rows.eq(arriving.skip),
            may_begin.eq(feeder.waiting & runs.ready & (~running | (taken & walker.final))),
            feeder.begin.eq(may_begin),
            walker.begin.eq(may_begin),
            walker.instruction.eq(feeder.current.fields.matmul),
            runs.restart.eq(may_begin),
            self.start.eq(feeder.start),
            self.tile.eq(feeder.tile),
        ]
        tag = Signal(streams.TAG_BITS, reset_less=True)
        with m.If(may_begin):
            m.d.sync += [running.eq(1), tag.eq(feeder.current.tag)]
        with m.Elif(taken & walker.final):
            m.d.sync += running.eq(0)

        # Separates the address generators from the request.
        m.submodules.vectors = vectors = link(self._vector, skid=self.skid, block=FAR)
        walked, now = vectors.i.payload, vectors.o.payload
        begins: Value = feeder.loaded & clear
        multiplies: Value = self.fired
        if self.order:
            settled = self._moves(m, self.order, now, may_begin, halted)
            begins = Mux(now.move, settled, begins)
            multiplies &= ~now.move
        m.d.comb += [
            vectors.i.valid.eq(running),
            taken.eq(running & vectors.i.ready),
            walked.request.address.eq(walker.address),
            walked.request.mask.eq(walker.mask),
            walked.request.skip.eq(runs.skip),
            walked.tag.eq(tag),
            *(walked[name].eq(getattr(walker, name)) for name in self._walked),
            walker.advance.eq(taken & ~walker.final),
            runs.advance.eq(taken & walker.last),
            self.request.payload.eq(now.request),
            self.request.valid.eq(vectors.o.valid & ~held & ~now.outside & (~now.first | begins)),
            self.fired.eq(self.request.valid & self.request.ready),
            vectors.o.ready.eq(self.fired),
            self.first.eq(now.first),
            self.row.eq(now.row),
            self.accumulate.eq(now.accumulate),
            feeder.switched.eq(multiplies & now.first),
        ]
        self._spacing(m, clear, now, multiplies)
        # The last request ended its instruction, whose sums are awaited then.
        ended = Signal(reset_less=True)
        with m.If(self.fired):
            m.d.sync += ended.eq(now.final)
        self._ends(m, stopped, now, vectors.o.valid, running | vectors.o.valid)
        with m.If(self.fired):
            m.d.comb += self.activity.eq(Activity.BUSY)
        with m.Elif(self.request.valid):
            m.d.comb += self.activity.eq(Activity.MEMORY)
        with m.Elif(Mux(vectors.o.valid, clear | ~ended, running) | feeder.waiting):
            m.d.comb += self.activity.eq(Activity.WEIGHTS)
        with m.Elif(~self.idle):
            m.d.comb += self.activity.eq(Activity.DRAIN)
        return m

    def _moves(
        self, m: Module, order: MoveOrder, now: data.View, begin: Value, halted: Value
    ) -> Value:
        """Drive the outputs of MOVE_WEIGHTS; return True if its first request may be taken."""
        feeder = self.feeder
        m.submodules.order = order
        # The response of a fault is known in its cycle, the fault two cycles later.
        refused = Signal()
        m.d.sync += refused.eq(self.read_fault)
        m.d.comb += [
            order.begin.eq(begin & feeder.move),
            order.fired.eq(self.fired & now.move),
            order.final.eq(now.final),
            order.row.eq(now.row),
            order.start.eq(self.start),
            feeder.hold.eq(order.hold),
            self.move.eq(now.move),
            self.block.eq(now.block),
            self.drop.eq(self.read_fault | refused | halted),
        ]
        return order.settled

    def _spacing(self, m: Module, clear: Signal, now: data.View, multiplies: Value) -> None:
        """Drive ``clear``: a pass may add to the rows of the pass before, see ``Accumulators``."""
        pixels = Signal(range(5), init=1)
        gap = Signal(range(4))
        m.d.comb += clear.eq((gap == 0) | ~now.accumulate)
        with m.If(gap != 0):
            m.d.sync += gap.eq(gap - 1)
        with m.If(multiplies):
            m.d.sync += pixels.eq(Mux(now.last, 1, Mux(pixels == 4, 4, pixels + 1)))
            with m.If(now.final):
                m.d.sync += gap.eq(3)
            with m.Elif(now.last & ((pixels != 1) if self.forwards else Const(1))):
                m.d.sync += gap.eq(4 - pixels)

    def _ends(
        self, m: Module, stopped: Signal, now: data.View, valid: Value, running: Value
    ) -> None:
        """Drive ``done``, ``idle`` and the first fault."""
        feeder = self.feeder
        outside = valid & now.outside
        finals = Signal(self.results_latency)
        draining = Signal(range(self.results_latency + 1))
        m.d.sync += finals.eq((finals << 1) | (self.fired & now.final))
        with m.If(self.fired):
            m.d.sync += draining.eq(self.results_latency)
        with m.Elif(draining != 0):
            m.d.sync += draining.eq(draining - 1)
        done: Value = finals[-1] & ~stopped
        m.d.comb += [
            self.done.eq(done & ~self.wrong if self.parity else done),
            self.idle.eq((draining == 0) & (self.abort | stopped | ~(running | feeder.waiting))),
        ]
        # One cycle late, but before `done`.
        refused = Signal()
        m.d.sync += refused.eq(self.read_fault)
        m.submodules.fired_tag = fired_tag = Delay(
            streams.TAG_BITS, cycles=self.read_latency + 1, reset_less=True
        )
        m.d.comb += [fired_tag.i.eq(now.tag), self.fault.code.eq(isa.Error.RANGE)]
        with m.If(refused):
            m.d.comb += self.fault.tag.eq(fired_tag.o)
        with m.Elif(outside):
            m.d.comb += self.fault.tag.eq(now.tag)
        with m.Else():
            m.d.comb += self.fault.tag.eq(feeder.current.tag)
        faults: Value = refused | outside | feeder.outside
        if self.parity:
            # A wrong word belongs to the oldest instruction that is not done.
            oldest = Signal(streams.TAG_BITS)
            m.d.sync += oldest.eq(oldest + finals[-1])
            with m.If(self.wrong):
                m.d.comb += [
                    self.fault.code.eq(isa.Error.MEMORY),
                    self.fault.tag.eq(oldest),
                ]
            faults |= self.wrong
        m.d.comb += self.fault_valid.eq(~stopped & faults)
        with m.If(self.fault_valid):
            m.d.sync += stopped.eq(1)
