"""Semaphores.

Units run their own instructions in order and are ordered against one another by semaphores alone.
Each ordered pair of units has one semaphore. If an instruction depends on earlier ones of another
unit, the latest of them posts and it waits. Posts and waits of a pair come in the same
order on both sides, so the n-th wait takes what the n-th post gave, and no count is left over.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import permutations

import numpy as np

from celosia.hw.arch.config import MOST_COUNT, SEMAPHORES, Config
from celosia.hw.arch.isa import EXECUTING, Instruction, Unit
from celosia.sw.compiler.emit.access import Access, Step
from celosia.sw.layers.errors import CompileError

#: Semaphore of each pair of units (post, wait).
SEMAPHORE: dict[tuple[Unit, ...], int] = {
    pair: number for number, pair in enumerate(permutations(EXECUTING, 2))
}
assert len(SEMAPHORE) <= SEMAPHORES


#: Step, start and end of an access, and the access.
_Entry = tuple[int, int, int, Access]


class _History:
    """Accesses of a unit so far, by memory, latest last."""

    def __init__(self) -> None:
        self.accesses: dict[str, list[_Entry]] = defaultdict(list)

    def add(self, entries: Iterable[_Entry]) -> None:
        for entry in entries:
            self.accesses[entry[-1].memory].append(entry)

    def latest(self, entries: Iterable[_Entry], known: int) -> int:
        """Return the latest step after ``known`` that a step depends on, or ``known``."""
        for _, start, end, access in entries:
            for number, first, last, earlier in reversed(self.accesses[access.memory]):
                if number <= known:
                    break
                if first < end and start < last and access.conflicts(earlier):
                    known = number
                    break
        return known


def synchronise(steps: Sequence[Step], config: Config) -> list[Instruction]:
    """Return the instructions with their semaphores.

    Raises ``CompileError`` if a count could exceed a semaphore.
    """
    waits, posts = [0] * len(steps), [0] * len(steps)
    # By unit number: the latest step of every other unit that is known to be complete.
    clocks = [[-1] * len(EXECUTING) for _ in EXECUTING]
    starts: list[list[int]] = []
    histories = [_History() for _ in EXECUTING]
    for number, step in enumerate(steps):
        mine = EXECUTING.index(step.instruction.unit)
        clock = clocks[mine]
        others = [(unit, history) for unit, history in enumerate(histories) if unit != mine]
        entries = [(number, access.start, access.end, access) for access in step.accesses]
        needs = [(history.latest(entries, clock[unit]), unit) for unit, history in others]
        for producer, unit in sorted(needs, reverse=True):
            if producer <= clock[unit]:
                continue
            semaphore = 1 << SEMAPHORE[EXECUTING[unit], EXECUTING[mine]]
            posts[producer] |= semaphore
            waits[number] |= semaphore
            clock[:] = map(max, clock, starts[producer])
            clock[unit] = max(clock[unit], producer)
        starts.append(clock.copy())
        histories[mine].add(entries)
    _check_counts(waits, posts, config)
    return [
        s.instruction.but(wait=wait, post=post) if wait or post else s.instruction
        for s, wait, post in zip(steps, waits, posts, strict=True)
    ]


def _check_counts(waits: Sequence[int], posts: Sequence[int], config: Config) -> None:
    """Refuse programs in which a unit could get far ahead of the one that waits for it.

    Instructions are dispatched in order, so a wait that is dispatched and not yet taken is in a
    queue or in a unit.
    """
    posted, waited = np.array(posts, np.int64), np.array(waits, np.int64)
    for semaphore in range(SEMAPHORES):
        counts = np.cumsum((posted >> semaphore & 1) - (waited >> semaphore & 1))
        if np.max(counts, initial=0) + config.queue_depth + 2 > MOST_COUNT:
            raise CompileError(
                f"wanted at most {MOST_COUNT} counts of a semaphore, got more; a smaller batch needs "
                "fewer",
                layer="network",
            )
