import numpy as np
import pysim
import pytest

from celosia.hw.arch.config import REQUANTIZERS
from celosia.hw.arch.isa import Rounding
from celosia.hw.targets.product import GatedSum
from celosia.hw.vector import sequential
from celosia.hw.vector.multiplier import multiplier_of
from celosia.hw.vector.requantize import Requantizer
from celosia.hw.vector.sequential import SequentialRequantizer
from celosia.sim.model import quantize

INTS = [-(2**31), -(2**31) + 1, -(2**30), -3, -1, 0, 1, 2, 2**30, 2**31 - 2, 2**31 - 1]
FACTORS = [0, 1, 2**30 - 1, 2**30, 2**31 - 2, 2**31 - 1]


@pytest.mark.parametrize("primitive", ["portable", "logic"])
async def test_multiplier_corners_and_random(rng, primitive):
    dut = multiplier_of(primitive)
    factors = [*FACTORS, 0xFFFF, 0x10000, 0x7FFF0000]
    cases = [(a, b) for a in [*INTS, 0xFFFF, -0x10000] for b in factors]
    a, b = rng.integers(-(2**31), 2**31, 1500), rng.integers(0, 2**31, 1500)
    cases += zip(a.tolist(), b.tolist(), strict=True)
    ctx = await pysim.simulation(dut)
    for cycle in range(len(cases) + dut.LATENCY):
        if cycle >= dut.LATENCY:
            x, y = cases[cycle - dut.LATENCY]
            assert ctx.get(dut.halves) == (x * y) >> 30, (x, y)
        if cycle < len(cases):
            pysim.drive(ctx, dut, a=cases[cycle][0], b=cases[cycle][1])
        await ctx.tick()


def stimuli(rng, count):
    """Elements with many corners, as columns x, bias, multiplier, left, right, rounding."""
    near = rng.choice(INTS, count)
    x = np.where(rng.random(count) < 0.4, near, rng.integers(-(2**31), 2**31, count))
    small = rng.random(count) < 0.5
    x = np.where(small, x >> rng.integers(0, 32, count), x)
    bias = np.where(
        rng.random(count) < 0.5, rng.choice(INTS, count), rng.integers(-999, 999, count)
    )
    factor = np.where(
        rng.random(count) < 0.3, rng.choice(FACTORS, count), rng.integers(2**30, 2**31, count)
    )
    left, right = rng.integers(0, 32, count), rng.integers(0, 32, count)
    left = np.where(rng.random(count) < 0.5, 0, left)
    right = np.where(rng.random(count) < 0.3, 0, right)
    drawn = np.stack([x, bias, factor, left, right, rng.integers(0, 2, count)], axis=-1)
    # On both sides of what a shift to the left just keeps.
    edges = [
        (x, 0, 2**30, left, 0, Rounding.SINGLE.value)
        for left in range(1, 32)
        for most in [2 ** (31 - left)]
        for x in (most - 1, most, -most, -most - 1)
    ]
    return np.concatenate([np.array(edges), drawn])[:count]


def put_group(ctx, dut, group):
    """Set the elements and parameters of a group, rows as in ``stimuli``."""
    ctx.set(dut.rounding, Rounding(group[0][5]))
    for i, (x, bias, factor, left, right, _) in enumerate(group):
        ctx.set(dut.sums[i], x)
        values = {"bias": bias, "multiplier": factor, "left": left, "right": right}
        ctx.set(dut.parameters[i], values)


@pytest.mark.parametrize(("lanes", "primitive"), [(1, "portable"), (2, "portable"), (1, "ecp5")])
async def test_sequential_requantizer(rng, lanes, primitive, monkeypatch):
    """Groups as close as they may be, and apart; rubbish as soon as a group need not be held."""
    # Carry chains of the part: their function, which tb/formal/test_cells.py proves.
    monkeypatch.setattr(sequential, "GatedSum", lambda width, *, primitive: GatedSum(width))
    dut = SequentialRequantizer(lanes=lanes, primitive=primitive)
    count = 350
    groups = stimuli(rng, count * lanes).reshape(count, lanes, 6)
    groups[..., 5] = groups[:, :1, 5]
    rubbish = stimuli(rng, 50 * lanes)[::-1].reshape(50, lanes, 6).tolist()
    wanted = [
        [
            int(quantize.requantize(*row[:5].tolist(), rounding=Rounding(int(row[5]))))
            for row in group
        ]
        for group in groups
    ]
    tags = rng.integers(0, 8, count).tolist()
    spaces = dut.INTERVAL + np.where(rng.random(count) < 0.7, 0, rng.integers(1, 40, count))
    starts = (np.cumsum(spaces) - spaces[0]).tolist()
    first = dict(zip(starts, range(count), strict=True))
    ends = {start + dut.LATENCY: n for n, start in enumerate(starts)}
    ctx = await pysim.simulation(dut, cycles_limit=100000)
    for cycle in range(max(ends) + 1):
        if cycle in first:
            n = first[cycle]
            put_group(ctx, dut, groups[n].tolist())
            ctx.set(dut.mark.tag.as_value(), tags[n])
        elif cycle - dut.HOLD in first:
            put_group(ctx, dut, rubbish[cycle % len(rubbish)])
            ctx.set(dut.mark.tag.as_value(), cycle % 8)
        ctx.set(dut.mark.valid, cycle in first)
        assert ctx.get(dut.used) == (cycle - dut.HOLD + 1 in first)
        soon = ends.get(cycle + dut.SOON)
        assert ctx.get(dut.soon.valid) == (soon is not None)
        if soon is not None:
            assert ctx.get(dut.soon.tag.as_value()) == tags[soon]
        if cycle in ends:
            n = ends[cycle]
            assert [ctx.get(dut.scaled[i]) for i in range(lanes)] == wanted[n], groups[n]
        await ctx.tick()


def test_interval_of_the_sequential_requantizer():
    assert REQUANTIZERS["sequential"] == SequentialRequantizer.INTERVAL


def test_refuses():
    for requantizer in (Requantizer, SequentialRequantizer):
        with pytest.raises(ValueError, match="lanes: wanted at least 1, got 0"):
            requantizer(lanes=0)
