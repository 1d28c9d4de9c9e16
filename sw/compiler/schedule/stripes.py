"""Jobs of layers that compute row stripes of values too large for the unified buffer."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain

from celosia.sw.compiler.layout.placement import Arranged
from celosia.sw.compiler.layout.stripes import rows_after, source_rows
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

    def chain(self, numbers: Sequence[int], sub_batch: int, samples: Range) -> list[list[Job]]:
        """Return the jobs of each layer of a chain.

        A layer begins a turn when the layer before has ended it, and writes rows of a lap when the
        next layer has read those of the lap before.
        """
        layers = [list(self.turns(number, sub_batch, samples)) for number in numbers]
        ends = [list(accumulate(map(len, turns))) for turns in layers]
        for index, number in enumerate(numbers):
            passed = self.placement.direct.get(number)
            value = self.network.layers[number].result
            layout = self.placement.layouts[value]
            for turn, jobs in enumerate(layers[index]):
                for job in jobs:
                    job.needs = ends[index - 1][turn] if index else 0
                    if passed:
                        more = rows_after(layout, layout.spare)
                        free = passed.waits(turn, passed.made[turn], more)
                        job.waits = ends[index + 1][free - 1] if free else 0
        return [list(chain(*turns)) for turns in layers]

    def turns(self, number: int, sub_batch: int, samples: Range) -> Iterator[list[Job]]:
        """Yield the jobs of each turn of a layer, with loads one turn ahead."""
        layer = self.network.layers[number]
        cut = self.placement.cut(self.network, number)
        passed = self.placement.direct.get(number)
        before: list[Action] = []
        if not self.placement.outside(layer.result):
            before += self.moves.margins(layer.result, sub_batch, samples, number)
        for value in dict.fromkeys(layer.sources):
            if self.moves.is_fresh(number, value, sub_batch, samples):
                before += self.moves.load(number, value, sub_batch, samples)
        counts = [
            len(self.placement.stripes.get((source, number), (0,)))
            for source in layer.sources
            if not self.passage(source)
        ]
        ahead = max([1, *counts]) - 1
        if ahead:
            before += self.moves.load_stripe(number, sub_batch, samples, cut, 0)
        for turn, rows in enumerate(cut):
            before += self.fills(number, sub_batch, samples, turn)
            before += self.moves.load_stripe(number, sub_batch, samples, cut, turn + ahead)
            if rows[0] == rows[1]:
                yield []
                continue
            jobs: list[Job] = []
            if passed:
                lap = min(max(passed.first(turn + passed.period), rows[0]), rows[1])
                buffers = [
                    Stripe(number + 1, 0, passed.first(n)) for n in (turn, turn + passed.period)
                ]
                for some, count in (((rows[0], lap), 1), ((lap, rows[1]), 2)):
                    if some[0] < some[1]:
                        jobs += self.some(number, sub_batch, samples, turn, some, buffers[:count])
            else:
                result = self.moves.buffer(layer.result, number, turn, rows[0])
                jobs += self.some(number, sub_batch, samples, turn, rows, [result])
                region = self.moves.everything(layer.result, sub_batch, samples)
                region = region._replace(rows=rows)
                if result:
                    region = region._replace(stripe=result, channels=self.jobs.made(number))
                # The last layer that makes a value in the unified buffer stores it.
                if result or self.jobs.completes(number):
                    jobs[-1].drains[-1].append(StoreRegion(region=region, layer=number))
            jobs[0].before[:0] = before
            before = []
            if rows[1] == cut[-1][1]:
                jobs[-1].drains[-1] += self.moves.prefetch(number, sub_batch, samples)
            yield jobs

    def fills(self, number: int, sub_batch: int, samples: Range, turn: int) -> Iterator[Action]:
        """Yield the filling of margins of rows that pass to the next layer.

        If the layer makes no rows in a turn, the next layer fills them.
        """
        for maker in (number, number - 1):
            passed = self.placement.direct.get(maker)
            if passed is None or (passed.made[turn][0] < passed.made[turn][1]) != (maker == number):
                continue
            value = self.network.layers[maker].result
            layout, rows = self.placement.layouts[value], passed.entering(turn)
            if (layout.margins or layout.beyond) and rows[0] < rows[1]:
                region = self.moves.everything(value, sub_batch, samples)
                stripe = Stripe(maker + 1, 0, passed.first(turn))
                region = region._replace(rows=rows, stripe=stripe)
                yield FillMargins(region=region, layer=maker)

    def some(
        self,
        number: int,
        sub_batch: int,
        samples: Range,
        turn: int,
        rows: Range,
        results: Sequence[Stripe | None],
    ) -> Iterator[Job]:
        """Yield the jobs on some rows of a turn, written to each of some buffers."""
        layer = self.network.layers[number]
        start = source_rows(layer, self.placement.cut(self.network, number)[turn])[0]
        sources = [self.moves.buffer(value, number, turn, start) for value in layer.sources]

        def changed(action: Action) -> list[Action]:
            match action:
                case Drain():
                    return [action._replace(result=result) for result in results]
                case PoolRegion():
                    return [action._replace(source=sources[0], result=r) for r in results]
                case AddRegion():
                    ends = results if action.step == 2 else results[:1]
                    pair = sources[0], sources[1]
                    return [action._replace(sources=pair, result=result) for result in ends]
                case StoreRegion():
                    return []
                case _:
                    raise TypeError(action)

        for job in self.jobs.stripe(number, sub_batch, samples, rows):
            for tile in job.tiles:
                assert all(isinstance(action, Multiply) for action in tile)
                tile[:] = [action._replace(source=sources[0]) for action in tile]
            job.drains = [list(chain(*map(changed, drains))) for drains in job.drains]
            yield job
