"""Counts of semaphores past the greatest; tb/formal/test_semaphores.py has the others."""

import pysim
import pytest

from celosia.hw.arch.config import MOST_COUNT
from celosia.hw.sequencer.semaphores import GREATEST, Semaphores


def test_construction():
    dut = Semaphores(count=16, units=5)
    assert (dut.count, dut.units) == (16, 5)
    assert len(dut.lacking) == 16 and len(dut.granted) == len(dut.overflow) == 5
    assert GREATEST == MOST_COUNT == 255


async def cycle(ctx, dut, requesting, want, post):
    """Drive one cycle; return the overflow of the next, which has the posts of the one before."""
    ctx.set(dut.requesting, sum(1 << u for u in requesting))
    for unit in range(dut.units):
        ctx.set(dut.want[unit], want.get(unit, 0))
        ctx.set(dut.post[unit], post.get(unit, 0))
    await ctx.tick()
    return ctx.get(dut.overflow)


@pytest.mark.parametrize(
    ("below", "posts", "takes", "overflows"),
    [
        (0, {1: 1}, False, 0b010),
        (0, {1: 1}, True, 0b010),
        (1, {1: 1, 2: 1}, True, 0b110),
        (1, {1: 1}, True, 0),
        (0, {1: 1, 2: 1}, True, 0b110),
        (1, {1: 1}, False, 0),
        (1, {1: 1, 2: 1}, False, 0b110),
        (2, {0: 1, 1: 1, 2: 1}, False, 0b111),
        (2, {0: 1, 2: 1}, False, 0),
        (0, {1: 2}, False, 0),
    ],
)
async def test_overflow_names_who_posted(below, posts, takes, overflows):
    dut = Semaphores(count=2, units=3)
    ctx = await pysim.simulation(dut)
    ctx.set(dut.post[0], 1)
    await ctx.tick().repeat(GREATEST - below)
    ctx.set(dut.post[0], 0)
    await ctx.tick()
    assert not ctx.get(dut.overflow)
    requesting, want = ({0}, {0: 1}) if takes else (set(), {})
    assert await cycle(ctx, dut, requesting, want, posts) == 0
    assert await cycle(ctx, dut, set(), want, {}) == overflows
    assert await cycle(ctx, dut, set(), {}, {}) == 0


async def test_counts_past_the_greatest():
    dut = Semaphores(count=3, units=2)
    ctx = await pysim.simulation(dut)
    ctx.set(dut.post[1], 0b100)
    await ctx.tick().repeat(GREATEST)
    ctx.set(dut.post[1], 0)
    await ctx.tick().repeat(2)
    assert not ctx.get(dut.overflow)
    assert ctx.get(dut.lacking) == 0b011
    await pysim.pulse(ctx, dut.post[1], 0b101)
    await ctx.tick()
    assert ctx.get(dut.overflow) == 0b10
