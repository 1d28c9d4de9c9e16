"""Addresses, lanes and windows of the reads of a task, against loops in Python."""

import itertools

import pytest
from pysim import get_all, pulse, run
from vector_sizes import sizes

from celosia.hw.arch.isa import Space
from celosia.hw.vector.reads import ReadAddresses
from celosia.hw.vector.task import VectorSizes


def made(name):
    ports = ("bus_bytes",)
    return VectorSizes(**{key: value for key, value in sizes(name).items() if key not in ports})


def drawn(rng, limits, source, *, skip=0):
    """Return the fields of a task, the channels of a pixel, and their segments."""
    channels = int(rng.integers(1, limits.columns + 1))
    if source is Space.UNIFIED:
        channels += int(rng.integers(2 * limits.columns))
    strides = rng.integers(0, limits.unified_bytes // 8, 5)
    counts = rng.integers(1, 4, 5)
    return {
        "constant": 0,
        "source": source,
        "pixels": [int(n) for n in counts[:3]],
        "group_last": (channels - 1) // limits.lanes,
        "lane_last": (channels - 1) % limits.lanes,
        "source_base": int(rng.integers(limits.unified_bytes)),
        "source_strides": [int(n) for n in strides[:3]],
        "wide": int(source is Space.UNIFIED and not skip),
        "window_elements": [int(n) for n in counts[3:]],
        "window_strides": [int(n) for n in strides[3:]],
    }, channels


def reference(limits, task, channels, run_, skip):
    """Return the reads of a task: address, skips and lanes of its channels, place, end, outside."""
    lanes = limits.lanes
    of_rows = task["source"] is Space.ACCUMULATORS
    at_once = limits.read_groups if task["wide"] else 1
    groups = -(-channels // lanes)
    firsts = [0] if of_rows else list(range(0, groups, at_once))
    # Innermost last.
    counts = [*task["pixels"][::-1], len(firsts), *task["window_elements"][::-1]]
    strides = [*task["source_strides"][::-1], at_once * lanes, *task["window_strides"][::-1]]
    end = limits.accumulator_depth * 2 if of_rows else limits.unified_bytes
    reads = []
    for index in itertools.product(*(range(count) for count in counts)):
        offset = sum(n * stride for n, stride in zip(index, strides, strict=True))
        address = (task["source_base"] + offset) % (1 << limits.address_bits)
        first = firsts[index[3]] * lanes
        places = range(first, first + at_once * lanes)
        mask = sum(1 << n for n, channel in enumerate(places) if channel < channels)
        taken = groups if of_rows else min(at_once, groups - firsts[index[3]])
        skips = [(first + lane) // run_ * skip for lane in range(lanes)]
        window = index[4:]
        last = tuple(count - 1 for count in counts[4:])
        outside = not task["constant"] and address >= end
        reads.append((address, skips, mask, window == (0, 0), window == last, taken - 1, outside))
    return reads


@pytest.mark.parametrize("name", ["nano", "micro", "wide", "twelve", "edge"])
@pytest.mark.parametrize("stall", [0.0, 0.6])
def test_reads_against_the_reference(rng, name, stall):
    limits = made(name)
    dut = ReadAddresses(sizes=limits)
    outside = set()

    async def bench(ctx):
        for n in range(8):
            source = Space.ACCUMULATORS if n % 3 == 2 else Space.UNIFIED
            skip = int(rng.integers(1, 4)) if n % 3 == 1 else 0
            run_ = int(rng.integers(1, 12)) if skip else 0xFFFF
            task, channels = drawn(rng, limits, source, skip=skip)
            # A read at the start, one past the end, and a task without a source.
            task |= ({"source_base": 0}, {"source_base": limits.unified_bytes}, {})[min(n, 2)]
            task["constant"] = int(n == 6)
            ctx.set(dut.run, run_)
            ctx.set(dut.skip_rows, skip)
            await pulse(ctx, dut.prepare)
            if not ctx.get(dut.prepared):
                await ctx.tick().until(dut.prepared)
            ctx.set(dut.launch.task, task)
            await pulse(ctx, dut.launch.valid)
            wanted = reference(limits, task, channels, run_, skip)
            assert ctx.get(dut.running)
            got = await get_all(ctx, dut.o, len(wanted), rng=rng, stall=stall)
            for read, (address, skips, mask, first, last, groups_last, is_outside) in zip(
                got, wanted, strict=True
            ):
                assert read.address == address
                assert (read.first, read.last, read.groups_last) == (first, last, groups_last)
                assert read.outside == is_outside
                if source is Space.UNIFIED:
                    assert read.mask == (0 if is_outside else mask)
                    used = [lane for lane in range(limits.lanes) if mask >> lane & 1]
                    assert [read.skip[lane] for lane in used] == [skips[lane] for lane in used]
                outside.add(is_outside)
            assert not ctx.get(dut.running) and not ctx.get(dut.o.valid)

    run(dut, bench, cycles_limit=20_000)
    assert outside == {False, True}


@pytest.mark.parametrize("name", ["micro", "edge"])
def test_one_read_each_cycle(name):
    limits = made(name)
    dut = ReadAddresses(sizes=limits)
    task = {"pixels": [5, 2, 1], "window_elements": [3, 1], "source": Space.UNIFIED, "wide": 1}
    taken = []

    async def bench(ctx):
        ctx.set(dut.launch.task, task)
        ctx.set(dut.run, 0xFFFF)
        await pulse(ctx, dut.prepare)
        await ctx.tick().until(dut.prepared)
        ctx.set(dut.o.ready, 1)
        await pulse(ctx, dut.launch.valid)
        for cycle in range(1, 40):
            if ctx.get(dut.o.valid):
                taken.append(cycle)
            await ctx.tick()

    run(dut, bench)
    assert taken == list(range(2, 2 + 5 * 2 * 3))
