"""Traffic on the ports of a core's memories, for the estimate of cycles."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class Port:
    """Port of a memory, with the times in which users of higher priority take it."""

    def __init__(self) -> None:
        self.others: list[tuple[float, float, float]] = []
        self.ends: list[float] = []  # The last end up to each of them.

    def take(self, start: float, end: float, share: float) -> None:
        """Reserve a share of the cycles from ``start`` to ``end`` for others."""
        self.others.append((start, end, share))
        self.ends.append(max(end, self.ends[-1] if self.ends else end))

    def after(self, start: float) -> Sequence[tuple[float, float, float]]:
        """Return the times of others, without those that all end before ``start``."""
        return self.others[bisect_right(self.ends, start) :]

    def end(self, start: float, count: float, rate: float = 1.0) -> float:
        """Return the end of ``count`` cycles from ``start`` on, for a user of a share of them."""
        at, left = start, count
        for begin, end, share in self.after(start):
            if end <= at or begin >= at + left:
                continue
            left -= max(begin - at, 0)
            at = max(begin, at)
            pace = min(1.0, (1 - share) / rate)
            had = (end - at) * pace
            if had >= left:
                return at + left / pace
            at, left = end, left - had
        return at + left

    def left(self, start: float, end: float) -> float:
        """Return the cycles from ``start`` to ``end`` that others leave."""
        taken = sum(
            share * max(0.0, min(end, last) - max(start, first))
            for first, last, share in self.after(start)
        )
        return max(0.0, end - start - taken)


class Burst(NamedTuple):
    """Read burst: its earliest response from the memory, and the callback of its last beat."""

    ready: int
    beats: int
    spacing: int  #: Cycles in which its memory writes a beat, 0 without one.
    port: Port
    complete: Callable[[int], None]


def joint_end(start: float, bus: tuple[Port, float], memory: tuple[Port, float]) -> float:
    """Return the end of beats that pass two ports, each for its cycles from ``start`` on."""
    (port, cycles), (second, others) = bus, memory
    end = port.end(start, cycles)
    # What the bus delays is late at the memory.
    return max(end, second.end(end - cycles, others))


def read_cycles(
    bursts: Iterable[Burst], bus: Port, at: float, beat: float, start: float, end: float
) -> float:
    """Return the cycles from ``start`` on in which bursts ready by ``end`` are read.

    Those after as many cycles again do not count. ``bus``: its store's bursts; ``at``: start of the
    first burst; ``beat``: cycles of a beat.
    """
    cycles, limit = 0.0, 2 * end - start
    for burst in bursts:
        if burst.ready >= end:
            continue
        at = max(at, burst.ready)
        count, port = burst.beats * beat, burst.port
        pace = beat / max(beat, burst.spacing)
        before, after = (
            min(count, port.left(at, until) * pace, bus.left(at, until)) for until in (start, limit)
        )
        cycles += after - before
        at = max(bus.end(at, count), port.end(at, burst.beats * burst.spacing))
    return cycles


class Blocks:
    """Contents of a load or store unit: instructions, and the bursts of their rows."""

    def __init__(self) -> None:
        self.jobs: deque[tuple[int, int, list[list[int]]]] = deque()
        self.under_way = 0
        self.issued = 0
        # Bursts before the last row that was taken, and up to its end.
        self.bursts = 0, 0

    @property
    def ready(self) -> bool:
        """True if another instruction can be taken: the last row of the others is split."""
        return self.issued >= self.bursts[0]

    def take(self, index: int, now: int, rows: list[list[int]]) -> None:
        """Take an instruction."""
        self.jobs.append((index, now, rows))
        end = self.bursts[1] + sum(map(len, rows))
        self.bursts = end - len(rows[-1]), end
