"""Elements of the responses to reads."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data
from amaranth.lib.fifo import SyncFIFO

from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.delay import delayed
from celosia.hw.lib.fanout import COPY
from celosia.hw.memory.accumulators import ACCUMULATOR_LATENCY
from celosia.hw.vector.task import VectorSizes


def request_layout(*, columns: int, lanes: int) -> data.StructLayout:
    """Return the layout of a request's record: what is known of an element before its values.

    ``first`` and ``last`` of its window, its number of groups less one, and ``outside``: its
    address is outside the memory.
    """
    groups_last = range(columns // lanes)
    return data.StructLayout({"first": 1, "last": 1, "groups_last": groups_last, "outside": 1})


def element_layout(*, columns: int, lanes: int) -> data.StructLayout:
    """Return the layout of an element: up to ``columns`` values, of which the first groups count.

    ``first`` and ``last`` of its window, the number of its groups less one, and ``fault``: it was
    outside the memory.
    """
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


class Responses(Component):
    """Joins the responses to reads with the records of their requests to elements.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    request_unified, request_accumulators, request_nothing : In(1)
        A read of the unified buffer is taken; a read of the accumulators is issued; an element
        without a source (FILL) is due. Only one kind until ``quiet``.
    request : In(request_layout)
        Record of that request.
    space : Out(1)
        There is space for the records of two more reads of the unified buffer.
    read_valid, read_data, read_fault, sums : In
        Responses, see ``VectorUnit``; at least two cycles after their requests.
    element : Out(element_layout)
        Elements, in the order of the requests.
    quiet : Out(1)
        No response is missing.

    Timing
    ------
    An element of the unified buffer comes in the cycle of its response, of the accumulators
    ``ACCUMULATOR_LATENCY`` cycles after its request, without a source one cycle after.
    """

    DEPTH = 16

    def __init__(self, *, sizes: VectorSizes) -> None:
        self.sizes = sizes
        shape = {"columns": sizes.columns, "lanes": sizes.lanes}
        self.request_layout = request_layout(**shape)
        self.request_unified = In(1)
        self.request_accumulators = In(1)
        self.request_nothing = In(1)
        self.request = In(self.request_layout)
        self.space = Out(1)
        self.read_valid = In(1)
        self.read_data = In(data.ArrayLayout(unsigned(8), sizes.rows))
        self.read_fault = In(1)
        self.sums = In(data.ArrayLayout(signed(32), sizes.columns))
        self.element = Out(element_layout(**shape))
        self.quiet = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        layout = self.request_layout
        m.submodules.awaited = awaited = SyncFIFO(width=layout.size, depth=self.DEPTH)
        late = delayed(m, self.request, ACCUMULATOR_LATENCY, name="request", reset_less=True)
        late_valid = delayed(m, self.request_accumulators, ACCUMULATOR_LATENCY, name="valid")
        # Registered, so that the decision to issue ends here.
        nothing = delayed(m, self.request_nothing, 1, name="nothing")[-1]
        now = Signal(layout)
        element = self.element
        m.d.comb += [
            element.valid.eq(self.read_valid | late_valid[-1] | nothing),
            element.first.eq(now.first),
            element.last.eq(now.last),
            element.groups_last.eq(now.groups_last),
            element.fault.eq(now.outside | (self.read_valid & self.read_fault)),
            awaited.w_en.eq(self.request_unified),
            awaited.w_data.eq(self.request),
            awaited.r_en.eq(self.read_valid),
            self.space.eq(awaited.w_level < self.DEPTH - 1),
            self.quiet.eq(~awaited.r_rdy & ~Cat(nothing, late_valid[1:]).any()),
            now.eq(Mux(self.read_valid, awaited.r_data, Mux(late_valid[-1], late[-1], late[1]))),
        ]
        # Only one kind is in flight at a time, so the select is registered before the response.
        kind = Signal(reset_less=True)
        with m.If(self.request_unified | self.request_accumulators):
            m.d.sync += kind.eq(self.request_unified)
        for column in range(self.sizes.columns):
            value = self.sums[column]
            if column < self.sizes.lanes * self.sizes.read_groups:
                of_bytes = Signal(name=f"of_bytes_{column}", reset_less=True, attrs=COPY)
                m.d.sync += of_bytes.eq(kind)
                value = Mux(of_bytes, self.read_data[column].as_signed(), value)
            m.d.comb += element["values"][column].eq(value)
        return m
