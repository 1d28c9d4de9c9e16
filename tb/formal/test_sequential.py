"""Sequential requantiser: bias, shifts, saturation, both roundings, multiplication by 2³⁰."""

import pytest
from amaranth.hdl import Array, Mux, Signal, signed
from prove import Spec, broken_module, proved, refuted

from celosia.hw.arch.isa import Rounding
from celosia.hw.vector import sequential

LEAST, MOST = -(1 << 31), (1 << 31) - 1
LATENCY = sequential.SequentialRequantizer.LATENCY


def group_spec(module=sequential):
    """One group after reset, its inputs held and of any value; the multiplier alone is given."""
    spec = Spec()
    m = spec.m
    dut = module.SequentialRequantizer(lanes=1)
    m.submodules.dut = dut
    total, bias = (spec.free(name, signed(32), fixed=True) for name in ("sum", "bias"))
    left, right = (spec.free(name, 5, fixed=True) for name in ("left", "right"))
    single = spec.free("single", 1, fixed=True)
    cycle = Signal(range(LATENCY + 2))
    m.d.sync += cycle.eq(cycle + (cycle != LATENCY + 1))
    p = dut.parameters[0]
    m.d.comb += [
        dut.mark.valid.eq(cycle == 0),
        dut.sums[0].eq(total),
        p.bias.eq(bias),
        p.left.eq(left),
        p.right.eq(right),
        p.multiplier.eq(1 << 30),
        dut.rounding.eq(Mux(single, Rounding.SINGLE, Rounding.DOUBLE)),
    ]

    # As sim.model.quantize has it.
    biased, factor, high = (Signal(signed(32), name=n) for n in ("biased", "factor", "high"))
    shifted = Signal(signed(64))
    m.d.comb += [
        biased.eq(total + bias),
        shifted.eq(biased << left),
        factor.eq(
            Mux(single, Mux(shifted > MOST, MOST, Mux(shifted < LEAST, LEAST, shifted)), shifted)
        ),
        high.eq((factor + (~single | (right == 0))) >> 1),
    ]
    half, scaled = Signal(33), Signal(signed(36))
    m.d.comb += [
        half.eq(Array([0, *(1 << n for n in range(31))])[right]),
        scaled.eq((high + half - (~single & (high < 0) & (right != 0))) >> right),
    ]
    there = cycle == LATENCY
    spec.claim("scaled", ~there | (dut.scaled[0] == scaled[:32].as_signed()))
    spec.cover("rounds away from zero", there & ~single & (right == 3) & (dut.scaled[0] == -2))
    spec.cover("saturates", there & single & (left == 9) & (factor == LEAST))
    return spec


def test_group():
    proved(group_spec(), depth=LATENCY + 1, reach=LATENCY + 1, induction=False)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(watched & ~biased).any()", "(watched & ~biased).all()"),
        ("carry & (at != 0)", "carry"),
        ("less = doubles & product[-1]", "less = product[-1]"),
        ("((sticky | half) & ~begins)", "(half & ~begins)"),
    ],
)
def test_group_broken(right, wrong):
    refuted(group_spec(broken_module(sequential, right, wrong)), "scaled", depth=LATENCY + 1)
