"""Jobs of successive layers in one order.

A job fills a half of the accumulators and drains it. Jobs of a layer keep their order; those of the
next layer may come between them after the jobs whose results they read. The next job can start
first by the clocks of the units: the array works for one layer while sums of the other drain.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain

import numpy as np

from celosia.sim.timing.costs import drain_latency, sum_latency
from celosia.sw.compiler import policy
from celosia.sw.compiler.layout.placement import Arranged
from celosia.sw.compiler.schedule.actions import (
    Action,
    AddRegion,
    Drain,
    FillMargins,
    LoadRegion,
    Matrix,
    MoveWeights,
    Passes,
    PoolRegion,
    StoreRegion,
)
from celosia.sw.compiler.schedule.areas import Area, Areas
from celosia.sw.compiler.schedule.pace import Pace
from celosia.sw.layers.network import end_of_run
from celosia.sw.layers.spec import DynamicProduct


@dataclass(eq=False)
class Job:
    """Actions on one half of the accumulators, or of the vector unit alone."""

    before: list[Action] = field(default_factory=list)  #: Loads and margins that come first.
    #: Matrix actions, by output tile, and loads of what they read.
    tiles: list[Passes] = field(default_factory=list)
    #: Drains of the half and stores of complete results, by output tile.
    drains: list[list[Action]] = field(default_factory=list)
    #: True if drains come between the tiles of the next job, so that they do not fill the queue of
    #: the vector unit.
    late: bool = False
    #: Jobs of the layer before that come first, and those of the next layer, whose values this one
    #: overwrites.
    needs: int = 0
    waits: int = 0


class Interleaver(Arranged):
    """Puts jobs in order; ``areas``: those of their actions."""

    def __init__(self, areas: Areas) -> None:
        super().__init__(areas.about)
        #: Stores that wait until the array has read what it needs for the next sums.
        self.held: list[StoreRegion] = []
        self.half = 0  #: Half of the accumulators that the next job fills.
        self.late: list[list[Action]] = []  #: Late drains, by output tile.
        #: Ends of emitted drains, with the areas that they write.
        self.made: list[tuple[Area, int]] = []
        self.pace = Pace(areas.about)  #: Clocks of the units.
        self.areas = areas

    @property
    def cycles(self) -> int:
        """Cycles of all actions so far."""
        return max(self.pace.matrix, self.pace.vector)

    def order(self, layers: Sequence[list[Job]], *, chain: bool = False) -> Iterator[Action]:
        """Yield the actions of layers; jobs of two successive layers, or of a chain, take turns."""
        done = [0] * len(layers)
        for first, jobs in enumerate(layers):
            last = len(layers) if chain else min(first + 2, len(layers))
            if not chain and first + 1 < last:
                self._set_needs(jobs[done[first] :], layers[first + 1], done[first])
            while done[first] < len(jobs):
                ready = (n for n in range(first, last) if _is_ready(layers, done, n))
                chosen = next(ready)
                for other in ready:
                    if self._precedes(layers[other][done[other]], layers[chosen][done[chosen]]):
                        chosen = other
                jobs_left = len(layers[chosen]) - done[chosen]
                yield from self._emit(layers[chosen][done[chosen]], jobs_left)
                done[chosen] += 1
            self.made = self.made[-policy.RECENT_DRAINS :]

    def flush(self) -> Iterator[Action]:
        """Yield late drains."""
        while self.late:
            yield from self._drain()

    def end(self) -> Iterator[Action]:
        """Yield late drains, then stores that were held back."""
        yield from self.flush()
        yield from self._release(self.held)

    def _precedes(self, second: Job, first: Job) -> bool:
        """Return whether a job comes before one of an earlier layer."""
        begin, other = self._start(first), self._start(second)
        if other < begin:
            return True
        if other > begin + drain_latency(self.config):
            return False
        array, vector = self._cycles(first)
        more, less = self._cycles(second)
        if self.pace.vector > begin + array + sum_latency(self.config):
            # The vector unit is late: the job with less vector work comes first.
            return more * vector > array * less
        idle = self.pace.vector <= self.pace.matrix
        # While the vector unit is idle, the job that drains slowly comes first.
        return idle and less > more and array > vector

    def _cycles(self, job: Job) -> tuple[int, int]:
        """Return the cycles of a job in the array and in the vector unit."""
        work = chain(*job.tiles)
        array = sum(self.pace.cycles(action) for action in work if isinstance(action, Matrix))
        drains = (a for a in chain(*job.drains) if isinstance(a, (Drain, PoolRegion, AddRegion)))
        return array, sum(self.pace.cycles(action) for action in drains)

    def _start(self, job: Job) -> int:
        """Return the cycle at which a job can start."""
        actions = job.tiles[0][:1] if job.tiles else chain(*job.drains)
        reads = [area for action in actions for area in self.areas.reads(action)]
        if not job.tiles:
            return self._ready(reads, self.pace.vector)
        return self._ready(reads, max(self.pace.matrix, self.pace.drained[self.half]))

    def _ready(self, reads: Sequence[Area], start: int) -> int:
        """Return the cycle at which areas are written, at least ``start``."""
        for area, end in reversed(self.made):
            # Earlier results are ready earlier.
            if end <= start:
                break
            if any(area.meets(x) for x in reads):
                return end
        return start

    def _set_needs(self, current: list[Job], following: list[Job], done: int) -> None:
        """Set for each job of a layer the number of jobs of the layer before that come first.

        ``done`` is the number of those before ``current``.
        """
        # The last job that writes an area.
        writers: dict[Area, int] = {}
        for number, job in enumerate(current, done + 1):
            areas = map(self.areas.writes, (*job.before, *chain(*job.drains)))
            writers |= {area: number for area in areas if area}
        reads = []
        for job in following:
            actions = [*job.before, *chain(*job.tiles), *chain(*job.drains)]
            areas = [area for action in actions for area in self.areas.reads(action)]
            # Stores wait for channels that the layer before it writes into the same value.
            stores = (self.areas.writes(a) for a in actions if isinstance(a, StoreRegion))
            reads.append({*areas, *(area for area in stores if area)})
        last = _last_writers(writers, list(set().union(*reads)))
        most = (max((last[area] for area in areas), default=0) for areas in reads)
        for job, needs in zip(following, accumulate(most, max), strict=True):
            job.needs = needs

    def _emit(self, job: Job, jobs_left: int) -> Iterator[Action]:
        """Yield the actions of a job, without late drains, and a share of the stores held back.

        ``jobs_left``: jobs of its layer, with this one. The stores of a layer are over before the
        one after the next may overwrite what they read.
        """
        number = next(chain(*job.drains)).layer
        late = [store for store in self.held if store.layer in self.placement.late]
        over = [x for x in late if end_of_run(self.network, x.layer) + 1 < number]
        yield from self._release(over)
        while self.late and not self._independent(job.before):
            yield from self._drain()
        yield from self._release(self._before(job.before))
        yield from job.before
        for tile in job.tiles:
            for action in tile:
                yield from self._release(self._before([action]))
                while self.late and not self._independent([action]):
                    yield from self._drain()
                if not isinstance(action, MoveWeights | LoadRegion):
                    # 1 stands for the half of the next job.
                    action = action._replace(half=self.half ^ action.half)
                self._clock(action)
                yield action
            if self.late:
                yield from self._drain()
        yield from self.flush()
        parts = [store for store in self.held if store.layer in self.placement.late]
        later = parts[-(-len(parts) // jobs_left) :]
        some = [store for store in self.held if store not in later]
        yield from self._release(some, self.half if job.tiles else None)
        self.late = [
            [a._replace(half=self.half) if isinstance(a, (Drain, AddRegion)) else a for a in drains]
            for drains in job.drains
        ]
        if not job.late:
            yield from self.flush()
        self.half ^= 1

    def _release(self, some: Sequence[StoreRegion], after: int | None = None) -> Iterator[Action]:
        """Yield stores that were held back."""
        self.held = [action for action in self.held if action not in some]
        for action in some:
            self._clock(action)
            yield action._replace(after=after)

    def _before(self, actions: Sequence[Action]) -> list[StoreRegion]:
        """Return the stores held back of bytes that actions load."""
        if not self.held:
            return []
        shared = self.network.reloaded
        loads = (action.region.value for action in actions if isinstance(action, LoadRegion))
        values = {other for value in loads for other in shared.get(value, ())}
        return [store for store in self.held if store.region.value in values]

    def _is_late(self, number: int) -> bool:
        """Return whether a layer's results are stored after the next sums are made."""
        layer = self.network.layers[number]
        stepped = isinstance(layer, DynamicProduct) and layer.stepped >= 0
        return stepped or number in self.placement.late

    def _independent(self, actions: Sequence[Action]) -> bool:
        """Return whether actions read nothing that late drains write."""
        writes = [self.areas.writes(a) for a in chain(*self.late)]
        reads = [area for action in actions for area in self.areas.reads(action)]
        return not any(w and w.meets(r) for w in writes for r in reads)

    def _drain(self) -> Iterator[Action]:
        """Yield the late drain of one tile."""
        for action in self.late.pop(0):
            if isinstance(action, StoreRegion) and self._is_late(action.layer):
                self.held.append(action)
                continue
            self._clock(action)
            yield action

    def _clock(self, action: Action) -> None:
        """Advance the clocks by an action."""
        if isinstance(action, (LoadRegion, StoreRegion, FillMargins)):
            self.pace.dispatch("vector")
            return
        self.pace.work(action, self._ready(self.areas.reads(action), self.pace.start(action)))
        area = self.areas.writes(action)
        if area:
            self.made.append((area, self.pace.vector + drain_latency(self.config)))


def _is_ready(layers: Sequence[list[Job]], done: Sequence[int], number: int) -> bool:
    """Return whether the next job of a layer has what it needs, and overwrites nothing needed."""
    if done[number] == len(layers[number]):
        return False
    job = layers[number][done[number]]
    needs = done[number - 1] if number else 0
    return job.needs <= needs and (not job.waits or job.waits <= done[number + 1])


def _last_writers(writers: dict[Area, int], reads: list[Area]) -> dict[Area, int]:
    """Return the last job that writes a byte of each area read, 0 if none does."""
    if not writers or not reads:
        return dict.fromkeys(reads, 0)
    values, spans = _bounds(list(writers))
    wanted, others = _bounds(reads)
    meet = values == wanted[:, None]
    for (low, high), (start, end) in zip(spans, others, strict=True):
        meet &= (low < end[:, None]) & (start[:, None] < high)
    last = (meet * np.array([*writers.values()])).max(axis=1)
    return dict(zip(reads, last.tolist(), strict=True))


def _bounds(areas: list[Area]) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of areas, and the limits of their axes, [3, 2, n]."""
    spans = np.array([area[1:4] for area in areas])
    return np.array([area.value for area in areas]), spans.transpose(1, 2, 0)
