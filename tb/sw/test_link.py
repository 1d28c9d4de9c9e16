import random
from collections import Counter, deque
from dataclasses import replace
from typing import Any

import pytest
from devices.link import FarEnd, Noise

from celosia.hw.arch import link
from celosia.hw.arch.link import Operation, Request, Response, Status
from celosia.sw.runtime.device import DeviceError
from celosia.sw.runtime.link import HostLink

pytestmark = pytest.mark.thorough

MEMORY = 1 << 17


class Doorbell:
    """Registers that count what is written."""

    def __init__(self):
        self.rung = Counter()

    def read(self, offset):
        return None if offset == 0x38 else offset + 1

    def write(self, offset, value):
        self.rung[offset, value] += 1
        return offset != 0x38


class VirtualLine:
    """A line in time of its own: bytes take theirs, and the adapter holds answers back.

    ``far``: the other end, which takes no time; ``latency``: of the adapter, in seconds; ``noise``:
    damages both directions.
    """

    def __init__(self, far, *, latency=0.001, noise=None, baud=3_000_000):
        self.far = far
        self.latency = latency
        self.noise = noise
        self.seconds_per_byte = 10 / baud
        self.time = self.sent_until = self.answered_until = 0.0
        self.arriving = deque()
        self.dead = False
        self.bytes_sent = 0
        self.hold_at: int | None = None

    def _pass(self, data):
        return data if self.noise is None else self.noise.pass_on(data)

    def send(self, data):
        self.bytes_sent += len(data)
        self.sent_until = max(self.time, self.sent_until) + len(data) * self.seconds_per_byte
        if self.hold_at is not None and self.bytes_sent > self.hold_at:
            self.hold_at = None
            self.time += 2
        if self.dead:
            return
        answer = self._pass(self.far.feed(self._pass(data)))
        if answer:
            start = max(self.sent_until, self.answered_until)
            self.answered_until = start + len(answer) * self.seconds_per_byte
            self.arriving.append((self.answered_until + self.latency, answer))

    def receive(self, seconds):
        if not self.arriving or self.arriving[0][0] > self.time + seconds:
            self.time += seconds
            return b""
        when, data = self.arriving.popleft()
        self.time = max(self.time, when)
        return data

    def now(self):
        return self.time

    def close(self):
        pass


def connect(
    *, rate=0.0, window=None, seed=1, slot_bytes=512, **options
) -> tuple[HostLink, "Doorbell", Any]:
    random.seed(seed)
    registers = Doorbell()
    far = FarEnd(bytearray(MEMORY), registers, slot_bytes=slot_bytes)
    noise = Noise(random.Random(seed), rate) if rate else None
    line = VirtualLine(far, noise=noise, **options)
    return HostLink(line, name="test", window=window), registers, line


@pytest.mark.parametrize("rate", [0.0, 0.001, 0.01, 0.03])
@pytest.mark.parametrize("seed", range(4))
def test_memory_is_right_in_the_end(rate, seed):
    host, registers, line = connect(rate=rate, seed=seed)
    rng = random.Random(seed)
    mirror = bytearray(MEMORY)
    for n in range(12):
        count = rng.randrange(1, 5000)
        address = rng.randrange(MEMORY - count)
        data = rng.randbytes(count)
        host.write(address, data)
        mirror[address : address + count] = data
        host.write_registers(12, n, n)
        first = rng.randrange(max(0, address - 50), address + 50)
        assert host.read(first, 1000) == mirror[first : first + 1000]
    assert line.far.memory == mirror
    assert registers.rung == {(offset, n): 1 for n in range(12) for offset in (12, 16)}
    assert bool(host.repeated) == bool(rate)


@pytest.mark.parametrize("rate", [0.0, 0.01])
def test_a_driver_that_was_held_finds_its_answers(rate):
    """Two seconds pass for it in which it does nothing, as after Ctrl-Z and fg."""
    host, registers, line = connect(rate=rate, seed=3)
    data = random.Random(1).randbytes(3000)
    for n, place in enumerate(range(100, 2000, 190)):
        line.hold_at = line.bytes_sent + place
        host.write(n, data)
        line.hold_at = line.bytes_sent + place
        assert host.read(n, len(data)) == data
        line.hold_at = line.bytes_sent
        host.write_registers(12, n)
    assert line.hold_at is None
    assert registers.rung == {(12, n): 1 for n in range(10)}


def speed(host, line, operation, count=100_000):
    start = line.now()
    if operation == "write":
        host.write(0, bytes(n % 251 for n in range(count)))
    else:
        host.read(0, count)
    return count / (line.now() - start)


def test_window_fills_the_line(figure):
    """With an adapter's latency of 1 ms, four requests under way keep the line busy, not one."""
    got = {}
    for window in (1, 2, 4):
        for latency in (0.001, 0.016):
            host, _, line = connect(window=window, latency=latency)
            got[window, latency] = (speed(host, line, "write"), speed(host, line, "read"))
    for (window, latency), (write, read) in got.items():
        figure(
            f"link, 3 Mbaud, window {window}, latency {latency * 1000:.0f} ms: "
            f"write {write / 1000:.0f} kB/s, read {read / 1000:.0f} kB/s"
        )
    assert min(got[4, 0.001]) > 0.9 * 300_000
    assert max(got[1, 0.001]) < 0.7 * 300_000


def test_noise_costs_time_and_no_more(figure):
    for rate in (0.0, 0.001, 0.01):
        host, _, line = connect(rate=rate)
        write, read = speed(host, line, "write"), speed(host, line, "read")
        figure(
            f"link, 3 Mbaud, {rate:.1%} of bytes damaged: write {write / 1000:.0f} kB/s, "
            f"read {read / 1000:.0f} kB/s"
        )
        assert min(write, read) > (200_000 if rate < 0.001 else 20_000)


def test_silence_is_an_error_within_two_seconds():
    host, _, line = connect()
    line.dead = True
    for ask in (lambda: host.read(0, 5000), lambda: host.write_registers(12, 1)):
        start = line.now()
        with pytest.raises(DeviceError, match="^test: no response within 1.5 s$"):
            ask()
        assert line.now() - start < 2
    assert line.bytes_sent < 100_000


def test_blocks_grow_again_when_the_noise_is_over():
    host, _, line = connect(rate=0.02)
    host.write(0, bytes(5000))
    assert host.block < 100
    line.noise = None
    host.write(0, bytes(50_000))
    assert host.block == 496


def test_errors_are_told():
    host, _, _ = connect()
    with pytest.raises(DeviceError, match="test: read of 64 bytes at 0x20000: bus error"):
        host.read(MEMORY - 256, 1000)
    with pytest.raises(DeviceError, match="write_registers of 4 bytes at 0x38: bus error"):
        host.write_registers(0x38, 1)
    with pytest.raises(DeviceError, match="read_registers of 4 bytes at 0x1000: bad request"):
        host.read_registers(0x1000)
    with pytest.raises(DeviceError, match="write of 2 bytes at 0xffffffff: bad request"):
        host.write(0xFFFFFFFF, b"12")
    assert host.read_registers(8, 3) == [9, 13, 17]


def test_other_version_is_refused(monkeypatch):
    monkeypatch.setattr(link, "VERSION", 2)
    far = FarEnd(bytearray(64), Doorbell())
    monkeypatch.setattr(link, "VERSION", 1)
    with pytest.raises(DeviceError, match="test: wanted version 1 of the link, got 2"):
        HostLink(VirtualLine(far), name="test")


def test_far_end_does_a_repeated_write_of_registers_once():
    registers = Doorbell()
    far = FarEnd(bytearray(64), registers)

    def ask(request):
        (contents,) = link.Deframer().feed(far.feed(link.frame(link.encode_request(request))))
        assert contents is not None
        return link.decode_response(contents)

    ring = Request(5, Operation.WRITE_REGISTERS, 12, 4, bytes((1, 0, 0, 0)))
    done = Response(5, Operation.WRITE_REGISTERS, Status.OK)
    assert [ask(ring), ask(ring)] == [done, done]
    assert registers.rung == {(12, 1): 1}
    assert ask(Request(5, Operation.INFO, 0, 8)).status is Status.OK
    assert ask(ring) == done
    assert registers.rung == {(12, 1): 2}


@pytest.mark.parametrize("payload", [0, 3])
def test_a_far_end_that_takes_no_bytes_is_refused(payload):
    far = FarEnd(bytearray(64), Doorbell())
    info = replace(far.info, payload_bytes=payload)
    far._carry_out = lambda request: (info.encode(), False)
    with pytest.raises(DeviceError, match=f"takes 4 bytes or more at once, it takes {payload}$"):
        HostLink(VirtualLine(far), name="test")


class Refusing:
    """A far end that answers every request alike."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = 0

    def feed(self, received):
        frames = [contents for contents in link.Deframer().feed(received) if contents]
        self.requests += len(frames)
        return self.answer * len(frames)


@pytest.mark.parametrize(
    "answer",
    [
        link.frame(link.encode_response(Response(0, Operation.NONE, Status.BAD_FRAME))),
        b"\x00" * 40 + bytes((link.FLAG,)),
    ],
    ids=["bad frame", "noise"],
)
@pytest.mark.parametrize("operation", ["read", "write_registers"])
def test_a_far_end_that_reads_nothing_draws_few_requests(answer, operation):
    host, _, line = connect()
    far = Refusing(answer)
    line.far = far
    start = line.now()
    with pytest.raises(DeviceError, match=r"no response within 1.5 s, \d+ damaged frames$"):
        getattr(host, operation)(0, 5000)
    assert line.now() - start < 2
    assert 8 < far.requests < 200


def test_a_far_end_that_never_stops_sending_is_an_error():
    host, _, line = connect()
    line.receive = lambda seconds: b"\x55" * 100
    clock = iter(n * 0.001 for n in range(1_000_000))
    line.now = lambda: next(clock)
    with pytest.raises(DeviceError, match="no response within 1.5 s$"):
        host.read(0, 100)
