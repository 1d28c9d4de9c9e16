import pytest
from pysim import get, put, put_all, rest, simulation

from celosia.hw.dma.splitter import BurstSplitter

LIMIT = 1000
LOCAL_BITS = 11
BEAT = 8
BURST = 4


def make():
    return BurstSplitter(
        data_bytes=BEAT,
        burst_beats=BURST,
        local_bits=LOCAL_BITS,
        extent_bits=10,
        limits=[LIMIT, 2 * LIMIT],
        tag=8,
    )


def block(**values):
    return {"local_pitch": 0, "external_pitch": 0, "rows": 1, **values}


def random_block(rng, tag):
    rows = int(rng.integers(1, 6))
    extent = int(rng.integers(0, 10 if rng.random() < 0.5 else 150))
    pitch = int(rng.integers(0, (LIMIT - 1 - extent) // rows + 1))
    return block(
        external=int(rng.integers(0, 1 << 20)),
        external_pitch=int(rng.integers(0, 1 << 12)),
        local=int(rng.integers(0, LIMIT - extent - pitch * rows)),
        local_pitch=pitch,
        extent=extent,
        rows=rows,
        tag=tag,
    )


def wanted(one):
    """Return the bytes of a block: external address, local address, number of the row."""
    return [
        (
            one["external"] + row * one["external_pitch"] + i,
            one["local"] + row * one["local_pitch"],
            i,
        )
        for row in range(one["rows"])
        for i in range(one["extent"] + 1)
    ]


def bytes_of(segment):
    """Return the external addresses of the bytes that a burst is for."""
    first = segment.address + segment.first_offset
    last = segment.address + segment.beats * BEAT + segment.last_offset
    return list(range(first, last + 1))


@pytest.mark.parametrize("stall", [0.0, 0.5])
async def test_bursts_cover_blocks(rng, stall):
    dut = make()
    blocks = [random_block(rng, tag) for tag in range(40)]
    # The longest row there is, from the end of a frame: it enters 32 more.
    blocks.append(block(external=31, local=0, extent=LIMIT - 1, tag=40))

    async def give(ctx):
        await put_all(ctx, dut.i, blocks, rng=rng, stall=stall)

    ctx = await simulation(dut, give, cycles_limit=50000)
    for tag, one in enumerate(blocks):
        seen = []
        while True:
            await rest(ctx, rng, stall)
            segment = await get(ctx, dut.o)
            assert (segment.tag, segment.bad) == (tag, 0)
            assert segment.address % BEAT == 0
            frame = BEAT * BURST
            end = segment.address + (segment.beats + 1) * BEAT - 1
            assert segment.address // frame == end // frame
            row = wanted(one)[len(seen)]
            assert segment.start == (row[2] == 0)
            inside = row[1] - (row[0] - row[2]) % BEAT
            assert segment.local == inside % (1 << LOCAL_BITS)
            seen += bytes_of(segment)
            if segment.final:
                break
        assert seen == [address for address, *_ in wanted(one)]


@pytest.mark.parametrize(
    "one",
    [
        block(external=0, local=LIMIT - 3, extent=3, rows=4),
        block(external=0, local=0, extent=0, bad=1, target=1),
    ],
)
async def test_bad_block_is_the_last(one):
    dut = make()

    async def give(ctx):
        await put_all(ctx, dut.i, [one, block(external=0, local=0, extent=0)])

    ctx = await simulation(dut, background=(give,))
    assert (await get(ctx, dut.o)).bad
    ctx.set(dut.o.ready, 1)
    for _ in range(20):
        assert not ctx.get(dut.o.valid)
        await ctx.tick()
    ctx.set(dut.abort, 1)
    await ctx.tick().repeat(2)
    assert ctx.get(dut.idle)


async def test_what_is_past_4_gib_is_bad():
    dut = make()

    async def give(ctx):
        await put(ctx, dut.i, block(external=(1 << 32) - 40, local=0, extent=99, rows=2))

    ctx = await simulation(dut, give)
    bursts = [await get(ctx, dut.o) for _ in range(3)]
    assert [(b.address, b.start, b.bad) for b in bursts[:2]] == [
        ((1 << 32) - 40, 1, 0),
        ((1 << 32) - 32, 0, 0),
    ]
    assert (bursts[2].start, bursts[2].bad) == (0, 1)
    ctx.set(dut.o.ready, 1)
    for _ in range(20):
        assert not ctx.get(dut.o.valid)
        await ctx.tick()


async def test_bad_row_follows_good_rows():
    dut = make()

    async def give(ctx):
        await put(ctx, dut.i, block(external=0, local=0, extent=7, rows=10, local_pitch=331))

    ctx = await simulation(dut, give)
    bad = [(await get(ctx, dut.o)).bad for _ in range(4)]
    assert bad == [0, 0, 0, 1]


async def test_a_row_past_the_last_may_lie_outside():
    dut = make()
    one = block(external=1 << 31, external_pitch=1 << 31, local=0, extent=7)

    async def give(ctx):
        await put_all(ctx, dut.i, [one] * 3)

    ctx = await simulation(dut, give)
    assert not any([(await get(ctx, dut.o)).bad for _ in range(3)])


async def test_each_target_has_its_limit():
    dut = make()
    ctx = await simulation(dut)
    await put(ctx, dut.i, block(external=0, local=1990, extent=9, target=1))
    segment = await get(ctx, dut.o)
    assert (segment.bad, segment.local, segment.target) == (0, 1990, 1)
    await put(ctx, dut.i, block(external=0, local=1991, extent=9, target=1))
    assert (await get(ctx, dut.o)).bad


async def test_latency_and_one_burst_each_cycle():
    dut = make()
    rows = 20
    ctx = await simulation(dut)
    ctx.set(dut.o.ready, 1)
    payload = block(external=0, external_pitch=64, local=0, local_pitch=8, extent=7)
    ctx.set(dut.i.payload, {**payload, "rows": rows})
    ctx.set(dut.i.valid, 1)
    valid = []
    for _ in range(dut.LATENCY + 2 * rows + 1):
        valid.append(ctx.get(dut.o.valid))
        await ctx.tick()
    assert valid == [0] * dut.LATENCY + [1] * (2 * rows + 1)


@pytest.mark.parametrize("cycles", range(1, 12))
async def test_abort_drops_everything(cycles):
    dut = make()
    ctx = await simulation(dut)
    ctx.set(dut.i.payload, block(external=0, external_pitch=64, local=0, extent=40, rows=6))
    ctx.set(dut.i.valid, 1)
    await ctx.tick().repeat(cycles)
    ctx.set(dut.abort, 1)
    assert not ctx.get(dut.i.ready)
    for _ in range(6):
        await ctx.tick()
        assert not ctx.get(dut.o.valid)
        assert ctx.get(dut.idle)


def test_refuses_bursts_over_a_page():
    with pytest.raises(ValueError, match="at most 4096 bytes, got 256 beats of 32"):
        BurstSplitter(
            data_bytes=32, burst_beats=256, local_bits=8, extent_bits=8, limits=[1], tag=1
        )
