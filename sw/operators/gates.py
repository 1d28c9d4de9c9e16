"""Functions of 16-bit fixed-point numbers within recurrent layers.

Algorithms and constants are those of ``gemmlowp/fixedpoint/fixedpoint.h`` for raw integers of 16
bits: with ``n`` integer bits, raw = value · 2^(15 − n). Arrays are int64.
"""

from functools import lru_cache

import numpy as np

from celosia.sw.operators.fixed_point import halved, times
from celosia.sw.operators.functions import inverse_root

__all__ = ["accumulated", "normalised", "sigmoid", "squashed", "word"]

_ONE = (1 << 15) - 1

#: exp(-1/8), and 1/3, without integer bits.
_EXP_EIGHTH = 28918
_THIRD = 10923

#: Raw exp(-2^n) of 32 bits, for n from -2 on.
_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)

#: 48/17 and -32/17 with two integer bits: first guess of a reciprocal.
_GUESS = (23130, -15420)


def word(x: np.ndarray) -> np.ndarray:
    """Return integers clamped to 16 bits."""
    return np.clip(x, -(1 << 15), _ONE)


def _product(a: np.ndarray, b: np.ndarray | int) -> np.ndarray:
    """Return ``SaturatingRoundingDoublingHighMul``."""
    return word((a * b + (1 << 14)) >> 15)


def _decayed(a: np.ndarray, bits: int) -> np.ndarray:
    """Return ``exp_on_negative_values``: ``bits`` integer bits in, none out."""
    fraction = 15 - bits
    quarter = 1 << (fraction - 2)
    rest = (a & (quarter - 1)) - quarter
    x = (rest << bits) + (1 << 12)
    square = _product(x, x)
    cube, fourth = _product(square, x), _product(square, square)
    series = halved(_product(halved(fourth, 2) + cube, _THIRD) + square, 1)
    result = word(_EXP_EIGHTH + _product(x + series, _EXP_EIGHTH))
    remainder = rest - a
    for exponent, power in enumerate(_POWERS, -2):
        if bits > exponent:
            chosen = remainder & (1 << (fraction + exponent))
            factor = (power + (1 << 15)) >> 16
            result = np.where(chosen != 0, _product(result, factor), result)
    if bits > 5:
        result = np.where(a < -(1 << (20 - bits)), 0, result)
    return np.where(a == 0, _ONE, result)


def _reciprocal(a: np.ndarray) -> np.ndarray:
    """Return 2 / (1 + a) for a from 0 to 1, with two integer bits."""
    total = a + _ONE
    half = (total + 1) >> 1
    x = _GUESS[0] + _product(half, _GUESS[1])
    for _ in range(3):
        error = (1 << 13) - _product(half, x)
        x = x + word(_product(x, error) << 2)
    return x


@lru_cache(maxsize=1)
def _sigmoids() -> np.ndarray:
    a = np.arange(-(1 << 15), 1 << 15)
    positive = word(_reciprocal(_decayed(-np.abs(a), 3)) << 1)
    return np.where(a == 0, 1 << 14, np.where(a > 0, positive, _ONE - positive))


@lru_cache(maxsize=8)
def _tangents(bits: int) -> np.ndarray:
    a = np.arange(-(1 << 15), 1 << 15)
    small = _decayed(-np.abs(a), bits + 1)
    positive = word((_reciprocal(small) - (1 << 13)) << 2)
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

    Parameters
    ----------
    x : numpy.ndarray
        Shape ``(rows, cells)``.
    weights, bias : numpy.ndarray
        Shape ``(cells,)``.
    factor : tuple of int
        Multiplier and shift.
    least : int
        Variance that stands for one below 1.
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
