"""Bands: several pixels of a few channels in one vector of the array.

In a depthwise layer, a tile whose lanes are the channels of one pixel is a diagonal: R weights of
R × C. In a band the lanes are ``channels`` channels of pixels that follow one another, the columns
the same channels of ``count`` results, and the tile is a Toeplitz matrix. A segment of taps is one
pixel's channels; a pixel pitch of its length plus a multiple of R keeps R taps in R banks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sw.layers.spec import MatrixLayer


@dataclass(frozen=True)
class Band:
    """Layout over pixels of a tile of a depthwise layer."""

    channels: int  #: Source channels of a tile.
    count: int  #: Results of each source channel that a vector makes.
    joined: bool  #: True if all rows of results count as one row, with the pixels between them.


def pixel_pitch(channels: int, run: int, config: Config) -> int:
    """Return the least pitch of pixels at which segments of ``run`` channels fill the banks."""
    return channels + (run - channels) % config.rows


def parameters_of_tile(channels: int, config: Config) -> int:
    """Return the channels of parameters of a tile of some output channels.

    One for each lane of the vector unit is enough if the channels of a band repeat with the lanes.
    """
    return config.lanes if config.lanes % channels == 0 else config.columns


def vectors(band: Band, rows: int, width: int, row: int) -> tuple[int, int]:
    """Return rows and columns of vectors for some rows of results.

    - ``rows``, ``width``: rows of results, and results of each.
    - ``row``: pixels from one row to the next.
    """
    if band.joined:
        return 1, -(-((rows - 1) * row + width) // band.count)
    return rows, -(-width // band.count)


def spans(layer: MatrixLayer, band: Band, row: int, config: Config) -> list[tuple[int, int]]:
    """Return the pixels that a vector reads, as ranges of (first, count).

    One range for all, or one for each row of the kernel, depending on which takes fewer steps.
    Pixels count from tap (0, 0) of the vector's first result.
    """
    (high, wide), (down, right) = layer.kernel, layer.dilation
    one = (wide - 1) * right + (band.count - 1) * layer.stride[1] + 1
    apart = [(y * down * row, one) for y in range(high)]
    whole = [(0, (high - 1) * down * row + one)]
    # Two taps of one result on one pixel would share a weight, which might exceed int8.
    if high > 1 and (wide - 1) * right >= down * row:
        return apart

    def steps(ranges: Sequence[tuple[int, int]]) -> int:
        return sum(-(-count * band.channels // config.rows) for _, count in ranges)

    return min((whole, apart), key=steps)


def overrun(layer: MatrixLayer, band: Band) -> int:
    """Return the most results that vectors make after the last of a row, or of all rows."""
    return band.count - 1 if band.joined else -layer.output[1] % band.count


def band_matrix(
    layer: MatrixLayer, band: Band, first: int, stretches: Sequence[tuple[int, int]], row: int
) -> np.ndarray:
    """Return the weights of a tile on all taps of its ranges of pixels, one after the other.

    - ``layer``, ``band``: the layer and its band.
    - ``first``: first source channel.
    - ``stretches``: ranges of ``spans``.
    - ``row``: pixels of the source from one row to the next.

    Returns int8, shape ``(results and their channels, pixels and their channels)``; as
    ``MatrixLayer.matrix`` for weights of several summands.
    """
    channels, count, each = band.channels, band.count, layer.depth_multiplier
    # By row of the kernel, the offset from a pixel to its index among those of all ranges.
    before, lengths = [], 0
    for start, length in stretches:
        before.append(lengths - start)
        lengths += length
    parts = layer.parts(first * each, (first + channels) * each)
    wide = np.zeros((count, channels, each, len(parts), lengths, channels), np.int8)
    weights = np.stack([part[..., 0] for part in parts], axis=1)
    own, results = np.arange(channels), np.arange(count)[:, None]
    for y, x in np.ndindex(*layer.kernel):
        tap = y * layer.dilation[0] * row + x * layer.dilation[1] + before[y % len(before)]
        column = weights[:, :, y, x].reshape(channels, each, len(parts))
        wide[results, own, :, :, tap + results * layer.stride[1], own] = column
    return wide.reshape(count * channels * each, len(parts) * lengths * channels)
