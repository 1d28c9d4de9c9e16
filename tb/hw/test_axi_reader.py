from functools import partial
from typing import Any

import pytest
from devices.axi import AxiMemory
from pysim import drive, get, put, rest, run, simulation

from celosia.hw.axi.reader import ReadMaster, RoundRobin
from celosia.hw.axi.writer import WriteMaster

MEMORY = 1 << 13


def simulate(
    dut, rng, stall, bursts, *, latency=6, refuses=lambda address: False, refusal=2, pages=None
):
    """Return the memory, and per client the beats it got for its bursts.

    ``pages``: first and last page within the bounds, or None for all.
    """
    memory = AxiMemory(
        bytearray(i % 249 for i in range(MEMORY)),
        data_bytes=dut.data_bytes,
        burst_beats=dut.burst_beats,
        latency=latency,
        rng=rng,
        stall=stall,
        refuses=refuses,
        refusal=refusal,
    )
    got = [[] for _ in bursts]

    async def ask(ctx, n):
        if pages:
            ctx.set(dut.bounds, dict(zip(("base", "limit"), pages, strict=True)))
        for address, beats in bursts[n]:
            await rest(ctx, rng, stall)
            payload = {"address": address, "beats": beats - 1}
            await put(ctx, getattr(dut, f"request_{n}"), payload)

    async def take(ctx, n):
        while len(got[n]) < sum(beats if within(at, pages) else 1 for at, beats in bursts[n]):
            await rest(ctx, rng, stall)
            beat = await get(ctx, getattr(dut, f"beats_{n}"))
            got[n].append((beat.data, beat.error, beat.last))

    async def check_idle(ctx):
        under_way = 0
        valid = [getattr(dut, f"request_{n}").valid for n in range(len(bursts))]
        ready = [getattr(dut, f"request_{n}").ready for n in range(len(bursts))]
        ends = [getattr(dut, f"beats_{n}") for n in range(len(bursts))]
        last = [signal for end in ends for signal in (end.valid, end.ready, end.payload.last)]
        async for _, _, idle, *seen in ctx.tick().sample(dut.idle, *valid, *ready, *last):
            assert idle == (under_way == 0)
            count = len(bursts)
            under_way += sum(seen[n] and seen[count + n] for n in range(count))
            under_way -= sum(all(seen[2 * count + 3 * n :][:3]) for n in range(count))

    numbers = range(len(bursts))
    run(
        dut,
        *(partial(bench, n=n) for bench in (ask, take) for n in numbers),
        background=(partial(memory.serve_reads, bus=dut.bus), check_idle),
        cycles_limit=20_000,
    )
    return memory, got


def within(address, pages):
    """Return True if a burst at an address is within the bounds."""
    return not pages or pages[0] <= address >> 12 <= pages[1]


def random_bursts(dut, rng, count):
    bursts = []
    for _ in range(count):
        beats = int(rng.integers(1, dut.burst_beats + 1))
        last = 4096 // dut.data_bytes - beats
        page = int(rng.integers(0, MEMORY // 4096))
        bursts.append((4096 * page + dut.data_bytes * int(rng.integers(0, last + 1)), beats))
    return bursts


def wanted(memory, bursts, refuses=lambda address: False):
    """Return the beats of bursts within the bounds."""
    size = memory.data_bytes
    return [
        (
            int.from_bytes(memory.content[at : at + size], "little"),
            int(refuses(at)),
            int(beat == beats - 1),
        )
        for address, beats in bursts
        for beat, at in enumerate(range(address, address + beats * size, size))
    ]


@pytest.mark.parametrize("clients", [1, 2])
@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize("skid", [False, True])
@pytest.mark.parametrize("refusal", [2, 3])
def test_beats_reach_their_client(rng, stall, clients, skid, refusal):
    dut = ReadMaster(data_bytes=8, burst_beats=8, outstanding=3, clients=clients, skid=skid)
    bursts = [random_bursts(dut, rng, 40) for _ in range(clients)]

    def refuses(address):
        return address // 8 % 7 == 0

    memory, got = simulate(dut, rng, stall, bursts, refuses=refuses, refusal=refusal)
    assert got == [wanted(memory, of_one, refuses) for of_one in bursts]
    assert sorted(memory.most_under_way) == list(range(clients))
    assert max(memory.most_under_way.values()) <= 3


@pytest.mark.parametrize("clients", [1, 2])
@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize("skid", [False, True])
def test_bursts_outside_the_bounds_get_an_error(rng, stall, clients, skid):
    """Nothing outside reaches the bus; its error comes in the order of the client's bursts."""
    dut = ReadMaster(data_bytes=8, burst_beats=8, outstanding=3, clients=clients, skid=skid)
    pages = (1 << 18 | 1, 1 << 18 | 2)
    # The pages about the bounds, and those that differ from one within by a high bit.
    places = [pages[0] - 1, *pages, pages[1] + 1, pages[0] ^ 1 << 18, pages[1] ^ 1 << 19]
    bursts = [
        [
            (place << 12 | address & 4095, beats)
            for address, beats in random_bursts(dut, rng, 40)
            for place in [places[int(rng.integers(len(places)))]]
        ]
        for _ in range(clients)
    ]
    memory, got = simulate(dut, rng, stall, bursts, pages=pages)
    assert all(within(address, pages) for _, address, _ in memory.reads)
    for n, beats in enumerate(got):
        for address, count in bursts[n]:
            if within(address, pages):
                mine, beats = beats[:count], beats[count:]
                assert mine == wanted(memory, [(address % MEMORY, count)])
            else:
                (_, *error), *beats = beats
                assert error == [1, 1]


def test_outstanding_is_reached():
    dut = ReadMaster(data_bytes=4, burst_beats=1, outstanding=5, clients=1)
    memory, _ = simulate(dut, None, 0.0, [[(4 * n, 1) for n in range(30)]], latency=20)
    assert memory.most_under_way == {0: 5}


@pytest.mark.parametrize("skid", [False, True])
async def test_an_address_does_not_wait_for_the_bus(skid):
    """A request is on the channel in the next cycle, and waits there as the next does after it.

    A skid buffer has room for one more, whatever the bus does.
    """
    dut: Any = ReadMaster(data_bytes=4, burst_beats=4, outstanding=4, clients=1, skid=skid)
    ctx = await simulation(dut)
    ctx.set(dut.bus.arready, 0)
    await put(ctx, dut.request_0, {"address": 64, "beats": 3})
    assert ctx.get(dut.bus.arvalid) and ctx.get(dut.request_0.ready) == skid
    drive(ctx, dut.request_0, payload={"address": 128, "beats": 0}, valid=1)
    await ctx.tick()
    if skid:
        ctx.set(dut.request_0.valid, 0)
    await ctx.tick().repeat(2)
    assert ctx.get(dut.bus.araddr) == 64 and ctx.get(dut.bus.arlen) == 3
    ctx.set(dut.bus.arready, 1)
    await ctx.tick()
    assert ctx.get(dut.bus.arvalid) and ctx.get(dut.bus.araddr) == 128


def test_clients_share():
    dut = ReadMaster(data_bytes=4, burst_beats=4, outstanding=8)
    bursts = [[(16 * n, 4) for n in range(24)]] * 2
    memory, _ = simulate(dut, None, 0.0, bursts)
    for served in range(2, 40):
        requested = [number for number, *_ in memory.reads[:served]]
        assert abs(requested.count(0) - requested.count(1)) <= 1


async def test_round_robin_serves_all():
    dut = RoundRobin(3)
    ctx = await simulation(dut)
    ctx.set(dut.advance, 1)
    for requests, order in ((7, [2, 4, 1, 2]), (5, [4, 1, 4]), (2, [2, 2]), (0, [0])):
        ctx.set(dut.requests, requests)
        for grant in order:
            assert ctx.get(dut.grants) == grant
            await ctx.tick()


async def test_a_grant_stays_until_it_is_served():
    dut = RoundRobin(3)
    ctx = await simulation(dut)
    ctx.set(dut.requests, 7)
    for grant in (2, 4, 1, 2):
        for advance in (0, 0, 1):
            ctx.set(dut.advance, advance)
            assert ctx.get(dut.grants) == grant
            await ctx.tick()


@pytest.mark.parametrize(
    ("master", "sizes", "message"),
    [
        (ReadMaster, {"clients": 3}, "clients: wanted 1 or 2, got 3"),
        (ReadMaster, {"outstanding": 0}, "outstanding: wanted at least 1, got 0"),
        (WriteMaster, {"outstanding": 0}, "outstanding: wanted at least 1, got 0"),
    ],
)
def test_refusals(master, sizes, message):
    with pytest.raises(ValueError, match=message):
        master(**{"data_bytes": 4, "burst_beats": 4, "outstanding": 2} | sizes)
