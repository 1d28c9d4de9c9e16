"""The order of actions.

Only the order matters for speed, because the units work at the same time. Blocks of a layer
alternate between the halves of the accumulators, so that one drains while the other fills. A layer
starts on the results that are complete. The next input loads while this one is computed.
"""

from collections.abc import Iterator
from functools import cache
from itertools import chain

from celosia.sw.compiler import policy
from celosia.sw.compiler.layout.placement import Arranged, Arrangement
from celosia.sw.compiler.schedule.actions import Action, FillMargins, LoadRegion
from celosia.sw.compiler.schedule.areas import Areas
from celosia.sw.compiler.schedule.dynamic_jobs import DynamicJobs
from celosia.sw.compiler.schedule.interleave import Interleaver, Job
from celosia.sw.compiler.schedule.jobs import Jobs
from celosia.sw.compiler.schedule.movement import Movement
from celosia.sw.compiler.schedule.stripes import Stripes
from celosia.sw.compiler.schedule.tiling import BlockTiling
from celosia.sw.layers.spec import DynamicProduct, MatrixLayer, Range


def schedule(about: Arrangement) -> list[Action]:
    """Return all actions of one run of the program, in program order.

    Layers that can overlap do so if that is faster than few large jobs, one layer after another.
    """
    found, scheduler = list[tuple[int, list[Action]]](), _Scheduler(about)
    for overlap in (False, True) if about.placement.overlap else (False,):
        actions = list(scheduler.batch(overlap))
        found.append((scheduler.order.cycles, actions))
    return min(found, key=lambda one: one[0])[1]


class _Scheduler(Arranged):
    """The order of actions, with layers that overlap or one after another."""

    def __init__(self, about: Arrangement) -> None:
        super().__init__(about)
        self.areas = Areas(about)
        self.moves = Movement(about)
        self.all_jobs = [Jobs(self.moves, BlockTiling(self.moves, each)) for each in (False, True)]
        self.chain = cache(self._chain)

    def batch(self, overlap: bool) -> Iterator[Action]:
        """Yield all actions: the per-image layers by sample, the batched layers by sub-batch."""
        self.jobs = self.all_jobs[overlap]
        self.block_tiling, self.order = self.jobs.block_tiling, Interleaver(self.areas)
        per_image, count = self.placement.per_image, len(self.network.layers)
        for sub_batch, (first, samples) in enumerate(self.placement.sub_batches):
            for sample in range(first, first + samples) if per_image else ():
                yield from self.layers(range(per_image), sub_batch, (sample, sample + 1))
                # The next input may overwrite values still to be written and stored.
                yield from self.order.flush()
            yield from self.layers(range(per_image, count), sub_batch, (first, first + samples))
        yield from self.order.end()

    def layers(self, numbers: range, sub_batch: int, samples: Range) -> Iterator[Action]:
        """Yield the actions of some layers; jobs of those in the unified buffer take turns."""
        waiting: list[list[Job]] = []
        direct, first = self.placement.direct, numbers.start
        for number in numbers:
            stripes = number in self.placement.stripe_rows
            if number in direct:
                continue
            if stripes:
                yield from self.order.end()
                numbers = range(first, number + 1)
                actions, self.order.half = self.chain(numbers, sub_batch, samples, self.order.half)
                yield from actions
                first = number + 1
                continue
            jobs = self.layer(number, sub_batch, samples)
            waiting += [jobs] if jobs else []
            first = number + 1
            last = number + 1 == len(self.network.layers) or not self.jobs.joins(number + 1)
            if last and not self.block_tiling.overlaps(number):
                yield from self.order.order(waiting)
                waiting = []
        yield from self.order.order(waiting)

    def _chain(
        self, numbers: range, sub_batch: int, samples: Range, half: int
    ) -> tuple[list[Action], int]:
        """Return the actions of a chain, with large or small jobs, whichever take less time.

        ``half``: of the accumulators that it fills first. Returns the one that is filled next, too.
        """
        found: list[tuple[int, list[Action], int]] = []
        for jobs in self.all_jobs:
            order, stripes = Interleaver(self.areas), Stripes(self.moves, jobs)
            order.half = half
            layers = stripes.chain(numbers, sub_batch, samples)
            actions = [*order.order(layers, chain=True), *order.flush()]
            found.append((order.cycles, actions, order.half))
        return min(found, key=lambda one: one[0])[1:]

    def layer(self, number: int, sub_batch: int, samples: Range) -> list[Job]:
        """Return the jobs of one layer."""
        layer = self.network.layers[number]
        if self.jobs.joins(number):
            return []
        before: list[Action] = []
        early: list[Action] = []
        for value in self.moves.early[number]:
            if self.moves.is_fresh(number, value, sub_batch, samples):
                early += self.moves.load(number, value, sub_batch, samples)
        margins = list(self.moves.margins(layer.result, sub_batch, samples, number))
        if number + 1 < len(self.network.layers) and self.jobs.joins(number + 1):
            margins += self.moves.margins(
                self.network.layers[number + 1].result, sub_batch, samples, number
            )
        staged = False
        for value in dict.fromkeys(layer.sources):
            if not self.moves.is_fresh(number, value, sub_batch, samples):
                continue
            staged = isinstance(layer, MatrixLayer) and self.moves.is_vector(value)
            if not staged:
                before += self.moves.load(number, value, sub_batch, samples)
                if isinstance(layer, MatrixLayer):
                    self.jobs.arriving = self.moves.first_rows(value)
        before += self.moves.prefetch(number, sub_batch, samples)
        jobs = self.jobs_of(number, sub_batch, samples, staged)
        jobs[0].before[:0] = before
        jobs[-1].before += early
        if not any(isinstance(action, LoadRegion) for action in before):
            # The vector unit is idle while the first sums are made.
            jobs[0].drains[0][:0] = margins
            return jobs
        # Inputs arrive meanwhile: some margins after each job do not delay them.
        fills = list(chain(*(self.split_margins(a) for a in margins)))
        for index, fill in enumerate(fills):
            jobs[min(2 + index, len(jobs) - 1)].drains[0].insert(0, fill)
        return jobs

    def jobs_of(self, number: int, sub_batch: int, samples: Range, staged: bool) -> list[Job]:
        """Return the jobs of one layer; ``staged`` if those of a matrix layer load its source."""
        layer = self.network.layers[number]
        if isinstance(layer, MatrixLayer):
            return list(self.jobs.product(number, sub_batch, samples, staged))
        if isinstance(layer, DynamicProduct):
            return list(DynamicJobs(self.moves, number, sub_batch).jobs(samples))
        height = self.network.values[layer.result].height
        jobs = list(self.jobs.vector_jobs(number, sub_batch, samples, (0, height)))
        if number == self.network.makers[layer.result][-1]:
            jobs[-1].drains[-1] += self.moves.store(
                number, self.moves.everything(layer.result, sub_batch, samples)
            )
        return jobs

    def split_margins(self, action: Action) -> Iterator[FillMargins]:
        """Yield the filling of margins some rows at a time."""
        assert isinstance(action, FillMargins)
        first, last = action.region.rows
        step = -(-(last - first) // policy.MARGIN_FILLS)
        for row in range(first, last, step):
            rows = row, min(row + step, last)
            yield action._replace(region=action.region._replace(rows=rows))
