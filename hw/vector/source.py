"""Source of elements: reads of the unified buffer or of the accumulators, or constants."""

from amaranth.hdl import Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.skid_buffer import FAR, PipelineRegister, link
from celosia.hw.memory.accumulators import read_layout
from celosia.hw.vector.datapath import groups_in_flight
from celosia.hw.vector.pace import Pace
from celosia.hw.vector.reads import ReadAddresses
from celosia.hw.vector.responses import Responses, element_layout
from celosia.hw.vector.task import Launch, VectorSizes


class Source(Component):
    """Reads of a task, and their responses as elements.

    ``ReadAddresses`` gives the reads, ``Responses`` turns their responses into elements.

    The pipe has no backpressure. So the last read of a window waits until there is space for its
    groups up to the write, and until the groups of the window before have left the register of
    ``WindowUnit``, one every ``VectorSizes.group_cycles``.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    prepare, run, skip_rows, prepared, launch, stop
        As for ``Destination``.
    released : In(1)
        A group has left, written or used by a step of SOFTMAX: its space is free.
    unified_read, read_valid, read_data, read_fault : Out(stream), In, In, In
        Read port of the unified buffer.
    accumulator_read, sums : Out(read_layout), In(ArrayLayout(signed(32), columns))
        Read port of the accumulators.
    element : Out(element_layout)
        Elements, in order.
    running : Out(1)
        Requests are left.
    quiet : Out(1)
        No response is missing.
    issues : Out(1)
        An element is requested in this cycle, or waits for the register of ``WindowUnit``.
    waits : Out(1)
        The unified buffer refuses a read.

    Timing
    ------
    The first read of the unified buffer comes ``LATENCY`` cycles after ``launch``, of the
    accumulators one cycle earlier; then one each cycle.
    """

    LATENCY = ReadAddresses.LATENCY + PipelineRegister.LATENCY

    def __init__(self, *, sizes: VectorSizes) -> None:
        self.sizes = sizes
        read = streams.unified_read(rows=sizes.rows, unified_bytes=sizes.unified_bytes)
        self.prepare = In(1)
        self.run = In(isa.COUNT_BITS)
        self.skip_rows = In(sizes.row_bits)
        self.prepared = Out(1)
        self.launch = In(Launch(sizes))
        self.stop = In(1)
        self.released = In(1)
        self.unified_read = Out(stream.Signature(read))
        self.read_valid = In(1)
        self.read_data = In(data.ArrayLayout(unsigned(8), sizes.rows))
        self.read_fault = In(1)
        self.accumulator_read = Out(read_layout(depth=sizes.accumulator_depth))
        self.sums = In(data.ArrayLayout(signed(32), sizes.columns))
        self.element = Out(element_layout(columns=sizes.columns, lanes=sizes.lanes))
        self.running = Out(1)
        self.quiet = Out(1)
        self.issues = Out(1)
        self.waits = Out(1)
        super().__init__()

    def _pace(
        self, m: Module, ends: Signal, groups_last: Value, delayed: Value
    ) -> tuple[Value, Value]:
        """Return that a window may end in this cycle, and that the register is in use.

        While a read is ``delayed`` at the port, the count of cycles stands still.
        """
        sizes = self.sizes
        m.submodules.pace = pace = Pace(groups=sizes.column_groups, group_cycles=sizes.group_cycles)
        space = groups_in_flight(sizes)
        free = Signal(range(space + 1), init=space)
        # Groups of the window that ended last: they are counted one cycle later.
        ended = Signal(range(sizes.column_groups + 1))
        # Space for this window and for those that are not counted yet. A window of n groups ends at
        # least n cycles before the next one, so those have two groups.
        roomy = Signal()
        m.d.comb += [
            pace.start.eq(ends),
            pace.groups_last.eq(groups_last),
            pace.hold.eq(delayed),
        ]
        m.d.sync += [
            ended.eq(Mux(ends, groups_last + 1, 0)),
            free.eq(free + self.released - ended),
            roomy.eq(free >= max(2, sizes.column_groups) + sizes.column_groups),
        ]
        may_end = Signal()
        m.d.comb += may_end.eq(~pace.in_use & roomy)
        return may_end, pace.in_use

    def elaborate(self, platform: object) -> Module:
        m = Module()
        task = self.launch.task
        m.submodules.responses = responses = Responses(sizes=self.sizes)
        read = self.unified_read.payload.shape()
        m.submodules.offered = offered = link(read, skid=self.sizes.skid, block=FAR)
        wiring.connect(m, offered.o, wiring.flipped(self.unified_read))
        # The read that was taken last has not reached the port, or is refused there.
        delayed = ~offered.i.ready | (offered.o.valid & ~offered.o.ready)
        m.submodules.reads = reads = ReadAddresses(sizes=self.sizes)
        wiring.connect(m, wiring.flipped(self.launch), reads.launch)
        m.d.comb += [
            reads.prepare.eq(self.prepare),
            reads.run.eq(self.run),
            reads.skip_rows.eq(self.skip_rows),
        ]
        now = reads.o.payload
        ends = Signal()
        may_end, in_use = self._pace(m, ends, now.groups_last, delayed)

        issue = Signal()
        from_rows = task.source == isa.Space.ACCUMULATORS
        from_bytes = ~from_rows & ~task.constant
        # Registered, because without skid buffers `ready` of the port comes late: it passes few
        # gates. One of two spaces is left after the read of this cycle.
        space = Signal()
        other = Signal()
        m.d.sync += [space.eq(from_bytes & responses.space), other.eq(~from_bytes)]
        m.d.comb += [
            issue.eq(reads.o.valid & ~self.stop & (~now.last | may_end)),
            offered.i.valid.eq(issue & space),
            responses.request_unified.eq(reads.o.ready & space),
            responses.request_accumulators.eq(reads.o.ready & from_rows),
            responses.request_nothing.eq(reads.o.ready & task.constant),
            reads.o.ready.eq(issue & (other | (space & offered.i.ready))),
            ends.eq(reads.o.ready & now.last),
            self.prepared.eq(reads.prepared),
            self.running.eq(reads.running | reads.o.valid),
            self.issues.eq(reads.o.ready | (reads.o.valid & now.last & in_use)),
            self.waits.eq(offered.i.valid & ~offered.i.ready),
            *(responses.request[name].eq(now[name]) for name in responses.request_layout.members),
        ]
        m.d.comb += [
            responses.read_valid.eq(self.read_valid),
            responses.read_data.eq(self.read_data),
            responses.read_fault.eq(self.read_fault),
            responses.sums.eq(self.sums),
            self.element.eq(responses.element),
            self.quiet.eq(responses.quiet),
        ]
        request, row = offered.i.payload, self.accumulator_read
        m.d.comb += [
            *(request[name].eq(now[name]) for name in ("address", "skip", "mask")),
            row.enable.eq(responses.request_accumulators),
            row.row.eq(now.address),
        ]
        return m


class RowReads(Component):
    """Read port of the accumulators, shared by ``Source`` and ``AccumulatorWriter``.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    launch : In(Launch)
        Start of a task. One that reads rows waits for the end of one that adds to them.
    source, adder : In(read_layout)
        Reads of elements, and of the sums that results are added to. Never both in one cycle.
    read : Out(read_layout)
        To the accumulators.

    Timing
    ------
    Combinational.
    """

    def __init__(self, *, sizes: VectorSizes) -> None:
        layout = read_layout(depth=sizes.accumulator_depth)
        self.launch = In(Launch(sizes))
        self.source = In(layout)
        self.adder = In(layout)
        self.read = Out(layout)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Constant while a task reads rows. A FILL keeps it: its elements are ``sums``, of any row,
        # because the clamp replaces them. In simulation a row of ``adder`` is undefined before the
        # first descriptor, and undefined sums would get past the clamp.
        of_adder = Signal(reset_less=True)
        from_rows = self.launch.task.source == isa.Space.ACCUMULATORS
        to_rows = self.launch.task.destination == isa.Space.ACCUMULATORS
        with m.If(self.launch.valid & (from_rows | to_rows)):
            m.d.sync += of_adder.eq(~from_rows)
        m.d.comb += [
            self.read.enable.eq(self.source.enable | self.adder.enable),
            self.read.row.eq(Mux(of_adder, self.adder.row, self.source.row)),
        ]
        return m
