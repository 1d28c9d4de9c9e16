"""Multipliers that stand for float32 factors, whose products are rounded half to even.

ONNX Runtime multiplies sums by a factor in single precision and rounds halves to even. The least
sum that comes to each result is known, so is the least sum with a Q31 multiplier: their distances
add up to the number of sums that the multiplier takes to another result. Most factors have a
multiplier for which that is zero. Where the product in single precision falls on a half that the
exact product misses, there may be none: then the multiplier with the fewest such sums is taken,
and each of them comes to a result that is one off.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from celosia.sw.compiler.multiplier import quantize_multiplier

__all__ = ["Multipliers", "least_sums", "multipliers"]

_MOST = (1 << 31) - 1

#: Multipliers this near to the greatest are halved, to leave others on both sides.
_MARGIN = 1 << 12


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Q31 multipliers and shifts by channel.

    Parameters
    ----------
    multiplier, shift : numpy.ndarray
        int64, as of ``quantize_multiplier``.
    differing, sums : numpy.ndarray
        Sums that come to another result than the factor's, and sums that come to one inside the
        clamp, of all that inputs can lead to.
    """

    multiplier: np.ndarray
    shift: np.ndarray
    differing: np.ndarray
    sums: np.ndarray


def least_sums(
    factors: np.ndarray, results: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Return the least sums whose products with factors round to at least ``results``.

    Parameters
    ----------
    factors : numpy.ndarray
        float32, greater than 0, shape ``(channels, 1)``.
    results : numpy.ndarray
        int64, shape ``(results,)``.
    low, high : numpy.ndarray
        int64, shape ``(channels, 1)``: least and greatest sum.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(channels, results)``; ``high + 1`` where no sum is large enough.
    """
    guess = np.clip((results - 0.5) / factors.astype(np.float64), low - 1.0, high + 1.0)
    # Sum and product are each rounded to 24 bits.
    reach = np.ceil(np.abs(guess) * 2.0**-22).astype(np.int64) + 2
    first = np.clip(np.floor(guess).astype(np.int64) - reach, low, high + 1)
    last = np.clip(np.ceil(guess).astype(np.int64) + reach, low, high + 1)
    while (first < last).any():
        middle = (first + last) >> 1
        enough = np.rint(middle.astype(np.float32) * factors) >= results
        last = np.where(enough, middle, last)
        first = np.where(enough, first, np.minimum(middle + 1, last))
    return first


def _reached(
    multiplier: np.ndarray,
    shift: np.ndarray,
    results: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> np.ndarray:
    """Return the least sums that single rounding of a multiplier takes to at least ``results``."""
    wide = np.int64 if shift.min(initial=0) >= -20 else object
    halves = (2 * results - 1).astype(wide) << (30 - shift).astype(wide)
    least = -(-halves // multiplier.astype(wide))
    return np.clip(least, low, high + 1).astype(np.int64)


def _differing(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    return np.abs(found - wanted).sum(axis=-1)


def multipliers(
    factors: np.ndarray,
    ranges: Sequence[tuple[int, int]],
    *,
    zero_point: int,
    low: int = -128,
    high: int = 127,
) -> Multipliers:
    """Return the multipliers with the fewest sums whose result is not the factor's.

    Parameters
    ----------
    factors : numpy.ndarray
        float32 by channel, from 2⁻³² to 2³⁰.
    ranges : sequence of tuple of int
        Least and greatest sum of each channel, in the range of int32.
    zero_point, low, high : int
        Zero point and clamp of the results.

    Examples
    --------
    >>> found = multipliers(np.array([0.0123], np.float32), [(-9000, 9000)], zero_point=0)
    >>> int(found.multiplier[0]), int(found.shift[0]), int(found.differing[0])
    (1690499120, -6, 0)
    """
    each, inverse = np.unique(factors.astype(np.float32), return_inverse=True)
    least, most = (np.array(bounds, np.int64) for bounds in zip(*ranges, strict=True))
    bottom, top = np.full(len(each), _MOST), np.full(len(each), -_MOST - 1)
    np.minimum.at(bottom, inverse, least)
    np.maximum.at(top, inverse, most)
    bottom, top = bottom[:, None], top[:, None]
    results = np.arange(low + 1, high + 1, dtype=np.int64) - zero_point
    wanted = least_sums(each[:, None], results, bottom, top)
    pairs = np.array([_centred(factor) for factor in each.tolist()], np.int64)
    multiplier, shift = pairs[:, :1], pairs[:, 1:]
    differing = _differing(_reached(multiplier, shift, results, bottom, top), wanted)
    for number in np.flatnonzero(differing):
        limits = bottom[number], top[number]
        tried = _candidates(pairs[number], results, wanted[number], limits)
        found = _reached(tried[:, None], shift[number], results, *limits)
        counts = _differing(found, wanted[number])
        best = int(np.argmin(counts))
        multiplier[number], differing[number] = tried[best], counts[best]
    ends = least_sums(
        each[:, None], np.array([low - zero_point, high + 1 - zero_point]), bottom, top
    )
    sums = np.maximum(ends[:, 1] - ends[:, 0], 1)
    return Multipliers(multiplier[inverse, 0], shift[inverse, 0], differing[inverse], sums[inverse])


def _centred(factor: float) -> tuple[int, int]:
    """Return multiplier and shift of a factor, with other multipliers above."""
    multiplier, shift = quantize_multiplier(factor)
    return (multiplier, shift) if multiplier < _MOST - _MARGIN else (multiplier >> 1, shift + 1)


def _candidates(
    pair: np.ndarray, results: np.ndarray, wanted: np.ndarray, limits: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Return the multipliers next to a given one where a sum begins or stops to agree.

    The nearest come first.
    """
    multiplier, shift = (int(number) for number in pair)
    low, high = int(limits[0][0]), int(limits[1][0])
    found = {multiplier}
    for result, least in zip(results.tolist(), wanted.tolist(), strict=True):
        half = (2 * result - 1) << (30 - shift)
        if least <= high and least:
            found.add(-(-half // least) if least > 0 else half // least)
        if least > low and least != 1:
            found.add(half // (least - 1) + 1 if least < 1 else -(-half // (least - 1)) - 1)
    near = [each for each in found if abs(each - multiplier) < _MARGIN and 0 < each <= _MOST]
    return np.array(sorted(near, key=lambda each: abs(each - multiplier)), np.int64)
