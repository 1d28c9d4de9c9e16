"""Approximate clocks of the units while a program is scheduled.

Cycles are those of the estimate (``celosia.sim.timing.costs``).
"""

import itertools
import math
from collections import deque
from functools import cache

from celosia.hw.arch.config import Config
from celosia.sim.timing.costs import (
    arrival,
    drain_cycles,
    drain_latency,
    pass_cycles,
    softmax_cycles,
    sum_latency,
)
from celosia.sim.timing.traffic import Port
from celosia.sw.compiler import policy
from celosia.sw.compiler.layout.bands import vectors
from celosia.sw.compiler.layout.pitches import Layout
from celosia.sw.compiler.layout.placement import Arranged, Arrangement
from celosia.sw.compiler.layout.tile import TiledLayer, Tiling
from celosia.sw.compiler.schedule.actions import (
    AddRegion,
    Block,
    Drain,
    LoadRegion,
    Matrix,
    MoveWeights,
    Multiply,
    MultiplyMoved,
    PoolRegion,
    SpreadSums,
    StoreRegion,
)
from celosia.sw.compiler.schedule.blocks import rows_of
from celosia.sw.compiler.schedule.pooling import pooled_extents
from celosia.sw.layers.network import Network
from celosia.sw.layers.spec import DynamicProduct, Layer, MatrixLayer, Pooling, Sum

#: Actions of the array or the vector unit.
Work = Matrix | SpreadSums | Drain | PoolRegion | AddRegion


class Pace(Arranged):
    """Clocks of the units, advanced by one action after the other."""

    def __init__(self, about: Arrangement) -> None:
        super().__init__(about)
        self.cycles, self.rows = cache(self._cycles), cache(self._rows)
        self.dispatched = self.matrix = self.vector = self.bus = 0
        # By half of the accumulators: cycles at which its sums are complete, and drained.
        self.sums = [0, 0]
        self.drained = [0, 0]
        # Starts of the last actions of the array and of the vector unit, and of loads.
        self.queues = {
            name: deque[int](maxlen=self.config.queue_depth)
            for name in ("matrix", "vector", "load")
        }
        self.load_start = 0
        # Stores on the bus, drains that write the unified buffer, and the end of loads into it.
        self.stores, self.drains, self.filled, self.stored = Port(), Port(), 0, 0

    def pixels(self, action: Multiply | Drain) -> int:
        """Return the rows of accumulators that an action of a matrix layer fills or drains."""
        return self.rows(action.layer, action.block)

    def _rows(self, number: int, block: Block) -> int:
        layer, band = self.network.product(number), self.tiling.layers[number].band
        return rows_of(layer, band, self.placement.layouts[layer.source].row, block)

    def _cycles(self, action: Work) -> int:
        """Return the cycles of an action in its unit."""
        config, layer = self.config, self.network.layers[action.layer]
        if isinstance(action, MoveWeights):
            # A row of a tile each cycle.
            return (action.last_step - action.first_step) * config.rows
        if isinstance(action, Multiply | MultiplyMoved):
            moved = isinstance(action, MultiplyMoved)
            pixels = action.rows[1] - action.rows[0] if moved else self.pixels(action)
            return pass_cycles(pixels, config) * (action.last_step - action.first_step)
        if isinstance(action, PoolRegion):
            assert isinstance(layer, Pooling)
            windows = layer.windows[action.windows]
            extents, channels = pooled_extents(self, action)
            pixels = math.prod(extents)
            groups = -(-channels // config.lanes)
            reads = -(-groups // config.read_groups)
            if layer.exponentials is not None:
                return softmax_cycles(pixels, groups)
            return pixels * max(groups * config.group_cycles, reads * math.prod(windows.size))
        assert not isinstance(layer, Pooling)
        groups = drain_cycles(min(layer.channels, config.columns), config)
        if isinstance(action, SpreadSums):
            return action.rows * groups
        if isinstance(action, AddRegion):
            return math.prod(action.block.extents) * groups
        band = self.tiling.layers[action.layer].band
        if band:
            assert isinstance(layer, MatrixLayer)
            channels = band.count * band.channels * layer.depth_multiplier
            return self.pixels(action) * drain_cycles(channels, config)
        assert isinstance(layer, MatrixLayer | DynamicProduct)
        return math.prod(action.block.extents) * max(groups, math.prod(layer.pool.window))

    def start(self, action: Work) -> int:
        """Return the cycle at which the unit of an action can begin it, by its sums."""
        if isinstance(action, MoveWeights):
            return self.matrix
        if isinstance(action, Multiply | MultiplyMoved):
            return max(self.matrix, self.drained[action.half])
        made = isinstance(action, Drain | SpreadSums)
        return max(self.vector, self.sums[action.half] if made else 0)

    def work(self, action: Work, ready: int = 0) -> int:
        """Advance the clocks by an action, whose data are complete at ``ready``; return its end."""
        cycles = self.cycles(action)
        unit = "matrix" if isinstance(action, Matrix) else "vector"
        self.dispatch(unit)
        start = max(self.start(action), self.dispatched, ready)
        self.queues[unit].append(start)
        if isinstance(action, MoveWeights):
            self.matrix = start + cycles
            return self.matrix
        if isinstance(action, Multiply | MultiplyMoved):
            self.matrix = start + cycles
            self.sums[action.half] = self.matrix + sum_latency(self.config)
            return self.matrix
        self.vector = start + cycles
        self.drains.take(start, self.vector, 1.0)
        if self.filled > start:
            # Loads wait for drains.
            self.filled += cycles
            self.bus = max(self.bus, self.filled)
        if not isinstance(action, PoolRegion):
            self.drained[action.half] = self.vector + drain_latency(self.config)
        return self.vector

    def dispatch(self, queue: str) -> None:
        """Dispatch an instruction, after the queue of its unit has space."""
        self.dispatched += policy.INSTRUCTION_WORDS
        starts = self.queues[queue]
        if len(starts) == starts.maxlen:
            self.dispatched = max(self.dispatched, starts[0])

    def load_waits(self) -> bool:
        """Return whether the load unit has not begun a load when the next one is dispatched."""
        return self.load_start > self.dispatched

    def store(self, beats: int) -> None:
        """Advance the clocks by the store of a stripe; loads take turns with it."""
        self.dispatch("vector")
        start = max(self.vector + drain_latency(self.config), self.stored)
        self.stored = start + 2 * beats
        self.stores.take(start, self.stored, 0.5)

    def load(self, beats: int, free: int = 0, *, fills: bool = False) -> int:
        """Advance the clocks by a load to an address free at ``free``; return its end.

        ``fills``: true if it fills the buffer of a stripe, and waits for drains.
        """
        self.dispatch("load")
        start = max(self.bus, self.dispatched, free)
        self.queues["load"].append(start)
        self.load_start = start
        self.bus = math.ceil(self.stores.end(start, beats))
        if fills:
            self.bus = self.filled = max(self.bus, math.ceil(self.drains.end(start, beats)))
        return arrival(self.bus)

    def beats(self, action: LoadRegion | StoreRegion) -> int:
        """Return the beats of the bus of a load or store of a region."""
        region = action.region
        rows = math.prod(last - first for first, last in (region.samples, region.rows))
        return rows * -(-(region.columns[1] - region.columns[0]) // self.config.bus_bytes)


def layer_cycles(
    layer: Layer, tiled: TiledLayer, source: Layout, config: Config, stripes: int = 1
) -> tuple[int, int]:
    """Return the cycles of a layer in the array and in the vector unit, for one sample.

    ``stripes``: number of equal row stripes in which it makes its result.
    """
    if isinstance(layer, Pooling):
        pixels = sum(math.prod(w.count) * math.prod(w.size) for w in layer.windows)
        if layer.exponentials is not None:
            return 0, softmax_cycles(pixels, 1)
        return 0, pixels * config.group_cycles
    tiles = -(-layer.channels // tiled.channels)
    groups = drain_cycles(min(layer.channels, config.columns), config)
    if isinstance(layer, Sum):
        return 0, 3 * tiles * math.prod(layer.output) * groups
    if isinstance(layer, DynamicProduct):
        steps, pixels = -(-layer.taps // config.rows), layer.heads * layer.rows
        rows = pass_cycles(layer.rows, config)
        added = sum(len(addend.tiles) for addend in layer.addends) * rows
        each = layer.passes * rows + config.rows
        array = tiles * layer.heads * (steps * each + added)
        return array, tiles * pixels * groups
    if tiled.band:
        rows, width = layer.output
        pixels = math.prod(vectors(tiled.band, -(-rows // stripes), width, source.row))
        groups = drain_cycles(tiled.band.count * tiled.channels, config)
        array = stripes * tiled.passes * pass_cycles(pixels, config)
        return array, tiles * stripes * pixels * groups
    drained = math.prod(layer.output) * max(groups, math.prod(layer.pool.window))
    passes = max(pass_cycles(layer.pixels, config), stripes * pass_cycles(1, config))
    return tiled.passes * passes, tiles * drained


def overlap_gains(
    network: Network, tiling: Tiling, layouts: tuple[Layout, ...], config: Config
) -> list[int]:
    """Return for each layer the cycles saved if the next one begins before its end.

    These are the drains of one layer beyond its matrix work, as far as the other has matrix work
    beyond its drains.
    """
    spare = []
    for layer, tiled in zip(network.layers, tiling.layers, strict=True):
        array, vector = layer_cycles(layer, tiled, layouts[layer.source], config)
        spare.append(array - vector)
    pairs = itertools.pairwise(spare)
    return [max(0, min(one, -other), min(-one, other)) for one, other in pairs] + [0]
