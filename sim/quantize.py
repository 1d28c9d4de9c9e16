"""Integer arithmetic of the contract, bit-exact: see ``docs/design/architecture.md``, 'Arithmetic'.

All functions are vectorised over NumPy arrays and compute in int64: a 32-bit sum times a 31-bit
multiplier has 63 bits.
"""

import numpy as np
from numpy.typing import ArrayLike

from celosia.hw.arch.isa import Rounding

_MOST = (1 << 31) - 1
_LEAST = -(1 << 31)


def wrap32(values: ArrayLike) -> np.ndarray:
    """Return int64 ``values`` modulo 2³², as int32."""
    return np.asarray(values, np.int64).astype(np.int32)


def requantize(
    x: ArrayLike,
    bias: ArrayLike,
    multiplier: ArrayLike,
    left: ArrayLike,
    right: ArrayLike,
    rounding: Rounding,
) -> np.ndarray:
    """Return the output of the vector unit's requantiser: steps 1 to 5 of the contract.

    All arguments broadcast against one another.

    - ``x``: elements.
    - ``bias``: added first, with wrap.
    - ``multiplier``: 0 to 2³¹ − 1.
    - ``left``, ``right``: shifts before and after the multiplication, 0 to 31.
    - ``rounding``: DOUBLE rounds after the multiplication and after the shift, SINGLE once.

    Returns int32, before zero point, clamp and table.
    """
    multiplier, right = np.asarray(multiplier, np.int64), np.asarray(right, np.int64)
    biased = wrap32(np.asarray(x, np.int64) + np.asarray(bias, np.int64)).astype(np.int64)
    shifted = biased << np.asarray(left, np.int64)
    if rounding == Rounding.DOUBLE:
        shifted = wrap32(shifted).astype(np.int64)
        high = (shifted * multiplier + (1 << 30)) >> 31
        away = (high < 0).astype(np.int64)
    else:
        shifted = np.clip(shifted, _LEAST, _MOST)
        high = (shifted * multiplier + np.where(right == 0, 1 << 30, 0)) >> 31
        away = np.int64(0)
    half = (np.int64(1) << right) >> 1
    scaled = np.where(right > 0, (high + half - away) >> right, high)
    return wrap32(scaled)


def finish(h: ArrayLike, zero_point: int, low: int, high: int) -> np.ndarray:
    """Return int8 results: zero point added without wrap, then clamped to ``low`` … ``high``.

    A ``low`` above ``high`` gives ``high``, because the comparisons are made one after the other.
    """
    exact = np.asarray(h, np.int64) + zero_point
    return np.minimum(np.maximum(exact, low), high).astype(np.int8)
