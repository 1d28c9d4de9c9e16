"""Window unit: combines the elements of a window and splits the result into groups."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from celosia.hw.arch import isa
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import COPY, data_registers
from celosia.hw.vector.pace import Pace
from celosia.hw.vector.responses import element_layout


def group_layout(*, lanes: int) -> data.StructLayout:
    """Return the layout of a group; ``fault``: an element of its window was outside the memory."""
    return data.StructLayout(
        {"valid": 1, "fault": 1, "values": data.ArrayLayout(signed(32), lanes)}
    )


#: Columns that share the registers that decide what becomes of an element.
_SHARED = 4


class WindowColumns(Component):
    """Maximum or sum of the windows of a few columns.

    One adder for each column does both: for the maximum it subtracts the new element.

    Parameters
    ----------
    columns : int
        Number of columns.

    Members
    -------
    launch, window : In(1), In(isa.Window)
        Takes ``window`` for the elements from the next cycle on.
    valid, first : In(1), In(1)
        There is an element in each column; it is the first of its window.
    values : In(ArrayLayout(signed(32), columns))
        The elements.
    held : Out(ArrayLayout(signed(32), columns))
        Maxima or sums of the elements of the windows so far.

    Timing
    ------
    ``held`` changes two cycles after an element. One element each cycle.
    """

    def __init__(self, *, columns: int) -> None:
        self.columns = columns
        values = data.ArrayLayout(signed(32), columns)
        self.launch = In(1)
        self.window = In(isa.Window)
        self.valid = In(1)
        self.first = In(1)
        self.values = In(values)
        self.held = Out(values)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        [held] = data_registers(m, self.held)
        # `held` becomes the element, not the sum; it changes whatever the comparison gives; it
        # changes if the element is greater.
        replaces, always, compares = (
            Signal(name=name, reset_less=True, attrs=COPY)
            for name in ("replaces", "always", "compares")
        )
        # The window is a maximum. A copy for each column.
        maximum = [
            Signal(name=f"greatest_{column}", reset_less=True, attrs=COPY)
            for column in range(self.columns)
        ]
        m.d.sync += [
            replaces.eq(self.first | maximum[0]),
            always.eq(self.valid & (self.first | ~maximum[0])),
            compares.eq(self.valid & maximum[0]),
        ]
        with m.If(self.launch):
            m.d.sync += [copy.eq(self.window == isa.Window.MAX) for copy in maximum]
        for column, greatest in enumerate(maximum):
            # Complemented for the maximum.
            new = Signal(signed(32), name=f"new_{column}", reset_less=True)
            m.d.sync += new.eq(self.values[column] ^ greatest.replicate(32))
            # The bit below the numbers is the carry that completes a subtraction: 1 + `greatest`.
            total = Signal(signed(34), name=f"total_{column}")
            before = Cat(1, held[column]).as_signed()
            m.d.comb += total.eq(before + Cat(greatest, new).as_signed())
            # The sum comes late: of a maximum its sign reaches the enable only.
            with m.If(always | (compares & total[-1])):
                m.d.sync += held[column].eq(
                    Mux(replaces, new ^ greatest.replicate(32), total[1:33])
                )
        return m


class WindowSteps(Component):
    """Timing of the groups that come out of windows, and their faults.

    Parameters
    ----------
    columns, lanes, group_cycles : int
        As in ``WindowUnit``.

    Members
    -------
    element : In(element_layout)
        As in ``WindowUnit``; values are ignored.
    soon : Out(1)
        Only with ``group_cycles`` = 1: a group comes in two cycles.
    valid, fault, busy : Out(1)
        As in ``WindowUnit``.
    fresh : Out(lanes)
        The group is the first of its window. Equal registers, one for each lane.
    moves : Out(1)
        The next group of the window comes in the next cycle.

    Timing
    ------
    As in ``WindowUnit``.
    """

    def __init__(self, *, columns: int, lanes: int, group_cycles: int) -> None:
        self.lanes = lanes
        self.groups = columns // lanes
        self.group_cycles = group_cycles
        self.soon = Out(1)
        self.valid = Out(1)
        self.fault = Out(1)
        self.busy = Out(1)
        self.fresh = Out(lanes)
        self.moves = Out(1)
        self.element = In(element_layout(columns=columns, lanes=lanes))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        [fault_register] = data_registers(m, self.fault)
        element = self.element
        entered, ends, first, fault, wrong = (
            Signal(name=name) for name in ("entered", "ends", "first", "fault", "wrong")
        )
        held_fault = Signal(reset_less=True)
        m.d.comb += wrong.eq(fault | (held_fault & ~first))
        m.d.sync += [
            entered.eq(element.valid),
            ends.eq(element.valid & element.last),
            first.eq(element.first),
            fault.eq(element.fault),
        ]
        for lane in range(self.lanes):
            fresh = Signal(name=f"fresh_{lane}", attrs=COPY)
            m.d.sync += fresh.eq(ends)
            m.d.comb += self.fresh[lane].eq(fresh)
        with m.If(entered):
            m.d.sync += held_fault.eq(wrong)
        with m.If(ends):
            m.d.sync += fault_register.eq(wrong)
        if self.group_cycles > 1:
            m.submodules.pace = pace = Pace(groups=self.groups, group_cycles=self.group_cycles)
            groups_last = Signal.like(element.groups_last, reset_less=True)
            m.d.sync += [groups_last.eq(element.groups_last), self.valid.eq(ends | self.moves)]
            m.d.comb += [
                pace.start.eq(ends),
                pace.groups_last.eq(groups_last),
                self.moves.eq(pace.moves),
                self.busy.eq(entered | pace.in_use),
            ]
            return m
        left = Signal.like(element.groups_last)
        coming = Signal()
        m.d.comb += [
            self.soon.eq((element.valid & element.last) | (left != 0)),
            self.moves.eq(1),
            self.busy.eq(entered | self.valid),
        ]
        m.d.sync += [coming.eq(self.soon), self.valid.eq(coming)]
        with m.If(element.valid & element.last):
            m.d.sync += left.eq(element.groups_last)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        return m


class WindowUnit(Component):
    """Maximum or sum of each window, as groups of ``lanes`` channels.

    Parameters
    ----------
    columns, lanes : int
        Channels of an element, and of a group; ``lanes`` divides ``columns``.
    group_cycles : int
        Cycles from one group of a window to the next.

    Members
    -------
    element : In(element_layout)
        Elements. Of a window, the ``groups_last`` of its last element counts. The last element of
        the next window must come at least (``groups_last`` + 1) · ``group_cycles`` later.
    launch : In(1)
        Takes ``window`` for the elements from the next cycle on; the unit is not ``busy``.
    window : In(isa.Window)
        Maximum or sum. Sums wrap.
    soon : Out(1)
        Only with ``group_cycles`` = 1: a group comes in two cycles. It is ``Pipe.next``, not
        ``Pipe.soon``.
    group : Out(group_layout)
        Groups. ``valid`` is high for one cycle, the rest is constant for ``group_cycles``.
    busy : Out(1)
        Groups are left, or the last group must still be constant.

    Timing
    ------
    The first group follows the last element of its window by ``LATENCY`` cycles, each other group
    the one before by ``group_cycles``.
    """

    LATENCY = 2

    def __init__(self, *, columns: int, lanes: int, group_cycles: int = 1) -> None:
        self.columns = columns
        self.lanes = lanes
        self.group_cycles = group_cycles
        self.launch = In(1)
        self.element = In(element_layout(columns=columns, lanes=lanes))
        self.window = In(isa.Window)
        self.soon = Out(1)
        self.group = Out(group_layout(lanes=lanes))
        self.busy = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        columns, lanes = self.columns, self.lanes
        m.submodules.steps = steps = WindowSteps(
            columns=columns, lanes=lanes, group_cycles=self.group_cycles
        )
        m.d.comb += [
            steps.element.eq(self.element),
            self.soon.eq(steps.soon),
            self.group.valid.eq(steps.valid),
            self.group.fault.eq(steps.fault),
            self.busy.eq(steps.busy),
        ]
        held: list[Value] = []
        for first in range(0, columns, _SHARED):
            count = min(_SHARED, columns - first)
            m.submodules[f"columns_{first}"] = combined = WindowColumns(columns=count)
            m.d.comb += [
                combined.launch.eq(self.launch),
                combined.window.eq(self.window),
                combined.valid.eq(self.element.valid),
                combined.first.eq(self.element.first),
            ]
            for column in range(count):
                m.d.comb += combined.values[column].eq(self.element["values"][first + column])
                held.append(combined.held[column])
        # The first group comes from the columns, which may change in the next cycle; the others are
        # in a register. So is the first one if a group takes several cycles.
        values = held if self.group_cycles > 1 else held[lanes:]
        waiting = [
            Signal(signed(32), name=f"rest_{n}", reset_less=True) for n in range(len(values))
        ]
        for n, value in enumerate(waiting):
            with m.If(steps.fresh[n % lanes]):
                m.d.sync += value.eq(values[n])
            with m.Elif(steps.moves):
                m.d.sync += value.eq(waiting[n + lanes] if n + lanes < len(waiting) else value)
        for lane in range(lanes):
            later = waiting[lane] if waiting else held[lane]
            m.d.comb += self.group["values"][lane].eq(Mux(steps.fresh[lane], held[lane], later))
        return m
