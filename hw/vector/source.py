"""Source of elements: reads of the unified buffer or of the accumulators, or constants."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.lib.component import Component
from celosia.hw.lib.nest import Nest
from celosia.hw.lib.slice import FAR, Stage, link
from celosia.hw.memory.accumulators import read_layout
from celosia.hw.memory.runs import Runs
from celosia.hw.vector.answers import Answers, element_layout
from celosia.hw.vector.destination import is_outside
from celosia.hw.vector.pace import Pace
from celosia.hw.vector.task import VectorSizes, lane_mask


class Source(Component):
    """Address generator of the source of a task, and its reads.

    A read takes a whole row of the accumulators. In the unified buffer it takes
    ``VectorSizes.read_groups`` groups, or one group if ``source_skip`` is not 0.

    The pipe has no backpressure. So the last read of a window waits until there is space for its
    groups up to the write, and until the groups of the window before have left the register of
    ``WindowUnit``, one every ``VectorSizes.group_cycles``.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    prepare, run, skip_rows, prepared, launch, task, stop
        As for ``Destination``.
    released : In(1)
        A group was written: its space is free.
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
    The first read of the unified buffer comes three cycles after ``launch``, of the accumulators
    two cycles; then one each cycle.
    """

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
                "element": Out(element_layout(columns=sizes.columns, lanes=sizes.lanes)),
                "running": Out(1),
                "quiet": Out(1),
                "issues": Out(1),
                "waits": Out(1),
            }
        )

    def _walk(self, m: Module, taken: Signal) -> tuple[Nest, Runs]:
        """Return the loop nest and the skips, which step with ``taken``."""
        sizes = self.sizes
        task = self.task
        m.submodules.runs = runs = Runs(
            lanes=sizes.lanes, row_bits=sizes.row_bits, count_bits=isa.COUNT_BITS
        )
        reads_last = task.group_last[(sizes.read_groups - 1).bit_length() :]
        m.submodules.nest = nest = Nest(
            bits=sizes.address_bits,
            count_bits=(8, 8, sizes.group_bits, *[isa.COUNT_BITS] * 3),
            firsts=(1, 1, 0, 1, 1, 1),
        )
        by_read = task.source == isa.Space.UNIFIED
        wide = task.wide
        read_ends = nest.last[:2].all()
        m.d.comb += [
            runs.start.eq(self.prepare),
            runs.run.eq(self.run),
            runs.skip_rows.eq(self.skip_rows),
            self.prepared.eq(runs.ready),
            # Without effect if reads are wide: skips are zero then.
            runs.restart.eq(self.launch | (taken & read_ends & nest.last[2])),
            runs.advance.eq(taken & read_ends),
            nest.start.eq(self.launch),
            nest.base.eq(task.source_base),
            nest.strides[2].eq(Mux(wide, sizes.lanes * sizes.read_groups, sizes.lanes)),
            nest.counts["2"].eq(Mux(by_read, Mux(wide, reads_last, task.group_last), 0)),
            nest.step.eq(taken),
        ]
        for n in range(2):
            m.d.comb += nest.strides[n].eq(task.window_strides[n])
            m.d.comb += nest.counts[str(n)].eq(task.window_elements[n])
        for n in range(3):
            m.d.comb += nest.strides[n + 3].eq(task.source_strides[n])
            m.d.comb += nest.counts[str(n + 3)].eq(task.pixels[n])
        return nest, runs

    def _groups_last(self, m: Module, last_read: Value) -> tuple[Value, Value]:
        """Return the groups of a read, less one: of either memory, and of the unified buffer."""
        task = self.task
        read_groups = self.sizes.read_groups
        of_bytes = Signal(range(read_groups))
        of_any = Signal(range(self.sizes.column_groups))
        with m.If(task.wide):
            m.d.comb += of_bytes.eq(
                Mux(last_read, task.group_last[: len(of_bytes)], read_groups - 1)
            )
        from_rows = task.source == isa.Space.ACCUMULATORS
        m.d.comb += of_any.eq(Mux(from_rows, task.group_last, of_bytes))
        return of_any, of_bytes

    def _mask(self, last_read: Value, groups_last: Value) -> Value:
        """Return the lanes of a read of the unified buffer that are channels."""
        lanes = self.sizes.lanes
        ends = lane_mask(self.task, last_read, lanes=lanes)
        return Cat(
            Mux(groups_last == group, ends, (group < groups_last).replicate(lanes))
            for group in range(self.sizes.read_groups)
        )

    def _apart(self, m: Module, ends: Signal, groups_last: Value, delayed: Value) -> Value:
        """Return True while groups of several cycles use the register of ``WindowUnit``."""
        sizes = self.sizes
        m.submodules.pace = pace = Pace(groups=sizes.column_groups, group_cycles=sizes.group_cycles)
        m.d.comb += [
            pace.start.eq(ends),
            pace.groups_last.eq(groups_last),
            pace.hold.eq(delayed),
        ]
        return pace.in_use

    def _pace(
        self, m: Module, ends: Signal, groups_last: Value, delayed: Value
    ) -> tuple[Value, Value]:
        """Return that a window may end in this cycle, and that the register is in use.

        While a read is ``delayed`` at the port, the count of cycles stands still.
        """
        depth = self.sizes.depth
        free = Signal(range(depth + 1), init=depth)
        if self.sizes.group_cycles > 1:
            in_use = self._apart(m, ends, groups_last, delayed)
            unused = ~in_use
        else:
            gap = Signal(range(self.sizes.column_groups))
            with m.If(ends):
                m.d.sync += gap.eq(groups_last)
            with m.Elif((gap != 0) & ~delayed):
                m.d.sync += gap.eq(gap - 1)
            in_use, unused = gap != 0, gap == 0
        # Space for this window and for one that ends in the cycle of the comparison.
        roomy = Signal()
        m.d.sync += [
            free.eq(free + self.released - Mux(ends, groups_last + 1, 0)),
            roomy.eq(free >= 2 * self.sizes.column_groups),
        ]
        may_end = Signal()
        m.d.comb += may_end.eq(unused & roomy)
        return may_end, in_use

    def _rounds(self, m: Module) -> tuple[stream.Interface, Signal]:
        """Return the stream of reads of the task, and that the loops have more of them.

        A register separates the loops from the decision to issue a read.
        """
        sizes = self.sizes
        layout = data.StructLayout(
            {
                "address": sizes.address_bits,
                "skip": data.ArrayLayout(sizes.row_bits, sizes.lanes),
                "mask": sizes.rows,
                "first": 1,
                "last": 1,
                "groups_last": range(sizes.column_groups),
                "outside": 1,
            }
        )
        m.submodules.rounds = rounds = link(layout, skid=sizes.skid, block=FAR)
        walks = Signal()
        taken = Signal()
        nest, runs = self._walk(m, taken)
        groups_last, byte_groups_last = self._groups_last(m, nest.last[2])
        window_first = Signal(reset_less=True)
        window_last = nest.last[:2].all()
        outside = ~self.task.constant & is_outside(nest.address, self.task.source, sizes)
        found = rounds.i.payload
        m.d.comb += [
            rounds.i.valid.eq(walks),
            taken.eq(walks & rounds.i.ready),
            found.address.eq(nest.address),
            *(found.skip[lane].eq(runs.skip[lane]) for lane in range(sizes.lanes)),
            found.mask.eq(Mux(outside, 0, self._mask(nest.last[2], byte_groups_last))),
            found.first.eq(window_first),
            found.last.eq(window_last),
            found.groups_last.eq(groups_last),
            found.outside.eq(outside),
        ]
        with m.If(self.launch):
            m.d.sync += [walks.eq(1), window_first.eq(1)]
        with m.Elif(taken):
            m.d.sync += window_first.eq(window_last)
            with m.If(nest.last.all()):
                m.d.sync += walks.eq(0)
        return rounds.o, walks

    def elaborate(self, platform: object) -> Module:
        m = Module()
        task = self.task
        m.submodules.answers = answers = Answers(sizes=self.sizes)
        m.submodules.offered = offered = Stage(self.unified_read.payload.shape())
        wiring.connect(m, offered.o, wiring.flipped(self.unified_read))
        delayed = ~offered.i.ready
        rounds, walks = self._rounds(m)
        now = rounds.payload
        ends = Signal()
        may_end, in_use = self._pace(m, ends, now.groups_last, delayed)

        asks = Signal()
        from_rows = task.source == isa.Space.ACCUMULATORS
        from_bytes = ~from_rows & ~task.constant
        m.d.comb += [
            asks.eq(rounds.valid & ~self.stop & (~now.last | may_end)),
            offered.i.valid.eq(asks & from_bytes & answers.room),
            answers.ask_unified.eq(offered.i.valid & offered.i.ready),
            answers.ask_accumulators.eq(asks & from_rows),
            answers.ask_nothing.eq(asks & task.constant),
            rounds.ready.eq(answers.ask_unified | answers.ask_accumulators | answers.ask_nothing),
            ends.eq(rounds.ready & now.last),
            self.running.eq(walks | rounds.valid),
            self.issues.eq(rounds.ready | (rounds.valid & now.last & in_use)),
            self.waits.eq(offered.i.valid & ~offered.i.ready),
            *(answers.asked[name].eq(now[name]) for name in answers.asked_layout.members),
        ]
        request, row = offered.i.payload, self.accumulator_read
        m.d.comb += [
            *(request[name].eq(now[name]) for name in ("address", "skip", "mask")),
            answers.read_valid.eq(self.read_valid),
            answers.read_data.eq(self.read_data),
            answers.read_fault.eq(self.read_fault),
            answers.sums.eq(self.sums),
            self.element.eq(answers.element),
            self.quiet.eq(answers.quiet),
            row.enable.eq(answers.ask_accumulators),
            row.row.eq(now.address),
        ]
        return m
