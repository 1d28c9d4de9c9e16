"""Writer of results to the accumulators: overwrite, add, maximum, multiply."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from celosia.hw.arch import isa
from celosia.hw.lib.component import Component
from celosia.hw.lib.fanout import reset_less
from celosia.hw.memory.accumulators import ACCUMULATOR_LATENCY, read_layout, write_layout
from celosia.hw.targets.product import Product
from celosia.hw.vector.pipe import Pipe
from celosia.hw.vector.task import MARK, VectorSizes


class Products(Component):
    """Products of old sums and new results, for the mode MULTIPLY.

    Parameters
    ----------
    lanes : int
        Channels of a group.
    primitive : str
        Multiplier, see ``Product``.

    Members
    -------
    old, new : In(ArrayLayout(signed(32), lanes))
        Factors; their lower ``isa.FACTOR_BITS`` bits count, signed.
    products : Out(ArrayLayout(signed(2 * isa.FACTOR_BITS), lanes))
        Products.

    Timing
    ------
    ``products`` follow ``old`` and ``new`` by ``LATENCY`` cycles. One group each cycle.
    """

    LATENCY = Product.LATENCY

    def __init__(self, *, lanes: int, primitive: str = "portable") -> None:
        self.lanes = lanes
        self.primitive = primitive
        sums = data.ArrayLayout(signed(32), lanes)
        products = data.ArrayLayout(signed(2 * isa.FACTOR_BITS), lanes)
        super().__init__({"old": In(sums), "new": In(sums), "products": Out(products)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        factor = signed(isa.FACTOR_BITS)
        for lane in range(self.lanes):
            product = Product(factor, factor, primitive=self.primitive)
            m.submodules[f"lane_{lane}"] = product
            m.d.comb += [
                product.a.eq(self.old[lane]),
                product.b.eq(self.new[lane]),
                self.products[lane].eq(product.p),
            ]
        return m


class SumUpdate(Component):
    """Adder of results to sums, or maximum of both, in each lane.

    Parameters
    ----------
    lanes : int
        Lanes, at least 1.
    products : bool
        There are ``multiplied`` and ``products``.

    Members
    -------
    new, old : In(ArrayLayout(signed(32), lanes))
        Results and sums of a group.
    again : In(lanes)
        Lanes that take ``sums`` instead of ``old``: those of the group of the cycle before.
    greatest : In(1)
        The maximum of both, else their sum, which wraps.
    multiplied, products : In(1), In(ArrayLayout(signed(2 * isa.FACTOR_BITS), lanes))
        Products take the place of results.
    sums : Out(ArrayLayout(signed(32), lanes))
        New sums.

    Timing
    ------
    ``sums`` follow one cycle later.
    """

    def __init__(self, *, lanes: int, products: bool = False) -> None:
        if lanes < 1:
            raise ValueError(f"lanes: wanted at least 1, got {lanes}")
        self.lanes = lanes
        self.multiplies = products
        found = data.ArrayLayout(signed(2 * isa.FACTOR_BITS), lanes)
        sums = data.ArrayLayout(signed(32), lanes)
        super().__init__(
            {
                "new": In(sums),
                "old": In(sums),
                "again": In(lanes),
                "greatest": In(1),
                **({"multiplied": In(1), "products": In(found)} if products else {}),
                "sums": Out(sums),
            }
        )
        reset_less(self, "sums")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for lane in range(self.lanes):
            # One adder: for a comparison it subtracts.
            new = self.new[lane]
            before = Signal(signed(32), name=f"before_{lane}")
            total = Signal(signed(34), name=f"total_{lane}")
            old = Mux(self.again[lane], self.sums[lane], self.old[lane])
            m.d.comb += [
                before.eq(old ^ self.greatest.replicate(32)),
                total.eq(Cat(1, new).as_signed() + Cat(self.greatest, before).as_signed()),
            ]
            m.d.sync += self.sums[lane].eq(
                Mux(self.greatest, Mux(total[-1], ~before, new), total[1:33])
            )
        if self.multiplies:
            with m.If(self.multiplied):
                m.d.sync += (self.sums[lane].eq(self.products[lane]) for lane in range(self.lanes))
        return m


class AccumulatorWriter(Component):
    """Writer of the accumulators: last stages of the pipe, with fixed latency.

    The row of a group is read ``Pipe.SOON`` cycles before the group's result comes. The writes of
    up to four earlier groups are not visible then. If one of them has the same row and columns, its
    result is forwarded. With ``VectorSizes.group_cycles`` above 4 nothing has to be forwarded.
    Products are not forwarded: a task multiplies a sum once.

    Parameters
    ----------
    sizes : VectorSizes
        Sizes of the unit.

    Members
    -------
    soon, scaled : In(MARK), In(ArrayLayout(signed(32), lanes))
        As of ``Pipe``.
    endings : In(ArrayLayout(VectorSizes.ending, 2))
        Ending of the task in each slot.
    descriptor, pop : In(VectorSizes.descriptor), Out(1)
        Destination of the group of ``soon``; it is used in this cycle.
    stop : In(1)
        No writes.
    accumulator_read, sums, accumulator_write : Out(read_layout), In, Out(write_layout)
        Ports of the accumulators.
    finished : Out(1)
        The last group of a task is being written.
    fault : Out(1)
        A group cannot be written. Its task is the oldest that is not done: between the last group
        of a task and the first of the next there are more cycles than until ``done``.
    sums_wrong, wrong : In(columns), Out(1)
        With parity, one cycle after ``sums``: wrong sums; and that a group of the oldest task is
        added to or compared with one of them.

    Timing
    ------
    ``accumulator_write`` comes one cycle before ``scaled``; its sums come one cycle after it. In the
    mode MULTIPLY ``accumulator_write``, its sums, ``finished`` and ``fault`` come
    ``Products.LATENCY`` cycles later. Tasks are further apart than that.
    """

    def __init__(self, *, sizes: VectorSizes) -> None:
        assert Pipe.SOON == ACCUMULATOR_LATENCY + 1
        self.sizes = sizes
        depth, lanes, columns = sizes.accumulator_depth, sizes.lanes, sizes.columns
        self._step = data.StructLayout(
            {
                "bad": 1,
                "last": 1,
                "mode": isa.Mode,
                "row": sizes.accumulator_bits,
                "group": sizes.descriptor["group"].width,
                "mask": lanes,
            }
        )
        super().__init__(
            {
                "soon": In(MARK),
                "scaled": In(data.ArrayLayout(signed(32), lanes)),
                "endings": In(data.ArrayLayout(sizes.ending, 2)),
                "descriptor": In(sizes.descriptor),
                "pop": Out(1),
                "stop": In(1),
                "accumulator_read": Out(read_layout(depth=depth)),
                "sums": In(data.ArrayLayout(signed(32), columns)),
                "accumulator_write": Out(write_layout(depth=depth, columns=columns)),
                "finished": Out(1),
                "fault": Out(1),
                **({"sums_wrong": In(columns), "wrong": Out(1)} if sizes.parity else {}),
            }
        )

    def _steps(self, m: Module) -> tuple[list[data.View], Value]:
        """Return the groups in the stages, the one that is read first, and their valid bits."""
        place = self.descriptor
        steps = [Signal(self._step, name=f"step_{age}", reset_less=True) for age in range(8)]
        earlier = Signal(len(steps) - 1)
        valid = Cat(self.soon.valid & self.soon.tag.to_accumulators, earlier)
        m.d.sync += earlier.eq(valid)
        m.d.comb += [
            steps[0].bad.eq(self.soon.tag.fault | place.outside),
            steps[0].last.eq(place.last),
            steps[0].mode.eq(self.endings[self.soon.tag.slot].mode),
            steps[0].row.eq(place.address),
            steps[0].group.eq(place.group),
            steps[0].mask.eq(place.mask),
        ]
        m.d.sync += [late.eq(early) for early, late in zip(steps, steps[1:], strict=False)]
        return steps, valid

    def _old(self, m: Module, step: data.View, hits: list[Value], results: list) -> data.View:
        """Return the old sums of a group, unless the group directly before writes them.

        Zero if the group overwrites.
        """
        sizes = self.sizes
        old = Signal(data.ArrayLayout(signed(32), sizes.lanes), reset_less=True)
        with m.Switch(step.group):
            for number in range(sizes.column_groups):
                with m.Case(number):
                    for lane in range(sizes.lanes):
                        value: Value = self.sums[number * sizes.lanes + lane]
                        for hit, result in reversed(list(zip(hits, results, strict=True))):
                            value = Mux(hit[lane], result[lane], value)
                        m.d.sync += old[lane].eq(value)
        with m.If(step.mode == isa.Mode.OVERWRITE):
            m.d.sync += old.eq(0)
        return old

    def _watch(self, m: Module, step: data.View, valid: Value, hits: list[Value]) -> None:
        """Drive ``wrong``: a sum of the group has wrong parity and is not forwarded."""
        sizes = self.sizes
        read = valid & (step.mode != isa.Mode.OVERWRITE) & ~step.bad
        forwarded = Cat(Cat(hit[lane] for hit in hits).any() for lane in range(sizes.lanes))
        used = Signal(sizes.columns)
        m.d.sync += used.eq(
            Cat(
                Mux(read & (step.group == group), step.mask & ~forwarded, 0)
                for group in range(sizes.column_groups)
            )
        )
        m.d.comb += self.wrong.eq((used & self.sums_wrong).any())

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        lanes = sizes.lanes
        steps, valid = self._steps(m)
        reads = steps[0].mode != isa.Mode.OVERWRITE
        m.d.comb += [
            self.pop.eq(valid[0]),
            self.accumulator_read.enable.eq(valid[0] & reads & ~steps[0].bad & ~self.stop),
            self.accumulator_read.row.eq(steps[0].row),
        ]

        # Lanes of the group in step 4 that the group `distance` cycles before it writes, too.
        hits = []
        for distance in range(sizes.group_cycles, Pipe.SOON):
            earlier = steps[2 + distance]
            same = Signal(name=f"same_{distance}", reset_less=True)
            hit = Signal(lanes, name=f"hit_{distance}", reset_less=True)
            m.d.sync += [
                same.eq(
                    valid[2 + distance]
                    & (earlier.row == steps[2].row)
                    & (earlier.group == steps[2].group)
                ),
                hit.eq(same.replicate(lanes) & steps[3 + distance].mask),
            ]
            hits.append(hit)
        hit_next = Signal(lanes, reset_less=True)
        greatest = Signal(reset_less=True)
        overwrites = steps[4].mode == isa.Mode.OVERWRITE
        m.d.sync += [
            hit_next.eq(Mux(overwrites, 0, hits[0] if hits else 0)),
            greatest.eq(steps[4].mode == isa.Mode.MAX),
        ]
        m.submodules.update = update = SumUpdate(lanes=lanes, products=sizes.elementwise_products)
        later = [
            Signal(self.scaled.shape(), name=f"result_{age}", reset_less=True)
            for age in range(1, max(1, len(hits) - 1))
        ]
        results = [update.sums, *later]
        m.d.sync += [late.eq(early) for early, late in zip(results, results[1:], strict=False)]
        old = self._old(m, steps[4], hits[1:], results[: len(hits[1:])])
        m.d.comb += [
            update.new.eq(self.scaled),
            update.old.eq(old),
            update.again.eq(hit_next),
            update.greatest.eq(greatest),
        ]

        if sizes.parity:
            self._watch(m, steps[4], valid[4], hits)
        step, due, last = steps[4], valid[4], steps[5].last
        if sizes.elementwise_products:
            step, due, last = self._multiply(m, steps, valid, update)
        self._write(m, step, due, last, results[0])
        return m

    def _multiply(
        self, m: Module, steps: list[data.View], valid: Value, update: SumUpdate
    ) -> tuple[data.View, Value, Value]:
        """Give products to ``update`` in their cycle; return the arguments of ``_write``.

        A group of the mode MULTIPLY is written ``Products.LATENCY`` cycles after the others.
        """
        sizes, late = self.sizes, 4 + Products.LATENCY
        m.submodules.products = products = Products(lanes=sizes.lanes, primitive=sizes.primitive)
        m.d.comb += [products.old.eq(update.old), products.new.eq(self.scaled)]
        multiplied = Signal()
        found = Signal(reset_less=True)
        m.d.comb += multiplied.eq(valid[late] & (steps[late].mode == isa.Mode.MULTIPLY))
        m.d.sync += found.eq(multiplied)
        m.d.comb += [update.multiplied.eq(found), update.products.eq(products.products)]
        step = Signal(self._step)
        m.d.comb += step.eq(Mux(multiplied, steps[late], steps[4]))
        plain = valid[4] & (steps[4].mode != isa.Mode.MULTIPLY)
        last = Mux(found, steps[late + 1].last, steps[5].last)
        return step, multiplied | plain, last

    def _write(
        self, m: Module, step: data.View, due: Value, last: Value, result: data.View
    ) -> None:
        """Write the group of ``step``, if it is ``due``; ``result`` comes two cycles later.

        ``last``: the group of the cycle before was the last of its task.
        """
        sizes, write = self.sizes, self.accumulator_write
        ends = due & ~self.stop
        writes = Signal()
        m.d.sync += [
            self.fault.eq(ends & step.bad),
            writes.eq(write.enable),
            self.finished.eq(writes & last),
        ]
        m.d.comb += [
            write.enable.eq(ends & ~step.bad),
            write.row.eq(step.row),
            write.mask.eq(
                Cat(
                    (step.group == n) & step.mask[i]
                    for n in range(sizes.column_groups)
                    for i in range(sizes.lanes)
                )
            ),
            *(write.sums[c].eq(result[c % sizes.lanes]) for c in range(sizes.columns)),
        ]
