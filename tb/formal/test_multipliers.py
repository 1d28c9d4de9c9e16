"""Multipliers: what is made of several products, or of the cells of a part, is one product."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from prove import Spec, broken_module, changes, proved, refuted

from celosia.hw.targets import product
from celosia.hw.vector import multiplier

SUM_BITS = 20


class AnyProduct(wiring.Component):
    """In place of ``Product``: gives the result of the spec."""

    LATENCY = product.Product.LATENCY

    def __init__(self, a, b, *, primitive):
        super().__init__({"a": In(a), "b": In(b), "p": Out(signed(a.width + b.width))})
        if not a.signed:
            self.p = Signal(a.width + b.width)
        self.printed = Signal.like(self.p)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.p.eq(self.printed)
        return m


class Parts:
    """The three products of a multiplication in parts, of any value within their bounds.

    With ``a = a1 * 2**16 + a0`` and ``b`` alike, ``a * b`` is ``a1 * b1 * 2**32 + (a1 * b0 + a0 *
    b1) * 2**16 + a0 * b0``.
    """

    def __init__(self, spec):
        ends = (1 << 16) - 1
        half = ends >> 1
        self.low = spec.free("a0_b0", 32)
        self.upper = spec.free("a1_b1", signed(31))
        self.both = spec.free("a0_a1_times_b0_b1", signed(35))
        self.cross = self.both - self.low - self.upper
        spec.given("a0 * b0", self.low <= ends * ends)
        spec.given("a1 * b1", (self.upper >= -(half + 1) * half) & (self.upper <= half * half))
        least, most = -(half + 1) * ends, half * ends + ends * half
        spec.given("a1 * b0 + a0 * b1", (self.cross >= least) & (self.cross <= most))
        # Bits 16 and up of the product, in two numbers.
        self.middle = self.both - self.low
        self.outer = (self.upper << 16) + self.low[16:] - self.upper


def test_product_in_parts():
    spec = Spec()
    parts = Parts(spec)

    def wide(value):
        """Return the lower 64 bits: all numbers here are below 2**63."""
        signal = Signal(signed(64))
        spec.m.d.comb += signal.eq(value)
        return signal

    numbers = (parts.low, parts.upper, parts.both)
    low, upper, both = (wide(number) for number in numbers)
    cross = wide(wide(both - low) - upper)
    whole = wide(wide(wide(upper << 32) + wide(cross << 16)) + low)
    middle = wide(both - low)
    outer = wide(wide(wide(upper << 16) + parts.low[16:]) - upper)
    claimed = wide(wide(wide(outer + middle) << 16) + parts.low[:16])
    spec.claim("product", whole == claimed)
    spec.claim(
        "bounds",
        (parts.middle == parts.middle[:34].as_signed())
        & (parts.outer == parts.outer[:47].as_signed()),
    )
    spec.cover("negative", (whole < 0) & (parts.low > 1 << 31))
    proved(spec, depth=0, reach=1)


def multiplier_spec(module):
    """Return claims about what is made of the three products, which are free here."""
    made = []

    def any_product(a, b, *, primitive):
        made.append(AnyProduct(a, b, primitive=primitive))
        return made[-1]

    vars(module)["Product"] = any_product
    spec = Spec()
    dut = spec.open("dut", module.Multiplier())
    # Elaboration makes the products.
    fragment = dut.elaborate(None)
    dut.elaborate = lambda platform: fragment
    low, upper, both = made
    parts = Parts(spec)
    spec.m.d.comb += [
        low.printed.eq(parts.low),
        upper.printed.eq(parts.upper),
        both.printed.eq(parts.both),
    ]

    a1, b1 = dut.a[16:].as_signed(), dut.b[16:]
    spec.claim("factors: low", (low.a == dut.a[:16]) & (low.b == dut.b[:16]))
    spec.claim("factors: upper", (upper.a == a1) & (upper.b == b1))
    spec.claim("factors: both", (both.a == dut.a[:16] + a1) & (both.b == dut.b[:16] + b1))
    middle = spec.see("dut.middle", signed(34))
    outer = spec.see("dut.outer", signed(47))
    spec.claim("middle", middle == spec.past(parts.middle[:34]).as_signed())
    spec.claim("outer", outer == spec.past(parts.outer[:47]).as_signed())
    halves = ((middle + outer) >> 14)[:33]
    spec.claim("halves", dut.halves.as_unsigned() == spec.past(halves))
    spec.cover("negative", (dut.halves < 0) & spec.past(middle > 0))
    return spec


def test_multiplier():
    proved(multiplier_spec(broken_module(multiplier)), depth=6, reach=8)


@changes(
    ("(outer + middle) >>", "(outer | middle) >>", "halves"),
    ("_DROPPED = 30", "_DROPPED = 31", "halves"),
    ("self.a[_CUT:].as_signed()", "self.a[_CUT:]", "factors: upper"),
    ("both - low", "both", "middle"),
)
def test_multiplier_broken(right, wrong, claim):
    refuted(multiplier_spec(broken_module(multiplier, right, wrong)), claim, depth=8)
