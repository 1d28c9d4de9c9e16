"""Masters that read the same shared bytes, and private bytes."""

from collections import deque
from functools import partial
from typing import Any

import numpy as np
import pytest
from devices.axi import AxiMemory
from pysim import drive, rest, run, simulation

from celosia.hw.axi.joined import JoinedReads, JoinedRequests
from celosia.hw.axi.signature import INCR

BYTES = 4
#: Bursts of one id that a core requests ahead; constants of a burst of the program.
OUTSTANDING, EACH = 4, 3
#: Shared bytes; then as many of each master.
SHARE = 1 << 11


class Master:
    """Reads bursts, shared ones in the order of all masters, and checks the bytes."""

    def __init__(
        self, dut: Any, number: int, rng: np.random.Generator, stall: float, content: bytes
    ) -> None:
        self.dut, self.bus = dut, getattr(dut, f"port_{number}")
        self.number, self.rng, self.stall, self.content = number, rng, stall, content

    async def offer(self, ctx: Any, place: int, beats: int, number: int, *, shared: bool) -> None:
        """Request a burst with an id."""
        bus = self.bus
        drive(ctx, bus, araddr=place, arlen=beats - 1, arsize=2, arburst=INCR, arid=number)
        ctx.set(self.dut.shared[self.number], shared)
        ctx.set(bus.arvalid, 1)
        await ctx.tick().until(bus.arready)
        ctx.set(bus.arvalid, 0)

    async def read(self, ctx: Any, place: int, beats: int, *, shared: bool) -> None:
        """Read a burst."""
        ctx.set(self.dut.working[self.number], 1)
        await rest(ctx, self.rng, self.stall)
        bus, number = self.bus, int(self.rng.integers(0, 2)) if not shared else place >> 2 & 1
        await self.offer(ctx, place, beats, number, shared=shared)
        for n in range(beats):
            await rest(ctx, self.rng, self.stall)
            ctx.set(bus.rready, 1)
            got = (
                await ctx.tick().sample(bus.rdata, bus.rid, bus.rresp, bus.rlast).until(bus.rvalid)
            )
            ctx.set(bus.rready, 0)
            want = int.from_bytes(self.content[place + n * BYTES :][:BYTES], "little")
            assert got == (want, number, 0, n == beats - 1)

    async def run(self, ctx: Any, shared: list[tuple[int, int]]) -> None:
        """Read shared bursts, with private ones between them."""
        for place, beats in shared:
            await self.read(ctx, place, beats, shared=True)
            if self.rng.random() < 0.5:
                own = SHARE * (1 + self.number) + BYTES * int(self.rng.integers(0, 100))
                await self.read(ctx, own, int(self.rng.integers(1, 9)), shared=False)


@pytest.mark.parametrize("stall", [0.0, 0.6])
@pytest.mark.parametrize("masters", [2, 3, 4])
def test_a_shared_burst_is_read_once(masters: int, stall: float, rng: np.random.Generator) -> None:
    dut = JoinedReads(masters=masters, data_bytes=BYTES)
    content = rng.bytes(SHARE * (1 + masters))
    memory = AxiMemory(
        bytearray(content), data_bytes=BYTES, burst_beats=8, latency=4, rng=rng, stall=stall
    )
    shared = [(BYTES * int(rng.integers(0, 400)), int(rng.integers(1, 9))) for _ in range(30)]
    group = [Master(dut, n, rng, stall, content) for n in range(masters)]
    run(
        dut,
        *(partial(master.run, shared=shared) for master in group),
        background=(partial(memory.serve_reads, bus=dut.bus),),
        cycles_limit=50_000,
    )
    read = [address for _, address, _ in memory.reads if address < SHARE]
    assert read == [place for place, _ in shared]


class Core(Master):
    """Master with a program and constants, each read in order, and one address channel for both.

    Some bursts of each are on their way at once. An instruction has to be there before its
    constants are read, so which of the two is read next differs from core to core.
    """

    LIMITS = (3, OUTSTANDING)

    async def ask(self, ctx: Any, plan: list[list[tuple[int, int, bool]]]) -> None:
        """Request all bursts of a plan: address, beats and whether shared, for each id."""
        self.left: Any = [deque(bursts) for bursts in plan]
        self.under_way: Any = [deque(), deque()]
        self.came = 0
        ctx.set(self.dut.working[self.number], 1)
        while any(self.left):
            await rest(ctx, self.rng, self.stall)
            may = [
                number
                for number in range(2)
                if self.left[number] and len(self.under_way[number]) < self.LIMITS[number]
            ]
            if len(plan[1]) - len(self.left[1]) >= EACH * self.came and 1 in may:
                may.remove(1)
            if not may:
                await ctx.tick()
                continue
            number = int(self.rng.choice(may))
            place, beats, shared = self.left[number].popleft()
            self.under_way[number].append((place, beats))
            await self.offer(ctx, place, beats, number, shared=shared)

    async def take(self, ctx: Any, plan: list[list[tuple[int, int, bool]]]) -> None:
        """Take and check all beats of a plan."""
        bus, at = self.bus, [0, 0]
        for _ in range(sum(beats for bursts in plan for _, beats, _ in bursts)):
            await rest(ctx, self.rng, self.stall)
            ctx.set(bus.rready, 1)
            got = await ctx.tick().sample(bus.rid, bus.rdata, bus.rlast).until(bus.rvalid)
            ctx.set(bus.rready, 0)
            number = got[0]
            place, beats = self.under_way[number][0]
            want = int.from_bytes(self.content[place + at[number] * BYTES :][:BYTES], "little")
            at[number] += 1
            assert got == (number, want, at[number] == beats)
            if at[number] == beats:
                self.under_way[number].popleft()
                at[number], self.came = 0, self.came + (number == 0)


@pytest.mark.parametrize("stall", [0.0, 0.6])
@pytest.mark.parametrize("masters", [2, 4, 8])
def test_program_and_constants_are_read_once(
    masters: int, stall: float, rng: np.random.Generator
) -> None:
    dut = JoinedReads(masters=masters, data_bytes=BYTES, outstanding=OUTSTANDING, patience=1000)
    content = rng.bytes(SHARE * (1 + masters))
    memory = AxiMemory(
        bytearray(content), data_bytes=BYTES, burst_beats=8, latency=4, rng=rng, stall=stall
    )
    program = [(SHARE // 2 + 8 * BYTES * n, 8, True) for n in range(20)]
    # Constants, and bytes of one core between them.
    kinds = [(4 * BYTES * n, int(rng.integers(1, 5)), rng.random() < 0.5) for n in range(20 * EACH)]
    benches: list[Any] = []
    for n in range(masters):
        core = Core(dut, n, rng, stall, content)
        own = SHARE * (1 + n)
        data = [(place + own * (not shared), beats, shared) for place, beats, shared in kinds]
        benches += [
            partial(core.ask, plan=[program, data]),
            partial(core.take, plan=[program, data]),
        ]
    run(dut, *benches, background=(partial(memory.serve_reads, bus=dut.bus),), cycles_limit=90_000)
    for number, wanted in enumerate((program, [burst for burst in kinds if burst[2]])):
        read = [place for one, place, _ in memory.reads if one == number and place < SHARE]
        assert read == [place for place, _, _ in wanted]


def test_one_that_does_not_come_is_not_waited_for(rng: np.random.Generator) -> None:
    dut = JoinedReads(masters=2, data_bytes=BYTES, patience=100)
    content = rng.bytes(SHARE * 3)
    memory = AxiMemory(bytearray(content), data_bytes=BYTES, burst_beats=8, latency=4)
    first, second = (Master(dut, n, rng, 0.0, content) for n in range(2))
    took = []

    async def bench(ctx: Any) -> None:
        await second.read(ctx, 0, 1, shared=True)
        for n in range(10):
            before = now[0]
            await first.read(ctx, BYTES * n, 1, shared=True)
            took.append(now[0] - before)

    now = [0]

    async def clock(ctx: Any) -> None:
        while True:
            await ctx.tick()
            now[0] += 1

    run(dut, bench, background=(clock, partial(memory.serve_reads, bus=dut.bus)))
    # Once for each id.
    late = [n for n, cycles in enumerate(took) if cycles >= 20]
    assert late == [0, 1] and all(100 <= took[n] < 120 for n in late)


async def test_different_shared_bytes_do_not_wait() -> None:
    dut = JoinedReads(masters=2, data_bytes=BYTES)
    ctx = await simulation(dut)
    for n in range(2):
        port = getattr(dut, f"port_{n}")
        drive(ctx, port, arvalid=1, araddr=64 * n)
    drive(ctx, dut, working=3, shared=3)
    ctx.set(dut.bus.arready, 1)
    seen = [await ctx.tick().sample(dut.bus.araddr, dut.bus.arvalid) for _ in range(9)]
    places = [address for _, _, address, valid in seen if valid]
    assert len(places) >= 4 and all(a != b for a, b in zip(places, places[1:], strict=False))


async def test_each_shared_request_waits_anew() -> None:
    """For a master that has private requests alone."""
    patience = 8
    dut = JoinedRequests(masters=2, outstanding=4, patience=patience)
    ctx = await simulation(dut)
    ctx.set(dut.working, 3)
    ctx.set(dut.burst.ready, 1)
    for n in range(2):
        request = getattr(dut, f"request_{n}")
        drive(ctx, request, payload={"address": 64 * n, "beats": 0, "shared": n == 0}, valid=1)
    cycles = []
    for cycle in range(6 * patience):
        _, _, served, valid = await ctx.tick().sample(dut.burst.payload.masters, dut.burst.valid)
        if valid and served == 1:
            cycles.append(cycle)
    assert len(cycles) > 3
    assert all(b - a >= patience for a, b in zip(cycles, cycles[1:], strict=False)), cycles


async def test_bursts_of_other_lengths_are_not_joined() -> None:
    dut = JoinedRequests(masters=2, outstanding=2, patience=4)
    ctx = await simulation(dut)
    ctx.set(dut.working, 3)
    ctx.set(dut.burst.ready, 1)
    for n, beats in enumerate((3, 7)):
        request = getattr(dut, f"request_{n}")
        drive(ctx, request, payload={"address": 64, "beats": beats, "shared": 1}, valid=1)
    served = []
    for _ in range(12):
        *_, valid, burst = await ctx.tick().sample(dut.burst.valid, dut.burst.payload)
        served += [(burst.beats, burst.masters)] * valid
        for n in range(2):
            ctx.set(getattr(dut, f"request_{n}").valid, 0)
    assert sorted(served) == [(3, 1), (7, 2)]
