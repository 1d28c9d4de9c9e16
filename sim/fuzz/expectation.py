"""Predictions of the machine model about a program before it runs, legal or not."""

import math
from typing import NamedTuple

import numpy as np

from celosia.hw.arch import isa
from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Error, Instruction, Opcode, Unit
from celosia.sim import footprint, hazards
from celosia.sim.footprint import Memory
from celosia.sim.fuzz.case import Case, decoded
from celosia.sim.schedule import Listing, MachineError, bits, listing, schedule

__all__ = ["WORK", "Expected", "Failure", "elements", "expect", "holders", "named"]

Failure = tuple[Error, Unit, int]

#: Elements moved or multiplied up to which a program is worth modelling.
WORK = 1 << 18

_COUNTS = ("rows", "length", "tiles", "count", "taps", "channels")


class Expected(NamedTuple):
    """State that must hold after a program.

    Attributes
    ----------
    exact : bool
        Memory must be that of the machine model.
    ends : frozenset of (Failure or None), or None
        How it may end: with one of these errors, or well; None where nobody can tell.
    stuck : bool
        It may also end in WATCHDOG, by whichever unit.
    confined : bool
        Nothing may be written but what its stores name.
    """

    exact: bool
    ends: "frozenset[Failure | None] | None"
    stuck: bool = False
    confined: bool = True

    def allows(self, error: Failure | None) -> bool:
        """Say whether a program may end so."""
        if self.ends is None or error in self.ends:
            return True
        return self.stuck and error is not None and error[0] is Error.WATCHDOG


def elements(i: Instruction) -> int:
    """Return the elements that an instruction moves, about."""
    names = [name for name in i.fields if name.endswith("_count") or name in _COUNTS]
    return math.prod(i.fields[name] for name in names)


def contested(listed: Listing) -> bool:
    """Return whether units compete for a semaphore, so that who waits is a matter of time."""
    takers: dict[int, set[Unit]] = {}
    for i in listed.instructions:
        for s in bits(i.wait):
            takers.setdefault(s, set()).add(i.unit)
    return any(len(units) > 1 for units in takers.values())


def failures(index: int, i: Instruction, config: Config, memory_bytes: int) -> list[Failure]:
    """Return the errors that an instruction may end in, the more likely one first."""
    found: list[Failure] = []
    try:
        touches = footprint.touches(i, config)
    except footprint.OutOfRange:
        found.append((Error.RANGE, i.unit, index))
        touches = []
        if "external" in i.fields and _external_last(i, config) >= memory_bytes:
            found.append((Error.BUS, i.unit, index))
    for memory, _, pattern in touches:
        if memory is Memory.EXTERNAL and pattern.last >= memory_bytes:
            found.append((Error.BUS, i.unit, index))
    return found


def _external_last(i: Instruction, config: Config) -> int:
    if i.opcode in (Opcode.LOAD, Opcode.STORE):
        return footprint.external_block(i).last
    most = max(config.tile_bytes, 256)
    return i.external + most * max(i.fields.get("tiles", 1), i.fields.get("count", 1))


def expect(case: Case) -> Expected:
    """Return what must hold after the program of a case, its fault left aside."""
    config, code = case.config, case.code
    listed = listing(code, config)
    stores = named(case)
    if stores[case.address : case.address + len(code)].any():
        # It may overwrite itself.
        return Expected(False, None, confined=False)
    if sum(elements(i) for i in listed.instructions) > WORK:
        return Expected(False, None)
    found = schedule(listed, config.queue_depth)
    bad = [
        failure
        for index in found.order
        for failure in failures(index, listed.instructions[index], config, case.memory_bytes)
    ]
    stuck = contested(listed)
    if bad or found.failure:
        ends: set[Failure | None] = set(bad)
        if found.failure:
            ends.add((found.failure.error, found.failure.unit, found.failure.index))
        if stuck:
            ends.add(None)
            every = range(len(listed.instructions))
            ends |= {
                failure
                for index in every
                for failure in failures(
                    index, listed.instructions[index], config, case.memory_bytes
                )
            }
        return Expected(False, frozenset(ends), stuck)
    try:
        # Memories that nobody wrote hold zeros, on the core as on the machine.
        hazards.judge(code, config, initial=hazards.Written(config, everything=True))
    except (hazards.Hazard, MachineError):
        return Expected(False, frozenset([None]), stuck)
    return Expected(True, frozenset([None]))


def _accepted(i: Instruction, config: Config) -> bool:
    try:
        isa.check(i, config)
    except isa.Illegal:
        return False
    return True


def named(case: Case) -> np.ndarray:
    """Return which bytes of external memory the stores that a core accepts name, bool."""
    # One more at each start, one less after each end.
    edges = np.zeros(case.memory_bytes + 1, np.int64)
    for word in case.words:
        i = decoded(word)
        if i is None or i.opcode is not Opcode.STORE or not _accepted(i, case.config):
            continue
        starts = i.external + np.arange(i.rows, dtype=np.int64) * i.external_pitch
        starts = starts[starts < case.memory_bytes]
        np.add.at(edges, starts, 1)
        np.add.at(edges, np.minimum(starts + i.length, case.memory_bytes), -1)
    return np.cumsum(edges)[:-1] > 0


def holders(case: Case, address: int, *, write: bool) -> set[int]:
    """Return the instructions whose external bytes share a beat with ``address``."""
    size = case.config.bus_bytes
    low = address // size * size
    found = set()
    for index, word in enumerate(case.words):
        i = decoded(word)
        if i is None:
            continue
        for memory, writes, pattern in footprint.touches(i, case.config):
            if memory is Memory.EXTERNAL and writes is write:
                if pattern.bitmap(low, low + size - 1).any():
                    found.add(index)
    return found
