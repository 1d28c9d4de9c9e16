"""Sequential requantiser: arithmetic of ``RequantizerLane``, four bits a cycle, in little area."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import data_registers
from celosia.hw.memory.accumulators import ACCUMULATOR_LATENCY
from celosia.hw.targets.product import GatedSum
from celosia.hw.vector.task import MARK, TAG

#: Bits of a digit, which is processed in one cycle, and digits of a number.
DIGIT_BITS = 4
DIGITS = 32 // DIGIT_BITS

#: Bits of a shift distance that give the distance within a digit.
_BITS = (DIGIT_BITS - 1).bit_length()


def _digits(value: Value) -> Array:
    """Return the digits of a number, the lowest first, sign-extended."""
    wide = Cat(value, value[-1].replicate(DIGITS * DIGIT_BITS - len(value)))
    return Array(wide.word_select(n, DIGIT_BITS) for n in range(DIGITS))


class SerialProduct(Component):
    """Product of a signed number, a digit a cycle, and a multiplier: steps 3 and 4.

    Parameters
    ----------
    primitive : str
        ``"ecp5"``: adds with ``GatedSum``.

    Members
    -------
    digit, multiplier : In(DIGIT_BITS), In(31)
        Digit of the number, the lowest first, and the multiplier.
    begins, last : In(1)
        The first digit comes in the next cycle; the digit is the last one, which is signed.
    half : In(1)
        With ``begins``: adds 2³¹ to twice the product.
    product : Out(signed(33))
        Twice the product so far, less its lower digits: as many as there were digits.

    Timing
    ------
    ``product`` follows a digit by one cycle, and moves by a digit in each cycle.
    """

    def __init__(self, *, primitive: str = "portable") -> None:
        self.primitive = primitive
        self.digit = In(DIGIT_BITS)
        self.multiplier = In(31)
        self.begins = In(1)
        self.last = In(1)
        self.half = In(1)
        self.product = Out(signed(33))
        super().__init__()

    def _row(self, m: Module, n: int, upper: Value, bit: Value, less: Value) -> Signal:
        """Return ``upper``, with the multiplier added if ``bit`` is set, subtracted if ``less``."""
        shape = signed(1 + len(upper))
        x, y = (Signal(shape, name=f"{name}_{n}") for name in ("upper", "factor"))
        row = Signal(shape, name=f"row_{n}")
        # Subtract: add the complement and one.
        m.d.comb += [
            x.eq(upper),
            y.eq(Cat(self.multiplier ^ less.replicate(31), less).as_signed()),
        ]
        if self.primitive == "ecp5":
            m.submodules[f"row_{n}"] = both = GatedSum(1 + len(x), primitive=self.primitive)
            m.d.comb += [
                both.x.eq(Cat(1, x)),
                both.x_gate.eq(1),
                both.y.eq(Cat(less, y)),
                both.y_gate.eq(bit),
                row.eq(both.sum[1:]),
            ]
        else:
            # The look-up table after the carry chain has a free input for the select.
            m.d.comb += row.eq(Mux(bit, (Cat(1, x) + Cat(less, y))[1:], x))
        return row

    def elaborate(self, platform: object) -> Module:
        m = Module()
        [product] = data_registers(m, self.product)
        total: Value = product
        for n in range(DIGIT_BITS):
            # The uppermost bit of a signed number has a negative weight.
            less = self.last if n == DIGIT_BITS - 1 else Const(0, 1)
            row = self._row(m, n, total[n + 1 :].as_signed(), self.digit[n], less)
            total = Cat(total[: n + 1], row).as_signed()
        m.d.sync += product.eq(total >> DIGIT_BITS)
        with m.If(self.begins):
            m.d.sync += product.eq(Mux(self.half, 1 << 31, 0))
        return m


class SequentialLane(Component):
    """Steps 1 to 5 of the arithmetic contract for one channel, a digit a cycle.

    Digit-serial arithmetic (R. I. Hartley and P. F. Corbett, "Digit-serial processing techniques",
    1990): numbers are processed from their lowest digit on, so an adder is as wide as a digit, and
    a shift is a delay by whole digits and a choice of four bits out of seven. Only the
    multiplication has a wide adder: it adds digit times multiplier to the upper part of the
    product, and shifts that part by a digit.

    1. First pass: the sum with its bias, to find out if the shift to the left saturates.
    2. Second pass (``multiplies``): the same, shifted or saturated, and multiplied.
    3. Pass of the product: it is shifted to the right, rounded, and collected in ``scaled``.

    Parameters
    ----------
    primitive : str
        ``"ecp5"``: adds with ``GatedSum``.

    Members
    -------
    sum, parameters, rounding : In(signed(32)), In(streams.CHANNEL), In(isa.Rounding)
        As in ``RequantizerLane``; constant during the first two passes and one cycle more.
    digit : In(range(DIGITS))
        Digit of the first or second pass. The multiplication follows in the next cycle.
    multiplies : In(1)
        Second pass, else the first. A first pass without a second has no effect.
    digit_index : In(range(2 * DIGITS))
        Digit of the product in its pass. Counts from the cycle after the last multiplication on,
        and stays at its greatest value.
    scaled : Out(signed(32))
        Result, from ``digit_index`` = 2 ``DIGITS`` - 1 on.

    Timing
    ------
    The first pass and the second take ``DIGITS`` cycles each. The pass of a product may overlap the
    first pass of the next element, not the second.
    """

    def __init__(self, *, primitive: str = "portable") -> None:
        self.primitive = primitive
        self.sum = In(signed(32))
        self.parameters = In(streams.CHANNEL)
        self.rounding = In(isa.Rounding)
        self.digit = In(range(DIGITS))
        self.multiplies = In(1)
        self.digit_index = In(range(2 * DIGITS))
        self.scaled = Out(signed(32))
        super().__init__()

    def _biased(self, m: Module, at: Value) -> Value:
        """Return digit ``at`` of the sum with its bias; ``at`` counts from 0 on."""
        carry = Signal(reset_less=True)
        total = Signal(DIGIT_BITS + 1)
        m.d.comb += total.eq(
            _digits(self.sum)[at] + _digits(self.parameters.bias)[at] + (carry & (at != 0))
        )
        m.d.sync += carry.eq(total[-1])
        return total[:DIGIT_BITS]

    def _shifted(self, m: Module, single: Value, first: Value, last: Value) -> Value:
        """Return the digit to multiply: steps 1 and 2."""
        left = self.parameters.left
        digits, part = left[_BITS:], left[:_BITS]
        at, early = Signal(range(DIGITS)), Signal()
        m.d.comb += [
            at.eq(self.digit - Mux(self.multiplies, digits, 0)),
            early.eq(self.multiplies & (self.digit < digits)),
        ]
        biased = self._biased(m, at)

        # Without an overflow, all bits that leave at the top equal the sign.
        ones, zeros, negative = (
            Signal(name=name, reset_less=True) for name in ("ones", "zeros", "negative")
        )
        # They are `watched`, with the new sign: bits 31 - `left` to 31.
        inverse = ~left
        watched = Cat(
            Mux(self.digit == inverse[_BITS:], n >= inverse[:_BITS], self.digit > inverse[_BITS:])
            for n in range(DIGIT_BITS)
        )
        with m.If(~self.multiplies):
            m.d.sync += [
                ones.eq((ones & ~first) | (watched & biased).any()),
                zeros.eq((zeros & ~first) | (watched & ~biased).any()),
                negative.eq(biased[-1]),
            ]
        before = Signal(DIGIT_BITS, reset_less=True)
        m.d.sync += before.eq(Mux(self.multiplies & ~early, biased, 0))
        moved = (Cat(before, biased) << part)[DIGIT_BITS : 2 * DIGIT_BITS]
        most = Cat((~negative).replicate(DIGIT_BITS - 1), ~negative ^ last)
        clips = single & ones & zeros
        digit = Signal(DIGIT_BITS, reset_less=True)
        m.d.sync += digit.eq(Mux(self.multiplies, Mux(clips, most, Mux(early, 0, moved)), 0))
        return digit

    def _rounded(
        self, m: Module, product: Signal, digits: Value, part: Value, doubles: Value
    ) -> Value:
        """Return one digit of the result: step 5."""
        half, sticky, carry = (Signal(name=n, reset_less=True) for n in ("half", "sticky", "carry"))
        begins = self.digit_index == 0
        # Bits dropped so far: the uppermost, and a flag for ones among the others.
        dropped = [half & ~begins, *product[: DIGIT_BITS - 1]]
        others = (sticky & ~begins) | Cat(
            bit & (n < part) for n, bit in enumerate(dropped[:-1])
        ).any()
        less = doubles & product[-1]
        rounds = Array(dropped)[part] & (~less | others)
        shifted = (product[: 2 * DIGIT_BITS - 1] >> part)[:DIGIT_BITS]
        rounded = Signal(DIGIT_BITS + 1)
        m.d.comb += rounded.eq(shifted + Mux(self.digit_index == digits, rounds, carry))
        m.d.sync += [
            half.eq(product[DIGIT_BITS - 1]),
            sticky.eq(((sticky | half) & ~begins) | product[: DIGIT_BITS - 1].any()),
            carry.eq(rounded[-1]),
        ]
        return rounded[:DIGIT_BITS]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        [scaled] = data_registers(m, self.scaled)
        p = self.parameters
        single = self.rounding == isa.Rounding.SINGLE
        first, last = self.digit == 0, self.digit == DIGITS - 1
        digit = self._shifted(m, single, first, last)
        begins, ends = Signal(reset_less=True), Signal(reset_less=True)
        m.d.sync += [begins.eq(~self.multiplies & last), ends.eq(self.multiplies & last)]
        m.submodules.multiplication = multiplication = SerialProduct(primitive=self.primitive)
        m.d.comb += [
            multiplication.digit.eq(digit),
            multiplication.multiplier.eq(p.multiplier),
            multiplication.begins.eq(begins),
            multiplication.last.eq(ends),
            multiplication.half.eq(~single | (p.right == 0)),
        ]
        product = multiplication.product

        right, doubles = Signal(5, reset_less=True), Signal(reset_less=True)
        with m.If(ends):
            m.d.sync += [right.eq(p.right), doubles.eq(~single)]
        digits = right[_BITS:]
        rounded = self._rounded(m, product, digits, right[:_BITS], doubles)
        # The result is complete `digits` digits after digit `DIGITS` of the product.
        there = self.digit_index[-1] & (self.digit_index[:-1] >= digits)
        with m.If(~there):
            m.d.sync += scaled.eq(Cat(scaled[DIGIT_BITS:], rounded))
        return m


class SequentialRequantizer(Component):
    """Steps 1 to 5 of the arithmetic contract for a group of channels, a digit a cycle.

    The group is constant during its first two passes, see ``SequentialLane``. The pass of its
    product overlaps the first pass of the next group.

    Parameters
    ----------
    lanes : int
        Channels of a group.
    primitive : str
        See ``SequentialLane``.

    Members
    -------
    mark : In(MARK)
        Valid bit, for one cycle, and tag of a group.
    sums, parameters, rounding : In
        As in ``Requantizer``. These, and the tag of ``mark``, are constant until ``used``.
    used : Out(1)
        The group is read for the last time: its ``HOLD``-th cycle.
    soon : Out(MARK)
        Tag of the group whose results come in ``scaled`` ``SOON`` cycles later.
    scaled : Out(ArrayLayout(signed(32), lanes))
        Results.

    Timing
    ------
    ``scaled`` follows ``mark`` by ``LATENCY`` cycles. One group every ``INTERVAL`` cycles at most,
    no backpressure.

    Raises
    ------
    ValueError
        If there are no lanes.
    """

    HOLD = 2 * DIGITS + 1
    INTERVAL = 3 * DIGITS - 1
    LATENCY = HOLD + 2 * DIGITS - 1
    SOON = ACCUMULATOR_LATENCY + 1

    def __init__(self, *, lanes: int, primitive: str = "portable") -> None:
        if lanes < 1:
            raise ValueError(f"lanes: wanted at least 1, got {lanes}")
        self.lanes = lanes
        self.primitive = primitive
        self.mark = In(MARK)
        self.sums = In(data.ArrayLayout(signed(32), lanes))
        self.parameters = In(data.ArrayLayout(streams.CHANNEL, lanes))
        self.rounding = In(isa.Rounding)
        self.used = Out(1)
        self.soon = Out(MARK)
        self.scaled = Out(data.ArrayLayout(signed(32), lanes))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Cycle of the group in its first two passes, and of the product, which stays at its end.
        cycle = Signal(range(self.HOLD))
        digit_index = Signal(range(2 * DIGITS), init=2 * DIGITS - 1)
        tag = Signal(TAG, reset_less=True)
        with m.If(self.mark.valid | (cycle != 0)):
            m.d.sync += cycle.eq(cycle + 1)
        m.d.comb += self.used.eq(cycle == self.HOLD - 1)
        with m.If(self.used):
            m.d.sync += [cycle.eq(0), digit_index.eq(0), tag.eq(self.mark.tag)]
        with m.Elif(digit_index != 2 * DIGITS - 1):
            m.d.sync += digit_index.eq(digit_index + 1)
        m.d.comb += [
            self.soon.valid.eq(digit_index == 2 * DIGITS - 1 - self.SOON),
            self.soon.tag.eq(tag),
        ]
        for i in range(self.lanes):
            m.submodules[f"lane_{i}"] = lane = SequentialLane(primitive=self.primitive)
            m.d.comb += [
                lane.sum.eq(self.sums[i]),
                lane.parameters.eq(self.parameters[i]),
                lane.rounding.eq(self.rounding),
                lane.digit.eq(cycle),
                lane.multiplies.eq(cycle[len(lane.digit)]),
                lane.digit_index.eq(digit_index),
                self.scaled[i].eq(lane.scaled),
            ]
        return m
