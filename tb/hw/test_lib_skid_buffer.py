"""Registers in a stream: what goes in comes out, in the next cycle if nobody rests."""

from functools import partial

import pytest
from pysim import get_all, put_all, simulation

from celosia.hw.lib.skid_buffer import PipelineRegister, SkidBuffer

BLOCKS = partial(SkidBuffer, block=3)
KINDS = (SkidBuffer, BLOCKS, PipelineRegister)


@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.5, 0.5)])
@pytest.mark.parametrize("kind", KINDS)
async def test_everything_comes_out_in_order(kind, stalls, rng):
    dut = kind(8)
    payloads = rng.integers(0, 256, 200).tolist()
    got = []

    async def give(ctx):
        await put_all(ctx, dut.i, payloads, rng=rng, stall=stalls[0])

    ctx = await simulation(dut, give, cycles_limit=2000)
    got.extend(await get_all(ctx, dut.o, len(payloads), rng=rng, stall=stalls[1]))
    assert not ctx.get(dut.o.valid)
    assert got == payloads


@pytest.mark.parametrize("kind", KINDS)
async def test_one_each_cycle(kind):
    dut = kind(8)
    ctx = await simulation(dut)
    ctx.set(dut.o.ready, 1)
    ctx.set(dut.i.valid, 1)
    assert dut.LATENCY == 1 and not ctx.get(dut.o.valid)
    for n in range(10):
        ctx.set(dut.i.payload, n)
        assert ctx.get(dut.i.ready)
        await ctx.tick()
        assert (ctx.get(dut.o.valid), ctx.get(dut.o.payload)) == (1, n)
    ctx.set(dut.i.valid, 0)
    await ctx.tick()
    assert not ctx.get(dut.o.valid)


@pytest.mark.parametrize(("kind", "room"), [(SkidBuffer, 2), (BLOCKS, 2), (PipelineRegister, 1)])
async def test_space_and_what_is_offered(kind, room):
    dut = kind(8)
    ctx = await simulation(dut)
    ctx.set(dut.i.valid, 1)
    for n in range(4):
        ctx.set(dut.i.payload, n)
        assert ctx.get(dut.i.ready) == (n < room)
        assert ctx.get(dut.o.valid) == (n > 0)
        await ctx.tick()
        assert ctx.get(dut.o.payload) == 0
    # Only what has one entry is ready as soon as the other side is.
    ctx.set(dut.o.ready, 1)
    assert ctx.get(dut.i.ready) == (kind is PipelineRegister)


async def test_idle_means_that_nothing_is_inside():
    dut = SkidBuffer(8)
    ctx = await simulation(dut)
    assert ctx.get(dut.idle)
    ctx.set(dut.i.valid, 1)
    await ctx.tick().repeat(2)
    ctx.set(dut.i.valid, 0)
    ctx.set(dut.o.ready, 1)
    for _ in range(2):
        assert not ctx.get(dut.idle)
        await ctx.tick()
    assert ctx.get(dut.idle)
