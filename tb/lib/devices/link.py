"""Far end of the host link in Python: the behaviour of ``hw/link/``, with a core.

Serves tests of the driver, and as a board without hardware. The protocol is that of
``docs/reference/link.md``.
"""

import threading
from collections import Counter
from typing import Any, Protocol

from pysim import Draws

from celosia.hw.arch import isa, link
from celosia.hw.arch.commands import WORD_BYTES
from celosia.hw.arch.config import Config
from celosia.hw.arch.link import Info, Operation, Request, Response, Status
from celosia.hw.arch.registers import COUNTERS, COUNTERS_PER_UNIT, OFFSETS, REGISTERS, Control
from celosia.hw.arch.registers import Status as CoreStatus
from celosia.sim.machine import Machine, MachineError, TooLong

#: In these states a core does not hear the doorbell.
_DEAF = (CoreStatus.BUSY | CoreStatus.ERROR).value


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


class FarEnd:
    """Responds to requests as the gateware does.

    ``memory``: external memory; the bus refuses addresses past its end; ``registers``: the core's;
    ``slots``, ``slot_bytes``: as in ``hw.link.link.Link``.
    ``done`` (Counter of (operation, sequence number)): how often requests were carried out.
    """

    def __init__(
        self, memory: Any, registers: Registers, *, slots: int = 4, slot_bytes: int = 512
    ) -> None:
        self.memory = memory
        self.registers = registers
        self.slot_bytes = slot_bytes
        payload = slot_bytes - link.SLOT_OVERHEAD
        self.info = Info(link.VERSION, slots, payload, len(memory))
        self.done: Counter[tuple[Operation, int]] = Counter()
        self._deframer = link.Deframer(slot_bytes)
        self._kept: Response | None = None

    def feed(self, received: bytes) -> bytes:
        """Return the bytes on the line in response to those received."""
        sent = b""
        for contents in self._deframer.feed(received):
            sent += link.frame(link.encode_response(self._response(contents)))
        return sent

    def _response(self, contents: bytes | None) -> Response:
        if contents is None or len(contents) < link.HEADER_BYTES:
            return Response(0, Operation.NONE, Status.BAD_FRAME)
        request = link.decode_request(contents)
        kept, self._kept = self._kept, None
        writes = request.operation is Operation.WRITE_REGISTERS
        if writes and kept is not None and kept.sequence == request.sequence:
            self._kept = kept
            return kept
        if link.fault(request, self.info.payload_bytes):
            return Response(request.sequence, request.operation, Status.BAD_REQUEST)
        assert isinstance(request.operation, Operation)
        self.done[request.operation, request.sequence] += 1
        data, refused = self._carry_out(request)
        status = Status.BUS_ERROR if refused else Status.OK
        response = Response(request.sequence, request.operation, status, b"" if refused else data)
        if writes:
            self._kept = response
        return response

    def _carry_out(self, request: Request) -> tuple[bytes, bool]:
        """Return the data read, and True if the bus refused a transfer."""
        first, end = request.address, request.address + request.count
        if request.operation is Operation.INFO:
            return self.info.encode(), False
        if request.operation is Operation.READ:
            return bytes(self.memory[first:end]), end > len(self.memory)
        if request.operation is Operation.WRITE:
            inside = max(0, min(request.count, len(self.memory) - first))
            self.memory[first : first + inside] = request.data[:inside]
            return b"", inside < request.count
        data, refused = b"", False
        for offset in range(first, end, 4):
            if request.operation is Operation.READ_REGISTERS:
                value = self.registers.read(offset)
                data += (value or 0).to_bytes(4, "little")
                refused |= value is None
            else:
                word = request.data[offset - first :][:4]
                refused |= not self.registers.write(offset, int.from_bytes(word, "little"))
        return data, refused


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
            self._values[status] = 0
        elif value & Control.START.value and not self._values[status] & _DEAF:
            self.starts += 1
            self._values[status] = CoreStatus.BUSY.value
            self._runner = threading.Thread(target=self._run, daemon=True)
            self._runner.start()

    def _run(self) -> None:
        first = self._values[OFFSETS["program_address"]]
        count = self._values[OFFSETS["program_length"]]
        words = self.machine.memory[first : first + count * WORD_BYTES].tobytes()
        status = CoreStatus.DONE
        try:
            self.machine.run(words)
        except MachineError as error:
            status = CoreStatus.ERROR
            self._values[OFFSETS["error_code"]] = error.error.value
            self._values[OFFSETS["error_unit"]] = error.unit.value
            self._values[OFFSETS["error_index"]] = error.index
        except (TooLong, ValueError) as error:
            # A core takes its time, or reads past the end of memory.
            status = CoreStatus.ERROR
            code = isa.Error.WATCHDOG if isinstance(error, TooLong) else isa.Error.BUS
            self._values[OFFSETS["error_code"]] = code.value
        self._values[OFFSETS["status"]] = status.value
