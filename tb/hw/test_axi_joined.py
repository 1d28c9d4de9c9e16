"""Masters that read the same shared bytes, and bytes of their own."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from devices.axi import AxiMemory
from pysim import rest, run, simulation

from celosia.hw.axi.joined import JoinedReads
from celosia.hw.axi.signature import INCR

BYTES = 4
#: Shared bytes; then as many of each master.
SHARE = 1 << 11


class Master:
    """Reads bursts, shared ones in the order of all masters, and checks the bytes."""

    def __init__(
        self, dut: Any, number: int, rng: np.random.Generator, stall: float, content: bytes
    ) -> None:
        self.dut, self.bus = dut, getattr(dut, f"port_{number}")
        self.number, self.rng, self.stall, self.content = number, rng, stall, content

    async def read(self, ctx: Any, place: int, beats: int, *, shared: bool) -> None:
        """Read a burst."""
        ctx.set(self.dut.working[self.number], 1)
        await rest(ctx, self.rng, self.stall)
        bus, number = self.bus, int(self.rng.integers(0, 2)) if not shared else place >> 2 & 1
        fields = {"addr": place, "len": beats - 1, "size": 2, "burst": INCR, "id": number}
        for name, value in fields.items():
            ctx.set(getattr(bus, f"ar{name}"), value)
        ctx.set(self.dut.shared[self.number], shared)
        ctx.set(bus.arvalid, 1)
        await ctx.tick().until(bus.arready)
        ctx.set(bus.arvalid, 0)
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
    # Once.
    assert 100 <= took[0] < 120 and all(cycles < 20 for cycles in took[1:])


async def test_different_shared_bytes_do_not_wait() -> None:
    dut = JoinedReads(masters=2, data_bytes=BYTES)
    ctx = await simulation(dut)
    for n, port in enumerate((dut.port_0, dut.port_1)):
        ctx.set(port.arvalid, 1)
        ctx.set(port.araddr, 64 * n)
    ctx.set(dut.working, 3)
    ctx.set(dut.shared, 3)
    ctx.set(dut.bus.arready, 1)
    seen = [await ctx.tick().sample(dut.bus.araddr, dut.bus.arvalid) for _ in range(6)]
    places = [address for _, _, address, valid in seen if valid]
    assert len(places) >= 4 and all(a != b for a, b in zip(places, places[1:], strict=False))
