"""Combines the elements of a window, and takes the result apart into groups of channels."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.arch import isa
from celosia.hw.fanout import COPY
from celosia.hw.vector.answers import element_layout
from celosia.hw.vector.pace import Pace


def group_layout(*, lanes: int) -> data.StructLayout:
    """Return a group of channels; ``fault`` says that some element of it does not exist."""
    return data.StructLayout(
        {"valid": 1, "fault": 1, "values": data.ArrayLayout(signed(32), lanes)}
    )


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
                "group": Out(group_layout(lanes=lanes)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape = data.ArrayLayout(signed(32), self.columns)
        # In registers of each column: what they come from is far away.
        new = Signal(shape, reset_less=True)
        valid, first, ends, sums = (
            [
                Signal(name=f"{name}_{column}", reset_less=True, attrs=COPY)
                for column in range(self.columns)
            ]
            for name in ("valid", "first", "ends", "sums")
        )
        element = self.element
        m.d.sync += new.eq(element["values"])
        m.d.sync += [copy.eq(element.valid) for copy in valid]
        m.d.sync += [copy.eq(element.first) for copy in first]
        m.d.sync += [copy.eq(element.valid & element.last) for copy in ends]
        with m.If(self.launch):
            m.d.sync += [copy.eq(self.window == isa.Window.SUM) for copy in sums]

        held, out = Signal(shape, reset_less=True), Signal(shape, reset_less=True)
        moves: Any = Signal() if self.group_cycles > 1 else True
        for column in range(self.columns):
            old, added = held[column], (held[column] + new[column])[:32].as_signed()
            greatest = Mux(old > new[column], old, new[column])
            combined = Signal(signed(32), name=f"combined_{column}")
            m.d.comb += combined.eq(
                Mux(first[column], new[column], Mux(sums[column], added, greatest))
            )
            with m.If(valid[column]):
                m.d.sync += held[column].eq(combined)
            with m.If(ends[column]):
                m.d.sync += out[column].eq(combined)
            with m.Elif(moves & (column + self.lanes < self.columns)):
                m.d.sync += out[column].eq(out[(column + self.lanes) % self.columns])
        self._steps(m, moves)
        m.d.comb += [self.group["values"][lane].eq(out[lane]) for lane in range(self.lanes)]
        return m

    def _steps(self, m: Module, moves: Any) -> None:
        """Say when there are groups, and whether one of their elements does not exist.

        ``moves`` says when the next group takes the place of the one before, if not in each cycle.
        """
        element = self.element
        names = ("first", "last", "groups_last", "fault")
        layout = data.StructLayout({name: element[name].shape() for name in names})
        valid, entered = Signal(), Signal(layout, reset_less=True)
        m.d.sync += [valid.eq(element.valid), *(entered[n].eq(element[n]) for n in names)]
        held_fault, out_fault = Signal(reset_less=True), Signal(reset_less=True)
        fault = Signal()
        m.d.comb += fault.eq(entered.fault | (held_fault & ~entered.first))
        with m.If(valid):
            m.d.sync += held_fault.eq(fault)
        out_valid = Signal()
        ends = valid & entered.last
        m.d.comb += [self.group.valid.eq(out_valid), self.group.fault.eq(out_fault)]
        if self.group_cycles > 1:
            groups = self.columns // self.lanes
            m.submodules.pace = pace = Pace(groups=groups, group_cycles=self.group_cycles)
            with m.If(ends):
                m.d.sync += out_fault.eq(fault)
            m.d.sync += out_valid.eq(ends | moves)
            m.d.comb += [
                pace.start.eq(ends),
                pace.groups_last.eq(entered.groups_last),
                moves.eq(pace.moves),
                self.busy.eq(valid | pace.in_use),
            ]
            return
        left = Signal(element.groups_last.shape())
        with m.If(ends):
            m.d.sync += [out_fault.eq(fault), out_valid.eq(1), left.eq(entered.groups_last)]
        with m.Else():
            m.d.sync += [out_valid.eq(left != 0), left.eq(Mux(left != 0, left - 1, 0))]
        m.d.comb += self.busy.eq(valid | out_valid)
