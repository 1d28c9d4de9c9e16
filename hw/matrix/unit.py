"""Matrix unit: control, weight buffer, array and accumulators."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, stream, wiring

from celosia.hw import streams
from celosia.hw.lib.component import In, Out
from celosia.hw.lib.delay import DelayLine, delayed
from celosia.hw.matrix.control import MatrixControl
from celosia.hw.matrix.moves import RowWrites
from celosia.hw.matrix.prefetcher import INSTRUCTION
from celosia.hw.matrix.shared import array_of
from celosia.hw.matrix.sizes import MatrixSizes
from celosia.hw.matrix.verdict import TileVerdict, Verdict
from celosia.hw.memory.accumulators import AccumulatorPort, Accumulators
from celosia.hw.memory.weight_buffer import WeightBuffer, weights_payload


class MatrixUnit(streams.Unit):
    """Executes MATMUL and MOVE_WEIGHTS; holds the weight buffer and the accumulators.

    Parameters
    ----------
    sizes : MatrixSizes
        Sizes of the unit.
    read_latency : int
        Cycles from a request taken by the unified buffer to its response.

    Members
    -------
    instruction, done, fault_valid, fault, abort, idle, activity
        See "Contract of a unit" in ``docs/design/architecture.md``.
    reads : Out(``streams.UnifiedReads``)
        Reads of activations, one vector each. A response comes ``read_latency`` cycles after its
        request was taken: the unit counts the cycles and does not read ``valid``.
    weights : In(stream of ``weights_payload``)
        Writes of the weight buffer. Always taken but while MOVE_WEIGHTS writes.
    accumulator_port : In(AccumulatorPort)
        Port of the vector unit.

    Timing
    ------
    One vector enters the array each cycle. Its sums can be read ``results_latency`` cycles after
    its request was taken. "Timing of a pass" in ``docs/design/timing.md`` has all steps.
    """

    def __init__(self, *, sizes: MatrixSizes, read_latency: int) -> None:
        self.sizes = sizes
        self.read_latency = read_latency
        self.row_writes = RowWrites(**sizes.tile) if sizes.blocks else None
        self.buffer = WeightBuffer(
            **sizes.tile,
            weight_rows=sizes.weight_rows,
            parity=sizes.parity,
            whole_rows=sizes.activation_weights,
        )
        self.array = array_of(
            rows=sizes.rows,
            columns=sizes.columns,
            weight_rows=sizes.weight_rows,
            dsp_columns=sizes.dsp_columns,
            cells=sizes.cells,
        )
        self.accumulators = Accumulators(
            columns=sizes.columns,
            depth=sizes.accumulator_depth,
            sum_bits=self.array.sum_bits,
            parity=sizes.parity,
            forwards=sizes.forwards,
        )
        # From a request taken to `Accumulators.enable`.
        self.enable_latency = read_latency + self.array.latency - Accumulators.SUM_LATENCY
        self.results_latency = self.enable_latency + self.accumulators.latency
        self.control = MatrixControl(
            sizes=sizes, read_latency=read_latency, results_latency=self.results_latency
        )
        self.reads = Out(streams.UnifiedReads(rows=sizes.rows, unified_bytes=sizes.unified_bytes))
        self.weights = In(stream.Signature(weights_payload(**sizes.tile)))
        self.accumulator_port = In(
            AccumulatorPort(columns=sizes.columns, depth=sizes.accumulator_depth)
        )
        super().__init__(INSTRUCTION)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        m.submodules.control = control = self.control
        m.submodules.buffer = buffer = self.buffer
        m.submodules.array = array = self.array
        m.submodules.accumulators = sums = self.accumulators
        wiring.connect(m, control.instruction, wiring.flipped(self.instruction))
        wiring.connect(m, wiring.flipped(self.reads.request), control.request)
        wiring.connect(m, wiring.flipped(self.accumulator_port), sums.port)
        self.report(m, control)
        m.d.comb += [
            control.abort.eq(self.abort),
            control.read_fault.eq(self.reads.fault),
            buffer.start.eq(control.start),
            buffer.tile.eq(control.tile),
            array.load.eq(buffer.load),
            array.weights.eq(buffer.weights),
            array.activations.eq(self.reads.data),
            sums.sums.eq(array.sums),
        ]

        # Row and `accumulate` of a pixel, delayed from its request to the accumulators. A row of
        # MOVE_WEIGHTS is needed on the way.
        beside = data.StructLayout({"row": control.row.shape(), "accumulate": 1})
        late = self.read_latency if self.row_writes else self.enable_latency
        first = entry = DelayLine(beside, late)
        m.submodules.first_entry = first
        m.d.comb += [first.i.row.eq(control.row), first.i.accumulate.eq(control.accumulate)]
        if self.row_writes:
            m.submodules.entry = entry = DelayLine(beside, self.enable_latency - late)
            m.d.comb += entry.i.eq(first.o)
            self._connect_moves(m, self.row_writes, first.o.row)
        else:
            wiring.connect(m, buffer.write, wiring.flipped(self.weights))
        multiplies: Value = control.fired
        if self.row_writes:
            multiplies &= ~control.move
        # Age of a request. The switch enters the array one cycle before the response.
        valid = Signal(self.enable_latency)
        switch = Signal(self.read_latency - 1)
        m.d.sync += [
            valid.eq(Cat(multiplies, valid)),
            switch.eq(Cat(multiplies & control.first, switch)),
        ]
        m.d.comb += [
            array.switch.eq(switch[-1]),
            sums.row.eq(entry.o.row),
            sums.accumulate.eq(entry.o.accumulate),
            sums.enable.eq(valid[-1] & ~control.stopped),
        ]
        if sizes.parity:
            m.submodules.tiles = tiles = TileVerdict(
                rows=sizes.rows, columns=sizes.columns, weight_rows=sizes.weight_rows
            )
            m.submodules.verdict = verdict = Verdict(
                read_latency=self.read_latency,
                verdict_latency=tiles.latency,
                results_latency=self.results_latency,
            )
            m.d.comb += [
                tiles.start.eq(control.start),
                tiles.ready.eq(buffer.ready),
                tiles.banks.eq(buffer.wrong),
                verdict.read_wrong.eq(self.reads.wrong),
                verdict.begins.eq(multiplies & control.first),
                verdict.tile_wrong.eq(tiles.wrong),
                control.wrong.eq(verdict.wrong | sums.wrong),
            ]
        return m

    def _connect_moves(self, m: Module, writes: RowWrites, row: Value) -> None:
        """Connect the writes of MOVE_WEIGHTS: responses of the unified buffer, at a ``row``."""
        control = self.control
        m.submodules.row_writes = writes
        late = self.read_latency
        moves = delayed(m, control.fired & control.move, late, name="moves")
        blocks = delayed(m, control.block, late, name="block", reset_less=True)
        m.d.comb += [
            writes.enable.eq(moves[-1] & ~control.drop),
            writes.row.eq(row),
            writes.block.eq(blocks[-1]),
            writes.data.eq(self.reads.data),
        ]
        wiring.connect(m, writes.beats, wiring.flipped(self.weights))
        wiring.connect(m, writes.o, self.buffer.write)
