import pytest
from pysim import put_all, run, simulation

from celosia.hw.link.uart import UartReceiver, UartTransmitter, divisor_of


async def send(ctx, rx, byte, bit_cycles, *, stop=1, start=0.0):
    """Put a character on a line whose bits take ``bit_cycles``, not always a whole number.

    Returns when it ends, if it begins at ``start``.
    """
    for n, bit in enumerate((0, *(byte >> k & 1 for k in range(8)), stop)):
        ctx.set(rx, bit)
        cycles = round(start + (n + 1) * bit_cycles) - round(start + n * bit_cycles)
        await ctx.tick().repeat(cycles)
    ctx.set(rx, 1)
    return start + 10 * bit_cycles


def receive(divisor, bit_cycles, content):
    dut = UartReceiver(divisor=divisor)
    got, times = [], []

    async def line(ctx):
        ctx.set(dut.rx, 1)
        await ctx.tick().repeat(3)
        now = 0.0
        for byte in content:
            now = await send(ctx, dut.rx, byte, bit_cycles, start=now)
        await ctx.tick().repeat(2 * divisor)

    async def watch(ctx):
        cycle = 0
        async for _, _, valid, byte in ctx.tick().sample(dut.valid, dut.byte):
            cycle += 1
            if valid:
                got.append(byte)
                times.append(cycle)

    run(dut, line, background=(watch,), cycles_limit=100_000)
    return got, times


CONTENT = [0x00, 0xFF, 0x55, 0xAA, 0x01, 0x80, 0x7E, 0x7D]


@pytest.mark.parametrize("divisor", [4, 5, 8, 20, 40])
def test_receiver_divisors(rng, divisor):
    content = CONTENT + rng.integers(0, 256, 12).tolist()
    got, times = receive(divisor, divisor, content)
    assert got == content
    gaps = [b - a for a, b in zip(times, times[1:], strict=False)]
    assert set(gaps) == {10 * divisor}


@pytest.mark.parametrize("divisor", [8, 40])
@pytest.mark.parametrize("drift", [-0.03, 0.03])
def test_receiver_follows_a_line_that_runs_fast_or_slow(rng, divisor, drift):
    content = CONTENT + rng.integers(0, 256, 12).tolist()
    assert receive(divisor, divisor * (1 + drift), content)[0] == content


@pytest.mark.parametrize("divisor", [4, 20])
async def test_receiver_drops_a_character_without_stop_bit_and_a_break(divisor):
    dut = UartReceiver(divisor=divisor)
    got = []

    async def watch(ctx):
        async for _, _, valid, byte in ctx.tick().sample(dut.valid, dut.byte):
            if valid:
                got.append(byte)

    ctx = await simulation(dut, background=(watch,))
    ctx.set(dut.rx, 1)
    await ctx.tick().repeat(3)
    await send(ctx, dut.rx, 0x12, divisor)
    await send(ctx, dut.rx, 0x34, divisor, stop=0)
    await ctx.tick().repeat(2 * divisor)
    ctx.set(dut.rx, 0)
    await ctx.tick().repeat(35 * divisor)
    ctx.set(dut.rx, 1)
    await ctx.tick().repeat(2 * divisor)
    await send(ctx, dut.rx, 0x56, divisor)
    await ctx.tick().repeat(divisor)
    assert got == [0x12, 0x56]


async def test_receiver_takes_no_glitch_for_a_start():
    dut = UartReceiver(divisor=20)
    got = []

    async def watch(ctx):
        async for _, _, valid, byte in ctx.tick().sample(dut.valid, dut.byte):
            if valid:
                got.append(byte)

    ctx = await simulation(dut, background=(watch,))
    ctx.set(dut.rx, 1)
    await ctx.tick().repeat(3)
    ctx.set(dut.rx, 0)
    await ctx.tick().repeat(4)
    ctx.set(dut.rx, 1)
    await ctx.tick().repeat(20)
    await send(ctx, dut.rx, 0x9A, 20)
    await ctx.tick().repeat(20)
    assert got == [0x9A]


@pytest.mark.parametrize("divisor", [4, 5, 20])
@pytest.mark.parametrize("stall", [0.0, 0.5])
async def test_transmitter(rng, divisor, stall):
    dut = UartTransmitter(divisor=divisor)
    content = CONTENT + rng.integers(0, 256, 8).tolist()
    levels = []

    async def watch(ctx):
        async for _, _, level in ctx.tick().sample(dut.tx):
            levels.append(level)

    ctx = await simulation(dut, background=(watch,))
    await put_all(ctx, dut.i, content, rng=rng if stall else None, stall=stall)
    await ctx.tick().repeat(12 * divisor)
    got, place = [], 0
    while 0 in levels[place:]:
        start = levels.index(0, place)
        if got and not stall:
            assert start == place, "a gap between two characters"
        bits = [levels[start + n * divisor : start + (n + 1) * divisor] for n in range(10)]
        assert all(len(set(bit)) == 1 for bit in bits), "a bit of another length"
        assert bits[0][0] == 0 and bits[9][0] == 1
        got.append(sum(bits[k + 1][0] << k for k in range(8)))
        place = start + 10 * divisor
    assert got == content


def test_divisor_of():
    assert divisor_of(60e6, 3e6) == 20
    assert divisor_of(125e6, 3e6) == 42
    with pytest.raises(ValueError, match="baud: wanted"):
        divisor_of(14e6, 4e6)
    with pytest.raises(ValueError, match="baud: wanted"):
        divisor_of(9e6, 3e6)


@pytest.mark.parametrize("kind", [UartReceiver, UartTransmitter])
def test_refused(kind):
    with pytest.raises(ValueError, match="divisor: wanted at least 4, got 3"):
        kind(divisor=3)
