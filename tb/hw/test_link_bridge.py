"""The parts of the bridge: beats, transfers, the check of a request, and responses."""

import link_bench
import pytest
from devices.axi import AxiMemory
from pysim import get_all, pulse, run, simulation

from celosia.hw.arch import link
from celosia.hw.arch.link import Operation, Request, Response, Status
from celosia.hw.arch.registers import OFFSETS
from celosia.hw.link.beat import BeatMaster
from celosia.hw.link.request import RequestCheck
from celosia.hw.link.response import ResponseSender
from celosia.hw.link.slots import Slots
from celosia.hw.link.transfer import Transfer

SLOT_BYTES = 64
SIZE = 256


def buses(dut, rng, stall, bus_bytes, refuses=lambda address: False):
    """Return models of memory and registers, and the benches that serve them."""
    memory = AxiMemory(
        bytearray(rng.bytes(SIZE)),
        data_bytes=bus_bytes,
        burst_beats=1,
        latency=2,
        rng=rng,
        stall=stall,
        refuses=refuses,
    )
    registers = link_bench.RegisterModel(rng, stall)

    def serve(bench, bus):
        async def start(ctx):
            await bench(ctx, bus=bus)

        return start

    benches = [
        serve(memory.serve_reads, dut.m_axi),
        serve(memory.serve_writes, dut.m_axi),
        serve(registers.serve_reads, dut.m_axil),
        serve(registers.serve_writes, dut.m_axil),
    ]
    return memory, registers, benches


async def beat(ctx, dut, address, data=0, strobes=0):
    """Return the response to a beat: error, bytes read."""
    ctx.set(dut.is_write, int(strobes != 0))
    ctx.set(dut.address, address)
    ctx.set(dut.data, data)
    ctx.set(dut.strobes, strobes)
    await pulse(ctx, dut.start)
    ctx.set(dut.address, 0)
    return await ctx.tick().sample(dut.error, dut.read_data).until(dut.done)


@pytest.mark.parametrize("bus_bytes", [4, 16])
@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_beats_against_a_mirror(rng, bus_bytes, stall):
    dut = BeatMaster(bus_bytes=bus_bytes)
    refused = SIZE - bus_bytes
    memory, registers, served = buses(
        dut, rng, stall, bus_bytes, refuses=lambda address: address == refused
    )
    mirror = bytearray(memory.content)

    async def bench(ctx):
        for _ in range(40):
            address = int(rng.integers(refused))
            first = address - address % bus_bytes
            strobes = int(rng.integers(1 << bus_bytes))
            data = rng.bytes(bus_bytes)
            response = await beat(ctx, dut, address, int.from_bytes(data, "little"), strobes)
            if strobes:
                assert not response[0]
                for lane in range(bus_bytes):
                    if strobes >> lane & 1:
                        mirror[first + lane] = data[lane]
            else:
                got = int.from_bytes(mirror[first : first + bus_bytes], "little")
                assert response == (0, got)
        assert (await beat(ctx, dut, refused, 0, 1))[0] == 1
        assert (await beat(ctx, dut, refused + 1))[0] == 1
        ctx.set(dut.to_registers, 1)
        for n, value in enumerate((1 << 31, 5)):
            assert (await beat(ctx, dut, OFFSETS["program_address"], value, 15))[0] == 0
            response = await beat(ctx, dut, OFFSETS["program_address"] + n)
            assert (response[0], response[1] & 0xFFFFFFFF) == (0, value)
        assert (await beat(ctx, dut, OFFSETS["status"], 0, 15))[0] == 1
        assert not registers.rung and memory.content == mirror

    run(dut, bench, background=served)


@pytest.mark.parametrize("bus_bytes", [2, 12, 256])
def test_beats_of_other_sizes_are_refused(bus_bytes):
    with pytest.raises(ValueError, match=f"bus_bytes: wanted a power of two .* got {bus_bytes}"):
        BeatMaster(bus_bytes=bus_bytes)


class Slot:
    """The slot of a ``Transfer``, and the counters of its parent."""

    def __init__(self, dut, rng, stall):
        self.dut, self.rng, self.stall = dut, rng, stall
        self.content = bytearray()
        self.place = self.address = 0

    async def serve(self, ctx):
        dut = self.dut
        fetched, is_last = [0] * Slots.LATENCY, False
        while True:
            ctx.set(dut.address, self.address)
            ctx.set(dut.is_last, is_last)
            ctx.set(dut.read_data, fetched.pop())
            ctx.set(dut.put_ready, self.rng.random() >= self.stall)
            left = self.content[self.place :]
            fetched.insert(0, left[0] if left else 0)
            is_last = len(left) == 1
            _, _, put, data, step = await ctx.tick().sample(
                dut.put & dut.put_ready, dut.put_data, dut.step
            )
            if put:
                self.content[self.place] = data
            self.place += step
            self.address += step

    async def transfer(self, ctx, address, content, *, is_write, to_registers=False):
        """Return the contents of the slot after a transfer, and whether a beat was refused."""
        self.content, self.place, self.address = bytearray(content), 0, address
        ctx.set(self.dut.is_write, is_write)
        ctx.set(self.dut.to_registers, to_registers)
        await ctx.tick()
        await pulse(ctx, self.dut.start)
        refused = False
        while True:
            _, _, error, done = await ctx.tick().sample(self.dut.error, self.dut.done)
            refused |= bool(error)
            if done:
                return bytes(self.content), refused


@pytest.mark.parametrize("bus_bytes", [4, 16])
@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_transfers_against_a_mirror(rng, bus_bytes, stall):
    dut = Transfer(bus_bytes=bus_bytes)
    refused = SIZE - bus_bytes
    memory, registers, served = buses(
        dut, rng, stall, bus_bytes, refuses=lambda address: address == refused
    )
    slot = Slot(dut, rng, stall)
    mirror = bytearray(memory.content)

    async def bench(ctx):
        for n in range(24):
            count = (1, bus_bytes, bus_bytes + 1)[n] if n < 3 else int(rng.integers(1, 48))
            address = int(rng.integers(refused - count + 1))
            part = slice(address, address + count)
            data = rng.bytes(count)
            if n % 2:
                mirror[part] = data
                assert await slot.transfer(ctx, address, data, is_write=True) == (data, False)
            else:
                got = await slot.transfer(ctx, address, data, is_write=False)
                assert got == (bytes(mirror[part]), False)
        # All beats are done, though one is refused.
        data = rng.bytes(bus_bytes + 1)
        mirror[refused - 1] = data[0]
        assert (await slot.transfer(ctx, refused - 1, data, is_write=True))[1]
        assert (await slot.transfer(ctx, refused - 1, data, is_write=False))[1]
        address = OFFSETS["program_address"]
        data = rng.bytes(8)
        for is_write, content in ((True, data), (False, bytes(8))):
            got = await slot.transfer(ctx, address, content, is_write=is_write, to_registers=True)
            assert got == (data, False)
        assert not registers.rung and memory.content == mirror

    run(dut, bench, background=[*served, slot.serve], cycles_limit=40_000)


def drawn(rng):
    """Return a request whose fields are at and around their limits."""
    counts = [0, 1, 3, 4, 7, 8, 47, 48, 49, 0xFFFF]
    addresses = [0, 1, 2, 4, 0xFF8, 0xFFC, 0x1000, 1 << 20, (1 << 32) - 4, (1 << 32) - 1]
    operation = [*Operation, 0x55][int(rng.integers(len(Operation) + 1))]
    count = int(rng.choice(counts))
    is_write = operation in (Operation.WRITE, Operation.WRITE_REGISTERS)
    length = max(0, min(count if is_write else 0, 48) + int(rng.choice([0, 0, 0, 1, -1])))
    return Request(7, operation, int(rng.choice(addresses)), count, bytes(length))


async def test_check_against_the_reference(rng):
    dut = RequestCheck(slot_bytes=SLOT_BYTES, payload_bytes=48)
    ctx = await simulation(dut)
    found = set()
    for _ in range(1200):
        request = drawn(rng)
        operation = request.operation
        header = {name: getattr(request, name) for name in ("operation", "count", "address")}
        ctx.set(dut.header, {"sequence": request.sequence, **header})
        ctx.set(dut.length, link.HEADER_BYTES + len(request.data) + link.CRC_BYTES)
        await ctx.tick()
        kind = tuple(ctx.get(x) for x in (dut.is_info, dut.is_read, dut.is_write, dut.to_registers))
        assert kind == (
            operation == Operation.INFO,
            operation in (Operation.READ, Operation.READ_REGISTERS),
            operation in (Operation.WRITE, Operation.WRITE_REGISTERS),
            operation in (Operation.READ_REGISTERS, Operation.WRITE_REGISTERS),
        )
        await pulse(ctx, dut.check)
        wrong = ctx.get(dut.wrong)
        assert wrong == bool(link.fault(request, 48)), request
        found.add((operation, wrong))
        await ctx.tick()
        assert ctx.get(dut.wrong) == wrong
    valid = [operation for operation in Operation if operation != Operation.NONE]
    assert found >= {(operation, wrong) for operation in valid for wrong in (0, 1)}


@pytest.mark.parametrize("stall", [0.0, 0.6])
def test_responses_against_the_reference(rng, stall):
    info = link.Info(link.VERSION, 4, 48, 1 << 20)
    dut = ResponseSender(info=info)
    cases = [
        Response(1, Operation.INFO, Status.OK, info.encode()),
        Response(2, Operation.WRITE, Status.BUS_ERROR),
        Response(3, Operation.READ, Status.OK, rng.bytes(1)),
        Response(255, Operation.READ, Status.OK, rng.bytes(20)),
        Response(0, Operation.NONE, Status.BAD_FRAME),
    ]
    slot = {}

    async def parent(ctx):
        place, fetched, is_last = 0, [0] * Slots.LATENCY, False
        while True:
            data = slot.get("data", b"")[place:]
            ctx.set(dut.position, place % link.INFO_BYTES)
            ctx.set(dut.is_last, is_last)
            ctx.set(dut.read_data, fetched.pop())
            fetched.insert(0, data[0] if data else 0)
            is_last = len(data) == 1
            _, _, step, done = await ctx.tick().sample(dut.step, dut.done)
            place = 0 if done else place + step

    async def bench(ctx):
        for response in cases:
            is_info = response.operation == Operation.INFO
            slot["data"] = bytes(len(response.data)) if is_info else response.data
            ctx.set(dut.sequence, response.sequence)
            ctx.set(dut.operation, Operation(response.operation).value)
            ctx.set(dut.status, response.status)
            ctx.set(dut.has_data, response.data != b"")
            ctx.set(dut.is_info, is_info)
            ctx.set(dut.send, 1)
            wanted = link.encode_response(response)
            got = await get_all(ctx, dut.o, len(wanted), rng=rng, stall=stall)
            assert bytes(byte.data for byte in got) == wanted
            assert [byte.last for byte in got] == [0] * (len(wanted) - 1) + [1]
            assert ctx.get(dut.done) and not ctx.get(dut.o.valid)
            await ctx.tick()
            ctx.set(dut.send, 0)
            await ctx.tick().repeat(2)
            assert not ctx.get(dut.o.valid)

    run(dut, bench, background=[parent])
