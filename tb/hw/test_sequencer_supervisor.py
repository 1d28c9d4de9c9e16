"""The supervisor: start, end, errors, watchdog, soft reset."""

import pysim
import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import data

from celosia.hw import streams
from celosia.hw.arch.isa import Error, Unit
from celosia.hw.sequencer.supervisor import UNITS, Supervisor

STATE = ("busy", "done", "error", "draining")


async def supervisor():
    """Start a simulation, in which ``clear`` resets the supervisor too, as in the core."""
    dut = Supervisor()
    ctx = await pysim.simulation(ResetInserter(dut.status.clear)(dut))
    pysim.drive(ctx, dut, fetch_idle=1, units_idle=1)
    return ctx, dut


def state(ctx, dut):
    ports = {name: getattr(dut.status, name) for name in STATE} | {"abort": dut.abort}
    return {name for name, port in ports.items() if ctx.get(port)}


async def strobe(ctx, dut, **values):
    """Drive ports for one cycle."""
    pysim.drive(ctx, dut, **values)
    await ctx.tick()
    pysim.drive(ctx, dut, **dict.fromkeys(values, 0))


async def start(ctx, dut):
    ctx.set(dut.start, 1)
    assert ctx.get(dut.begin) and not ctx.get(dut.running)
    await strobe(ctx, dut, start=1)
    assert not ctx.get(dut.begin) and ctx.get(dut.running)


async def fail(ctx, dut, *units, code=Error.RANGE, index=9):
    """Let units fault in one cycle, unit ``n`` with ``index + n``."""
    for unit in units:
        ctx.set(dut.codes[unit.value], code)
        ctx.set(dut.indices[unit.value], index + unit.value)
    await strobe(ctx, dut, fault_valid=sum(1 << unit.value for unit in units))


async def recorded(ctx, dut):
    """Return the recorded error, a cycle after it: its index comes later."""
    await ctx.tick()
    return ctx.get(dut.status.code), ctx.get(dut.status.unit), ctx.get(dut.status.index)


async def soft_reset(ctx, dut):
    await strobe(ctx, dut, reset=1)
    assert ctx.get(dut.status.clear)
    await ctx.tick()
    assert not ctx.get(dut.status.clear)


def test_construction():
    assert UNITS == len(Unit) == 5
    assert len(Supervisor().fault_valid) == UNITS
    assert Supervisor().codes.shape() == data.ArrayLayout(Error, UNITS)
    assert Supervisor().indices.shape() == data.ArrayLayout(streams.INDEX_BITS, UNITS)


async def test_a_program_starts_and_ends():
    ctx, dut = await supervisor()
    assert state(ctx, dut) == set()
    await start(ctx, dut)
    await ctx.tick().repeat(5)
    assert state(ctx, dut) == {"busy"}
    ctx.set(dut.fetch_idle, 0)
    await strobe(ctx, dut, halted=1)
    # Not done before what was fetched after HALT is gone.
    for _ in range(4):
        assert state(ctx, dut) == {"busy"}
        assert not ctx.get(dut.running) and not ctx.get(dut.flush)
        await ctx.tick()
    ctx.set(dut.fetch_idle, 1)
    assert ctx.get(dut.flush)
    await ctx.tick()
    assert not ctx.get(dut.flush) and state(ctx, dut) == {"done"}
    await ctx.tick().repeat(3)
    # `done` stands until the next start.
    assert state(ctx, dut) == {"done"}
    await start(ctx, dut)
    assert state(ctx, dut) == {"busy"}


async def test_start_while_a_program_ends_starts_it_once_more():
    ctx, dut = await supervisor()
    await start(ctx, dut)
    ctx.set(dut.fetch_idle, 0)
    await strobe(ctx, dut, halted=1)
    await strobe(ctx, dut, start=1)
    for _ in range(3):
        assert not ctx.get(dut.begin) and state(ctx, dut) == {"busy"}
        await ctx.tick()
    ctx.set(dut.fetch_idle, 1)
    await ctx.tick()
    assert ctx.get(dut.begin) and state(ctx, dut) == {"done"}
    await ctx.tick()
    assert state(ctx, dut) == {"busy"}
    await strobe(ctx, dut, halted=1)
    await ctx.tick()
    for _ in range(4):
        assert not ctx.get(dut.begin) and state(ctx, dut) == {"done"}
        await ctx.tick()


async def test_start_has_no_effect_while_a_program_runs_or_an_error_stands():
    ctx, dut = await supervisor()
    await start(ctx, dut)
    ctx.set(dut.start, 1)
    assert not ctx.get(dut.begin)
    await strobe(ctx, dut, start=1)
    assert state(ctx, dut) == {"busy"}
    await fail(ctx, dut, Unit.STORE)
    ctx.set(dut.start, 1)
    assert not ctx.get(dut.begin)
    await ctx.tick().repeat(3)
    assert state(ctx, dut) == {"error", "abort"}
    ctx.set(dut.start, 0)
    await soft_reset(ctx, dut)
    await start(ctx, dut)


@pytest.mark.parametrize("unit", Unit)
@pytest.mark.parametrize("code", [Error.RANGE, Error.BUS, Error.SEMAPHORE])
async def test_the_first_error_is_kept(unit, code):
    ctx, dut = await supervisor()
    await start(ctx, dut)
    ctx.set(dut.units_idle, 0)
    await fail(ctx, dut, unit, code=code)
    assert state(ctx, dut) == {"error", "abort", "draining"}
    assert await recorded(ctx, dut) == (code, unit, 9 + unit.value)
    for other in Unit:
        await fail(ctx, dut, other, code=Error.FIELD, index=100)
    assert await recorded(ctx, dut) == (code, unit, 9 + unit.value)
    ctx.set(dut.units_idle, 1)
    assert state(ctx, dut) == {"error", "abort"}
    ctx.set(dut.fetch_idle, 0)
    assert state(ctx, dut) == {"error", "abort", "draining"}


@pytest.mark.parametrize(
    "units", [(Unit.MATRIX, Unit.LOAD), (Unit.VECTOR, Unit.STORE), tuple(Unit)]
)
async def test_of_faults_in_one_cycle_one_is_recorded_whole(units):
    ctx, dut = await supervisor()
    await start(ctx, dut)
    await fail(ctx, dut, *units)
    code, unit, index = await recorded(ctx, dut)
    assert unit in units and code == Error.RANGE
    assert index == 9 + unit.value


@pytest.mark.parametrize("named", Unit)
async def test_an_error_of_the_sequencer_may_be_in_the_instruction_of_a_unit(named):
    ctx, dut = await supervisor()
    await start(ctx, dut)
    ctx.set(dut.named, named)
    for unit in Unit:
        ctx.set(dut.indices[unit.value], 9 + unit.value)
    await fail(ctx, dut, Unit.SEQUENCER, code=Error.SEMAPHORE)
    assert await recorded(ctx, dut) == (Error.SEMAPHORE, Unit.SEQUENCER, 9 + named.value)


async def test_a_fault_while_nothing_runs_is_no_error():
    ctx, dut = await supervisor()
    await fail(ctx, dut, Unit.LOAD)
    assert state(ctx, dut) == set()
    await start(ctx, dut)
    await strobe(ctx, dut, halted=1)
    await ctx.tick()
    await fail(ctx, dut, Unit.LOAD)
    assert state(ctx, dut) == {"done"}


@pytest.mark.parametrize("watchdog", [1, 2, 17])
async def test_watchdog_fires_after_exactly_as_many_quiet_cycles(watchdog):
    ctx, dut = await supervisor()
    pysim.drive(ctx, dut, watchdog=watchdog, stuck_unit=Unit.MATRIX)
    ctx.set(dut.indices[Unit.MATRIX.value], 321)
    await ctx.tick().repeat(2 * watchdog)
    await start(ctx, dut)
    # One quiet cycle less than it takes, again and again.
    for _ in range(5):
        for _ in range(watchdog - 1):
            await ctx.tick()
        await strobe(ctx, dut, moved=1)
    for _ in range(watchdog + 1):
        assert state(ctx, dut) == {"busy"}
        await ctx.tick()
    assert state(ctx, dut) == {"error", "abort"}
    assert await recorded(ctx, dut) == (Error.WATCHDOG, Unit.MATRIX, 321)


async def test_watchdog_lowered_below_the_cycles_gone_by():
    ctx, dut = await supervisor()
    ctx.set(dut.watchdog, 100)
    await start(ctx, dut)
    await ctx.tick().repeat(50)
    assert state(ctx, dut) == {"busy"}
    ctx.set(dut.watchdog, 10)
    await ctx.tick().repeat(2)
    assert state(ctx, dut) == {"error", "abort"}


async def test_no_watchdog():
    ctx, dut = await supervisor()
    await start(ctx, dut)
    await ctx.tick().repeat(400)
    assert state(ctx, dut) == {"busy"}
    await strobe(ctx, dut, halted=1)
    await ctx.tick().repeat(3)
    ctx.set(dut.watchdog, 3)
    await ctx.tick().repeat(20)
    assert state(ctx, dut) == {"done"}


async def test_a_fault_goes_before_the_watchdog():
    ctx, dut = await supervisor()
    ctx.set(dut.watchdog, 3)
    await start(ctx, dut)
    await ctx.tick().repeat(3)
    await fail(ctx, dut, Unit.STORE)
    assert await recorded(ctx, dut) == (Error.RANGE, Unit.STORE, 11)


@pytest.mark.parametrize("busy", ["fetch_idle", "units_idle"])
@pytest.mark.parametrize("before", ["nothing", "running", "error", "done"])
async def test_soft_reset_waits_until_all_is_idle(before, busy):
    ctx, dut = await supervisor()
    if before != "nothing":
        await start(ctx, dut)
    if before == "error":
        await fail(ctx, dut, Unit.MATRIX)
    if before == "done":
        await strobe(ctx, dut, halted=1)
        await ctx.tick()
    ctx.set(getattr(dut, busy), 0)
    await strobe(ctx, dut, reset=1)
    for _ in range(5):
        assert {"abort", "draining"} <= state(ctx, dut)
        assert not ctx.get(dut.running) and not ctx.get(dut.status.clear)
        await ctx.tick()
    ctx.set(getattr(dut, busy), 1)
    assert ctx.get(dut.status.clear)
    await ctx.tick()
    assert not ctx.get(dut.status.clear) and state(ctx, dut) == set()
    assert await recorded(ctx, dut) == (Error.NONE, Unit.SEQUENCER, 0)
    await start(ctx, dut)


async def test_nothing_starts_between_clear_and_the_reset_itself():
    dut = Supervisor()
    late = Signal()
    m = Module()
    m.submodules.dut = ResetInserter(late)(dut)
    m.d.sync += late.eq(dut.status.clear)
    ctx = await pysim.simulation(m)
    pysim.drive(ctx, dut, fetch_idle=1, units_idle=1)
    await start(ctx, dut)
    await fail(ctx, dut, Unit.LOAD)
    await soft_reset(ctx, dut)
    ctx.set(dut.start, 1)
    assert ctx.get(late) and not ctx.get(dut.begin) and "abort" in state(ctx, dut)
    await ctx.tick()
    assert not ctx.get(late) and ctx.get(dut.begin) and state(ctx, dut) == set()


async def test_start_in_the_middle_of_a_reset_has_no_effect():
    ctx, dut = await supervisor()
    await start(ctx, dut)
    ctx.set(dut.units_idle, 0)
    await strobe(ctx, dut, reset=1)
    ctx.set(dut.start, 1)
    assert not ctx.get(dut.begin)
    await strobe(ctx, dut, start=1)
    assert not ctx.get(dut.running)
    await strobe(ctx, dut, halted=1, fault_valid=31)
    assert state(ctx, dut) == {"abort", "draining"}


async def test_a_program_ends_in_one_way_only():
    ctx, dut = await supervisor()
    await start(ctx, dut)
    ctx.set(dut.codes[0], Error.SEMAPHORE)
    await strobe(ctx, dut, halted=1, fault_valid=1)
    await ctx.tick().repeat(3)
    assert len(state(ctx, dut) & {"done", "error"}) == 1


async def test_a_program_that_halts_as_the_watchdog_fires_is_an_error():
    ctx, dut = await supervisor()
    pysim.drive(ctx, dut, watchdog=3, fetch_idle=0)
    await start(ctx, dut)
    # The limit is a register: it is late by one cycle.
    await ctx.tick().repeat(3)
    await strobe(ctx, dut, halted=1)
    assert state(ctx, dut) == {"error", "draining", "abort"}
    ctx.set(dut.fetch_idle, 1)
    await ctx.tick().repeat(3)
    assert state(ctx, dut) == {"error", "abort"}


async def test_soft_reset_while_a_program_ends():
    ctx, dut = await supervisor()
    await start(ctx, dut)
    ctx.set(dut.fetch_idle, 0)
    await strobe(ctx, dut, halted=1)
    await strobe(ctx, dut, reset=1)
    for _ in range(3):
        assert state(ctx, dut) == {"abort", "draining"}
        await ctx.tick()
    ctx.set(dut.fetch_idle, 1)
    await ctx.tick()
    assert state(ctx, dut) == set()
