import link_bench
import pytest
from devices.link import Noise
from link_bench import Wired

from celosia.hw.arch import link
from celosia.hw.arch.link import Operation, Request, Response, Status
from celosia.hw.arch.registers import COUNTERS, MAGIC, OFFSETS, VERSION
from celosia.hw.link.bridge import Bridge
from celosia.hw.link.link import Endpoint, Link
from celosia.hw.link.slots import Slots
from celosia.sw.runtime.device import DeviceError
from celosia.sw.runtime.link import HostLink


@pytest.fixture
def bench():
    """Makes benches, and ends them with the test."""
    lines = []

    def make(*arguments, **options):
        made = link_bench.bench(*arguments, **options)
        lines.append(made[0])
        return made

    yield make
    for line in lines:
        line.end()


def ask(line, *requests):
    """Send requests as they are, and return the answers."""
    deframer = link.Deframer()
    for request in requests:
        frame = request if isinstance(request, bytes) else link.frame(link.encode_request(request))
        line.send(frame)
    answers = []
    while len(answers) < len(requests):
        received = line.receive(1.0)
        assert received, f"{len(answers)} answers to {len(requests)} requests"
        answers += deframer.feed(received)
    return [link.decode_response(answer) for answer in answers]


@pytest.mark.parametrize(("bus_bytes", "slots"), [(4, 1), (8, 2), (16, 4)])
def test_any_address_and_count(bench, rng, bus_bytes, slots):
    dut = Endpoint(bus_bytes=bus_bytes, slots=slots, slot_bytes=64, memory_bytes=1 << 13)
    line, memory, _ = bench(dut, rng)
    mirror = bytearray(memory.content)
    host = HostLink(line, name="test")
    assert host.info == link.Info(link.VERSION, slots, 48, 1 << 13)
    for _ in range(8):
        count = int(rng.integers(1, 110))
        address = int(rng.integers(0, len(mirror) - count))
        if rng.random() < 0.5:
            data = rng.bytes(count)
            host.write(address, data)
            mirror[address : address + count] = data
        else:
            assert host.read(address, count) == mirror[address : address + count]
    assert memory.content == mirror
    assert not host.repeated


def test_registers(bench, rng):
    line, _, registers = bench(Endpoint(bus_bytes=4, slots=2, slot_bytes=64), rng)
    host = HostLink(line, name="test")
    assert host.read_registers(OFFSETS["magic"], 2) == [MAGIC, VERSION]
    host.write_registers(OFFSETS["program_address"], 0x12345678, 0xFFFF)
    assert host.read_registers(OFFSETS["program_address"], 2) == [0x12345678, 0xFFFF]
    assert host.read_registers(COUNTERS, 40) == [3 * (COUNTERS + 4 * n) for n in range(40)]
    host.write_registers(OFFSETS["control"], 5)
    assert registers.rung == {5: 1}


@pytest.mark.parametrize(("bus_bytes", "rate"), [(4, 0.01), (16, 0.02)])
def test_noisy_line(bench, rng, rate, bus_bytes):
    dut = Endpoint(bus_bytes=bus_bytes, slots=4, slot_bytes=128)
    noise = Noise(rng, rate)
    line, memory, registers = bench(dut, rng, noise=noise)
    mirror = bytearray(memory.content)
    host = HostLink(line, name="test")
    for n in range(3):
        count = int(rng.integers(60, 160))
        address = int(rng.integers(0, len(mirror) - count))
        data = rng.bytes(count)
        host.write(address, data)
        mirror[address : address + count] = data
        host.write_registers(OFFSETS["control"], 100 + n)
        host.write_registers(OFFSETS["control"], 100 + n)
        assert host.read(address - 8, 80) == mirror[address - 8 : address + 72]
    line.settle(2000)
    assert memory.content == mirror
    assert registers.rung == {100 + n: 2 for n in range(3)}
    assert noise.damaged and host.repeated


def test_doorbell_rings_once_however_often_it_is_asked_for(bench, rng):
    line, _, registers = bench(Endpoint(bus_bytes=4, slots=4, slot_bytes=64), rng)

    def write(sequence, value):
        data = value.to_bytes(4, "little")
        return Request(sequence, Operation.WRITE_REGISTERS, OFFSETS["control"], 4, data)

    done = Response(9, Operation.WRITE_REGISTERS, Status.OK)
    assert ask(line, write(9, 1), write(9, 1), write(9, 1)) == [done] * 3
    assert registers.rung == {1: 1}
    # Something damaged in between changes nothing.
    answers = ask(line, b"\x7egarbage is here\x7e", write(9, 1))
    assert answers == [Response(0, Operation.NONE, Status.BAD_FRAME), done]
    assert registers.rung == {1: 1}
    # Another number is another write; so is the same one after any other request.
    assert ask(line, write(10, 1))[0].status is Status.OK
    assert ask(line, write(9, 1))[0] == done
    info = Request(9, Operation.INFO, 0, link.INFO_BYTES)
    assert ask(line, info)[0].data == dut_info(64)
    assert ask(line, write(9, 1)) == [done]
    assert registers.rung == {1: 4}


def dut_info(slot_bytes):
    return link.Info(link.VERSION, 4, slot_bytes - link.SLOT_OVERHEAD, 0).encode()


def test_repeated_answer_keeps_the_error(bench, rng):
    line, _, registers = bench(Endpoint(bus_bytes=4, slots=4, slot_bytes=64), rng)
    bad = Request(3, Operation.WRITE_REGISTERS, OFFSETS["status"], 8, bytes(8))
    refused = Response(3, Operation.WRITE_REGISTERS, Status.BUS_ERROR)
    assert ask(line, bad, bad) == [refused, refused]
    assert not registers.rung


REFUSED = [
    Request(1, Operation.NONE, 0, 4),
    Request(1, 0x55, 0, 4),
    Request(1, Operation.READ, 0, 0),
    Request(1, Operation.READ, 0, 49),
    Request(1, Operation.READ, 0, 4, b"more"),
    Request(1, Operation.READ, 0xFFFFFFFF, 2),
    Request(1, Operation.WRITE, 0, 4, b"few"),
    Request(1, Operation.WRITE, 0, 4, b"too many"),
    Request(1, Operation.WRITE, 0xFFFFFFFC, 5, b"12345"),
    Request(1, Operation.INFO, 0, 7),
    Request(1, Operation.READ_REGISTERS, 2, 4),
    Request(1, Operation.READ_REGISTERS, 0, 6),
    Request(1, Operation.READ_REGISTERS, 4096, 4),
    Request(1, Operation.WRITE_REGISTERS, OFFSETS["control"], 3, b"123"),
    Request(1, Operation.WRITE_REGISTERS, (1 << 20) + OFFSETS["control"], 4, b"1234"),
]


def test_bad_requests_have_no_effect(bench, rng):
    line, memory, registers = bench(Endpoint(bus_bytes=8, slots=4, slot_bytes=64), rng)
    before = bytes(memory.content)
    for request in REFUSED:
        assert link.fault(request, 48)
        (answer,) = ask(line, request)
        assert (answer.status, answer.data) == (Status.BAD_REQUEST, b""), request
    assert memory.content == before
    assert not memory.reads and not memory.writes and not registers.rung


def test_damaged_frames_have_no_effect(bench, rng):
    line, memory, registers = bench(Endpoint(bus_bytes=8, slots=2, slot_bytes=64), rng)
    frame = link.frame(link.encode_request(Request(1, Operation.WRITE, 64, 16, bytes(range(16)))))
    for n in range(2, len(frame) - 1, 3):
        damaged = frame[:n] + bytes((frame[n] ^ 1,)) + frame[n + 1 :]
        (answer,) = ask(line, damaged)
        assert answer == Response(0, Operation.NONE, Status.BAD_FRAME)
    assert not memory.reads and not memory.writes and not registers.rung
    assert ask(line, frame) == [Response(1, Operation.WRITE, Status.OK)]
    assert memory.content[64:80] == bytes(range(16))


def test_bus_errors_are_told_and_the_rest_is_done(bench, rng):
    dut = Endpoint(bus_bytes=4, slots=4, slot_bytes=64)
    line, memory, _ = bench(dut, rng, refuses=lambda address: address == 68)
    before = bytes(memory.content)
    write = Request(1, Operation.WRITE, 64, 12, bytes(range(12)))
    assert ask(line, write) == [Response(1, Operation.WRITE, Status.BUS_ERROR)]
    assert memory.content[64:76] == bytes(range(4)) + before[68:72] + bytes(range(8, 12))
    read = Request(2, Operation.READ, 64, 12)
    assert ask(line, read) == [Response(2, Operation.READ, Status.BUS_ERROR)]
    host = HostLink(line, name="test")
    with pytest.raises(DeviceError, match="test: read of 12 bytes at 0x40: bus error"):
        host.read(64, 12)
    with pytest.raises(DeviceError, match="read_registers of 4 bytes at 0x38: bus error"):
        host.read_registers(0x38)
    assert host.read(72, 4) == bytes(range(8, 12))


def test_more_requests_than_slots_are_dropped_whole(bench, rng):
    line, memory, _ = bench(Endpoint(bus_bytes=4, slots=2, slot_bytes=64), rng)
    for n in range(12):
        request = Request(n, Operation.READ, 32 * n, 32)
        line.send(link.frame(link.encode_request(request)))
    deframer = link.Deframer()
    answers = []
    while received := line.receive(0.2):
        answers += [
            link.decode_response(contents) for contents in deframer.feed(received) if contents
        ]
    numbers = [answer.sequence for answer in answers]
    assert numbers == sorted(set(numbers)) and 2 <= len(numbers) < 12
    for answer in answers:
        first = 32 * answer.sequence
        assert answer.data == memory.content[first : first + 32]
    assert HostLink(line, name="test").read(0, 64) == memory.content[:64]


def test_over_two_wires(bench, rng):
    sizes = {"bus_bytes": 4, "slots": 2, "slot_bytes": 64, "memory_bytes": 1 << 13}
    link_at_wires = Link(divisor=Wired.DIVISOR, **sizes)
    dut = Wired(link_at_wires, link_at_wires.m_axil)
    line, memory, registers = bench(dut, rng, gap=dut.GAP)
    host = HostLink(line, name="test")
    assert host.info == link.Info(link.VERSION, 2, 48, 1 << 13)
    data = rng.bytes(11)
    host.write(101, data)
    assert memory.content[101:112] == data
    assert host.read(99, 9) == memory.content[99:108]
    host.write_registers(OFFSETS["control"], 3)
    assert registers.rung == {3: 1}
    assert host.read_registers(OFFSETS["magic"], 2) == [MAGIC, VERSION]
    assert not host.repeated


def test_refused_sizes():
    with pytest.raises(ValueError, match="slots: wanted a power of two up to 64, got 3"):
        Slots(slots=3, slot_bytes=64)
    with pytest.raises(ValueError, match="slot_bytes: wanted a power of two from 32"):
        Slots(slots=4, slot_bytes=500)
    with pytest.raises(ValueError, match="bus_bytes: wanted a power of two from 4 to 128, got 2"):
        Bridge(bus_bytes=2, slots=4, slot_bytes=64)
    with pytest.raises(ValueError, match="memory_bytes: wanted 0 to"):
        Bridge(bus_bytes=4, slots=4, slot_bytes=64, memory_bytes=1 << 33)
