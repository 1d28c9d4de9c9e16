"""Writer of results to the accumulators: overwrite, add, maximum, product, squared difference."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from celosia.hw.arch import isa
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.delay import delayed
from celosia.hw.lib.fanout import COPY
from celosia.hw.memory.accumulators import read_layout, write_layout
from celosia.hw.vector.sums import AGES, Forwarding, SumUpdate, position_layout
from celosia.hw.vector.task import MARK, VectorSizes


class AccumulatorWriter(Component):
    """Writer of the accumulators: last stages of the pipe, with fixed latency.

    The row of a group is read ``Pipe.SOON`` cycles before the group's result comes. ``Forwarding``
    gives what earlier groups have not yet written. Products and squared differences are not
    forwarded: a task of ``isa.PRODUCT_MODES`` names a sum once.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    soon, scaled : In(MARK), In(ArrayLayout(signed(32), lanes))
        As in ``Pipe``.
    endings : In(ArrayLayout(VectorSizes.ending, 2))
        Ending of the task in each slot.
    descriptor, pop : In(VectorSizes.descriptor), Out(1)
        Destination of the group of ``soon``; it is used in this cycle.
    stop : In(1)
        No writes.
    accumulator_read, sums, accumulator_write : Out(read_layout), In, Out(write_layout)
        Ports of the accumulators.
    finished : Out(1)
        The last group of a task is being written.
    fault : Out(1)
        A group cannot be written. Its task is the oldest that is not done: between the last group
        of a task and the first of the next there are more cycles than until ``done``.
    sums_wrong, wrong : In(columns), Out(1)
        With parity, one cycle after ``sums``: wrong sums; and that a group of the oldest task is
        added to or compared with one of them.

    Timing
    ------
    ``accumulator_write`` comes one cycle before ``scaled``; its sums come one cycle after it. In
    ``isa.PRODUCT_MODES`` ``accumulator_write``, its sums, ``finished`` and ``fault`` come
    ``SumUpdate.LATER`` cycles later. Tasks are further apart than that.
    """

    def __init__(self, *, sizes: VectorSizes) -> None:
        self.sizes = sizes
        depth, lanes, columns = sizes.accumulator_depth, sizes.lanes, sizes.columns
        # A group on its way: it cannot be written (`bad`), and what is done with its old sums.
        self._step = data.StructLayout(
            {
                "bad": 1,
                "last": 1,
                "joins": 1,
                "subtracts": 1,
                **({"multiplies": 1, "squared": 1} if sizes.elementwise_products else {}),
                "position": position_layout(sizes),
            }
        )
        self.soon = In(MARK)
        self.scaled = In(data.ArrayLayout(signed(32), lanes))
        self.endings = In(data.ArrayLayout(sizes.ending, 2))
        self.descriptor = In(sizes.descriptor)
        self.pop = Out(1)
        self.stop = In(1)
        self.accumulator_read = Out(read_layout(depth=depth))
        self.sums = In(data.ArrayLayout(signed(32), columns))
        self.accumulator_write = Out(write_layout(depth=depth, columns=columns))
        self.finished = Out(1)
        self.fault = Out(1)
        self.sums_wrong = In(columns)
        self.wrong = Out(1)
        super().__init__()

    def _steps(self, m: Module) -> tuple[list[data.View], Value]:
        """Return the groups by their age, and their valid bits."""
        now = Signal(self._step)
        mode = self.endings[self.soon.tag.slot].mode
        squared = mode == isa.Mode.SQUARED_DIFFERENCE
        m.d.comb += [
            now.last.eq(self.descriptor.last),
            now.position.group.eq(self.descriptor.group),
            now.position.mask.eq(self.descriptor.mask),
            now.bad.eq(self.soon.tag.fault | self.descriptor.outside),
            now.joins.eq(mode != isa.Mode.OVERWRITE),
            now.subtracts.eq(squared | (mode == isa.Mode.MAX)),
            now.position.row.eq(self.descriptor.address),
        ]
        if self.sizes.elementwise_products:
            m.d.comb += [
                now.multiplies.eq(squared | (mode == isa.Mode.MULTIPLY)),
                now.squared.eq(squared),
            ]
        comes = self.soon.valid & self.soon.tag.to_accumulators
        valid = Cat(delayed(m, comes, AGES - 1, name="valid"))
        return delayed(m, now, AGES - 1, name="step", reset_less=True), valid

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        steps, valid = self._steps(m)
        m.d.comb += [
            self.pop.eq(valid[0]),
            self.accumulator_read.enable.eq(valid[0] & steps[0].joins & ~steps[0].bad & ~self.stop),
            self.accumulator_read.row.eq(steps[0].position.row),
        ]
        m.submodules.forwarding = forwarding = Forwarding(sizes=sizes)
        m.submodules.update = update = SumUpdate(
            lanes=sizes.lanes, products=sizes.elementwise_products, primitive=sizes.primitive
        )
        m.d.comb += [
            *(forwarding.groups[age].eq(step.position) for age, step in enumerate(steps)),
            forwarding.valid.eq(valid),
            forwarding.joins.eq(steps[3].joins),
            forwarding.written.eq(update.sums),
            update.new.eq(self.scaled),
        ]
        m.d.comb += [
            forwarding.sums.eq(self.sums),
            update.old.eq(forwarding.old),
            update.again.eq(forwarding.again),
        ]
        # A copy for each lane: it reaches all bits of an adder.
        for lane in range(sizes.lanes):
            subtracts = Signal(name=f"subtracts_{lane}", reset_less=True, attrs=COPY)
            m.d.sync += subtracts.eq(steps[4].subtracts)
            m.d.comb += update.subtracts[lane].eq(subtracts)
        if sizes.elementwise_products:
            m.d.comb += update.squared.eq(steps[5].squared)
        used = Signal(sizes.columns)
        m.d.sync += used.eq(Mux(valid[4] & ~steps[4].bad, forwarding.used, 0))
        m.d.comb += self.wrong.eq((used & self.sums_wrong).any())
        step, due = steps[4], valid[4]
        if sizes.elementwise_products:
            step, due = self._multiplied(m, steps, valid, update)
        self._write(m, step, due, update.sums)
        return m

    def _multiplied(
        self, m: Module, steps: list[data.View], valid: Value, update: SumUpdate
    ) -> tuple[data.View, Value]:
        """Take products in their cycle; return the group that is written, and that there is one.

        A group of ``isa.PRODUCT_MODES`` is written ``SumUpdate.LATER`` cycles after the others.
        """
        late = 4 + SumUpdate.LATER
        multiplied = Signal()
        step = Signal(self._step)
        m.d.sync += update.multiplied.eq(multiplied)
        m.d.comb += [
            multiplied.eq(valid[late] & steps[late].multiplies),
            step.eq(Mux(multiplied, steps[late], steps[4])),
        ]
        return step, multiplied | (valid[4] & ~steps[4].multiplies)

    def _write(self, m: Module, step: data.View, due: Value, sums: data.View) -> None:
        """Write the group of ``step``, if it is ``due``; its ``sums`` come two cycles later."""
        sizes, write = self.sizes, self.accumulator_write
        ends = due & ~self.stop
        m.d.comb += write.row.eq(step.position.row)
        writes = Signal()
        last = Signal(reset_less=True)
        m.d.sync += [
            self.fault.eq(ends & step.bad),
            writes.eq(write.enable),
            last.eq(step.last),
            self.finished.eq(writes & last),
        ]
        m.d.comb += [
            write.enable.eq(ends & ~step.bad),
            write.mask.eq(
                Cat(
                    Mux(step.position.group == group, step.position.mask, 0)
                    for group in range(sizes.column_groups)
                )
            ),
            *(write.sums[c].eq(sums[c % sizes.lanes]) for c in range(sizes.columns)),
        ]
