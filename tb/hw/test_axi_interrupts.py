"""Interrupts against a model of them."""

import pysim

from celosia.hw.axi.interrupts import EVENTS, Interrupts


async def test_random_events(rng):
    dut = Interrupts()
    cycles = 600
    # Events that last for a while, and are cleared now and then.
    flips = rng.random((cycles, EVENTS)) < 0.2
    levels = (flips.cumsum(axis=0) % 2) @ (1 << rng.permutation(EVENTS)).astype(int)
    enables = rng.integers(0, 1 << EVENTS, cycles)
    clears = rng.integers(0, 1 << EVENTS, cycles) & rng.integers(0, 1 << EVENTS, cycles)
    ctx = await pysim.simulation(dut)
    before = pending = irq = 0
    kept = 0
    for events, enable, clear in zip(
        levels.tolist(), enables.tolist(), clears.tolist(), strict=True
    ):
        pysim.drive(ctx, dut, events=events, enable=enable, clear=clear)
        assert (ctx.get(dut.pending), ctx.get(dut.irq)) == (pending, irq)
        await ctx.tick()
        rise = events & ~before
        kept += bool(rise & clear & pending)
        irq = int(bool(pending & enable))
        pending = (pending & ~clear) | rise
        before = events
    # A rise in the cycle of its clear stays.
    assert kept


async def test_nothing_is_pending_after_reset():
    dut = Interrupts()
    ctx = await pysim.simulation(dut)
    ctx.set(dut.enable, (1 << EVENTS) - 1)
    for _ in range(3):
        assert (ctx.get(dut.pending), ctx.get(dut.irq)) == (0, 0)
        await ctx.tick()
    ctx.set(dut.events, 1)
    await ctx.tick()
    assert (ctx.get(dut.pending), ctx.get(dut.irq)) == (1, 0)
    await ctx.tick()
    assert (ctx.get(dut.pending), ctx.get(dut.irq)) == (1, 1)
