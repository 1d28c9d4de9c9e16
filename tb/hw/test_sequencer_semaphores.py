"""Semaphores against counters of Python."""

import numpy as np
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
    """Drive one cycle; return what was granted in it, lacking, and the overflow of the next,
    which has the posts of the cycle before."""
    ctx.set(dut.requesting, sum(1 << u for u in requesting))
    for unit in range(dut.units):
        ctx.set(dut.want[unit], want.get(unit, 0))
        ctx.set(dut.post[unit], post.get(unit, 0))
    granted, lacking = ctx.get(dut.granted), ctx.get(dut.lacking)
    await ctx.tick()
    return granted, lacking, ctx.get(dut.overflow)


@pytest.mark.parametrize(("count", "units"), [(1, 1), (3, 2), (16, 5)])
async def test_random_takers_and_posters(count, units, rng):
    dut = Semaphores(count=count, units=units)
    counts = np.zeros(count, int)
    grants = refused = 0
    # Unit that was granted in the cycle before, and what it took.
    before, took = -1, 0
    ctx = await pysim.simulation(dut)
    want = {}
    for _ in range(600):
        few = rng.integers(0, 1 << count, units) & rng.integers(0, 1 << count, units)
        masks = {u: int(few[u] & rng.integers(0, 1 << count)) for u in range(units)}
        want = {u: want[u] if u == before else masks[u] for u in range(units)}
        requesting = {u for u in range(units) if rng.random() < 0.5}
        post = {u: int(few[-1 - u]) for u in range(units) if rng.random() < 0.3}
        granted, lacking, overflow = await cycle(ctx, dut, requesting, want, post)
        assert lacking == sum(1 << s for s in range(count) if not counts[s])
        # The lowest requesting unit whose semaphores are all there, and nobody else.
        there = [u for u in sorted(requesting) if not want[u] & lacking]
        can = [u for u in there if not want[u] & took]
        assert granted == (1 << can[0] if can else 0)
        assert not overflow
        for s in range(count):
            counts[s] += sum(mask >> s & 1 for mask in post.values()) - (took >> s & 1)
        before, took = (can[0], want[can[0]]) if can else (-1, 0)
        grants += bool(can)
        refused += len(there) - len(can)
    assert (grants > 100 and refused) or units == 1


async def test_a_post_is_taken_in_the_next_cycle_and_not_before():
    dut = Semaphores(count=4, units=2)
    ctx = await pysim.simulation(dut)
    assert (await cycle(ctx, dut, {0}, {0: 0b100}, {1: 0b100}))[0] == 0
    assert (await cycle(ctx, dut, {0}, {0: 0b100}, {}))[0] == 0b01
    for _ in range(3):
        assert (await cycle(ctx, dut, {0}, {0: 0b100}, {}))[0] == 0


async def test_a_mask_is_taken_at_once_or_not_at_all():
    dut = Semaphores(count=2, units=2)
    ctx = await pysim.simulation(dut)
    await cycle(ctx, dut, {}, {}, {0: 0b01})
    # Unit 0 wants both and takes nothing; unit 1 takes the one that is there.
    assert (await cycle(ctx, dut, {0, 1}, {0: 0b11, 1: 0b01}, {}))[0] == 0b10
    await cycle(ctx, dut, {}, {1: 0b01}, {0: 0b11, 1: 0b11})
    assert (await cycle(ctx, dut, {0, 1}, {0: 0b11, 1: 0b11}, {}))[:2] == (0b01, 0)
    # Unit 1 wants what unit 0 took from, and waits for a cycle.
    assert (await cycle(ctx, dut, {1}, {0: 0b11, 1: 0b11}, {}))[0] == 0
    assert (await cycle(ctx, dut, {0, 1}, {0: 0, 1: 0b11}, {}))[0] == 0b01
    assert (await cycle(ctx, dut, {1}, {1: 0b11}, {}))[0] == 0b10


@pytest.mark.parametrize("posts", [1, 2, 3, 4])
async def test_counts_are_taken_in_every_second_cycle_until_none_is_left(posts):
    dut = Semaphores(count=1, units=4)
    ctx = await pysim.simulation(dut)
    await cycle(ctx, dut, {}, {}, dict.fromkeys(range(posts), 1))
    for _ in range(posts):
        assert (await cycle(ctx, dut, {0}, {0: 1}, {}))[:2] == (1, 0)
        assert (await cycle(ctx, dut, {0}, {0: 1}, {}))[:2] == (0, 0)
    for _ in range(2):
        assert (await cycle(ctx, dut, {0}, {0: 1}, {}))[:2] == (0, 1)


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
    assert (await cycle(ctx, dut, requesting, want, posts))[2] == 0
    assert (await cycle(ctx, dut, set(), want, {}))[2] == overflows
    assert (await cycle(ctx, dut, set(), {}, {}))[2] == 0


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
