"""Which instructions of a program are surely in order: vector clocks over units."""

from collections.abc import Sequence

import numpy as np

from celosia.hw.arch.config import SEMAPHORES
from celosia.hw.arch.isa import Instruction, Opcode, Unit
from celosia.sim.footprint import Touch
from celosia.sim.schedule import COUNT_LIMIT, bits

_BARRIERS = (Opcode.FENCE, Opcode.HALT)


class MixedSemaphore(Exception):
    """Two units take counts of one semaphore: (first, second, why)."""


class PossibleOverflow(Exception):
    """A count may pass its limit: (first, second, why)."""


class _Phase:
    """Posts and takes of one semaphore since the last FENCE."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.posts: dict[Unit, list[int]] = {}
        self.takes: list[int] = []


class Clocks:
    """Vector clocks of a program that ends.

    ``clocks[k, u]`` is the number of instructions of unit ``u`` that have surely finished when
    instruction ``k`` starts, in any run on any core. It relies on each semaphore being taken by
    one unit between two fences: then the order in which counts are taken is no matter of chance.

    Parameters
    ----------
    instructions : sequence of Instruction
        The program.
    order : sequence of int
        An order in which the instructions may run.

    Raises
    ------
    MixedSemaphore
        If several units take counts of one semaphore between two fences.
    PossibleOverflow
        If there is a run in which a count passes its limit.
    """

    def __init__(self, instructions: Sequence[Instruction], order: Sequence[int]) -> None:
        self.instructions = instructions
        self.units = np.array([i.unit.value for i in instructions], np.int64)
        self.places = np.zeros(len(instructions), np.int64)
        self.members = {u: np.flatnonzero(self.units == u.value) for u in Unit}
        for members in self.members.values():
            self.places[members] = np.arange(len(members))
        self.clocks = np.zeros((len(instructions), len(Unit)), np.int64)
        self.phases = self._phases()
        self._fill(order)
        self._check_counts()

    def _phases(self) -> list[list[_Phase]]:
        """Split the posts and takes of every semaphore at the fences."""
        phases = [[_Phase(0) for _ in range(SEMAPHORES)]]
        for k, i in enumerate(self.instructions):
            for s in bits(i.wait):
                takes = phases[-1][s].takes
                takes.append(k)
                if self.units[takes[0]] != self.units[k]:
                    why = f"take counts of semaphore {s} in no order"
                    raise MixedSemaphore(takes[0], k, why)
            if i.opcode in _BARRIERS:
                phases.append([_Phase(_left(phase)) for phase in phases[-1]])
            for s in bits(i.post):
                phases[-1][s].posts.setdefault(i.unit, []).append(k)
        return phases

    def _fill(self, order: Sequence[int]) -> None:
        """Compute the clocks, in an order that knows every instruction's forerunners."""
        phase_of = np.cumsum([i.opcode in _BARRIERS for i in self.instructions])
        taken = [[0] * SEMAPHORES for _ in self.phases]
        sequencer = self.members[Unit.SEQUENCER]
        for k in order:
            i = self.instructions[k]
            clock = self.clocks[k]
            if i.opcode in _BARRIERS:
                for u, members in self.members.items():
                    clock[u.value] = np.searchsorted(members, k)
                phase = int(phase_of[k]) - 1
            else:
                phase = int(phase_of[k])
                earlier = int(np.searchsorted(sequencer, k))
                if earlier:
                    self._after(clock, int(sequencer[earlier - 1]))
                if self.places[k]:
                    self._after(clock, int(self.members[i.unit][self.places[k] - 1]))
            for s in bits(i.wait):
                taken[phase][s] += 1
                for post in _needed(self.phases[phase][s], taken[phase][s]):
                    self._after(clock, post)

    def _after(self, clock: np.ndarray, k: int) -> None:
        """Let ``clock`` know that instruction ``k`` has finished."""
        np.maximum(clock, self.clocks[k], out=clock)
        unit = self.units[k]
        clock[unit] = max(clock[unit], self.places[k] + 1)

    def before(self, first: int, second: int) -> bool:
        """Return whether ``first`` surely finishes before ``second`` starts."""
        return bool(self.places[first] < self.clocks[second, self.units[first]])

    def _check_counts(self) -> None:
        """Raise if some semaphore could pass its limit."""
        for phases in self.phases:
            for s, phase in enumerate(phases):
                posts = np.array([k for ks in phase.posts.values() for k in ks], np.int64)
                if phase.count + len(posts) <= COUNT_LIMIT:
                    continue
                takes = np.array(phase.takes, np.int64)
                for k in posts:
                    surely_later = self.places[k] < self.clocks[posts, self.units[k]]
                    freed = self.places[takes] < self.clocks[k, self.units[takes]]
                    if phase.count + np.sum(~surely_later) - np.sum(freed) > COUNT_LIMIT:
                        why = f"may post semaphore {s} past {COUNT_LIMIT}"
                        raise PossibleOverflow(int(posts[0]), int(k), why)

    def first_clash(self, touches: Sequence[Sequence[Touch]]) -> tuple[int, int, int] | None:
        """Return two instructions in no order that touch the same place, one of them writing.

        Parameters
        ----------
        touches : sequence of sequences of Touch
            What each instruction touches of one memory.

        Returns
        -------
        tuple of int, or None
            Indices of the two, the earlier in the program first, and the place.
        """
        lists = {u: _Touches(self, members, touches) for u, members in self.members.items()}
        for left, right in ((a, b) for a in Unit for b in Unit if a.value < b.value):
            a, b = lists[left], lists[right]
            if not (a.any_write or b.any_write) or not a.count or not b.count:
                continue
            clash = self._clash(a, b)
            if clash:
                first, second, place = clash
                return min(first, second), max(first, second), place
        return None

    def _clash(self, a: "_Touches", b: "_Touches") -> tuple[int, int, int] | None:
        """Compare every touch of one unit with the unordered ones of another."""
        unit_a, unit_b = self.units[a.owners[0]], self.units[b.owners[0]]
        known = self.clocks[b.owners, unit_a]
        places_b = self.places[b.owners]
        for t in range(a.count):
            k = a.owners[t]
            start = np.searchsorted(places_b, self.clocks[k, unit_b])
            stop = np.searchsorted(known, self.places[k], side="right")
            overlap = (b.low[start:stop] <= a.high[t]) & (b.high[start:stop] >= a.low[t])
            overlap &= b.write[start:stop] | a.write[t]
            for n in np.flatnonzero(overlap) + start:
                low, high = max(a.low[t], b.low[n]), min(a.high[t], b.high[n])
                both = a.bitmap(t, low, high) & b.bitmap(n, low, high)
                if both.any():
                    return int(k), int(b.owners[n]), int(low + np.argmax(both))
        return None


class _Touches:
    """What one unit touches of one memory, in its order."""

    def __init__(
        self, clocks: Clocks, members: np.ndarray, touches: Sequence[Sequence[Touch]]
    ) -> None:
        found = [(k, touch) for k in members for touch in touches[k]]
        self.count = len(found)
        self.owners = np.array([k for k, _ in found], np.int64)
        self.write = np.array([touch.write for _, touch in found], np.bool_)
        self.low = np.array([touch.pattern.base for _, touch in found], np.int64)
        self.high = np.array([touch.pattern.last for _, touch in found], np.int64)
        self.patterns = [touch.pattern for _, touch in found]
        self.any_write = bool(self.write.any())

    def bitmap(self, n: int, low: int, high: int) -> np.ndarray:
        return self.patterns[n].bitmap(low, high)


def _left(phase: _Phase) -> int:
    """Return the count at the end of a phase, when all its instructions have finished."""
    return phase.count + sum(map(len, phase.posts.values())) - len(phase.takes)


def _needed(phase: _Phase, takes: int) -> list[int]:
    """Return posts that must have happened before the take with this number, counted from 1.

    With posts of several units in a phase, one unit's n-th post is needed only when all posts of
    the others are not enough.
    """
    total = sum(map(len, phase.posts.values()))
    needed = []
    for posts in phase.posts.values():
        own = takes - phase.count - (total - len(posts))
        if own > 0:
            needed.append(posts[own - 1])
    return needed
