"""Addresses of values and of regions of them in the unified buffer."""

from celosia.sw.compiler.emit.access import Access, span
from celosia.sw.compiler.layout.pitches import pixel_bytes
from celosia.sw.compiler.layout.placement import Arranged
from celosia.sw.compiler.schedule.actions import Region
from celosia.sw.layers.spec import MatrixLayer, Pooling


def loops(
    counts: tuple[int, int, int], strides: tuple[int, int, int], prefix: str = ""
) -> dict[str, int]:
    """Return the fields of loops over samples, rows and columns; a single turn has no stride."""
    fields = {}
    for axis, count, stride in zip("zyx", counts, strides, strict=True):
        fields[f"{axis}_count"] = count
        fields[f"{prefix}{axis}_stride"] = stride if count > 1 else 0
    return fields


class Addressing(Arranged):
    """Results of the passes before, and the addresses computed from them."""

    def address(self, region: Region) -> int:
        """Return the address of a region in the unified buffer."""
        layout = self.placement.layouts[region.value]
        base, row = self.base(region)
        return base + row * layout.pitch + layout.left * layout.pixel + region.columns[0]

    def base(self, region: Region) -> tuple[int, int]:
        """Return the address of a region's first sample or buffer, and its first row in that."""
        stripe = region.stripe
        if stripe:
            turns = self.placement.stripes[region.value, stripe.layer]
            return turns[stripe.turn], region.rows[0] - stripe.first
        base = self.placement.address(region.value, region.sub_batch, region.samples[0])
        return base, self.placement.layouts[region.value].top + region.rows[0]

    def access(self, region: Region, *, writes: bool) -> Access:
        """Return bytes of the unified buffer that include a region."""
        layout = self.placement.layouts[region.value]
        value = self.network.values[region.value]
        base, row = self.base(region)
        count = region.samples[1] - region.samples[0]
        left = layout.left * layout.pixel
        columns = (left + region.columns[0], left + region.columns[1])
        if layout.row and count == 1:
            # Values that bands read or make: by pixel and channel.
            pixels = (
                row * layout.row + columns[0] // layout.pixel,
                (row + region.rows[1] - region.rows[0] - 1) * layout.row
                + -(-columns[1] // layout.pixel),
            )
            channels = region.channels or (0, layout.pixel)
            return Access("unified", writes, base, layout.pixel, *pixels, *channels)
        if value.height == 1 and not layout.margins and not region.stripe:
            if self.placement.values[region.value].whole:
                # All accesses to a vector count from the sub-batch's first sample.
                sub_batch = self.placement.sub_batches[region.sub_batch][0]
                first = region.samples[0] - sub_batch
                base -= first * layout.sample_pitch
            else:
                first = 0
            return Access(
                "unified", writes, base, layout.sample_pitch, first, first + count, *columns
            )
        if count == 1:
            rows = (row, row + region.rows[1] - region.rows[0])
            pixel, channels = layout.pixel, region.channels
            return Access("unified", writes, base, layout.pitch, *rows, *columns, pixel, channels)
        return span("unified", writes, base, count * layout.sample_pitch)

    def half(self, half: int, *, writes: bool) -> Access:
        """Return an access to a half of the accumulators; one unit at a time owns it."""
        depth = self.config.accumulator_depth
        return span("accumulators", writes, half * depth, depth)

    def channels(self, number: int, tile: int) -> tuple[int, int]:
        """Return the first output channel of a tile of a layer, and the one after its last."""
        layer = self.network.layers[number]
        assert not isinstance(layer, Pooling)
        tiled = self.tiling.layers[number]
        return tile * tiled.channels, min((tile + 1) * tiled.channels, layer.channels)

    def pixels(self, number: int, tile: int) -> tuple[int, int]:
        """Return the bytes from one pixel to the next, and the first channel of an output tile."""
        layer = self.network.layers[number]
        assert isinstance(layer, MatrixLayer)
        value, layout = self.network.values[layer.source], self.placement.layouts[layer.source]
        first = layer.inputs(*self.channels(number, tile))[0]
        return pixel_bytes(layer, value, layout.pixel), first
