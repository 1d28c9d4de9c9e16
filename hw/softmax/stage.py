"""Stage before the pipe of the vector unit: exponentials, and what they need of each row."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from celosia.hw.arch.config import SOFTMAX_ROWS
from celosia.hw.lib.component import Component
from celosia.hw.lib.delay import Delay
from celosia.hw.memory import race
from celosia.hw.memory.parameter_memory import GIVEN
from celosia.hw.memory.table_memory import written_layout
from celosia.hw.softmax.exponentials import BITS, ExponentialMemory
from celosia.hw.softmax.reciprocals import SUM_BITS, Reciprocals
from celosia.hw.softmax.reduction import MARK, Reduction
from celosia.hw.vector.requantize import Requantizer
from celosia.hw.vector.task import SOFTMAX_LATENCY, Step, VectorSizes, lane_mask
from celosia.hw.vector.window import group_layout

#: Bits of an exponential that sums drop, rounded.
_DROPPED = 12


class Rows(Component):
    """Number of the row that each group belongs to.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    launch, task : In(1), In(VectorSizes.task)
        Groups from the next cycle on belong to ``task``.
    valid : In(1)
        A group.
    mark, mask : Out(MARK), Out(lanes)
        Mark of the group, and its lanes that are elements.
    step : Out(Step)
        Step of its task.

    Timing
    ------
    Combinational from ``valid``.
    """

    def __init__(self, *, sizes: VectorSizes) -> None:
        self.sizes = sizes
        super().__init__(
            {
                "launch": In(1),
                "task": In(sizes.task),
                "valid": In(1),
                "mark": Out(MARK),
                "mask": Out(sizes.lanes),
                "step": Out(Step),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        task: Any = Signal(self.task.shape(), reset_less=True)
        left = Signal(self.sizes.group_bits, reset_less=True)
        row = Signal(range(SOFTMAX_ROWS), reset_less=True)
        first = Signal(reset_less=True)
        step = Signal(Step)
        last = left == 0
        with m.If(self.launch):
            m.d.sync += [
                task.eq(self.task),
                step.eq(self.task.step),
                left.eq(self.task.group_last),
                row.eq(0),
                first.eq(1),
            ]
        with m.Elif(self.valid):
            m.d.sync += [
                left.eq(Mux(last, task.group_last, left - 1)),
                row.eq(row + last),
                first.eq(last),
            ]
        m.d.comb += [
            self.mark.valid.eq(self.valid),
            self.mark.row.eq(row),
            self.mark.first.eq(first),
            self.mark.last.eq(last),
            self.mark.ends.eq(row == (task.pixels[0] - 1)[: len(row)]),
            self.mask.eq(lane_mask(task, last, lanes=self.sizes.lanes)),
            self.step.eq(step),
        ]
        return m


class SoftmaxStage(Component):
    """Stage of a core with SOFTMAX between the window unit and the pipe.

    A SOFTMAX is three tasks, its steps. MAXIMUM finds the greatest element of each row. SUM adds the
    exponentials of each row, and computes the reciprocals of the sums. SHARE gives the exponentials
    to the pipe, with the multipliers of their rows. Groups of other tasks pass unchanged, as late.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.
    offset_bits : int
        Width of the offset of a byte that is written.

    Members
    -------
    launch, task, slot, next, group
        As of ``Pipe``, from control and window unit.
    written : In(written_layout)
        Bytes of tables that the load unit writes.
    late_launch, late_slot, late_next, late_group
        The same ``LATENCY`` cycles later, for ``Pipe``. Groups of MAXIMUM and SUM are left out.
    given : Out(GIVEN)
        Multiplier and shift of a group, ``GIVEN`` cycles before it enters the requantiser.
    scaled : In(signed(32))
        Result of the first lane of the requantiser.
    used, finished, fault : Out(1)
        MAXIMUM or SUM has used a group; is done; had an element outside the unified buffer.

    Timing
    ------
    ``task`` must be constant for ``LATENCY`` cycles from ``launch`` on.
    """

    LATENCY = SOFTMAX_LATENCY
    GIVEN = 1

    def __init__(self, *, sizes: VectorSizes, offset_bits: int) -> None:
        self.sizes = sizes
        group = group_layout(lanes=sizes.lanes)
        super().__init__(
            {
                "launch": In(1),
                "task": In(sizes.task),
                "slot": In(1),
                "next": In(1),
                "group": In(group),
                "written": In(written_layout(offset_bits)),
                "late_launch": Out(1),
                "late_slot": Out(1),
                "late_next": Out(1),
                "late_group": Out(group),
                "given": Out(GIVEN),
                "scaled": In(signed(32)),
                "used": Out(1),
                "finished": Out(1),
                "fault": Out(1),
            }
        )

    def _late(self, m: Module, name: str, value: data.View, cycles: int) -> data.View:
        m.submodules[name] = delay = Delay(value.shape(), cycles=cycles)
        m.d.comb += delay.i.eq(value)
        return delay.o

    def _exponentials(self, m: Module, elements: Any, greatest: Value) -> data.View:
        """Return the exponentials of elements, one cycle later."""
        sizes = self.sizes
        m.submodules.table = table = ExponentialMemory(
            lanes=sizes.lanes,
            tables=sizes.tables,
            offset_bits=len(self.written.offset),
        )
        m.d.comb += [
            table.enable.eq(self.written.valid),
            table.offset.eq(self.written.offset),
            table.byte.eq(self.written.byte),
            *(
                table.entries[lane].eq(greatest - elements[lane][:8].as_signed())
                for lane in range(sizes.lanes)
            ),
        ]
        return table.values

    def _maxima(self, m: Module, mark: data.View, elements: Any, mask: Value) -> Reduction:
        m.submodules.maxima = maxima = Reduction(
            lanes=self.sizes.lanes,
            shape=signed(8),
            total=signed(8),
            combine=lambda a, b: Mux(a > b, a, b),
        )
        m.d.comb += [
            maxima.mark.eq(mark),
            *(
                maxima.values[lane].eq(Mux(mask[lane], elements[lane][:8].as_signed(), -128))
                for lane in range(self.sizes.lanes)
            ),
        ]
        return maxima

    def _sums(self, m: Module, mark: data.View, found: data.View, mask: Value) -> Reduction:
        """Return the sums of exponentials ``found``, rounded first."""
        m.submodules.sums = sums = Reduction(
            lanes=self.sizes.lanes,
            shape=unsigned(BITS - _DROPPED + 1),
            total=unsigned(SUM_BITS),
            combine=lambda a, b: a + b,
        )
        rounded = Signal(sums.values.shape(), reset_less=True)
        for lane in range(self.sizes.lanes):
            value = (found[lane] + (1 << _DROPPED - 1)) >> _DROPPED
            m.d.sync += rounded[lane].eq(Mux(mask[lane], value, 0))
        m.d.comb += [
            sums.mark.eq(self._late(m, "mark_rounded", mark, 1)),
            sums.values.eq(rounded),
        ]
        return sums

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        group = self.group
        m.submodules.rows = rows = Rows(sizes=sizes)
        m.d.comb += [
            rows.launch.eq(self.launch),
            rows.task.eq(self.task),
            rows.valid.eq(group.valid),
        ]
        # Cycle 1: the greatest of the row. Cycle 2: the exponentials. Cycle 3: the requantiser.
        layout = data.StructLayout(
            {"mark": MARK, "mask": sizes.lanes, "step": Step, "valid": 1, "fault": 1}
        )
        now = Signal(layout)
        m.d.comb += [
            now.mark.eq(rows.mark),
            now.mask.eq(rows.mask),
            now.step.eq(rows.step),
            now.valid.eq(group.valid),
            now.fault.eq(group.fault),
        ]
        first = self._late(m, "first", now, 1)
        second = self._late(m, "second", first, 1)
        elements = [
            Signal(group["values"].shape(), name=f"elements_{n}", reset_less=True) for n in range(2)
        ]
        m.d.sync += [elements[0].eq(group["values"]), elements[1].eq(elements[0])]

        marks = [Signal(MARK, name=f"mark_{name}") for name in ("maxima", "sums")]
        steps = (Step.MAXIMUM, Step.SUM)
        for mark, stage, step in zip(marks, (first, second), steps, strict=True):
            m.d.comb += [mark.eq(stage.mark), mark.valid.eq(stage.valid & (stage.step == step))]
        maxima = self._maxima(m, marks[0], elements[0], first.mask)
        m.submodules.greatest = greatest = Memory(
            shape=signed(8), depth=SOFTMAX_ROWS, init=[], attrs=race.UNDEFINED
        )
        write, read = greatest.write_port(), greatest.read_port()
        m.d.comb += [
            write.en.eq(maxima.done.valid),
            write.addr.eq(maxima.done.row),
            write.data.eq(maxima.total),
            read.addr.eq(rows.mark.row),
        ]
        found = self._exponentials(m, elements[0], read.data)
        sums = self._sums(m, marks[1], found, second.mask)
        m.submodules.reciprocals = reciprocals = Reciprocals(latency=Requantizer.LATENCY)
        product = reciprocals.product
        m.d.comb += [
            reciprocals.mark.eq(sums.done),
            reciprocals.total.eq(sums.total),
            reciprocals.scaled.eq(self.scaled),
            reciprocals.row.eq(first.mark.row),
        ]

        shares = (second.step == Step.SHARE) & second.valid
        reduces = (second.step == Step.MAXIMUM) | (second.step == Step.SUM)
        values = Signal(group["values"].shape(), reset_less=True)
        for lane in range(sizes.lanes):
            value = Mux(shares, found[lane], elements[1][lane])
            if lane == 0:
                value = Mux(product.valid, product.a, value)
            m.d.sync += values[lane].eq(value)
        m.d.sync += [
            self.late_group.valid.eq(second.valid & ~reduces),
            self.late_group.fault.eq(second.fault),
            self.used.eq(second.valid & reduces),
            self.fault.eq(second.valid & reduces & second.fault),
            self.finished.eq((maxima.done.valid & maxima.done.ends) | reciprocals.finished),
        ]
        m.d.comb += [
            self.late_group["values"].eq(values),
            self.given.valid.eq(shares | product.valid),
            self.given.multiplier.eq(reciprocals.share.multiplier),
            self.given.right.eq(reciprocals.share.right),
        ]
        with m.If(product.valid):
            m.d.comb += [self.given.multiplier.eq(product.b), self.given.right.eq(0)]

        entered = Signal(data.StructLayout({"launch": 1, "slot": 1, "next": 1}))
        m.d.comb += [
            entered.launch.eq(self.launch),
            entered.slot.eq(self.slot),
            entered.next.eq(self.next),
        ]
        late = self._late(m, "late", entered, self.LATENCY)
        m.d.comb += [
            self.late_launch.eq(late.launch),
            self.late_slot.eq(late.slot),
            self.late_next.eq(late.next),
        ]
        return m
