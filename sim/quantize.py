"""Integer arithmetic of the contract, bit-exact: see ``docs/design/architecture.md``, 'Arithmetic'.

All functions are vectorised over NumPy arrays and compute in int64: a 32-bit sum times a 31-bit
multiplier has 63 bits.
"""

import numpy as np
from numpy.typing import ArrayLike

from celosia.hw.arch.isa import FACTOR_BITS, Mode, Rounding

_MOST = (1 << 31) - 1
_LEAST = -(1 << 31)


def wrap32(values: ArrayLike) -> np.ndarray:
    """Return whole ``values`` modulo 2³², as int32."""
    found = np.asarray(values)
    if found.dtype.kind != "i":
        found = found.astype(np.int64)
    return found.astype(np.int32, copy=False)


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
    shifts = _shifts(x, bias, multiplier, left, right)
    if shifts:
        biased = np.asarray(x, np.int32) + np.asarray(bias, np.int32)
        return _divided(biased, *shifts, rounding)
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


def _shifts(
    x: ArrayLike, bias: ArrayLike, multiplier: ArrayLike, left: ArrayLike, right: ArrayLike
) -> tuple[int, int] | None:
    """Return the shifts of a requantisation of small numbers that only shifts, all alike; or None.

    With a multiplier of 2³⁰, the product is ``x · 2^(30 + left)``.
    """
    given = [np.asarray(each) for each in (bias, multiplier, left, right)]
    if any(each.ndim for each in given) or not np.size(x):
        return None
    added, factor, before, after = (int(each) for each in given)
    most = (1 << 30) - 1 - abs(added)
    if factor != 1 << 30 or before > 1 or np.min(x) < -most or np.max(x) > most:
        return None
    return before, after


def _divided(x: np.ndarray, left: int, right: int, rounding: Rounding) -> np.ndarray:
    """Return steps 2 to 5 of the contract for int32 below 2³⁰ and a multiplier of 2³⁰."""
    double = rounding == Rounding.DOUBLE
    if not left:
        x = (x + np.int32(double or not right)) >> np.int32(1)
    if not right:
        return x
    half = np.int32((1 << right) >> 1)
    return (x + half + (x >> np.int32(31)) * np.int32(double)) >> np.int32(right)


def combined(mode: Mode, old: ArrayLike, h: ArrayLike) -> np.ndarray:
    """Return the sums, int32, after results ``h`` were written to old sums ``old``."""
    old, h = np.asarray(old, np.int64), np.asarray(h, np.int64)
    match mode:
        case Mode.OVERWRITE:
            return wrap32(h)
        case Mode.ADD:
            return wrap32(old + h)
        case Mode.MAX:
            return wrap32(np.maximum(old, h))
        case Mode.MULTIPLY:
            return wrap32(_factor(old) * _factor(h))
        case Mode.SQUARED_DIFFERENCE:
            return wrap32(_factor(h - old) ** 2)


def _factor(values: np.ndarray) -> np.ndarray:
    """Return the lower bits of int64, signed, that count in products."""
    half = 1 << FACTOR_BITS - 1
    return (values + half) % (2 * half) - half


def finish(h: ArrayLike, zero_point: int, low: int, high: int) -> np.ndarray:
    """Return int8 results: zero point added without wrap, then clamped to ``low`` … ``high``.

    A ``low`` above ``high`` gives ``high``, because the comparisons are made one after the other.
    """
    limited = np.minimum(np.maximum(h, low - zero_point), high - zero_point)
    return (limited + zero_point).astype(np.int8)


#: First guess of a reciprocal, 48/17, and its slope, −32/17, with two integer bits.
_GUESS, _SLOPE = 1515870810, -1010580540


def _product(a: np.ndarray, b: np.ndarray | int) -> np.ndarray:
    """Return the upper half of twice a product of 32-bit numbers, rounded."""
    return (a * b + (1 << 30)) >> 31


def shares(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return multipliers and shifts to the right that divide by sums of exponentials.

    - ``sums``: int64, 0 to 2²⁸ − 1, with 19 bits after the point.

    The reciprocal is that of gemmlowp (``one_over_one_plus_x_for_x_in_0_1``): a linear guess, then
    three steps of Newton and Raphson. A sum of 0 counts as the least normalised one.
    """
    digits = np.frexp(sums.astype(np.float64))[1]
    zeros = np.where(sums > 0, 28 - digits, 31)
    half = 1 << 30 | (sums << (zeros + 3)) & ((1 << 30) - 1)
    x = _GUESS + _product(np.full_like(half, _SLOPE), half)
    for _ in range(3):
        error = (1 << 29) - _product(x, half)
        x = x + (_product(error, x) << 2)
    return np.minimum(x << 1, _MOST), 31 - zeros


def softmax(x: np.ndarray, exponentials: np.ndarray) -> np.ndarray:
    """Return SOFTMAX of each row, int8, with scale 1/256 and zero point −128.

    - ``x``: int8, rows of at most ``SOFTMAX_ELEMENTS``.
    - ``exponentials``: 256 integers of 31 bits; entry ``d`` is that of an element which is ``d``
      below the greatest of its row.
    """
    wide = x.astype(np.int64)
    found = exponentials.astype(np.int64)[wide.max(axis=-1, keepdims=True) - wide]
    multiplier, right = shares(((found + (1 << 11)) >> 12).sum(axis=-1, keepdims=True))
    h = requantize(found, 0, multiplier, 0, right, Rounding.DOUBLE)
    return finish(h, -128, -128, 127)
