"""Values of earlier cycles."""

import pysim
import pytest
from amaranth.hdl import Module, ResetInserter, Signal, signed, unsigned
from amaranth.lib import data

from celosia.hw.lib.delay import DelayLine, delayed

PAIR = data.StructLayout({"low": 4, "high": signed(4)})


@pytest.mark.parametrize("cycles", [1, 4])
async def test_each_age(cycles):
    m = Module()
    value = Signal(PAIR)
    ages = delayed(m, value, cycles, name="late")
    ctx = await pysim.simulation(m)
    given = []
    for cycle in range(12):
        given.append({"low": cycle, "high": -cycle // 2})
        ctx.set(value, given[-1])
        shown = [{"low": ctx.get(age.low), "high": ctx.get(age.high)} for age in ages]
        wanted = [*reversed(given), *[{"low": 0, "high": 0}] * cycles]
        assert shown == wanted[: cycles + 1]
        await ctx.tick()


def test_names_and_reset():
    m = Module()
    cleared = Signal()
    value = Signal(4)
    assert delayed(m, value, 0, name="none") == [value]
    with_reset = delayed(m, value, 2, name="with_reset")
    without = delayed(m, ~value, 2, name="without", reset_less=True)
    assert [age.name for age in with_reset] == ["value", "with_reset_1", "with_reset_2"]

    async def bench(ctx):
        ctx.set(value, 5)
        await ctx.tick().repeat(2)
        ctx.set(cleared, 1)
        await ctx.tick()
        assert [ctx.get(age) for age in with_reset] == [5, 0, 0]
        assert [ctx.get(age) for age in without[1:]] == [10, 10]

    pysim.run(ResetInserter(cleared)(m), bench)


@pytest.mark.parametrize("cycles", [2, 3, 4, 5, 9, 16, 17])
async def test_delay_line_in_a_memory(cycles, rng):
    dut = DelayLine(unsigned(7), cycles)
    ctx = await pysim.simulation(dut)
    values = rng.integers(0, 128, 80).tolist()
    for n, value in enumerate(values):
        ctx.set(dut.i, value)
        if n >= cycles:
            assert ctx.get(dut.o) == values[n - cycles]
        await ctx.tick()


def test_a_delay_line_of_one_cycle_is_refused():
    with pytest.raises(ValueError, match="cycles: wanted at least 2, got 1"):
        DelayLine(unsigned(1), 1)
