"""Integer arithmetic of ``docs/design/arithmetic.md``, 'What is computed', bit-exact.

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
    integers = np.asarray(values)
    if integers.dtype.kind != "i":
        integers = integers.astype(np.int64)
    return integers.astype(np.int32, copy=False)


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
    x, *_ = np.broadcast_arrays(np.asarray(x), bias, multiplier, left, right)
    return Requantizer(bias, multiplier, left, right, rounding)(wrap32(x))


class Requantizer:
    """Function ``requantize`` of elements, int32, with parameters prepared for many calls.

    Parameters
    ----------
    bias, multiplier, left, right : array_like
        Those of ``requantize``; they broadcast to the shape of the elements.
    rounding : Rounding
        The same.
    """

    def __init__(
        self,
        bias: ArrayLike,
        multiplier: ArrayLike,
        left: ArrayLike,
        right: ArrayLike,
        rounding: Rounding,
    ) -> None:
        self._double = rounding == Rounding.DOUBLE
        self._bias, self._multiplier = wrap32(bias), np.asarray(multiplier, np.int64)
        self._left, self._right = np.asarray(left, np.int64), np.asarray(right, np.int64)
        self._shifts = _shifts(self._bias, self._multiplier, self._left, self._right)
        self._widens, self._narrows = bool(self._left.any()), bool(self._right.any())
        # Without a shift to the right nothing is rounded away from zero.
        self._signs = None if self._right.all() else (self._right > 0).astype(np.int64)
        self._half = (np.int64(1) << self._right) >> 1
        self._whole = np.int64(1) << 30 + self._right

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the outputs, int32, in a new array."""
        with np.errstate(over="ignore"):
            biased = np.asarray(x + self._bias)
        if self._shifts and x.size:
            greatest, *shifts = self._shifts
            if -greatest <= x.min() and x.max() <= greatest:
                return _divided(biased, *shifts, double=self._double)
        if self._widens:
            wide = biased.astype(np.int64) << self._left
            biased = wrap32(wide) if self._double else np.clip(wide, _LEAST, _MOST)
        # One array, changed in place: each pass over memory takes its time.
        high = np.asarray(biased * self._multiplier)
        if not self._double:
            # As one shift: the bits below count in the same way.
            high += self._whole
            high >>= 31 + self._right
            return wrap32(high)
        high += 1 << 30
        high >>= 31
        if self._narrows:
            away = high >> 63
            if self._signs is not None:
                away *= self._signs
            high += away
            high += self._half
            high >>= self._right
        return wrap32(high)


def _shifts(
    bias: np.ndarray, multiplier: np.ndarray, left: np.ndarray, right: np.ndarray
) -> tuple[int, int, int] | None:
    """Return the greatest element of a requantisation that only shifts, and its shifts; or None.

    With a multiplier of 2³⁰, all alike, the product is ``x · 2^(30 + left)``.
    """
    if any(parameter.ndim for parameter in (bias, multiplier, left, right)):
        return None
    added, factor, before, after = (int(parameter) for parameter in (bias, multiplier, left, right))
    if factor != 1 << 30 or before > 1:
        return None
    return (1 << 30) - 1 - abs(added), before, after


def _divided(x: np.ndarray, left: int, right: int, *, double: bool) -> np.ndarray:
    """Return steps 2 to 5 of the contract for int32 below 2³⁰ and a multiplier of 2³⁰."""
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
    limited = np.asarray(np.maximum(h, low - zero_point))
    np.minimum(limited, high - zero_point, out=limited)
    limited += zero_point
    return limited.astype(np.int8)


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
    powers = exponentials.astype(np.int64)[wide.max(axis=-1, keepdims=True) - wide]
    multiplier, right = shares(((powers + (1 << 11)) >> 12).sum(axis=-1, keepdims=True))
    h = requantize(powers, 0, multiplier, 0, right, Rounding.DOUBLE)
    return finish(h, -128, -128, 127)
