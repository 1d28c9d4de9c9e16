"""Driver of the host link: numbers, timeouts, repetition. See ``docs/reference/link.md``."""

import random
import time
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from celosia.hw.arch import link
from celosia.hw.arch.link import FrameError, Info, Operation, Request, Response, Status
from celosia.sw.runtime.device import DeviceError

#: Silence after which the far end counts as disconnected, in seconds.
PATIENCE = 1.5
#: Bounds of the time after which a request is repeated, in seconds.
_SHORTEST = 0.02
_LONGEST = 0.5
#: Least bytes of a block, bytes of the first one, and blocks without loss until they grow.
_LEAST_BLOCK = 32
_FIRST_BLOCK = 64
_STREAK = 8
#: After ``PATIENCE``, in case this process was suspended: events that it still reads, and the least
#: number of requests without response.
_LATE_EVENTS = 64
_LEAST_TRIES = 3
#: Damaged frames in a row that are repeated at once; later ones wait ``_SHORTEST`` before.
_DAMAGED_IN_A_ROW = 8
#: Bytes of a register, the least that a far end must take at once.
_LEAST_PAYLOAD = 4
#: Round trip in seconds above which blocks do not grow: a simulated board may be slow.
_LONG_TRIP = 0.1
#: Bytes of request and response that are not data, delimiters included.
_OVERHEAD = link.HEADER_BYTES + link.RESPONSE_BYTES + 2 * link.CRC_BYTES + 4


class Transport(Protocol):
    """A line to the far end."""

    seconds_per_byte: float

    def send(self, data: bytes) -> None:
        """Send; raises OSError when the line is closed."""
        ...

    def receive(self, seconds: float) -> bytes:
        """Return the bytes that arrive, at least one unless ``seconds`` pass; raises OSError."""
        ...

    def now(self) -> float:
        """Return the time in seconds."""
        ...

    def close(self) -> None:
        """Close the line."""
        ...


@dataclass
class _Flight:
    """A request that has been sent and has no response yet."""

    address: int
    count: int
    sent: float


class _Damaged:
    """A frame that was damaged, here or at the far end."""


class HostLink:
    """Memory and registers of a core over a line that may lose, double and change bytes.

    - ``transport``: the line.
    - ``name``: its name in messages.
    - ``window``: requests under way at once; as many as the far end has slots unless given.
    - ``info``: properties that the far end reports.
    - ``block``: bytes of one request for memory, at present.
    - ``repeated``: requests sent again.

    Raises DeviceError if the far end does not respond, or uses another version of the protocol.
    """

    def __init__(self, transport: Transport, *, name: str, window: int | None = None) -> None:
        self.transport = transport
        self.name = name
        self.repeated = 0
        self.block = _LEAST_BLOCK
        self._sequence = random.randrange(256)
        self._deframer = link.Deframer()
        self._events: deque[Response | _Damaged] = deque()
        self._streak = 0
        self._damaged = 0
        # Time of a round trip beyond that of the bytes on the line; learned.
        self._delay = 0.05
        try:
            # Ends a frame that a predecessor has sent in part.
            self._send(bytes((link.FLAG,)))
            self.info = Info.decode(self._request(Operation.INFO, 0, link.INFO_BYTES))
        except FrameError as error:
            raise DeviceError(f"{name}: {error}") from None
        if self.info.version != link.VERSION:
            raise DeviceError(
                f"{name}: wanted version {link.VERSION} of the link, got {self.info.version}"
            )
        if not self.info.slots:
            raise DeviceError(f"{name}: wanted a far end with slots for requests, it has none")
        if self.info.payload_bytes < _LEAST_PAYLOAD:
            raise DeviceError(
                f"{name}: wanted a far end that takes {_LEAST_PAYLOAD} bytes or more at once, "
                f"it takes {self.info.payload_bytes}"
            )
        self.window = window or self.info.slots
        self.block = min(_FIRST_BLOCK, self.info.payload_bytes)

    @property
    def memory_bytes(self) -> int:
        """Bytes of external memory; 0 if the far end does not know."""
        return self.info.memory_bytes

    def read(self, address: int, count: int) -> bytes:
        """Return ``count`` bytes of external memory."""
        return self._transfer(Operation.READ, address, bytes(count))

    def write(self, address: int, data: bytes) -> None:
        """Write to external memory, from byte ``address`` on."""
        self._transfer(Operation.WRITE, address, data)

    def read_registers(self, offset: int, count: int = 1) -> list[int]:
        """Return ``count`` registers from byte ``offset`` on."""
        raw = self._transfer(Operation.READ_REGISTERS, offset, bytes(4 * count))
        return [int.from_bytes(raw[n : n + 4], "little") for n in range(0, len(raw), 4)]

    def write_registers(self, offset: int, *values: int) -> None:
        """Write registers from byte ``offset`` on, each exactly once."""
        data = b"".join(value.to_bytes(4, "little") for value in values)
        self._request(Operation.WRITE_REGISTERS, offset, len(data), data)

    def pause(self, seconds: float) -> None:
        """Let time pass at the far end."""
        time.sleep(seconds)

    def close(self) -> None:
        """Close the line."""
        self.transport.close()

    def _next(self) -> int:
        self._sequence = (self._sequence + 1) % 256
        return self._sequence

    def _send(self, frame: bytes) -> None:
        try:
            self.transport.send(frame)
        except OSError as error:
            raise DeviceError(f"{self.name}: the line is gone: {error}") from None

    def _event(self, until: float) -> Response | _Damaged | None:
        """Return the next event, None when there is none until then.

        Events that have arrived count even after that time: this process may have been suspended.
        """
        late = 0
        while not self._events:
            left = until - self.transport.now()
            received = self._receive(max(left, 0))
            late += left <= 0
            if left <= 0 and (not received or late > _LATE_EVENTS):
                return None
        return self._events.popleft()

    def _receive(self, seconds: float) -> bool:
        """Receive bytes for at most ``seconds``; return whether there were any."""
        try:
            received = self.transport.receive(seconds)
        except OSError as error:
            raise DeviceError(f"{self.name}: the line is gone: {error}") from None
        for contents in self._deframer.feed(received):
            self._events.append(_event_of(contents))
        return bool(received)

    def _count_damaged(self, event: Response | _Damaged) -> None:
        """Count damaged frames in a row; wait after many, because repeating does not help."""
        self._damaged = self._damaged + 1 if isinstance(event, _Damaged) else 0
        until = self.transport.now() + _SHORTEST
        if self._damaged > _DAMAGED_IN_A_ROW:
            for _ in range(_LATE_EVENTS):
                left = until - self.transport.now()
                if left <= 0:
                    break
                self._receive(left)

    def _timeout(self, bytes_under_way: int) -> float:
        line = bytes_under_way * self.transport.seconds_per_byte
        return min(max(2 * line + 4 * self._delay, _SHORTEST), _LONGEST)

    def _learn(self, taken: float, count: int) -> None:
        """Average the time of round trips; follow slower ones at once."""
        delay = max(0.0, taken - count * self.transport.seconds_per_byte)
        self._delay = max(delay, self._delay + (delay - self._delay) / 8)

    def _check(self, response: Response, address: int, count: int) -> None:
        if response.status is Status.OK:
            return
        name = response.operation.name.lower() if isinstance(response.operation, Operation) else "?"
        status = response.status.name.lower().replace("_", " ")
        raise DeviceError(f"{self.name}: {name} of {count} bytes at {address:#x}: {status}")

    def _silence(self) -> DeviceError:
        damaged = f", {self._damaged} damaged frames" if self._damaged else ""
        return DeviceError(f"{self.name}: no response within {PATIENCE} s{damaged}")

    def _request(self, operation: Operation, address: int, count: int, data: bytes = b"") -> bytes:
        """Send one request until a response comes, always under the same number."""
        request = Request(self._next(), operation, address, count, data)
        frame = link.frame(link.encode_request(request))
        end = self.transport.now() + PATIENCE
        tries = 0
        while self.transport.now() < end or tries < _LEAST_TRIES:
            sent = self.transport.now()
            self._send(frame)
            tries += 1
            until = _sooner(sent + self._timeout(len(frame) + _OVERHEAD), end, sent)
            event = None
            for _ in range(_LATE_EVENTS):
                event = self._event(until)
                if event is not None:
                    self._count_damaged(event)
                if isinstance(event, Response):
                    if (event.sequence, event.operation) != (request.sequence, operation):
                        continue
                    self.repeated += tries - 1
                    if tries == 1:
                        self._learn(self.transport.now() - sent, len(frame) + _OVERHEAD)
                    self._check(event, address, count)
                    return event.data
                if event is None or self.transport.now() < until:
                    break
            if event is None:
                self._delay = min(2 * self._delay, _LONGEST / 4)
        raise self._silence()

    def _transfer(self, operation: Operation, address: int, data: bytes) -> bytes:
        """Read or write in blocks, several under way; return the bytes read.

        Lost blocks are sent again under a new number, with the block size of that moment. Doing so
        twice does no harm.
        """
        result = bytearray(data)
        waiting = deque([(address, len(data))] if data else [])
        flying: dict[int, _Flight] = {}
        heard, late, tries = self.transport.now(), 0, 0
        while waiting or flying:
            while waiting and len(flying) < self.window:
                self._start(operation, waiting, flying, address, data)
            load = sum(flight.count + _OVERHEAD for flight in flying.values())
            until = next(iter(flying.values())).sent + self._timeout(load)
            end = heard + PATIENCE
            event = self._event(_sooner(until, end, self.transport.now()))
            late = late + 1 if self.transport.now() >= end else 0
            tries += event is None
            if late > _LATE_EVENTS or (late and tries >= _LEAST_TRIES):
                raise self._silence()
            if event is None:
                self._delay = min(2 * self._delay, _LONGEST / 4)
                self._lose(flying, len(flying), waiting)
                continue
            self._count_damaged(event)
            if late and self._damaged > _DAMAGED_IN_A_ROW:
                raise self._silence()
            if isinstance(event, _Damaged):
                self._lose(flying, 1, waiting)
            elif event.sequence in flying and event.operation is operation:
                # The line keeps order: requests sent before this one are lost.
                self._lose(flying, list(flying).index(event.sequence), waiting)
                flight = flying.pop(event.sequence)
                heard, tries = self.transport.now(), 0
                self._learn(heard - flight.sent, load)
                self._check(event, flight.address, flight.count)
                if operation not in link.WRITES:
                    self._keep(result, event, flight, flight.address - address)
                self._grow(heard - flight.sent)
        return bytes(result)

    def _start(
        self,
        operation: Operation,
        waiting: deque[tuple[int, int]],
        flying: dict[int, _Flight],
        address: int,
        data: bytes,
    ) -> None:
        """Send the first block that waits."""
        first, count = waiting.popleft()
        if count > self.block:
            waiting.appendleft((first + self.block, count - self.block))
            count = self.block
        offset = first - address
        content = data[offset : offset + count] if operation in link.WRITES else b""
        request = Request(self._next(), operation, first, count, content)
        self._send(link.frame(link.encode_request(request)))
        flying[request.sequence] = _Flight(first, count, self.transport.now())

    def _keep(self, result: bytearray, response: Response, flight: _Flight, offset: int) -> None:
        if len(response.data) != flight.count:
            raise DeviceError(
                f"{self.name}: wanted {flight.count} bytes read, got {len(response.data)}"
            )
        result[offset : offset + flight.count] = response.data

    def _lose(
        self, flying: dict[int, _Flight], count: int, waiting: deque[tuple[int, int]]
    ) -> None:
        """Give up the oldest requests under way; their blocks wait again."""
        oldest = list(flying)[:count]
        for number in reversed(oldest):
            flight = flying.pop(number)
            waiting.appendleft((flight.address, flight.count))
        if oldest:
            self.repeated += len(oldest)
            self._streak = 0
            self.block = max(min(_LEAST_BLOCK, self.info.payload_bytes), self.block // 2 & ~15)

    def _grow(self, trip: float) -> None:
        self._streak += 1
        if self._streak >= _STREAK and trip < _LONG_TRIP:
            self._streak = 0
            self.block = min(2 * self.block, self.info.payload_bytes)


def _sooner(until: float, end: float, now: float) -> float:
    """Return the time to stop listening: ``until``, or ``end`` if that comes first."""
    return min(until, end) if now < end else until


def _event_of(contents: bytes | None) -> Response | _Damaged:
    if contents is None:
        return _Damaged()
    try:
        response = link.decode_response(contents)
    except FrameError:
        return _Damaged()
    return _Damaged() if response.status is Status.BAD_FRAME else response
