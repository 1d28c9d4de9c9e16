"""Fourth pass: the order of work.

Order is all that matters for speed, since the units run side by side: tiles of a layer alternate
between the halves of the accumulators, so that one drains while the other fills; a layer's first
tiles start on the taps that are there already; the next part's input loads during the first layer.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from celosia.hw.arch.config import Config
from celosia.sw.compiler.allocate import Placement
from celosia.sw.compiler.spec import Dense, Network
from celosia.sw.compiler.tile import Tiling

__all__ = ["Action", "Block", "Drain", "LoadBlock", "Multiply", "StoreBlock", "schedule"]

#: Longest reduction that the field ``taps`` can say.
_MOST_TAPS = (1 << 20) - 1
#: Output tiles that share one pass over an input that is still being loaded.
_GROUP = 4
#: Loads that are dispatched ahead of the work that needs them.
_AHEAD = 2
#: Cycles from asking external memory to the first answer that the split of loads reckons with.
_LATENCY = 64


@dataclass(frozen=True, kw_only=True)
class Block:
    """Rows and columns of a value, seen as rows of ``pitch`` bytes, in one part of the batch."""

    value: int
    part: int
    pitch: int
    first_row: int
    last_row: int
    first_column: int
    last_column: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.last_row - self.first_row

    @property
    def columns(self) -> int:
        """Number of bytes of each row."""
        return self.last_column - self.first_column


@dataclass(frozen=True, kw_only=True)
class LoadBlock:
    """Bring a block from external memory to the unified buffer."""

    block: Block
    layer: int


@dataclass(frozen=True, kw_only=True)
class StoreBlock:
    """Bring a block from the unified buffer to external memory."""

    block: Block
    layer: int


@dataclass(frozen=True, kw_only=True)
class Multiply:
    """Reduction steps of one output tile, for the rows of ``block``."""

    block: Block
    layer: int
    tile: int
    first_step: int
    last_step: int
    half: int
    accumulator: int
    accumulate: bool


@dataclass(frozen=True, kw_only=True)
class Drain:
    """Requantise one output tile from the accumulators into ``block``."""

    block: Block
    layer: int
    tile: int
    half: int
    accumulator: int


Action = LoadBlock | StoreBlock | Multiply | Drain


def schedule(
    network: Network, tiling: Tiling, placement: Placement, config: Config
) -> list[Action]:
    """Return all work of one run of the program, in program order."""
    return list(_Scheduler(network, tiling, placement, config).batch())


class _Scheduler:
    def __init__(
        self, network: Network, tiling: Tiling, placement: Placement, config: Config
    ) -> None:
        self.network = network
        self.tiling = tiling
        self.placement = placement
        self.config = config
        self.half = 0
        self.first_use = {
            layer.source: number for number, layer in reversed([*enumerate(network.layers)])
        }

    def batch(self) -> Iterator[Action]:
        """Yield the work of all parts."""
        for part in range(len(self.placement.parts)):
            for number in range(len(self.network.layers)):
                yield from self.layer(number, part)

    def layer(self, number: int, part: int) -> Iterator[Action]:
        """Yield the work of one layer, in blocks of rows that the accumulators hold."""
        layer = self.network.layers[number]
        rows = layer.rows * self.placement.parts[part][1]
        blocks = -(-rows // self.config.accumulator_depth)
        step = -(-rows // blocks)
        fresh = (
            self.network.values[layer.source].is_input and self.first_use[layer.source] == number
        )
        fresh = fresh and not (self.placement.prefetch and part > 0)
        for first in range(0, rows, step):
            last = min(first + step, rows)
            loads = fresh and first == 0
            cuts = self.cuts(layer, number, last - first, loads)
            later: list[Action] = []
            if loads and last < rows:
                later.append(LoadBlock(block=self.source(number, part, last, rows), layer=number))
            if number == 0 and first == 0:
                later += self.prefetch(part + 1)
            source = self.source(number, part, first, last)
            yield from self.tiles(number, source, cuts, loads, later)

    def source(self, number: int, part: int, first: int, last: int) -> Block:
        """Return whole rows of a layer's source."""
        layer = self.network.layers[number]
        return Block(
            value=layer.source,
            part=part,
            pitch=layer.taps,
            first_row=first,
            last_row=last,
            first_column=0,
            last_column=layer.taps,
        )

    def tiles(
        self, number: int, source: Block, cuts: list[int], loads: bool, later: list[Action]
    ) -> Iterator[Action]:
        """Yield one pass over the output tiles; the first group of them goes cut by cut.

        ``later`` are loads to do meanwhile.
        """
        tiles = self.tiling.layers[number].tiles
        depth = self.config.accumulator_depth
        first = min(tiles, _GROUP, depth // source.rows) if loads and len(cuts) > 1 else 1
        yield from self.group(number, source, range(first), cuts, loads)
        yield from later
        for tile in range(first, tiles):
            yield from self.group(number, source, range(tile, tile + 1), [cuts[-1]], False)

    def prefetch(self, part: int) -> Iterator[Action]:
        """Yield the loads of a later part's inputs, where they have a place of their own."""
        if not self.placement.prefetch or part >= len(self.placement.parts):
            return
        for value, number in self.first_use.items():
            if self.network.values[value].is_input:
                rows = self.network.layers[number].rows * self.placement.parts[part][1]
                yield LoadBlock(block=self.source(number, part, 0, rows), layer=number)

    def group(
        self, number: int, source: Block, tiles: range, cuts: list[int], loads: bool
    ) -> Iterator[Action]:
        """Yield matrix work and drains of output tiles that share a half of the accumulators."""
        starts = [0, *cuts[:-1]]
        blocks = [
            replace(source, first_column=first, last_column=last)
            for first, last in zip(starts, cuts, strict=True)
        ]
        waiting = [LoadBlock(block=block, layer=number) for block in blocks] if loads else []
        for block in blocks:
            ahead = _AHEAD + 1 if block.first_column == 0 else 1
            yield from waiting[:ahead]
            waiting = waiting[ahead:]
            for place, tile in enumerate(tiles):
                yield from self.multiply(number, block, tile, place * source.rows)
        for place, tile in enumerate(tiles):
            yield from self.drain(number, source, tile, place * source.rows)
        self.half ^= 1

    def multiply(self, number: int, block: Block, tile: int, row: int) -> Iterator[Action]:
        """Yield the reduction over the columns of a block, as long as an instruction may be."""
        rows = self.config.rows
        most = _MOST_TAPS // rows * rows
        for first in range(block.first_column, block.last_column, most):
            last = min(first + most, block.last_column)
            yield Multiply(
                block=replace(block, first_column=first, last_column=last),
                layer=number,
                tile=tile,
                first_step=first // rows,
                last_step=-(-last // rows),
                half=self.half,
                accumulator=row,
                accumulate=first > 0,
            )

    def drain(self, number: int, source: Block, tile: int, row: int) -> Iterator[Action]:
        """Yield the drain of a tile, then stores of what is complete."""
        layer = self.network.layers[number]
        columns = self.config.columns
        first = tile * columns
        last = min(first + columns, layer.channels)
        block = replace(
            source,
            value=layer.result,
            pitch=layer.channels,
            first_column=first,
            last_column=last,
        )
        yield Drain(block=block, layer=number, tile=tile, half=self.half, accumulator=row)
        if not self.network.values[layer.result].is_output:
            return
        stops = _stores(layer, source.rows, columns)
        if tile in stops:
            place = stops.index(tile)
            start = (stops[place - 1] + 1) * columns if place else 0
            yield StoreBlock(block=replace(block, first_column=start), layer=number)

    def cuts(self, layer: Dense, number: int, rows: int, fresh: bool) -> list[int]:
        """Return where the reduction of the first tiles is cut: ends in taps, the last is all."""
        unit = self.config.rows
        if not fresh:
            before = [
                earlier
                for earlier in self.network.layers[:number]
                if earlier.result == layer.source and earlier.channels == layer.taps
            ]
            width = self.config.columns
            cut = (layer.taps - 1) // width * width // unit * unit if before else 0
            return [cut, layer.taps] if cut else [layer.taps]
        beats = rows * -(-layer.taps // self.config.bus_bytes)
        if rows == 1 or beats <= 2 * _LATENCY:
            return [layer.taps]
        return _growing_cuts(layer, rows, self.config)


def _growing_cuts(layer: Dense, rows: int, config: Config) -> list[int]:
    """Return cuts such that each block loads while the blocks before it are multiplied."""
    unit = config.rows
    steps = -(-layer.taps // unit)
    tiles = -(-layer.channels // config.columns)
    group = min(tiles, _GROUP, config.accumulator_depth // rows)
    step_cycles = max(rows, unit // config.weight_rows) * group
    step_beats = rows * unit / config.bus_bytes
    width = max(1, 32 // unit, steps // 64)
    ends = [min(width, steps)]
    while ends[-1] < steps:
        spare = 0.75 * width * step_cycles - _LATENCY
        width = max(width, steps // 16, int(spare / step_beats))
        ends.append(min(ends[-1] + width, steps))
    return [min(end * unit, layer.taps) for end in ends]


def _stores(layer: Dense, rows: int, columns: int) -> list[int]:
    """Return the output tiles after which a result is stored.

    Pieces are wide enough for bursts, and little is left after the last drain.
    """
    tiles = -(-layer.channels // columns)
    wide = -(-64 // columns)
    pieces = range(wide - 1, tiles - 1, wide) if rows > 1 else range(0)
    return [*pieces, tiles - 1]
