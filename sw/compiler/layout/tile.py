"""Tiles of layers, and the choice of resident constants.

A tile is R taps by C channels. Tiles, channel parameters and tables that fit are resident, loaded
once. The rest streams, in the order of use, through a region of the memory kept free for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from celosia.hw.arch.config import EXPONENTIAL_TABLES, Config
from celosia.sw.compiler import policy
from celosia.sw.compiler.layout.bands import Band, parameters_of_tile
from celosia.sw.compiler.layout.pitches import (
    Layout,
    Segment,
    further_parts,
    pixel_bytes,
    segments,
    tile_segments,
)
from celosia.sw.compiler.layout.residence import TileSegments, demand_of, reside, steps_of
from celosia.sw.compiler.layout.scratch import Scratch, diagonals, scratch_of, tile_columns
from celosia.sw.layers.network import Network
from celosia.sw.layers.spec import DynamicProduct, Layer, MatrixLayer, Pooling


@dataclass(frozen=True, eq=False)
class TiledLayer:
    """Tiling of one layer, and the slots of its constants."""

    #: Reads of each output tile; none for a layer without weights.
    segments: tuple[tuple[Segment, ...], ...]
    #: Reduction steps of R taps over all segments of the first output tile, which has the most;
    #: output tiles.
    steps: int
    tiles: int
    passes: int  #: Reduction steps of all output tiles.
    channels: int  #: Output channels of a tile, of which the last may have fewer: C without a band.
    parameters: int  #: Channels of parameters for a tile.
    period: int  #: Tiles that stay or stream as one group.
    #: Number of resident periods, spread evenly: one streams while others are used. Slot in the
    #: weight buffer of the first resident tile.
    resident: int
    first_tile: int
    #: Channel of the parameter memory of its resident parameters; None if they stream.
    first_channel: int | None
    band: Band | None = None  #: Layout of tiles over pixels, if not one pixel each.
    #: True if blocks take turns on a streamed tile, instead of tiles on a block.
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
        """True if some tiles stream."""
        return self.resident < self.periods

    def slot(self, tile: int) -> int | None:
        """Return the slot of a resident tile in the weight buffer; None if it streams."""
        number, offset = divmod(tile, self.period)
        # The first period is resident: the array starts on it while others arrive.
        before = -(-number * self.resident // self.periods)
        if -(-(number + 1) * self.resident // self.periods) == before:
            return None
        return self.first_tile + before * self.period + offset

    def stretch(self, tile: int, last: int) -> int:
        """Return the first tile after ``tile`` with the other residence, or ``last``."""
        streams = self.slot(tile) is None
        end = tile + self.period - tile % self.period
        while end < last and (self.slot(end) is None) == streams:
            end += self.period
        return min(end, last)

    def first_step(self, tile: int, segment: int, config: Config) -> int:
        """Return the first step of a segment of an output tile."""
        return sum(earlier.steps(config) for earlier in self.segments[tile][:segment])


@dataclass(frozen=True)
class Ring:
    """Region of a memory for streamed constants: ``count`` slots from ``first``."""

    first: int
    count: int


@dataclass(frozen=True)
class Tables:
    """The tables of all layers, each of some slots of 256 bytes."""

    contents: tuple[bytes, ...]  #: Distinct tables as in external memory.
    of: dict[int, int]  #: Number of the table of each layer that has one.
    slots: tuple[int | None, ...]  #: First slot of each table in the core; None if it streams.
    ring: Ring  #: Region for streamed tables.
    first: int = 0  #: Slots of other tables before them in external memory.
    each: int = 1  #: Slots of one.

    @property
    def size(self) -> int:
        """Slots of all of them in external memory."""
        return self.each * len(self.contents)

    def users(self) -> dict[int, int]:
        """Return the first layer that reads each table."""
        return {number: layer for layer, number in reversed(self.of.items())}


@dataclass(frozen=True)
class Tiling:
    """Tiles of all layers, their tables, and the regions of the memories for streaming."""

    layers: tuple[TiledLayer, ...]
    weights: Ring
    parameters: Ring
    tables: Tables
    exponentials: Tables  #: Those of SOFTMAX.
    scratch: Scratch  #: Region for tiles made of activations.


def tile(
    network: Network,
    layouts: Sequence[Layout],
    bands: Mapping[int, Band],
    config: Config,
    stripes: Sequence[tuple[int, int]] | None = None,
) -> Tiling:
    """Return the tiles of the layers for a core.

    ``bands``: of layers with one; ``stripes``: by layer, the number of row stripes and the beats of
    the bus of their loads and stores, if known.
    """
    cut = [_segments(network, n, layouts, bands, config, None) for n in range(len(network.layers))]
    sizes = [steps_of(segments, config) * len(segments) for segments in cut]
    scratch = scratch_of(network, config)
    shared = diagonals(network)
    fixed = [x.factors if isinstance(x, DynamicProduct) else () for x in network.layers]
    keep, tiles = 0, scratch.below - sum(map(len, shared))
    stored = any(isinstance(layer, MatrixLayer) and layer.stored >= 0 for layer in network.layers)
    if sum(sizes) > tiles or stored:
        keep = max(tiles // policy.RING_SHARE, min(tiles, 2))
    if keep:
        # The ring holds several fetches.
        most = max(1, keep // policy.RING_READS)
        cut = [
            segments
            if all(p.side_by_side or p.steps(config) <= most for tile in segments for p in tile)
            else _segments(network, number, layouts, bands, config, most)
            for number, segments in enumerate(cut)
        ]
    demands = [
        demand_of(
            layer,
            segments,
            network.values[layer.source].is_input,
            keep,
            max(1, keep // policy.RING_FETCHES),
            config,
            stripes[number] if stripes else (1, 0),
            (bands[number], layouts[layer.source].row) if number in bands else None,
        )
        if isinstance(layer, MatrixLayer)
        else None
        for number, (layer, segments) in enumerate(zip(network.layers, cut, strict=True))
    ]
    slots, used = reside(demands, tiles - keep)
    for group in shared:
        own = (used, len(group), 1)
        slots = [
            own if factors == group else old for factors, old in zip(fixed, slots, strict=True)
        ]
        used += len(group)
    tiles += sum(map(len, shared))
    layers = [
        TiledLayer(
            segments=segments,
            steps=len(fixed[number]) or steps_of(segments, config),
            tiles=1 if fixed[number] else len(segments),
            passes=sum(steps_of((tile,), config) for tile in segments),
            channels=_channels(layer, bands.get(number), config),
            parameters=parameters_of_tile(_channels(layer, bands.get(number), config), config),
            band=bands.get(number),
            period=slots[number][1],
            resident=slots[number][2],
            first_tile=slots[number][0],
            first_channel=None,
            turns=bool((demand := demands[number]) and demand.turns),
        )
        for number, (layer, segments) in enumerate(zip(network.layers, cut, strict=True))
    ]
    weights = Ring(used, tiles - used)
    sizes = [parameters_of(*pair) for pair in zip(network.layers, layers, strict=True)]
    changing = [isinstance(x, DynamicProduct) and x.stepped >= 0 for x in network.layers]
    sizes = [config.parameter_channels if c else n for n, c in zip(sizes, changing, strict=True)]
    channels, parameters = _stay(sizes, config.parameter_channels, config.columns)
    layers = [
        replace(tiled, first_channel=first) for tiled, first in zip(layers, channels, strict=True)
    ]
    tables = _tables(network, config)
    exponentials = _exponentials(network, tables, config)
    return Tiling(tuple(layers), weights, parameters, tables, exponentials, scratch)


def _channels(layer: Layer, band: Band | None, config: Config) -> int:
    """Return the output channels of a tile."""
    if isinstance(layer, DynamicProduct):
        return tile_columns(config)
    if band is None or not isinstance(layer, MatrixLayer):
        return config.columns
    return band.channels * layer.depth_multiplier


def _segments(
    network: Network,
    number: int,
    layouts: Sequence[Layout],
    bands: Mapping[int, Band],
    config: Config,
    most: int | None,
) -> TileSegments:
    """Return the segments of each output tile of a layer."""
    layer = network.layers[number]
    if not isinstance(layer, MatrixLayer):
        return ()
    source = layouts[layer.source]
    if number in bands:
        return tile_segments(layer, bands[number], source, config)
    pixel = pixel_bytes(layer, network.values[layer.source], source.pixel)
    found: dict[int, tuple[Segment, ...]] = {}
    result = []
    for first in range(0, layer.channels, config.columns):
        channels = first, min(first + config.columns, layer.channels)
        depth = layer.inputs(*channels)[1]
        if depth not in found:
            found[depth] = segments(layer, source.pitch, pixel, channels, config, most)
        parts = found[depth]
        if layer.summands > 1:
            parts += tuple(further_parts(layer, layer.matrix(*channels), parts, config.rows))
        result.append(parts)
    return tuple(result)


def _stay(sizes: Sequence[int], capacity: int, unit: int) -> tuple[list[int | None], Ring]:
    """Assign slots to constants, small ones first, and keep a region to stream the rest.

    ``unit`` is the least that can be streamed at once; slots are multiples of it.
    """
    keep = 0
    if sum(sizes) > capacity:
        keep = max(min(capacity // 2, policy.RING_FETCHES * unit), min(2 * unit, capacity))
    slots: list[int | None] = [None] * len(sizes)
    used = 0
    for number in sorted(range(len(sizes)), key=lambda n: sizes[n]):
        if used + sizes[number] <= capacity - keep:
            slots[number] = used
            used += sizes[number]
    return slots, Ring(used, (capacity - used) // unit * unit)


def _distinct(found: Mapping[int, np.ndarray]) -> tuple[tuple[bytes, ...], dict[int, int]]:
    """Return the distinct tables among those of layers, and the number of that of each layer."""
    contents = tuple(dict.fromkeys(table.tobytes() for table in found.values()))
    return contents, {number: contents.index(table.tobytes()) for number, table in found.items()}


def _tables(network: Network, config: Config) -> Tables:
    """Return the tables of all layers; as many are resident as there are slots."""
    contents, of = _distinct(
        {
            number: layer.table
            for number, layer in enumerate(network.layers)
            if layer.table is not None
        }
    )
    slots, ring = _stay([1] * len(contents), config.tables, 1)
    return Tables(contents, of, tuple(slots), ring)


def _exponentials(network: Network, tables: Tables, config: Config) -> Tables:
    """Return the exponentials of all layers; resident if all layers have the same."""
    found = {
        number: layer.exponentials
        for number, layer in enumerate(network.layers)
        if isinstance(layer, Pooling) and layer.exponentials is not None
    }
    assert config.softmax or not found
    contents, of = _distinct(found)
    slots = (config.tables if len(contents) == 1 else None,) * len(contents)
    ring = Ring(config.tables, EXPONENTIAL_TABLES)
    return Tables(contents, of, slots, ring, tables.size, EXPONENTIAL_TABLES)


def parameters_of(layer: Layer, tiled: TiledLayer) -> int:
    """Return the channels of parameters of a layer, in whole tiles."""
    if isinstance(layer, MatrixLayer):
        return tiled.parameters * tiled.tiles
    if isinstance(layer, DynamicProduct):
        tiles = -(-layer.channels // tiled.channels) if layer.stepped >= 0 else 1
        return copied_parameters(layer, tiled) + tiled.parameters * tiles
    return tiled.parameters * len(layer.scalings)


def copied_parameters(layer: DynamicProduct, tiled: TiledLayer) -> int:
    """Return the first channel of the parameters of copied sums: after those of results."""
    tiles = -(-layer.channels // tiled.channels) if layer.by_channel else 1
    return tiled.parameters * tiles


def all_resident(tilings: Sequence[Tiling], config: Config) -> list[Tiling] | None:
    """Return the tilings of all parts with separate slots for each constant.

    None if there is only one part, if one of them streams constants, or if they do not fit.
    """
    if len(tilings) < 2 or not all(map(_stays, tilings)):
        return None
    tiles = channels = tables = 0
    result = []
    for tiling in tilings:
        result.append(_shifted(tiling, tiles, channels, tables))
        tiles += tiling.weights.first
        channels += -(-tiling.parameters.first // config.columns) * config.columns
        tables += tiling.tables.ring.first
    exponentials = {each for tiling in tilings for each in tiling.exponentials.contents}
    fits = (
        tiles <= min(tiling.scratch.first for tiling in tilings)
        and channels <= config.parameter_channels
        and tables <= config.tables
        and len(exponentials) <= 1
    )
    return result if fits else None


def _stays(tiling: Tiling) -> bool:
    """Return whether all constants of a part are resident."""
    layers = tiling.layers
    return (
        not any(layer.streams or layer.first_channel is None for layer in layers)
        and None not in tiling.tables.slots + tiling.exponentials.slots
    )


def _shifted(tiling: Tiling, tiles: int, channels: int, tables: int) -> Tiling:
    """Return a tiling with resident constants, moved up by some slots."""
    layers = tuple(
        replace(
            layer,
            first_tile=layer.first_tile + tiles,
            first_channel=(layer.first_channel or 0) + channels,
        )
        for layer in tiling.layers
    )
    slots = tuple((slot or 0) + tables for slot in tiling.tables.slots)
    return replace(tiling, layers=layers, tables=replace(tiling.tables, slots=slots))
