"""Places in the core for constants that stream."""

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any

from celosia.sw.compiler.layout.tile import Ring

__all__ = ["Queue", "Use"]

#: Position of the work that reads constants, which, and how many places these take.
Use = tuple[int, Hashable, int]


class Queue:
    """Places in a ring for constants, in the order of their use.

    Parameters
    ----------
    ring : Ring
        The places.
    uses : sequence of Use
        In the order of the work.
    """

    def __init__(self, ring: Ring, uses: Sequence[Use]) -> None:
        self.ring = ring
        self.counts: list[int] = []
        self.keys: list[Hashable] = []
        #: Position of the first work that reads each piece.
        self.positions: list[int] = []
        self.readers = [position for position, _, _ in uses]
        self.piece_of = [self._piece(*use) for use in uses]
        #: For each use, the first piece that it or a later one needs.
        self.needed = list(self.piece_of)
        for use in range(len(uses) - 2, -1, -1):
            self.needed[use] = min(self.needed[use], self.needed[use + 1])
        self.use = 0
        self.next = 0
        self.end = 0
        self.live: deque[tuple[int, int]] = deque()
        #: When each piece that is there or on its way is there, and when each place is free again.
        self.ready: dict[int, int] = {}
        self.free: dict[int, int] = {}

    def _piece(self, position: int, key: Hashable, count: int) -> int:
        """Return a piece fetched not long ago, or a new one.

        A third of the ring may be held for what is used again: the rest always has room for a
        piece of a third of the ring. What was used last stays in any case.
        """
        held = 0
        latest = len(self.keys) - 1
        for piece in range(latest, -1, -1):
            held += self.counts[piece]
            if piece != latest and 3 * held > self.ring.count:
                break
            if self.keys[piece] == key:
                return piece
        self.keys.append(key)
        self.counts.append(count)
        self.positions.append(position)
        return len(self.keys) - 1

    @property
    def reader(self) -> int | None:
        """Position of the work that is the next to read."""
        return self.readers[self.use] if self.use < len(self.readers) else None

    @property
    def position(self) -> int | None:
        """Position of the work that reads what is to be fetched next, if there is a place for it."""
        if self.next == len(self.keys):
            return None
        return None if self._place() is None else self.positions[self.next]

    @property
    def missing(self) -> bool:
        """Whether what is used next has not been fetched."""
        return self.use < len(self.piece_of) and self.piece_of[self.use] >= self.next

    def fetch(self) -> tuple[Any, int, int]:
        """Return key, place and count of what is to be fetched next, and go on to the one after."""
        place, piece = self._place(), self.next
        assert place is not None
        self.live.append((piece, place))
        self.end = place + self.counts[piece]
        self.next += 1
        return self.keys[piece], self.ring.first + place, self.counts[piece]

    def freed(self, place: int, count: int) -> int:
        """Return when the last work is done that reads some places."""
        first = place - self.ring.first
        return max(self.free.get(n, 0) for n in range(first, first + count))

    def take(self, until: int) -> int:
        """Return where what is used next lies, which is read ``until`` then, and go on."""
        piece = self.piece_of[self.use]
        self.use += 1
        place = next(place for number, place in self.live if number == piece)
        for n in range(place, place + self.counts[piece]):
            self.free[n] = until
        return self.ring.first + place

    def _place(self) -> int | None:
        count = self.counts[self.next]
        if self.use < len(self.needed):
            while self.live and self.live[0][0] < self.needed[self.use]:
                self.live.popleft()
        spans = [(place, place + self.counts[piece]) for piece, place in self.live]
        for start in (self.end, 0):
            end = start + count
            if end <= self.ring.count and all(end <= a or b <= start for a, b in spans):
                return start
        return None
