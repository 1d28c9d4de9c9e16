"""The jobs of one layer: each fills and drains a half of the accumulators."""

from collections.abc import Iterator

from celosia.sw.compiler import policy
from celosia.sw.compiler.layout.placement import Arranged
from celosia.sw.compiler.schedule.actions import (
    Action,
    AddRegion,
    Block,
    Drain,
    LoadRegion,
    Multiply,
    Passes,
    PoolRegion,
    StoreRegion,
)
from celosia.sw.compiler.schedule.blocks import blocks
from celosia.sw.compiler.schedule.interleave import Job
from celosia.sw.compiler.schedule.movement import Movement
from celosia.sw.compiler.schedule.tiling import WHOLE, BlockTiling, Stages, StepRange
from celosia.sw.layers.network import attached
from celosia.sw.layers.spec import MatrixLayer, Pooling, Range, Sum

#: Longest reduction that the field ``taps`` can hold.
_MOST_TAPS = (1 << 20) - 1


class Jobs(Arranged):
    """Jobs of layers.

    ``moves``, ``block_tiling``: loads of the program; blocks and stages of its matrix layers.
    """

    def __init__(self, moves: Movement, block_tiling: BlockTiling) -> None:
        super().__init__(moves.about)
        self.moves = moves
        self.block_tiling = block_tiling
        # Rows of an image that come first, until its reader has multiplied one tile.
        self.arriving = 0

    def joins(self, number: int) -> bool:
        """Return whether a layer runs jointly with the layer before it."""
        in_turns = self.placement.in_turns
        return (
            attached(self.network, number)
            and self.tiling.layers[number - 1].band is None
            and number != self.placement.per_image
            and in_turns.isdisjoint((number - 1, number))
        )

    def vector_jobs(
        self, number: int, sub_batch: int, samples: Range, rows: Range
    ) -> Iterator[Job]:
        """Yield the jobs of some rows of the result of a layer without weights."""
        layer = self.network.layers[number]
        assert isinstance(layer, Pooling | Sum)
        if isinstance(layer, Sum):
            for block in blocks(layer, samples, self.config, rows):
                for tile in range(-(-layer.channels // self.config.columns)):
                    yield Job(drains=[list(self.add(number, sub_batch, block, tile, 0))])
            return
        for windows, about in enumerate(layer.windows):
            first = max(rows[0], about.result[0])
            last = min(rows[1], about.result[0] + about.count[0])
            if first < last:
                action = PoolRegion(
                    sub_batch=sub_batch,
                    samples=samples,
                    layer=number,
                    windows=windows,
                    rows=(first, last),
                )
                yield Job(drains=[[action]])

    def stripe(self, number: int, sub_batch: int, samples: Range, rows: Range) -> Iterator[Job]:
        """Yield the jobs of some rows of a layer's result."""
        layer = self.network.layers[number]
        if not isinstance(layer, MatrixLayer):
            yield from self.vector_jobs(number, sub_batch, samples, rows)
            return
        for block in self.block_tiling.blocks(number, samples, rows):
            yield from self.tiles(number, sub_batch, block, WHOLE, False)

    def add(
        self, number: int, sub_batch: int, block: Block, tile: int, row: int
    ) -> Iterator[Action]:
        """Yield the sum of two values, for a block and an output tile."""
        for step in range(3):
            yield AddRegion(
                block=block,
                sub_batch=sub_batch,
                layer=number,
                tile=tile,
                step=step,
                half=0,
                accumulator=row,
            )

    def product(self, number: int, sub_batch: int, samples: Range, loads: bool) -> Iterator[Job]:
        """Yield the jobs of a matrix layer, by blocks that the accumulators hold."""
        layer = self.network.product(number)
        tiled = self.tiling.layers[number]
        cut = self.block_tiling.blocks(number, samples)
        before: list[Action] = []
        if loads and len({block.samples for block in cut}) < len(cut):
            before = list(self.moves.load(number, layer.source, sub_batch, samples))
            loads = False
        if tiled.streams and not loads and len(cut) > 1 and tiled.turns:
            # One fetch of a tile serves all blocks.
            in_flight = min(self.block_tiling.tiles_in_flight(number, block) for block in cut)
            jobs = [
                job
                for tile in range(0, tiled.tiles, in_flight)
                for block in cut
                for job in self.group(
                    number,
                    sub_batch,
                    block,
                    range(tile, min(tile + in_flight, tiled.tiles)),
                    WHOLE,
                    False,
                )
            ]
        else:
            jobs = []
            for index, block in enumerate(cut):
                first = index == 0
                stages = self.block_tiling.stages(number, block, loads) if first else WHOLE
                jobs += self.tiles(number, sub_batch, block, stages, loads and first)
                if first and loads and len(cut) > 1:
                    rest = self.moves.everything(
                        layer.source, sub_batch, (block.samples[1], samples[1])
                    )
                    before = [LoadRegion(region=rest, layer=number)]
        jobs[0].before += before
        yield from jobs

    def tiles(
        self, number: int, sub_batch: int, block: Block, stages: Stages, loads: bool
    ) -> Iterator[Job]:
        """Yield one pass over the output tiles; the first group of them goes stage by stage."""
        tiles = self.tiling.layers[number].tiles
        in_flight = min(tiles, self.block_tiling.tiles_in_flight(number, block))
        if stages is WHOLE:
            in_flight = -(-tiles // -(-tiles // in_flight))
        first = in_flight
        if len(stages) > 1 and (loads or self.block_tiling.band_before(number)):
            most = policy.ARRIVING_TILES if loads else max(in_flight, policy.AFTER_BAND)
            first = min(
                tiles, most, self.config.accumulator_depth // self.block_tiling.rows(number, block)
            )
        yield from self.group(number, sub_batch, block, range(first), stages, loads)
        for tile in range(first, tiles, in_flight):
            group = range(tile, min(tile + in_flight, tiles))
            yield from self.group(number, sub_batch, block, group, WHOLE, False)

    def group(
        self, number: int, sub_batch: int, block: Block, tiles: range, stages: Stages, loads: bool
    ) -> Iterator[Job]:
        """Yield the job of output tiles that share a half of the accumulators."""
        rows = self.block_tiling.rows(number, block)
        job = Job(late=self.tiling.layers[number].band is not None)
        if loads:
            job.before += self.block_tiling.stage_loads(number, sub_batch, block, stages)
        for stage in stages:
            for offset, tile in enumerate(tiles):
                arrivals = self.block_tiling.arrivals(number, block, self.arriving)
                self.arriving = 0
                work: Passes = []
                for some, row in arrivals:
                    for steps in [stage] if stage else self.block_tiling.all_steps(number, tile):
                        work += self.multiply(
                            number, sub_batch, some, tile, steps, offset * rows + row
                        )
                job.tiles.append(work)
        job.drains = [
            list(self.drain(number, sub_batch, block, tile, offset * rows))
            for offset, tile in enumerate(tiles)
        ]
        yield job

    def multiply(
        self, number: int, sub_batch: int, block: Block, tile: int, steps: StepRange, row: int
    ) -> Iterator[Multiply]:
        """Yield reduction steps of a tile, as many as one instruction may have."""
        most = _MOST_TAPS // self.config.rows
        for first in range(steps.first, steps.last, most):
            yield Multiply(
                block=block,
                sub_batch=sub_batch,
                layer=number,
                tile=tile,
                segment=steps.segment,
                first_step=first,
                last_step=min(first + most, steps.last),
                half=0,
                accumulator=row,
                accumulate=steps.segment > 0 or first > 0,
            )

    def drain(
        self, number: int, sub_batch: int, block: Block, tile: int, row: int
    ) -> Iterator[Action]:
        """Yield the drain of a tile, then stores of complete results."""
        yield Drain(
            block=block, sub_batch=sub_batch, layer=number, tile=tile, half=0, accumulator=row
        )
        if number + 1 < len(self.network.layers) and self.joins(number + 1):
            yield from self.add(number + 1, sub_batch, block, tile, row)
            yield from self.stores(number + 1, sub_batch, block, tile)
        yield from self.stores(number, sub_batch, block, tile)

    def stores(self, number: int, sub_batch: int, block: Block, tile: int) -> Iterator[Action]:
        """Yield stores of the results that one more tile of a block completes."""
        layer = self.network.layers[number]
        assert isinstance(layer, MatrixLayer | Sum)
        value = self.network.values[layer.result]
        if not self.completes(number):
            return
        tiled = self.tiling.layers[number]
        tiles = -(-layer.channels // tiled.channels)
        alone = len(self.network.makers[layer.result]) == 1
        if (value.height, value.width) == (1, 1) and alone:
            stops = _stores(layer, block.extents[0], self.config.columns)
            if tile in stops:
                index = stops.index(tile)
                first = (stops[index - 1] + 1) * self.config.columns if index else 0
                last = min((tile + 1) * self.config.columns, layer.channels)
                region = self.moves.everything(layer.result, sub_batch, block.samples)
                yield StoreRegion(region=region._replace(columns=(first, last)), layer=number)
        elif tile == tiles - 1 and block.columns[1] == layer.output[1]:
            region = self.moves.everything(layer.result, sub_batch, block.samples)
            yield from self.moves.store(number, region._replace(rows=block.rows))

    def completes(self, number: int) -> bool:
        """Return whether a layer is the last one that makes an output."""
        result = self.network.layers[number].result
        return self.network.values[result].is_output and number == self.network.makers[result][-1]

    def made(self, number: int) -> Range | None:
        """Return the channels of its result that a layer makes, if not all."""
        layer = self.network.layers[number]
        if isinstance(layer, Sum) or len(self.network.makers[layer.result]) == 1:
            return None
        product = isinstance(layer, MatrixLayer)
        count = layer.channels if product else self.network.values[layer.source].channels
        return layer.first, layer.first + count


def _stores(layer: MatrixLayer | Sum, rows: int, columns: int) -> list[int]:
    """Return the output tiles after which a result is stored.

    Stores are wide enough for bursts, and little is left after the last drain.
    """
    tiles = -(-layer.channels // columns)
    wide = -(-policy.STORE_BYTES // columns)
    stops = range(wide - 1, tiles - 1, wide) if rows > 1 else range(0)
    return [*stops, tiles - 1]
