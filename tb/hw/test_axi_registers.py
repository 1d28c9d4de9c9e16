import pytest
from amaranth.back import verilog
from devices.axi_lite import AxiLiteHost
from pysim import simulation

from celosia.hw.arch.registers import (
    COUNTERS,
    MAGIC,
    OFFSETS,
    REGISTERS,
    VERSION,
    Control,
    Interrupt,
    written,
)
from celosia.hw.axi.registers import COUNTER_COUNT, RegisterFile

OKAY, SLVERR, DECERR = 0, 2, 3


class Host(AxiLiteHost):
    """The host, and the counters that the registers read."""

    def __init__(self, dut, rng=None, stall=0.0):
        super().__init__(dut.bus, rng, stall)
        self.dut = dut
        self.strobes = []

    async def watch(self, ctx):
        """Give values of counters, and note the strobes."""
        dut = self.dut
        async for _, _, address, *strobes in ctx.tick().sample(
            dut.counter_address, dut.control_write, dut.interrupt_clear
        ):
            ctx.set(dut.counter_value, 1000 + 3 * address)
            if any(strobes):
                self.strobes.append(tuple(strobes))


def simulated(host):
    return simulation(host.dut, background=(host.watch,), cycles_limit=100_000)


@pytest.mark.parametrize("stall", [0.0, 0.5])
async def test_registers_against_model(rng, stall):
    host = Host(RegisterFile(), rng, stall)
    dut = host.dut
    state = {register.offset: register.init for register in REGISTERS}
    access = {register.offset: register.access for register in REGISTERS}
    names = {register.offset: register.name for register in REGISTERS}
    registers = {register.offset: register for register in REGISTERS}
    strobes = []
    ctx = await simulated(host)
    for offset, kind in access.items():
        if kind != "rw" and names[offset] not in ("magic", "version"):
            state[offset] = int(rng.integers(0, 1 << 32))
            ctx.set(getattr(dut, names[offset]), state[offset])
    for _ in range(300):
        address = int(rng.choice([*access, 0x40, 0x3FC, COUNTERS, 0x67C, 0x680, 0xFFC]))
        counter = COUNTERS <= address < COUNTERS + 4 * COUNTER_COUNT
        kind = access.get(address)
        if rng.random() < 0.5:
            data, response = await host.read(ctx, address)
            if kind is None and not counter:
                assert response == DECERR
            else:
                wanted = 1000 + 3 * ((address - COUNTERS) // 4) if counter else state[address]
                assert (data, response) == (wanted, OKAY)
            continue
        value, lanes = int(rng.integers(0, 1 << 32)), int(rng.integers(0, 16))
        mask = sum(0xFF << 8 * lane for lane in range(4) if lanes >> lane & 1)
        response = await host.write(ctx, address, value, lanes)
        if kind is None:
            assert response == (SLVERR if counter else DECERR)
        elif kind == "r":
            assert response == SLVERR
        else:
            assert response == OKAY
            if kind == "rw":
                state[address] = written(registers[address], value & mask | state[address] & ~mask)
            elif value & mask:
                is_control = address == OFFSETS["control"]
                strobes.append((value & mask, 0) if is_control else (0, value & mask))
    for offset, kind in access.items():
        if kind == "rw":
            assert ctx.get(getattr(dut, names[offset])) == state[offset]
    assert host.strobes == strobes


async def test_constants_and_strobes():
    host = Host(RegisterFile())
    ctx = await simulated(host)
    assert await host.read(ctx, OFFSETS["magic"]) == (MAGIC, OKAY)
    assert await host.read(ctx, OFFSETS["version"]) == (VERSION, OKAY)
    assert await host.read(ctx, OFFSETS["watchdog"]) == (1 << 20, OKAY)
    assert await host.write(ctx, OFFSETS["control"], Control.START.value) == OKAY
    assert await host.write(ctx, OFFSETS["interrupt"], Interrupt.ERROR.value) == OKAY
    assert host.strobes == [(1, 0), (0, 2)]


async def test_second_write_waits_for_the_first_response():
    host = Host(RegisterFile())
    bus = host.bus
    responses = []
    ctx = await simulated(host)
    for address in (0x40, OFFSETS["watchdog"]):
        await host.transfer(ctx, bus.awvalid, bus.awready, awaddr=address)
        await host.transfer(ctx, bus.wvalid, bus.wready, wdata=5, wstrb=15)
    await ctx.tick().repeat(5)
    ctx.set(bus.bready, 1)
    for _ in range(2):
        responses.extend(await ctx.tick().sample(bus.bresp).until(bus.bvalid))
    await ctx.tick()
    assert not ctx.get(bus.bvalid)
    assert responses == [DECERR, OKAY]


@pytest.mark.parametrize("ahead", ["address", "word"])
async def test_what_is_ahead_waits_for_the_rest_of_the_first_write(ahead):
    host = Host(RegisterFile())
    bus = host.bus
    writes = {OFFSETS["watchdog"]: 64, OFFSETS["program_address"]: 128}

    async def addresses(ctx):
        for address in writes:
            await host.transfer(ctx, bus.awvalid, bus.awready, awaddr=address)

    async def words(ctx):
        for value in writes.values():
            await host.transfer(ctx, bus.wvalid, bus.wready, wdata=value, wstrb=15)

    first, rest = (addresses, words) if ahead == "address" else (words, addresses)
    ctx = await simulation(host.dut, first, background=(host.watch,))
    ctx.set(bus.bready, 1)
    # The second one is on offer, and must not take the place of the first.
    await ctx.tick().repeat(5)
    await rest(ctx)
    await ctx.tick().repeat(3)
    for address, value in writes.items():
        assert await host.read(ctx, address) == (value, OKAY)


async def test_every_counter():
    host = Host(RegisterFile())
    ctx = await simulated(host)
    for n in range(COUNTER_COUNT):
        assert await host.read(ctx, COUNTERS + 4 * n) == (1000 + 3 * n, OKAY)
    assert (await host.read(ctx, COUNTERS + 4 * COUNTER_COUNT))[1] == DECERR


async def test_read_and_write_side_by_side():
    host = Host(RegisterFile())
    values = []

    async def write(ctx):
        for value in range(1, 9):
            assert await host.write(ctx, OFFSETS["program_address"], value << 6) == OKAY

    ctx = await simulation(host.dut, write, background=(host.watch,))
    for _ in range(12):
        values.append(await host.read(ctx, OFFSETS["program_address"]))
    assert values == sorted(values)
    assert values[-1] == (8 << 6, OKAY)


def test_verilog_names():
    text = verilog.convert(RegisterFile(), name="register_file")
    for name in ("bus__awvalid", "bus__wstrb", "bus__rdata", "bus__bresp", "control_write"):
        assert name in text
