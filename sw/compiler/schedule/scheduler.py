"""The order of work.

Order is all that matters for speed, since the units run side by side: blocks of a layer alternate
between the halves of the accumulators, so that one drains while the other fills; a layer starts on
what is there already; the next input loads while this one is computed.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from celosia.hw.arch.config import Config
from celosia.sw.compiler.layout.allocate import Placement
from celosia.sw.compiler.layout.strips import source_rows
from celosia.sw.compiler.layout.tile import Tiling
from celosia.sw.compiler.schedule.actions import (
    Action,
    AddRegion,
    Block,
    Drain,
    FillMargins,
    LoadRegion,
    Multiply,
    PoolRegion,
    StoreRegion,
    Strip,
)
from celosia.sw.compiler.schedule.blocks import Sizes, attached, blocks
from celosia.sw.compiler.schedule.cutting import GROUP, WHOLE, Cutting, Piece, Stages
from celosia.sw.compiler.schedule.interleave import Interleaver, Job
from celosia.sw.compiler.schedule.pace import drain_latency, sum_latency
from celosia.sw.compiler.spec import Network, Pooling, Product, Sum

__all__ = ["schedule"]

#: Longest reduction that the field ``taps`` can say.
_MOST_TAPS = (1 << 20) - 1
#: Output tiles that start on the channels of a band whose last drains are not over.
_BEHIND_BAND = 2


#: Parts of the margins of a value that are written while inputs come.
_MARGINS = 6

#: Sizes of jobs that are tried.
_SIZES = (
    Sizes(overlap=False),
    Sizes(),
    *(
        Sizes(band=band, group=group, slow=slow, eager=eager)
        for band, group, slow, eager in itertools.product((0, 300), (300, 450), (256,), (False, True))
    ),
)


def schedule(
    network: Network, tiling: Tiling, placement: Placement, config: Config
) -> list[Action]:
    """Return all work of one run of the program, in program order: the fastest that is found."""
    best: list[Action] = []
    least = 0
    for sizes in _SIZES if placement.overlap else _SIZES[:1]:
        scheduler = _Scheduler(network, tiling, placement, config, sizes)
        actions = list(scheduler.batch())
        if not best or scheduler.order.cycles < least:
            best, least = actions, scheduler.order.cycles
    return best


class _Scheduler(Cutting):
    def __init__(
        self,
        network: Network,
        tiling: Tiling,
        placement: Placement,
        config: Config,
        sizes: Sizes,
    ) -> None:
        super().__init__(network, tiling, placement, config)
        self.sizes = sizes
        self.latency = sum_latency(config) + drain_latency(config)
        self.order = Interleaver(network, tiling, placement, config, sizes.eager)
        # Rows of an image that come first, until a tile of what reads it has been multiplied.
        self.arriving = 0

    def batch(self) -> Iterator[Action]:
        """Yield the work of all parts: the head item by item, the tail for all of them."""
        head, count = self.placement.head, len(self.network.layers)
        for part, (first, items) in enumerate(self.placement.parts):
            for item in range(first, first + items) if head else ():
                yield from self.layers(range(head), part, (item, item + 1))
                # The next input may take the place of what is still to be written and stored.
                yield from self.order.flush()
            yield from self.layers(range(head, count), part, (first, first + items))
        yield from self.order.flush()

    def layers(self, numbers: range, part: int, items: tuple[int, int]) -> Iterator[Action]:
        """Yield the work of some layers; jobs of those that lie in the unified buffer take turns."""
        waiting: list[list[Job]] = []
        for number in numbers:
            strips = number in self.placement.strip_rows
            if number in self.placement.direct:
                jobs = self.passed_on(number, part, items)
            else:
                jobs = (self.in_strips if strips else self.layer)(number, part, items)
            waiting += [jobs] if jobs else []
            last = number + 1 == len(self.network.layers) or not self.joins(number + 1)
            if last and not self.overlaps(number):
                yield from self.order.order(waiting)
                waiting = []
                if strips or number + 1 in self.placement.strip_rows:
                    yield from self.order.flush()
        yield from self.order.order(waiting)

    def layer(self, number: int, part: int, items: tuple[int, int]) -> list[Job]:
        """Return the jobs of one layer."""
        layer = self.network.layers[number]
        if self.joins(number):
            return []
        before: list[Action] = []
        margins = list(self.margins(layer.result, part, items, number))
        if number + 1 < len(self.network.layers) and self.joins(number + 1):
            margins += self.margins(self.network.layers[number + 1].result, part, items, number)
        staged = False
        for value in dict.fromkeys(layer.sources):
            if not self.is_fresh(number, value, part, items):
                continue
            staged = isinstance(layer, Product) and self.is_vector(value)
            if not staged:
                before += self.load(number, value, part, items)
                if isinstance(layer, Product):
                    self.arriving = self.first_rows(value)
        before += self.prefetch(number, part, items)
        if isinstance(layer, Product):
            jobs = list(self.product(number, part, items, staged))
        else:
            height = self.network.values[layer.result].height
            jobs = list(self.vector_jobs(number, part, items, (0, height)))
            if number == self.network.makers(layer.result)[-1]:
                jobs[-1].drains[-1] += self.store(number, self.everything(layer.result, part, items))
        jobs[0].before[:0] = before
        if not any(isinstance(action, LoadRegion) for action in before):
            # The vector unit has time for it while the first sums are made.
            jobs[0].drains[0][:0] = margins
            return jobs
        # Inputs come meanwhile, which are not held up by a part of the margins after each job.
        pieces = list(chain(*(self.cut_margins(a) for a in margins)))
        for place, piece in enumerate(pieces):
            jobs[min(2 + place, len(jobs) - 1)].drains[0].insert(0, piece)
        return jobs

    def cut_margins(self, action: Action) -> Iterator[FillMargins]:
        """Yield the writing of margins some rows at a time."""
        assert isinstance(action, FillMargins)
        first, last = action.region.rows
        step = -(-(last - first) // _MARGINS)
        for row in range(first, last, step):
            rows = row, min(row + step, last)
            yield replace(action, region=replace(action.region, rows=rows))

    def joins(self, number: int) -> bool:
        """Whether a layer is done along with the one in front of it."""
        strips = self.placement.strip_rows
        return (
            attached(self.network, number)
            and self.tiling.layers[number - 1].band is None
            and number != self.placement.head
            and number not in strips
            and number - 1 not in strips
        )

    def cut(self, number: int) -> list[tuple[int, int]]:
        """Return the rows of its result that a layer makes at a time."""
        height = self.network.values[self.network.layers[number].result].height
        step = self.placement.strip_rows[number]
        return [(first, min(first + step, height)) for first in range(0, height, step)]

    def passed_on(self, number: int, part: int, items: tuple[int, int]) -> list[Job]:
        """Return the jobs of a layer whose result the next one reads from buffers, two in turn.

        Rows that two strips of the next layer read are drained into the buffers of both.
        """
        layer, after = self.network.layers[number], self.network.layers[number + 1]
        height = self.network.values[layer.result].height
        cut = self.cut(number + 1)
        readers = [len(list(self.strip(number + 1, part, items, rows))) for rows in cut]
        reads = [source_rows(after, rows) for rows in cut]
        buffers = [
            Strip(layer=number + 1, turn=turn % 2, first=first)
            for turn, (first, _) in enumerate(reads)
        ]
        found: list[Job] = []
        before: list[Action] = []
        for value in dict.fromkeys(layer.sources):
            if self.is_fresh(number, value, part, items):
                before += self.load(number, value, part, items)
        before += self.prefetch(number, part, items)
        before += self.fill(number, part, items, reads[0], buffers[0])
        done = max(reads[0][0], 0)
        for turn, (_, last) in enumerate(reads):
            last = min(last, height)
            more = buffers[turn + 1 : turn + 2]
            shared = max(done, min(reads[turn + 1][0], last)) if more else last
            for rows, strips in (((done, shared), 1), ((shared, last), 2)):
                jobs = self.strip(number, part, items, rows) if rows[0] < rows[1] else ()
                for job in jobs:
                    if strips == 2 and rows[0] == shared and more:
                        before += self.fill(number, part, items, reads[turn + 1], more[0])
                        more = []
                    job.before = before + job.before
                    before = []
                    job.waits = sum(readers[: max(0, turn + strips - 2)])
                    job.drains = [
                        [
                            replace(action, result=strip) if isinstance(action, Drain) else action
                            for strip in buffers[turn : turn + strips]
                            for action in drains
                        ]
                        for drains in job.drains
                    ]
                    found.append(job)
            if more:
                before += self.fill(number, part, items, reads[turn + 1], more[0])
            done = max(done, last)
        return found

    def fill(
        self,
        number: int,
        part: int,
        items: tuple[int, int],
        rows: tuple[int, int],
        strip: Strip,
    ) -> Iterator[Action]:
        """Yield the writing of the margins of a buffer."""
        value = self.network.layers[number].result
        if self.placement.layouts[value].margins:
            region = replace(self.everything(value, part, items), rows=rows, strip=strip)
            yield FillMargins(region=region, layer=number)

    def in_strips(self, number: int, part: int, items: tuple[int, int]) -> list[Job]:
        """Return the jobs of a layer that works on some rows at a time, with loads one strip ahead."""
        layer = self.network.layers[number]
        cut = self.cut(number)
        before: list[Action] = []
        if not self.placement.outside(layer.result):
            before += self.margins(layer.result, part, items, number)
        for value in dict.fromkeys(layer.sources):
            if self.is_fresh(number, value, part, items):
                before += self.load(number, value, part, items)
        turns = [self.placement.strips.get((source, number), (0,)) for source in layer.sources]
        ahead = max(len(addresses) for addresses in turns) - 1
        if ahead:
            before += self.load_strips(number, part, items, cut, 0)
        found: list[Job] = []
        for turn, rows in enumerate(cut):
            jobs = [self.passed(job, turn, rows) for job in self.strip(number, part, items, rows)]
            jobs[0].before += before
            jobs[0].before += self.load_strips(number, part, items, cut, turn + ahead)
            before = []
            result = self.buffer(layer.result, number, turn, rows[0])
            if result or self.network.values[layer.result].is_output:
                region = replace(self.everything(layer.result, part, items), rows=rows)
                region = replace(region, strip=result, channels=self.made(number))
                jobs[-1].drains[-1].append(StoreRegion(region=region, layer=number))
            found += jobs
        found[-1].drains[-1] += self.prefetch(number, part, items)
        return found

    def passed(self, job: Job, turn: int, rows: tuple[int, int]) -> Job:
        """Return a job on some rows of a result whose values pass through buffers."""
        first = next(action for action in chain(*job.tiles, *job.drains))
        assert isinstance(first, (Multiply, PoolRegion, AddRegion))
        number = first.layer
        layer = self.network.layers[number]
        start = source_rows(layer, rows)[0]
        sources = [self.buffer(value, number, turn, start) for value in layer.sources]
        result = self.buffer(layer.result, number, turn, rows[0])

        def changed(action: Action) -> Action:
            match action:
                case Multiply():
                    return replace(action, source=sources[0])
                case Drain():
                    return replace(action, result=result)
                case PoolRegion():
                    return replace(action, source=sources[0], result=result)
                case AddRegion():
                    return replace(action, sources=(sources[0], sources[1]), result=result)
                case _:
                    raise TypeError(action)

        return Job(
            before=job.before,
            tiles=[[replace(a, source=sources[0]) for a in tile] for tile in job.tiles],
            drains=[
                [changed(a) for a in drains if not isinstance(a, StoreRegion)]
                for drains in job.drains
            ],
        )

    def made(self, number: int) -> tuple[int, int] | None:
        """Return the channels of its result that a layer makes, if not all."""
        layer = self.network.layers[number]
        if isinstance(layer, Sum) or len(self.network.makers(layer.result)) == 1:
            return None
        product = isinstance(layer, Product)
        count = layer.channels if product else self.network.values[layer.source].channels
        return layer.first, layer.first + count

    def strip(
        self, number: int, part: int, items: tuple[int, int], rows: tuple[int, int]
    ) -> Iterator[Job]:
        """Yield the work on some rows of a layer's result."""
        layer = self.network.layers[number]
        if not isinstance(layer, Product):
            yield from self.vector_jobs(number, part, items, rows)
            return
        wanted = self.wanted(number)
        for block in blocks(layer, items, self.config, rows, wanted=wanted):
            yield from self.tiles(number, part, block, WHOLE, False)

    def vector_jobs(
        self, number: int, part: int, items: tuple[int, int], rows: tuple[int, int]
    ) -> Iterator[Job]:
        """Yield the work on some rows of the result of a layer without weights."""
        layer = self.network.layers[number]
        assert not isinstance(layer, Product)
        if isinstance(layer, Sum):
            for block in blocks(layer, items, self.config, rows):
                for tile in range(-(-layer.channels // self.config.columns)):
                    yield Job(drains=[list(self.add(number, part, block, tile, 0))])
            return
        for windows, about in enumerate(layer.windows):
            first = max(rows[0], about.result[0])
            last = min(rows[1], about.result[0] + about.count[0])
            if first < last:
                action = PoolRegion(
                    part=part, items=items, layer=number, windows=windows, rows=(first, last)
                )
                yield Job(drains=[[action]])

    def add(self, number: int, part: int, block: Block, tile: int, row: int) -> Iterator[Action]:
        """Yield the sum of two values, for a block and an output tile."""
        for step in range(3):
            yield AddRegion(
                block=block,
                part=part,
                layer=number,
                tile=tile,
                step=step,
                half=0,
                accumulator=row,
            )

    def product(
        self, number: int, part: int, items: tuple[int, int], loads: bool
    ) -> Iterator[Job]:
        """Yield the work of a product, in blocks that the accumulators hold."""
        layer = self.network.layers[number]
        assert isinstance(layer, Product)
        tiled = self.tiling.layers[number]
        cut = self.blocks(number, items)
        before: list[Action] = []
        if loads and len({block.items for block in cut}) < len(cut):
            before = list(self.load(number, layer.source, part, items))
            loads = False
        if tiled.streams and not loads and len(cut) > 1 and tiled.turns:
            # One fetch of a tile serves all blocks.
            together = min(self.together(number, block) for block in cut)
            jobs = [
                job
                for tile in range(0, tiled.tiles, together)
                for block in cut
                for job in self.group(
                    number,
                    part,
                    block,
                    range(tile, min(tile + together, tiled.tiles)),
                    WHOLE,
                    False,
                )
            ]
        else:
            jobs = []
            for place, block in enumerate(cut):
                first = place == 0
                stages = self.stages(number, block, loads) if first else WHOLE
                jobs += self.tiles(number, part, block, stages, loads and first)
                if first and loads and len(cut) > 1:
                    rest = self.everything(layer.source, part, (block.items[1], items[1]))
                    before = [LoadRegion(region=rest, layer=number)]
        jobs[0].before += before
        yield from jobs

    def tiles(
        self, number: int, part: int, block: Block, stages: Stages, loads: bool
    ) -> Iterator[Job]:
        """Yield one pass over the output tiles; the first group of them goes stage by stage."""
        tiles = self.tiling.layers[number].tiles
        together = self.together(number, block)
        first = min(tiles, together)
        if len(stages) > 1 and (loads or self.band_before(number)):
            most = GROUP if loads else max(together, _BEHIND_BAND)
            first = min(tiles, most, self.config.accumulator_depth // self.rows(number, block))
        yield from self.group(number, part, block, range(first), stages, loads)
        for tile in range(first, tiles, together):
            group = range(tile, min(tile + together, tiles))
            yield from self.group(number, part, block, group, WHOLE, False)

    def group(
        self, number: int, part: int, block: Block, tiles: range, stages: Stages, loads: bool
    ) -> Iterator[Job]:
        """Yield the job of output tiles that share a half of the accumulators."""
        rows = self.rows(number, block)
        job = Job(put_off=self.tiling.layers[number].band is not None)
        if loads:
            job.before += self.stage_loads(number, part, block, stages)
        for stage in stages:
            for offset, tile in enumerate(tiles):
                parts = self.arrivals(number, block, self.arriving)
                self.arriving = 0
                work: list[Multiply] = []
                for some, row in parts:
                    for piece in [stage] if stage else self.all_steps(number, tile):
                        work += self.multiply(number, part, some, tile, piece, offset * rows + row)
                job.tiles.append(work)
        job.drains = [
            list(self.drain(number, part, block, tile, offset * rows))
            for offset, tile in enumerate(tiles)
        ]
        yield job

    def multiply(
        self, number: int, part: int, block: Block, tile: int, piece: Piece, row: int
    ) -> Iterator[Multiply]:
        """Yield reduction steps of a tile, as many as an instruction may have at a time."""
        most = _MOST_TAPS // self.config.rows
        for first in range(piece.first, piece.last, most):
            yield Multiply(
                block=block,
                part=part,
                layer=number,
                tile=tile,
                segment=piece.segment,
                first_step=first,
                last_step=min(first + most, piece.last),
                half=0,
                accumulator=row,
                accumulate=piece.segment > 0 or first > 0,
            )

    def drain(self, number: int, part: int, block: Block, tile: int, row: int) -> Iterator[Action]:
        """Yield the drain of a tile, then stores of what is complete."""
        layer = self.network.layers[number]
        assert isinstance(layer, Product)
        yield Drain(
            block=block, part=part, layer=number, tile=tile, half=0, accumulator=row
        )
        if number + 1 < len(self.network.layers) and self.joins(number + 1):
            yield from self.add(number + 1, part, block, tile, row)
            yield from self.stores(number + 1, part, block, tile)
        yield from self.stores(number, part, block, tile)

    def stores(self, number: int, part: int, block: Block, tile: int) -> Iterator[Action]:
        """Yield stores of what is complete of a layer's result with one more tile of a block."""
        layer = self.network.layers[number]
        assert not isinstance(layer, Pooling)
        value = self.network.values[layer.result]
        if not value.is_output or number != self.network.makers(layer.result)[-1]:
            return
        tiled = self.tiling.layers[number]
        tiles = -(-layer.channels // tiled.channels)
        alone = len(self.network.makers(layer.result)) == 1
        if (value.height, value.width) == (1, 1) and alone:
            stops = _stores(layer, block.extents[0], self.config.columns)
            if tile in stops:
                place = stops.index(tile)
                first = (stops[place - 1] + 1) * self.config.columns if place else 0
                last = min((tile + 1) * self.config.columns, layer.channels)
                region = self.everything(layer.result, part, block.items)
                yield StoreRegion(region=replace(region, columns=(first, last)), layer=number)
        elif tile == tiles - 1 and block.columns[1] == layer.output[1]:
            region = self.everything(layer.result, part, block.items)
            yield from self.store(number, replace(region, rows=block.rows))


def _stores(layer: Product | Sum, rows: int, columns: int) -> list[int]:
    """Return the output tiles after which a result is stored.

    Pieces are wide enough for bursts, and little is left after the last drain.
    """
    tiles = -(-layer.channels // columns)
    wide = -(-64 // columns)
    pieces = range(wide - 1, tiles - 1, wide) if rows > 1 else range(0)
    return [*pieces, tiles - 1]
