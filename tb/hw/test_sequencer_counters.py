"""Activity counters against a tally."""

import numpy as np
import pysim
import pytest
from amaranth.hdl import ResetInserter, Signal, Value

from celosia.hw.arch.registers import COUNTERS_PER_UNIT, Activity
from celosia.hw.sequencer.counters import Counters, UnitCounters
from celosia.hw.verilog.build import convert


async def totals(ctx, dut, unit):
    """Return all counters of a unit, each read ``VALUE_LATENCY`` cycles after its address."""
    values = []
    for place in range(COUNTERS_PER_UNIT):
        ctx.set(dut.address, unit * COUNTERS_PER_UNIT + place)
        await ctx.tick().repeat(Counters.VALUE_LATENCY)
        values.append(ctx.get(dut.value))
    return values


async def clear(ctx, dut):
    await pysim.pulse(ctx, dut.clear)
    cycles = 0
    while ctx.get(dut.clearing):
        await ctx.tick()
        cycles += 1
    assert COUNTERS_PER_UNIT <= cycles <= COUNTERS_PER_UNIT + 2


@pytest.mark.parametrize("in_luts", [False, True])
@pytest.mark.parametrize("variety", [1, 2, 3, COUNTERS_PER_UNIT])
@pytest.mark.parametrize("rate", [0.4, 1.0])
async def test_unit_counts_every_cycle_once(variety, rate, in_luts, rng):
    dut = UnitCounters(in_luts=in_luts)
    places = rng.permutation(COUNTERS_PER_UNIT)[:variety]
    tally = [0] * COUNTERS_PER_UNIT
    ctx = await pysim.simulation(dut)
    for _ in range(500):
        enable, place = rng.random() < rate, int(rng.choice(places))
        ctx.set(dut.enable, enable)
        ctx.set(Value.cast(dut.activity), place)
        ctx.set(dut.address, int(rng.integers(COUNTERS_PER_UNIT)))
        tally[place] += bool(enable)
        await ctx.tick()
    ctx.set(dut.enable, 0)
    await ctx.tick().repeat(2)
    assert await totals(ctx, dut, 0) == tally
    for place in range(0, COUNTERS_PER_UNIT, 3):
        pysim.drive(ctx, dut, address=place, clear=1)
        await ctx.tick()
        tally[place] = 0
    ctx.set(dut.clear, 0)
    assert await totals(ctx, dut, 0) == tally


async def test_value_follows_after_the_last_count():
    dut = UnitCounters()
    ctx = await pysim.simulation(dut)
    pysim.drive(ctx, dut, enable=1, activity=Activity.BUSY)
    await ctx.tick().repeat(7)
    ctx.set(dut.enable, 0)
    await ctx.tick().repeat(2)
    ctx.set(dut.address, Activity.BUSY.value)
    await ctx.tick().repeat(Counters.VALUE_LATENCY)
    assert ctx.get(dut.value) == 7


async def test_without_activity_counters_cycles_are_counted_alone():
    dut = Counters(units=2, counts=False)
    ctx = await pysim.simulation(dut)
    ctx.set(dut.enable, 1)
    for unit in range(2):
        ctx.set(dut.activities[unit], Activity.BUSY)
    await ctx.tick().repeat(9)
    ctx.set(dut.enable, 0)
    await ctx.tick().repeat(2)
    assert ctx.get(dut.cycles) == 9
    assert await totals(ctx, dut, 0) == await totals(ctx, dut, 1) == [0] * COUNTERS_PER_UNIT
    ctx.set(dut.clear, 1)
    await ctx.tick()
    assert ctx.get(dut.cycles) == 0 and not ctx.get(dut.clearing)


@pytest.mark.parametrize("units", [1, 2, 5])
async def test_classes_of_each_unit_add_up_to_the_cycles(units, rng):
    dut = Counters(units=units)
    assert dut.units == units
    names = [activity.value for activity in Activity] + [17, COUNTERS_PER_UNIT - 1]
    ctx = await pysim.simulation(dut)
    for _ in range(2):
        tally = np.zeros((units, COUNTERS_PER_UNIT), int)
        await clear(ctx, dut)
        assert ctx.get(dut.cycles) == 0
        for _ in range(300):
            enable = rng.random() < 0.8
            activities = rng.choice(names, units)
            ctx.set(dut.enable, enable)
            for unit, activity in enumerate(activities):
                ctx.set(dut.activities[unit].as_value(), int(activity))
                tally[unit, activity] += bool(enable)
            await ctx.tick()
        ctx.set(dut.enable, 0)
        await ctx.tick().repeat(2)
        cycles = ctx.get(dut.cycles)
        assert cycles == tally[0].sum() > 200
        for unit in range(units):
            assert await totals(ctx, dut, unit) == tally[unit].tolist()


@pytest.mark.parametrize("place", [p.value for p in Activity if p is not Activity.IDLE])
async def test_clear_while_counting_starts_anew(place):
    dut = Counters(units=2)
    ctx = await pysim.simulation(dut)
    ctx.set(dut.enable, 1)
    for unit in range(2):
        ctx.set(dut.activities[unit].as_value(), place)
    await ctx.tick().repeat(20)
    await clear(ctx, dut)
    await ctx.tick().repeat(9)
    ctx.set(dut.enable, 0)
    await ctx.tick().repeat(2)
    assert ctx.get(dut.cycles) == 9
    for unit in range(2):
        assert await totals(ctx, dut, unit) == [9 * (p == place) for p in range(32)]


async def test_clear_while_counting_clears_counter_zero():
    dut = Counters(units=1)
    ctx = await pysim.simulation(dut)
    ctx.set(dut.enable, 1)
    ctx.set(dut.activities[0].as_value(), 0)
    await ctx.tick().repeat(20)
    await clear(ctx, dut)
    ctx.set(dut.enable, 0)
    await ctx.tick().repeat(2)
    assert (await totals(ctx, dut, 0))[0] == 0


async def test_classes_add_up_to_the_cycles_after_a_reset():
    dut = Counters(units=1)
    reset = Signal()
    ctx = await pysim.simulation(ResetInserter(reset)(dut))
    for _ in range(2):
        ctx.set(dut.enable, 1)
        ctx.set(dut.activities[0], Activity.BUSY)
        await ctx.tick().repeat(10)
        ctx.set(dut.enable, 0)
        await ctx.tick().repeat(2)
        assert sum(await totals(ctx, dut, 0)) == ctx.get(dut.cycles)
        await pysim.pulse(ctx, reset)


@pytest.mark.parametrize(("in_luts", "kind"), [(False, "block"), (True, "distributed")])
def test_kind_of_the_memory(in_luts, kind):
    counters = Counters(units=1, in_luts=in_luts)
    assert counters.in_luts is in_luts
    assert f'ram_style = "{kind}"' in convert(counters)
