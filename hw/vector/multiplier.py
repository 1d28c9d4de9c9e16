"""Multiplier of the requantiser, made of multipliers that parts have."""

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.fanout import reset_less


class Multiplier(wiring.Component):
    """High part of a product of 32 by 31 bits, rounded or not.

    Four products of at most 17 × 17 bits with signs, each between registers, so that each fits one
    18 × 18 multiplier of a part; then sums of at most 34 bits.

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
    ``high`` follows ``a`` by ``LATENCY`` cycles. One product each cycle, no backpressure.
    """

    LATENCY = 4

    a: Signal
    b: Signal
    half: Signal
    high: Signal

    def __init__(self) -> None:
        super().__init__({"a": In(signed(32)), "b": In(31), "half": In(1), "high": Out(signed(32))})
        reset_less(self, "high")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a_low, a_high = self.a[:16], self.a[16:].as_signed()
        b_low, b_high = self.b[:16], self.b[16:]

        low_low = Signal(32, reset_less=True)
        low_high = Signal(31, reset_less=True)
        high_low = Signal(signed(32), reset_less=True)
        high_high = Signal(signed(31), reset_less=True)
        half = Signal(3, reset_less=True)
        m.d.sync += [
            low_low.eq(a_low * b_low),
            low_high.eq(a_low * b_high),
            high_low.eq(a_high * b_low),
            high_high.eq(a_high * b_high),
            half.eq(Cat(self.half, half)),
        ]

        # Bits 16 and up: the middle products, and what is left and right of them.
        middle = Signal(signed(34), reset_less=True)
        outer = Signal(signed(47), reset_less=True)
        m.d.sync += [
            middle.eq(low_high + high_low),
            outer.eq(Cat(low_low[16:], high_high).as_signed()),
        ]

        # Bit 31 of the product is bit 15 here: sum both sides of it apart.
        below = Signal(16, reset_less=True)
        above = Signal(signed(32), reset_less=True)
        m.d.sync += [
            below.eq(outer[:15] + middle[:15]),
            above.eq(outer[15:].as_signed() + middle[15:].as_signed()),
        ]
        m.d.sync += self.high.eq(
            above + Cat(below[15] ^ (below[14] & half[2]), below[15] & below[14] & half[2])
        )
        return m
