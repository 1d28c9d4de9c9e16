"""The jobs of one layer: each fills and drains a half of the accumulators."""

from collections.abc import Iterator

from celosia.sw.compiler.schedule.actions import (
    Action,
    AddRegion,
    Block,
    Drain,
    LoadRegion,
    Multiply,
    PoolRegion,
    StoreRegion,
)
from celosia.sw.compiler.schedule.blocks import attached, blocks
from celosia.sw.compiler.schedule.cutting import GROUP, WHOLE, Cutting, Piece, Stages
from celosia.sw.compiler.schedule.interleave import Job
from celosia.sw.compiler.schedule.movement import Movement
from celosia.sw.compiler.spec import Pooling, Product, Sum

__all__ = ["Jobs"]

#: Longest reduction that the field ``taps`` can hold.
_MOST_TAPS = (1 << 20) - 1
#: Output tiles that start on the channels of a band whose last drains are not over.
_BEHIND_BAND = 2


class Jobs:
    """Jobs of layers.

    Parameters
    ----------
    moves, cuts
        Loads of the program; blocks and stages of its matrix layers.
    """

    def __init__(self, moves: Movement, cuts: Cutting) -> None:
        self.network = moves.network
        self.tiling = moves.tiling
        self.placement = moves.placement
        self.config = moves.config
        self.moves = moves
        self.cuts = cuts
        # Rows of an image that come first, until its reader has multiplied one tile.
        self.arriving = 0

    def joins(self, number: int) -> bool:
        """Return whether a layer runs jointly with the layer before it."""
        strips = self.placement.strip_rows
        return (
            attached(self.network, number)
            and self.tiling.layers[number - 1].band is None
            and number != self.placement.head
            and number not in strips
            and number - 1 not in strips
        )

    def vector_jobs(
        self, number: int, part: int, items: tuple[int, int], rows: tuple[int, int]
    ) -> Iterator[Job]:
        """Yield the jobs of some rows of the result of a layer without weights."""
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

    def strip(
        self, number: int, part: int, items: tuple[int, int], rows: tuple[int, int]
    ) -> Iterator[Job]:
        """Yield the jobs of some rows of a layer's result."""
        layer = self.network.layers[number]
        if not isinstance(layer, Product):
            yield from self.vector_jobs(number, part, items, rows)
            return
        wanted = self.cuts.wanted(number)
        for block in blocks(layer, items, self.config, rows, wanted=wanted):
            yield from self.tiles(number, part, block, WHOLE, False)

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

    def product(self, number: int, part: int, items: tuple[int, int], loads: bool) -> Iterator[Job]:
        """Yield the jobs of a matrix layer, by blocks that the accumulators hold."""
        layer = self.network.layers[number]
        assert isinstance(layer, Product)
        tiled = self.tiling.layers[number]
        cut = self.cuts.blocks(number, items)
        before: list[Action] = []
        if loads and len({block.items for block in cut}) < len(cut):
            before = list(self.moves.load(number, layer.source, part, items))
            loads = False
        if tiled.streams and not loads and len(cut) > 1 and tiled.turns:
            # One fetch of a tile serves all blocks.
            together = min(self.cuts.together(number, block) for block in cut)
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
                stages = self.cuts.stages(number, block, loads) if first else WHOLE
                jobs += self.tiles(number, part, block, stages, loads and first)
                if first and loads and len(cut) > 1:
                    rest = self.moves.everything(layer.source, part, (block.items[1], items[1]))
                    before = [LoadRegion(region=rest, layer=number)]
        jobs[0].before += before
        yield from jobs

    def tiles(
        self, number: int, part: int, block: Block, stages: Stages, loads: bool
    ) -> Iterator[Job]:
        """Yield one pass over the output tiles; the first group of them goes stage by stage."""
        tiles = self.tiling.layers[number].tiles
        together = self.cuts.together(number, block)
        first = min(tiles, together)
        if len(stages) > 1 and (loads or self.cuts.band_before(number)):
            most = GROUP if loads else max(together, _BEHIND_BAND)
            first = min(tiles, most, self.config.accumulator_depth // self.cuts.rows(number, block))
        yield from self.group(number, part, block, range(first), stages, loads)
        for tile in range(first, tiles, together):
            group = range(tile, min(tile + together, tiles))
            yield from self.group(number, part, block, group, WHOLE, False)

    def group(
        self, number: int, part: int, block: Block, tiles: range, stages: Stages, loads: bool
    ) -> Iterator[Job]:
        """Yield the job of output tiles that share a half of the accumulators."""
        rows = self.cuts.rows(number, block)
        job = Job(put_off=self.tiling.layers[number].band is not None)
        if loads:
            job.before += self.cuts.stage_loads(number, part, block, stages)
        for stage in stages:
            for offset, tile in enumerate(tiles):
                parts = self.cuts.arrivals(number, block, self.arriving)
                self.arriving = 0
                work: list[Multiply] = []
                for some, row in parts:
                    for piece in [stage] if stage else self.cuts.all_steps(number, tile):
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
        """Yield reduction steps of a tile, as many as one instruction may have."""
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
        """Yield the drain of a tile, then stores of complete results."""
        layer = self.network.layers[number]
        assert isinstance(layer, Product)
        yield Drain(block=block, part=part, layer=number, tile=tile, half=0, accumulator=row)
        if number + 1 < len(self.network.layers) and self.joins(number + 1):
            yield from self.add(number + 1, part, block, tile, row)
            yield from self.stores(number + 1, part, block, tile)
        yield from self.stores(number, part, block, tile)

    def stores(self, number: int, part: int, block: Block, tile: int) -> Iterator[Action]:
        """Yield stores of the results that one more tile of a block completes."""
        layer = self.network.layers[number]
        assert not isinstance(layer, Pooling)
        value = self.network.values[layer.result]
        if not value.is_output or number != self.network.makers[layer.result][-1]:
            return
        tiled = self.tiling.layers[number]
        tiles = -(-layer.channels // tiled.channels)
        alone = len(self.network.makers[layer.result]) == 1
        if (value.height, value.width) == (1, 1) and alone:
            stops = _stores(layer, block.extents[0], self.config.columns)
            if tile in stops:
                place = stops.index(tile)
                first = (stops[place - 1] + 1) * self.config.columns if place else 0
                last = min((tile + 1) * self.config.columns, layer.channels)
                region = self.moves.everything(layer.result, part, block.items)
                yield StoreRegion(region=region._replace(columns=(first, last)), layer=number)
        elif tile == tiles - 1 and block.columns[1] == layer.output[1]:
            region = self.moves.everything(layer.result, part, block.items)
            yield from self.moves.store(number, region._replace(rows=block.rows))

    def made(self, number: int) -> tuple[int, int] | None:
        """Return the channels of its result that a layer makes, if not all."""
        layer = self.network.layers[number]
        if isinstance(layer, Sum) or len(self.network.makers[layer.result]) == 1:
            return None
        product = isinstance(layer, Product)
        count = layer.channels if product else self.network.values[layer.source].channels
        return layer.first, layer.first + count


def _stores(layer: Product | Sum, rows: int, columns: int) -> list[int]:
    """Return the output tiles after which a result is stored.

    Stores are wide enough for bursts, and little is left after the last drain.
    """
    tiles = -(-layer.channels // columns)
    wide = -(-64 // columns)
    pieces = range(wide - 1, tiles - 1, wide) if rows > 1 else range(0)
    return [*pieces, tiles - 1]
