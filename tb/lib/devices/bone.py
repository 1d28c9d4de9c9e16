"""UARTBone in Python, byte by byte, before memory and registers of a core."""

from zlib import crc32

from devices.link import Noise, Registers

#: Where a system has what; a description of ``celosia.hw.litex.system`` says the same.
MEMORY, REGISTERS, SUMS, START = 0x40000000, 0xE0000000, 0x1800, 0x2000
#: Seconds after which the bridge gives up a request that it got in part.
_IDLE = 0.1


class Bone:
    """A line with the bridge at its other end, as a ``Transport`` in simulated seconds.

    ``memory``: bytes of external memory; ``registers``: the core's; ``requests``, ``responses``:
    damage to each direction, None for none.
    ``starts`` (list of int): values written to the register that starts the memory chip; ``mute``:
    whether nothing arrives any more.
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
        self.mute = self.closed = False
        self._time = 0.0
        self._heard = 0.0
        self._pending = bytearray()
        self._leaving = bytearray()
        self._sums = [0, 0]

    @property
    def description(self) -> dict[str, object]:
        """Description of the system, for the host."""
        return {
            "memory": MEMORY,
            "memory_bytes": len(self.memory),
            "registers": REGISTERS,
            "sums": SUMS,
            "start": [(START, 14), (START, 1)],
        }

    def send(self, data: bytes) -> None:
        """Take bytes from the host."""
        if self._time - self._heard > _IDLE:
            self._pending.clear()
        self._heard = self._time
        for byte in self.requests.pass_on(data) if self.requests else data:
            self._sums[1] = crc32(bytes((byte,)), self._sums[1])
            self._pending.append(byte)
            self._advance()

    def receive(self, seconds: float) -> bytes:
        """Return the bytes for the host; otherwise let time pass."""
        if self.mute or not self._leaving:
            self._time += seconds
            return b""
        data, self._leaving = bytes(self._leaving), bytearray()
        self._time += len(data) * self.seconds_per_byte
        return self.responses.pass_on(data) if self.responses else data

    def now(self) -> float:
        """Return the time in seconds."""
        return self._time

    def close(self) -> None:
        """Close the line."""
        self.closed = True

    def _advance(self) -> None:
        """Carry out what the byte that came last completes."""
        held = self._pending
        if len(held) < 6:
            return
        command, words = held[0], held[1] or 256
        address, step = int.from_bytes(held[2:6], "big"), command in (1, 2)
        if command in (1, 3):
            done, rest = divmod(len(held) - 6, 4)
            if rest or not done:
                return
            self._write(4 * (address + step * (done - 1)), int.from_bytes(held[-4:], "big"))
            if done < words:
                return
        elif command in (2, 4):
            for n in range(words):
                word = self._read(4 * (address + step * n)).to_bytes(4, "big")
                self._leaving += word
                self._sums[0] = crc32(word, self._sums[0])
        held.clear()

    def _read(self, address: int) -> int:
        if 0 <= address - MEMORY < len(self.memory):
            return int.from_bytes(self.memory[address - MEMORY :][:4], "little")
        if 0 <= address - REGISTERS < 0x1000:
            return self.registers.read(address - REGISTERS) or 0
        return self._sums[(address - SUMS) // 4] if address in (SUMS, SUMS + 4) else 0

    def _write(self, address: int, value: int) -> None:
        if 0 <= address - MEMORY < len(self.memory):
            first = address - MEMORY
            self.memory[first : first + 4] = value.to_bytes(4, "little")
        elif 0 <= address - REGISTERS < 0x1000:
            self.registers.write(address - REGISTERS, value)
        elif address == START:
            self.starts.append(value)
