"""Multiplier of the requantiser, made of multipliers that parts have."""

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.fanout import reset_less
from celosia.hw.product import Product, add_up, partial_products

#: Where both factors are cut: a lower part of 17 bits and a sign fit a multiplier of 18 bits.
_CUT = 17


class Multiplier(wiring.Component):
    """High part of a product of 32 by 31 bits, rounded or not.

    Four products of at most 17 × 17 bits with signs, then sums of at most 34 bits.

    Parameters
    ----------
    primitive : str
        Of the products, see ``Product``.
    three : bool
        Makes the product of the upper parts, 15 × 14 bits, in logic.

    Members
    -------
    a : In(signed(32))
        Multiplicand.
    b : In(unsigned(31))
        Multiplier.
    half : In(1)
        Adds one half before the low part is dropped. With ``a``.
    high : Out(signed(32))
        ``(a * b + half * 2**30) >> 31``.

    Timing
    ------
    ``high`` follows ``a`` by ``LATENCY`` cycles. Inputs go straight into registers. One product each
    cycle, no backpressure.
    """

    LATENCY = Product.LATENCY + 3

    a: Signal
    b: Signal
    half: Signal
    high: Signal

    def __init__(self, *, primitive: str = "portable", three: bool = False) -> None:
        self.primitive = primitive
        self.three = three
        super().__init__({"a": In(signed(32)), "b": In(31), "half": In(1), "high": Out(signed(32))})
        reset_less(self, "high")

    def _product(self, m: Module, name: str, a: Value, b: Value) -> Signal:
        product = Product(a.shape(), b.shape(), primitive=self.primitive)
        m.submodules[name] = product
        m.d.comb += [product.a.eq(a), product.b.eq(b)]
        return product.p

    def _product_in_logic(self, m: Module, a: Value, b: Value) -> Value:
        """Return a product that leaves the last sums to the cycle that reads it."""
        a_held = Signal.like(a, reset_less=True)
        b_held = Signal.like(b, reset_less=True)
        m.d.sync += [a_held.eq(a), b_held.eq(b)]
        terms = partial_products(a_held, Cat(b_held, Const(0, 1)).as_signed())
        sums = []
        # The last is empty: the digit in front of it is never negative.
        for x, y in zip(terms[:-1:2], terms[1:-1:2], strict=True):
            pair = Signal(signed(len(a) + len(b)), name=f"pair_{len(sums)}", reset_less=True)
            m.d.sync += pair.eq(x + y)
            sums.append(pair)
        return add_up(sums)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a_low, a_high = self.a[:_CUT], self.a[_CUT:].as_signed()
        b_low, b_high = self.b[:_CUT], self.b[_CUT:]
        low_low = self._product(m, "low_low", a_low, b_low)
        low_high = self._product(m, "low_high", a_low, b_high)
        high_low = self._product(m, "high_low", a_high, b_low)
        if self.three:
            high_high = self._product_in_logic(m, a_high, b_high)
        else:
            high_high = self._product(m, "high_high", a_high, b_high)
        half = Signal(self.LATENCY - 1, reset_less=True)
        m.d.sync += half.eq(Cat(self.half, half))

        # Bits 17 and up: the middle products, and what is left and right of them.
        middle = Signal(signed(34), reset_less=True)
        outer = Signal(signed(63 - _CUT), reset_less=True)
        m.d.sync += [
            middle.eq(low_high + high_low),
            outer.eq(Cat(low_low[_CUT:], high_high[: 63 - 2 * _CUT])),
        ]

        # Bit 31 of the product is bit 14 here: sum both sides of it apart.
        place = 31 - _CUT
        below = Signal(place + 1, reset_less=True)
        above = Signal(signed(32), reset_less=True)
        m.d.sync += [
            below.eq(outer[:place] + middle[:place]),
            above.eq(outer[place:].as_signed() + middle[place:].as_signed()),
        ]
        carry, rounds = below[place], below[place - 1] & half[-1]
        m.d.sync += self.high.eq(above + Cat(carry ^ rounds, carry & rounds))
        return m
