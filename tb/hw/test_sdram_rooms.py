"""The controller's smaller parts, each alone."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
from pysim import get, get_all, pulse, put, put_all, run, simulation

from celosia.hw.axi.signature import DECERR, INCR, OKAY, SLVERR
from celosia.hw.sdram.buffer import Buffer
from celosia.hw.sdram.chunks import RUN, Arbiter, Splitter
from celosia.hw.sdram.countdown import Countdown
from celosia.hw.sdram.opener import Opener
from celosia.hw.sdram.signature import BANKS, CHUNK_BYTES, Command
from celosia.hw.sdram.startup import FIRST_REFRESHES, RefreshTimer, Startup
from celosia.hw.sdram.timing import PARTS, Timing

PART = PARTS["IS42S16160G-7"]
TIMING = Timing.derive(PART, clock_hz=120_000_000, cas_latency=3)


async def test_startup():
    dut = Startup(timing=TIMING, row_bits=13, words=8)
    assert dut.mode == 0x33
    seen = []
    ctx = await simulation(dut, cycles_limit=30000)
    cycle = 0
    while not ctx.get(dut.done):
        command = ctx.get(dut.command.command)
        if command != Command.DESELECT:
            seen.append((cycle, command, ctx.get(dut.command.address)))
        await ctx.tick()
        cycle += 1
    seen.append((cycle, None, 0))
    cycles, commands, addresses = zip(*seen, strict=True)
    assert commands == (Command.PRECHARGE, *[Command.REFRESH] * FIRST_REFRESHES, Command.MODE, None)
    assert addresses[0] == 1 << 10 and addresses[-2] == dut.mode
    assert cycles[0] == TIMING.startup == 24_000
    gaps = [later - earlier for earlier, later in pairwise(cycles)]
    assert gaps == [TIMING.rp, *[TIMING.rfc] * FIRST_REFRESHES, TIMING.mrd + 1]


async def test_refresh_timer():
    dut = RefreshTimer(interval=10)
    owed = []
    ctx = await simulation(dut)
    await ctx.tick().repeat(25)
    assert not ctx.get(dut.owed)
    ctx.set(dut.run, 1)
    # Three fall due and are given together; one falls due in a cycle that gives one.
    for cycle in range(60):
        ctx.set(dut.refreshed, cycle in (32, 33, 34, 49))
        owed.append(ctx.get(dut.owed))
        await ctx.tick()
    want = [10 <= cycle <= 34 or cycle >= 40 for cycle in range(60)]
    assert [bool(bit) for bit in owed] == want


async def test_refresh_timer_remembers_fifteen():
    dut = RefreshTimer(interval=4)
    ctx = await simulation(dut)
    ctx.set(dut.run, 1)
    await ctx.tick().repeat(100)
    ctx.set(dut.refreshed, 1)
    given = 0
    while ctx.get(dut.owed):
        await ctx.tick()
        given += 1
    # While fifteen were given, every fourth cycle but the last brought another.
    assert given == 15 + 4


@pytest.mark.parametrize("cycles", [(1,), (2,), (7,), (3, 9), (1, 4)])
async def test_countdown(cycles):
    dut = Countdown(cycles)
    ctx = await simulation(dut)
    for number, want in enumerate(cycles):
        assert ctx.get(dut.over)
        await pulse(ctx, dut.start, 1 << number)
        for passed in range(1, 12):
            assert ctx.get(dut.over) == (passed >= want), (number, passed)
            await ctx.tick()


async def test_a_new_event_replaces_the_one_before():
    dut = Countdown([5])
    ctx = await simulation(dut)
    ctx.set(dut.start, 1)
    await ctx.tick().repeat(3)
    ctx.set(dut.start, 0)
    for passed in range(1, 8):
        assert ctx.get(dut.over) == (passed >= 5)
        await ctx.tick()


@pytest.mark.parametrize("rcd", [1, 2, 3, 6])
async def test_opener_keeps_the_time_from_row_to_column_and_so_from_row_to_row(rcd):
    """Every chunk goes to another bank, and none of them is open."""
    dut = Opener(part=PART, timing=replace(TIMING, rcd=rcd), data_bytes=16)
    opened, handed = [], []
    ctx = await simulation(dut)
    for port in (dut.may_activate, dut.may_precharge):
        ctx.set(port, (1 << BANKS) - 1)
    for port in (dut.grant, dut.i.valid, dut.o.ready):
        ctx.set(port, 1)
    for cycle in range(60):
        ctx.set(dut.i.payload.place.bank, len(opened) % BANKS)
        *_, activate, valid = await ctx.tick().sample(dut.activate, dut.o.valid)
        opened.extend([cycle] * bool(activate))
        handed.extend([cycle] * valid)
    # Its first column command follows in the cycle after a chunk was handed over, or later.
    waits = {later - earlier for earlier, later in zip(opened, handed, strict=False)}
    assert waits == {max(rcd - 1, 1)}
    # Hence tRRD needs no counter: docs/reference/sdram.md.
    assert {later - earlier for earlier, later in pairwise(opened)} == {max(rcd, 2) + 2}


@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.6, 0.0), (0.0, 0.6), (0.5, 0.5)])
def test_buffer_keeps_order(rng, stalls):
    dut = Buffer(width=8, depth=4)
    sent = [int(n) for n in rng.integers(0, 256, 100)]
    got = []

    async def take(ctx):
        got.extend(await get_all(ctx, dut.o, 100, rng=rng, stall=stalls[1]))

    run(dut, partial(put_all, stream=dut.i, payloads=sent, rng=rng, stall=stalls[0]), take)
    assert got == sent


async def test_buffer_room_and_latency():
    dut = Buffer(width=8, depth=4)
    ctx = await simulation(dut)
    await put(ctx, dut.i, 0)
    await ctx.tick().repeat(dut.LATENCY - 2)
    assert not ctx.get(dut.o.valid)
    await ctx.tick()
    assert ctx.get(dut.o.valid)
    taken = 0
    ctx.set(dut.i.valid, 1)
    while ctx.get(dut.i.ready):
        await ctx.tick()
        taken += 1
    assert taken == dut.depth + 1
    # One entry a cycle, in and out.
    ctx.set(dut.o.ready, 1)
    await ctx.tick().repeat(3)
    for _ in range(20):
        assert ctx.get(dut.o.valid) and ctx.get(dut.i.ready)
        await ctx.tick()


@pytest.mark.parametrize("depth", [0, 1, 6])
def test_buffer_refuses(depth):
    with pytest.raises(ValueError, match=f"depth: wanted a power of two, at least 2, got {depth}"):
        Buffer(width=8, depth=depth)


@pytest.mark.parametrize("data_bytes", [4, 16])
@pytest.mark.parametrize("write", [False, True])
def test_splitter(rng, data_bytes, write):
    dut = Splitter(part=PART, data_bytes=data_bytes, address_bits=32, id_bits=2, write=write)
    size = data_bytes.bit_length() - 1
    bursts, want = [], []
    for _ in range(60):
        address = int(rng.integers(1 << 25)) | int(rng.random() < 0.2) << int(rng.integers(25, 32))
        room = (4096 - address % 4096) // data_bytes or 1
        length = min(int(rng.integers(1, 257)), room)
        kind, width = (INCR, size) if rng.random() < 0.8 else (2, size)
        number = int(rng.integers(4))
        bursts.append(
            {"id": number, "addr": address, "len": length - 1, "size": width, "burst": kind}
        )
        beats = range(address // data_bytes, address // data_bytes + length)
        resp = DECERR if address >> 25 else OKAY if kind == INCR else SLVERR
        parts = {}
        for beat in beats:
            parts.setdefault(beat * data_bytes // CHUNK_BYTES, []).append(beat)
        for part in parts.values():
            place = part[0] % (1 << 25 - size)
            want.append((place, len(part), number, resp, part[-1] == beats[-1]))
    got = []

    async def take(ctx):
        for _ in want:
            part = await get(ctx, dut.o)
            chunk = part.chunk
            assert (chunk.write, chunk.void) == (write, part.resp != OKAY)
            place = chunk.place.as_bits()
            got.append((place, chunk.beats + 1, part.id, part.resp, bool(part.last)))

    run(dut, partial(put_all, stream=dut.i, payloads=bursts), take)
    assert got == want


def test_arbiter_takes_turns():
    dut = Arbiter(part=PART, data_bytes=16)
    got = []

    def chunks(count, write):
        place = {"column": 0, "bank": 0, "row": 0}
        return [
            {"place": place | {"row": n}, "beats": 0, "write": write, "void": 0}
            for n in range(count)
        ]

    async def take(ctx):
        for _ in range(40):
            chunk = await get(ctx, dut.o)
            got.append((chunk.write, chunk.place.row))

    async def give(ctx, stream, payloads):
        for payload in payloads:
            ctx.set(stream.payload, payload)
            ctx.set(stream.valid, 1)
            await ctx.tick().until(stream.ready)
        ctx.set(stream.valid, 0)

    run(
        dut,
        partial(give, stream=dut.reads, payloads=chunks(30, 0)),
        partial(give, stream=dut.writes, payloads=chunks(10, 1)),
        take,
    )
    for write, count in ((0, 30), (1, 10)):
        assert [row for way, row in got if way == write] == list(range(count))
    ways = "".join(str(way) for way, _ in got)
    assert ways == ("0" * RUN + "1" * RUN) * 2 + "0" * RUN + "11" + "0" * (30 - 3 * RUN)
