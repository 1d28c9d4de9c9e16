"""Multipliers of the requantiser."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed

from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import data_registers
from celosia.hw.targets.product import Product

#: Lowest bit of the upper part of both factors: the sum of both parts fits 18 bits, signed.
_CUT = 16

#: Bits of the product that are dropped.
_DROPPED = 30


class Multiplier(Component):
    """Upper part of a product of 32 by 31 bits, from hardware multipliers.

    Three products of at most 18 × 17 bits, A. Karatsuba and Y. Ofman, "Multiplication of many-digit
    numbers by automatic computers", 1962: of the lower parts, of the upper parts, and of the sums
    of both parts. The last one less the other two is the sum of the two mixed products.

    Parameters
    ----------
    primitive : str
        Multiplier, see ``Product``.

    Members
    -------
    a : In(signed(32))
        Multiplicand.
    b : In(unsigned(31))
        Multiplier.
    halves : Out(signed(33))
        ``(a * b) >> 30``.

    Timing
    ------
    ``halves`` follows ``a`` by ``LATENCY`` cycles. One product each cycle, no backpressure.
    """

    LATENCY = Product.LATENCY + 2

    def __init__(self, *, primitive: str = "portable") -> None:
        self.primitive = primitive
        self.a = In(signed(32))
        self.b = In(31)
        self.halves = Out(signed(33))
        super().__init__()

    def _product(self, m: Module, name: str, a: Value, b: Value) -> Signal:
        product = Product(a.shape(), b.shape(), primitive=self.primitive)
        m.submodules[name] = product
        m.d.comb += [product.a.eq(a), product.b.eq(b)]
        return product.p

    def elaborate(self, platform: object) -> Module:
        m = Module()
        [halves] = data_registers(m, self.halves)
        a_low, a_high = self.a[:_CUT], self.a[_CUT:].as_signed()
        b_low, b_high = self.b[:_CUT], self.b[_CUT:]
        low = self._product(m, "low", a_low, b_low)
        upper = self._product(m, "upper", a_high, b_high)
        both = self._product(m, "both", a_low + a_high, b_low + b_high)

        # Bits 16 and up, as two numbers; each has one of the other products subtracted.
        middle = Signal(signed(34), reset_less=True)
        outer = Signal(signed(63 - _CUT), reset_less=True)
        m.d.sync += [
            middle.eq(both - low),
            outer.eq(Cat(low[_CUT:], upper).as_signed() - upper),
            halves.eq((outer + middle) >> (_DROPPED - _CUT)),
        ]
        return m


class RowMultiplier(Component):
    """``Multiplier`` without hardware multipliers.

    One row of adders for each bit of ``b``; it drops the lowest bit of its sum. The look-up table
    of a bit of the sum also selects whether the row adds.

    Members
    -------
    a, b, halves : In(signed(32)), In(unsigned(31)), Out(signed(33))
        As in ``Multiplier``.

    Timing
    ------
    As in ``Multiplier``.
    """

    LATENCY = Multiplier.LATENCY

    def __init__(self) -> None:
        self.a = In(signed(32))
        self.b = In(31)
        self.halves = Out(signed(33))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rows = -(-len(self.b) // self.LATENCY)
        total = Signal(signed(33))
        a, b = self.a, self.b
        for stage in range(self.LATENCY):
            for row in range(min(rows, len(b))):
                above, total = total >> 1, Signal(signed(33), name=f"total_{stage}_{row}")
                m.d.comb += total.eq(Mux(b[row], above + a, above))
            held = [("total", total), ("a", a), ("b", b[rows:])]
            total, a, b = (
                Signal(value.shape(), name=f"{name}_{stage}", reset_less=True)
                for name, value in held
            )
            m.d.sync += [
                register.eq(value) for register, (_, value) in zip((total, a, b), held, strict=True)
            ]
        m.d.comb += self.halves.eq(total)
        return m


def multiplier_of(primitive: str) -> Multiplier | RowMultiplier:
    """Return the multiplier made of a primitive, see ``Product``."""
    return RowMultiplier() if primitive == "logic" else Multiplier(primitive=primitive)
