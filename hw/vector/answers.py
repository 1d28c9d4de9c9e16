"""Elements out of the answers to reads."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from celosia.hw.fanout import COPY
from celosia.hw.matrix.accumulators import ACCUMULATOR_LATENCY
from celosia.hw.vector.task import VectorSizes


def asked_layout(*, columns: int, lanes: int) -> data.StructLayout:
    """Return what is known of an element when it is asked for.

    Its place in the window, its groups of channels less one, and that there is no such place.
    """
    groups_last = range(columns // lanes)
    return data.StructLayout({"first": 1, "last": 1, "groups_last": groups_last, "outside": 1})


def element_layout(*, columns: int, lanes: int) -> data.StructLayout:
    """Return an element of a window: up to ``columns`` channels, the groups in use in front."""
    return data.StructLayout(
        {
            "valid": 1,
            "first": 1,
            "last": 1,
            "groups_last": range(columns // lanes),
            "fault": 1,
            "values": data.ArrayLayout(signed(32), columns),
        }
    )


class Answers(wiring.Component):
    """Elements out of the answers to reads.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    ask_unified, ask_accumulators, ask_nothing : In(1)
        A read is taken, or, for nothing, an element comes in the next cycle. Only one kind until
        ``quiet``.
    asked : In(asked_layout)
        With each of them.
    room : Out(1)
        One more read of the unified buffer may be asked.
    read_valid, read_data, read_fault, sums : In
        Answers, see the unit; at least two cycles behind what they answer.
    element : Out(element_layout)
        Elements in the order asked.
    quiet : Out(1)
        No answer is awaited.

    Timing
    ------
    Elements come with the answers: of the accumulators ``ACCUMULATOR_LATENCY`` cycles after their
    read, which they are told as it is asked, of nothing one cycle after it was asked.
    """

    DEPTH = 16

    ask_unified: Signal
    ask_accumulators: Signal
    ask_nothing: Signal
    asked: data.View
    room: Signal
    read_valid: Signal
    read_data: data.View
    read_fault: Signal
    sums: data.View
    element: data.View
    quiet: Signal

    def __init__(self, *, sizes: VectorSizes) -> None:
        self.sizes = sizes
        shape = {"columns": sizes.columns, "lanes": sizes.lanes}
        self.asked_layout = asked_layout(**shape)
        super().__init__(
            {
                "ask_unified": In(1),
                "ask_accumulators": In(1),
                "ask_nothing": In(1),
                "asked": In(self.asked_layout),
                "room": Out(1),
                "read_valid": In(1),
                "read_data": In(data.ArrayLayout(unsigned(8), sizes.rows)),
                "read_fault": In(1),
                "sums": In(data.ArrayLayout(signed(32), sizes.columns)),
                "element": Out(element_layout(**shape)),
                "quiet": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        layout = self.asked_layout
        m.submodules.awaited = awaited = SyncFIFO(width=layout.size, depth=self.DEPTH)
        late = [self.asked]
        late_valid = [self.ask_accumulators]
        for cycle in range(1, ACCUMULATOR_LATENCY + 1):
            asked = Signal(layout, name=f"asked_{cycle}", reset_less=True)
            valid = Signal(name=f"valid_{cycle}")
            m.d.sync += [asked.eq(late[-1]), valid.eq(late_valid[-1])]
            late.append(asked)
            late_valid.append(valid)
        # Registered, so that what decides to ask does not reach into the window unit.
        nothing = Signal()
        asked_nothing = Signal(layout, reset_less=True)
        m.d.sync += [nothing.eq(self.ask_nothing), asked_nothing.eq(self.asked)]
        now = Signal(layout)
        element = self.element
        m.d.comb += [
            element.valid.eq(self.read_valid | late_valid[-1] | nothing),
            element.first.eq(now.first),
            element.last.eq(now.last),
            element.groups_last.eq(now.groups_last),
            element.fault.eq(now.outside | (self.read_valid & self.read_fault)),
            self.room.eq(awaited.w_rdy),
            awaited.w_en.eq(self.ask_unified),
            awaited.w_data.eq(self.asked),
            awaited.r_en.eq(self.read_valid),
            self.quiet.eq(~awaited.r_rdy & ~Cat(nothing, late_valid[1:]).any()),
            now.eq(
                Mux(self.read_valid, awaited.r_data, Mux(late_valid[-1], late[-1], asked_nothing))
            ),
        ]
        # Only one kind is awaited at a time, so it is known long before the answer comes.
        kind = Signal(reset_less=True)
        with m.If(self.ask_unified | self.ask_accumulators):
            m.d.sync += kind.eq(self.ask_unified)
        for column in range(self.sizes.columns):
            value = self.sums[column]
            if column < self.sizes.lanes * self.sizes.read_groups:
                of_bytes = Signal(name=f"of_bytes_{column}", reset_less=True, attrs=COPY)
                m.d.sync += of_bytes.eq(kind)
                value = Mux(of_bytes, self.read_data[column].as_signed(), value)
            m.d.comb += element["values"][column].eq(value)
        return m
