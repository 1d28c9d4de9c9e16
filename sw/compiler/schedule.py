"""Fifth pass: the order of work.

Order is all that matters for speed, since the units run side by side: blocks of a layer alternate
between the halves of the accumulators, so that one drains while the other fills; a layer starts on
what is there already; the next input loads while this one is computed.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from celosia.hw.arch.config import Config
from celosia.sw.compiler.actions import (
    Action,
    AddRegion,
    Block,
    Drain,
    LoadRegion,
    Multiply,
    PoolRegion,
    Region,
    StoreRegion,
)
from celosia.sw.compiler.allocate import Placement
from celosia.sw.compiler.bands import vectors
from celosia.sw.compiler.blocks import (
    attached,
    band_blocks,
    blocks,
    drains_slowly,
    sums,
    wanted_sums,
)
from celosia.sw.compiler.movement import Movement
from celosia.sw.compiler.spec import Network, Pooling, Product, Sum
from celosia.sw.compiler.strips import source_rows
from celosia.sw.compiler.tile import Tiling

__all__ = ["schedule"]

#: Longest reduction that the field ``taps`` can say.
_MOST_TAPS = (1 << 20) - 1
#: Output tiles that share one pass over an input that is still being loaded.
_GROUP = 4
#: Loads that are dispatched ahead of the work that needs them.
_AHEAD = 2
#: Cycles from asking external memory to the first answer that the split of loads reckons with.
_LATENCY = 64


@dataclass(frozen=True)
class _Piece:
    """Reduction steps of one segment."""

    segment: int
    first: int
    last: int


#: What a reduction is cut into; None is all of it.
_Stages = Sequence[_Piece | None]
_WHOLE: _Stages = (None,)


def schedule(
    network: Network, tiling: Tiling, placement: Placement, config: Config
) -> list[Action]:
    """Return all work of one run of the program, in program order."""
    return list(_Scheduler(network, tiling, placement, config).batch())


class _Scheduler(Movement):
    #: Drains of the last group of tiles of a layer with a band, tile by tile.
    late: list[list[Action]] = []
    late_layer = -1

    def batch(self) -> Iterator[Action]:
        """Yield the work of all parts: the head item by item, the tail for all of them."""
        head, count = self.placement.head, len(self.network.layers)
        for part, (first, items) in enumerate(self.placement.parts):
            for item in range(first, first + items) if head else ():
                for number in range(head):
                    yield from self.layer(number, part, (item, item + 1))
            for number in range(head, count):
                yield from self.layer(number, part, (first, first + items))
        yield from self.flush()

    def layer(self, number: int, part: int, items: tuple[int, int]) -> Iterator[Action]:
        """Yield the work of one layer."""
        if number in self.placement.strip_rows:
            yield from self.flush()
            yield from self.in_strips(number, part, items)
            return
        layer = self.network.layers[number]
        if self.joins(number):
            return
        yield from self.margins(layer.result, part, items, number)
        if number + 1 < len(self.network.layers) and self.joins(number + 1):
            yield from self.margins(self.network.layers[number + 1].result, part, items, number)
        later = list(self.prefetch(number, part, items))
        staged = False
        for value in dict.fromkeys(layer.sources):
            if self.is_fresh(number, value, part, items):
                staged = isinstance(layer, Product) and self.is_vector(value)
                if not staged:
                    yield from self.load(number, value, part, items)
        if isinstance(layer, Product):
            yield from self.product(number, part, items, staged, later)
            return
        yield from self.flush()
        height = self.network.values[layer.result].height
        yield from self.strip(number, part, items, (0, height))
        yield from self.store(number, self.everything(layer.result, part, items))
        yield from later

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

    def in_strips(self, number: int, part: int, items: tuple[int, int]) -> Iterator[Action]:
        """Yield the work of a layer some rows at a time, with loads one strip ahead."""
        layer = self.network.layers[number]
        height, step = self.network.values[layer.result].height, self.placement.strip_rows[number]
        cut = [(first, min(first + step, height)) for first in range(0, height, step)]
        if not self.placement.outside(layer.result):
            yield from self.margins(layer.result, part, items, number)
        for value in dict.fromkeys(layer.sources):
            if self.is_fresh(number, value, part, items):
                yield from self.load(number, value, part, items)
        turns = [self.placement.strips.get((source, number), (0,)) for source in layer.sources]
        ahead = max(len(addresses) for addresses in turns) - 1
        if ahead:
            yield from self.load_strips(number, part, items, cut, 0)
        for turn, rows in enumerate(cut):
            yield from self.load_strips(number, part, items, cut, turn + ahead)
            first = source_rows(layer, rows)[0]
            sources = [self.buffer(value, number, turn, first) for value in layer.sources]
            result = self.buffer(layer.result, number, turn, rows[0])
            for action in self.strip(number, part, items, rows):
                if isinstance(action, Multiply):
                    yield replace(action, source=sources[0])
                elif isinstance(action, Drain):
                    yield replace(action, result=result)
                elif isinstance(action, PoolRegion):
                    yield replace(action, source=sources[0], result=result)
                elif isinstance(action, AddRegion):
                    yield replace(action, sources=(sources[0], sources[1]), result=result)
            region = self.everything(layer.result, part, items)
            if result or self.network.values[layer.result].is_output:
                region = replace(region, rows=rows, strip=result)
                yield StoreRegion(region=region, layer=number)
        yield from self.prefetch(number, part, items)

    def strip(
        self, number: int, part: int, items: tuple[int, int], rows: tuple[int, int]
    ) -> Iterator[Action]:
        """Yield the work on some rows of a layer's result."""
        layer = self.network.layers[number]
        if isinstance(layer, Product):
            for block in blocks(layer, items, self.config, rows):
                yield from self.tiles(number, part, block, _WHOLE, False, [])
            return
        if isinstance(layer, Sum):
            for block in blocks(layer, items, self.config, rows):
                for tile in range(-(-layer.channels // self.config.columns)):
                    yield from self.add(number, part, block, tile, 0)
                    self.half ^= 1
            return
        for windows, about in enumerate(layer.windows):
            first = max(rows[0], about.result[0])
            last = min(rows[1], about.result[0] + about.count[0])
            if first < last:
                yield PoolRegion(
                    part=part, items=items, layer=number, windows=windows, rows=(first, last)
                )

    def add(self, number: int, part: int, block: Block, tile: int, row: int) -> Iterator[Action]:
        """Yield the sum of two values, for a block and an output tile."""
        for step in range(3):
            yield AddRegion(
                block=block,
                part=part,
                layer=number,
                tile=tile,
                step=step,
                half=self.half,
                accumulator=row,
            )

    def product(
        self,
        number: int,
        part: int,
        items: tuple[int, int],
        loads: bool,
        later: list[Action],
    ) -> Iterator[Action]:
        """Yield the work of a product, in blocks that the accumulators hold."""
        layer = self.network.layers[number]
        assert isinstance(layer, Product)
        tiled = self.tiling.layers[number]
        cut = self.blocks(number, items)
        if loads and len({block.items for block in cut}) < len(cut):
            yield from self.load(number, layer.source, part, items)
            loads = False
        if (
            tiled.streams
            and not loads
            and 1 < len(cut)
            and 3 * tiled.steps <= self.tiling.weights.count
        ):
            # One fetch of a tile serves all blocks.
            order = [(block, tile) for tile in range(tiled.tiles) for block in cut]
            for block, tile in order:
                yield from self.group(number, part, block, range(tile, tile + 1), _WHOLE, False)
                yield from later
                later = []
            return
        for place, block in enumerate(cut):
            stages = self.stages(number, block, loads) if place == 0 else _WHOLE
            if place == 0 and loads and len(cut) > 1:
                rest = self.everything(layer.source, part, (block.items[1], items[1]))
                later = [LoadRegion(region=rest, layer=number), *later]
            yield from self.tiles(number, part, block, stages, loads and place == 0, later)
            later = []

    def tiles(
        self,
        number: int,
        part: int,
        block: Block,
        stages: _Stages,
        loads: bool,
        later: list[Action],
    ) -> Iterator[Action]:
        """Yield one pass over the output tiles; the first group of them goes stage by stage.

        ``later`` are loads to do meanwhile.
        """
        tiles = self.tiling.layers[number].tiles
        together = self.together(number, block)
        first = min(tiles, together)
        if loads and len(stages) > 1:
            first = min(tiles, _GROUP, self.config.accumulator_depth // self.rows(number, block))
        yield from self.group(number, part, block, range(first), stages, loads)
        yield from later
        for tile in range(first, tiles, together):
            group = range(tile, min(tile + together, tiles))
            yield from self.group(number, part, block, group, _WHOLE, False)

    def blocks(self, number: int, items: tuple[int, int]) -> list[Block]:
        """Return the blocks of a product, for some items."""
        layer, tiled = self.network.layers[number], self.tiling.layers[number]
        assert isinstance(layer, Product)
        if tiled.band:
            row = self.placement.layouts[layer.source].row
            return band_blocks(layer, tiled.band, row, items, self.config)
        # A band finds the channels that it needs before others are there.
        readers = [n for n, x in enumerate(self.network.layers) if layer.result in x.sources]
        large = any(self.tiling.layers[reader].band for reader in readers)
        wanted = wanted_sums(layer, tiled.steps, tiled.streams, self.config)
        return blocks(layer, items, self.config, wanted=wanted, large=large)

    def together(self, number: int, block: Block) -> int:
        """Return how many output tiles share a half of the accumulators.

        Those of a band, whose sums are few, make a step of the next layer together. Where sums drain
        no faster than they are made, the more the better: the next layer then fills the other half.
        """
        layer, tiled = self.network.layers[number], self.tiling.layers[number]
        assert isinstance(layer, Product)
        most = self.config.accumulator_depth // self.rows(number, block)
        if tiled.band:
            return max(1, min(self.config.rows // tiled.channels, most))
        return max(1, most) if drains_slowly(layer, tiled.steps, self.config) else 1

    def rows(self, number: int, block: Block) -> int:
        """Return the rows of accumulators that a block takes."""
        layer, band = self.network.layers[number], self.tiling.layers[number].band
        assert isinstance(layer, Product)
        counts = sums(layer.pool, block)
        if band:
            row = self.placement.layouts[layer.source].row
            counts = (counts[0], *vectors(band, *counts[1:], row))
        return math.prod(counts)

    def all_steps(self, number: int, tile: int) -> list[_Piece]:
        """Return the whole reduction of an output tile of a layer."""
        parts = self.tiling.layers[number].segments[tile]
        return [_Piece(n, 0, part.steps(self.config)) for n, part in enumerate(parts)]

    def group(
        self,
        number: int,
        part: int,
        block: Block,
        tiles: range,
        stages: _Stages,
        loads: bool,
    ) -> Iterator[Action]:
        """Yield matrix work and drains of output tiles that share a half of the accumulators."""
        waiting = self.stage_loads(number, part, block, stages) if loads else []
        rows = self.rows(number, block)
        if self.late_layer != number and (loads or len(stages) == 1):
            yield from self.flush()
        for place, stage in enumerate(stages):
            ahead = _AHEAD + 1 if place == 0 else 1
            yield from waiting[:ahead]
            waiting = waiting[ahead:]
            for offset, tile in enumerate(tiles):
                for piece in [stage] if stage else self.all_steps(number, tile):
                    yield from self.multiply(number, part, block, tile, piece, offset * rows)
                if self.late_layer == number:
                    yield from self.flush(1)
            yield from self.flush()
        self.late = [
            list(self.drain(number, part, block, tile, offset * rows))
            for offset, tile in enumerate(tiles)
        ]
        self.late_layer = number
        if self.tiling.layers[number].band is None:
            yield from self.flush()
        self.half ^= 1

    def flush(self, most: int | None = None) -> Iterator[Action]:
        """Yield drains that were put off, so that they do not stand in the way of the array."""
        now, self.late = self.late[:most], self.late[most:] if most else []
        for drain in now:
            yield from drain

    def stage_loads(self, number: int, part: int, block: Block, stages: _Stages) -> list[Action]:
        """Return the loads of the bytes that each stage of a reduction reads of flat values."""
        layer = self.network.layers[number]
        about = self.network.values[layer.source]
        if len(stages) == 1:
            region = self.everything(layer.source, part, block.items)
            return [LoadRegion(region=region, layer=number)]
        ends = [stage.last * self.config.rows for stage in stages if stage]
        ends[-1] = about.width * about.channels
        return [
            LoadRegion(
                region=Region(
                    value=layer.source,
                    part=part,
                    items=block.items,
                    rows=(0, 1),
                    columns=columns,
                ),
                layer=number,
            )
            for columns in zip([0, *ends], ends, strict=False)
        ]

    def multiply(
        self, number: int, part: int, block: Block, tile: int, piece: _Piece, row: int
    ) -> Iterator[Action]:
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
                half=self.half,
                accumulator=row,
                accumulate=piece.segment > 0 or first > 0,
            )

    def drain(self, number: int, part: int, block: Block, tile: int, row: int) -> Iterator[Action]:
        """Yield the drain of a tile, then stores of what is complete."""
        layer = self.network.layers[number]
        assert isinstance(layer, Product)
        yield Drain(
            block=block, part=part, layer=number, tile=tile, half=self.half, accumulator=row
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
        if not value.is_output:
            return
        tiled = self.tiling.layers[number]
        tiles = -(-layer.channels // tiled.channels)
        if (value.height, value.width) == (1, 1):
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

    def stages(self, number: int, block: Block, loads: bool) -> _Stages:
        """Return the reduction of the first tiles of a layer, cut so that it can start early.

        Only a reduction of taps that all lie side by side is cut.
        """
        layer = self.network.layers[number]
        assert isinstance(layer, Product)
        first, *others = self.tiling.layers[number].segments[0]
        if others or not first.side_by_side or layer.each:
            return _WHOLE
        steps = first.steps(self.config)
        if not loads:
            ready = self.ready_taps(number, block) // self.config.rows
            cuts = [ready, steps] if 0 < ready < steps else [steps]
        else:
            about = self.network.values[layer.source]
            items = block.extents[0]
            beats = items * -(-about.bytes_per_item // self.config.bus_bytes)
            vector = about.bytes_per_item == layer.taps
            if not vector or items == 1 or beats <= 2 * _LATENCY:
                cuts = [steps]
            else:
                cuts = _growing_cuts(layer, items, self.config)
        pieces = zip([0, *cuts], cuts, strict=False)
        return [_Piece(0, first, last) for first, last in pieces]

    def ready_taps(self, number: int, block: Block) -> int:
        """Return the taps that are there before the last drain of the layer before has ended."""
        layer = self.network.layers[number]
        assert isinstance(layer, Product)
        before = [n for n, x in enumerate(self.network.layers[:number]) if x.result == layer.source]
        if not before or not isinstance(self.network.layers[before[0]], Product):
            return 0
        tiled = self.tiling.layers[before[0]]
        if tiled.band and layer.kernel == (1, 1):
            cut = self.blocks(before[0], block.items)
            together = self.together(before[0], cut[0])
            return (tiled.tiles - 1) // together * together * tiled.channels if len(cut) == 1 else 0
        if layer.pixels > 1:
            return 0
        value, layout = self.network.values[layer.source], self.placement.layouts[layer.source]
        if value.bytes_per_item != layer.taps:
            return 0
        if value.height == 1:
            return (value.channels - 1) // self.config.columns * self.config.columns
        cut = self.blocks(before[0], (block.items[1] - 1, block.items[1]))
        return cut[-1].rows[0] * layout.pitch if block.extents[0] == 1 else 0


def _growing_cuts(layer: Product, rows: int, config: Config) -> list[int]:
    """Return steps at which to cut so that each part loads while those before are multiplied."""
    steps = -(-layer.taps // config.rows)
    tiles = -(-layer.channels // config.columns)
    group = min(tiles, _GROUP, config.accumulator_depth // rows)
    step_cycles = max(rows, config.rows // config.weight_rows) * group
    step_beats = rows * config.rows / config.bus_bytes
    width = max(1, 32 // config.rows, steps // 64)
    ends = [min(width, steps)]
    while ends[-1] < steps:
        spare = 0.75 * width * step_cycles - _LATENCY
        width = max(width, steps // 16, int(spare / step_beats))
        ends.append(min(ends[-1] + width, steps))
    return ends


def _stores(layer: Product | Sum, rows: int, columns: int) -> list[int]:
    """Return the output tiles after which a result is stored.

    Pieces are wide enough for bursts, and little is left after the last drain.
    """
    tiles = -(-layer.channels // columns)
    wide = -(-64 // columns)
    pieces = range(wide - 1, tiles - 1, wide) if rows > 1 else range(0)
    return [*pieces, tiles - 1]
