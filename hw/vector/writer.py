"""Writers of results: to the unified buffer, and both memories together."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import data, stream, wiring

from celosia.hw import streams
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.delay import delayed
from celosia.hw.memory.accumulators import read_layout, write_layout
from celosia.hw.vector.accumulate import AccumulatorWriter
from celosia.hw.vector.datapath import group_queue
from celosia.hw.vector.task import MARK, VectorSizes


class UnifiedWriter(Component):
    """Writer of the unified buffer: queue after the pipe, and the write port.

    Results wait until the buffer takes them, and until the task before is done: the buffer reports
    faults late, and no result of a later task may be written by then.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.
    visible_cycles : int
        Cycles from a write taken to its ``write_fault`` and to reads that see it, at least 1.

    Members
    -------
    result, bytes : In(MARK), In(ArrayLayout(signed(8), lanes))
        As in ``Pipe``. At most ``groups_in_flight`` results wait.
    descriptor, pop : In(VectorSizes.descriptor), Out(1)
        Destination of the oldest result; it is used in this cycle.
    slot : In(1)
        Slot of the oldest task that is not done.
    stop : In(1)
        No writes.
    unified_write, write_fault : Out(stream), In(1)
        Write port of the unified buffer.
    finished : Out(1)
        The last write of a task is visible and had no fault.
    fault : Out(1)
        A result of the oldest task cannot be written, or its write had a fault.
    waits : Out(1)
        The buffer refuses a write.
    settling : Out(1)
        A write that was taken is not visible yet.

    Timing
    ------
    One write each cycle; ``finished`` comes ``visible_cycles`` cycles after the last one was taken.
    """

    def __init__(self, *, sizes: VectorSizes, visible_cycles: int) -> None:
        if visible_cycles < 1:
            raise ValueError(f"visible_cycles: wanted at least 1, got {visible_cycles}")
        self.sizes = sizes
        self.visible_cycles = visible_cycles
        write = streams.unified_write(rows=sizes.rows, unified_bytes=sizes.unified_bytes)
        self.result = In(MARK)
        self.bytes = In(data.ArrayLayout(signed(8), sizes.lanes))
        self.descriptor = In(sizes.descriptor)
        self.pop = Out(1)
        self.slot = In(1)
        self.stop = In(1)
        self.unified_write = Out(stream.Signature(write))
        self.write_fault = In(1)
        self.finished = Out(1)
        self.fault = Out(1)
        self.waits = Out(1)
        self.settling = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        layout = data.StructLayout({"slot": 1, "fault": 1, "bytes": 8 * sizes.lanes})
        m.submodules.results = results = group_queue(sizes, layout)
        new = Signal(layout)
        oldest = data.View(layout, results.r_data)
        there = results.r_rdy & (oldest.slot == self.slot) & ~self.stop
        bad = oldest.fault | self.descriptor.outside
        taken = self.unified_write.valid & self.unified_write.ready
        m.d.comb += [
            new.slot.eq(self.result.tag.slot),
            new.fault.eq(self.result.tag.fault),
            new.bytes.eq(self.bytes),
            results.w_data.eq(new),
            results.w_en.eq(self.result.valid & ~self.result.tag.to_accumulators),
            results.r_en.eq(taken),
            self.pop.eq(taken),
            self.unified_write.valid.eq(there & ~bad),
            self.waits.eq(self.unified_write.valid & ~self.unified_write.ready),
        ]
        write = self.unified_write.payload
        m.d.comb += [write.address.eq(self.descriptor.address), write.mask.eq(self.descriptor.mask)]
        for lane in range(sizes.lanes):
            m.d.comb += [
                write.skip[lane].eq(self.descriptor.skip[lane]),
                write.data[lane].eq(oldest.bytes.word_select(lane, 8)),
            ]

        ages = Signal(self.visible_cycles)
        m.d.sync += ages.eq((ages << 1) | taken)
        settled = ages[-1]
        lasts = delayed(m, taken & self.descriptor.last, self.visible_cycles, name="last")
        m.d.comb += [
            self.settling.eq(ages.any()),
            self.fault.eq((there & bad) | (settled & self.write_fault)),
            self.finished.eq(lasts[-1] & ~self.write_fault),
        ]
        return m


class Writers(Component):
    """Writers of both memories: ``UnifiedWriter``, ``AccumulatorWriter``, and their descriptors.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.
    visible_cycles : int
        See ``UnifiedWriter``.

    Members
    -------
    descriptors : In(stream of VectorSizes.descriptor)
        Destinations of the results, in their order; each comes before its result.
    soon, scaled, result, bytes : In
        As in ``Pipe``.
    endings, oldest, stop : In
        As in ``VectorControl``.
    used : Out(1)
        A result leaves, with its descriptor.
    unified_write, write_fault : Out(stream), In(1)
        Write port of the unified buffer.
    accumulator_read, sums, accumulator_write : Out(read_layout), In, Out(write_layout)
        Ports of the accumulators.
    bytes_finished, bytes_fault, sums_finished, sums_fault : Out(1)
        ``finished`` and ``fault`` of each writer.
    writes_wait, settling : Out(1)
        ``waits`` and ``settling`` of ``UnifiedWriter``.
    sums_wrong, added_wrong : In(columns), Out(1)
        With parity: ``sums_wrong`` and ``wrong`` of ``AccumulatorWriter``.

    Timing
    ------
    As in the writers. A descriptor can be used two cycles after it was taken.
    """

    def __init__(self, *, sizes: VectorSizes, visible_cycles: int) -> None:
        self.sizes = sizes
        self.writer = UnifiedWriter(sizes=sizes, visible_cycles=visible_cycles)
        self.adder = AccumulatorWriter(sizes=sizes)
        depth, columns = sizes.accumulator_depth, sizes.columns
        self.used = Out(1)
        self.bytes_finished = Out(1)
        self.bytes_fault = Out(1)
        self.sums_finished = Out(1)
        self.sums_fault = Out(1)
        self.writes_wait = Out(1)
        self.settling = Out(1)
        self.descriptors = In(stream.Signature(sizes.descriptor))
        self.soon = In(MARK)
        self.scaled = In(data.ArrayLayout(signed(32), sizes.lanes))
        self.result = In(MARK)
        self.bytes = In(data.ArrayLayout(signed(8), sizes.lanes))
        self.endings = In(data.ArrayLayout(sizes.ending, 2))
        self.oldest = In(1)
        self.stop = In(1)
        self.unified_write = Out(self.writer.unified_write.signature)
        self.write_fault = In(1)
        self.accumulator_read = Out(read_layout(depth=depth))
        self.sums = In(data.ArrayLayout(signed(32), columns))
        self.accumulator_write = Out(write_layout(depth=depth, columns=columns))
        self.sums_wrong = In(columns)
        self.added_wrong = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.descriptor_queue = queue = group_queue(self.sizes, self.sizes.descriptor)
        m.submodules.writer = writer = self.writer
        m.submodules.adder = adder = self.adder
        wiring.connect(m, writer.unified_write, wiring.flipped(self.unified_write))
        m.d.comb += [
            queue.w_en.eq(self.descriptors.valid),
            queue.w_data.eq(self.descriptors.payload),
            self.descriptors.ready.eq(queue.w_rdy),
            writer.result.eq(self.result),
            writer.bytes.eq(self.bytes),
            writer.write_fault.eq(self.write_fault),
            writer.stop.eq(self.stop),
            adder.soon.eq(self.soon),
            adder.scaled.eq(self.scaled),
            adder.endings.eq(self.endings),
            adder.sums.eq(self.sums),
            adder.stop.eq(self.stop),
            self.accumulator_read.eq(adder.accumulator_read),
            self.accumulator_write.eq(adder.accumulator_write),
            self.settling.eq(writer.settling),
            writer.slot.eq(self.oldest),
            writer.descriptor.eq(queue.r_data),
            adder.descriptor.eq(queue.r_data),
            self.used.eq(adder.pop | writer.pop),
            queue.r_en.eq(self.used),
            self.writes_wait.eq(writer.waits),
            self.bytes_finished.eq(writer.finished),
            self.bytes_fault.eq(writer.fault),
            self.sums_finished.eq(adder.finished),
            self.sums_fault.eq(adder.fault),
            adder.sums_wrong.eq(self.sums_wrong),
            self.added_wrong.eq(adder.wrong),
        ]
        return m
