"""Traffic on the ports of a core's memories, for the estimate of cycles."""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from celosia.sim.timing.costs import Costs

__all__ = ["Blocks", "Burst", "Port"]


class Port:
    """Port of a memory, with the times in which users of higher priority take it."""

    def __init__(self) -> None:
        self.others: deque[tuple[float, float, float]] = deque(maxlen=64)

    def take(self, start: float, end: float, share: float) -> None:
        """Reserve a share of the cycles from ``start`` to ``end`` for others."""
        self.others.append((start, end, share))

    def end(self, start: float, count: float, wanted: float = 1.0) -> float:
        """Return the end of ``count`` cycles from ``start`` on, for a user of a share of them."""
        at, left = start, count
        for begin, end, share in self.others:
            if end <= at or begin >= at + left:
                continue
            left -= max(begin - at, 0)
            at = max(begin, at)
            pace = min(1.0, (1 - share) / wanted)
            had = (end - at) * pace
            if had >= left:
                return at + left / pace
            at, left = end, left - had
        return at + left


class Burst(NamedTuple):
    """Read burst: its earliest response from the memory, and the callback of its last beat."""

    ready: int
    beats: int
    port: Port
    complete: Callable[[int], None]


class Blocks:
    """Contents of a load or store unit: instructions, and the rows and bursts prepared."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self.jobs: deque[tuple[int, int, list[list[int]]]] = deque()
        self.under_way = 0
        self.issued = 0
        # Bursts up to each row, rows up to each instruction.
        self.bursts = [0]
        self.rows = [0]

    @property
    def ready(self) -> bool:
        """True if another instruction can be taken: one waits while one is split into rows."""
        row = self.rows[-2 if len(self.rows) > 1 else -1] - self.costs.rows
        return self.issued >= self.bursts[max(row, 0)] - self.costs.bursts

    def take(self, index: int, now: int, rows: list[list[int]]) -> None:
        """Take an instruction."""
        self.jobs.append((index, now, rows))
        for row in rows:
            self.bursts.append(self.bursts[-1] + len(row))
        self.rows.append(len(self.bursts) - 1)
