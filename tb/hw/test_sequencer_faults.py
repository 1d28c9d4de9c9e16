"""Faults of all units, as the supervisor gets them."""

import pysim
import pytest

from celosia.hw.arch.isa import Error, Unit
from celosia.hw.sequencer.faults import Faults
from celosia.hw.sequencer.supervisor import UNITS

OWN = Unit.SEQUENCER.value
OTHERS = [unit for unit in Unit if unit is not Unit.SEQUENCER]


async def started():
    dut = Faults()
    ctx = await pysim.simulation(dut)
    pysim.drive(ctx, dut, running=1, issued=[100 + n for n in range(UNITS)], index=7)
    return dut, ctx


@pytest.mark.parametrize("running", [0, 1])
async def test_fault_of_the_program(running):
    dut, ctx = await started()
    pysim.drive(ctx, dut, running=running, code=Error.RANGE, fault=1)
    assert not ctx.get(dut.fault_valid)
    await ctx.tick()
    ctx.set(dut.index, 8)
    assert ctx.get(dut.fault_valid) == running << OWN
    assert ctx.get(dut.codes[OWN]) is Error.RANGE
    assert ctx.get(dut.indices[OWN]) == 7
    assert ctx.get(dut.named) is ctx.get(dut.stuck_unit) is Unit.SEQUENCER


@pytest.mark.parametrize("unit", OTHERS)
async def test_fault_of_a_unit(unit):
    dut, ctx = await started()
    n = unit.value
    # Not of the program, so it counts after its end, too.
    ctx.set(dut.running, 0)
    ctx.set(dut.units[n], {"code": Error.MEMORY, "tag": 3})
    ctx.set(dut.of_unit, 1 << n)
    assert ctx.get(dut.indices[n]) == 100 + n
    await ctx.tick()
    ctx.set(dut.of_unit, 0)
    assert ctx.get(dut.fault_valid) == 1 << n
    assert ctx.get(dut.codes[n]) is Error.MEMORY
    await ctx.tick()
    assert not ctx.get(dut.fault_valid)


@pytest.mark.parametrize("unit", OTHERS)
async def test_post_too_many_names_its_instruction(unit):
    dut, ctx = await started()
    ctx.set(dut.code, Error.RANGE)
    await pysim.pulse(ctx, dut.overflow, 1 << unit.value)
    assert ctx.get(dut.fault_valid) == 1 << OWN
    assert ctx.get(dut.codes[OWN]) is Error.SEMAPHORE
    assert ctx.get(dut.named) is unit and ctx.get(dut.indices[unit.value]) == 100 + unit.value
    await ctx.tick()
    assert not ctx.get(dut.fault_valid) and ctx.get(dut.named) is Unit.SEQUENCER


async def test_the_first_unit_that_waits_is_stuck():
    dut, ctx = await started()
    for waiting in range(1 << UNITS):
        ctx.set(dut.waiting, waiting)
        await ctx.tick()
        waits = [unit for unit in OTHERS if waiting >> unit.value & 1]
        assert ctx.get(dut.stuck_unit) is (waits or [Unit.SEQUENCER])[0]
