"""Reduction of the elements of a row to one number: the greatest, or the sum."""

from collections.abc import Callable

from amaranth.hdl import Module, Mux, Shape, Signal, Value, signed, unsigned
from amaranth.lib import data
from amaranth.lib.memory import Memory

from celosia.hw.arch.config import SOFTMAX_ROWS
from celosia.hw.lib import race
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.delay import delayed
from celosia.hw.softmax.exponentials import BITS

#: Width of the sums, and bits of their fractions.
SUM_BITS = 28

#: Bits of an exponential that sums drop, rounded.
_DROPPED = 12

#: Row of a group: its number, whether the group is the first and the last of it, and whether the
#: row is the last of its instruction. ``MARK`` of ``hw/vector/task.py`` is another layout.
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
        Returns the maximum, or the sum, of two values; the first is of earlier elements.

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
        self.mark = In(MARK)
        self.values = In(data.ArrayLayout(shape, lanes))
        self.done = Out(MARK)
        self.total = Out(total)
        super().__init__()

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
        at_total = delayed(m, self.mark, level, name="mark")[-1]
        with m.If(at_total.valid & at_total.first):
            m.d.sync += self.total.eq(values[0])
        with m.Elif(at_total.valid):
            m.d.sync += self.total.eq(self.combine(self.total, values[0]))
        m.d.sync += [self.done.eq(at_total), self.done.valid.eq(at_total.valid & at_total.last)]
        return m


class Greatest(Component):
    """Greatest element of each row, kept until the next rows come.

    Parameters
    ----------
    lanes : int
        Elements of a group, a power of two.

    Members
    -------
    mark, mask, values : In(MARK), In(lanes), In(ArrayLayout(signed(8), lanes))
        A group, and its lanes that are elements.
    done : Out(MARK)
        As in ``Reduction``.
    row, greatest : In(range(SOFTMAX_ROWS)), Out(signed(8))
        Number of a row, and its greatest element in the next cycle.

    Timing
    ------
    ``done`` as in ``Reduction``. A row can be read from the cycle after its ``done`` on.
    """

    def __init__(self, *, lanes: int) -> None:
        self.lanes = lanes
        self.mark = In(MARK)
        self.mask = In(lanes)
        self.values = In(data.ArrayLayout(signed(8), lanes))
        self.done = Out(MARK)
        self.row = In(range(SOFTMAX_ROWS))
        self.greatest = Out(signed(8))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.maxima = maxima = Reduction(
            lanes=self.lanes,
            shape=signed(8),
            total=signed(8),
            combine=lambda a, b: Mux(a > b, a, b),
        )
        m.submodules.memory = memory = Memory(
            shape=signed(8), depth=SOFTMAX_ROWS, init=[], attrs=race.UNDEFINED
        )
        write, read = memory.write_port(), memory.read_port()
        for lane in range(self.lanes):
            m.d.comb += maxima.values[lane].eq(Mux(self.mask[lane], self.values[lane], -128))
        m.d.comb += [
            maxima.mark.eq(self.mark),
            self.done.eq(maxima.done),
            write.en.eq(maxima.done.valid),
            write.addr.eq(maxima.done.row),
            write.data.eq(maxima.total),
            read.addr.eq(self.row),
            self.greatest.eq(read.data),
        ]
        return m


class ExponentialSums(Component):
    """Sum of the exponentials of each row, rounded first.

    Parameters
    ----------
    lanes : int
        Elements of a group, a power of two.

    Members
    -------
    mark, mask, values : In(MARK), In(lanes), In(ArrayLayout(unsigned(BITS), lanes))
        A group, and its lanes that are elements.
    done, total : Out(MARK), Out(SUM_BITS)
        As in ``Reduction``.

    Timing
    ------
    As in ``Reduction``, one cycle later.
    """

    def __init__(self, *, lanes: int) -> None:
        self.lanes = lanes
        self.mark = In(MARK)
        self.mask = In(lanes)
        self.values = In(data.ArrayLayout(unsigned(BITS), lanes))
        self.done = Out(MARK)
        self.total = Out(SUM_BITS)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sums = sums = Reduction(
            lanes=self.lanes,
            shape=unsigned(BITS - _DROPPED + 1),
            total=unsigned(SUM_BITS),
            combine=lambda a, b: a + b,
        )
        late = Signal(MARK)
        rounded = Signal(sums.values.shape(), reset_less=True)
        for lane in range(self.lanes):
            value = (self.values[lane] + (1 << _DROPPED - 1)) >> _DROPPED
            m.d.sync += rounded[lane].eq(Mux(self.mask[lane], value, 0))
        m.d.sync += late.eq(self.mark)
        m.d.comb += [
            sums.mark.eq(late),
            sums.values.eq(rounded),
            self.done.eq(sums.done),
            self.total.eq(sums.total),
        ]
        return m
