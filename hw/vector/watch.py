"""Finds out whose a word of wrong parity was."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.matrix.accumulators import ACCUMULATOR_LATENCY
from celosia.hw.memory.parameter_memory import ParameterMemory
from celosia.hw.vector.task import MARK, VectorSizes, lane_mask


class Watch(wiring.Component):
    """Names the task that used a word of wrong parity.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    launch, task, slot : In
        What is read, and what enters the pipe, from the next cycle on belongs to ``task``.
    read_wrong : In(1)
        One cycle behind an answer of the unified buffer.
    rows : In(1)
        The source reads a row of the accumulators; ``sums_wrong`` is of all reads.
    sums_wrong : In(columns)
        One cycle behind sums.
    group : In(1)
        A group enters the pipe, or is ``Pipe.used``.
    channels_wrong : In(lanes)
        One cycle behind its parameters.
    result, endings : In(MARK), In(ArrayLayout(VectorSizes.ending, 2))
        As of ``Pipe``.
    values_wrong : In(lanes)
        One cycle behind a result: of the tables' entries.
    added_wrong, added_slot : In(1), In(1)
        A sum that a result was added to or compared with was wrong, of which task.
    wrong, wrong_slot : Out(1), Out(1)
        A word of wrong parity was used, by which task.

    Timing
    ------
    Outputs follow what they tell of by one cycle, before the task it is of is done. Of several
    at once, the one furthest down the pipe is named.
    """

    launch: Signal
    task: data.View
    slot: Signal
    read_wrong: Signal
    rows: Signal
    sums_wrong: Signal
    group: Signal
    channels_wrong: Signal
    result: data.View
    endings: data.View
    values_wrong: Signal
    added_wrong: Signal
    added_slot: Signal
    wrong: Signal
    wrong_slot: Signal

    def __init__(self, *, sizes: VectorSizes) -> None:
        self.sizes = sizes
        super().__init__(
            {
                "launch": In(1),
                "task": In(sizes.task),
                "slot": In(1),
                "read_wrong": In(1),
                "rows": In(1),
                "sums_wrong": In(sizes.columns),
                "group": In(1),
                "channels_wrong": In(sizes.lanes),
                "result": In(MARK),
                "endings": In(data.ArrayLayout(sizes.ending, 2)),
                "values_wrong": In(sizes.lanes),
                "added_wrong": In(1),
                "added_slot": In(1),
                "wrong": Out(1),
                "wrong_slot": Out(1),
            }
        )

    @staticmethod
    def _later(m: Module, value: Value, cycles: int, name: str) -> Value:
        for cycle in range(1, cycles + 1):
            later = Signal(len(value), name=f"{name}_{cycle}")
            m.d.sync += later.eq(value)
            value = later
        return value

    def _used(self, m: Module) -> tuple[Value, Value]:
        """Return columns of a row, and lanes of a group entering the pipe, that are channels."""
        sizes = self.sizes
        current = Signal(sizes.task, reset_less=True)
        left = Signal(sizes.group_bits, reset_less=True)
        last = left == 0
        with m.If(self.launch):
            m.d.sync += [current.eq(self.task), left.eq(self.task.group_last)]
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
        # Tasks that the source and the pipe work at, the older the later.
        slots = [Signal(name=f"slot_{age}") for age in range(1 + max(rows_wait, group_wait))]
        with m.If(self.launch):
            m.d.sync += slots[0].eq(self.slot)
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
            (self.added_wrong, self.added_slot),
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
