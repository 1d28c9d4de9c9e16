"""Cuts layers into tiles, and decides what stays in the core's memories.

A tile is R taps by C channels. What fits of tiles, channel parameters and tables stays resident,
loaded once; the rest streams through a part of the memory kept free for that, in the order of use.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from celosia.hw.arch.config import INSTRUCTION_BYTES, PARAMETER_BYTES, Config
from celosia.sw.compiler.errors import CompileError
from celosia.sw.compiler.layout.bands import Band, band_matrix, parameters_of_tile, spans
from celosia.sw.compiler.layout.pitches import Layout, Segment, band_segments, pixel_bytes, segments
from celosia.sw.compiler.spec import Layer, Network, Product

__all__ = [
    "Ring",
    "Tables",
    "TiledLayer",
    "Tiling",
    "pack_parameters",
    "pack_weights",
    "parameters_of",
    "tile",
]

#: Part of the weight buffer that streams what does not fit into the rest.
_STREAMING = 4
#: Fetches of parameters that there is room for where some stream.
_FETCHES = 8
#: Steps of the search for what stays.
_HALVINGS = 30


@dataclass(frozen=True, eq=False)
class TiledLayer:
    """How one layer is cut, and where its constants stay.

    Parameters
    ----------
    segments : tuple of tuple of Segment
        What instructions read for each output tile; none for a layer without weights.
    steps, tiles : int
        Reduction steps of R taps over all segments of the first output tile, which has most;
        output tiles.
    channels : int
        Output channels of a tile, of which the last may have fewer: C without a band.
    parameters : int
        Channels of parameters that a tile takes.
    period : int
        Tiles that stay or stream together.
    resident : int
        How many periods stay. They are spread evenly, so that one streams while others are used.
    first_tile : int
        Place in the weight buffer of the first tile that stays.
    first_channel : int or None
        Channel of the parameter memory where its parameters stay; None if they stream.
    band : Band, optional
        How tiles lie over pixels, if not one pixel each.
    turns : bool
        Whether blocks take turns on a tile that streams, and not tiles on a block.
    """

    segments: tuple[tuple[Segment, ...], ...]
    steps: int
    tiles: int
    channels: int
    parameters: int
    period: int
    resident: int
    first_tile: int
    first_channel: int | None
    band: Band | None = None
    turns: bool = False

    @property
    def weight_tiles(self) -> int:
        """Number of tiles of weights."""
        return self.steps * self.tiles

    @property
    def periods(self) -> int:
        """Number of periods; the last may be short."""
        return -(-self.weight_tiles // self.period)

    @property
    def streams(self) -> bool:
        """Whether not all tiles stay."""
        return self.resident < self.periods

    def place(self, tile: int) -> int | None:
        """Return where a tile of the layer stays in the weight buffer; None if it streams."""
        number, offset = divmod(tile, self.period)
        # The first period stays: the array starts on it while others are on their way.
        before = -(-number * self.resident // self.periods)
        if -(-(number + 1) * self.resident // self.periods) == before:
            return None
        return self.first_tile + before * self.period + offset

    def stretch(self, tile: int, last: int) -> int:
        """Return the first tile behind ``tile`` where staying ends, or streaming, or ``last``."""
        streams = self.place(tile) is None
        end = tile + self.period - tile % self.period
        while end < last and (self.place(end) is None) == streams:
            end += self.period
        return min(end, last)

    def first_step(self, tile: int, segment: int, config: Config) -> int:
        """Return the step at which a segment of an output tile starts."""
        return sum(earlier.steps(config) for earlier in self.segments[tile][:segment])


@dataclass(frozen=True)
class Ring:
    """Part of a memory that streamed constants pass through: ``count`` places from ``first``."""

    first: int
    count: int


@dataclass(frozen=True)
class Tables:
    """The tables of all layers.

    Parameters
    ----------
    contents : tuple of bytes
        Tables as external memory holds them, those that are the same once.
    of : dict of int to int
        Layer to the number of its table, of layers that have one.
    places : tuple of int or None
        Where each table stays in the core; None if it streams.
    ring : Ring
        What tables stream through.
    """

    contents: tuple[bytes, ...]
    of: dict[int, int]
    places: tuple[int | None, ...]
    ring: Ring


@dataclass(frozen=True)
class Tiling:
    """All layers' tiles, their tables, and what is left of the memories for streaming."""

    layers: tuple[TiledLayer, ...]
    weights: Ring
    parameters: Ring
    tables: Tables


def tile(
    network: Network, layouts: Sequence[Layout], bands: Mapping[int, Band], config: Config
) -> Tiling:
    """Cut the layers for a core; ``bands`` are those of layers that have one.

    Raises
    ------
    CompileError
        If the parameter memory cannot hold the channels of one tile.
    """
    columns = config.columns
    if config.parameter_channels < columns:
        layer = network.layers[0].name if network.layers else "network"
        raise CompileError(
            f"wanted parameters of at least {columns} channels, "
            f"got parameter_channels = {config.parameter_channels}",
            layer=layer,
        )
    cut = [_segments(network, n, layouts, bands, config, None) for n in range(len(network.layers))]
    sizes = [_steps(parts, config) * len(parts) for parts in cut]
    keep = 0
    if sum(sizes) > config.weight_tiles:
        keep = max(config.weight_tiles // _STREAMING, min(config.weight_tiles, 2))
    if keep:
        # What streams goes through the ring in pieces of which it holds several.
        most = max(1, keep // 4)
        cut = [
            parts
            if all(p.side_by_side or p.steps(config) <= most for tile in parts for p in tile)
            else _segments(network, number, layouts, bands, config, most)
            for number, parts in enumerate(cut)
        ]
    demands = [
        _demand(layer, parts, network.values[layer.source].is_input, keep, max(1, keep // 8), config)
        if isinstance(layer, Product)
        else None
        for layer, parts in zip(network.layers, cut, strict=True)
    ]
    places, used = _reside(demands, config.weight_tiles - keep)
    layers = [
        TiledLayer(
            segments=parts,
            steps=_steps(parts, config),
            tiles=len(parts),
            channels=_channels(layer, bands.get(number), config),
            parameters=parameters_of_tile(_channels(layer, bands.get(number), config), config),
            band=bands.get(number),
            period=places[number][1],
            resident=places[number][2],
            first_tile=places[number][0],
            first_channel=None,
            turns=bool((demand := demands[number]) and demand.turns),
        )
        for number, (layer, parts) in enumerate(zip(network.layers, cut, strict=True))
    ]
    weights = Ring(used, config.weight_tiles - used)
    sizes = [parameters_of(*pair) for pair in zip(network.layers, layers, strict=True)]
    channels, parameters = _stay(sizes, config.parameter_channels, columns)
    layers = [
        replace(tiled, first_channel=first) for tiled, first in zip(layers, channels, strict=True)
    ]
    return Tiling(tuple(layers), weights, parameters, _tables(network, config))


_Parts = tuple[tuple[Segment, ...], ...]


def _channels(layer: Layer, band: Band | None, config: Config) -> int:
    """Return the output channels of a tile."""
    if band is None or not isinstance(layer, Product):
        return config.columns
    return band.channels * layer.each


def _segments(
    network: Network,
    number: int,
    layouts: Sequence[Layout],
    bands: Mapping[int, Band],
    config: Config,
    most: int | None,
) -> _Parts:
    """Return the segments of each output tile of a layer."""
    layer = network.layers[number]
    if not isinstance(layer, Product):
        return ()
    source = layouts[layer.source]
    if number in bands:
        band = bands[number]
        tiles = layer.channels // _channels(layer, band, config)
        return (band_segments(layer, band, source, config),) * tiles
    pixel = pixel_bytes(layer, network.values[layer.source], source.pixel)
    found: dict[int, tuple[Segment, ...]] = {}
    result = []
    for first in range(0, layer.channels, config.columns):
        channels = first, min(first + config.columns, layer.channels)
        depth = layer.inputs(*channels)[1]
        if depth not in found:
            found[depth] = segments(layer, source.pitch, pixel, channels, config, most)
        result.append((*found[depth], *_second(layer, channels, found[depth])))
    return tuple(result)


def _second(
    layer: Product, channels: tuple[int, int], parts: tuple[Segment, ...]
) -> Iterator[Segment]:
    """Yield the reads for the second parts of weights, those that are not zero."""
    if not layer.split:
        return
    matrix = layer.matrix(*channels)
    count = matrix.shape[1] // 2
    for part in parts:
        if matrix[:, count + part.taps].any():
            yield replace(part, taps=count + part.taps)


def _steps(parts: _Parts, config: Config) -> int:
    """Return the steps of the output tile that has most."""
    return max((sum(part.steps(config) for part in tile) for tile in parts), default=0)


@dataclass(frozen=True)
class _Demand:
    """The bus cycles that a layer takes while it runs, and the cycles that it runs.

    Parameters
    ----------
    tiles, period : int
        Tiles of weights; tiles that stay or stream together.
    cycles : int
        For which the array or the vector unit works.
    fixed, each : float
        Cycles of the bus for instructions, and for each tile that streams.
    first : bool
        Whether it reads an input, which the first cycles of the bus are for, and has few tiles.
    turns : bool
        Whether blocks take turns on a tile, which streams once.
    """

    tiles: int
    period: int
    cycles: int
    fixed: float
    each: float
    first: bool
    turns: bool

    def staying(self, level: float) -> int:
        """Return the periods that have to stay if the bus is to be busy for a share of the time."""
        if self.first:
            return -(-self.tiles // self.period)
        streamed = max(0.0, level * self.cycles - self.fixed) / self.each
        return max(0, math.ceil((self.tiles - streamed) / self.period))

    def places(self, periods: int) -> int:
        """Return the tiles that so many periods take."""
        return min(periods * self.period, self.tiles)


def _demand(
    layer: Product, parts: _Parts, first: bool, ring: int, period: int, config: Config
) -> _Demand:
    """Return the demand of a layer, for one sample."""
    steps = _steps(parts, config)
    first = first and steps * len(parts) <= period
    if not all(part.side_by_side for tile in parts for part in tile):
        period = steps
    sums = layer.pixels
    array = steps * max(sums, config.rows // config.weight_rows)
    vector = sums * -(-min(layer.channels, config.columns) // config.lanes)
    blocks = -(-sums // config.accumulator_depth)
    instruction = INSTRUCTION_BYTES / config.bus_bytes
    beats = config.tile_bytes / config.bus_bytes + instruction / min(period, steps)
    fixed = 2 * instruction * blocks * len(parts)
    cycles, tiles = len(parts) * max(array, vector), steps * len(parts)
    turns = takes_turns(steps, tiles, ring) and blocks * tiles * beats > cycles
    once = turns or 3 * tiles <= ring
    return _Demand(tiles, period, cycles, fixed, beats if once else blocks * beats, first, turns)


def takes_turns(steps: int, tiles: int, ring: int) -> bool:
    """Return whether blocks can take turns on the steps of an output tile that stream once.

    There is no need to where all tiles stay in the ring from one block to the next.
    """
    return 3 * steps <= ring < 3 * tiles


def _reside(demands: Sequence[_Demand | None], room: int) -> tuple[list[tuple[int, int, int]], int]:
    """Return first place, period and periods of the tiles of each layer that stay; places taken.

    What stays is chosen so that the bus is never much busier in one layer than in the others: the
    array does not wait for tiles where it uses them fast.
    """
    layers = [demand for demand in demands if demand]

    def taken(level: float) -> int:
        return sum(demand.places(demand.staying(level)) for demand in layers)

    low, high = 0.0, max([1.0, *((d.fixed + d.tiles * d.each) / d.cycles for d in layers)])
    if taken(low) <= room:
        high = low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if taken(middle) <= room else (middle, high)
    places: list[tuple[int, int, int]] = []
    used = 0
    for demand in demands:
        if demand is None:
            places.append((used, 1, 0))
            continue
        periods = demand.staying(high)
        whole = periods * demand.period >= demand.tiles
        places.append((used, demand.tiles, 1) if whole else (used, demand.period, periods))
        used += demand.places(periods)
    return places, used


def _stay(sizes: Sequence[int], capacity: int, unit: int) -> tuple[list[int | None], Ring]:
    """Place constants, small ones first, and keep part of the memory to stream what is left.

    ``unit`` is the least that can be streamed at once; places are multiples of it.
    """
    keep = 0
    if sum(sizes) > capacity:
        keep = max(min(capacity // 2, _FETCHES * unit), min(2 * unit, capacity))
    places: list[int | None] = [None] * len(sizes)
    used = 0
    for number in sorted(range(len(sizes)), key=lambda n: sizes[n]):
        if used + sizes[number] <= capacity - keep:
            places[number] = used
            used += sizes[number]
    return places, Ring(used, (capacity - used) // unit * unit)


def _tables(network: Network, config: Config) -> Tables:
    """Return the tables of all layers; as many stay as there are places for."""
    found = {
        number: layer.table.tobytes()
        for number, layer in enumerate(network.layers)
        if layer.table is not None
    }
    contents = tuple(dict.fromkeys(found.values()))
    places, ring = _stay([1] * len(contents), config.tables, 1)
    of = {number: contents.index(entries) for number, entries in found.items()}
    return Tables(contents, of, tuple(places), ring)


def pack_weights(layer: Layer, tiled: TiledLayer, source: Layout, config: Config) -> bytes:
    """Return a layer's tiles as external memory holds them, output tile by output tile.

    Taps and channels past the end of a segment or of the layer are zero. ``source`` is how what it
    reads lies.
    """
    if not isinstance(layer, Product):
        return b""
    rows, columns = config.rows, config.columns
    image = np.zeros((tiled.tiles, tiled.steps, rows, config.tile_row_bytes), np.int8)
    for number, tile in enumerate(tiled.segments):
        first = number * tiled.channels
        if tiled.band:
            stretches = spans(layer, tiled.band, source.row, config)
            matrix = band_matrix(layer, tiled.band, first // layer.each, stretches, source.row)
        else:
            matrix = layer.matrix(first, min(first + columns, layer.channels))
        step = 0
        for part in tile:
            steps = part.steps(config)
            padded = np.zeros((steps * rows, columns), np.int8)
            padded[: len(part.taps), : len(matrix)] = matrix[:, part.taps].T
            image[number, step : step + steps, :, :columns] = padded.reshape(steps, rows, columns)
            step += steps
    return image.tobytes()


_CHANNEL = np.dtype(
    {
        "names": ["bias", "multiplier", "left", "right"],
        "formats": ["<i4", "<u4", "u1", "u1"],
        "offsets": [0, 4, 8, 9],
        "itemsize": PARAMETER_BYTES,
    }
)


def parameters_of(layer: Layer, tiled: TiledLayer) -> int:
    """Return the channels of parameters that a layer takes, whole tiles."""
    return tiled.parameters * (tiled.tiles if isinstance(layer, Product) else len(layer.scalings))


def pack_parameters(layer: Layer, tiled: TiledLayer, config: Config) -> bytes:
    """Return a layer's channel parameters as external memory holds them, padded to whole tiles.

    Those of a band stand once for each of its results; those of a layer without weights once for
    each lane, for each of its scalings.
    """
    image = np.zeros(parameters_of(layer, tiled), _CHANNEL)
    each = np.arange(tiled.parameters)
    for name in ("bias", "multiplier", "left", "right"):
        if not isinstance(layer, Product):
            values = [getattr(scaling, name)[0] for scaling in layer.scalings]
            image[name] = np.repeat(values, tiled.parameters)
        elif tiled.band:
            values = getattr(layer.scaling, name).reshape(tiled.tiles, tiled.channels)
            image[name] = values[:, each % tiled.channels].reshape(-1)
        else:
            image[name][: layer.channels] = getattr(layer.scaling, name)
    return image.tobytes()
