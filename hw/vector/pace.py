"""Spacing of the groups of a window."""

from amaranth.hdl import Module, Signal

from celosia.hw.lib.component import Component, In, Out


class Pace(Component):
    """Counter of the groups of a window and of the cycles of each group.

    Parameters
    ----------
    groups : int
        Most groups of a window.
    group_cycles : int
        Cycles from group to group, at least 1.

    Members
    -------
    start, groups_last : In(1), In(range(groups))
        A window of ``groups_last`` + 1 groups begins in the next cycle. Only while ``in_use`` is
        low.
    hold : In(1)
        This cycle does not count.
    in_use : Out(1)
        The window continues in the next cycle.
    moves : Out(1)
        The next group of the window begins in the next cycle.

    Timing
    ------
    ``in_use`` is high from the cycle after ``start`` on, for (``groups_last`` + 1) ·
    ``group_cycles`` - 1 cycles.

    Raises
    ------
    ValueError
        If ``group_cycles`` is below 1.
    """

    def __init__(self, *, groups: int, group_cycles: int) -> None:
        if group_cycles < 1:
            raise ValueError(f"group_cycles: wanted at least 1, got {group_cycles}")
        self.groups = groups
        self.group_cycles = group_cycles
        self.start = In(1)
        self.groups_last = In(range(groups))
        self.hold = In(1)
        self.in_use = Out(1)
        self.moves = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        left = Signal(range(self.groups))
        waits = Signal(range(self.group_cycles))
        m.d.comb += [
            self.in_use.eq((waits != 0) | (left != 0)),
            self.moves.eq((waits == 0) & (left != 0) & ~self.hold),
        ]
        with m.If(self.start):
            m.d.sync += left.eq(self.groups_last)
        with m.Elif(self.moves):
            m.d.sync += left.eq(left - 1)
        with m.If(self.start | self.moves):
            m.d.sync += waits.eq(self.group_cycles - 1)
        with m.Elif((waits != 0) & ~self.hold):
            m.d.sync += waits.eq(waits - 1)
        return m
