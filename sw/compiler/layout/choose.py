"""Choice of the layers that multiply in bands.

A band takes fewer cycles than a diagonal, but more tiles, and pixel pitches of its source and its
result that may be worse for other readers. Each layer that could have a band gets the one that
saves most cycles of the array, over all layers that read its source or its result.
"""

import math
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from typing import NamedTuple

from celosia.hw.arch.config import PARAMETER_BYTES, Config
from celosia.sim.timing.costs import drain_cycles, drain_gap, pass_cycles
from celosia.sw.compiler import policy
from celosia.sw.compiler.layout.bands import (
    Band,
    overrun,
    parameters_of_tile,
    pixel_pitch,
    vectors,
)
from celosia.sw.compiler.layout.limits import addressable
from celosia.sw.compiler.layout.pitches import (
    Layout,
    band_segments,
    cycles,
    lay_out,
    layout_of,
    margins_of,
    tile_segments,
)
from celosia.sw.compiler.layout.placement import Placement, per_image_layers
from celosia.sw.compiler.layout.residence import steps_of
from celosia.sw.layers.network import Network, attached
from celosia.sw.layers.spec import MatrixLayer, Pool

#: Windows of a product without pooling.
_ALONE = Pool(window=(1, 1), stride=(1, 1))


def choose(network: Network, config: Config, placement: Placement | None = None) -> dict[int, Band]:
    """Return the bands of layers that are faster with one, by their number.

    ``placement``: of another choice, whose row stripes the bands have; if None there are none.
    """
    choice = _Choice(network, config, placement)
    # The best choice of a layer depends on the memory that the others leave.
    for _ in range(policy.BAND_TURNS):
        for number in range(per_image_layers(network, config)):
            choice.consider(number)
    return choice.bands if choice.holds() else {}


class _Work(NamedTuple):
    """Cost of a layer: its output tiles, and their cycles and space.

    ``array`` are the cycles of the array, ``drained`` those of the vector unit, which only a band
    waits for. Loads of stripes take the same port as drains.
    """

    outputs: int
    array: int
    drained: int
    tiles: int
    parameters: int
    stripes: int
    loads: int

    def cycles(self, least: int) -> int:
        """Return the cycles of the layer; ``least``: of the instructions of an output tile."""
        return max(self.array, self.outputs * self.stripes * least, self.drained + self.loads)


class _Choice:
    def __init__(self, network: Network, config: Config, placement: Placement | None) -> None:
        self.network = network
        self.config = config
        #: By layer, its row stripes, and the beats of their loads.
        self.stripes = [
            (placement.cuts(network, n), placement.beats(network, n, config)[0])
            if placement
            else (1, 0)
            for n in range(len(network.layers))
        ]
        self.measured = cache(self._measured)
        self.bands: dict[int, Band] = {}
        self.layouts = dict(enumerate(lay_out(network, {}, config)))
        self.work = {
            number: self.measured(number, None, self.layouts[layer.source])
            for number, layer in enumerate(network.layers)
            if isinstance(layer, MatrixLayer)
        }

    def consider(self, number: int) -> None:
        """Take the best band of a layer if there is one."""
        layer = self.network.layers[number]
        if not isinstance(layer, MatrixLayer) or not layer.depth_multiplier or layer.pool != _ALONE:
            return
        after = number + 1
        if after < len(self.network.layers) and attached(self.network, after):
            return
        least, best = None, (self.bands, self.layouts, self.work)
        self.bands = {n: band for n, band in self.bands.items() if n != number}
        for band in (None, *self.candidates(layer)):
            bands = self.bands | ({number: band} if band else {})
            layouts = self.around(layer, bands)
            possible = band is None or self.possible(layer, band, layouts)
            near = layouts[layer.source], layouts[layer.result]
            if possible and addressable(near, self.config):
                cost, work = self.cost(layer, bands, layouts)
                if least is None or cost < least:
                    least, best = cost, (bands, layouts, work)
        self.bands, self.layouts, self.work = best

    def holds(self) -> bool:
        """Return whether all bands are possible at once."""
        layouts = dict(enumerate(lay_out(self.network, self.bands, self.config)))
        chosen = ((self.network.layers[number], band) for number, band in self.bands.items())
        return addressable(layouts.values(), self.config) and all(
            isinstance(layer, MatrixLayer) and self.possible(layer, band, layouts)
            for layer, band in chosen
        )

    def candidates(self, layer: MatrixLayer) -> Iterator[Band]:
        """Yield the bands that a layer could have if their reads fit the memory."""
        ends = [self.network.values[value] for value in (layer.source, layer.result)]
        if min(value.height for value in ends) == 1 or ends[1].channels != layer.channels:
            return
        padded = any(margins_of(self.network, layer.result))
        for channels in range(1, ends[0].channels + 1):
            made = channels * layer.depth_multiplier
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
        """Return whether a value may have the pixel pitch for a run, given the bands so far."""
        about = self.network.values[value]
        if about.spread:
            return False
        if about.is_input or about.is_output:
            return pixel_pitch(about.channels, run, self.config) == about.channels
        for number, band in self.bands.items():
            layer = self.network.layers[number]
            assert isinstance(layer, MatrixLayer)
            if layer.source == value and band.channels != run:
                return False
            if layer.result == value and band.channels * layer.depth_multiplier != run:
                return False
        return True

    def around(self, layer: MatrixLayer, bands: Mapping[int, Band]) -> dict[int, Layout]:
        """Return the layouts of all values, new ones for those that a layer reads and makes."""
        layouts = dict(self.layouts)
        for value in (layer.source, layer.result):
            layouts[value] = layout_of(self.network, value, bands, layouts, self.config)
        return layouts

    def possible(self, layer: MatrixLayer, band: Band, layouts: Mapping[int, Layout]) -> bool:
        """Return whether instructions express a band, and the weight buffer streams its tiles."""
        config, source, result = self.config, layouts[layer.source], layouts[layer.result]
        _, wide = vectors(band, 1, layer.output[1], source.row)
        segments = band_segments(layer, band, source, config)
        longest = max(segment.steps(config) for segment in segments)
        far = band.count * max(layer.stride[1] * source.pixel, result.pixel)
        return (
            wide <= config.accumulator_depth
            and longest <= max(1, config.weight_tiles // policy.BAND_SHARE)
            and far < config.unified_bytes
            and (not band.joined or layer.output[1] <= source.row)
        )

    def cost(
        self, layer: MatrixLayer, bands: Mapping[int, Band], layouts: Mapping[int, Layout]
    ) -> tuple[int, dict[int, _Work]]:
        """Return the cycles of all layers that share a value with a layer, and the work of all.

        Streamed tiles and parameters count for the cycles of their load.
        """
        config, work = self.config, dict(self.work)
        near: list[int] = []
        for number in chain(*(self.network.readers[v] for v in (layer.source, layer.result))):
            reader = self.network.layers[number]
            if isinstance(reader, MatrixLayer):
                near.append(number)
                work[number] = self.measured(number, bands.get(number), layouts[reader.source])
        more = (
            _excess(sum(w.tiles for w in work.values()), config.weight_tiles),
            _excess(sum(w.parameters for w in work.values()), config.parameter_channels),
        )
        instructions = 2 + sum(count > 0 for count in more)
        least = instructions * policy.BAND_WORDS
        total = sum(work[n].cycles(least * (n in bands)) for n in near)
        streamed = more[0] * config.tile_bytes + more[1] * PARAMETER_BYTES
        return total + streamed // config.bus_bytes, work

    def _measured(self, number: int, band: Band | None, source: Layout) -> _Work:
        """Return the work of a layer; ``source``: layout of its source."""
        config, layer = self.config, self.network.product(number)
        stripes, loads = self.stripes[number]
        if band is None:
            value = self.network.values[layer.source]
            count = -(-layer.channels // config.columns)
            array = cycles(layer, value, source.pitch, source.pixel, config)
            steps = array // pass_cycles(layer.pixels, config)
            array = max(array, stripes * steps * pass_cycles(1, config))
            return _Work(count, array, 0, steps, count * config.columns, stripes, loads)
        channels = band.channels * layer.depth_multiplier
        tiles = tile_segments(layer, band, source, config)
        # Without further summands all tiles have the same steps.
        steps = [steps_of((tile,), config) for tile in tiles[: None if layer.summands > 1 else 1]]
        rows, width = -(-layer.output[0] // stripes), layer.output[1]
        pixels = math.prod(vectors(band, rows, width, source.row))
        drained = pixels * drain_cycles(band.count * channels, config) + drain_gap(config)
        count, slots = len(tiles), len(tiles) * max(steps)
        passes = sum(steps) * (count // len(steps))
        array, drained = stripes * passes * pass_cycles(pixels, config), count * stripes * drained
        parameters = count * parameters_of_tile(channels, config)
        return _Work(count, array, drained, slots, parameters, stripes, loads)


def _excess(wanted: int, capacity: int) -> int:
    """Return the amount that streams: the ring that it streams through is lost to the rest."""
    ring = capacity // policy.RING_SHARE
    return wanted - (capacity - ring) if wanted > capacity else 0
