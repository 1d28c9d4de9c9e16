"""Comparisons with lanes: all values of some widths."""

from typing import Any

import pysim
import pytest
from amaranth.hdl import Module

from celosia.hw.lib.comparison import above, below
from celosia.hw.lib.component import Component, In, Out


class Comparison(Component):
    def __init__(self, *, bits, lanes):
        self.lanes = lanes
        self.value: Any = In(bits)
        self.above: Any = Out(1)
        self.below: Any = Out(lanes)
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.d.sync += [
            self.above.eq(above(self.value, self.lanes)),
            self.below.eq(below(self.value, self.lanes)),
        ]
        return m


@pytest.mark.parametrize(
    ("bits", "lanes"), [(1, 1), (4, 1), (2, 2), (3, 4), (4, 8), (7, 8), (6, 16)]
)
async def test_comparisons(bits, lanes):
    dut = Comparison(bits=bits, lanes=lanes)
    ctx = await pysim.simulation(dut)
    for value in range(1 << bits):
        ctx.set(dut.value, value)
        await ctx.tick()
        assert ctx.get(dut.above) == (value > lanes)
        assert ctx.get(dut.below) == sum((value > lane) << lane for lane in range(lanes))


async def test_a_value_without_a_bit_for_the_lanes():
    dut = Comparison(bits=3, lanes=8)
    ctx = await pysim.simulation(dut)
    for value in range(8):
        ctx.set(dut.value, value)
        await ctx.tick()
        assert not ctx.get(dut.above)
        assert ctx.get(dut.below) == (1 << value) - 1
