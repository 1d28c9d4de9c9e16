"""Combines the elements of a window, and takes the result apart into groups of channels."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.arch import isa
from celosia.hw.fanout import COPY
from celosia.hw.vector.source import element_layout

#: Columns that share a register saying how windows are combined.
_BLOCK = 4


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
        Takes ``window`` for the elements from the next cycle on.
    window : In(isa.Window)
        How they are combined. Sums wrap.
    group : Out(group_layout)
        Groups.
    busy : Out(1)
        There are groups to come.

    Timing
    ------
    The first group follows the last element of its window by ``LATENCY`` cycle, the others
    follow cycle by cycle.
    """

    LATENCY = 1

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
        element = self.element
        sums = [
            Signal(name=f"sums_{block}", reset_less=True, attrs=COPY)
            for block in range(-(-self.columns // _BLOCK))
        ]
        with m.If(self.launch):
            m.d.sync += [copy.eq(self.window == isa.Window.SUM) for copy in sums]

        held = Signal(data.ArrayLayout(signed(32), self.columns), reset_less=True)
        combined = Signal(data.ArrayLayout(signed(32), self.columns))
        held_fault = Signal(reset_less=True)
        fault = Signal()
        m.d.comb += fault.eq(element.fault | (held_fault & ~element.first))
        for column in range(self.columns):
            new = element["values"][column]
            old = held[column]
            both = Mux(
                sums[column // _BLOCK], (old + new)[:32], Mux(old > new, old, new)
            ).as_signed()
            m.d.comb += combined[column].eq(Mux(element.first, new, both))
        with m.If(element.valid):
            m.d.sync += [held.eq(combined), held_fault.eq(fault)]

        out = Signal(data.ArrayLayout(signed(32), self.columns), reset_less=True)
        out_fault = Signal(reset_less=True)
        out_valid = Signal()
        left = Signal(element.groups_last.shape())
        with m.If(element.valid & element.last):
            m.d.sync += [
                out.eq(combined),
                out_fault.eq(fault),
                out_valid.eq(1),
                left.eq(element.groups_last),
            ]
        with m.Else():
            m.d.sync += [
                out.eq(out.as_value() >> 32 * self.lanes),
                out_valid.eq(left != 0),
                left.eq(Mux(left != 0, left - 1, 0)),
            ]
        m.d.comb += [
            self.group.valid.eq(out_valid),
            self.group.fault.eq(out_fault),
            *(self.group["values"][lane].eq(out[lane]) for lane in range(self.lanes)),
            self.busy.eq(out_valid),
        ]
        return m
