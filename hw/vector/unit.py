"""Vector unit: window, bias, requantisation, clamp and table.

``VectorControl`` starts tasks. ``Source`` reads elements, ``WindowUnit`` combines them and gives
groups, ``Pipe`` requantises them, ``UnifiedWriter`` or ``AccumulatorWriter`` writes the results.
``Destination`` makes the descriptors meanwhile. The words are explained in ``task``.
"""

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.lib.component import Component
from celosia.hw.memory.accumulators import read_layout, write_layout
from celosia.hw.memory.parameter_memory import parameters_payload
from celosia.hw.softmax.stage import SoftmaxStage
from celosia.hw.vector.accumulate import AccumulatorWriter
from celosia.hw.vector.control import VectorControl
from celosia.hw.vector.destination import Destination
from celosia.hw.vector.pipe import Pipe, latency
from celosia.hw.vector.source import Source
from celosia.hw.vector.task import INSTRUCTION, Decoder, Step, VectorSizes
from celosia.hw.vector.watch import Watch
from celosia.hw.vector.window import WindowUnit
from celosia.hw.vector.writer import UnifiedWriter


class VectorUnit(Component):
    """Executes VECTOR, FILL and SOFTMAX.

    Parameters
    ----------
    rows, columns, lanes, unified_bytes, accumulator_depth, parameter_channels, tables, bus_bytes :
    int
        See ``Config``.
    visible_cycles : int
        Cycles from a write that the unified buffer takes to its ``write_fault``; reads see it by
        then. At least 1, with ``parity`` 2.
    primitive : str
        Multipliers of the requantiser, see ``Product``.
    parity : bool
        Words of its memories, and of those that it reads, have parity bits.
    requantizer, skid, softmax, elementwise_products : str, bool, bool, bool
        See ``Config``.

    Members
    -------
    instruction, done, fault_valid, fault, abort, idle, activity
        See "Contract of a unit" in ``docs/design/architecture.md``.
    unified_read, read_valid, read_data, read_fault : Out(stream of streams.unified_read), In, In, In
        Read port of the unified buffer. Responses come a fixed number of cycles after their
        requests, at most 16 for full rate.
    unified_write, write_fault : Out(stream of streams.unified_write), In(1)
        Write port of the unified buffer.
    accumulator_read, sums, accumulator_write : Out(read_layout), In, Out(write_layout)
        Ports of the accumulators.
    parameters : In(stream of parameters_payload)
        Writes of the parameter memory and the tables.
    read_wrong, sums_wrong : In(1), In(columns)
        With ``parity``, one cycle after a response and after ``sums``: words of wrong parity.

    Timing
    ------
    The first read of the unified buffer comes ``PREPARE`` = log2(lanes) + 6 cycles after the
    instruction was taken, of the accumulators one cycle earlier, if the task before permits.

    A read takes a row of the accumulators; in the unified buffer ``VectorSizes.read_groups``
    groups of a pixel, or one group if ``source_skip`` is not 0. The groups of a read take one cycle
    for each element of the window, or ``group_cycles`` for each group, whichever is more. FILL
    writes a group every ``group_cycles``.

    Raises
    ------
    ValueError
        If a core cannot have these sizes.
    """

    def __init__(
        self,
        *,
        rows: int,
        columns: int,
        lanes: int,
        unified_bytes: int,
        accumulator_depth: int,
        parameter_channels: int,
        tables: int,
        bus_bytes: int,
        visible_cycles: int,
        primitive: str = "portable",
        parity: bool = False,
        requantizer: str = "pipelined",
        skid: bool = True,
        softmax: bool = False,
        elementwise_products: bool = False,
    ) -> None:
        if parity and softmax:
            raise ValueError("softmax: wanted False with parity, got True")
        if parity and visible_cycles < 2:
            raise ValueError(f"visible_cycles: wanted at least 2 with parity, got {visible_cycles}")
        self.sizes = VectorSizes(
            rows=rows,
            columns=columns,
            lanes=lanes,
            unified_bytes=unified_bytes,
            accumulator_depth=accumulator_depth,
            parameter_channels=parameter_channels,
            tables=tables,
            primitive=primitive,
            parity=parity,
            requantizer=requantizer,
            skid=skid,
            softmax=softmax,
            elementwise_products=elementwise_products,
        )
        self.bus_bytes = bus_bytes
        self.PREPARE = self.sizes.lane_bits + 6
        self.writer = UnifiedWriter(sizes=self.sizes, visible_cycles=visible_cycles)
        unified = {"rows": rows, "unified_bytes": unified_bytes}
        payload = parameters_payload(
            bus_bytes=bus_bytes,
            parameter_channels=parameter_channels,
            tables=self.sizes.table_slots,
        )
        self.offset_bits = payload["offset"].width
        super().__init__(
            {
                **streams.unit_ports(INSTRUCTION),
                "unified_read": Out(stream.Signature(streams.unified_read(**unified))),
                "read_valid": In(1),
                "read_data": In(data.ArrayLayout(unsigned(8), rows)),
                "read_fault": In(1),
                "unified_write": Out(stream.Signature(streams.unified_write(**unified))),
                "write_fault": In(1),
                "accumulator_read": Out(read_layout(depth=accumulator_depth)),
                "sums": In(data.ArrayLayout(signed(32), columns)),
                "accumulator_write": Out(write_layout(depth=accumulator_depth, columns=columns)),
                "parameters": In(stream.Signature(payload)),
                **({"read_wrong": In(1), "sums_wrong": In(columns)} if parity else {}),
            }
        )

    def _walks(self, m: Module, control: VectorControl) -> tuple[Source, Destination]:
        """Return source and destination, connected with ``control``."""
        sizes = self.sizes
        m.submodules.decoder = decoder = Decoder(sizes=sizes)
        m.submodules.source = source = Source(sizes=sizes)
        m.submodules.destination = destination = Destination(sizes=sizes)
        wiring.connect(m, wiring.flipped(self.instruction), decoder.i)
        wiring.connect(m, decoder.o, control.instruction)
        decoded = decoder.o.payload
        m.d.comb += [
            control.prepared.eq(source.prepared & destination.prepared),
            control.running.eq(source.running | destination.running),
            control.issues.eq(source.issues),
            control.reads_wait.eq(source.waits),
            source.run.eq(decoded.source_run),
            source.skip_rows.eq(decoded.source_skip),
            destination.run.eq(decoded.destination_run),
            destination.skip_rows.eq(decoded.destination_skip),
            source.read_valid.eq(self.read_valid),
            source.read_data.eq(self.read_data),
            source.read_fault.eq(self.read_fault),
            source.sums.eq(self.sums),
        ]
        for number, walk in enumerate((source, destination)):
            m.d.comb += [
                walk.prepare.eq(control.prepare[number]),
                walk.launch.eq(control.launch),
                walk.task.eq(control.task),
                walk.stop.eq(control.stop),
            ]
        if sizes.softmax:
            # The steps before write nothing.
            step = control.task.step
            writes = (step == Step.NONE) | (step == Step.SHARE)
            m.d.comb += destination.launch.eq(control.launch & writes)
        wiring.connect(m, source.unified_read, wiring.flipped(self.unified_read))
        return source, destination

    def _pipe(self, m: Module, control: VectorControl, source: Source) -> tuple[Pipe, Value]:
        """Return the pipe, fed by ``source``, and that a group is used before it."""
        sizes = self.sizes
        m.submodules.window = window = WindowUnit(
            columns=sizes.columns, lanes=sizes.lanes, group_cycles=sizes.group_cycles
        )
        m.submodules.pipe = pipe = Pipe(sizes=sizes, bus_bytes=self.bus_bytes)
        wiring.connect(m, wiring.flipped(self.parameters), pipe.parameters)
        task = control.task
        m.d.comb += [
            window.launch.eq(control.launch),
            window.window.eq(task.window),
            window.element.eq(source.element),
            control.awaited.eq(~source.quiet),
            control.busy.eq(source.running | ~source.quiet | window.busy),
            pipe.task.eq(task),
            pipe.endings.eq(control.endings),
        ]
        if sizes.softmax:
            return pipe, self._softmax(m, control, window, pipe)
        m.d.comb += [
            pipe.launch.eq(control.launch),
            pipe.slot.eq(control.slot),
            pipe.group.eq(window.group),
        ]
        if sizes.group_cycles == 1:
            m.d.comb += pipe.next.eq(window.soon)
        return pipe, Const(0)

    def _softmax(self, m: Module, control: VectorControl, window: WindowUnit, pipe: Pipe) -> Value:
        """Connect the stage of SOFTMAX before the pipe; return that it uses a group."""
        m.submodules.softmax = stage = SoftmaxStage(sizes=self.sizes, offset_bits=self.offset_bits)
        m.d.comb += [
            stage.launch.eq(control.launch),
            stage.task.eq(control.task),
            stage.slot.eq(control.slot),
            stage.next.eq(window.soon),
            stage.group.eq(window.group),
            stage.written.eq(pipe.written),
            stage.scaled.eq(pipe.scaled[0]),
            pipe.launch.eq(stage.late_launch),
            pipe.slot.eq(stage.late_slot),
            pipe.next.eq(stage.late_next),
            pipe.group.eq(stage.late_group),
            pipe.given.eq(stage.given),
            control.rows_finished.eq(stage.finished),
            control.rows_fault.eq(stage.fault),
        ]
        return stage.used

    def _ends(
        self,
        m: Module,
        control: VectorControl,
        source: Source,
        pipe: Pipe,
        described: data.View,
    ) -> tuple[Value, data.View]:
        """Connect the writers; return the use of a descriptor, and the read of sums to add to."""
        m.submodules.writer = writer = self.writer
        m.submodules.adder = adder = AccumulatorWriter(sizes=self.sizes)
        m.d.comb += [
            adder.soon.eq(pipe.soon),
            adder.scaled.eq(pipe.scaled),
            adder.endings.eq(control.endings),
            adder.sums.eq(self.sums),
            self.accumulator_write.eq(adder.accumulator_write),
            control.sums_finished.eq(adder.finished),
            control.sums_fault.eq(adder.fault),
            writer.result.eq(pipe.result),
            writer.bytes.eq(pipe.bytes),
            writer.slot.eq(control.oldest),
            writer.write_fault.eq(self.write_fault),
            control.bytes_finished.eq(writer.finished),
            control.bytes_fault.eq(writer.fault),
            control.writes_wait.eq(writer.waits),
            control.settling.eq(writer.settling),
        ]
        for end in (adder, writer):
            m.d.comb += [end.descriptor.eq(described), end.stop.eq(control.stop)]
        wiring.connect(m, writer.unified_write, wiring.flipped(self.unified_write))
        sizes = self.sizes
        if sizes.parity:
            m.submodules.watch = watch = Watch(sizes=sizes)
            m.d.comb += [
                adder.sums_wrong.eq(self.sums_wrong),
                watch.launch.eq(control.launch),
                watch.task.eq(control.task),
                watch.slot.eq(control.slot),
                watch.read_wrong.eq(self.read_wrong),
                watch.rows.eq(source.accumulator_read.enable),
                watch.sums_wrong.eq(self.sums_wrong),
                watch.group.eq(pipe.used if sizes.group_cycles > 1 else pipe.next),
                watch.channels_wrong.eq(pipe.channels_wrong),
                watch.result.eq(pipe.result),
                watch.endings.eq(control.endings),
                watch.values_wrong.eq(pipe.values_wrong),
                watch.added_wrong.eq(adder.wrong),
                watch.oldest.eq(control.oldest),
                control.wrong.eq(watch.wrong),
                control.wrong_slot.eq(watch.wrong_slot),
            ]
        return adder.pop | writer.pop, adder.accumulator_read

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        m.submodules.control = control = VectorControl(
            sizes=sizes,
            settle_cycles=latency(sizes)
            + sizes.column_groups * sizes.group_cycles
            + 5
            + SoftmaxStage.LATENCY * sizes.softmax,
        )
        m.d.comb += [
            self.done.eq(control.done),
            self.fault_valid.eq(control.fault_valid),
            self.fault.eq(control.fault),
            control.abort.eq(self.abort),
            self.idle.eq(control.idle),
            self.activity.eq(control.activity),
        ]
        source, destination = self._walks(m, control)
        pipe, used_before = self._pipe(m, control, source)

        layout = sizes.descriptor
        m.submodules.places = places = SyncFIFOBuffered(width=layout.size, depth=sizes.depth)
        used, adder_read = self._ends(m, control, source, pipe, data.View(layout, places.r_data))
        read = self.accumulator_read
        # Registered, because all lanes of a descriptor depend on it. One entry is kept for the
        # descriptor that may enter in the same cycle.
        roomy = Signal(init=1)
        m.d.sync += roomy.eq(places.w_level < sizes.depth - 1)
        # Selects the reader of the accumulators; constant while a task reads them. Before the first
        # descriptor the row of ``adder`` is unknown in simulation, and so the sums would be, which
        # are the elements of FILL.
        of_adder = Signal(reset_less=True)
        from_rows = control.task.source == isa.Space.ACCUMULATORS
        to_rows = control.task.destination == isa.Space.ACCUMULATORS
        with m.If(control.launch & (from_rows | to_rows)):
            m.d.sync += of_adder.eq(~from_rows)
        m.d.comb += [
            places.w_data.eq(destination.descriptors.payload),
            places.w_en.eq(destination.descriptors.valid & roomy),
            destination.descriptors.ready.eq(roomy),
            source.released.eq(used | used_before),
            places.r_en.eq(used),
            # Never both: a task that reads sums waits for the end of one that adds to them.
            read.enable.eq(source.accumulator_read.enable | adder_read.enable),
            read.row.eq(Mux(of_adder, adder_read.row, source.accumulator_read.row)),
        ]
        return m
