"""Guaranteed order of a program's instructions: vector clocks over units."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import numpy as np

from celosia.hw.arch.config import MOST_COUNT, SEMAPHORES
from celosia.hw.arch.isa import Instruction, Opcode, Unit
from celosia.sim.check.footprint import Touch
from celosia.sim.check.schedule import bits

_BARRIERS = (Opcode.FENCE, Opcode.HALT)

#: Pairs of touches that are compared at once, about.
_PAIRS = 1 << 18


class MixedSemaphore(Exception):
    """Semaphore of which two units take counts: (first, second, why)."""


class PossibleOverflow(Exception):
    """Count that may pass its limit: (first, second, why)."""


class _Phase:
    """Posts and takes of one semaphore since the last FENCE."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.posts: dict[int, list[int]] = {}
        self.takes: list[int] = []


class Clocks:
    """Vector clocks of a program that ends.

    ``clocks[k, u]`` is the number of instructions of unit ``u`` that have surely finished before
    instruction ``k`` starts, in any run on any core. This needs each semaphore to be taken by one
    unit only between two fences: then the order in which counts are taken is fixed. ``order``: a
    possible order of the instructions. Raises MixedSemaphore if several units take counts of one
    semaphore between two fences; PossibleOverflow if a count passes its limit in some run.
    """

    def __init__(self, instructions: Sequence[Instruction], order: Sequence[int]) -> None:
        self.instructions = instructions
        self.units = np.array([i.unit.value for i in instructions], np.int64)
        self.positions = np.zeros(len(instructions), np.int64)
        self.members = {u: np.flatnonzero(self.units == u.value) for u in Unit}
        for members in self.members.values():
            self.positions[members] = np.arange(len(members))
        self.phases = self._phases()
        self.clocks = np.array(self._filled(order), np.int64).reshape(-1, len(Unit))
        self._check_counts()

    def _phases(self) -> list[list[_Phase]]:
        """Split the posts and takes of every semaphore at the fences."""
        phases = [[_Phase(0) for _ in range(SEMAPHORES)]]
        units = self.units.tolist()
        for k, i in enumerate(self.instructions):
            for s in bits(i.fields["wait"]):
                takes = phases[-1][s].takes
                takes.append(k)
                if units[takes[0]] != units[k]:
                    why = f"take counts of semaphore {s} in no order"
                    raise MixedSemaphore(takes[0], k, why)
            if i.opcode in _BARRIERS:
                phases.append([_Phase(_left(phase)) for phase in phases[-1]])
            for s in bits(i.fields["post"]):
                phases[-1][s].posts.setdefault(units[k], []).append(k)
        return phases

    def _filled(self, order: Sequence[int]) -> list[list[int]]:
        """Return the clocks, computed in an order with predecessors first."""
        none = [0] * len(Unit)
        clocks = [none] * len(self.instructions)
        units, positions = self.units.tolist(), self.positions.tolist()
        members = {unit.value: numbers.tolist() for unit, numbers in self.members.items()}
        sequencer = members[Unit.SEQUENCER.value]
        earlier = (np.cumsum(self.units == Unit.SEQUENCER.value)).tolist()
        phase_of = np.cumsum([i.opcode in _BARRIERS for i in self.instructions]).tolist()
        taken = [[0] * SEMAPHORES for _ in self.phases]

        def after(clock: list[int], k: int) -> None:
            """Merge the end of instruction ``k`` into ``clock``."""
            clock[:] = map(max, clock, clocks[k])
            clock[units[k]] = max(clock[units[k]], positions[k] + 1)

        for k in order:
            i, unit, phase = self.instructions[k], units[k], phase_of[k]
            if i.opcode in _BARRIERS:
                clock = [bisect_left(members[u], k) for u in range(len(Unit))]
                phase -= 1
            else:
                before = earlier[k] - (unit == Unit.SEQUENCER.value)
                clock = (
                    clocks[members[unit][positions[k] - 1]].copy() if positions[k] else none.copy()
                )
                clock[unit] = positions[k]
                if before:
                    after(clock, sequencer[before - 1])
            clocks[k] = clock
            for s in bits(i.fields["wait"]):
                taken[phase][s] += 1
                for post in _needed(self.phases[phase][s], taken[phase][s]):
                    after(clock, post)
        return clocks

    def before(self, first: int, second: int) -> bool:
        """Return True if ``first`` surely finishes before ``second`` starts."""
        return bool(self.positions[first] < self.clocks[second, self.units[first]])

    def _check_counts(self) -> None:
        """Raise if some semaphore could pass its limit."""
        for phases in self.phases:
            for s, phase in enumerate(phases):
                if phase.count + sum(map(len, phase.posts.values())) > MOST_COUNT:
                    self._check_count(s, phase)

    def _check_count(self, s: int, phase: _Phase) -> None:
        """Raise if a semaphore could pass its limit between two fences.

        The worst case at a post: all posts that are not surely later have happened, and only those
        takes that surely came before. Clocks never fall along a unit.
        """
        takes = np.array(phase.takes, np.int64)
        every = [np.array(posts, np.int64) for posts in phase.posts.values()]
        for posts in every:
            unit = self.units[posts[0]]
            counts = np.full(len(posts), phase.count, np.int64)
            for others in every:
                counts += np.searchsorted(
                    self.clocks[others, unit], self.positions[posts], side="right"
                )
            if len(takes):
                taken = self.clocks[posts, self.units[takes[0]]]
                counts -= np.searchsorted(self.positions[takes], taken)
            if np.any(counts > MOST_COUNT):
                k = int(posts[np.argmax(counts > MOST_COUNT)])
                why = f"may post semaphore {s} past {MOST_COUNT}"
                raise PossibleOverflow(int(every[0][0]), k, why)

    def first_clash(self, touches: Iterable[tuple[int, Touch]]) -> tuple[int, int, int] | None:
        """Return two unordered instructions that touch the same address, one of them writing.

        ``touches``: touches of one memory, with the indices of their instructions, in program
        order. Returns indices of the two, the earlier in the program first, and the address.
        """
        accesses: dict[int, list[tuple[int, Touch]]] = {unit.value: [] for unit in Unit}
        units = self.units.tolist()
        for k, touch in touches:
            accesses[units[k]].append((k, touch))
        lists = [_Touches(accesses[unit]) for unit in sorted(accesses) if accesses[unit]]
        for a, b in combinations(lists, 2):
            clash = self._clash(a, b) if a.any_write or b.any_write else None
            if clash:
                first, second, address = clash
                return min(first, second), max(first, second), address
        return None

    def _clash(self, a: "_Touches", b: "_Touches") -> tuple[int, int, int] | None:
        """Compare every touch of one unit with the unordered touches of another."""
        unit_a, unit_b = self.units[a.owners[0]], self.units[b.owners[0]]
        starts = np.searchsorted(self.positions[b.owners], self.clocks[a.owners, unit_b])
        known = self.clocks[b.owners, unit_a]
        stops = np.searchsorted(known, self.positions[a.owners], side="right")
        for ours, theirs in _pairs(starts, np.maximum(stops, starts)):
            meet = (b.low[theirs] <= a.high[ours]) & (b.high[theirs] >= a.low[ours])
            meet &= b.write[theirs] | a.write[ours]
            for t, n in zip(ours[meet].tolist(), theirs[meet].tolist(), strict=True):
                low, high = max(a.low[t], b.low[n]), min(a.high[t], b.high[n])
                both = a.patterns[t].bitmap(low, high) & b.patterns[n].bitmap(low, high)
                if both.any():
                    return int(a.owners[t]), int(b.owners[n]), int(low + np.argmax(both))
        return None


class _Touches:
    """Touches of one memory by one unit, in its order."""

    def __init__(self, accesses: Sequence[tuple[int, Touch]]) -> None:
        self.owners = np.array([k for k, _ in accesses], np.int64)
        self.patterns = [touch.pattern for _, touch in accesses]
        self.write = np.array([touch.write for _, touch in accesses], np.bool_)
        self.low = np.array([pattern.base for pattern in self.patterns], np.int64)
        self.high = np.array([pattern.last for pattern in self.patterns], np.int64)
        self.any_write = bool(self.write.any())


def _pairs(starts: np.ndarray, stops: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield, in batches, all (n, m) with ``starts[n] <= m < stops[n]``, as two arrays."""
    counts = stops - starts
    ends = np.cumsum(counts)
    first = 0
    while first < len(counts):
        done = ends[first] - counts[first]
        last = max(first + 1, int(np.searchsorted(ends, done + _PAIRS, side="right")))
        ours = np.repeat(np.arange(first, last), counts[first:last])
        within = np.arange(len(ours)) - (ends - counts - done)[ours]
        yield ours, starts[ours] + within
        first = last


def _left(phase: _Phase) -> int:
    """Return the count at the end of a phase, after all its instructions."""
    return phase.count + sum(map(len, phase.posts.values())) - len(phase.takes)


def _needed(phase: _Phase, takes: int) -> list[int]:
    """Return the posts that must happen before the take with this number, counted from 1.

    With posts of several units in a phase, one unit's n-th post is needed only if all posts of the
    others are not enough.
    """
    total = sum(map(len, phase.posts.values()))
    needed = []
    for posts in phase.posts.values():
        own = takes - phase.count - (total - len(posts))
        if own > 0:
            needed.append(posts[own - 1])
    return needed
