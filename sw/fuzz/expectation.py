"""Predictions by the machine model for a program before it runs, legal or not."""

import math
from typing import NamedTuple

import numpy as np

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Error, Instruction, Opcode, Unit
from celosia.sim.check import footprint, hazards
from celosia.sim.check.footprint import Memory
from celosia.sim.check.schedule import Listing, MachineError, bits, listing, schedule
from celosia.sw.fuzz.case import Case

Failure = tuple[Error, Unit, int]

#: Most elements moved or multiplied by a program that is modelled.
WORK = 1 << 18

_COUNTS = ("rows", "length", "tiles", "count", "taps", "channels")


class Expected(NamedTuple):
    """Expected state after a program.

    ``exact``: memory must be that of the machine model; ``ends``: possible errors, with None for
    HALT; None if every end is possible; ``stuck``: it may also end in WATCHDOG, by any unit;
    ``bounded``: only bytes that its stores address may be written.
    """

    exact: bool
    ends: "frozenset[Failure | None] | None"
    stuck: bool = False
    bounded: bool = True

    def allows(self, error: Failure | None) -> bool:
        """Return True if a program may end with this error, or without one."""
        if self.ends is None or error in self.ends:
            return True
        return self.stuck and error is not None and error[0] is Error.WATCHDOG


def elements(i: Instruction) -> int:
    """Return the approximate number of elements that an instruction moves."""
    names = [name for name in i.fields if name.endswith("_count") or name in _COUNTS]
    return math.prod(i.fields[name] for name in names)


def contested(listed: Listing) -> bool:
    """Return True if units compete for a semaphore, so that the waiting unit depends on timing."""
    takers: dict[int, set[Unit]] = {}
    for i in listed.instructions:
        for s in bits(i.wait):
            takers.setdefault(s, set()).add(i.unit)
    return any(len(units) > 1 for units in takers.values())


def failures(index: int, i: Instruction, case: Case) -> list[Failure]:
    """Return the possible errors of an instruction of a case, the more likely one first."""
    config = case.config
    first, last = case.bounds[0], min(case.bounds[1], case.memory_bytes - 1)
    failures: list[Failure] = []
    try:
        touches = footprint.touches(i, config)
    except footprint.OutOfRange:
        failures.append((Error.RANGE, i.unit, index))
        touches = []
        if "external" in i.fields and not first <= i.external <= _external_last(i, config) <= last:
            failures.append((Error.BUS, i.unit, index))
    for memory, _, pattern in touches:
        if memory is Memory.EXTERNAL and not first <= pattern.base <= pattern.last <= last:
            failures.append((Error.BUS, i.unit, index))
    return failures


def _external_last(i: Instruction, config: Config) -> int:
    if i.opcode in (Opcode.LOAD, Opcode.STORE):
        return footprint.external_block(i).last
    longest = max(config.tile_bytes, 256)
    return i.external + longest * max(i.fields.get("tiles", 1), i.fields.get("count", 1))


def expect(case: Case) -> Expected:
    """Return the expected state after the program of a case, without its fault."""
    config, code = case.config, case.code
    listed = listing(code, config)
    stores = named(case)
    if stores[case.address : case.address + len(code)].any():
        # It may overwrite itself.
        return Expected(False, None, bounded=False)
    if sum(elements(i) for i in listed.instructions) > WORK:
        return Expected(False, None)
    result = schedule(listed, config.queue_depth)
    bad = [
        failure
        for index in result.order
        for failure in failures(index, listed.instructions[index], case)
    ]
    stuck = contested(listed)
    if bad or result.failure:
        # Another unit may get the count, and the sequencer come to a word that it cannot dispatch.
        stops = (result.failure, listed.failure if stuck else None)
        ends: set[Failure | None] = {*bad, *((s.error, s.unit, s.index) for s in stops if s)}
        if stuck:
            ends.add(None)
            every = range(len(listed.instructions))
            ends |= {
                failure
                for index in every
                for failure in failures(index, listed.instructions[index], case)
            }
        return Expected(False, frozenset(ends), stuck)
    try:
        # Unwritten memories hold zeros, on the core and in the machine model.
        hazards.check_hazards(code, config, initial=hazards.Written(config, everything=True))
    except (hazards.Hazard, MachineError):
        return Expected(False, frozenset([None]), stuck)
    return Expected(True, frozenset([None]))


def named(case: Case) -> np.ndarray:
    """Return a bool for each byte of external memory: True if an accepted store addresses it."""
    # Plus one at each start, minus one after each end.
    edges = np.zeros(case.memory_bytes + 1, np.int64)
    for i in listing(case.code, case.config).instructions:
        if i.opcode is not Opcode.STORE:
            continue
        starts = i.external + np.arange(i.rows, dtype=np.int64) * i.external_pitch
        starts = starts[starts < case.memory_bytes]
        np.add.at(edges, starts, 1)
        np.add.at(edges, np.minimum(starts + i.length, case.memory_bytes), -1)
    covered = np.cumsum(edges)[:-1] > 0
    first, last = case.bounds
    covered[:first] = covered[last + 1 :] = False
    return covered


def holders(case: Case, address: int, *, write: bool) -> set[int]:
    """Return the indices of instructions whose external bytes share a beat with ``address``."""
    size = case.config.bus_bytes
    low = address // size * size
    instructions = set()
    for index, i in enumerate(listing(case.code, case.config).instructions):
        for memory, writes, pattern in footprint.touches(i, case.config):
            if memory is Memory.EXTERNAL and writes is write:
                if pattern.bitmap(low, low + size - 1).any():
                    instructions.add(index)
    return instructions
