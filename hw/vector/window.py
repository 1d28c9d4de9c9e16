"""Combines the elements of a window, and takes the result apart into groups of channels."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.arch import isa
from celosia.hw.fanout import COPY
from celosia.hw.vector.answers import element_layout


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

    Members
    -------
    element : In(element_layout)
        Elements, marked first and last of their window.
        The ``groups_last`` of the last one counts, and the last element of the next window must
        come at least so many cycles later, plus one.
    launch : In(1)
        Takes ``window`` for the elements from the next cycle on; the unit is not ``busy``.
    window : In(isa.Window)
        How they are combined. Sums wrap.
    group : Out(group_layout)
        Groups.
    busy : Out(1)
        There are elements or groups to come.

    Timing
    ------
    The first group follows the last element of its window by ``LATENCY`` cycles, the others
    follow cycle by cycle.
    """

    LATENCY = 2

    launch: Signal
    element: data.View
    window: Signal
    group: data.View
    busy: Signal

    def __init__(self, *, columns: int, lanes: int) -> None:
        self.columns = columns
        self.lanes = lanes
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
            with m.Elif(column + self.lanes < self.columns):
                m.d.sync += out[column].eq(out[(column + self.lanes) % self.columns])
        self._steps(m)
        m.d.comb += [self.group["values"][lane].eq(out[lane]) for lane in range(self.lanes)]
        return m

    def _steps(self, m: Module) -> None:
        """Say when there are groups, and whether one of their elements does not exist."""
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
        left = Signal(element.groups_last.shape())
        with m.If(valid & entered.last):
            m.d.sync += [out_fault.eq(fault), out_valid.eq(1), left.eq(entered.groups_last)]
        with m.Else():
            m.d.sync += [out_valid.eq(left != 0), left.eq(Mux(left != 0, left - 1, 0))]
        m.d.comb += [
            self.group.valid.eq(out_valid),
            self.group.fault.eq(out_fault),
            self.busy.eq(valid | out_valid),
        ]
