"""Multipliers whose rounding agrees with a kernel in float64 for every possible sum.

LiteRT's reference FULLY_CONNECTED multiplies sums by the real factor in float64 and rounds halves
away from zero. A Q31 multiplier rounds halves up and is off by up to 2⁻³², so the two differ for
the few sums that fall on a half. The kernel is known from the least sum of each int8 result; each
of these bounds the multiplier, and any whole number within all bounds agrees.

Double rounding takes halves away from zero by itself if it has nothing to round first: with a
factor of k bits, for sums below 2^(31 − k). For those a multiplier one greater agrees as well, so
only single rounding is tried.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import numpy as np

_MOST = (1 << 31) - 1


def quantize_multiplier(real: float) -> tuple[int, int]:
    """Return the Q31 multiplier and the power of two that stand for a real factor.

    - ``real``: not negative; factors past the greatest shift, infinity too, give the greatest pair.
    - ``multiplier`` (result): 0, or 2³⁰ to 2³¹ − 1.
    - ``shift`` (result): −31 to 30; ``real`` is about ``multiplier / 2**31 * 2**shift``. Factors
      too small for that become zero.

    Examples
    --------
    >>> quantize_multiplier(0.75)
    (1610612736, 0)
    """
    if real >= 1 << 31:
        return _MOST, 30
    fraction, shift = math.frexp(real)
    multiplier = math.floor(fraction * (1 << 31) + 0.5)
    if multiplier == 1 << 31:
        multiplier //= 2
        shift += 1
    if shift < -31 or multiplier == 0:
        return 0, 0
    if shift > 30:
        return _MOST, 30
    return multiplier, shift


def _reached(sums: np.ndarray, real: float, results: np.ndarray) -> np.ndarray:
    """Return whether sums give at least ``results`` in float64, halves away from zero."""
    exact = sums * real
    whole = np.trunc(exact)
    rounded = whole + np.copysign(np.abs(exact - whole) >= 0.5, exact)
    return rounded >= results


def _least_sums(real: float, results: np.ndarray) -> np.ndarray:
    """Return the least whole sum that gives each of ``results`` in float64."""
    guess = np.ceil((results - 0.5) / real)
    # The quotient may be off by one in either direction.
    tried = guess + np.arange(-2, 3)[:, None]
    return tried[np.argmax(_reached(tried, real, results), axis=0), np.arange(results.size)]


def _conditions(
    first: np.ndarray, shift: int, results: np.ndarray, least: int, most: int
) -> Iterator[tuple[int, int]]:
    """Yield pairs for which ``value * multiplier >= wanted`` must hold.

    Single rounding gives a result if value · multiplier ≥ (result − 1/2) · 2^(31 − shift).
    ``first`` are the least sums wanted for ``results``.
    """
    for start, result in zip(first.tolist(), results.tolist(), strict=True):
        wanted = (2 * result - 1) << (30 - shift)
        if start <= most:
            yield max(int(start), least), wanted
        if start > least:
            # The sum before gives less: both sides negated.
            yield -min(int(start) - 1, most), 1 - wanted


# A network in several parts is lowered again for each operator that the host must take.
@lru_cache(maxsize=1 << 16)
def single_multiplier(
    real: float, *, zero_point: int, low: int = -128, high: int = 127, sums: tuple[int, int]
) -> tuple[int, int] | None:
    """Return a multiplier and shift whose single rounding agrees with float64 for every sum.

    - ``real``: factor from sums to results, greater than 0.
    - ``zero_point``, ``low``, ``high``: zero point and clamp of the results.
    - ``sums``: least and greatest possible sum, in the range of int32.

    Returns multiplier and shift as of ``quantize_multiplier``, the multiplier as near to that one
    as possible; None if no multiplier gives ``round(sum * real)``, halves away from zero, clamped,
    for all sums.

    Examples
    --------
    >>> single_multiplier(0.5, zero_point=0, sums=(-1000, 1000))
    (1073741825, 0)
    """
    if not quantize_multiplier(real)[0]:
        # Below 2⁻³², no int32 reaches a half.
        return 0, 0
    results = np.arange(low + 1, high + 1, dtype=np.int64) - zero_point
    return _searched(real, _least_sums(real, results), results, sums)


def stepped_multiplier(
    function: Callable[[np.ndarray], np.ndarray],
    real: float,
    *,
    zero_point: int,
    sums: tuple[int, int],
) -> tuple[int, int] | None:
    """Return a multiplier and shift whose single rounding agrees with a function for every sum.

    - ``function``: returns results of sums, int64, before the zero point. It never decreases.
    - ``real``: approximate factor of the function.
    - ``zero_point``, ``sums``: as of ``single_multiplier``, which returns the same.
    """
    results = np.arange(-127, 128, dtype=np.int64) - zero_point
    first, last = np.full(results.shape, sums[0]), np.full(results.shape, sums[1] + 1)
    while (first < last).any():
        middle = (first + last) >> 1
        enough = function(middle) >= results
        last = np.where(enough, middle, last)
        first = np.where(enough, first, np.minimum(middle + 1, last))
    return _searched(real, first, results, sums)


def _searched(
    real: float, first: np.ndarray, results: np.ndarray, sums: tuple[int, int]
) -> tuple[int, int] | None:
    """Return the multiplier nearest to a factor that takes just sums from ``first`` to results."""
    multiplier, shift = quantize_multiplier(real)
    # Next to a power of two, multipliers on its other side may agree.
    for offset in (0, -1, 1):
        if not -31 <= shift + offset <= 30:
            continue
        nearest = min(round(math.ldexp(multiplier, -offset)), _MOST)
        found = _nearest(nearest, _conditions(first, shift + offset, results, *sums))
        if found is not None:
            return found, shift + offset
    return None


def _nearest(multiplier: int, conditions: Iterable[tuple[int, int]]) -> int | None:
    """Return the multiplier nearest to the given one that meets all conditions, or None."""
    # With half of the greatest, sums that saturate before it are far past the clamp after it.
    smallest, greatest = 1 << 29, _MOST
    for value, wanted in conditions:
        if value > 0:
            smallest = max(smallest, -(-wanted // value))
        elif value < 0:
            greatest = min(greatest, wanted // value)
        elif wanted > 0:
            return None
    return min(max(multiplier, smallest), greatest) if smallest <= greatest else None
