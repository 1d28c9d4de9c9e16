"""Instruction fetch: its pace, and stops; test_sequencer_program.py has its words."""

import pysim
import pytest

from celosia.hw.arch.commands import WORD_BYTES
from celosia.hw.arch.config import PROGRAM_BYTES
from celosia.hw.sequencer.fetch import Fetch


class Memory:
    """Responds to bursts in order after ``latency`` cycles."""

    def __init__(self, dut, words, *, latency=5):
        self.dut, self.words, self.latency = dut, words, latency
        self.requests = []
        self.handed = []
        self.cycle = 0

    async def run(self, ctx):
        dut = self.dut
        queue = []
        ctx.set(dut.request.ready, 1)
        while True:
            due = bool(queue) and queue[0][0] <= self.cycle
            ctx.set(dut.beats.valid, due)
            if due:
                ctx.set(dut.beats.payload, queue[0][1])
            ports = (dut.request, dut.beats, dut.words)
            signals = [signal for port in ports for signal in (port.valid, port.ready)]
            _, _, *flags, payload, idle = await ctx.tick().sample(
                *signals, dut.request.payload, dut.idle
            )
            # Idle is the truth about requested beats, and what is requested now.
            assert not idle or not (queue or flags[0])
            if due and flags[2] and flags[3]:
                queue.pop(0)
            if flags[0] and flags[1]:
                self.requests.append(payload.address)
                for n in range(payload.beats + 1):
                    queue.append((self.cycle + self.latency + n, self.respond(payload, n)))
            if flags[4] and flags[5]:
                self.handed.append(self.cycle)
            self.cycle += 1

    def respond(self, payload, n):
        place = payload.address - 0x1000 + n * self.dut.bus_bytes
        data = int.from_bytes(self.words[place:][: self.dut.bus_bytes], "little")
        return {"data": data, "last": n == payload.beats}


async def begin(ctx, dut, *, length, address=0x1000):
    pysim.drive(ctx, dut, address=address, length=length)
    await pysim.pulse(ctx, dut.begin)
    # Only in the cycle of `begin` are they looked at.
    pysim.drive(ctx, dut, address=0, length=0)


def program(rng, length):
    """Return the blocks of a program of ``length`` words."""
    blocks = -(-length * WORD_BYTES // PROGRAM_BYTES)
    return rng.bytes(blocks * PROGRAM_BYTES)


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


@pytest.mark.parametrize("bus_bytes", [4, 8, 16])
async def test_one_word_a_cycle(bus_bytes, rng):
    """``ahead`` covers the latency; the first word comes two cycles after its beat."""
    dut = Fetch(bus_bytes=bus_bytes, burst_beats=16, ahead=8)
    memory = Memory(dut, program(rng, 160), latency=6)
    ctx = await pysim.simulation(dut, background=[memory.run])
    ctx.set(dut.words.ready, 1)
    await begin(ctx, dut, length=160)
    await ctx.tick().repeat(200)
    # A request two cycles after ``begin``, its latency, and two cycles.
    assert memory.handed == list(range(2 + 6 + 2, 2 + 6 + 2 + 160))
    assert ctx.get(dut.idle)
    # No byte past the program's blocks is read: there may be no memory.
    assert memory.requests == list(range(0x1000, 0x1000 + 160 * WORD_BYTES, PROGRAM_BYTES))


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


@pytest.mark.parametrize("ready", [0, 1])
async def test_stop_requests_nothing_and_drops_what_arrives(ready, rng):
    dut = Fetch(bus_bytes=8, burst_beats=16)
    memory = Memory(dut, program(rng, 128), latency=20)
    ctx = await pysim.simulation(dut, background=[memory.run])
    await begin(ctx, dut, length=128)
    await ctx.tick().repeat(5)
    ctx.set(dut.stop, 1)
    # The last request is that of this cycle, before whose end nothing is idle.
    ctx.set(dut.request.ready, ready)
    assert ctx.get(dut.request.valid) and not ctx.get(dut.idle)
    requested = len(memory.requests) + ready
    await ctx.tick()
    ctx.set(dut.words.ready, 1)
    for _ in range(100):
        assert not ctx.get(dut.words.valid) and not ctx.get(dut.request.valid)
        await ctx.tick()
    assert ctx.get(dut.idle) and len(memory.requests) == requested > 0
