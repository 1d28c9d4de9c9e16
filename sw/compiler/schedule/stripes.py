"""Jobs of layers that compute row stripes of values too large for the unified buffer."""

from collections.abc import Iterator
from itertools import chain

from celosia.sw.compiler.layout.placement import Arranged
from celosia.sw.compiler.layout.stripes import source_rows
from celosia.sw.compiler.schedule.actions import (
    Action,
    AddRegion,
    Drain,
    FillMargins,
    Multiply,
    PoolRegion,
    StoreRegion,
    Stripe,
)
from celosia.sw.compiler.schedule.interleave import Job
from celosia.sw.compiler.schedule.jobs import Jobs
from celosia.sw.compiler.schedule.movement import Movement
from celosia.sw.layers.spec import Range


class Stripes(Arranged):
    """Jobs of layers whose values pass through buffers, some rows at a time.

    ``moves``, ``jobs``: loads of the program, and jobs of layers.
    """

    def __init__(self, moves: Movement, jobs: Jobs) -> None:
        super().__init__(moves.about)
        self.moves = moves
        self.jobs = jobs

    def cut(self, number: int) -> list[tuple[int, int]]:
        """Return the row stripes in which a layer makes its result."""
        height = self.network.values[self.network.layers[number].result].height
        step = self.placement.stripe_rows[number]
        return [(first, min(first + step, height)) for first in range(0, height, step)]

    def passed_on(self, number: int, sub_batch: int, samples: Range) -> list[Job]:
        """Return the jobs of a layer whose result the next one reads from two buffers in turn.

        Rows that two stripes of the next layer read are drained into the buffers of both. Rows
        between two stripes are not computed.
        """
        layer, after = self.network.layers[number], self.network.layers[number + 1]
        height = self.network.values[layer.result].height
        cut = self.cut(number + 1)
        readers = [
            len(list(self.jobs.stripe(number + 1, sub_batch, samples, rows))) for rows in cut
        ]
        reads = [source_rows(after, rows) for rows in cut]
        buffers = [
            Stripe(layer=number + 1, turn=turn % 2, first=first)
            for turn, (first, _) in enumerate(reads)
        ]
        found: list[Job] = []
        before: list[Action] = []
        for value in dict.fromkeys(layer.sources):
            if self.moves.is_fresh(number, value, sub_batch, samples):
                before += self.moves.load(number, value, sub_batch, samples)
        before += self.moves.prefetch(number, sub_batch, samples)
        before += self.fill(number, sub_batch, samples, reads[0], buffers[0])
        done = 0
        for turn, (first, last) in enumerate(reads):
            done, last = max(done, first), min(last, height)
            more = buffers[turn + 1 : turn + 2]
            shared = max(done, min(reads[turn + 1][0], last)) if more else last
            for rows, stripes in (((done, shared), 1), ((shared, last), 2)):
                jobs = (
                    self.jobs.stripe(number, sub_batch, samples, rows) if rows[0] < rows[1] else ()
                )
                for job in jobs:
                    if stripes == 2 and rows[0] == shared and more:
                        before += self.fill(number, sub_batch, samples, reads[turn + 1], more[0])
                        more = []
                    job.before = before + job.before
                    before = []
                    job.waits = sum(readers[: max(0, turn + stripes - 2)])
                    job.drains = [
                        [
                            action._replace(result=stripe) if isinstance(action, Drain) else action
                            for stripe in buffers[turn : turn + stripes]
                            for action in drains
                        ]
                        for drains in job.drains
                    ]
                    found.append(job)
            if more:
                before += self.fill(number, sub_batch, samples, reads[turn + 1], more[0])
            done = max(done, last)
        return found

    def fill(
        self, number: int, sub_batch: int, samples: Range, rows: Range, stripe: Stripe
    ) -> Iterator[Action]:
        """Yield the filling of the margins of a buffer."""
        value = self.network.layers[number].result
        layout = self.placement.layouts[value]
        if layout.margins or layout.beyond:
            region = self.moves.everything(value, sub_batch, samples)._replace(
                rows=rows, stripe=stripe
            )
            yield FillMargins(region=region, layer=number)

    def in_stripes(self, number: int, sub_batch: int, samples: Range) -> list[Job]:
        """Return the jobs of a layer by stripes, with loads one stripe ahead."""
        layer = self.network.layers[number]
        cut = self.cut(number)
        before: list[Action] = []
        if not self.placement.outside(layer.result):
            before += self.moves.margins(layer.result, sub_batch, samples, number)
        for value in dict.fromkeys(layer.sources):
            if self.moves.is_fresh(number, value, sub_batch, samples):
                before += self.moves.load(number, value, sub_batch, samples)
        turns = [self.placement.stripes.get((source, number), (0,)) for source in layer.sources]
        ahead = max(len(addresses) for addresses in turns) - 1
        if ahead:
            before += self.moves.load_stripe(number, sub_batch, samples, cut, 0)
        found: list[Job] = []
        for turn, rows in enumerate(cut):
            jobs = [
                self.passed(job, turn, rows)
                for job in self.jobs.stripe(number, sub_batch, samples, rows)
            ]
            jobs[0].before += before
            jobs[0].before += self.moves.load_stripe(number, sub_batch, samples, cut, turn + ahead)
            before = []
            result = self.moves.buffer(layer.result, number, turn, rows[0])
            region = self.moves.everything(layer.result, sub_batch, samples)._replace(rows=rows)
            if result:
                region = region._replace(stripe=result, channels=self.jobs.made(number))
            # The last layer that makes a value in the unified buffer stores it.
            if result or self.jobs.completes(number):
                jobs[-1].drains[-1].append(StoreRegion(region=region, layer=number))
            found += jobs
        found[-1].drains[-1] += self.moves.prefetch(number, sub_batch, samples)
        return found

    def passed(self, job: Job, turn: int, rows: Range) -> Job:
        """Return a job on some rows of a result whose values pass through buffers."""
        first = next(action for action in chain(*job.tiles, *job.drains))
        assert isinstance(first, (Multiply, PoolRegion, AddRegion))
        number = first.layer
        layer = self.network.layers[number]
        start = source_rows(layer, rows)[0]
        sources = [self.moves.buffer(value, number, turn, start) for value in layer.sources]
        result = self.moves.buffer(layer.result, number, turn, rows[0])

        def changed(action: Action) -> Action:
            match action:
                case Multiply():
                    return action._replace(source=sources[0])
                case Drain():
                    return action._replace(result=result)
                case PoolRegion():
                    return action._replace(source=sources[0], result=result)
                case AddRegion():
                    return action._replace(sources=(sources[0], sources[1]), result=result)
                case _:
                    raise TypeError(action)

        return Job(
            before=job.before,
            tiles=[[a._replace(source=sources[0]) for a in tile] for tile in job.tiles],
            drains=[
                [changed(a) for a in drains if not isinstance(a, StoreRegion)]
                for drains in job.drains
            ],
            late=job.late,
        )
