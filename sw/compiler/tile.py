"""Second pass: cuts layers into tiles, and decides what stays in the core's memories.

A tile is R taps by C channels. Tiles and channel parameters that fit stay resident, loaded once;
what does not fit streams through the rest of the memory, in the order of use.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from celosia.hw.arch.config import PARAMETER_BYTES, Config
from celosia.sw.compiler.spec import CompileError, Dense, Network

__all__ = ["Ring", "TiledLayer", "Tiling", "pack_parameters", "pack_weights", "tile"]


@dataclass(frozen=True)
class TiledLayer:
    """How one layer is cut, and where its constants stay.

    Parameters
    ----------
    steps, tiles : int
        Reduction steps of R taps, output tiles of C channels.
    first_tile : int or None
        Tile of the weight buffer where the layer's ``steps * tiles`` tiles stay, output tile by
        output tile; None if they stream.
    first_channel : int or None
        Channel of the parameter memory where its parameters stay; None if they stream.
    """

    steps: int
    tiles: int
    first_tile: int | None
    first_channel: int | None


@dataclass(frozen=True)
class Ring:
    """Part of a memory that streamed constants pass through: ``count`` places from ``first``."""

    first: int
    count: int


@dataclass(frozen=True)
class Tiling:
    """All layers' tiles, and what is left of the memories for streaming."""

    layers: tuple[TiledLayer, ...]
    weights: Ring
    parameters: Ring


def tile(network: Network, config: Config) -> Tiling:
    """Cut the layers for a core.

    Raises
    ------
    CompileError
        If the parameter memory cannot hold the channels of one tile.
    """
    rows, columns = config.rows, config.columns
    if config.parameter_channels < columns:
        layer = network.layers[0].name if network.layers else "network"
        raise CompileError(
            f"{layer}: wanted parameters of at least {columns} channels, "
            f"got parameter_channels = {config.parameter_channels}"
        )
    shapes = [(-(-layer.taps // rows), -(-layer.channels // columns)) for layer in network.layers]
    tiles, weights = _reside([steps * tiles for steps, tiles in shapes], config.weight_tiles, 1)
    channels, parameters = _reside(
        [tiles * columns for _, tiles in shapes], config.parameter_channels, columns
    )
    layers = tuple(
        TiledLayer(*shape, first_tile, first_channel)
        for shape, first_tile, first_channel in zip(shapes, tiles, channels, strict=True)
    )
    return Tiling(layers, weights, parameters)


def _reside(sizes: Sequence[int], capacity: int, unit: int) -> tuple[list[int | None], Ring]:
    """Place what stays, small ones first, and keep at least half of the memory to stream the rest.

    ``unit`` is the least that can be streamed at once; places are multiples of it.
    """
    keep = 0
    if sum(sizes) > capacity:
        keep = max(capacity // 2, min(2 * unit, capacity))
    places: list[int | None] = [None] * len(sizes)
    used = 0
    for number in sorted(range(len(sizes)), key=lambda n: sizes[n]):
        if used + sizes[number] <= capacity - keep:
            places[number] = used
            used += sizes[number]
    return places, Ring(used, (capacity - used) // unit * unit)


def pack_weights(layer: Dense, config: Config) -> bytes:
    """Return a layer's tiles as external memory holds them, output tile by output tile.

    Taps and channels past the layer's end are zero.
    """
    rows, columns = config.rows, config.columns
    steps, tiles = -(-layer.taps // rows), -(-layer.channels // columns)
    padded = np.zeros((tiles * columns, steps * rows), np.int8)
    padded[: layer.channels, : layer.taps] = layer.weights
    image = np.zeros((tiles, steps, rows, config.tile_row_bytes), np.int8)
    image[..., :columns] = padded.reshape(tiles, columns, steps, rows).transpose(0, 2, 3, 1)
    return image.tobytes()


def pack_parameters(layer: Dense, config: Config) -> bytes:
    """Return a layer's channel parameters as external memory holds them, padded to whole tiles."""
    channels = -(-layer.channels // config.columns) * config.columns
    image = np.zeros(
        channels,
        np.dtype(
            {
                "names": ["bias", "multiplier", "left", "right"],
                "formats": ["<i4", "<u4", "u1", "u1"],
                "offsets": [0, 4, 8, 9],
                "itemsize": PARAMETER_BYTES,
            }
        ),
    )
    for name in ("bias", "multiplier", "left", "right"):
        image[name][: layer.channels] = getattr(layer, name)
    return image.tobytes()
