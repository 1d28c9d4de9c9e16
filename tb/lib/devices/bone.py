"""Bridge of a LiteX system in Python, before memory and registers of a core."""

from collections.abc import Iterator

from celosia.hw.arch.link import ERROR, FLAG, HEADER_WORDS, REQUEST_WORDS, framed, unframed
from devices.link import Noise, Registers

#: Where a system has what; a description of ``celosia.hw.litex.system`` says the same.
MEMORY, REGISTERS, START = 0x40000000, 0xE0000000, 0x2000
_END = bytes((FLAG,))


class Bone:
    """A line with the bridge at its other end, as a ``Transport`` in simulated seconds.

    ``memory``: bytes of external memory; ``registers``: the core's; ``requests``, ``responses``:
    damage to each direction, None for none.
    ``starts`` (list of int): values written to the register that starts the memory chip; ``mute``:
    whether nothing arrives any more; ``repeats``: writes that came again.
    """

    seconds_per_byte = 1e-5

    def __init__(
        self,
        memory: bytearray | memoryview,
        registers: Registers,
        *,
        requests: Noise | None = None,
        responses: Noise | None = None,
    ) -> None:
        self.memory = memory
        self.registers = registers
        self.requests = requests
        self.responses = responses
        self.starts: list[int] = []
        self.repeats = 0
        self.mute = self.closed = False
        self._time = 0.0
        self._pending = b""
        self._leaving = b""
        self._last = (0, False)

    @property
    def description(self) -> dict[str, object]:
        """Description of the system, for the host."""
        return {
            "memory": MEMORY,
            "memory_bytes": len(self.memory),
            "registers": REGISTERS,
            "start": [(START, 14), (START, 1)],
        }

    def send(self, data: bytes) -> None:
        """Take bytes from the host."""
        self._pending += self.requests.pass_on(data) if self.requests else data
        *frames, self._pending = self._pending.split(_END)
        for frame in filter(None, frames):
            self._leaving += self._response(unframed(frame))

    def receive(self, seconds: float) -> bytes:
        """Return the bytes for the host; otherwise let time pass."""
        if self.mute or not self._leaving:
            self._time += seconds
            return b""
        data, self._leaving = self._leaving, b""
        self._time += len(data) * self.seconds_per_byte
        return self.responses.pass_on(data) if self.responses else data

    def now(self) -> float:
        """Return the time in seconds."""
        return self._time

    def close(self) -> None:
        """Close the line."""
        self.closed = True

    def _response(self, contents: bytes | None) -> bytes:
        """Return the bytes on the line after a frame."""
        if contents is None or len(contents) % 4 or len(contents) < 4 * HEADER_WORDS:
            return _END
        if len(contents) >= 4 * (REQUEST_WORDS - 1):
            return b""
        control, address, *data = _words(contents)
        read, error = b"", False
        for n in range(count := control >> 16):
            value = self._read(address + 4 * n)
            error |= value is None
            read += (value or 0).to_bytes(4, "little")
        if not count and control == self._last[0]:
            self.repeats += 1
            error = self._last[1]
        elif not count:
            for n, value in enumerate(data):
                error |= not self._write(address + 4 * n, value)
        self._last = control, error
        return framed(read + (control | ERROR * error).to_bytes(4, "little"))

    def _read(self, address: int) -> int | None:
        if 0 <= address - MEMORY < len(self.memory):
            return int.from_bytes(self.memory[address - MEMORY :][:4], "little")
        return self.registers.read(address - REGISTERS)

    def _write(self, address: int, value: int) -> bool:
        if 0 <= address - MEMORY < len(self.memory):
            first = address - MEMORY
            self.memory[first : first + 4] = value.to_bytes(4, "little")
        elif address == START:
            self.starts.append(value)
        else:
            return self.registers.write(address - REGISTERS, value)
        return True


def _words(data: bytes) -> Iterator[int]:
    return (int.from_bytes(data[n : n + 4], "little") for n in range(0, len(data), 4))
