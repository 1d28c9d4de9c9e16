"""Matrix unit: control, weight buffer, array and accumulators."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, stream, wiring

from celosia.hw import streams
from celosia.hw.lib.component import In, Out, drive
from celosia.hw.lib.delay import DelayLine, delayed
from celosia.hw.matrix.control import MatrixControl
from celosia.hw.matrix.moves import RowWrites
from celosia.hw.matrix.prefetcher import INSTRUCTION
from celosia.hw.matrix.shared import array_of
from celosia.hw.matrix.verdict import Verdict
from celosia.hw.memory import accumulators
from celosia.hw.memory.accumulators import Accumulators
from celosia.hw.memory.weight_buffer import WeightBuffer, weights_payload


class MatrixUnit(streams.Unit):
    """Executes MATMUL and MOVE_WEIGHTS; holds the weight buffer and the accumulators.

    Parameters
    ----------
    rows, columns, unified_bytes, weight_tiles, weight_rows, accumulator_depth, bus_bytes : int
        See ``Config``.
    dsp_columns : int
        See ``Config``.
    cells : str
        See ``Config``.
    read_latency : int
        Cycles from a request taken by the unified buffer to its response.
    parity : bool
        Words of its memories, and of the unified buffer, have parity bits.
    forwards, skid, serial_skips, activation_weights : bool
        See ``Config``.

    Members
    -------
    instruction, done, fault_valid, fault, abort, idle, activity
        See "Contract of a unit" in ``docs/design/architecture.md``.
    request : Out(stream of ``streams.unified_read``)
        Reads of activations, one vector each.
    read_valid, read_data, read_fault : In(1), In(ArrayLayout(8, rows)), In(1)
        Response, ``read_latency`` cycles after its request was taken: bytes in lane order, and that
        a lane is outside the buffer. The unit counts the cycles and does not read ``read_valid``;
        ``read_fault`` is low in cycles without a response of this unit.
    read_wrong : In(1)
        With ``parity``, one cycle after a response: a lane had wrong parity.
    weights : In(stream of ``weights_payload``)
        Writes of the weight buffer. Always taken but while MOVE_WEIGHTS writes.
    accumulator_read, sums, accumulator_write : In(read_layout), Out, In(write_layout)
        Ports of the vector unit: ``read``, ``read_sums``, ``write`` of ``Accumulators``.
    sums_wrong : Out(columns)
        With ``parity``, one cycle after ``sums``: sums of wrong parity.

    Timing
    ------
    One vector enters the array each cycle. Its sums can be read ``results_latency`` cycles after
    its request was taken. "Timing of a pass" in ``docs/design/timing.md`` has all steps.
    """

    def __init__(
        self,
        *,
        rows: int,
        columns: int,
        unified_bytes: int,
        weight_tiles: int,
        weight_rows: int,
        accumulator_depth: int,
        bus_bytes: int,
        dsp_columns: int,
        cells: str,
        read_latency: int,
        parity: bool = False,
        forwards: bool = True,
        skid: bool = True,
        serial_skips: bool = False,
        activation_weights: bool = False,
    ) -> None:
        self.parity = parity
        self.read_latency = read_latency
        sizes = {
            "rows": rows,
            "columns": columns,
            "weight_tiles": weight_tiles,
            "bus_bytes": bus_bytes,
        }
        self.row_writes = RowWrites(**sizes) if activation_weights else None
        self.buffer = WeightBuffer(
            **sizes,
            weight_rows=weight_rows,
            parity=parity,
            whole_rows=activation_weights,
        )
        self.array = array_of(
            rows=rows,
            columns=columns,
            weight_rows=weight_rows,
            dsp_columns=dsp_columns,
            cells=cells,
        )
        self.accumulators = Accumulators(
            columns=columns,
            depth=accumulator_depth,
            sum_bits=self.array.sum_bits,
            parity=parity,
            forwards=forwards,
        )
        # From a request taken to `Accumulators.enable`.
        self.enable_latency = read_latency + self.array.latency - Accumulators.SUM_LATENCY
        self.results_latency = self.enable_latency + self.accumulators.latency
        self.control = MatrixControl(
            rows=rows,
            unified_bytes=unified_bytes,
            weight_tiles=weight_tiles,
            weight_rows=weight_rows,
            accumulator_depth=accumulator_depth,
            read_latency=read_latency,
            results_latency=self.results_latency,
            parity=parity,
            forwards=forwards,
            skid=skid,
            serial_skips=serial_skips,
            columns=columns,
            blocks=self.row_writes.blocks if self.row_writes else 0,
        )
        payload = weights_payload(**sizes)
        read = streams.unified_read(rows=rows, unified_bytes=unified_bytes)
        self.request = Out(stream.Signature(read))
        self.read_valid = In(1)
        self.read_data = In(data.ArrayLayout(8, rows))
        self.read_fault = In(1)
        self.weights = In(stream.Signature(payload))
        self.accumulator_read = In(accumulators.read_layout(depth=accumulator_depth))
        self.sums = Out(self.accumulators.read_sums.shape())
        self.accumulator_write = In(
            accumulators.write_layout(depth=accumulator_depth, columns=columns)
        )
        if parity:
            self.read_wrong = In(1)
            self.sums_wrong = Out(columns)
        super().__init__(INSTRUCTION)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.control = control = self.control
        m.submodules.buffer = buffer = self.buffer
        m.submodules.array = array = self.array
        m.submodules.accumulators = sums = self.accumulators
        wiring.connect(m, control.instruction, wiring.flipped(self.instruction))
        wiring.connect(m, wiring.flipped(self.request), control.request)
        drive(m, self, control, streams.UNIT_OUTPUTS)
        drive(m, control, self, "abort read_fault")
        drive(m, buffer, control, "start tile")
        drive(m, array, buffer, "load weights")
        drive(m, sums, array, "sums")
        m.d.comb += [
            array.activations.eq(self.read_data),
            sums.read.eq(self.accumulator_read),
            sums.write.eq(self.accumulator_write),
            self.sums.eq(sums.read_sums),
        ]

        # Row and `accumulate` of a pixel, delayed from its request to the accumulators. A row of
        # MOVE_WEIGHTS is needed on the way.
        beside = data.StructLayout({"row": control.row.shape(), "accumulate": 1})
        late = self.read_latency if self.row_writes else self.enable_latency
        first = entry = DelayLine(beside, late)
        m.submodules.first_entry = first
        drive(m, first.i, control, "row accumulate")
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
        drive(m, sums, entry.o, "row accumulate")
        m.d.comb += [
            array.switch.eq(switch[-1]),
            sums.enable.eq(valid[-1] & ~control.stopped),
        ]
        if self.parity:
            m.submodules.verdict = verdict = Verdict(
                read_latency=self.read_latency,
                verdict_latency=buffer.verdict_latency,
                results_latency=self.results_latency,
            )
            drive(m, verdict, self, "read_wrong")
            m.d.comb += [
                verdict.begins.eq(multiplies & control.first),
                verdict.tile_wrong.eq(buffer.wrong),
                self.sums_wrong.eq(sums.read_wrong),
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
            writes.data.eq(self.read_data),
        ]
        wiring.connect(m, writes.beats, wiring.flipped(self.weights))
        wiring.connect(m, writes.o, self.buffer.write)
