"""Cells of the array that make two products with one multiplier, and sums in carry chains."""

import pytest
from amaranth.hdl import Mux, Signal, signed
from prove import Spec, broken_module, changes, proved, refuted

from celosia.hw.matrix import cell
from celosia.hw.targets import product

SUM_BITS = 20


def separated(whole, low):
    """Return both products of ``whole = a * w0 + (a * w1) * 2**9``, ``low`` being ``a * w1``
    modulo 2**7.
    """
    first = (whole - (low << 9))[:16].as_signed()
    return first, ((whole - first) >> 9)[:16].as_signed()


def test_separation():
    """Both products are found again: whichever two numbers, since ``a * (w0 + w1 * 2**9)`` is
    ``a * w0 + (a * w1) * 2**9``.
    """
    spec = Spec()
    first, second = (spec.free(name, signed(16)) for name in ("a_w0", "a_w1"))
    given_a_byte = [(-(1 << 14) < p) & (p <= 1 << 14) for p in (first, second)]
    spec.given("products of bytes", given_a_byte[0] & given_a_byte[1])
    whole = Signal(signed(26))
    spec.m.d.comb += whole.eq(first + (second << 9))
    found = separated(whole, second[:7])
    spec.claim("products", (found[0] == first) & (found[1] == second))
    spec.cover("least times least", (first == 1 << 14) & (second == 1 << 14))
    proved(spec, depth=0, reach=1)


def pair_spec(module=cell):
    """Return claims about weights, and about what is made of the product and the lower bits."""
    spec = Spec()
    m = spec.m
    dut = spec.open("dut", module.PairCell(sum_bits=SUM_BITS), "weights")
    weights = [spec.free(f"w{n}", signed(8)) for n in range(2)]
    m.d.comb += dut.weights.eq(module.PairCell.pack(list(weights)))
    shadow = [Signal(signed(8), name=f"shadow_{n}") for n in range(2)]
    active = [Signal(signed(8), name=f"active_{n}") for n in range(2)]
    with m.If(spec.past(dut.load_in)):
        m.d.sync += [held.eq(weight) for held, weight in zip(shadow, weights, strict=True)]
    with m.If(spec.past(dut.switch_in)):
        m.d.sync += [held.eq(weight) for held, weight in zip(active, shadow, strict=True)]
    # What the cell holds is what was packed of these weights.
    spec.claim("shadow", spec.see("dut.shadow", 24) == cell.PairCell.pack(list(shadow))[:24])
    w0, w1 = active
    factor = spec.see("dut.product.b_held", signed(18))
    low_weight = spec.see("dut.low_weight", 7)
    act = spec.see("dut.product.a_held", signed(8))
    spec.claim("factor", factor == w0 + (w1 << 9))
    spec.claim("low weight", low_weight == w1[:7])
    spec.claim("activation", act == spec.past(dut.act_in))

    whole = spec.see("dut.product.p_register", signed(26))
    low = spec.see("dut.low", 7)
    spec.claim("product", whole == spec.past(act * factor))
    late_act = spec.past(act)
    spec.claim("lower bits", low == (late_act * spec.past(low_weight))[:7])
    room = (1 << (SUM_BITS - 1)) - (1 << 14)
    spec.given("sum 0 fits", (dut.sums_in[0] >= -room) & (dut.sums_in[0] < room))
    arrived, left = (
        dut.separated([value[k].as_signed() for k in range(2)])
        for value in (dut.sums_in, dut.sums_out)
    )
    for k, result in enumerate(separated(whole, low)):
        exact = (spec.past(result) + spec.past(arrived[k]))[:SUM_BITS]
        spec.claim(f"sum {k}", left[k][:SUM_BITS] == exact)
    for name in ("act", "switch", "load"):
        arrived, left = getattr(dut, f"{name}_in"), getattr(dut, f"{name}_out")
        spec.claim(f"{name} east", left == spec.past(arrived, 2))
    spec.cover("least weights", (w0 == -128) & (w1 == -128) & (act == -128) & (whole > 8_000_000))
    return spec


@pytest.mark.slow
def test_pair_cell():
    proved(pair_spec(), depth=4, reach=8)


@changes(
    ("(w1 - w0[7])[:9]", "w1[:9]", "factor"),
    ("product.p[9:16] - low", "product.p[9:16] - (low >> 1)", "sum 0"),
    ("carry = total[9] ^ second[0]", "carry = total[9] ^ second[1]", "sum 0"),
    ("second - (first >> 9)", "second - (first >> 8)", "sum 1"),
    ("x[2] ^ y[1] ^ (x[1] & y[0])", "x[2] ^ y[1]", "lower bits"),
    ("both.eq(lower[2:] + upper)", "both.eq(lower[2:] | upper)", "lower bits"),
    ("low_weight.eq(shadow[17:])", "low_weight.eq(shadow[8:15])", "low weight"),
)
def test_pair_cell_broken(right, wrong, claim):
    refuted(pair_spec(broken_module(cell, right, wrong)), claim, depth=8)


def gated_spec(width, module=product):
    spec = Spec()
    dut = spec.open("dut", module.GatedSum(width, primitive="ecp5"))
    exact = Mux(dut.x_gate, dut.x, 0) + Mux(dut.y_gate, dut.y, 0)
    spec.claim("sum", dut.sum == exact[:width])
    spec.cover("carries", dut.x_gate & dut.y_gate & (dut.sum == 0) & dut.x.any() & dut.y.any())
    return spec


@pytest.mark.parametrize("width", [4, 5, 6, 17])
def test_gated_sum_in_carry_chains(width):
    """Against the model of the part's cell that comes with Yosys."""
    proved(gated_spec(width), depth=0, reach=1)


@pytest.mark.parametrize(("right", "wrong"), [("0x7888", "0x6666"), ("carried = over", "pass")])
def test_gated_sum_broken(right, wrong):
    refuted(gated_spec(6, broken_module(product, right, wrong)), "sum", depth=1)


def next_spec(width, primitive="ecp5", module=product):
    spec = Spec()
    dut = spec.open("dut", module.NextCount(width, primitive=primitive))
    exact = Mux(dut.clear, 0, dut.count + dut.more + 1)
    spec.claim("next", dut.next == exact[:width])
    spec.cover("wraps", ~dut.clear & (dut.next == 1) & (dut.more == 2))
    spec.cover("clears", dut.clear & dut.more.any() & dut.count.any())
    return spec


@pytest.mark.parametrize("width", [4, 5, 32])
@pytest.mark.parametrize("primitive", ["portable", "ecp5"])
def test_next_count(width, primitive):
    """Carry chains against the model of the part's cell that comes with Yosys."""
    proved(next_spec(width, primitive), depth=0, reach=1)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("0x360C", "0x660C"),
        ("ones], 1", "ones], 0"),
        ("Mux(self.clear, 0, self.more)", "self.more"),
    ],
)
def test_next_count_broken(right, wrong):
    refuted(next_spec(6, module=broken_module(product, right, wrong)), "next", depth=1)
