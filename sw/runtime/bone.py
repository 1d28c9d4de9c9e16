"""Host end of UARTBone, the line to a LiteX system. See ``docs/how-to/litex.md``."""

from typing import Any
from zlib import crc32

import numpy as np

from celosia.sw.runtime.device import DeviceError
from celosia.sw.runtime.link import Transport

_WRITE, _READ = 1, 2
_WORD = 4
#: Words of one request.
_MOST_WORDS = 255
#: Silence after which a response counts as lost, and after which the far end has given up a request
#: that it got in part, in seconds.
_PATIENCE = 0.5
_IDLE = 0.15
#: Attempts at a read, each of half the words, and at agreeing on the sums.
_TRIES = 8


class BoneLink:
    """Memory and registers of a core over UARTBone.

    UARTBone checks nothing. The system therefore sums all bytes of its line, see
    ``celosia.hw.litex.line``, and this end compares after each request. A damaged response is asked
    for again. A damaged request may have changed anything: that is an error. Memory is read back.

    - ``transport``: the line.
    - ``description``: of the system, see ``celosia.hw.litex.system``.
    - ``name``: its name in messages.
    - ``memory_bytes``: external memory of the system.
    - ``repeated``: damaged responses.

    Raises DeviceError if the far end does not respond, or requests are damaged.
    """

    def __init__(self, transport: Transport, description: dict[str, Any], *, name: str) -> None:
        self.transport = transport
        self.name = name
        self.memory_bytes: int = description["memory_bytes"]
        self.repeated = 0
        self._memory: int = description["memory"]
        self._registers: int = description["registers"]
        self._sums = _header(_READ, description["sums"], 2)
        self._sent = self._received = 0
        self._most = _MOST_WORDS
        self._agree()
        for address, value in description["start"]:
            self._write(address, np.array([value], np.uint32))

    def read(self, address: int, count: int) -> bytes:
        """Return ``count`` bytes of external memory."""
        first = address & -_WORD
        words = -(-(address + count - first) // _WORD)
        data = self._read(self._memory + first, words).astype("<u4").tobytes()
        return data[address - first :][:count]

    def write(self, address: int, data: bytes) -> None:
        """Write to external memory, from byte ``address`` on, and read it back."""
        if not data:
            return
        first, end = address & -_WORD, address + len(data)
        before = self.read(first, address - first)
        after = self.read(end, -end % _WORD)
        self._write(self._memory + first, np.frombuffer(before + data + after, "<u4"))
        got = self.read(address, len(data))
        if got != data:
            place = next(n for n, (a, b) in enumerate(zip(got, data, strict=True)) if a != b)
            raise DeviceError(
                f"{self.name}: memory at {address + place:#x}: "
                f"wanted {data[place]:#x} as written, got {got[place]:#x}"
            )

    def read_registers(self, offset: int, count: int = 1) -> list[int]:
        """Return ``count`` registers from byte ``offset`` on."""
        return [int(value) for value in self._read(self._registers + offset, count)]

    def write_registers(self, offset: int, *values: int) -> None:
        """Write registers from byte ``offset`` on, each exactly once."""
        self._write(self._registers + offset, np.array(values, np.uint32))

    def pause(self, seconds: float) -> None:
        """Let time pass at the far end, which sends nothing unasked."""
        self._receive(seconds)

    def close(self) -> None:
        """Close the line."""
        self.transport.close()

    def _read(self, address: int, words: int) -> np.ndarray:
        """Return words of the system's bus."""
        read = bytearray()
        while words > len(read) // _WORD:
            read += self._request(_READ, address + len(read), words - len(read) // _WORD)
        return np.frombuffer(read, ">u4")

    def _write(self, address: int, words: np.ndarray) -> None:
        """Write words on the system's bus."""
        data = words.astype(">u4").tobytes()
        for n in range(0, len(data), _WORD * _MOST_WORDS):
            part = data[n : n + _WORD * _MOST_WORDS]
            self._request(_WRITE, address + n, len(part) // _WORD, part)

    def _request(self, command: int, address: int, words: int, data: bytes = b"") -> bytes:
        """Read or write words; return those read, at least one and at most as many as wanted.

        Fewer are read at once where responses are damaged. A write has no response but the sums.
        """
        for _ in range(_TRIES):
            words = min(words, _MOST_WORDS if data else self._most)
            count = 0 if data else _WORD * words
            got = self._exchange(_header(command, address, words) + data, count)
            wanted = self._received
            sums = self._exchange(self._sums, 2 * _WORD)
            if sums == _words(wanted, self._sent) and len(got) == count:
                self._most = min(2 * self._most, _MOST_WORDS)
                return got
            self.repeated += 1
            self._most = max(1, self._most // 2)
            if not self._agree():
                raise DeviceError(
                    f"{self.name}: bytes to the system were damaged, its memory may be wrong; "
                    "run again"
                )
            if data:
                return got
        raise DeviceError(f"{self.name}: {_TRIES} damaged responses in a row")

    def _agree(self) -> bool:
        """Wait for silence, then take over the sums; return whether all that was sent arrived."""
        for _ in range(_TRIES):
            while self._receive(_IDLE):
                pass
            first, expected = self._exchange(self._sums, 2 * _WORD), self._sent
            second = self._exchange(self._sums, 2 * _WORD)
            if not first and not second:
                raise DeviceError(f"{self.name}: no response within {_PATIENCE} s")
            if len(first) != 2 * _WORD:
                continue
            sent, received = _values(first)
            after = crc32(first, sent), crc32(self._sums, received)
            if second == _words(*after):
                self._received, self._sent = crc32(second, after[0]), after[1]
                return received == expected
        raise DeviceError(f"{self.name}: {_TRIES} damaged exchanges in a row")

    def _exchange(self, request: bytes, count: int) -> bytes:
        """Send a request; return its response of ``count`` bytes, less if they do not come."""
        self._sent = crc32(request, self._sent)
        try:
            self.transport.send(request)
        except OSError as error:
            raise self._gone(error) from None
        response = b""
        line = 2 * (len(request) + count) * self.transport.seconds_per_byte
        end = self.transport.now() + line + _PATIENCE
        while len(response) < count and (left := end - self.transport.now()) > 0:
            response += self._receive(left)
        self._received = crc32(response, self._received)
        return response

    def _receive(self, seconds: float) -> bytes:
        try:
            return self.transport.receive(seconds)
        except OSError as error:
            raise self._gone(error) from None

    def _gone(self, error: OSError) -> DeviceError:
        return DeviceError(f"{self.name}: the line is gone: {error}")


def _header(command: int, address: int, words: int) -> bytes:
    return bytes((command, words)) + (address // _WORD).to_bytes(4, "big")


def _words(*values: int) -> bytes:
    return b"".join(value.to_bytes(_WORD, "big") for value in values)


def _values(data: bytes) -> tuple[int, int]:
    return int.from_bytes(data[:_WORD], "big"), int.from_bytes(data[_WORD:], "big")
