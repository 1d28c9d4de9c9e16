"""Stage before the pipe of the vector unit: exponentials, and what they need of each row."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring

from celosia.hw.arch.config import SOFTMAX_ROWS
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.delay import delayed
from celosia.hw.memory.parameter_memory import OVERRIDE
from celosia.hw.memory.table_memory import written_layout
from celosia.hw.softmax.exponentials import BITS, ExponentialMemory
from celosia.hw.softmax.reciprocals import PRODUCT, SHARE, Reciprocals
from celosia.hw.softmax.reduction import MARK, ExponentialSums, Greatest
from celosia.hw.vector.requantize import Requantizer
from celosia.hw.vector.task import Launch, Step, VectorSizes, lane_mask
from celosia.hw.vector.window import group_layout

#: Inputs that pass unchanged.
_PASSED = data.StructLayout({"launch": 1, "slot": 1, "next": 1})


class Rows(Component):
    """Number of the row that each group belongs to.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    launch : In(Launch)
        Groups from the next cycle on belong to its task.
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
        self.launch = In(Launch(sizes))
        self.valid = In(1)
        self.mark = Out(MARK)
        self.mask = Out(sizes.lanes)
        self.step = Out(Step)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        task: Any = Signal(self.launch.task.shape(), reset_less=True)
        left = Signal(self.sizes.group_bits, reset_less=True)
        row = Signal(range(SOFTMAX_ROWS), reset_less=True)
        first = Signal(reset_less=True)
        step = Signal(Step)
        last = left == 0
        with m.If(self.launch.valid):
            m.d.sync += [
                task.eq(self.launch.task),
                step.eq(self.launch.task.step),
                left.eq(self.launch.task.group_last),
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


class Choice(Component):
    """Choice of the operands of the pipe: of a product of ``Reciprocals``, or of a group.

    Parameters
    ----------
    lanes : int
        Elements of a group.

    Members
    -------
    valid, fault, step : In(1), In(1), In(Step)
        A group, its fault, and the step of its task.
    elements : In(ArrayLayout(signed(32), lanes))
        Its elements.
    exponentials : In(ArrayLayout(unsigned(BITS), lanes))
        Their exponentials.
    product, share : In(PRODUCT), In(SHARE)
        From ``Reciprocals``.
    late_group, used, fault_used : Out(group_layout), Out(1), Out(1)
        The group, if it goes on to the pipe; else that it is used, and was one with a fault.
    override : Out(OVERRIDE)
        As in ``SoftmaxStage``.

    Timing
    ------
    Outputs follow by one cycle, but ``override``, which is combinational. Products and groups never
    come in one cycle.
    """

    def __init__(self, *, lanes: int) -> None:
        self.lanes = lanes
        self.valid = In(1)
        self.fault = In(1)
        self.step = In(Step)
        self.elements = In(data.ArrayLayout(signed(32), lanes))
        self.exponentials = In(data.ArrayLayout(unsigned(BITS), lanes))
        self.product = In(PRODUCT)
        self.share = In(SHARE)
        self.late_group = Out(group_layout(lanes=lanes))
        self.used = Out(1)
        self.fault_used = Out(1)
        self.override = Out(OVERRIDE)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        product = self.product
        shares = (self.step == Step.SHARE) & self.valid
        reduces = (self.step == Step.MAXIMUM) | (self.step == Step.SUM)
        values = Signal(self.elements.shape(), reset_less=True)
        for lane in range(self.lanes):
            value = Mux(shares, self.exponentials[lane], self.elements[lane])
            if lane == 0:
                value = Mux(product.valid, product.a, value)
            m.d.sync += values[lane].eq(value)
        m.d.sync += [
            self.late_group.valid.eq(self.valid & ~reduces),
            self.late_group.fault.eq(self.fault),
            self.used.eq(self.valid & reduces),
            self.fault_used.eq(self.valid & reduces & self.fault),
        ]
        m.d.comb += [
            self.late_group["values"].eq(values),
            self.override.valid.eq(shares | product.valid),
            self.override.multiplier.eq(Mux(product.valid, product.b, self.share.multiplier)),
            self.override.right.eq(Mux(product.valid, 0, self.share.right)),
        ]
        return m


class SoftmaxStage(Component):
    """Stage of a core with SOFTMAX between the window unit and the pipe.

    A SOFTMAX is three tasks, its steps. MAXIMUM finds the greatest element of each row. SUM adds
    the exponentials of each row, and computes the reciprocals of the sums. SHARE gives the
    exponentials to the pipe, with the multipliers of their rows. Groups of other tasks pass
    unchanged, with the same delay.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.
    offset_bits : int
        Width of the offset of a byte that is written.

    Members
    -------
    launch, next, group
        As in ``Pipe``, from control and window unit.
    written : In(written_layout)
        Bytes of tables that the load unit writes.
    late_launch, late_next, late_group
        The same ``LATENCY`` cycles later, for ``Pipe``; the task passes at once. Groups of MAXIMUM
        and SUM are left out.
    override : Out(OVERRIDE)
        Multiplier and shift of a group, ``SoftmaxStage.OVERRIDE`` = 1 cycle before it enters the
        requantiser.
    scaled : In(signed(32))
        Result of the first lane of the requantiser.
    used, finished, fault : Out(1)
        MAXIMUM or SUM has used a group; is done; had an element outside the unified buffer.

    Timing
    ------
    The task must be constant for ``LATENCY`` cycles from its start on.
    """

    LATENCY = 3
    OVERRIDE = 1

    def __init__(self, *, sizes: VectorSizes, offset_bits: int) -> None:
        self.sizes = sizes
        group = group_layout(lanes=sizes.lanes)
        self.launch = In(Launch(sizes))
        self.next = In(1)
        self.group = In(group)
        self.written = In(written_layout(offset_bits))
        self.late_launch = Out(Launch(sizes))
        self.late_next = Out(1)
        self.late_group = Out(group)
        self.override = Out(OVERRIDE)
        self.scaled = In(signed(32))
        self.used = Out(1)
        self.finished = Out(1)
        self.fault = Out(1)
        super().__init__()

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

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes, group = self.sizes, self.group
        m.submodules.rows = rows = Rows(sizes=sizes)
        wiring.connect(m, wiring.flipped(self.launch), rows.launch)
        m.submodules.maxima = maxima = Greatest(lanes=sizes.lanes)
        m.submodules.sums = sums = ExponentialSums(lanes=sizes.lanes)
        m.submodules.reciprocals = reciprocals = Reciprocals(latency=Requantizer.LATENCY)
        m.submodules.choice = choice = Choice(lanes=sizes.lanes)
        # Cycle 1: the greatest of the row. Cycle 2: the exponentials. Cycle 3: the requantiser.
        layout = data.StructLayout(
            {"mark": MARK, "mask": sizes.lanes, "step": Step, "valid": 1, "fault": 1}
        )
        now = Signal(layout)
        m.d.comb += [
            rows.valid.eq(group.valid),
            now.mark.eq(rows.mark),
            now.mask.eq(rows.mask),
            now.step.eq(rows.step),
            now.valid.eq(group.valid),
            now.fault.eq(group.fault),
        ]
        _, first, second = delayed(m, now, 2, name="at")
        elements = delayed(m, group["values"], 2, name="elements", reset_less=True)
        for block, stage, step in ((maxima, first, Step.MAXIMUM), (sums, second, Step.SUM)):
            m.d.comb += [
                block.mark.eq(stage.mark),
                block.mark.valid.eq(stage.valid & (stage.step == step)),
                block.mask.eq(stage.mask),
            ]
        m.d.comb += [
            *(maxima.values[lane].eq(elements[1][lane]) for lane in range(sizes.lanes)),
            maxima.row.eq(rows.mark.row),
        ]
        exponentials = self._exponentials(m, elements[1], maxima.greatest)
        m.d.comb += [
            sums.values.eq(exponentials),
            reciprocals.mark.eq(sums.done),
            reciprocals.total.eq(sums.total),
            reciprocals.row.eq(first.mark.row),
        ]
        m.d.comb += [
            reciprocals.scaled.eq(self.scaled),
            choice.valid.eq(second.valid),
            choice.fault.eq(second.fault),
            choice.step.eq(second.step),
            choice.product.eq(reciprocals.product),
            choice.share.eq(reciprocals.share),
            self.late_group.eq(choice.late_group),
            self.override.eq(choice.override),
            self.used.eq(choice.used),
            choice.elements.eq(elements[2]),
            choice.exponentials.eq(exponentials),
            self.fault.eq(choice.fault_used),
        ]
        ends = maxima.done.valid & maxima.done.ends
        m.d.sync += self.finished.eq(ends | reciprocals.finished)

        entered = Signal(_PASSED)
        late = delayed(m, entered, self.LATENCY, name="late")[-1]
        m.d.comb += [
            entered.launch.eq(self.launch.valid),
            entered.slot.eq(self.launch.slot),
            entered.next.eq(self.next),
            self.late_launch.valid.eq(late.launch),
            self.late_launch.task.eq(self.launch.task),
            self.late_launch.slot.eq(late.slot),
            self.late_next.eq(late.next),
        ]
        return m
