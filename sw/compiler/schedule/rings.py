"""Slots in the core for streamed constants."""

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any

from celosia.sw.compiler import policy
from celosia.sw.compiler.layout.tile import Ring

#: Position of the action that reads constants, their key, and their number of slots.
Use = tuple[int, Hashable, int]


class Queue:
    """Slots in a ring for constants, in the order of their use.

    - ``ring``: its slots.
    - ``uses``: uses in the order of the actions.
    """

    def __init__(self, ring: Ring, uses: Sequence[Use]) -> None:
        self.ring = ring
        self.counts: list[int] = []
        self.keys: list[Hashable] = []
        #: Position of the first action that reads each fetch.
        self.positions: list[int] = []
        self.readers = [position for position, _, _ in uses]
        self.fetch_of = [self._fetch_number(*use) for use in uses]
        #: For each use, the first fetch that it or a later one needs.
        self.needed = list(self.fetch_of)
        for use in range(len(uses) - 2, -1, -1):
            self.needed[use] = min(self.needed[use], self.needed[use + 1])
        self.use = 0
        self.next = 0
        self.end = 0
        self.live: deque[tuple[int, int]] = deque()
        #: Cycle at which each started fetch is complete, and at which each slot is free again.
        self.ready: dict[int, int] = {}
        self.free: dict[int, int] = {}

    def _fetch_number(self, position: int, key: Hashable, count: int) -> int:
        """Return a recent fetch of the key, or a new one.

        A third of the ring may be held for later uses: the rest always has space for a fetch of a
        third of the ring. The latest fetch is held in any case.
        """
        held = 0
        latest = len(self.keys) - 1
        for number in range(latest, -1, -1):
            held += self.counts[number]
            if number != latest and policy.RING_HELD * held > self.ring.count:
                break
            if self.keys[number] == key:
                return number
        self.keys.append(key)
        self.counts.append(count)
        self.positions.append(position)
        return len(self.keys) - 1

    @property
    def reader(self) -> int | None:
        """Position of the next action that reads."""
        return self.readers[self.use] if self.use < len(self.readers) else None

    @property
    def position(self) -> int | None:
        """Position of the action that reads the next fetch, if there is a slot for it."""
        if self.next == len(self.keys):
            return None
        return None if self._slot() is None else self.positions[self.next]

    @property
    def missing(self) -> bool:
        """True if the constants used next have not been fetched."""
        return self.use < len(self.fetch_of) and self.fetch_of[self.use] >= self.next

    def fetch(self) -> tuple[Any, int, int]:
        """Return key, slot and count of the next fetch, and advance."""
        slot, number = self._slot(), self.next
        assert slot is not None
        self.live.append((number, slot))
        self.end = slot + self.counts[number]
        self.next += 1
        return self.keys[number], self.ring.first + slot, self.counts[number]

    def freed(self, slot: int, count: int) -> int:
        """Return the end of the last action that reads some slots."""
        first = slot - self.ring.first
        return max(self.free.get(n, 0) for n in range(first, first + count))

    def take(self, until: int) -> int:
        """Return the slot of the constants used next, read ``until`` then, and advance."""
        number = self.fetch_of[self.use]
        self.use += 1
        slot = next(slot for fetched, slot in self.live if fetched == number)
        for n in range(slot, slot + self.counts[number]):
            self.free[n] = until
        return self.ring.first + slot

    def _slot(self) -> int | None:
        count = self.counts[self.next]
        if self.use < len(self.needed):
            while self.live and self.live[0][0] < self.needed[self.use]:
                self.live.popleft()
        spans = [(slot, slot + self.counts[number]) for number, slot in self.live]
        for start in (self.end, 0):
            end = start + count
            if end <= self.ring.count and all(end <= a or b <= start for a, b in spans):
                return start
        return None
