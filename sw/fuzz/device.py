"""Simulated core on a bus with pauses, refusals and protocol checks."""

import ctypes
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from celosia.hw.arch import isa
from celosia.hw.arch.registers import COUNTERS_PER_UNIT, Control, Status
from celosia.sim.rtl.core import RtlDevice
from celosia.sw.driver.core import Driver
from celosia.sw.fuzz.case import Case

Failure = tuple[isa.Error, isa.Unit, int]

#: Cycles without progress before the core stops.
WATCHDOG = 5000
#: Most cycles of a program whose end is known, and of one whose end is not.
LIMIT = 1 << 22
PATIENCE = 100_000
#: Cycles without bus transfers that are checked after the end.
QUIET = 64
_IDLE_POLLS = 20_000


class Refused(NamedTuple):
    """Transfer that the bus refused: a beat read by ``id``, or a burst written; its address."""

    write: bool
    address: int
    id: int


class Outcome(NamedTuple):
    """End of a program.

    ``runs``: how often the program ran to the end that the core reported; ``error`` is the error
    that it recorded; ``idle`` is True if it became idle after a soft reset, ``quiet`` if it
    remained so. ``broken`` are bits of ``Rule`` in ``disturb.h``.
    """

    runs: int
    error: Failure | None
    cycles: int
    counters: dict[str, dict[str, int]] | None
    refused: Refused | None
    idle: bool
    quiet: bool
    broken: int

    @property
    def finished(self) -> bool:
        """True if the core reported the end."""
        return self.runs > 0


class FuzzDevice(RtlDevice, Driver):
    """Core of a case, with its external memory and pauses, but without its program.

    ``netlist`` runs instead of the core's own Verilog, see ``RtlDevice``.
    """

    def __init__(self, case: Case, netlist: Path | None = None) -> None:
        super().__init__(
            case.config,
            latency=case.bus.latency,
            bandwidth=case.bus.bandwidth,
            memory_bytes=case.memory_bytes,
            netlist=netlist,
        )
        chances = [round(65536 * pause) for pause in case.bus.pauses]
        self._library.celosia_pause(
            self._device, case.seed, (ctypes.c_uint32 * len(chances))(*chances)
        )

    @property
    def content(self) -> np.ndarray:
        """External memory, uint8, in place."""
        return self._memory

    def play(self, case: Case, *, patience: int = LIMIT) -> Outcome:
        """Run the program in memory, with the fault of its case.

        ``case``: program and fault; ``patience``: cycles after which the program is stopped by a
        soft reset.
        """
        fault = case.fault
        beat = fault.place if fault and fault.kind == "beat" else 0
        answer = fault.place if fault and fault.kind == "answer" else 0
        response = fault.response if fault else 0
        self.set_register("watchdog", WATCHDOG)
        self.set_register("memory_base", case.bounds[0])
        self.set_register("memory_limit", case.bounds[1])
        self.set_register("program_address", case.address)
        self.set_register("program_length", case.count)
        self.set_register("control", Control.CLEAR.value)
        self._wait(COUNTERS_PER_UNIT)
        self._library.celosia_refuse(self._device, beat, answer, response)
        self.set_register("control", Control.START.value)
        stopped = rung = False
        if fault and fault.kind in ("reset", "doorbell") and not self._wait(fault.place):
            stopped, rung = fault.kind == "reset", fault.kind == "doorbell"
            action = Control.RESET if stopped else Control.START
            self.set_register("control", action.value)
        return self._ending(0 if stopped else self._finish(patience, rung))

    def _wait(self, cycles: int) -> bool:
        return bool(self._library.celosia_wait(self._device, cycles))

    def _quiet(self, cycles: int) -> bool:
        return bool(self._library.celosia_quiet(self._device, cycles))

    def _finish(self, patience: int, rung: bool) -> int:
        """Wait for the interrupt; return how often the program ran, 0 if it does not end.

        ``rung``: another doorbell came. Right after the end it makes the program run again.
        """
        if not self._wait(patience):
            return 0
        runs = 1
        for _ in range(patience // QUIET):
            if Status.BUSY not in self.status():
                return runs
            runs = 1 + rung
            self._quiet(QUIET)
        return 0

    def _ending(self, runs: int) -> Outcome:
        error, finished = self._error(), runs > 0
        if not finished:
            # The reset stops the counters.
            self.set_register("control", Control.RESET.value)
        cycles, counters = self.register("cycles"), self.counters()
        if error:
            self.set_register("control", Control.RESET.value)
        idle = (finished and not error) or any(self.is_idle() for _ in range(_IDLE_POLLS))
        self.acknowledge()
        quiet = self._quiet(QUIET) and not self._wait(0)
        broken = self._library.celosia_broken(self._device)
        return Outcome(runs, error, cycles, counters, self._refused(), idle, quiet, broken)

    def _error(self) -> Failure | None:
        if Status.ERROR not in self.status():
            return None
        return self.error()

    def _refused(self) -> Refused | None:
        address, number = ctypes.c_uint64(), ctypes.c_uint32()
        references: tuple[Any, Any] = ctypes.byref(address), ctypes.byref(number)
        kind = self._library.celosia_refused(self._device, *references)
        return Refused(kind == 2, address.value, number.value) if kind else None
