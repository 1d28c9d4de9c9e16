"""Driver base class: runs programs through the host registers, on any device."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from celosia.hw.arch import isa
from celosia.hw.arch.commands import padded, require_place
from celosia.hw.arch.registers import (
    COUNTERS,
    COUNTERS_PER_UNIT,
    LENGTH_BITS,
    OFFSETS,
    Control,
    Interrupt,
    Status,
    activity_names,
)

_MOST_WORDS = (1 << LENGTH_BITS) - 1
#: In these states a core ignores the doorbell, or its bus is not idle.
_OCCUPIED = Status.BUSY | Status.ERROR | Status.DRAINING
_ENDED = Status.DONE | Status.ERROR


@dataclass(frozen=True)
class RunResult:
    """End of a run of a program.

    Parameters
    ----------
    cycles : int or None
        Cycles from start to HALT; None where the device has no clock.
    counters : mapping or None
        For each unit, in lower case, cycles by class; the classes of a unit sum to ``cycles``.
        Classes without cycles are left out. None where the device has no such counters.
    error : tuple or None
        Code of the error, unit that noticed it, and index of the instruction in the program.
    array : str or None
        What was simulated, see ``Driver``.
    """

    cycles: int | None = None
    counters: Mapping[str, Mapping[str, int]] | None = None
    error: tuple[isa.Error, isa.Unit, int] | None = None
    array: str | None = None


def require_program(address: int, count: int, memory_bytes: int) -> None:
    """Raise ValueError unless 1 to 2**24 - 1 words at ``address`` lie in external memory."""
    if not 1 <= count <= _MOST_WORDS:
        raise ValueError(f"program: wanted 1 to {_MOST_WORDS} words, got {count}")
    require_place(address, padded(count), memory_bytes)


class Driver(ABC):
    """Runs programs on a core through its registers.

    Attributes
    ----------
    memory_bytes : int
        Bytes of external memory, as far as known.
    program_bytes : int, optional
        Bytes of external memory, from address 0 on, that programs may touch: the core refuses
        others, in steps of ``1 << BOUND_BITS``. None for ``memory_bytes``.
    array : str, optional
        What simulates the array of the core: ``cells``, or a ``twin``. None for a device that is no
        simulation of the RTL.
    """

    memory_bytes: int
    program_bytes: int | None = None
    array: str | None = None

    @abstractmethod
    def read_registers(self, offset: int, count: int = 1) -> list[int]:
        """Return ``count`` registers from byte ``offset`` on."""

    @abstractmethod
    def write_registers(self, offset: int, *values: int) -> None:
        """Write registers from byte ``offset`` on, each exactly once."""

    @abstractmethod
    def pauses(self, *, running: bool) -> Iterator[None]:
        """Yield before each poll of the status.

        Parameters
        ----------
        running : bool
            True while a program runs, False while the core becomes idle.

        Raises
        ------
        RuntimeError
            After too long a time.
        """

    @abstractmethod
    def failure(self, text: str) -> Exception:
        """Return the device's error with this message."""

    def register(self, name: str) -> int:
        """Return the value of a register."""
        return self.read_registers(OFFSETS[name])[0]

    def set_register(self, name: str, value: int) -> None:
        """Write a register."""
        self.write_registers(OFFSETS[name], value)

    def status(self) -> Status:
        """Return the status register."""
        return Status(self.register("status") & 0xF)

    def run(self, address: int, count: int) -> RunResult:
        """Run the program of ``count`` words at byte ``address`` of external memory.

        A soft reset ends an interrupted run before, and an error afterwards, so that the next
        program runs.

        Raises
        ------
        ValueError
            If ``count`` is not 1 to 2**24 - 1, or the program does not lie in the memory.
        RuntimeError
            If the core does not end, or becomes idle without an end.
        """
        self.prepare(address, count)
        self.start()
        return self.finish()

    def prepare(self, address: int, count: int) -> None:
        """Make the core idle, clear its counters, set bounds and program; raises as ``run``."""
        require_program(address, count, self.memory_bytes)
        self.make_idle()
        assert OFFSETS["memory_limit"] == OFFSETS["memory_base"] + 4
        last = (self.program_bytes or self.memory_bytes) - 1
        self.write_registers(OFFSETS["memory_base"], 0, last)
        assert OFFSETS["program_length"] == OFFSETS["program_address"] + 4
        self.write_registers(OFFSETS["program_address"], address, count)
        self.set_register("control", Control.CLEAR.value)
        self.cleared()

    def start(self) -> None:
        """Start the program that was set."""
        self.set_register("control", Control.START.value)
        self.started()

    def finish(self) -> RunResult:
        """Wait for the end of the program; raises as ``run``."""
        status = Status(0)
        for _ in self.pauses(running=True):
            status = self.status()
            if status & _ENDED:
                break
            if Status.BUSY not in status:
                raise self.failure("wanted the end of a program, the core knows of none")
        error = self.error() if Status.ERROR in status else None
        result = RunResult(self.register("cycles"), self.counters(), error, self.array)
        if error is not None:
            self._reset()
        self.acknowledge()
        return result

    def cleared(self) -> None:
        """Wait ``COUNTERS_PER_UNIT`` cycles until the counters are clear, on a device this fast."""
        return

    def started(self) -> None:
        """Hook of a device after the start of a program."""
        return

    def error(self) -> tuple[isa.Error, isa.Unit, int]:
        """Return the code of the error, the unit that noticed it, the index of the instruction."""
        assert OFFSETS["error_index"] == OFFSETS["error_code"] + 8
        code, unit, index = self.read_registers(OFFSETS["error_code"], 3)
        return isa.Error(code), isa.Unit(unit), index

    def counters(self) -> dict[str, dict[str, int]] | None:
        """Return cycles by class for each unit; classes without cycles are left out.

        None if the core has no activity counters: after a run, every unit of one that has them has
        counted each cycle.
        """
        names = activity_names()
        values = self.read_registers(COUNTERS, COUNTERS_PER_UNIT * len(isa.Unit))
        if not any(values):
            return None
        counters: dict[str, dict[str, int]] = {}
        for unit in isa.Unit:
            base = unit.value * COUNTERS_PER_UNIT
            counts = {name: values[base + number] for number, name in names.items()}
            counters[unit.name.lower()] = {name: value for name, value in counts.items() if value}
        return counters

    def make_idle(self) -> None:
        """End a running program by a soft reset, and clear the interrupt.

        Raises
        ------
        RuntimeError
            If the core does not become idle.
        """
        if not self.is_idle():
            self._reset()
        self.acknowledge()

    def is_idle(self) -> bool:
        """Return True if the core accepts the doorbell and its bus is idle."""
        return not self.status() & _OCCUPIED

    def acknowledge(self) -> None:
        """Clear the interrupt."""
        self.set_register("interrupt", (Interrupt.DONE | Interrupt.ERROR).value)

    def _reset(self) -> None:
        self.set_register("control", Control.RESET.value)
        for _ in self.pauses(running=False):
            if self.is_idle():
                break
