"""Hazard checker: races, deadlocks, reads of unwritten memory, ambiguous use of semaphores.

Two instructions are in order if one surely finishes before the other starts: both belong to one
unit, or semaphores, fences or the sequencer's own instructions order them. The checker keeps, for
every instruction, the number of instructions of each unit that have surely finished before it
starts (a vector clock). It compares every unordered pair that shares a memory, byte by byte.
"""

from collections.abc import Sequence
from enum import Enum
from functools import cache
from typing import cast

import numpy as np

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Error, Instruction, Opcode
from celosia.sim.check import footprint
from celosia.sim.check.addresses import Pattern
from celosia.sim.check.footprint import Memory, Touch
from celosia.sim.check.order import Clocks, MixedSemaphore, PossibleOverflow
from celosia.sim.check.schedule import MachineError, Program, bits, describe, listing, schedule
from celosia.sim.check.vector import feeds_itself

#: Queue depth that every core has: a program that needs more would depend on the core.
_LEAST_DEPTH = 3


class Fault(Enum):
    """Fault of a program."""

    RACE = "two units use the same address, and nothing orders them"
    DEADLOCK = "an instruction waits for ever"
    UNWRITTEN = "an instruction reads an address that no instruction wrote"
    LEFTOVER = "a semaphore is not back at zero at HALT"
    SEMAPHORE = "the count of a semaphore depends on timing"


class Hazard(ValueError):
    """Program that must not run.

    - ``fault``: kind of the hazard.
    - ``instructions``: indices in the program of the instructions that the message names.
    """

    def __init__(self, fault: Fault, instructions: tuple[int, ...], message: str) -> None:
        super().__init__(f"{fault.name}: {message}")
        self.fault = fault
        self.instructions = instructions


class Written:
    """Addresses of the core's memories that have been written: flat booleans by memory.

    - ``config``: sizes of the core.
    - ``everything``: count all addresses as written from the start.
    """

    def __init__(self, config: Config, *, everything: bool = False) -> None:
        inner = [memory for memory in Memory if memory is not Memory.EXTERNAL]
        self.places = {
            memory: (np.ones if everything else np.zeros)(
                footprint.extent(memory, config), np.bool_
            )
            for memory in inner
        }

    def copy(self) -> "Written":
        """Return an independent copy."""
        other = object.__new__(Written)
        other.places = {memory: places.copy() for memory, places in self.places.items()}
        return other

    def add(self, touches: Sequence[Touch]) -> None:
        """Add the addresses that an instruction writes."""
        for memory, write, pattern in touches:
            if write and memory is not Memory.EXTERNAL:
                pattern.mark(self.places[memory], True)

    def missing(self, touches: Sequence[Touch]) -> tuple[Memory, int] | None:
        """Return the first unwritten address that an instruction reads, or None."""
        for memory, write, pattern in touches:
            if write or memory is Memory.EXTERNAL or pattern.all(self.places[memory]):
                continue
            read = pattern.bitmap(pattern.base, pattern.last)
            holds = self.places[memory][pattern.base : pattern.last + 1]
            return memory, pattern.base + int(np.argmax(read & ~holds))
        return None


def check_hazards(
    program: Program | Sequence[Program], config: Config, *, initial: Written | None = None
) -> Written:
    """Refuse a program with a hazard: its results would depend on the timing of the units.

    - ``program``: one program, or programs that run one after the other. A program that passes once
      may run again and again: HALT separates the runs.
    - ``config``: core that runs the program.
    - ``initial``: addresses that earlier programs wrote; none unless given. External memory counts
      as written.

    Returns addresses written after the last program. Raises Hazard for the first hazard found,
    naming the instructions with index and assembly; MachineError if an instruction is one that a
    core of ``config`` refuses, or HALT is missing.
    """
    written = Written(config) if initial is None else initial.copy()
    if isinstance(program, bytes) or not program or isinstance(program[0], Instruction):
        _Judge(cast(Program, program), config, written).all()
    else:
        for part in program:
            _Judge(cast(Program, part), config, written).all()
    return written


@cache
def _halves(first: int, last: int, owner: bool) -> Touch:
    """Return a touch of halves of the accumulators, numbered 0 and 1."""
    return Touch(Memory.ACCUMULATORS, owner, Pattern(first, [], last - first + 1))


class _Judge:
    """Checks of one program; updates ``written``."""

    def __init__(self, program: Program, config: Config, written: Written) -> None:
        self.config = config
        self.written = written
        self.listed = listing(program, config)
        self.instructions = self.listed.instructions
        self.schedule = schedule(self.listed, _LEAST_DEPTH)
        self.touches: list[list[Touch]] = []

    def name(self, index: int) -> str:
        return describe(index, self.instructions[index])

    def all(self) -> None:
        """Run every check, in the order in which they depend on one another."""
        if self.listed.failure:
            raise self.listed.failure
        footprints = footprint.footprints(self.config)
        for index, instruction in enumerate(self.instructions):
            try:
                self.touches.append(footprints.touches(instruction))
            except footprint.OutOfRange as wrong:
                message = f"{self.name(index)}: {wrong}"
                raise MachineError(Error.RANGE, instruction.unit, index, message) from None
        self.semaphores()
        self.races()
        self.reads()

    def semaphores(self) -> None:
        """Check that the program ends, whatever the speed of the units."""
        stuck = self.schedule.failure
        if stuck and stuck.error is Error.WATCHDOG:
            raise self.deadlock()
        if stuck:
            raise Hazard(Fault.SEMAPHORE, (stuck.index,), str(stuck))
        try:
            self.clocks = Clocks(self.instructions, self.schedule.order)
        except (MixedSemaphore, PossibleOverflow) as wrong:
            first, second, why = wrong.args
            message = f"{self.name(first)} and {self.name(second)} {why}"
            raise Hazard(Fault.SEMAPHORE, (first, second), message) from None
        for s, count in enumerate(self.schedule.counts):
            if count:
                posts = (k for k, i in enumerate(self.instructions) if s in bits(i.post))
                last = max(posts)
                message = f"semaphore {s} is left at {count}; last posted by {self.name(last)}"
                raise Hazard(Fault.LEFTOVER, (last,), message)

    def deadlock(self) -> Hazard:
        """Return the hazard of the first instruction in the program that waits for ever.

        The core may record another one: that of the first unit that has an instruction.
        """
        done = set(self.schedule.order)
        index = next(k for k in range(len(self.instructions)) if k not in done)
        missing = [s for s in bits(self.instructions[index].wait) if not self.schedule.counts[s]]
        posted = {s for i in self.instructions for s in bits(i.post)}
        why = f"waits for ever for semaphore {' and '.join(map(str, missing))}"
        if never := [str(s) for s in missing if s not in posted]:
            why += f"; no instruction posts {' or '.join(never)}"
        return Hazard(Fault.DEADLOCK, (index,), f"{self.name(index)} {why}")

    def races(self) -> None:
        """Check that instructions which touch the same address are in order."""
        for index, i in enumerate(self.instructions):
            if feeds_itself(i, self.config):
                message = f"{self.name(index)} reads what an earlier pixel or group of it wrote"
                raise Hazard(Fault.RACE, (index, index), message)
        accesses: dict[Memory, list[tuple[int, Touch]]] = {memory: [] for memory in Memory}
        for index, touches in enumerate(self.touches):
            for touch in touches:
                accesses[touch.memory].append((index, touch))
        accesses[Memory.ACCUMULATORS] = [
            self.half(*access) for access in accesses[Memory.ACCUMULATORS]
        ]
        for memory in Memory:
            clash = self.clocks.first_clash(accesses[memory])
            if clash:
                first, second, place = clash
                where = "accumulator half" if memory is Memory.ACCUMULATORS else memory.value
                message = (
                    f"{self.name(first)} and {self.name(second)} both use {where} {place}, "
                    "and no semaphore orders them"
                )
                raise Hazard(Fault.RACE, (first, second), message)

    def half(self, index: int, touch: Touch) -> tuple[int, Touch]:
        """Return the halves of the accumulators that an instruction touches.

        MATMUL owns its half while it runs: the vector unit cannot even read other rows of it.
        """
        half = self.config.accumulator_depth * self.config.columns
        first, last = touch.pattern.base // half, touch.pattern.last // half
        return index, _halves(first, last, self.instructions[index].opcode is Opcode.MATMUL)

    def reads(self) -> None:
        """Check that everything read has been written before; written addresses remain written."""
        known: set[Pattern] = set()
        for index in self.schedule.order:
            touches = [touch for touch in self.touches[index] if touch.pattern not in known]
            missing = self.written.missing(touches)
            if missing:
                memory, place = missing
                what = f"{memory.value} {place}"
                if memory is Memory.ACCUMULATORS:
                    row, column = divmod(place, self.config.columns)
                    what = f"accumulator row {row} column {column}"
                message = f"{self.name(index)} reads {what}, which no instruction wrote"
                raise Hazard(Fault.UNWRITTEN, (index,), message)
            self.written.add(touches)
            known.update(touch.pattern for touch in touches)
