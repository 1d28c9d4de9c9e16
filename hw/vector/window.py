"""Combines the elements of a window, and takes the result apart into groups of channels."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.arch import isa
from celosia.hw.fanout import reset_less
from celosia.hw.vector.answers import element_layout
from celosia.hw.vector.pace import Pace


def group_layout(*, lanes: int) -> data.StructLayout:
    """Return a group of channels; ``fault`` says that some element of it does not exist."""
    return data.StructLayout(
        {"valid": 1, "fault": 1, "values": data.ArrayLayout(signed(32), lanes)}
    )


class WindowColumn(wiring.Component):
    """Greatest element or sum of one column's window.

    One adder does both: for the greatest element it subtracts the new one.

    Members
    -------
    launch, window : In(1), In(isa.Window)
        Takes ``window`` for the elements from the next cycle on.
    valid, first, value : In(1), In(1), In(signed(32))
        Elements, and whether they are the first of their window.
    held : Out(signed(32))
        What the elements so far make.

    Timing
    ------
    ``held`` changes two cycles after an element. One element each cycle.
    """

    launch: Signal
    window: Value
    valid: Signal
    first: Signal
    value: Signal
    held: Signal

    def __init__(self) -> None:
        super().__init__(
            {
                "launch": In(1),
                "window": In(isa.Window),
                "valid": In(1),
                "first": In(1),
                "value": In(signed(32)),
                "held": Out(signed(32)),
            }
        )
        reset_less(self, "held")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Complemented for the greatest element.
        new = Signal(signed(32), reset_less=True)
        valid, first, greatest = (
            Signal(name=name, reset_less=True) for name in ("valid", "first", "greatest")
        )
        m.d.sync += [
            new.eq(self.value ^ greatest.replicate(32)),
            valid.eq(self.valid),
            first.eq(self.first),
        ]
        with m.If(self.launch):
            m.d.sync += greatest.eq(self.window == isa.Window.MAX)
        total = Signal(signed(34))
        replaces = Signal()
        m.d.comb += [
            total.eq(Cat(1, self.held).as_signed() + Cat(greatest, new).as_signed()),
            replaces.eq(first | (greatest & total[-1])),
        ]
        with m.If(valid & (replaces | ~greatest)):
            m.d.sync += self.held.eq(Mux(replaces, new ^ greatest.replicate(32), total[1:33]))
        return m


class WindowSteps(wiring.Component):
    """When groups come out of windows, and whether one of their elements does not exist.

    Parameters
    ----------
    columns, lanes, group_cycles : int
        As of ``WindowUnit``.

    Members
    -------
    element : In(element_layout)
        As of ``WindowUnit``; values are ignored.
    soon : Out(1)
        With one cycle a group: there is a group in two cycles.
    valid, fault, busy : Out(1)
        As of ``WindowUnit``.
    fresh : Out(1)
        The group is the first of its window.
    moves : Out(1)
        The next group of the window comes in the next cycle.

    Timing
    ------
    As of ``WindowUnit``.
    """

    element: data.View
    soon: Signal
    valid: Signal
    fault: Signal
    busy: Signal
    fresh: Signal
    moves: Signal

    def __init__(self, *, columns: int, lanes: int, group_cycles: int) -> None:
        self.groups = columns // lanes
        self.group_cycles = group_cycles
        outputs = ("soon", "valid", "fault", "busy", "fresh", "moves")
        super().__init__(
            {
                "element": In(element_layout(columns=columns, lanes=lanes)),
                **{name: Out(1) for name in outputs},
            }
        )
        reset_less(self, "fault")

    def elaborate(self, platform: object) -> Module:
        m = Module()
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
            self.fresh.eq(ends),
        ]
        with m.If(entered):
            m.d.sync += held_fault.eq(wrong)
        with m.If(ends):
            m.d.sync += self.fault.eq(wrong)
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


class WindowUnit(wiring.Component):
    """Greatest element or sum of each window, as groups of ``lanes`` channels.

    Parameters
    ----------
    columns, lanes : int
        Channels of an element, and of a group; ``lanes`` divides ``columns``.
    group_cycles : int
        From one group to the next.

    Members
    -------
    element : In(element_layout)
        Elements, marked first and last of their window.
        The ``groups_last`` of the last one counts, and the last element of the next window must
        come at least ``groups_last + 1`` times ``group_cycles`` later.
    launch : In(1)
        Takes ``window`` for the elements from the next cycle on; the unit is not ``busy``.
    window : In(isa.Window)
        How they are combined. Sums wrap.
    soon : Out(1)
        With one cycle a group: there is a group in two cycles.
    group : Out(group_layout)
        Groups; all but ``valid`` stays until the next one may come.
    busy : Out(1)
        There are elements or groups to come, or the last group still stays.

    Timing
    ------
    The first group follows the last element of its window by ``LATENCY`` cycles, the others
    follow one another by ``group_cycles``.
    """

    LATENCY = 2

    launch: Signal
    element: data.View
    window: Signal
    soon: Signal
    group: data.View
    busy: Signal

    def __init__(self, *, columns: int, lanes: int, group_cycles: int = 1) -> None:
        self.columns = columns
        self.lanes = lanes
        self.group_cycles = group_cycles
        super().__init__(
            {
                "launch": In(1),
                "element": In(element_layout(columns=columns, lanes=lanes)),
                "window": In(isa.Window),
                "soon": Out(1),
                "group": Out(group_layout(lanes=lanes)),
                "busy": Out(1),
            }
        )

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
        held = []
        for column in range(columns):
            m.submodules[f"column_{column}"] = combined = WindowColumn()
            m.d.comb += [
                combined.launch.eq(self.launch),
                combined.window.eq(self.window),
                combined.valid.eq(self.element.valid),
                combined.first.eq(self.element.first),
                combined.value.eq(self.element["values"][column]),
            ]
            held.append(combined.held)
        # The first group comes from the columns, which may go on in the next cycle. It is kept if it
        # stays longer.
        kept = held if self.group_cycles > 1 else held[lanes:]
        rest = [Signal(signed(32), name=f"rest_{n}", reset_less=True) for n in range(len(kept))]
        for n, value in enumerate(rest):
            with m.If(steps.fresh):
                m.d.sync += value.eq(kept[n])
            with m.Elif(steps.moves):
                m.d.sync += value.eq(rest[n + lanes] if n + lanes < len(rest) else value)
        for lane in range(lanes):
            later = rest[lane] if rest else held[lane]
            m.d.comb += self.group["values"][lane].eq(Mux(steps.fresh, held[lane], later))
        return m
