"""Requantiser: steps 1 to 6 of the arithmetic contract around any multiplication."""

import pytest
from amaranth.hdl import Array, Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out
from any_ports import Component
from prove import Spec, broken_module, changes, proved, refuted

from celosia.hw.arch.isa import Rounding
from celosia.hw.vector import multiplier, requantize

LEAST, MOST = -(1 << 31), (1 << 31) - 1


class AnyMultiplier(Component):
    """In place of ``Multiplier``: gives the result of the spec."""

    LATENCY = multiplier.Multiplier.LATENCY

    def __init__(self):
        super().__init__({"a": In(signed(32)), "b": In(31), "halves": Out(signed(33))})
        self.printed = Signal(signed(33))

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.halves.eq(self.printed)
        return m


def lane_spec(module):
    any_multiplier = AnyMultiplier()
    vars(module)["multiplier_of"] = lambda primitive: any_multiplier
    spec = Spec()
    m = spec.m
    dut = spec.open("dut", module.RequantizerLane())
    halves = spec.free("halves", signed(33))
    m.d.comb += any_multiplier.printed.eq(halves)
    p, single = dut.parameters, dut.rounding == Rounding.SINGLE

    # Steps 1 to 3, two cycles: as sim.model.quantize has them.
    biased = Signal(signed(32))
    shifted, factor = Signal(signed(64)), Signal(signed(32))
    m.d.comb += [
        biased.eq(dut.sum + p.bias),
        shifted.eq(biased << p.left),
        factor.eq(
            Mux(single, Mux(shifted > MOST, MOST, Mux(shifted < LEAST, LEAST, shifted)), shifted)
        ),
    ]
    spec.claim("factor", any_multiplier.a == spec.past(factor, 2))
    spec.claim("multiplier", any_multiplier.b == spec.past(p.multiplier, 2))

    # Steps 4 and 5, two cycles after the product.
    cycles = 2 + AnyMultiplier.LATENCY
    assert dut.LATENCY == cycles + 2
    right, double = spec.past(p.right, cycles), spec.past(~single, cycles)
    half, high, scaled = Signal(33), Signal(signed(34)), Signal(signed(37))
    m.d.comb += [
        high.eq((halves + (double | (right == 0))) >> 1),
        half.eq(Array([0, *(1 << n for n in range(31))])[right]),
        scaled.eq((high + half - (double & (high < 0) & (right != 0))) >> right),
    ]
    spec.claim("scaled", dut.scaled == spec.past(scaled[:32].as_signed(), 2))
    late = spec.past(right, 2)
    spec.cover(
        "rounds away from zero", (late == 3) & (dut.scaled == -1) & (spec.past(high, 2) == -12)
    )
    saturates = spec.past(single, 2) & spec.past(dut.sum > 5, 2) & spec.past(p.left == 31, 2)
    spec.cover("saturates", (any_multiplier.a == MOST) & saturates)
    return spec


# The product alone is left out, see test_multipliers.py.
DEPTH = 4 + AnyMultiplier.LATENCY


def test_lane():
    proved(lane_spec(broken_module(requantize)), depth=DEPTH, reach=DEPTH + 2)


@changes(
    ("before[31 - n : 31]", "before[32 - n : 31]", "factor"),
    ("(odd & (moved[30] ^ negative))", "odd", "factor"),
    ("left.saturates, single, enters - 1", "left.saturates, single, enters", "factor"),
    ("p.multiplier, enters", "p.multiplier, leaves", "multiplier"),
    ("self.doubles & self.right.any()", "self.doubles", "scaled"),
    ("half | ~sticky", "half", "scaled"),
    ("half & sticky", "half", "scaled"),
    ("moved = Signal(signed(33)", "moved = Signal(33", "scaled"),
    ("positive.replicate(n)", "0", "scaled"),
)
def test_lane_broken(right, wrong, claim):
    refuted(lane_spec(broken_module(requantize, right, wrong)), claim, depth=DEPTH + 2)


def clamp_spec(module=requantize):
    spec = Spec()
    dut = spec.open("dut", module.Clamp(lanes=1))
    assert dut.LATENCY == 2
    moved = dut.scaled[0] + dut.zero_point
    least = Mux(moved < dut.low, dut.low, moved)
    exact = Mux(least > dut.high, dut.high, least)
    spec.claim("bytes", dut.bytes[0] == spec.past(exact[:8].as_signed(), 2))
    spec.cover("bounds cross", spec.past(dut.low > dut.high, 2) & (dut.bytes[0] == 5))
    return spec


def test_clamp():
    proved(clamp_spec(), depth=3, reach=5)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("Mux(self.high < self.low, self.high, self.low)", "self.low"),
        ("moved = Signal(signed(10), name", "moved = Signal(signed(9), name"),
        ("scaled[31].replicate(23)", "0"),
    ],
)
def test_clamp_broken(right, wrong):
    refuted(clamp_spec(broken_module(requantize, right, wrong)), "bytes", depth=4)
