"""Multiplications by real factors as LiteRT's reference kernels do them in integers."""

import numpy as np

from celosia.sw.compiler.multiplier import quantize_multiplier

__all__ = ["rescaled", "times"]


def times(x: np.ndarray, multiplier: np.ndarray | int, shift: np.ndarray | int) -> np.ndarray:
    """Return ``MultiplyByQuantizedMultiplier``, which rounds twice.

    Parameters
    ----------
    x : numpy.ndarray
        int64 in the range of int32, also where shifted left.
    multiplier, shift : int or int64 array
        Q31 multiplier, which may be negative, and exponent; arrays broadcast.
    """
    left, right = np.maximum(shift, 0), np.maximum(-np.asarray(shift), 0)
    wrapped = (x << left).astype(np.int32).astype(np.int64)
    high = (wrapped * multiplier + (1 << 30)) >> 31
    half = (1 << right) >> 1
    return np.where(right > 0, (high + half - (high < 0)) >> right, high)


def rescaled(x: np.ndarray, factor: float) -> np.ndarray:
    """Return x times a real factor of at least 0, below 2^30."""
    return times(x, *quantize_multiplier(factor))
