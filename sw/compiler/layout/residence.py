"""Choice of the weight tiles that are resident."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from celosia.hw.arch.config import PROGRAM_BYTES, Config
from celosia.sim.timing.costs import drain_cycles, pass_cycles
from celosia.sw.compiler import policy
from celosia.sw.compiler.layout.bands import Band, vectors
from celosia.sw.compiler.layout.pitches import Segment
from celosia.sw.layers.spec import MatrixLayer

#: Steps of the search for the resident tiles.
_HALVINGS = 30

#: Segments of each output tile.
TileSegments = tuple[tuple[Segment, ...], ...]


def steps_of(segments: TileSegments, config: Config) -> int:
    """Return the steps of the output tile with the most."""
    return max((sum(segment.steps(config) for segment in tile) for tile in segments), default=0)


@dataclass(frozen=True)
class Demand:
    """Bus cycles that a layer needs while it runs, and the cycles of its run."""

    #: Tiles of weights; tiles that stay or stream as one group.
    tiles: int
    period: int
    cycles: int  #: Cycles of the array or the vector unit.
    #: Bus cycles for instructions, and for each streamed tile.
    fixed: float
    per_tile: float
    #: True if it reads an input, which takes the first cycles of the bus, and has few tiles.
    first: bool
    turns: bool  #: True if blocks take turns on a tile, which streams once.
    stored: bool = False  #: True if tiles change from run to run, so that none is resident.

    def staying(self, level: float) -> int:
        """Return the resident periods with which the bus is busy at most a share of the time."""
        if self.stored:
            return 0
        if self.first:
            return -(-self.tiles // self.period)
        streamed = max(0.0, level * self.cycles - self.fixed) / self.per_tile
        return max(0, math.ceil((self.tiles - streamed) / self.period))

    def slots(self, periods: int) -> int:
        """Return the tiles of some periods."""
        return min(periods * self.period, self.tiles)


def demand_of(
    layer: MatrixLayer,
    segments: TileSegments,
    first: bool,
    ring: int,
    period: int,
    config: Config,
    stripes: tuple[int, int] = (1, 0),
    band: tuple[Band, int] | None = None,
) -> Demand:
    """Return the demand of a layer, for one sample.

    - ``stripes``: its row stripes, and the beats of the bus of their loads and stores.
    - ``band``: its band, and the pixels of its source from one row to the next.
    """
    steps = steps_of(segments, config)
    first = first and steps * len(segments) <= period
    if not all(segment.side_by_side for tile in segments for segment in tile):
        period = steps
    sums = math.prod(vectors(band[0], *layer.output, band[1])) if band else layer.pixels
    array = steps * pass_cycles(sums, config)
    vector = sums * drain_cycles(min(layer.channels, config.columns), config)
    count, moved = stripes
    blocks = max(count, -(-sums // config.accumulator_depth))
    instruction = PROGRAM_BYTES / config.bus_bytes
    beats = config.tile_bytes / config.bus_bytes + instruction / min(period, steps)
    fixed = moved + 2 * instruction * blocks * len(segments)
    cycles, tiles = len(segments) * max(array, vector), steps * len(segments)
    turns = count == 1 and takes_turns(steps, tiles, ring) and blocks * tiles * beats > cycles
    once = turns or (count == 1 and policy.RING_HELD * tiles <= ring)
    per_tile = beats if once else blocks * beats
    return Demand(tiles, period, cycles, fixed, per_tile, first, turns, layer.stored >= 0)


def takes_turns(steps: int, tiles: int, ring: int) -> bool:
    """Return whether blocks can take turns on the steps of an output tile, streamed once.

    They need not if all tiles stay in the ring from one block to the next.
    """
    return policy.RING_HELD * steps <= ring < policy.RING_HELD * tiles


def reside(demands: Sequence[Demand | None], space: int) -> tuple[list[tuple[int, int, int]], int]:
    """Return the first slot, period and periods of each layer's resident tiles; slots taken.

    The choice keeps the bus about equally busy in all layers: the array does not wait for tiles
    in layers that use them fast.
    """
    layers = [demand for demand in demands if demand]

    def taken(level: float) -> int:
        return sum(demand.slots(demand.staying(level)) for demand in layers)

    low, high = 0.0, max([1.0, *((d.fixed + d.tiles * d.per_tile) / d.cycles for d in layers)])
    if taken(low) <= space:
        high = low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if taken(middle) <= space else (middle, high)
    slots: list[tuple[int, int, int]] = []
    used = 0
    for demand in demands:
        if demand is None:
            slots.append((used, 1, 0))
            continue
        periods = demand.staying(high)
        whole = periods * demand.period >= demand.tiles
        slots.append((used, demand.tiles, 1) if whole else (used, demand.period, periods))
        used += demand.slots(periods)
    return slots, used
