"""Weights and parameters as external memory holds them."""

from collections.abc import Sequence

import numpy as np

from celosia.hw.arch.config import PARAMETER_BYTES, Config
from celosia.sw.compiler.layout.bands import band_matrix, spans
from celosia.sw.compiler.layout.pitches import Layout
from celosia.sw.compiler.layout.tile import TiledLayer, Tiling, copied_parameters, parameters_of
from celosia.sw.layers.channel import CHANNEL
from celosia.sw.layers.network import Network
from celosia.sw.layers.spec import DynamicProduct, Layer, MatrixLayer


def packed(
    network: Network, tiling: Tiling, layouts: Sequence[Layout], config: Config
) -> list[tuple[bytes, bytes]]:
    """Return the weights and the parameters of each layer as external memory holds them."""
    return [
        (pack_weights(layer, tiled, layouts[layer.source], config), pack_parameters(layer, tiled))
        for layer, tiled in zip(network.layers, tiling.layers, strict=True)
    ]


def packed_bytes(layer: Layer, tiled: TiledLayer, config: Config) -> tuple[int, int]:
    """Return the bytes of a layer's weights and of its parameters, packed."""
    stored = isinstance(layer, MatrixLayer) and layer.stored >= 0
    weights = 0 if stored else tiled.weight_tiles * config.tile_bytes
    return weights, parameters_of(layer, tiled) * PARAMETER_BYTES


def pack_weights(layer: Layer, tiled: TiledLayer, source: Layout, config: Config) -> bytes:
    """Return a layer's tiles as external memory holds them, output tile by output tile.

    Taps and channels past the end of a segment or of the layer are zero. ``source`` is the layout
    of the value read.
    """
    rows, columns = config.rows, config.columns
    if isinstance(layer, DynamicProduct):
        tiles = np.zeros((len(layer.factors), rows, config.tile_row_bytes), np.int8)
        diagonal = np.arange(min(rows, columns))
        tiles[:, diagonal, diagonal] = np.array(layer.factors, np.int8)[:, None]
        return tiles.tobytes()
    if not isinstance(layer, MatrixLayer) or layer.stored >= 0:
        return b""
    image = np.zeros((tiled.tiles, tiled.steps, rows, config.tile_row_bytes), np.int8)
    for number, tile in enumerate(tiled.segments):
        first = number * tiled.channels
        if tiled.band:
            stretches = spans(layer, tiled.band, source.row, config)
            matrix = band_matrix(
                layer, tiled.band, first // layer.depth_multiplier, stretches, source.row
            )
        else:
            matrix = layer.matrix(first, min(first + columns, layer.channels))
        step = 0
        for segment in tile:
            steps = segment.steps(config)
            padded = np.zeros((steps * rows, columns), np.int8)
            padded[: len(segment.taps), : len(matrix)] = matrix[:, segment.taps].T
            image[number, step : step + steps, :, :columns] = padded.reshape(steps, rows, columns)
            step += steps
    return image.tobytes()


def pack_parameters(layer: Layer, tiled: TiledLayer) -> bytes:
    """Return a layer's channel parameters as external memory holds them, padded to whole tiles.

    Those of a band are repeated for each of its results; those for one channel, as of a layer
    without weights, for each lane.
    """
    image = np.zeros(parameters_of(layer, tiled), CHANNEL)
    each = np.arange(tiled.parameters)
    for name in ("bias", "multiplier", "left", "right"):
        if isinstance(layer, DynamicProduct) and layer.by_channel:
            copied = copied_parameters(layer, tiled)
            image[name][copied:] = getattr(layer.scalings[1], name)[0]
            channels = np.arange(layer.channels)
            tile, lane = channels // tiled.channels, channels % tiled.channels
            image[name][tile * tiled.parameters + lane] = getattr(layer.scaling, name)
        elif not isinstance(layer, MatrixLayer):
            values = [getattr(scaling, name)[0] for scaling in layer.scalings]
            repeated = np.repeat(values, tiled.parameters)
            image[name][: len(repeated)] = repeated
        elif tiled.band:
            values = getattr(layer.scaling, name).reshape(tiled.tiles, tiled.channels)
            image[name] = values[:, each % tiled.channels].reshape(-1)
        else:
            image[name][: layer.channels] = getattr(layer.scaling, name)
    return image.tobytes()
