"""Attribution of words of wrong parity to tasks."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data

from celosia.hw.lib.component import Component, In, Out
from celosia.hw.memory.accumulators import ACCUMULATOR_LATENCY
from celosia.hw.memory.parameter_memory import ParameterMemory
from celosia.hw.vector.task import MARK, Launch, VectorSizes, lane_mask


class Watch(Component):
    """Finds the task that used a word of wrong parity.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    launch : In(Launch)
        Reads and groups that enter the pipe from the next cycle on belong to its task.
    read_wrong : In(1)
        One cycle after a response of the unified buffer: it has a wrong byte.
    rows : In(1)
        The source reads a row of the accumulators in this cycle.
    sums_wrong : In(columns)
        One cycle after ``VectorUnit.sums``: wrong sums, of any reader.
    group : In(1)
        ``Pipe.next`` or ``Pipe.used``: a group reads its parameters.
    channels_wrong : In(lanes)
        One cycle after these parameters: wrong ones.
    result, endings : In(MARK), In(ArrayLayout(VectorSizes.ending, 2))
        As in ``Pipe``.
    values_wrong : In(lanes)
        One cycle after ``result``: wrong entries of the tables.
    added_wrong, oldest : In(1), In(1)
        ``AccumulatorWriter`` used a wrong sum, and the slot of its task, the oldest.
    wrong, wrong_slot : Out(1), Out(1)
        A word of wrong parity was used, and the slot of its task.

    Timing
    ------
    Outputs follow their causes by one cycle, before the ``done`` of the task. Of several causes in
    one cycle, the one in the latest stage counts.
    """

    def __init__(self, *, sizes: VectorSizes) -> None:
        self.sizes = sizes
        self.launch = In(Launch(sizes))
        self.read_wrong = In(1)
        self.rows = In(1)
        self.sums_wrong = In(sizes.columns)
        self.group = In(1)
        self.channels_wrong = In(sizes.lanes)
        self.result = In(MARK)
        self.endings = In(data.ArrayLayout(sizes.ending, 2))
        self.values_wrong = In(sizes.lanes)
        self.added_wrong = In(1)
        self.oldest = In(1)
        self.wrong = Out(1)
        self.wrong_slot = Out(1)
        super().__init__()

    @staticmethod
    def _later(m: Module, value: Value, cycles: int, name: str) -> Value:
        for cycle in range(1, cycles + 1):
            later = Signal(len(value), name=f"{name}_{cycle}")
            m.d.sync += later.eq(value)
            value = later
        return value

    def _used(self, m: Module) -> tuple[Value, Value]:
        """Return the columns of a row, and the lanes of a group, that are channels of the task."""
        sizes = self.sizes
        current = Signal(sizes.task, reset_less=True)
        left = Signal(sizes.group_bits, reset_less=True)
        last = left == 0
        with m.If(self.launch.valid):
            m.d.sync += [current.eq(self.launch.task), left.eq(self.launch.task.group_last)]
        with m.Elif(self.group):
            m.d.sync += left.eq(Mux(last, current.group_last, left - 1))
        ends = lane_mask(current, Value.cast(1), lanes=sizes.lanes)
        columns = Cat(
            Mux(
                current.group_last == group,
                ends,
                (group < current.group_last).replicate(sizes.lanes),
            )
            for group in range(sizes.column_groups)
        )
        lanes = lane_mask(current, last, lanes=sizes.lanes)
        return (
            Mux(self.rows, columns, 0),
            Mux(self.group & ~current.constant, lanes, 0),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        columns, lanes = self._used(m)
        rows_wait = ACCUMULATOR_LATENCY + 1
        group_wait = ParameterMemory.LATENCY + 1
        # Slot of the last `launch`, and the same up to some cycles before.
        slots = [Signal(name=f"slot_{age}") for age in range(1 + max(rows_wait, group_wait))]
        with m.If(self.launch.valid):
            m.d.sync += slots[0].eq(self.launch.slot)
        m.d.sync += [late.eq(early) for early, late in zip(slots, slots[1:], strict=False)]

        used_columns = self._later(m, columns, rows_wait, "columns")
        used_lanes = self._later(m, lanes, group_wait, "lanes")
        tag = self.result.tag
        looks_up = Signal()
        result_slot = Signal()
        m.d.sync += [
            looks_up.eq(
                self.result.valid & ~tag.to_accumulators & self.endings[tag.slot].use_table
            ),
            result_slot.eq(tag.slot),
        ]
        causes = [
            (self.added_wrong, self.oldest),
            (looks_up & self.values_wrong.any(), result_slot),
            ((used_lanes & self.channels_wrong).any(), slots[group_wait]),
            ((used_columns & self.sums_wrong).any(), slots[rows_wait]),
            (self.read_wrong, slots[1]),
        ]
        m.d.sync += self.wrong.eq(Cat(wrong for wrong, _ in causes).any())
        for wrong, slot in reversed(causes):
            with m.If(wrong):
                m.d.sync += self.wrong_slot.eq(slot)
        return m
