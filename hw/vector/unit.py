"""Vector unit: window, bias, requantisation, clamp and table.

``VectorControl`` starts tasks. ``Source`` reads elements, ``Datapath`` combines and requantises
them, ``Writers`` writes the results. ``Destination`` makes the descriptors meanwhile. The words are
explained in ``task``.
"""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring

from celosia.hw import streams
from celosia.hw.lib.component import In, Out
from celosia.hw.memory.accumulators import AccumulatorPort
from celosia.hw.memory.parameter_memory import parameters_payload
from celosia.hw.memory.runs import prepare_cycles
from celosia.hw.vector.control import VectorControl
from celosia.hw.vector.datapath import Datapath, settle_cycles
from celosia.hw.vector.destination import Destination
from celosia.hw.vector.source import RowReads, Source
from celosia.hw.vector.task import INSTRUCTION, Decoder, Step, VectorSizes
from celosia.hw.vector.watch import Watch
from celosia.hw.vector.writer import Writers


class VectorUnit(streams.Unit):
    """Executes VECTOR, FILL and SOFTMAX.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.
    bus_bytes : int
        See ``Config``.
    visible_cycles : int
        Cycles from a write that the unified buffer takes to its ``write_fault``; reads see it by
        then. At least 2.

    Members
    -------
    instruction, done, fault_valid, fault, abort, idle, activity
        See "Contract of a unit" in ``docs/design/architecture.md``.
    reads : Out(``streams.UnifiedReads``)
        Reads of the unified buffer. Responses come a fixed number of cycles after the requests, at
        most 16 for full rate.
    unified_write, write_fault : Out(stream of streams.unified_write), In(1)
        Write port of the unified buffer.
    accumulator_port : Out(AccumulatorPort)
        Port of the accumulators.
    parameters : In(stream of parameters_payload)
        Writes of the parameter memory and the tables.

    Timing
    ------
    The first read of the unified buffer comes ``PREPARE`` cycles after the
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

    def __init__(self, *, sizes: VectorSizes, bus_bytes: int, visible_cycles: int) -> None:
        if visible_cycles < 2:
            raise ValueError(f"visible_cycles: wanted at least 2, got {visible_cycles}")
        self.sizes = sizes
        self.bus_bytes = bus_bytes
        # The launch comes one cycle after the skips are prepared.
        self.PREPARE = prepare_cycles(sizes.lanes) + 1 + Source.LATENCY
        self.writers = Writers(sizes=sizes, visible_cycles=visible_cycles)
        unified = {"rows": sizes.rows, "unified_bytes": sizes.unified_bytes}
        payload = parameters_payload(
            bus_bytes=bus_bytes,
            parameter_channels=sizes.parameter_channels,
            tables=sizes.table_slots,
        )
        self.reads = Out(streams.UnifiedReads(**unified))
        self.unified_write = Out(stream.Signature(streams.unified_write(**unified)))
        self.write_fault = In(1)
        self.accumulator_port = Out(
            AccumulatorPort(columns=sizes.columns, depth=sizes.accumulator_depth)
        )
        self.parameters = In(stream.Signature(payload))
        super().__init__(INSTRUCTION)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        m.submodules.control = control = VectorControl(
            sizes=sizes, settle_cycles=settle_cycles(sizes)
        )
        m.submodules.datapath = datapath = Datapath(sizes=sizes, bus_bytes=self.bus_bytes)
        m.submodules.writers = writers = self.writers
        m.submodules.reads = reads = RowReads(sizes=sizes)
        source, destination = self._sides(m, control)
        wiring.connect(m, wiring.flipped(self.parameters), datapath.parameters)
        wiring.connect(m, control.launch, reads.launch)
        wiring.connect(m, control.launches[2], datapath.launch)
        wiring.connect(m, destination.descriptors, writers.descriptors)
        wiring.connect(m, writers.unified_write, wiring.flipped(self.unified_write))
        self.report(m, control)
        m.d.comb += [
            control.abort.eq(self.abort),
            datapath.endings.eq(control.endings),
            datapath.element.eq(source.element),
            writers.soon.eq(datapath.soon),
            writers.scaled.eq(datapath.scaled),
            writers.result.eq(datapath.result),
            writers.bytes.eq(datapath.bytes),
            writers.endings.eq(control.endings),
            writers.oldest.eq(control.oldest_writes),
            writers.stop.eq(control.stop_writes),
            writers.write_fault.eq(self.write_fault),
            control.bytes_finished.eq(writers.bytes_finished),
            control.bytes_fault.eq(writers.bytes_fault),
            control.sums_finished.eq(writers.sums_finished),
            control.sums_fault.eq(writers.sums_fault),
            control.writes_wait.eq(writers.writes_wait),
            control.settling.eq(writers.settling),
            control.awaited.eq(~source.quiet),
            control.busy.eq(source.running | ~source.quiet | datapath.busy),
            source.released.eq(writers.used | datapath.used),
            reads.source.eq(source.accumulator_read),
            reads.adder.eq(writers.accumulator_read),
            writers.sums.eq(self.accumulator_port.sums),
            writers.sums_wrong.eq(self.accumulator_port.wrong),
            self.accumulator_port.read.eq(reads.read),
            self.accumulator_port.write.eq(writers.accumulator_write),
        ]
        m.d.comb += [
            control.rows_finished.eq(datapath.rows_finished),
            control.rows_fault.eq(datapath.rows_fault),
        ]
        if sizes.parity:
            self._watch(m, control, source, datapath)
        return m

    def _sides(self, m: Module, control: VectorControl) -> tuple[Source, Destination]:
        """Return source and destination, connected with ``control``."""
        m.submodules.decoder = decoder = Decoder(sizes=self.sizes)
        m.submodules.source = source = Source(sizes=self.sizes)
        m.submodules.destination = destination = Destination(sizes=self.sizes)
        wiring.connect(m, wiring.flipped(self.instruction), decoder.i)
        wiring.connect(m, decoder.o, control.instruction)
        wiring.connect(m, source.unified_read, wiring.flipped(self.reads.request))
        m.d.comb += [
            source.read_valid.eq(self.reads.valid),
            source.read_data.eq(self.reads.data),
            source.read_fault.eq(self.reads.fault),
            source.sums.eq(self.accumulator_port.sums),
        ]
        m.d.comb += [
            control.issues.eq(source.issues),
            control.prepared.eq(source.prepared & destination.prepared),
            control.running.eq(source.running | destination.running),
            control.reads_wait.eq(source.waits),
        ]
        for number, (name, side) in enumerate((("source", source), ("destination", destination))):
            wiring.connect(m, control.launches[number], side.launch)
            m.d.comb += [
                side.stop.eq(control.stop),
                side.run.eq(decoder.o.payload[name].run),
                side.skip_rows.eq(decoder.o.payload[name].skip_rows),
            ]
            m.d.comb += side.prepare.eq(control.prepare[number])
        if self.sizes.softmax:
            # MAXIMUM and SUM write nothing: no descriptors.
            step = control.launch.task.step
            writes = (step == Step.NONE) | (step == Step.SHARE)
            m.d.comb += destination.launch.valid.eq(control.launches[1].valid & writes)
        return source, destination

    def _watch(self, m: Module, control: VectorControl, source: Source, datapath: Datapath) -> None:
        """Connect the attribution of words of wrong parity."""
        m.submodules.watch = watch = Watch(sizes=self.sizes)
        wiring.connect(m, control.launch, watch.launch)
        m.d.comb += [
            watch.endings.eq(control.endings),
            watch.oldest.eq(control.oldest),
            watch.read_wrong.eq(self.reads.wrong),
            watch.sums_wrong.eq(self.accumulator_port.wrong),
        ]
        m.d.comb += [
            watch.group.eq(datapath.group),
            watch.channels_wrong.eq(datapath.channels_wrong),
            watch.result.eq(datapath.result),
            watch.values_wrong.eq(datapath.values_wrong),
            watch.added_wrong.eq(self.writers.added_wrong),
            control.wrong.eq(watch.wrong),
            control.wrong_slot.eq(watch.wrong_slot),
        ]
        m.d.comb += watch.rows.eq(source.accumulator_read.enable)
