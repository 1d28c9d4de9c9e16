"""Memory model of AXI4: latency, data, and each check of the master."""

from functools import partial

import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.lib.wiring import Out
from any_ports import Component
from devices.axi import AxiMemory
from pysim import run

from celosia.hw.axi.signature import axi4

GOOD = {"araddr": 64, "arlen": 3, "arsize": 2, "arburst": 1}


class Probe(Component):
    """A bus in the hands of the test."""

    def __init__(self):
        super().__init__({"bus": Out(axi4(4))})

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain()
        return m


async def offer(ctx, bus, channel, **payload):
    for name, value in payload.items():
        ctx.set(getattr(bus, name), value)
    ctx.set(getattr(bus, f"{channel}valid"), 1)
    await ctx.tick().until(getattr(bus, f"{channel}ready"))
    ctx.set(getattr(bus, f"{channel}valid"), 0)


def simulate(bench, **options):
    dut = Probe()
    content = bytearray(range(256)) * 32
    memory = AxiMemory(content, data_bytes=4, burst_beats=8, **options)
    run(
        dut,
        partial(bench, bus=dut.bus),
        background=(
            partial(memory.serve_reads, bus=dut.bus),
            partial(memory.serve_writes, bus=dut.bus),
        ),
        cycles_limit=1000,
    )
    return memory


@pytest.mark.parametrize("latency", [1, 2, 30])
def test_latency_of_a_read(latency):
    seen = []

    async def bench(ctx, bus):
        ctx.set(bus.rready, 1)
        await offer(ctx, bus, "ar", **GOOD)
        for _ in range(latency + 4):
            *_, valid, data, last = await ctx.tick().sample(bus.rvalid, bus.rdata, bus.rlast)
            seen.append((valid, data, last) if valid else None)

    simulate(bench, latency=latency)
    words = [int.from_bytes(bytes(range(a, a + 4)), "little") for a in range(64, 80, 4)]
    beats = [(1, word, int(n == 3)) for n, word in enumerate(words)]
    assert seen == [None] * (latency - 1) + beats + [None]


def test_write_and_its_response():
    responses = []

    async def bench(ctx, bus):
        ctx.set(bus.bready, 1)
        for n in range(2):
            await offer(ctx, bus, "w", wdata=0xAABBCCDD, wstrb=5 + n, wlast=n)
        await offer(ctx, bus, "aw", awaddr=8, awlen=1, awsize=2, awburst=1)
        responses.extend(await ctx.tick().sample(bus.bresp).until(bus.bvalid))

    memory = simulate(bench)
    assert memory.content[8:16] == bytes([0xDD, 9, 0xBB, 11, 12, 0xCC, 0xBB, 15])
    assert responses == [0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"araddr": 66}, "not aligned"),
        ({"arlen": 8}, "9 beats"),
        ({"araddr": 4096 - 8}, "crosses 4 KiB"),
        ({"arsize": 1}, "width"),
        ({"arburst": 0}, "type"),
    ],
)
def test_bad_burst_is_seen(change, message):
    async def bench(ctx, bus):
        await offer(ctx, bus, "ar", **(GOOD | change))
        await ctx.tick()

    with pytest.raises(AssertionError, match=message):
        simulate(bench)


@pytest.mark.parametrize("channel", ["ar", "aw", "w"])
@pytest.mark.parametrize("change", ["valid", "payload"])
def test_unstable_offer_is_seen(channel, change):
    class Never:
        def random(self):
            return 0.0

    async def bench(ctx, bus):
        ctx.set(getattr(bus, f"{channel}valid"), 1)
        await ctx.tick().repeat(3)
        if change == "valid":
            ctx.set(getattr(bus, f"{channel}valid"), 0)
        else:
            ctx.set(bus.wdata if channel == "w" else getattr(bus, f"{channel}addr"), 4)
        await ctx.tick().repeat(3)

    with pytest.raises(AssertionError, match="fell" if change == "valid" else "changed"):
        simulate(bench, rng=Never(), stall=0.5)


def test_misplaced_last_is_seen():
    async def bench(ctx, bus):
        await offer(ctx, bus, "aw", awaddr=8, awlen=1, awsize=2, awburst=1)
        await offer(ctx, bus, "w", wdata=0, wstrb=0, wlast=1)
        await ctx.tick()

    with pytest.raises(AssertionError, match="wlast"):
        simulate(bench)
