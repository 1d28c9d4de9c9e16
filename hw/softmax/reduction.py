"""Reduction of the elements of a row to one number."""

from collections.abc import Callable

from amaranth.hdl import Module, Shape, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from celosia.hw.arch.config import SOFTMAX_ROWS
from celosia.hw.lib.component import Component
from celosia.hw.lib.delay import Delay

#: Row of a group: its number, whether the group is the first and the last of it, and whether the
#: row is the last of its instruction.
MARK = data.StructLayout({"valid": 1, "row": range(SOFTMAX_ROWS), "first": 1, "last": 1, "ends": 1})


class Reduction(Component):
    """Combines all elements of each row, group after group.

    Parameters
    ----------
    lanes : int
        Elements of a group, a power of two.
    shape : Shape
        Shape of an element.
    total : Shape
        Shape of the result.
    combine : function of two values
        Returns the maximum, or the sum, of two values. Both are in the order of the elements.

    Members
    -------
    mark, values : In(MARK), In(ArrayLayout(shape, lanes))
        A group. Lanes that are no elements must not change the result.
    done, total : Out(MARK), Out(total)
        Mark of the last group of a row, and the result of the row.

    Timing
    ------
    ``done`` and ``total`` follow the last group of a row by ``latency`` cycles. One group a cycle.
    """

    def __init__(
        self,
        *,
        lanes: int,
        shape: Shape,
        total: Shape,
        combine: Callable[[Value, Value], Value],
    ) -> None:
        self.lanes = lanes
        self.total_shape = total
        self.combine = combine
        self.latency = (lanes - 1).bit_length() + 1
        super().__init__(
            {
                "mark": In(MARK),
                "values": In(data.ArrayLayout(shape, lanes)),
                "done": Out(MARK),
                "total": Out(total),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        values = [self.values[lane] for lane in range(self.lanes)]
        level = 0
        while len(values) > 1:
            level += 1
            pairs = list(zip(values[::2], values[1::2], strict=True))
            values = [
                Signal(self.total_shape, name=f"level_{level}_{n}", reset_less=True)
                for n in range(len(pairs))
            ]
            m.d.sync += [
                value.eq(self.combine(*pair)) for value, pair in zip(values, pairs, strict=True)
            ]
        at_total = Signal(MARK)
        if level:
            m.submodules.late = late = Delay(MARK, cycles=level)
            m.d.comb += [late.i.eq(self.mark), at_total.eq(late.o)]
        else:
            m.d.comb += at_total.eq(self.mark)
        with m.If(at_total.valid & at_total.first):
            m.d.sync += self.total.eq(values[0])
        with m.Elif(at_total.valid):
            m.d.sync += self.total.eq(self.combine(self.total, values[0]))
        m.d.sync += [self.done.eq(at_total), self.done.valid.eq(at_total.valid & at_total.last)]
        return m
