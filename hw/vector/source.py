"""Where elements come from: reads of the unified buffer or the accumulators, or nothing."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.matrix.accumulators import ACCUMULATOR_LATENCY, read_layout
from celosia.hw.memory.runs import Runs
from celosia.hw.vector.destination import is_outside
from celosia.hw.vector.nest import Nest
from celosia.hw.vector.task import VectorSizes, lane_mask

#: What is known of an element when it is asked for: its place in the window, and that there is
#: no such place.
ASKED = data.StructLayout({"first": 1, "last": 1, "outside": 1})


def element_layout(*, columns: int) -> data.StructLayout:
    """Return an element of a window: ``columns`` channels, or one group of them in front."""
    return data.StructLayout(
        {
            "valid": 1,
            "first": 1,
            "last": 1,
            "fault": 1,
            "values": data.ArrayLayout(signed(32), columns),
        }
    )


class Answers(wiring.Component):
    """Elements out of the answers to reads.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    ask_unified, ask_accumulators, ask_nothing : In(1)
        A read is taken, or, for nothing, an element comes in the next cycle. Only one kind until
        ``quiet``.
    asked : In(ASKED)
        With each of them.
    room : Out(1)
        One more read of the unified buffer may be asked.
    read_valid, read_data, read_fault, sums : In
        Answers, see the unit.
    element : Out(element_layout)
        Elements in the order asked.
    quiet : Out(1)
        No answer is awaited.

    Timing
    ------
    Elements come with the answers: of the accumulators ``ACCUMULATOR_LATENCY`` cycles after the read,
    of nothing one cycle after it was asked.
    """

    DEPTH = 16

    ask_unified: Signal
    ask_accumulators: Signal
    ask_nothing: Signal
    asked: data.View
    room: Signal
    read_valid: Signal
    read_data: data.View
    read_fault: Signal
    sums: data.View
    element: data.View
    quiet: Signal

    def __init__(self, *, sizes: VectorSizes) -> None:
        self.sizes = sizes
        super().__init__(
            {
                "ask_unified": In(1),
                "ask_accumulators": In(1),
                "ask_nothing": In(1),
                "asked": In(ASKED),
                "room": Out(1),
                "read_valid": In(1),
                "read_data": In(data.ArrayLayout(unsigned(8), sizes.rows)),
                "read_fault": In(1),
                "sums": In(data.ArrayLayout(signed(32), sizes.columns)),
                "element": Out(element_layout(columns=sizes.columns)),
                "quiet": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.awaited = awaited = SyncFIFO(width=ASKED.size, depth=self.DEPTH)
        late = [self.asked]
        late_valid = [self.ask_accumulators]
        for cycle in range(1, ACCUMULATOR_LATENCY + 1):
            asked = Signal(ASKED, name=f"asked_{cycle}", reset_less=True)
            valid = Signal(name=f"valid_{cycle}")
            m.d.sync += [asked.eq(late[-1]), valid.eq(late_valid[-1])]
            late.append(asked)
            late_valid.append(valid)
        # Registered, so that what decides to ask does not reach into the window unit.
        nothing = Signal()
        asked_nothing = Signal(ASKED, reset_less=True)
        m.d.sync += [nothing.eq(self.ask_nothing), asked_nothing.eq(self.asked)]
        now = Signal(ASKED)
        element = self.element
        m.d.comb += [
            self.room.eq(awaited.w_rdy),
            awaited.w_en.eq(self.ask_unified),
            awaited.w_data.eq(self.asked),
            awaited.r_en.eq(self.read_valid),
            self.quiet.eq(~awaited.r_rdy & ~Cat(nothing, late_valid[1:]).any()),
            now.eq(
                Mux(self.read_valid, awaited.r_data, Mux(late_valid[-1], late[-1], asked_nothing))
            ),
            element.valid.eq(self.read_valid | late_valid[-1] | nothing),
            element.first.eq(now.first),
            element.last.eq(now.last),
            element.fault.eq(now.outside | (self.read_valid & self.read_fault)),
        ]
        for column in range(self.sizes.columns):
            value = self.sums[column]
            if column < self.sizes.lanes:
                value = Mux(self.read_valid, self.read_data[column].as_signed(), value)
            m.d.comb += element["values"][column].eq(value)
        return m


class Source(wiring.Component):
    """Walks the source of a task and reads.

    The last read of a window waits until there is room for the groups that come of it, all the way
    to their write, and until those of the window before have left the window's register. So nothing
    behind ever waits.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    prepare, run, skip_rows, prepared, launch, task, stop
        As for ``Destination``.
    released : In(1)
        A group has been written, and leaves its room.
    unified_read, read_valid, read_data, read_fault : Out(stream), In, In, In
        Read port of the unified buffer.
    accumulator_read, sums : Out(read_layout), In
        Read port of the accumulators.
    element : Out(element_layout)
        Elements, in order.
    running : Out(1)
        There is something left to ask for.
    quiet : Out(1)
        No answer is awaited.
    issues : Out(1)
        An element is asked for in this cycle, or the window's register is the bottleneck.
    waits : Out(1)
        The unified buffer does not take a read.

    Timing
    ------
    First read in the cycle after ``launch``, then one each cycle.
    """

    prepare: Signal
    run: Signal
    skip_rows: Signal
    prepared: Signal
    launch: Signal
    task: data.View
    stop: Signal
    released: Signal
    unified_read: stream.Interface
    read_valid: Signal
    read_data: data.View
    read_fault: Signal
    accumulator_read: data.View
    sums: data.View
    element: data.View
    running: Signal
    quiet: Signal
    issues: Signal
    waits: Signal

    def __init__(self, *, sizes: VectorSizes) -> None:
        self.sizes = sizes
        read = streams.unified_read(rows=sizes.rows, unified_bytes=sizes.unified_bytes)
        super().__init__(
            {
                "prepare": In(1),
                "run": In(isa.COUNT_BITS),
                "skip_rows": In(sizes.row_bits),
                "prepared": Out(1),
                "launch": In(1),
                "task": In(sizes.task),
                "stop": In(1),
                "released": In(1),
                "unified_read": Out(stream.Signature(read)),
                "read_valid": In(1),
                "read_data": In(data.ArrayLayout(unsigned(8), sizes.rows)),
                "read_fault": In(1),
                "accumulator_read": Out(read_layout(depth=sizes.accumulator_depth)),
                "sums": In(data.ArrayLayout(signed(32), sizes.columns)),
                "element": Out(element_layout(columns=sizes.columns)),
                "running": Out(1),
                "quiet": Out(1),
                "issues": Out(1),
                "waits": Out(1),
            }
        )

    def _walk(self, m: Module, taken: Signal) -> tuple[Nest, Runs]:
        """Return the loops and runs, moved on by ``taken``."""
        sizes = self.sizes
        task = self.task
        m.submodules.runs = runs = Runs(
            lanes=sizes.lanes, row_bits=sizes.row_bits, count_bits=isa.COUNT_BITS
        )
        m.submodules.nest = nest = Nest(
            bits=sizes.address_bits, count_bits=(8, 8, sizes.group_bits, *[isa.COUNT_BITS] * 3)
        )
        by_group = task.source == isa.Space.UNIFIED
        group_ends = nest.last[:2].all()
        m.d.comb += [
            runs.start.eq(self.prepare),
            runs.run.eq(self.run),
            runs.skip_rows.eq(self.skip_rows),
            self.prepared.eq(runs.ready),
            runs.restart.eq(self.launch | (taken & group_ends & nest.last[2])),
            runs.advance.eq(taken & group_ends),
            nest.start.eq(self.launch),
            nest.base.eq(task.source_base),
            nest.strides[2].eq(sizes.lanes),
            nest.counts["2"].eq(Mux(by_group, task.group_last, 0)),
            nest.step.eq(taken),
        ]
        for n in range(2):
            m.d.comb += nest.strides[n].eq(task.window_strides[n])
            m.d.comb += nest.counts[str(n)].eq(task.window_last[n])
        for n in range(3):
            m.d.comb += nest.strides[n + 3].eq(task.source_strides[n])
            m.d.comb += nest.counts[str(n + 3)].eq(task.pixels_last[n])
        return nest, runs

    def _pace(self, m: Module, ends: Signal) -> tuple[Value, Value]:
        """Return whether a window may end in this cycle, and whether its register is in use."""
        row_groups = Signal(range(self.sizes.column_groups))
        with m.If(self.task.source == isa.Space.ACCUMULATORS):
            m.d.comb += row_groups.eq(self.task.group_last)
        depth = self.sizes.depth
        free = Signal(range(depth + 1), init=depth)
        gap = Signal.like(row_groups)
        with m.If(ends):
            m.d.sync += gap.eq(row_groups)
        with m.Elif(gap != 0):
            m.d.sync += gap.eq(gap - 1)
        m.d.sync += free.eq(free + self.released - Mux(ends, row_groups + 1, 0))
        may_end = Signal()
        m.d.comb += may_end.eq((gap == 0) & (free > row_groups))
        return may_end, gap != 0

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        task = self.task
        m.submodules.answers = answers = Answers(sizes=sizes)
        taken = Signal()
        ends = Signal()
        nest, runs = self._walk(m, taken)
        may_end, in_use = self._pace(m, ends)

        window_last = nest.last[:2].all()
        window_first = Signal(reset_less=True)
        asks = Signal()
        from_rows = task.source == isa.Space.ACCUMULATORS
        from_bytes = ~from_rows & ~task.constant
        outside = ~task.constant & is_outside(nest.address, task.source, sizes)
        m.d.comb += [
            asks.eq(self.running & ~self.stop & (~window_last | may_end)),
            self.unified_read.valid.eq(asks & from_bytes & answers.room),
            answers.ask_unified.eq(self.unified_read.valid & self.unified_read.ready),
            answers.ask_accumulators.eq(asks & from_rows),
            answers.ask_nothing.eq(asks & task.constant),
            taken.eq(answers.ask_unified | answers.ask_accumulators | answers.ask_nothing),
            ends.eq(taken & window_last),
            answers.asked.first.eq(window_first),
            answers.asked.last.eq(window_last),
            answers.asked.outside.eq(outside),
            self.issues.eq(taken | (self.running & window_last & in_use)),
            self.waits.eq(self.unified_read.valid & ~self.unified_read.ready),
        ]
        with m.If(self.launch):
            m.d.sync += [self.running.eq(1), window_first.eq(1)]
        with m.Elif(taken):
            m.d.sync += window_first.eq(window_last)
            with m.If(nest.last.all()):
                m.d.sync += self.running.eq(0)

        mask = lane_mask(task, nest.last[2], lanes=sizes.lanes)
        request = self.unified_read.payload
        m.d.comb += [
            request.address.eq(nest.address),
            *(request.skip[lane].eq(runs.skip[lane]) for lane in range(sizes.lanes)),
            request.mask.eq(Mux(outside, 0, mask)),
            self.accumulator_read.enable.eq(answers.ask_accumulators),
            self.accumulator_read.row.eq(nest.address),
            answers.read_valid.eq(self.read_valid),
            answers.read_data.eq(self.read_data),
            answers.read_fault.eq(self.read_fault),
            answers.sums.eq(self.sums),
            self.element.eq(answers.element),
            self.quiet.eq(answers.quiet),
        ]
        return m
