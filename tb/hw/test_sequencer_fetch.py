"""Instruction fetch from a memory of Python."""

import numpy as np
import pysim
import pytest
from amaranth.hdl import ResetInserter, Signal

from celosia.hw.arch.config import INSTRUCTION_BYTES
from celosia.hw.sequencer.fetch import Fetch
from celosia.hw.sequencer.pieces import PIECE_BITS


class Memory:
    """Answers bursts in order after ``latency`` cycles; refuses the beats at ``refused``."""

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
            ports = (dut.request, dut.beats, dut.fetched)
            signals = [signal for port in ports for signal in (port.valid, port.ready)]
            _, _, *flags, payload, idle = await ctx.tick().sample(
                *signals, dut.request.payload, dut.idle
            )
            # Idle is the truth about beats asked for.
            assert idle == (not queue)
            if due and flags[2] and flags[3]:
                queue.pop(0)
            if flags[0] and flags[1]:
                self.requests.append((payload.address, payload.beats + 1))
                self.owed += (payload.beats + 1) * dut.bus_bytes
                for n in range(payload.beats + 1):
                    queue.append((self.cycle + self.latency + n, self.answer(payload, n)))
            self.most_owed = max(self.most_owed, self.owed)
            if flags[4] and flags[5]:
                self.handed.append(self.cycle)
                self.owed -= INSTRUCTION_BYTES
            self.cycle += 1

    def answer(self, payload, n):
        address = payload.address + n * self.dut.bus_bytes
        return {
            "data": int.from_bytes(self.beat(address), "little"),
            "error": address in self.refused,
            "last": n == payload.beats,
        }


async def begin(ctx, dut, *, length, address=0x1000):
    ctx.set(dut.address, address)
    ctx.set(dut.length, length)
    ctx.set(dut.begin, 1)
    await ctx.tick()
    ctx.set(dut.begin, 0)
    # Only in the cycle of `begin` are they looked at.
    ctx.set(dut.address, 0)
    ctx.set(dut.length, 0)


def program(rng, length):
    return rng.bytes(length * INSTRUCTION_BYTES)


def words_of(text):
    step = INSTRUCTION_BYTES
    return [int.from_bytes(text[n : n + step], "little") for n in range(0, len(text), step)]


def fetch_all(dut, memory, length, *, rng=None, stall=0.0, programs=1):
    """Return what was handed on, ``programs`` times one after the other."""
    got = []

    async def main(ctx):
        for _ in range(programs):
            await begin(ctx, dut, length=length)
            for n in range(length):
                await pysim.rest(ctx, rng, stall)
                assert not ctx.get(dut.exhausted)
                payload = await pysim.get(ctx, dut.fetched)
                assert payload.index == n
                got.append((payload.word, payload.error))
            assert ctx.get(dut.exhausted)
            await ctx.tick().repeat(3)
            assert ctx.get(dut.idle) and not ctx.get(dut.fetched.valid)

    pysim.run(dut, main, background=[memory.run])
    return got


@pytest.mark.parametrize("bus_bytes", [17, 32, 64])
def test_beats_wider_than_a_piece_are_refused(bus_bytes):
    wanted = f"^bus_bytes: wanted at most 16, got {bus_bytes}$"
    with pytest.raises(ValueError, match=wanted):
        Fetch(bus_bytes=bus_bytes, burst_beats=4)


def test_one_instruction_ahead_is_none():
    with pytest.raises(ValueError, match="^ahead: wanted at least 2, got 1$"):
        Fetch(bus_bytes=8, burst_beats=4, ahead=1)


@pytest.mark.parametrize(
    ("bus_bytes", "burst_beats", "each"), [(4, 16, 16), (4, 4, 4), (8, 256, 8), (16, 16, 4)]
)
def test_construction(bus_bytes, burst_beats, each):
    dut = Fetch(bus_bytes=bus_bytes, burst_beats=burst_beats, ahead=3)
    assert (dut.bus_bytes, dut.burst_beats, dut.ahead) == (bus_bytes, each, 3)


@pytest.mark.parametrize(("producer", "consumer"), [(0.0, 0.0), (0.5, 0.0), (0.0, 0.7), (0.5, 0.5)])
@pytest.mark.parametrize(("bus_bytes", "burst_beats"), [(8, 16), (16, 2), (16, 16), (4, 1)])
def test_programs_come_whole_and_in_order(bus_bytes, burst_beats, producer, consumer, rng):
    dut = Fetch(bus_bytes=bus_bytes, burst_beats=burst_beats)
    text = program(rng, 9)
    memory = Memory(dut, text, rng=rng, stall=producer)
    got = fetch_all(dut, memory, 9, rng=rng, stall=consumer, programs=2)
    assert got == [(word, 0) for word in words_of(text)] * 2
    # Every byte of the program once, in order, in bursts of one length.
    step = dut.burst_beats * bus_bytes
    once = [(0x1000 + place, dut.burst_beats) for place in range(0, len(text), step)]
    assert memory.requests == once * 2
    # One may be handed on and its room given away in the same cycle.
    assert memory.most_owed <= dut.ahead * INSTRUCTION_BYTES


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("bus_bytes", [8, 16])
def test_a_refused_beat_marks_its_instruction_alone(length, bus_bytes, rng):
    for bad in range(length):
        for beat in {0, INSTRUCTION_BYTES - bus_bytes}:
            dut = Fetch(bus_bytes=bus_bytes, burst_beats=16)
            address = 0x1000 + bad * INSTRUCTION_BYTES + beat
            memory = Memory(dut, program(rng, length), refused=(address,))
            got = fetch_all(dut, memory, length)
            assert [error for _, error in got] == [int(n == bad) for n in range(length)]


@pytest.mark.parametrize("bus_bytes", [4, 8, 16])
def test_pace(bus_bytes, rng):
    """As many cycles as an instruction has beats, and one to take it; `ahead` covers the latency."""
    dut = Fetch(bus_bytes=bus_bytes, burst_beats=16, ahead=8)
    memory = Memory(dut, program(rng, 20), latency=6)
    fetch_all(dut, memory, 20)
    assert set(np.diff(memory.handed[2:]).tolist()) == {INSTRUCTION_BYTES // bus_bytes + 1}


@pytest.mark.parametrize("ahead", [2, 3, 4])
def test_ahead_bounds_what_was_asked_for(ahead, rng):
    dut = Fetch(bus_bytes=8, burst_beats=4, ahead=ahead)
    memory = Memory(dut, program(rng, 8))

    async def main(ctx):
        await begin(ctx, dut, length=8)
        await ctx.tick().repeat(200)
        # Nothing was taken: as much as may be is there, and no more.
        assert len(memory.requests) == 2 * ahead
        await pysim.get(ctx, dut.fetched)
        await ctx.tick().repeat(30)
        assert len(memory.requests) == 2 * ahead + 2

    pysim.run(dut, main, background=[memory.run])


@pytest.mark.parametrize("bus_bytes", [4, 16])
def test_a_word_moves_down_by_pieces_and_the_next_comes_whole(bus_bytes, rng):
    dut = Fetch(bus_bytes=bus_bytes, burst_beats=4)
    text = program(rng, 12)
    memory = Memory(dut, text)
    words = words_of(text)

    async def main(ctx):
        await begin(ctx, dut, length=len(words))
        for n, word in enumerate(words):
            while not ctx.get(dut.fetched.valid):
                await ctx.tick()
            pieces = n % 4
            for piece in range(pieces):
                await pysim.rest(ctx, rng, 0.3)
                low = ctx.get(dut.fetched.payload.word) % (1 << PIECE_BITS)
                assert low == (word >> PIECE_BITS * piece) % (1 << PIECE_BITS)
                ctx.set(dut.shift, 1)
                await ctx.tick()
                ctx.set(dut.shift, 0)
            payload = await pysim.get(ctx, dut.fetched)
            left = 8 * INSTRUCTION_BYTES - pieces * PIECE_BITS
            assert payload.index == n and not payload.error
            assert payload.word % (1 << left) == word >> pieces * PIECE_BITS

    pysim.run(dut, main, background=[memory.run])


def test_stop_asks_for_nothing_and_drops_what_arrives(rng):
    dut = Fetch(bus_bytes=8, burst_beats=16)
    memory = Memory(dut, program(rng, 8), latency=20)

    async def main(ctx):
        await begin(ctx, dut, length=8)
        await ctx.tick().repeat(4)
        ctx.set(dut.stop, 1)
        asked = len(memory.requests)
        assert not ctx.get(dut.request.valid) and not ctx.get(dut.idle)
        ctx.set(dut.fetched.ready, 1)
        for _ in range(100):
            assert not ctx.get(dut.fetched.valid) and not ctx.get(dut.request.valid)
            await ctx.tick()
        assert ctx.get(dut.idle) and len(memory.requests) == asked > 0

    pysim.run(dut, main, background=[memory.run])


def test_a_reset_after_stop_makes_room_for_another_program(rng):
    dut = Fetch(bus_bytes=8, burst_beats=16)
    text = program(rng, 8)
    memory = Memory(dut, text, latency=10)
    clear = Signal()
    got = []

    async def main(ctx):
        await begin(ctx, dut, length=8)
        await ctx.tick().repeat(24)
        ctx.set(dut.stop, 1)
        while not ctx.get(dut.idle):
            await ctx.tick()
        ctx.set(clear, 1)
        await ctx.tick()
        ctx.set(clear, 0)
        ctx.set(dut.stop, 0)
        await begin(ctx, dut, length=2, address=0x1000 + 6 * INSTRUCTION_BYTES)
        got.extend([await pysim.get(ctx, dut.fetched) for _ in range(2)])

    pysim.run(ResetInserter(clear)(dut), main, background=[memory.run], cycles_limit=500)
    assert [payload.word for payload in got] == words_of(text)[6:]
    assert [payload.index for payload in got] == [0, 1]


def test_an_empty_program_is_exhausted_at_once(rng):
    dut = Fetch(bus_bytes=8, burst_beats=16)

    async def main(ctx):
        # So is none.
        assert ctx.get(dut.exhausted) and ctx.get(dut.idle)
        await begin(ctx, dut, length=0)
        assert ctx.get(dut.exhausted) and ctx.get(dut.idle)
        assert not ctx.get(dut.request.valid)

    pysim.run(dut, main)


def test_addresses_between_instructions_are_rounded_down():
    dut = Fetch(bus_bytes=16, burst_beats=16)
    asked = []

    async def main(ctx):
        await begin(ctx, dut, length=1, address=0xFFF)
        ctx.set(dut.request.ready, 1)
        await ctx.tick().until(dut.request.valid)
        asked.append(ctx.get(dut.request.payload.address))

    async def watch(ctx):
        async for _, _, valid, payload in ctx.tick().sample(dut.request.valid, dut.request.payload):
            if valid:
                asked.append(payload.address)

    pysim.run(dut, main, background=[watch])
    assert asked[0] == 0xFC0
