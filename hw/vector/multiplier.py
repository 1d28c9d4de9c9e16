"""Multiplier of the requantiser, made of multipliers that parts have."""

from amaranth.hdl import Cat, Module, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.fanout import reset_less
from celosia.hw.product import Product

#: Where both factors are cut: the sum of both parts fits a multiplier of 18 bits, with its sign.
_CUT = 16


class Multiplier(wiring.Component):
    """High part of a product of 32 by 31 bits, rounded or not.

    Three products of at most 18 × 17 bits, A. Karatsuba and Y. Ofman, "Multiplication of many-digit
    numbers by automatic computers", 1962: of the lower parts, of the upper parts, and of the sums
    of both, which holds the two products in the middle and the other two.

    Parameters
    ----------
    primitive : str
        Of the products, see ``Product``.

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
    ``high`` follows ``a`` by ``LATENCY`` cycles. Inputs go into registers, through an adder of 17
    bits at most. One product each cycle, no backpressure.
    """

    LATENCY = Product.LATENCY + 3

    a: Signal
    b: Signal
    half: Signal
    high: Signal

    def __init__(self, *, primitive: str = "portable") -> None:
        self.primitive = primitive
        super().__init__({"a": In(signed(32)), "b": In(31), "half": In(1), "high": Out(signed(32))})
        reset_less(self, "high")

    def _product(self, m: Module, name: str, a: Value, b: Value) -> Signal:
        product = Product(a.shape(), b.shape(), primitive=self.primitive)
        m.submodules[name] = product
        m.d.comb += [product.a.eq(a), product.b.eq(b)]
        return product.p

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a_low, a_high = self.a[:_CUT], self.a[_CUT:].as_signed()
        b_low, b_high = self.b[:_CUT], self.b[_CUT:]
        low = self._product(m, "low", a_low, b_low)
        upper = self._product(m, "upper", a_high, b_high)
        both = self._product(m, "both", a_low + a_high, b_low + b_high)
        half = Signal(self.LATENCY - 1, reset_less=True)
        m.d.sync += half.eq(Cat(self.half, half))

        # Bits 16 and up, in two numbers: one has the lower product taken off, one the upper.
        middle = Signal(signed(34), reset_less=True)
        outer = Signal(signed(63 - _CUT), reset_less=True)
        m.d.sync += [middle.eq(both - low), outer.eq(Cat(low[_CUT:], upper).as_signed() - upper)]

        # Bit 31 of the product is bit 15 here: sum both sides of it apart.
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
