"""Functions of 16-bit fixed-point numbers within recurrent layers.

Algorithms are those of ``gemmlowp/fixedpoint/fixedpoint.h`` for raw integers of 16 bits: with ``n``
integer bits, raw = value · 2^(15 − n). Arrays are int64.
"""

from functools import lru_cache

import numpy as np

from celosia.sw.operators.exponentials import decayed, doubled_reciprocal, reciprocal, saturated
from celosia.sw.operators.fixed_point import inverse_root, times

_ONE = (1 << 15) - 1


def word(x: np.ndarray) -> np.ndarray:
    """Return integers clamped to 16 bits."""
    return saturated(x, 16)


@lru_cache(maxsize=1)
def _sigmoids() -> np.ndarray:
    a = np.arange(-(1 << 15), 1 << 15)
    positive = reciprocal(decayed(-np.abs(a), 3, 16), 16)
    return np.where(a == 0, 1 << 14, np.where(a > 0, positive, _ONE - positive))


@lru_cache(maxsize=8)
def _tangents(bits: int) -> np.ndarray:
    a = np.arange(-(1 << 15), 1 << 15)
    small = decayed(-np.abs(a), bits + 1, 16)
    positive = word((doubled_reciprocal(small, 16) - (1 << 13)) << 2)
    return np.where(a == 0, 0, np.where(a < 0, -positive, positive))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return sigmoids, without integer bits, of 16-bit numbers of three."""
    return _sigmoids()[x + (1 << 15)]


def squashed(x: np.ndarray, bits: int) -> np.ndarray:
    """Return hyperbolic tangents, without integer bits, of 16-bit numbers of ``bits`` of them."""
    return _tangents(bits)[x + (1 << 15)]


def accumulated(total: np.ndarray, sums: np.ndarray, factor: tuple[int, int]) -> np.ndarray:
    """Return 16-bit numbers with sums added that are scaled by a multiplier and a shift."""
    return word(total + times(sums, *factor))


def normalised(
    x: np.ndarray, weights: np.ndarray, bias: np.ndarray, factor: tuple[int, int], least: int
) -> np.ndarray:
    """Return layer normalisation of 16-bit numbers along the last dimension.

    - ``x``: shape ``(rows, cells)``.
    - ``weights``, ``bias``: shape ``(cells,)``.
    - ``factor``: multiplier and shift.
    - ``least``: variance that stands for one below 1.
    """
    count, rows = x.shape[1], []
    for row in x:
        mean = int(np.trunc(int(row.sum()) * 1024 / count))
        square = int((row * row).sum()) * ((1 << 20) // count) - mean * mean
        variance = abs(square) >> 20 if square > 0 else 0
        root, shift = inverse_root(variance if variance >= 1 else least)
        scaled = times(1024 * row - mean, root, shift) * weights + bias
        rows.append(np.sign(scaled) * ((np.abs(scaled) + 512) >> 10))
    return word(times(np.array(rows), factor[0], factor[1] + 12))
