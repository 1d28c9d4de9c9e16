"""Areas of values that actions read and write."""

from functools import cache
from typing import NamedTuple

from celosia.sw.compiler.layout.bands import Band
from celosia.sw.compiler.layout.placement import Arranged, Arrangement
from celosia.sw.compiler.layout.stripes import rows_read, source_rows
from celosia.sw.compiler.schedule.actions import (
    Action,
    AddRegion,
    Drain,
    FillMargins,
    LoadRegion,
    MoveWeights,
    MultiplyMoved,
    PoolRegion,
    SpreadSums,
    StoreRegion,
    Stripe,
)
from celosia.sw.layers.grids import Addend
from celosia.sw.layers.spec import DynamicProduct, MatrixLayer, Pooling, Range, Sum

#: All rows, or all channels.
EVERYTHING = (-(1 << 62), 1 << 62)


class Area(NamedTuple):
    """Box of a value, in samples, rows and channels, and the buffer that holds it, if one does."""

    value: int
    samples: Range
    rows: Range
    channels: Range = EVERYTHING
    stripe: Stripe | None = None

    def meets(self, other: "Area") -> bool:
        """Return whether two areas have a byte in common, in whatever buffers."""
        pairs = zip(self[1:4], other[1:4], strict=True)
        return self.value == other.value and all(a[0] < b[1] and b[0] < a[1] for a, b in pairs)


class Areas(Arranged):
    """Areas of the actions of a schedule."""

    def __init__(self, about: Arrangement) -> None:
        super().__init__(about)
        self.writes = cache(self._writes)
        self.reads = cache(self._reads)

    def _writes(self, action: Action) -> Area | None:
        """Return the area that an action writes."""
        if isinstance(action, (StoreRegion, FillMargins, LoadRegion)):
            region = action.region
            return Area(region.value, region.samples, region.rows)
        if isinstance(action, PoolRegion):
            layer = self.network.layers[action.layer]
            return Area(layer.result, action.samples, action.rows, stripe=action.result)
        if isinstance(action, AddRegion) and action.step < 2:
            return None
        if not isinstance(action, (Drain, AddRegion)):
            return None
        layer, tiled = self.network.layers[action.layer], self.tiling.layers[action.layer]
        assert not isinstance(layer, Pooling)
        start = action.tile * tiled.channels + (
            layer.first if isinstance(layer, MatrixLayer | DynamicProduct) else 0
        )
        channels = start, start + tiled.channels
        return Area(layer.result, *action.block[:2], channels, action.result)

    def _reads(self, action: Action) -> list[Area]:
        """Return the areas that an action reads."""
        if isinstance(action, LoadRegion) and action.region.stripe:
            region = action.region
            return [Area(region.value, region.samples, region.rows)]
        if isinstance(action, LoadRegion):
            region, others = action.region, self.network.reloaded.get(action.region.value, ())
            return [Area(n, region.samples, EVERYTHING) for n in others if n != region.value]
        if isinstance(action, (StoreRegion, FillMargins, SpreadSums, Drain)):
            return []
        layer = self.network.layers[action.layer]
        if isinstance(action, (MoveWeights, MultiplyMoved)):
            return [self._matrix(action)]
        if isinstance(action, PoolRegion):
            assert isinstance(layer, Pooling)
            some = self._rows(layer, action.rows, action.source, None)
            rows = EVERYTHING if layer.seen else some
            return [Area(layer.source, action.samples, rows, stripe=action.source)]
        samples, rows = action.block.samples, action.block.rows
        if isinstance(action, AddRegion):
            assert isinstance(layer, Sum)
            if action.step == 2:
                return []
            first = action.tile * self.config.columns
            value, stripe = layer.sources[action.step], action.sources[action.step]
            rows = rows if value not in self.network.repeated else EVERYTHING
            return [Area(value, samples, rows, (first, first + self.config.columns), stripe)]
        assert isinstance(layer, MatrixLayer)
        tiled, layout = self.tiling.layers[action.layer], self.placement.layouts[layer.source]
        channels, some = EVERYTHING, self._rows(layer, rows, action.source, tiled.band)
        value, first = self.network.values[layer.source], action.first_step * self.config.rows
        last = action.last_step * self.config.rows
        if layer.depth_multiplier:
            start = action.tile * tiled.channels
            start, count = layer.inputs(start, min(start + tiled.channels, layer.channels))
            channels = start, start + count
        elif action.segment:
            pass
        elif value.bytes_per_item == layer.taps and value.height == 1:
            channels = (first, last) if value.width == 1 else EVERYTHING
        elif value.bytes_per_item == layer.taps and not layout.row:
            some = first // layout.pitch, -(-last // layout.pitch)
        elif layer.kernel == (1, 1) and value.height > 1:
            channels = first, last
        return [Area(layer.source, samples, some, channels, action.source)]

    def _rows(
        self, layer: MatrixLayer | Pooling, rows: Range, stripe: Stripe | None, band: Band | None
    ) -> Range:
        """Return the rows of its source that a layer reads for some rows of its result."""
        if stripe and not self.passage(layer.source):
            # A stripe of a value in external memory ends with its own last row.
            return source_rows(layer, rows)
        return rows_read(layer, rows, band, self.placement.layouts[layer.source])

    def _matrix(self, action: MoveWeights | MultiplyMoved) -> Area:
        """Return the area that an action of a product of two computed matrices reads."""
        layer = self.network.layers[action.layer]
        assert isinstance(layer, DynamicProduct)
        if isinstance(action, MoveWeights):
            value = layer.tiles_of(action.term, action.group)
        else:
            value = layer.pixels_of(action.term, action.group)
        if isinstance(action.term, Addend):
            return Area(value, action.block.samples, EVERYTHING)
        matrix = layer.matrices[isinstance(action, MoveWeights)][action.head]
        head = matrix, matrix + 1
        rows = head if self.network.values[value].height > 1 else EVERYTHING
        return Area(value, action.block.samples, rows)
