"""When the work of a schedule runs, roughly: the clocks of the units while a program is put together.

The latencies are those of the estimate (``celosia.sim.costs``).
"""

import math
from collections import deque

from celosia.hw.arch.config import INSTRUCTION_BYTES, PARAMETER_BYTES, TABLE_BYTES, Config
from celosia.sim.costs import COSTS
from celosia.sw.compiler.actions import AddRegion, Drain, LoadRegion, Multiply, PoolRegion
from celosia.sw.compiler.bands import vectors
from celosia.sw.compiler.blocks import sums
from celosia.sw.compiler.layout import Layout
from celosia.sw.compiler.spec import Network, Pooling, Product
from celosia.sw.compiler.tile import Tiling

__all__ = ["Pace", "Work", "drain_latency", "sum_latency"]

#: Work that keeps the array or the vector unit busy.
Work = Multiply | Drain | PoolRegion | AddRegion


def sum_latency(config: Config) -> int:
    """Return the cycles from the last pixel that enters the array until its sums can be drained."""
    return config.rows + config.columns + COSTS.matrix + COSTS.post + COSTS.prepare


def drain_latency(config: Config) -> int:
    """Return the cycles from the last sum that a drain reads until its results are there."""
    return COSTS.sums + COSTS.to_bytes + COSTS.post + config.group_cycles - 1


class Pace:
    """Clocks of the units, moved on by one piece of work after the other.

    Parameters
    ----------
    network, tiling, layouts, config
        Results of the passes before, and the core.
    """

    def __init__(
        self, network: Network, tiling: Tiling, layouts: tuple[Layout, ...], config: Config
    ) -> None:
        self.network = network
        self.tiling = tiling
        self.layouts = layouts
        self.config = config
        self.dispatched = self.matrix = self.vector = self.bus = 0
        # By half of the accumulators: when its sums are complete, and when they have been drained.
        self.sums = [0, 0]
        self.drained = [0, 0]
        # Starts of the last work of the array and of the vector unit, and of loads.
        self.queues = {
            name: deque[int](maxlen=config.queue_depth) for name in ("matrix", "vector", "load")
        }
        self.load_start = 0

    def pixels(self, action: Multiply | Drain) -> int:
        """Return the rows of accumulators that work of a product fills or drains."""
        layer = self.network.layers[action.layer]
        assert isinstance(layer, Product)
        counts = sums(layer.pool, action.block)
        band = self.tiling.layers[action.layer].band
        if band:
            row = self.layouts[layer.source].row
            counts = (counts[0], *vectors(band, *counts[1:], row))
        return math.prod(counts)

    def cycles(self, action: Work) -> int:
        """Return for how many cycles work keeps its unit."""
        config, layer = self.config, self.network.layers[action.layer]
        if isinstance(action, Multiply):
            each = max(self.pixels(action), config.rows // config.weight_rows)
            return each * (action.last_step - action.first_step)
        if isinstance(action, PoolRegion):
            assert isinstance(layer, Pooling)
            windows = layer.windows[action.windows]
            items = action.items[1] - action.items[0]
            pixels = items * (action.rows[1] - action.rows[0]) * windows.count[1]
            channels = self.network.values[layer.result].channels
            groups = -(-channels // config.lanes)
            reads = -(-groups // config.read_groups)
            return pixels * max(groups * config.group_cycles, reads * math.prod(windows.size))
        assert not isinstance(layer, Pooling)
        groups = -(-min(layer.channels, config.columns) // config.lanes) * config.group_cycles
        if isinstance(action, AddRegion):
            return math.prod(action.block.extents) * groups
        band = self.tiling.layers[action.layer].band
        if band:
            assert isinstance(layer, Product)
            groups = -(-band.count * band.channels * layer.each // config.lanes)
            return self.pixels(action) * groups * config.group_cycles
        assert isinstance(layer, Product)
        return math.prod(action.block.extents) * max(groups, math.prod(layer.pool.window))

    def start(self, action: Work) -> int:
        """Return when the unit of some work can begin with it, as far as sums go."""
        if isinstance(action, Multiply):
            return max(self.matrix, self.drained[action.half])
        return max(self.vector, self.sums[action.half] if isinstance(action, Drain) else 0)

    def work(self, action: Work, ready: int = 0) -> int:
        """Move the clocks on by some work, whose data are there at ``ready``; return its start."""
        cycles = self.cycles(action)
        unit = "matrix" if isinstance(action, Multiply) else "vector"
        self.dispatch(unit)
        start = max(self.start(action), self.dispatched, ready)
        self.queues[unit].append(start)
        if isinstance(action, Multiply):
            self.matrix = start + cycles
            self.sums[action.half] = self.matrix + sum_latency(self.config)
            return start
        self.vector = start + cycles
        if not isinstance(action, PoolRegion):
            self.drained[action.half] = self.vector + drain_latency(self.config)
        return start

    def dispatch(self, queue: str) -> None:
        """Let the sequencer hand on an instruction, once there is room in the queue of its unit."""
        self.dispatched += INSTRUCTION_BYTES // self.config.bus_bytes + COSTS.check
        starts = self.queues[queue]
        if len(starts) == starts.maxlen:
            self.dispatched = max(self.dispatched, starts[0])

    def load_waits(self) -> bool:
        """Return whether the load unit has not begun with a load when the next one is dispatched."""
        return self.load_start > self.dispatched

    def load(self, beats: int, free: int = 0) -> int:
        """Move the clocks on by a load whose place is free at ``free``; return when it is there."""
        self.dispatch("load")
        start = max(self.bus, self.dispatched, free)
        self.queues["load"].append(start)
        self.load_start = start
        self.bus = start + beats
        return self.bus + COSTS.memory + COSTS.arrival + COSTS.request

    def beats(self, action: LoadRegion) -> int:
        """Return the beats of the bus that a load of a region takes."""
        region = action.region
        rows = math.prod(last - first for first, last in (region.items, region.rows))
        return rows * -(-(region.columns[1] - region.columns[0]) // self.config.bus_bytes)

    def fetch_beats(self, tiles: int = 0, channels: int = 0, tables: int = 0) -> int:
        """Return the beats of the bus that constants take."""
        count = tiles * self.config.tile_bytes + channels * PARAMETER_BYTES + tables * TABLE_BYTES
        return -(-count // self.config.bus_bytes)
