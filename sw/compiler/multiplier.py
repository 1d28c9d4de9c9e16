"""Multipliers whose single rounding gives what a kernel in float64 gives, for every sum.

LiteRT's reference FULLY_CONNECTED multiplies sums by the real factor in float64 and rounds halves
away from zero. A Q31 multiplier rounds halves up and is off by up to 2⁻³², so the two differ for
the few sums that come to lie on a half. A multiplier one greater or so usually agrees everywhere;
it is found by comparing the least sum of every int8 result.
"""

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["exact_multiplier", "quantize_multiplier"]

#: Differences from the nearest multiplier that are tried, in this order.
_NUDGES = (0, 1, -1, 2, -2, 3, 4, 5, 6, 7, 8)


def quantize_multiplier(real: float) -> tuple[int, int]:
    """Return the Q31 multiplier and the power of two that stand for a real factor.

    Parameters
    ----------
    real : float
        Finite, not negative.

    Returns
    -------
    multiplier : int
        0, or 2³⁰ to 2³¹ − 1.
    shift : int
        −31 to 30; ``real`` is about ``multiplier / 2**31 * 2**shift``. Factors too small for that
        become zero.

    Examples
    --------
    >>> quantize_multiplier(0.75)
    (1610612736, 0)
    """
    fraction, shift = math.frexp(real)
    multiplier = math.floor(fraction * (1 << 31) + 0.5)
    if multiplier == 1 << 31:
        multiplier //= 2
        shift += 1
    if shift < -31 or multiplier == 0:
        return 0, 0
    if shift > 30:
        return (1 << 31) - 1, 30
    return multiplier, shift


def _reached(sums: np.ndarray, real: float, results: np.ndarray) -> np.ndarray:
    """Return whether sums come to at least ``results`` in float64, halves away from zero."""
    exact = sums * real
    whole = np.trunc(exact)
    rounded = whole + np.copysign(np.abs(exact - whole) >= 0.5, exact)
    return rounded >= results


def _least_sums(real: float, results: np.ndarray) -> np.ndarray:
    """Return the least whole sum that comes to each of ``results`` in float64."""
    guess = np.ceil((results - 0.5) / real)
    # The quotient may be off by one in either direction.
    tried = guess + np.arange(-2, 3)[:, None]
    return tried[np.argmax(_reached(tried, real, results), axis=0), np.arange(results.size)]


def exact_multiplier(
    real: float, *, zero_point: int, low: int = -128, high: int = 127, most: int = (1 << 31) - 1
) -> tuple[int, int, bool]:
    """Return a multiplier, its shift, and whether it agrees with float64 for every sum.

    Parameters
    ----------
    real : float
        Factor from sums to results, greater than 0.
    zero_point, low, high : int
        Zero point and clamp of the results.
    most : int
        Greatest magnitude of a sum.

    Returns
    -------
    multiplier : int
        As of ``quantize_multiplier``, or a few more or less where only that agrees.
    shift : int
        As of ``quantize_multiplier``.
    exact : bool
        Whether single rounding then gives ``round(sum * real)``, halves away from zero, clamped,
        for every sum up to ``most``.

    Examples
    --------
    >>> exact_multiplier(0.5, zero_point=0, most=1 << 20)
    (1073741825, 0, True)
    """
    multiplier, shift = quantize_multiplier(real)
    results = np.arange(low + 1, high + 1, dtype=np.int64) - zero_point
    want = np.clip(_least_sums(real, results), -most, most + 1) if multiplier else []
    want = [int(value) for value in want]
    for nudge in _NUDGES if multiplier else ():
        tried = multiplier + nudge
        if tried < 1 << 31 and _same(tried, shift, want, results, most):
            return tried, shift, True
    return multiplier, shift, False


def _same(multiplier: int, shift: int, want: Sequence[int], results: np.ndarray, most: int) -> bool:
    """Return whether a multiplier's least sums for ``results`` are ``want``."""
    for least, result in zip(want, results.tolist(), strict=True):
        # The least sum with sum * multiplier >= (result - 1/2) * 2^(31 - shift).
        own = -((1 - 2 * result) * (1 << (30 - shift)) // multiplier)
        if min(max(own, -most), most + 1) != least:
            return False
    return True
