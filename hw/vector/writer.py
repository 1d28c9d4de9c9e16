"""Writer of results to the unified buffer."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.lib.delay import Delay
from celosia.hw.vector.task import MARK, VectorSizes


class UnifiedWriter(wiring.Component):
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
        As of ``Pipe``. At most ``VectorSizes.depth`` results wait.
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

    result: data.View
    bytes: data.View
    descriptor: data.View
    pop: Signal
    slot: Signal
    stop: Signal
    unified_write: stream.Interface
    write_fault: Signal
    finished: Signal
    fault: Signal
    waits: Signal
    settling: Signal

    def __init__(self, *, sizes: VectorSizes, visible_cycles: int) -> None:
        if visible_cycles < 1:
            raise ValueError(f"visible_cycles: wanted at least 1, got {visible_cycles}")
        self.sizes = sizes
        self.visible_cycles = visible_cycles
        write = streams.unified_write(rows=sizes.rows, unified_bytes=sizes.unified_bytes)
        super().__init__(
            {
                "result": In(MARK),
                "bytes": In(data.ArrayLayout(signed(8), sizes.lanes)),
                "descriptor": In(sizes.descriptor),
                "pop": Out(1),
                "slot": In(1),
                "stop": In(1),
                "unified_write": Out(stream.Signature(write)),
                "write_fault": In(1),
                "finished": Out(1),
                "fault": Out(1),
                "waits": Out(1),
                "settling": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        layout = data.StructLayout({"slot": 1, "fault": 1, "bytes": 8 * sizes.lanes})
        m.submodules.results = results = SyncFIFOBuffered(width=layout.size, depth=sizes.depth)
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
        lasts = Delay(1, cycles=self.visible_cycles)
        m.submodules.lasts = lasts
        m.d.sync += ages.eq((ages << 1) | taken)
        settled = ages[-1]
        m.d.comb += [
            lasts.i.eq(taken & self.descriptor.last),
            self.settling.eq(ages.any()),
            self.fault.eq((there & bad) | (settled & self.write_fault)),
            self.finished.eq(lasts.o & ~self.write_fault),
        ]
        return m
