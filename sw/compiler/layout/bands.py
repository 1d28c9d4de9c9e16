"""Bands: several pixels of a few channels in one vector of the array.

Where channels keep to themselves, a tile whose lanes are the channels of one pixel is a diagonal:
R weights of R × C. In a band the lanes are ``channels`` channels of pixels that follow one another,
the columns the same channels of ``count`` results, and the tile is a Toeplitz matrix. The run of
taps is one pixel's channels; a pixel pitch of the run plus a multiple of R keeps R taps in R banks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sw.compiler.spec import Product

__all__ = [
    "Band",
    "band_matrix",
    "overrun",
    "parameters_of_tile",
    "pixel_pitch",
    "spans",
    "vectors",
]


@dataclass(frozen=True)
class Band:
    """Layout over pixels of a tile of a layer whose channels keep to themselves.

    Parameters
    ----------
    channels : int
        Source channels of a tile.
    count : int
        Results of each of them that a vector makes.
    joined : bool
        Whether rows of results are counted through as one, with what lies between them.
    """

    channels: int
    count: int
    joined: bool


def pixel_pitch(channels: int, run: int, config: Config) -> int:
    """Return the least distance of pixels at which runs of ``run`` channels fill the banks."""
    return channels + (run - channels) % config.rows


def parameters_of_tile(channels: int, config: Config) -> int:
    """Return how many channels of parameters a tile of some output channels takes.

    One for each lane of the vector unit will do where the channels of a band repeat with them.
    """
    return config.lanes if config.lanes % channels == 0 else config.columns


def vectors(band: Band, rows: int, width: int, row: int) -> tuple[int, int]:
    """Return rows and columns of vectors for some rows of results.

    Parameters
    ----------
    band : Band
        The band.
    rows, width : int
        Rows of results, and results of each.
    row : int
        Pixels from row to row.
    """
    if band.joined:
        return 1, -(-((rows - 1) * row + width) // band.count)
    return rows, -(-width // band.count)


def spans(layer: Product, band: Band, row: int, config: Config) -> list[tuple[int, int]]:
    """Return the pixels that a vector reads, as stretches of (first, count).

    All of them at once, or each row of the kernel by itself, whichever takes fewer steps. Pixels
    count from tap (0, 0) of the vector's first result.
    """
    (high, wide), (down, right) = layer.kernel, layer.dilation
    one = (wide - 1) * right + (band.count - 1) * layer.stride[1] + 1
    apart = [(y * down * row, one) for y in range(high)]
    whole = [(0, (high - 1) * down * row + one)]
    # Two taps of one result on one pixel would be one weight, which might not fit.
    if high > 1 and (wide - 1) * right >= down * row:
        return apart
    return min((whole, apart), key=lambda found: _steps(found, band, config))


def _steps(found: Sequence[tuple[int, int]], band: Band, config: Config) -> int:
    return sum(-(-count * band.channels // config.rows) for _, count in found)


def overrun(layer: Product, band: Band) -> int:
    """Return the results that vectors make at most after the last of a row, or of all rows."""
    return band.count - 1 if band.joined else -layer.output[1] % band.count


def band_matrix(
    layer: Product, band: Band, first: int, stretches: Sequence[tuple[int, int]], row: int
) -> np.ndarray:
    """Return the weights of a tile on all taps of its stretches of pixels, one after the other.

    Parameters
    ----------
    layer, band
        What it is of.
    first : int
        First source channel.
    stretches : sequence of (int, int)
        As of ``spans``.
    row : int
        Pixels of the source from row to row.

    Returns
    -------
    numpy.ndarray
        int8, shape ``(results and their channels, pixels and their channels)``.
    """
    channels, count, each = band.channels, band.count, layer.each
    # By row of the kernel, what to add to a pixel for its place among those of all stretches.
    before, lengths = [], 0
    for start, length in stretches:
        before.append(lengths - start)
        lengths += length
    wide = np.zeros((count, channels, each, lengths, channels), np.int8)
    weights = layer.weights[first * each : (first + channels) * each, :, :, 0]
    own, results = np.arange(channels), np.arange(count)[:, None]
    for y, x in np.ndindex(*layer.kernel):
        tap = y * layer.dilation[0] * row + x * layer.dilation[1] + before[y % len(before)]
        column = weights[:, y, x].reshape(channels, each)
        wide[results, own, :, tap + results * layer.stride[1], own] = column
    return wide.reshape(count * channels * each, lengths * channels)
