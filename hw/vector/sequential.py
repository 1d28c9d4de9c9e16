"""Sequential requantiser: the arithmetic of ``RequantizerLane``, some bits a cycle, in little area."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.fanout import reset_less
from celosia.hw.vector.task import MARK, TAG

#: Bits that the sequential requantiser takes of a number each cycle, and digits of a number.
DIGIT_BITS = 4
DIGITS = 32 // DIGIT_BITS


def _digits(value: Value) -> Array:
    """Return the digits of a number, the lowest first; the uppermost has its sign above it."""
    wide = Cat(value, value[-1].replicate(DIGITS * DIGIT_BITS - len(value)))
    return Array(wide.word_select(n, DIGIT_BITS) for n in range(DIGITS))


class SequentialLane(wiring.Component):
    """Steps 1 to 5 of the arithmetic contract for one channel, a digit a cycle.

    Digit-serial arithmetic (R. I. Hartley and P. F. Corbett, "Digit-serial processing techniques",
    1990): numbers pass by from their lowest digit on, so an adder is as wide as a digit, and a shift
    is a delay by whole digits and a choice of four bits out of seven. Only the multiplication has a
    wide adder: it adds digit times multiplier to the upper part of the product and drops a digit.

    1. ``scans``: the sum with its bias goes by; what a shift to the left would lose is seen.
    2. ``multiplies``: it goes by again, shifted or saturated, and is multiplied.
    3. Then the product goes by, is shifted to the right and rounded, and collected in ``scaled``.

    Members
    -------
    sum, parameters, rounding : In
        As of ``RequantizerLane``; held while the lane scans and multiplies.
    digit : In(range(DIGITS))
        Digit that is scanned or multiplied.
    multiplies : In(1)
        Which of it. A scan that nobody wants harms nothing.
    place : In(range(2 * DIGITS))
        Digit of the product that goes by. Counts from the cycle behind the last digit multiplied
        on, and stays at its greatest value.
    scaled : Out(signed(32))
        Result, from ``place`` = 2 ``DIGITS`` - 1 on.

    Timing
    ------
    Digits are scanned in ``DIGITS`` cycles one after the other, then multiplied in as many. The
    product of one element may go by while the next one is scanned, not while it is multiplied.
    """

    sum: Signal
    parameters: data.View
    rounding: Value
    digit: Signal
    multiplies: Signal
    place: Signal
    scaled: Signal

    def __init__(self) -> None:
        super().__init__(
            {
                "sum": In(signed(32)),
                "parameters": In(streams.CHANNEL),
                "rounding": In(isa.Rounding),
                "digit": In(range(DIGITS)),
                "multiplies": In(1),
                "place": In(range(2 * DIGITS)),
                "scaled": Out(signed(32)),
            }
        )
        reset_less(self, "scaled")

    def _biased(self, m: Module, at: Value) -> Value:
        """Return digit ``at`` of the sum with its bias; digits are asked for from 0 on."""
        carry = Signal(reset_less=True)
        total = Signal(DIGIT_BITS + 1)
        m.d.comb += total.eq(
            _digits(self.sum)[at] + _digits(self.parameters.bias)[at] + (carry & (at != 0))
        )
        m.d.sync += carry.eq(total[-1])
        return total[:DIGIT_BITS]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.parameters
        bits = (DIGIT_BITS - 1).bit_length()
        single = self.rounding == isa.Rounding.SINGLE
        first, last = self.digit == 0, self.digit == DIGITS - 1

        # Step 1. Shifted to the left, digits come later.
        at = Signal(range(DIGITS))
        early = Signal()
        whole = p.left[bits:]
        m.d.comb += [
            at.eq(self.digit - Mux(self.multiplies, whole, 0)),
            early.eq(self.multiplies & (self.digit < whole)),
        ]
        biased = self._biased(m, at)

        # Step 2: what leaves at the top must be copies of the sign.
        ones, zeros, negative = (Signal(name=n, reset_less=True) for n in ("ones", "zeros", "neg"))
        kept = ~p.left
        watched = Cat(
            Mux(self.digit == kept[bits:], n >= kept[:bits], self.digit > kept[bits:])
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
        moved = (Cat(before, biased) << p.left[:bits])[DIGIT_BITS : 2 * DIGIT_BITS]
        most = Cat((~negative).replicate(DIGIT_BITS - 1), ~negative ^ last)
        digit = Signal(DIGIT_BITS)
        clips = single & ones & zeros
        m.d.comb += digit.eq(Mux(~self.multiplies, 0, Mux(clips, most, Mux(early, 0, moved))))

        # Steps 3 and 4.
        product = Signal(signed(33), reset_less=True)
        total: Value = product
        for n in range(DIGIT_BITS):
            factor: Value = p.multiplier
            upper = total[n + 1 :].as_signed()
            if n == DIGIT_BITS - 1:
                # The uppermost bit of all counts less than nothing.
                factor = Cat(factor ^ last.replicate(31), last).as_signed()
                added = (Cat(1, upper).as_signed() + Cat(last, factor).as_signed())[1:]
            else:
                added = upper + factor
            row = Signal(signed(len(added)), name=f"row_{n}")
            m.d.comb += row.eq(Mux(digit[n], added, upper))
            total = Cat(total[: n + 1], row).as_signed()
        m.d.sync += product.eq(total >> DIGIT_BITS)
        with m.If(~self.multiplies & last):
            m.d.sync += product.eq(Mux(~single | (p.right == 0), 1 << 31, 0))

        # Step 5.
        right, doubles = Signal(5, reset_less=True), Signal(reset_less=True)
        with m.If(self.multiplies & last):
            m.d.sync += [right.eq(p.right), doubles.eq(~single)]
        part = right[:bits]
        arrived = Signal()
        half, rest, carry = (Signal(name=n, reset_less=True) for n in ("half", "rest", "carry"))
        begins = self.place == 0
        m.d.comb += arrived.eq(self.place == right[bits:])
        # Bits dropped so far: the uppermost, and whether there is a one among the others.
        dropped = [half & ~begins, *product[: DIGIT_BITS - 1]]
        below = Array(dropped)[part]
        others = (rest & ~begins) | Cat(
            bit & (n < part) for n, bit in enumerate(dropped[:-1])
        ).any()
        less = doubles & product[-1]
        rounds = below & (~less | others)
        m.d.sync += [
            half.eq(product[DIGIT_BITS - 1]),
            rest.eq(((rest | half) & ~begins) | product[: DIGIT_BITS - 1].any()),
        ]
        shifted = (product[: 2 * DIGIT_BITS - 1] >> part)[:DIGIT_BITS]
        rounded = Signal(DIGIT_BITS + 1)
        m.d.comb += rounded.eq(shifted + Mux(arrived, rounds, carry))
        m.d.sync += carry.eq(rounded[-1])
        top = len(self.place) - 1
        done = self.place[top] & (self.place[:top] >= right[bits:])
        with m.If(~done):
            m.d.sync += self.scaled.eq(Cat(self.scaled[DIGIT_BITS:], rounded[:DIGIT_BITS]))
        return m


class SequentialRequantizer(wiring.Component):
    """Steps 1 to 5 of the arithmetic contract for a group of channels, a digit a cycle.

    The group is looked at twice while it is held: scanned, then multiplied. Its product goes by while
    the next group is scanned, and before that.

    Parameters
    ----------
    lanes : int
        Channels of a group.

    Members
    -------
    mark : In(MARK)
        There is a group.
    sums, parameters, rounding : In
        As of ``Requantizer``. These, and the tag of ``mark``, are held until ``used``.
    used : Out(1)
        The group is looked at for the last time: in the ``HOLD``-th cycle of it.
    soon : Out(MARK)
        A group that is in ``scaled`` in ``SOON`` cycles.
    scaled : Out(ArrayLayout(signed(32), lanes))
        Results.

    Timing
    ------
    Results follow ``mark`` by ``LATENCY`` cycles. A group every ``INTERVAL`` cycles at most, no
    backpressure.

    Raises
    ------
    ValueError
        If there are no lanes.
    """

    HOLD = 2 * DIGITS
    INTERVAL = HOLD + DIGITS - 1
    LATENCY = HOLD + 2 * DIGITS - 1
    SOON = 5

    mark: data.View
    sums: data.View
    parameters: data.View
    rounding: Value
    used: Signal
    soon: data.View
    scaled: data.View

    def __init__(self, *, lanes: int) -> None:
        if lanes < 1:
            raise ValueError(f"lanes: wanted at least 1, got {lanes}")
        self.lanes = lanes
        super().__init__(
            {
                "mark": In(MARK),
                "sums": In(data.ArrayLayout(signed(32), lanes)),
                "parameters": In(data.ArrayLayout(streams.CHANNEL, lanes)),
                "rounding": In(isa.Rounding),
                "used": Out(1),
                "soon": Out(MARK),
                "scaled": Out(data.ArrayLayout(signed(32), lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Cycle of the group that is held, and of the product that goes by, which ends at rest.
        cycle = Signal(range(self.HOLD))
        place = Signal(range(2 * DIGITS), init=2 * DIGITS - 1)
        tag = Signal(TAG, reset_less=True)
        with m.If(self.mark.valid | (cycle != 0)):
            m.d.sync += cycle.eq(cycle + 1)
        m.d.comb += self.used.eq(cycle == self.HOLD - 1)
        with m.If(self.used):
            m.d.sync += [place.eq(0), tag.eq(self.mark.tag)]
        with m.Elif(place != 2 * DIGITS - 1):
            m.d.sync += place.eq(place + 1)
        m.d.comb += [
            self.soon.valid.eq(place == 2 * DIGITS - 1 - self.SOON),
            self.soon.tag.eq(tag),
        ]
        for i in range(self.lanes):
            m.submodules[f"lane_{i}"] = lane = SequentialLane()
            m.d.comb += [
                lane.sum.eq(self.sums[i]),
                lane.parameters.eq(self.parameters[i]),
                lane.rounding.eq(self.rounding),
                lane.digit.eq(cycle[:-1]),
                lane.multiplies.eq(cycle[-1]),
                lane.place.eq(place),
                self.scaled[i].eq(lane.scaled),
            ]
        return m
