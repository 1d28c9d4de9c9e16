"""Second pass, first half: which layers multiply in bands.

A band takes fewer cycles than a diagonal, but more tiles, and pixel pitches of its source and its
result that other readers may not like. Each layer that could have a band gets the one that saves
most cycles of the array, over all layers that read its source or its result.
"""

import math
from collections.abc import Iterator, Mapping

from celosia.hw.arch.config import Config
from celosia.sw.compiler.allocate import head_layers
from celosia.sw.compiler.bands import Band, overrun, pixel_pitch, vectors
from celosia.sw.compiler.blocks import attached
from celosia.sw.compiler.layout import (
    Layout,
    band_segments,
    cycles,
    lay_out,
    layout_of,
    margins_of,
)
from celosia.sw.compiler.spec import CompileError, Network, Pool, Product

__all__ = ["choose"]

#: Part of the weight buffer that one instruction may stream; see ``tile``.
_PIECES = 16
#: Windows of a product without pooling.
_ALONE = Pool(window=(1, 1), stride=(1, 1))


def choose(network: Network, config: Config) -> dict[int, Band]:
    """Return the bands of layers that are better off with one, by their number."""
    choice = _Choice(network, config)
    for number in range(head_layers(network, config)):
        choice.consider(number)
    return choice.bands


class _Choice:
    def __init__(self, network: Network, config: Config) -> None:
        self.network = network
        self.config = config
        self.bands: dict[int, Band] = {}
        self.layouts = dict(enumerate(lay_out(network, {}, config)))
        self.tiles = {
            number: self.work(number, layer, {}, self.layouts)[1]
            for number, layer in enumerate(network.layers)
            if isinstance(layer, Product)
        }

    def consider(self, number: int) -> None:
        """Take the best band of a layer if there is one."""
        layer = self.network.layers[number]
        if not isinstance(layer, Product) or not layer.each or layer.pool != _ALONE:
            return
        following = number + 1
        if following < len(self.network.layers) and attached(self.network, following):
            return
        least, tiles = self.cost(layer, self.bands, self.layouts)
        best = self.bands, self.layouts, tiles
        for band in self.candidates(layer):
            bands = self.bands | {number: band}
            try:
                layouts = self.around(layer, bands)
            except CompileError:
                continue
            if self.possible(layer, band, layouts):
                cost, tiles = self.cost(layer, bands, layouts)
                if cost < least:
                    least, best = cost, (bands, layouts, tiles)
        self.bands, self.layouts, self.tiles = best

    def candidates(self, layer: Product) -> Iterator[Band]:
        """Yield the bands that a layer could have if there is room for what they read."""
        ends = [self.network.values[value] for value in (layer.source, layer.result)]
        if min(value.height for value in ends) == 1:
            return
        padded = any(margins_of(self.network, layer.result))
        for channels in range(1, ends[0].channels + 1):
            made = channels * layer.each
            if 2 * made > self.config.columns:
                return
            if ends[0].channels % channels:
                continue
            runs = (layer.source, channels), (layer.result, made)
            if not all(self.agrees(value, run) for value, run in runs):
                continue
            for count in range(2, self.config.columns // made + 1):
                if not padded and layer.stride == (1, 1):
                    yield Band(channels, count, joined=True)
                band = Band(channels, count, joined=False)
                if not padded or not overrun(layer, band):
                    yield band

    def agrees(self, value: int, run: int) -> bool:
        """Whether a value may have the pixel pitch for a run, given the bands so far."""
        about = self.network.values[value]
        if about.is_input or about.is_output:
            return pixel_pitch(about.channels, run, self.config) == about.channels
        for number, band in self.bands.items():
            layer = self.network.layers[number]
            assert isinstance(layer, Product)
            if layer.source == value and band.channels != run:
                return False
            if layer.result == value and band.channels * layer.each != run:
                return False
        return True

    def around(self, layer: Product, bands: Mapping[int, Band]) -> dict[int, Layout]:
        """Return the layouts of all values, those of what a layer reads and makes new."""
        layouts = dict(self.layouts)
        for value in (layer.source, layer.result):
            layouts[value] = layout_of(self.network, value, bands, layouts, self.config)
        return layouts

    def possible(self, layer: Product, band: Band, layouts: Mapping[int, Layout]) -> bool:
        """Whether instructions can say what a band does, and the weight buffer stream its tiles."""
        config, source, result = self.config, layouts[layer.source], layouts[layer.result]
        _, wide = vectors(band, 1, layer.output[1], source.row)
        parts = band_segments(layer, band, source, config)
        longest = max(part.steps(config) for part in parts)
        far = band.count * max(layer.stride[1] * source.pixel, result.pixel)
        return (
            wide <= config.accumulator_depth
            and longest <= max(1, config.weight_tiles // _PIECES)
            and far < config.unified_bytes
        )

    def cost(
        self, layer: Product, bands: Mapping[int, Band], layouts: Mapping[int, Layout]
    ) -> tuple[int, dict[int, int]]:
        """Return the cycles of all that read what a layer reads or makes, and the tiles of all.

        Tiles that the weight buffer does not hold count for as long as they take to load.
        """
        total, tiles = 0, dict(self.tiles)
        for number, reader in enumerate(self.network.layers):
            if isinstance(reader, Product) and reader.source in (layer.source, layer.result):
                spent, tiles[number] = self.work(number, reader, bands, layouts)
                total += spent
        more = max(0, sum(tiles.values()) - self.config.weight_tiles)
        return total + more * self.config.tile_bytes // self.config.bus_bytes, tiles

    def work(
        self,
        number: int,
        layer: Product,
        bands: Mapping[int, Band],
        layouts: Mapping[int, Layout],
    ) -> tuple[int, int]:
        """Return the cycles that a layer takes, and its tiles."""
        config, source = self.config, layouts[layer.source]
        load = config.rows // config.weight_rows
        band = bands.get(number)
        if band is None:
            value = self.network.values[layer.source]
            spent = cycles(layer, value, source.pitch, source.pixel, config)
            return spent, spent // max(layer.pixels, load)
        made = band.channels * layer.each
        parts = band_segments(layer, band, source, config)
        tiles = layer.channels // made
        steps = sum(part.steps(config) for part in parts)
        count = math.prod(vectors(band, *layer.output, source.row))
        drained = count * -(-band.count * made // config.lanes)
        return tiles * max(steps * max(count, load), drained), tiles * steps
