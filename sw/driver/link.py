"""Host end of the line to a LiteX system: see ``docs/reference/link.md``."""

import random
import struct
from typing import Any, Protocol

from celosia.hw.arch.link import ERROR, FLAG, HEADER_WORDS, MOST_WORDS, NUMBERS
from celosia.sw.driver.device import DeviceError
from celosia.sw.driver.frames import framed, unframed
from celosia.sw.driver.levelling import level

_WORD = 4
#: Silence after which a request counts as lost, in seconds.
_PATIENCE = 0.1
#: Attempts in a row, and blocks without loss until they grow.
_TRIES = 20
_STREAK = 8
#: Bytes of a request and its response that are not data.
_OVERHEAD = _WORD * (HEADER_WORDS + 3) + 2


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


class HostLink:
    """Memory and registers of a core over a line that may lose, double and change bytes.

    Parameters
    ----------
    transport : Transport
        The line.
    description : dict
        Description of the system, see ``celosia.hw.litex.system``.
    name : str
        Its name in messages.

    Attributes
    ----------
    memory_bytes : int
        External memory of the system.
    block : int
        Words of one request for memory, at present.
    repeated : int
        Requests that were lost.
    processor : dict
        Registers that start the processor of the system; empty without one.

    Raises
    ------
    DeviceError
        If the far end does not respond; the line is closed then.
    """

    def __init__(self, transport: Transport, description: dict[str, Any], *, name: str) -> None:
        self.transport = transport
        self.name = name
        self.memory_bytes: int = description["memory_bytes"]
        self.block = MOST_WORDS
        self.repeated = 0
        self.processor: dict[str, int] = description["processor"]
        self._memory: int = description["memory"]
        self._registers: int = description["registers"]
        self._number = random.randrange(NUMBERS)
        self._held = b""
        self._heard = False
        self._streak = 0
        try:
            self._begin(description)
        except BaseException:
            transport.close()
            raise

    def _begin(self, description: dict[str, Any]) -> None:
        """Start the memory of the system."""
        # Ends a frame that a predecessor has sent in part; a read lets the bridge forget its write.
        self._send(bytes((FLAG,)))
        self.read_registers(0)
        for address, value, seconds in description["start"]:
            self.store(address, value)
            self.pause(seconds)
        if description["levelling"]:
            level(self, description["levelling"])

    def boot(self, program: bytes) -> None:
        """Reset the processor of the system, and let it run a program.

        Raises DeviceError if it has none.
        """
        if not self.processor:
            raise DeviceError(f"{self.name}: wanted a system with a processor, got none")
        self.store(self.processor["reset"], self.processor["held"])
        self.write(self.processor["program"], program)
        self.store(self.processor["reset"], 0)

    def load(self, address: int) -> int:
        """Return a word of the system's bus."""
        return int.from_bytes(self._transfer(address, 1), "little")

    def store(self, address: int, value: int) -> None:
        """Write a word of the system's bus exactly once."""
        self._insist(address, value.to_bytes(_WORD, "little"))

    def read(self, address: int, count: int) -> bytes:
        """Return ``count`` bytes of external memory."""
        first = address & -_WORD
        words = -(-(address + count - first) // _WORD)
        return self._transfer(self._memory + first, words)[address - first :][:count]

    def write(self, address: int, data: bytes) -> None:
        """Write to external memory, from byte ``address`` on."""
        if not data:
            return
        first, end = address & -_WORD, address + len(data)
        before = self.read(first, address - first)
        after = self.read(end, -end % _WORD)
        words = before + data + after
        self._transfer(self._memory + first, len(words) // _WORD, words)

    def read_registers(self, offset: int, count: int = 1) -> list[int]:
        """Return ``count`` registers from byte ``offset`` on."""
        got = self._transfer(self._registers + offset, count)
        return list(struct.unpack(f"<{count}I", got))

    def write_registers(self, offset: int, *values: int) -> None:
        """Write registers from byte ``offset`` on, each exactly once."""
        self._insist(self._registers + offset, struct.pack(f"<{len(values)}I", *values))

    def pause(self, seconds: float) -> None:
        """Let time pass at the far end."""
        self._held += self._receive(seconds)

    def close(self) -> None:
        """Close the line."""
        self.transport.close()

    def _transfer(self, address: int, words: int, data: bytes = b"") -> bytes:
        """Write the words of ``data``, or return as many; fewer at once after a loss."""
        read, done, tries = bytearray(), 0, 0
        while done < words:
            count = min(words - done, self.block)
            part = data[_WORD * done :][: _WORD * count]
            place = address + _WORD * done
            got = self._exchange(self._next(), place, 0 if part else count, part)
            if got is None:
                tries += 1
                self._lose(tries, place)
                continue
            read += got
            done, tries = done + count, 0
            self._streak += 1
            if self._streak >= _STREAK:
                self._streak, self.block = 0, min(2 * self.block, MOST_WORDS)
        return bytes(read)

    def _insist(self, address: int, data: bytes) -> None:
        """Write words in one request, always under the same number, until its response comes."""
        number, tries = self._next(), 0
        while self._exchange(number, address, 0, data) is None:
            tries += 1
            self._lose(tries, address)

    def _lose(self, tries: int, address: int) -> None:
        """Count a request that was lost; raise DeviceError after the last attempt."""
        self.repeated += 1
        self._streak, self.block = 0, max(1, self.block // 2)
        if tries == _TRIES:
            raise DeviceError(
                f"{self.name}: no response to {tries} requests of {address:#x}"
                f"{', all damaged' if self._heard else ''}"
            )

    def _next(self) -> int:
        self._number = (self._number + 1) % NUMBERS
        return self._number

    def _exchange(self, number: int, address: int, count: int, data: bytes) -> bytes | None:
        """Send a request once; return the words read, None if it or its response is lost."""
        control = number | count << 16
        header = struct.pack("<2I", control, address)
        self._send(framed(header + data))
        line = 2 * (len(data) + _WORD * count + _OVERHEAD) * self.transport.seconds_per_byte
        end = self.transport.now() + line + _PATIENCE
        while (left := end - self.transport.now()) > 0:
            self._held += self._receive(left)
            *frames, self._held = self._held.split(bytes((FLAG,)))
            contents = [unframed(frame) for frame in frames]
            for got in contents:
                if got is None or len(got) != _WORD * (count + 1):
                    continue
                stored = int.from_bytes(got[-_WORD:], "little")
                if stored == control | ERROR:
                    raise DeviceError(f"{self.name}: bus error at {address:#x}")
                if stored == control:
                    self._heard = False
                    return got[:-_WORD]
            if None in contents:
                return None
        return None

    def _send(self, data: bytes) -> None:
        try:
            self.transport.send(data)
        except OSError as error:
            raise self._gone(error) from None

    def _receive(self, seconds: float) -> bytes:
        try:
            received = self.transport.receive(seconds)
        except OSError as error:
            raise self._gone(error) from None
        self._heard |= bool(received)
        return received

    def _gone(self, error: OSError) -> DeviceError:
        return DeviceError(f"{self.name}: the line is gone: {error}")
