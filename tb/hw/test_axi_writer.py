from collections import deque
from functools import partial

import pytest
from devices.axi import AxiMemory
from pysim import put, put_all, rest, run

from celosia.hw.axi.writer import WriteMaster

MEMORY = 1 << 12


def simulate(
    bursts, rng, stall, *, abort_at=None, refuses=lambda address: False, refusal=2, latency=6
):
    """Return the memory and, in order, whether each response was an error."""
    dut = WriteMaster(data_bytes=4, burst_beats=8, outstanding=4)
    memory = AxiMemory(
        bytearray(MEMORY),
        data_bytes=4,
        burst_beats=8,
        latency=latency,
        rng=rng,
        stall=stall,
        refuses=refuses,
        refusal=refusal,
    )
    responses = []

    taken = deque()

    async def request(ctx):
        for address, beats in bursts:
            await rest(ctx, rng, stall)
            await put(ctx, dut.request, {"address": address, "beats": len(beats) - 1})
            taken.append(beats)

    async def give(ctx):
        while True:
            while not taken:
                await ctx.tick()
            words = taken.popleft()
            beats = [{"data": word, "strobe": strobe, "last": 0} for word, strobe in words]
            beats[-1]["last"] = 1
            await put_all(ctx, dut.beats, beats, rng=rng, stall=stall)

    async def watch(ctx):
        async for _, _, responded, refused in ctx.tick().sample(dut.responded, dut.refused):
            if responded:
                responses.append(refused)

    async def strobes(ctx):
        """After an abort, strobes are 0 from the next beat on."""
        bus, over = dut.bus, False
        levels = dut.abort, bus.wvalid, bus.wready, bus.wstrb
        async for _, _, abort, valid, ready, strobe in ctx.tick().sample(*levels):
            assert not (over and valid and strobe)
            over = over or bool(abort and (ready or not valid))

    async def finish(ctx):
        if abort_at is None:
            while len(responses) < len(bursts):
                await ctx.tick()
            assert ctx.get(dut.idle)
        else:
            await ctx.tick().repeat(abort_at)
            ctx.set(dut.abort, 1)
            await ctx.tick()
            while not ctx.get(dut.idle):
                await ctx.tick()
            await ctx.tick().repeat(5)
            assert len(responses) == len(memory.writes)

    background = (request, give, watch, strobes, partial(memory.serve_writes, bus=dut.bus))
    run(dut, finish, background=background, cycles_limit=20_000)
    return memory, responses


def random_bursts(rng, count):
    bursts = []
    for n in range(count):
        beats = int(rng.integers(1, 9))
        words = [(int(rng.integers(1, 1 << 32)), int(rng.integers(1, 16))) for _ in range(beats)]
        bursts.append((32 * n, words))
    return bursts


def written(bursts):
    content = bytearray(MEMORY)
    for address, beats in bursts:
        for n, (word, strobe) in enumerate(beats):
            for lane in range(4):
                if strobe >> lane & 1:
                    content[address + 4 * n + lane] = word >> 8 * lane & 0xFF
    return content


@pytest.mark.parametrize("stall", [0.0, 0.3, 0.7])
def test_bursts_arrive(rng, stall):
    bursts = random_bursts(rng, 40)
    memory, responses = simulate(bursts, rng, stall)
    assert memory.content == written(bursts)
    assert memory.writes == [(0, address, len(beats)) for address, beats in bursts]
    assert responses == [0] * 40
    assert memory.most_unanswered <= 4


def test_outstanding_is_reached(rng):
    memory, _ = simulate(random_bursts(rng, 20), None, 0.0, latency=60)
    assert memory.most_unanswered == 4


@pytest.mark.parametrize("refusal", [2, 3])
def test_refused(rng, refusal):
    bursts = random_bursts(rng, 20)

    def refuses(address):
        return address // 32 % 5 == 2

    _, responses = simulate(bursts, rng, 0.2, refuses=refuses, refusal=refusal)
    assert responses == [int(n % 5 == 2) for n in range(20)]


@pytest.mark.parametrize("turn", range(12))
def test_abort_completes_bursts_without_strobes(rng, turn):
    bursts = random_bursts(rng, 40)
    memory, _ = simulate(bursts, rng, 0.3 * (turn % 3), abort_at=int(rng.integers(1, 120)))
    whole = written(bursts)
    content = memory.content
    assert all(byte in (0, want) for byte, want in zip(content, whole, strict=True))
    # What was written is a beginning of what was to be written.
    ends = max((i for i in range(MEMORY) if content[i]), default=-1) & ~3
    assert content[:ends] == whole[:ends]
    assert len(memory.writes) < 40


def test_refuses_no_outstanding():
    with pytest.raises(ValueError, match="outstanding: wanted at least 1, got 0"):
        WriteMaster(data_bytes=4, burst_beats=4, outstanding=0)
