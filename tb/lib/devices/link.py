"""Bridge of a LiteX system in Python, before memory and registers of a core."""

import struct
import threading
from typing import Any, Protocol

from pysim import Draws

from celosia.hw.arch import isa
from celosia.hw.arch.commands import WORD_BYTES
from celosia.hw.arch.config import Config
from celosia.hw.arch.link import ERROR, FLAG, HEADER_WORDS, REQUEST_WORDS
from celosia.hw.arch.registers import (
    COUNTERS,
    COUNTERS_PER_UNIT,
    OFFSETS,
    REGISTERS,
    Control,
    Status,
)
from celosia.sim.model.machine import Machine, MachineError, TooLong
from celosia.sw.driver.frames import framed, unframed

#: Where a system has what; a description of ``celosia.hw.litex.system`` has the same.
MEMORY, CORE, START = 0x40000000, 0xE0000000, 0x2000
_END = bytes((FLAG,))

#: In these states a core does not hear the doorbell.
_DEAF = (Status.BUSY | Status.ERROR).value


class Noise:
    """A line that damages bytes: drops, doubles or flips a bit of them, one as often as another.

    ``rng``: random numbers; ``rate``: share of bytes damaged, 0 to 1.
    """

    def __init__(self, rng: Draws, rate: float) -> None:
        self.rng = rng
        self.rate = rate
        self.damaged = 0

    def pass_on(self, sent: bytes) -> bytes:
        """Return the bytes that arrive of ``sent``."""
        arrived = bytearray()
        for byte in sent:
            if self.rng.random() >= self.rate:
                arrived.append(byte)
                continue
            self.damaged += 1
            kind = int(self.rng.random() * 3)
            flipped = byte ^ 1 << int(self.rng.random() * 8)
            arrived += (b"", bytes((byte, byte)), bytes((flipped,)))[kind]
        return bytes(arrived)


class Registers(Protocol):
    """Registers that a link accesses."""

    def read(self, offset: int) -> int | None:
        """Return the value at a byte offset, None if the bus refuses."""
        ...

    def write(self, offset: int, value: int) -> bool:
        """Write; return True if the bus accepted it."""
        ...


class Bridge:
    """Carries out requests as the bridge of ``hw/litex/bridge.py`` does.

    ``memory``: external memory; the bus refuses addresses past its end; ``registers``: the core's.
    ``starts`` (list of int): values written to the register that starts the memory chip;
    ``repeats``: writes that came again.
    """

    def __init__(self, memory: Any, registers: Registers) -> None:
        self.memory = memory
        self.registers = registers
        self.starts: list[int] = []
        self.repeats = 0
        self._pending = b""
        self._last = (0, False)

    @property
    def description(self) -> dict[str, object]:
        """Description of the system, for the host."""
        return {
            "cores": 1,
            "memory": MEMORY,
            "memory_bytes": len(self.memory),
            "registers": CORE,
            "start": [(START, 14, 0.5), (START, 1, 0)],
            "levelling": {},
            "processor": {},
        }

    def feed(self, received: bytes) -> bytes:
        """Return the bytes on the line in response to those received."""
        *frames, self._pending = (self._pending + received).split(_END)
        return b"".join(self._response(unframed(frame)) for frame in frames if frame)

    def _response(self, contents: bytes | None) -> bytes:
        """Return the bytes on the line after a frame."""
        if contents is None or len(contents) % 4 or len(contents) < 4 * HEADER_WORDS:
            return _END
        if len(contents) >= 4 * (REQUEST_WORDS - 1):
            return b""
        control, address, *data = struct.unpack(f"<{len(contents) // 4}I", contents)
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
        return self.registers.read(address - CORE)

    def _write(self, address: int, value: int) -> bool:
        if 0 <= address - MEMORY < len(self.memory):
            first = address - MEMORY
            self.memory[first : first + 4] = value.to_bytes(4, "little")
        elif address == START:
            self.starts.append(value)
        else:
            return self.registers.write(address - CORE, value)
        return True


class Line:
    """A line with a bridge at its other end, as a ``Transport`` in simulated seconds.

    ``bridge``: the bridge; ``requests``, ``responses``: damage to each direction, None for none;
    ``mute``: whether nothing arrives any more.
    """

    seconds_per_byte = 1e-5

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge
        self.requests: Noise | None = None
        self.responses: Noise | None = None
        self.mute = self.closed = False
        self.leaving = b""
        self._time = 0.0

    def send(self, data: bytes) -> None:
        """Take bytes from the host."""
        self.leaving += self.bridge.feed(self.requests.pass_on(data) if self.requests else data)

    def receive(self, seconds: float) -> bytes:
        """Return the bytes for the host; otherwise let time pass."""
        if self.mute or not self.leaving:
            self._time += seconds
            return b""
        data, self.leaving = self.leaving, b""
        self._time += len(data) * self.seconds_per_byte
        return self.responses.pass_on(data) if self.responses else data

    def now(self) -> float:
        """Return the time in seconds."""
        return self._time

    def close(self) -> None:
        """Close the line."""
        self.closed = True


class MachineRegisters:
    """Registers of a core whose programs the machine model runs in a thread.

    ``config``: sizes of the core; ``memory_bytes``: external memory.
    ``machine``: the core, and its memory; ``starts``: how often the doorbell rang.
    """

    def __init__(self, config: Config, memory_bytes: int) -> None:
        self.machine = Machine(config, memory_bytes=memory_bytes)
        self.starts = 0
        self._runner: threading.Thread | None = None
        self._values = {register.offset: register.init for register in REGISTERS}
        self._values[OFFSETS["fingerprint"]] = config.fingerprint
        self._access = {register.offset: register.access for register in REGISTERS}

    def read(self, offset: int) -> int | None:
        """Return the value of a register; counters are zero."""
        if COUNTERS <= offset < COUNTERS + 4 * COUNTERS_PER_UNIT * len(isa.Unit):
            return 0
        return self._values.get(offset)

    def write(self, offset: int, value: int) -> bool:
        """Write a register; START runs the program that the registers name."""
        access = self._access.get(offset)
        if offset == OFFSETS["control"]:
            self._control(value)
        elif offset == OFFSETS["interrupt"]:
            self._values[offset] &= ~value
        elif access == "rw":
            self._values[offset] = value
        return access in ("rw", "w1")

    def _control(self, value: int) -> None:
        status = OFFSETS["status"]
        if value & Control.RESET.value:
            if self._runner is not None:
                self._runner.join()
            for name in ("status", "error_code", "error_unit", "error_index"):
                self._values[OFFSETS[name]] = 0
        elif value & Control.START.value and not self._values[status] & _DEAF:
            self.starts += 1
            self._values[status] = Status.BUSY.value
            self._runner = threading.Thread(target=self._run, daemon=True)
            self._runner.start()

    def _run(self) -> None:
        first = self._values[OFFSETS["program_address"]]
        count = self._values[OFFSETS["program_length"]]
        words = self.machine.memory[first : first + count * WORD_BYTES].tobytes()
        status = Status.DONE
        base, limit = (self._values[OFFSETS[f"memory_{name}"]] for name in ("base", "limit"))
        self.machine.bounds = base, limit
        try:
            self.machine.run(words)
        except MachineError as error:
            status = Status.ERROR
            self._values[OFFSETS["error_code"]] = error.error.value
            self._values[OFFSETS["error_unit"]] = error.unit.value
            self._values[OFFSETS["error_index"]] = error.index
        except (TooLong, ValueError) as error:
            # A core takes its time, or reads past the end of memory.
            status = Status.ERROR
            code = isa.Error.WATCHDOG if isinstance(error, TooLong) else isa.Error.BUS
            self._values[OFFSETS["error_code"]] = code.value
        self._values[OFFSETS["status"]] = status.value
