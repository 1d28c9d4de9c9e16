"""Arithmetic on old sums and new results, and old sums that are still being written."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data

from celosia.hw.arch import isa
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.delay import delayed
from celosia.hw.lib.fanout import COPY, data_registers
from celosia.hw.targets.product import Product
from celosia.hw.vector.pipe import Pipe
from celosia.hw.vector.task import VectorSizes


class SumUpdate(Component):
    """Adder of results to sums, or their maximum, product or squared difference, in each lane.

    Parameters
    ----------
    lanes : int
        Lanes, at least 1.
    products : bool
        There are ``squared`` and ``multiplied``.
    primitive : str
        Multiplier, see ``Product``.

    Members
    -------
    new, old : In(ArrayLayout(signed(32), lanes))
        Results and sums of a group.
    again : In(lanes)
        Lanes that take ``sums`` instead of ``old``: those of the group of the cycle before.
    subtracts : In(lanes)
        Equal bits: ``new`` - ``old`` is computed. ``sums`` become the maximum of both, else their
        sum, which wraps.
    squared : In(1)
        The difference is both factors of the product. Only with ``subtracts``.
    multiplied : In(1)
        ``sums`` become the product of ``new`` and ``old`` of ``LATER`` cycles before, without
        ``again``. Of factors the lower ``isa.FACTOR_BITS`` bits count, signed.
    sums : Out(ArrayLayout(signed(32), lanes))
        New sums.

    Timing
    ------
    ``sums`` follow one cycle later, products ``LATER`` cycles more.

    Raises
    ------
    ValueError
        If ``lanes`` is below 1.
    """

    LATER = Product.LATENCY

    def __init__(self, *, lanes: int, products: bool = False, primitive: str = "portable") -> None:
        if lanes < 1:
            raise ValueError(f"lanes: wanted at least 1, got {lanes}")
        self.lanes = lanes
        self.multiplies = products
        self.primitive = primitive
        sums = data.ArrayLayout(signed(32), lanes)
        self.new = In(sums)
        self.old = In(sums)
        self.again = In(lanes)
        self.subtracts = In(lanes)
        if products:
            self.squared = In(1)
            self.multiplied = In(1)
        self.sums = Out(sums)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        [sums] = data_registers(m, self.sums)
        factor = signed(isa.FACTOR_BITS)
        for lane in range(self.lanes):
            # One adder: for a comparison it subtracts. The bit below the numbers is the carry.
            new, subtracts = self.new[lane], self.subtracts[lane]
            before = Signal(signed(32), name=f"before_{lane}")
            total = Signal(signed(34), name=f"total_{lane}")
            old = Mux(self.again[lane], sums[lane], self.old[lane])
            m.d.comb += [
                before.eq(old ^ subtracts.replicate(32)),
                total.eq(Cat(1, new).as_signed() + Cat(subtracts, before).as_signed()),
            ]
            m.d.sync += sums[lane].eq(Mux(subtracts, Mux(total[-1], ~before, new), total[1:33]))
            if not self.multiplies:
                continue
            product = Product(factor, factor, primitive=self.primitive)
            m.submodules[f"product_{lane}"] = product
            m.d.comb += [
                product.a.eq(Mux(self.squared, total[1:33], self.old[lane])),
                product.b.eq(Mux(self.squared, total[1:33], new)),
            ]
            with m.If(self.multiplied):
                m.d.sync += sums[lane].eq(product.p)
        return m


#: Groups that ``Forwarding`` compares, by age: the row of the first is read in this cycle.
AGES = Pipe.SOON + 3


def position_layout(sizes: VectorSizes) -> data.StructLayout:
    """Return the layout of the position of a group: a row, a group of its columns, lanes in use."""
    return data.StructLayout(
        {
            "row": unsigned(sizes.accumulator_bits),
            "group": sizes.descriptor["group"].width,
            "mask": sizes.lanes,
        }
    )


class Forwarding(Component):
    """Old sums of a group: as they were read, or as groups before it are writing them.

    The row of a group is read when its age is 0. The writes of up to four earlier groups are not
    visible then. If one of them has the same row and columns, its result is forwarded. With
    ``VectorSizes.group_cycles`` above 4 nothing has to be forwarded.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    groups, valid : In(ArrayLayout(position_layout, AGES)), In(AGES)
        Position of the group of each age in cycles, and that there is one.
    joins : In(1)
        The group of age 3 will need its old sums. Else ``old`` is zero.
    sums : In(ArrayLayout(signed(32), columns))
        Row that was read for the group of age 4.
    written : In(ArrayLayout(signed(32), lanes))
        Result of the group of age 6.
    old, again : Out(ArrayLayout(signed(32), lanes)), Out(lanes)
        Old sums of the group of age 5, and its lanes whose old sum is the next ``written``.
    used : Out(columns)
        Columns of ``sums`` that are old sums of the group of age 4.

    Timing
    ------
    ``old`` and ``again`` follow by one cycle, ``used`` is of the same cycle.
    """

    def __init__(self, *, sizes: VectorSizes) -> None:
        self.sizes = sizes
        sums = data.ArrayLayout(signed(32), sizes.lanes)
        self.groups = In(data.ArrayLayout(position_layout(sizes), AGES))
        self.valid = In(AGES)
        self.joins = In(1)
        self.sums = In(data.ArrayLayout(signed(32), sizes.columns))
        self.written = In(sums)
        self.old = Out(sums)
        self.again = Out(sizes.lanes)
        self.used = Out(sizes.columns)
        super().__init__()

    def _hits(self, m: Module) -> list[Signal]:
        """Return lanes of the group of age 4 that a group 1, 2, ... cycles before it writes."""
        hits = []
        for distance in range(self.sizes.group_cycles, Pipe.SOON):
            group, earlier = self.groups[2], self.groups[2 + distance]
            same = Signal(name=f"same_{distance}", reset_less=True)
            hit = Signal(self.sizes.lanes, name=f"hit_{distance}", reset_less=True)
            m.d.sync += [
                same.eq(
                    self.valid[2 + distance]
                    & (earlier.row == group.row)
                    & (earlier.group == group.group)
                ),
                hit.eq(same.replicate(len(hit)) & self.groups[3 + distance].mask),
            ]
            hits.append(hit)
        return hits

    def elaborate(self, platform: object) -> Module:
        m = Module()
        old, again = data_registers(m, self.old, self.again)
        sizes = self.sizes
        hits = self._hits(m)
        ages = max(0, len(hits) - 2)
        results = delayed(m, self.written, ages, name="result", reset_less=True)
        forwards = list(zip(hits[1:], results, strict=False))
        for lane in range(sizes.lanes):
            # Group of age 4. A copy for each lane: they reach all bits of its old sum.
            number, joins = (
                Signal.like(value, name=f"{name}_{lane}", reset_less=True, attrs=COPY)
                for name, value in (("number", self.groups[3].group), ("joins", self.joins))
            )
            m.d.sync += [number.eq(self.groups[3].group), joins.eq(self.joins)]
            with m.Switch(number):
                for n in range(sizes.column_groups):
                    with m.Case(n):
                        value: Value = self.sums[n * sizes.lanes + lane]
                        for hit, result in reversed(forwards):
                            value = Mux(hit[lane], result[lane], value)
                        m.d.sync += old[lane].eq(value)
            with m.If(~joins):
                m.d.sync += old[lane].eq(0)
            m.d.sync += again[lane].eq(joins & hits[0][lane] if hits else 0)
            forwarded = Cat(hit[lane] for hit in hits).any() if hits else Const(0)
            used = joins & self.groups[4].mask[lane] & ~forwarded
            for n in range(sizes.column_groups):
                m.d.comb += self.used[n * sizes.lanes + lane].eq(used & (number == n))
        return m
