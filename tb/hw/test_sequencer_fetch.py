"""Instruction fetch from a memory of Python."""

import numpy as np
import pysim
import pytest
from amaranth.hdl import ResetInserter, Signal

from celosia.hw.arch.commands import WORD_BYTES, words
from celosia.hw.arch.config import PROGRAM_BYTES
from celosia.hw.sequencer.fetch import Fetch


class Memory:
    """Responds to bursts in order after ``latency`` cycles; refuses the beats at ``refused``."""

    def __init__(self, dut, words, *, latency=5, base=0x1000, rng=None, stall=0.0, refused=()):
        self.dut, self.words, self.latency, self.base = dut, words, latency, base
        self.rng, self.stall, self.refused = rng, stall, refused
        self.requests = []
        self.handed = []
        self.owed = 0
        self.most_owed = 0
        self.cycle = 0

    def beat(self, address):
        return self.words[address - self.base :][: self.dut.bus_bytes]

    def stalls(self):
        return self.rng is not None and self.rng.random() < self.stall

    async def run(self, ctx):
        dut = self.dut
        queue = []
        while True:
            ctx.set(dut.request.ready, not self.stalls())
            due = bool(queue) and queue[0][0] <= self.cycle and not self.stalls()
            ctx.set(dut.beats.valid, due)
            if due:
                ctx.set(dut.beats.payload, queue[0][1])
            ports = (dut.request, dut.beats, dut.words)
            signals = [signal for port in ports for signal in (port.valid, port.ready)]
            _, _, *flags, payload, idle = await ctx.tick().sample(
                *signals, dut.request.payload, dut.idle
            )
            # Idle is the truth about requested beats.
            assert idle == (not queue)
            if due and flags[2] and flags[3]:
                queue.pop(0)
            if flags[0] and flags[1]:
                self.requests.append((payload.address, payload.beats + 1))
                self.owed += (payload.beats + 1) * dut.bus_bytes
                for n in range(payload.beats + 1):
                    queue.append((self.cycle + self.latency + n, self.respond(payload, n)))
            self.most_owed = max(self.most_owed, self.owed)
            if flags[4] and flags[5]:
                self.handed.append(self.cycle)
                self.owed -= WORD_BYTES
            self.cycle += 1

    def respond(self, payload, n):
        address = payload.address + n * self.dut.bus_bytes
        return {
            "data": int.from_bytes(self.beat(address), "little"),
            "error": address in self.refused,
            "last": n == payload.beats,
        }


async def begin(ctx, dut, *, length, address=0x1000):
    ctx.set(dut.address, address)
    ctx.set(dut.length, length)
    await pysim.pulse(ctx, dut.begin)
    # Only in the cycle of `begin` are they looked at.
    ctx.set(dut.address, 0)
    ctx.set(dut.length, 0)


def program(rng, length):
    """Return the blocks of a program of ``length`` words."""
    blocks = -(-length * WORD_BYTES // PROGRAM_BYTES)
    return rng.bytes(blocks * PROGRAM_BYTES)


def fetch_all(dut, memory, length, *, rng=None, stall=0.0, programs=1):
    """Return what was handed on, ``programs`` times one after the other."""
    got = []
    reset = Signal()

    async def restart(ctx):
        await pysim.pulse(ctx, reset)

    async def main(ctx):
        for _ in range(programs):
            await begin(ctx, dut, length=length)
            for _ in range(length):
                await pysim.rest(ctx, rng, stall)
                assert not ctx.get(dut.exhausted)
                payload = await pysim.get(ctx, dut.words)
                got.append((payload.bits, payload.error))
            assert ctx.get(dut.exhausted)
            # The rest of the last block may still arrive.
            while not ctx.get(dut.idle):
                await ctx.tick()
            await ctx.tick().repeat(3)
            assert ctx.get(dut.idle) and not ctx.get(dut.words.valid)
            await restart(ctx)

    pysim.run(ResetInserter(reset)(dut), main, background=[memory.run])
    return got


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bus_bytes": 128}, "^bus_bytes: wanted at most 64, got 128$"),
        ({"ahead": 1}, "^ahead: wanted at least 2, got 1$"),
    ],
)
def test_refusals(changes, message):
    with pytest.raises(ValueError, match=message):
        Fetch(**{"bus_bytes": 8, "burst_beats": 4, **changes})


@pytest.mark.parametrize(
    ("bus_bytes", "burst_beats", "each"), [(4, 16, 16), (4, 4, 4), (8, 256, 8), (16, 16, 4)]
)
def test_construction(bus_bytes, burst_beats, each):
    dut = Fetch(bus_bytes=bus_bytes, burst_beats=burst_beats, ahead=3)
    assert (dut.bus_bytes, dut.burst_beats, dut.ahead) == (bus_bytes, each, 3)


@pytest.mark.parametrize(("producer", "consumer"), [(0.0, 0.0), (0.5, 0.0), (0.0, 0.7), (0.5, 0.5)])
@pytest.mark.parametrize(("bus_bytes", "burst_beats"), [(8, 16), (16, 2), (16, 16), (4, 1)])
@pytest.mark.parametrize("length", [64, 70])
def test_programs_come_whole_and_in_order(bus_bytes, burst_beats, producer, consumer, length, rng):
    dut = Fetch(bus_bytes=bus_bytes, burst_beats=burst_beats)
    text = program(rng, length)
    memory = Memory(dut, text, rng=rng, stall=producer)
    got = fetch_all(dut, memory, length, rng=rng, stall=consumer, programs=2)
    assert got == [(word, 0) for word in words(text)][:length] * 2
    # Every block of the program once, in order, in bursts of one length.
    step = dut.burst_beats * bus_bytes
    once = [(0x1000 + place, dut.burst_beats) for place in range(0, len(text), step)]
    assert memory.requests == once * 2


@pytest.mark.parametrize("length", [1, 16, 20])
@pytest.mark.parametrize("bus_bytes", [4, 8, 16])
def test_a_refused_beat_marks_its_words_alone(length, bus_bytes, rng):
    each = bus_bytes // WORD_BYTES
    for beat in {0, (length - 1) // each, length // 2 // each}:
        dut = Fetch(bus_bytes=bus_bytes, burst_beats=16)
        memory = Memory(dut, program(rng, length), refused=(0x1000 + beat * bus_bytes,))
        got = fetch_all(dut, memory, length)
        assert [error for _, error in got] == [int(n // each == beat) for n in range(length)]


@pytest.mark.parametrize("bus_bytes", [4, 8, 16])
def test_one_word_a_cycle(bus_bytes, rng):
    """``ahead`` covers the latency; the first word comes two cycles after its beat."""
    dut = Fetch(bus_bytes=bus_bytes, burst_beats=16, ahead=8)
    memory = Memory(dut, program(rng, 160), latency=6)
    fetch_all(dut, memory, 160)
    assert set(np.diff(memory.handed).tolist()) == {1}
    # A request in the cycle after ``begin``, its latency, and two cycles.
    assert memory.handed[0] == 1 + 6 + 2


@pytest.mark.parametrize("ahead", [2, 3, 4])
async def test_ahead_limits_requested_blocks(ahead, rng):
    dut = Fetch(bus_bytes=8, burst_beats=4, ahead=ahead)
    memory = Memory(dut, program(rng, 128))
    ctx = await pysim.simulation(dut, background=[memory.run])
    await begin(ctx, dut, length=128)
    await ctx.tick().repeat(200)
    # Nothing was taken: as much as may be is there, and no more.
    assert len(memory.requests) == 2 * ahead
    for _ in range(7):
        await pysim.get(ctx, dut.words)
    await ctx.tick().repeat(30)
    assert len(memory.requests) == 2 * ahead
    # The last word of four beats.
    await pysim.get(ctx, dut.words)
    await ctx.tick().repeat(30)
    assert len(memory.requests) == 2 * ahead + 1


async def test_stop_requests_nothing_and_drops_what_arrives(rng):
    dut = Fetch(bus_bytes=8, burst_beats=16)
    memory = Memory(dut, program(rng, 128), latency=20)
    ctx = await pysim.simulation(dut, background=[memory.run])
    await begin(ctx, dut, length=128)
    await ctx.tick().repeat(4)
    ctx.set(dut.stop, 1)
    requested = len(memory.requests)
    assert not ctx.get(dut.request.valid) and not ctx.get(dut.idle)
    ctx.set(dut.words.ready, 1)
    for _ in range(100):
        assert not ctx.get(dut.words.valid) and not ctx.get(dut.request.valid)
        await ctx.tick()
    assert ctx.get(dut.idle) and len(memory.requests) == requested > 0


async def test_a_reset_after_stop_makes_space_for_another_program(rng):
    dut = Fetch(bus_bytes=8, burst_beats=16)
    text = program(rng, 128)
    memory = Memory(dut, text, latency=10)
    clear = Signal()
    got = []
    ctx = await pysim.simulation(
        ResetInserter(clear)(dut), background=[memory.run], cycles_limit=500
    )
    await begin(ctx, dut, length=128)
    await ctx.tick().repeat(24)
    ctx.set(dut.stop, 1)
    while not ctx.get(dut.idle):
        await ctx.tick()
    await pysim.pulse(ctx, clear)
    ctx.set(dut.stop, 0)
    await begin(ctx, dut, length=18, address=0x1000 + 6 * PROGRAM_BYTES)
    got.extend([await pysim.get(ctx, dut.words) for _ in range(18)])
    assert [payload.bits for payload in got] == list(words(text))[96 : 96 + 18]


async def test_an_empty_program_is_exhausted_at_once(rng):
    dut = Fetch(bus_bytes=8, burst_beats=16)
    ctx = await pysim.simulation(dut)
    # So is none.
    assert ctx.get(dut.exhausted) and ctx.get(dut.idle)
    await begin(ctx, dut, length=0)
    assert ctx.get(dut.exhausted) and ctx.get(dut.idle)
    assert not ctx.get(dut.request.valid)


async def test_addresses_between_blocks_are_rounded_down():
    dut = Fetch(bus_bytes=16, burst_beats=16)
    addresses = []

    async def watch(ctx):
        async for _, _, valid, payload in ctx.tick().sample(dut.request.valid, dut.request.payload):
            if valid:
                addresses.append(payload.address)

    ctx = await pysim.simulation(dut, background=[watch])
    await begin(ctx, dut, length=1, address=0xFFF)
    ctx.set(dut.request.ready, 1)
    await ctx.tick().until(dut.request.valid)
    addresses.append(ctx.get(dut.request.payload.address))
    assert addresses[0] == 0xFC0
