"""Queues: one from outside the same as Amaranth's, one with registers around its memory."""

import pytest
from amaranth.hdl import Module
from amaranth.lib.fifo import SyncFIFOBuffered
from pysim import drive, pulse, simulation

from celosia.hw.lib.queue import QUEUE_LATENCY, EagerFIFO, RegisteredFIFO


@pytest.mark.parametrize("depth", [2, 3, 4, 9])
@pytest.mark.parametrize("busy", [(0.5, 0.5), (0.9, 0.3), (0.3, 0.9), (1.0, 1.0)])
async def test_equals_amaranths(depth, busy, rng):
    m = Module()
    m.submodules.dut = dut = EagerFIFO(width=8, depth=depth)
    m.submodules.reference = reference = SyncFIFOBuffered(width=8, depth=depth)
    levels = set()
    ctx = await simulation(m)
    for _ in range(400):
        pushes, pops = rng.random(2) < busy
        data = int(rng.integers(256))
        for fifo in (dut, reference):
            drive(ctx, fifo, w_en=int(pushes), w_data=data, r_en=int(pops))
        names = ("w_rdy", "r_rdy", "level", "w_level", "r_level")
        assert [ctx.get(getattr(dut, n)) for n in names] == [
            ctx.get(getattr(reference, n)) for n in names
        ]
        if ctx.get(dut.r_rdy):
            assert ctx.get(dut.r_data) == ctx.get(reference.r_data)
        levels.add(ctx.get(dut.level))
        await ctx.tick()
    assert busy != (0.9, 0.3) or {1, depth} <= levels


async def test_the_memory_takes_what_is_shown_while_there_is_space():
    dut = EagerFIFO(width=8, depth=4)
    ctx = await simulation(dut)
    ctx.set(dut.w_data, 7)
    await ctx.tick()
    # Never pushed, so never there.
    ctx.set(dut.w_data, 8)
    await pulse(ctx, dut.w_en)
    ctx.set(dut.w_data, 9)
    await ctx.tick().repeat(2)
    assert (ctx.get(dut.r_rdy), ctx.get(dut.r_data), ctx.get(dut.level)) == (1, 8, 1)


def test_one_entry_is_too_few():
    with pytest.raises(ValueError, match="depth: wanted at least 2, got 1"):
        EagerFIFO(width=8, depth=1)


@pytest.mark.parametrize("share", [0.0, 0.4, 0.8, 1.0])
async def test_registered_keeps_the_order_and_its_time(share, rng):
    depth = 9
    dut = RegisteredFIFO(width=8, depth=depth, copies=2, shared=3)
    inside, waits = [], set()
    ctx = await simulation(dut)
    ends = filling = 0
    for cycle in range(2000):
        if cycle == ends:
            # Full and empty in turn, sooner and later.
            ends += int(rng.integers(3, 30))
            filling = not filling
        pushes, pops = rng.random(2) < ((1.0, share) if filling else (share, 1.0))
        pushes = pushes and len(inside) < depth
        data = int(rng.integers(256))
        drive(ctx, dut, w_en=int(pushes), w_data=data, r_en=int(pops))
        ready = ctx.get(dut.r_rdy)
        head = ready | (ctx.get(dut.r_data) & 7) << 1
        assert [ctx.get(copy) for copy in dut.heads] == 2 * [head]
        if not ready and inside:
            waits.add(cycle - inside[0][1])
        if ready:
            assert inside[0] == (ctx.get(dut.r_data), inside[0][1])
            if pops:
                del inside[0]
        if pushes:
            inside.append((data, cycle))
        await ctx.tick()
    # The oldest entry has not arrived in cycles up to this one.
    assert max(waits) == (QUEUE_LATENCY - 1 if share == 1.0 else QUEUE_LATENCY + 1)
