from functools import partial

import pytest
from devices.axi import AxiMemory
from pysim import drive, pulse, rest, run, simulation

from celosia.hw.axi.arbiter import Arbiter
from celosia.hw.axi.signature import INCR

BYTES = 4
SHARE = 1 << 11


class Master:
    """Writes random bursts into its half of memory and reads them back, with every side resting."""

    def __init__(self, dut, number, rng, stall):
        self.bus = getattr(dut, f"port_{number}")
        self.base = number * SHARE
        self.number = number
        self.rng = rng
        self.stall = stall
        self.mirror = bytearray(SHARE)

    async def offer(self, ctx, channel, **fields):
        await rest(ctx, self.rng, self.stall)
        for name, value in fields.items():
            ctx.set(getattr(self.bus, channel + name), value)
        ctx.set(getattr(self.bus, f"{channel}valid"), 1)
        await ctx.tick().until(getattr(self.bus, f"{channel}ready"))
        ctx.set(getattr(self.bus, f"{channel}valid"), 0)

    async def take(self, ctx, channel, *fields):
        await rest(ctx, self.rng, self.stall)
        ready = getattr(self.bus, f"{channel}ready")
        ctx.set(ready, 1)
        got = (
            await ctx.tick()
            .sample(*(getattr(self.bus, channel + field) for field in fields))
            .until(getattr(self.bus, f"{channel}valid"))
        )
        ctx.set(ready, 0)
        return got

    async def address(self, ctx, channel, place, beats, number):
        await self.offer(
            ctx, channel, addr=self.base + place, len=beats - 1, size=2, burst=INCR, id=number
        )

    async def run(self, ctx, rounds=25):
        for _ in range(rounds):
            beats, number = int(self.rng.integers(1, 9)), int(self.rng.integers(0, 2))
            place = int(self.rng.integers(0, SHARE // BYTES - beats)) * BYTES
            if self.rng.random() < 0.5:
                data = self.rng.bytes(beats * BYTES)
                await self.address(ctx, "aw", place, beats, number)
                for n in range(beats):
                    word = int.from_bytes(data[n * BYTES :][:BYTES], "little")
                    await self.offer(ctx, "w", data=word, strb=15, last=n == beats - 1)
                assert await self.take(ctx, "b", "id", "resp") == (number, 0)
                self.mirror[place : place + len(data)] = data
            else:
                await self.address(ctx, "ar", place, beats, number)
                for n in range(beats):
                    want = int.from_bytes(self.mirror[place + n * BYTES :][:BYTES], "little")
                    got = await self.take(ctx, "r", "data", "id", "resp", "last")
                    assert got == (want, number, 0, n == beats - 1)


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("write_bursts", [1, 8])
def test_two_masters(rng, stall, write_bursts):
    dut = Arbiter(data_bytes=BYTES, write_bursts=write_bursts)
    memory = AxiMemory(
        bytearray(2 * SHARE), data_bytes=BYTES, burst_beats=8, latency=4, rng=rng, stall=stall
    )
    masters = [Master(dut, n, rng, stall) for n in range(2)]
    run(
        dut,
        *(master.run for master in masters),
        background=(
            partial(memory.serve_reads, bus=dut.bus),
            partial(memory.serve_writes, bus=dut.bus),
        ),
        cycles_limit=20_000,
    )
    assert memory.content == masters[0].mirror + masters[1].mirror
    assert {number >> 1 for number, _, _ in memory.reads} == {0, 1}


@pytest.mark.parametrize("channel", ["ar", "aw"])
async def test_turns_while_both_wait(channel):
    dut = Arbiter(data_bytes=BYTES, write_bursts=8)
    numbers = []
    ctx = await simulation(dut)
    for number, port in enumerate((dut.port_0, dut.port_1)):
        ctx.set(getattr(port, f"{channel}valid"), 1)
        ctx.set(getattr(port, f"{channel}id"), number)
    ctx.set(getattr(dut.bus, f"{channel}ready"), 1)
    for _ in range(6):
        _, _, number = await ctx.tick().sample(getattr(dut.bus, f"{channel}id"))
        numbers.append(number)
    assert sorted(set(numbers)) == [0, 3]
    assert all(a != b for a, b in zip(numbers, numbers[1:], strict=False))


@pytest.mark.parametrize("pause", range(4))
async def test_turns_of_writes_that_wait_for_space(pause):
    dut = Arbiter(data_bytes=BYTES, write_bursts=1)
    ports = (dut.port_0, dut.port_1)
    ctx = await simulation(dut)
    for port in ports:
        ctx.set(port.awvalid, 1)
    drive(ctx, dut.bus, awready=1, wready=1)
    numbers = []
    for _ in range(6):
        (number,) = await ctx.tick().sample(dut.bus.awid).until(dut.bus.awvalid)
        numbers.append(number >> 1)
        await ctx.tick().repeat(1 + pause)
        port = ports[numbers[-1]]
        drive(ctx, port, wvalid=1, wlast=1)
        await ctx.tick().until(port.wready)
        ctx.set(port.wvalid, 0)
    assert numbers in ([0, 1] * 3, [1, 0] * 3)


async def test_an_offer_stays_when_the_other_comes():
    dut = Arbiter(data_bytes=BYTES)
    ctx = await simulation(dut)
    drive(ctx, dut.port_1, arvalid=1, araddr=64)
    await ctx.tick()
    ctx.set(dut.port_0.arvalid, 1)
    for _ in range(3):
        assert (ctx.get(dut.bus.arvalid), ctx.get(dut.bus.araddr)) == (1, 64)
        assert not ctx.get(dut.port_0.arready)
        await ctx.tick()
    ctx.set(dut.bus.arready, 1)
    assert ctx.get(dut.port_1.arready)
    await ctx.tick()
    ctx.set(dut.port_1.arvalid, 0)
    assert ctx.get(dut.port_0.arready)


@pytest.mark.parametrize("number", [0, 1])
async def test_data_wait_for_their_address(number):
    dut = Arbiter(data_bytes=BYTES)
    port = getattr(dut, f"port_{number}")
    ctx = await simulation(dut)
    drive(ctx, port, wvalid=1, wlast=1)
    drive(ctx, dut.bus, wready=1, awready=1)
    for _ in range(4):
        assert not ctx.get(dut.bus.wvalid) and not ctx.get(port.wready)
        await ctx.tick()
    await pulse(ctx, port.awvalid)
    await ctx.tick().until(port.wready)
    ctx.set(port.wvalid, 0)
    for _ in range(4):
        assert not ctx.get(dut.bus.wvalid) and not ctx.get(port.wready)
        await ctx.tick()


def test_refused():
    with pytest.raises(ValueError, match="write_bursts: wanted at least 1, got 0"):
        Arbiter(data_bytes=4, write_bursts=0)
