"""Parameters of the requantiser for float32 factors whose products are rounded half to even.

ONNX Runtime multiplies sums by a factor in single precision and rounds halves to even. The least
sum of each result is known, and so is the least sum for which the requantiser gives it: their
distances add up to the number of sums with another result. Most factors have a Q31 multiplier
without any. If the product in single precision falls on halves that the exact product misses, on
both sides, there may be none. Then double rounding helps: it rounds halves away from zero, and
numbers slightly less than a half, too, in a range that shrinks with the left shift of the sums.
Remaining sums are counted; the result of each is one off.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from celosia.hw.arch.isa import Rounding
from celosia.sw.layers.multiplier import quantize_multiplier

_MOST = (1 << 31) - 1

#: Multipliers this near to the greatest are halved, to leave others on both sides.
_MARGIN = 1 << 12

#: Products this near to a half can come to the other side of it.
_NEAR = 2.0**-13

#: Greatest shift right of products that int64 holds: they have 40 bits more.
_MOST_RIGHT = 22

#: Shifts right from which double rounding keeps within that.
_LEAST_RIGHT = 13


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Parameters by channel."""

    #: int64, see ``Scaling``.
    multiplier: np.ndarray
    left: np.ndarray
    right: np.ndarray
    rounding: Rounding  #: Rounding of the requantiser.
    #: Number of sums with another result than the factor's, and of sums with a result inside the
    #: clamp, among all possible sums.
    differing: np.ndarray
    sums: np.ndarray


def least_sums(
    factors: np.ndarray, results: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Return the least sums whose products with factors round to at least ``results``.

    - ``factors``: float32, greater than 0, shape ``(channels, 1)``.
    - ``results``: int64, shape ``(results,)``.
    - ``low``, ``high``: int64, shape ``(channels, 1)``: least and greatest sum.

    Returns int64, shape ``(channels, results)``; ``high + 1`` where no sum is large enough.
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


@dataclass(frozen=True, eq=False)
class _Way:
    """A shift of one channel: results are ``sum * multiplier * 2**(left - right - 31)``."""

    left: int
    right: int
    double: bool

    def halves(self, results: np.ndarray) -> np.ndarray:
        """Return the least products of shifted sums that give ``results``."""
        halves = (2 * results - 1).astype(np.int64 if self.right <= _MOST_RIGHT else object)
        halves = halves << (30 + self.right)
        if self.double and self.right:
            halves += np.where(results > 0, -(1 << 30), 1 << 30)
        return halves


#: Differing sums, the multiplier and the shifts.
_Found = tuple[int, int, _Way]


@dataclass(frozen=True, eq=False)
class _Wanted:
    """The least sums of results that a factor gives, from ``low`` to ``high + 1``."""

    factor: float
    results: np.ndarray
    sums: np.ndarray
    low: int
    high: int

    def near(self) -> "_Wanted":
        """Return the results whose least sum, or the one before it, is close to a half."""
        gaps = [np.abs(n * self.factor - self.results + 0.5) for n in (self.sums, self.sums - 1)]
        near = np.minimum(*gaps) < _NEAR
        return _Wanted(self.factor, self.results[near], self.sums[near], self.low, self.high)

    def differing(self, way: _Way, multipliers: np.ndarray) -> np.ndarray:
        """Return for each multiplier the number of sums with another result."""
        halves = way.halves(self.results)
        found = -(-halves // (multipliers[:, None].astype(halves.dtype) << way.left))
        return np.abs(np.clip(found, self.low, self.high + 1) - self.sums).sum(axis=1)

    def best(self, way: _Way, multiplier: int) -> tuple[int, int]:
        """Return the fewest differing sums, and the nearest multiplier with them."""
        halves = -(-way.halves(self.results) >> way.left)
        bounds = []
        for sums, reached in ((self.sums, self.sums <= self.high), (self.sums - 1, True)):
            used = reached & (sums != 0) & (sums >= self.low)
            quotients = halves[used] // sums[used]
            bounds += [quotients - 1, quotients, quotients + 1]
        found = np.concatenate([[multiplier], *bounds]).astype(np.int64)
        found = np.unique(found[(np.abs(found - multiplier) < _MARGIN) & (found <= _MOST)])
        found = found[np.argsort(np.abs(found - multiplier), kind="stable")]
        counts = self.differing(way, found)
        number = int(np.argmin(counts))
        return int(counts[number]), int(found[number])

    def starts(self, double: bool) -> tuple[int, _Way]:
        """Return the nearest multiplier, and the shifts to try first."""
        multiplier, shift = _centred(self.factor)
        bits = max(-self.low, self.high, 1).bit_length()
        left = max(min(30 - bits, 31 + shift), shift, 0) if double else max(shift, 0)
        return multiplier, _Way(left, left - shift, double)

    def single(self) -> _Found:
        """Return the parameters of single rounding."""
        multiplier, way = self.starts(double=False)
        return self.counted(way, self.near().best(way, multiplier)[1])

    def doubled(self) -> _Found:
        """Return the parameters of double rounding."""
        multiplier, first = self.starts(double=True)
        near, tries = self.near(), []
        for fewer in range(first.left + 1):
            way = _Way(first.left - fewer, first.right - fewer, True)
            if way.right < 0 or (way.right < _LEAST_RIGHT and tries):
                break
            tries.append((*near.best(way, multiplier), way))
            if not tries[-1][0]:
                break
        _, chosen, way = min(tries, key=lambda tried: tried[0])
        return self.counted(way, chosen)

    def counted(self, way: _Way, multiplier: int) -> _Found:
        """Return parameters with their differing sums, counted over all results."""
        return int(self.differing(way, np.array([multiplier]))[0]), multiplier, way


def multipliers(
    factors: np.ndarray,
    ranges: Sequence[tuple[int, int]],
    *,
    zero_point: int,
    low: int = -128,
    high: int = 127,
) -> Multipliers:
    """Return the parameters with the fewest sums whose result is not the factor's.

    - ``factors``: float32 by channel, from 2⁻³¹ to 2³⁰.
    - ``ranges``: least and greatest sum of each channel, in the range of int32.
    - ``zero_point``, ``low``, ``high``: zero point and clamp of the results.

    Examples
    --------
    >>> found = multipliers(np.array([0.0123], np.float32), [(-9000, 9000)], zero_point=0)
    >>> int(found.multiplier[0]), int(found.right[0]), int(found.differing[0])
    (1690499072, 6, 0)
    """
    each, inverse = np.unique(factors.astype(np.float32), return_inverse=True)
    bottom, top = _united(inverse, ranges)
    results = np.arange(low, high + 2, dtype=np.int64) - zero_point
    reached = least_sums(each[:, None], results, bottom[:, None], top[:, None])
    inside = np.maximum(reached[:, -1] - reached[:, 0], 1)
    wanted = [
        _Wanted(float(factor), results[1:-1], sums, int(a), int(b))
        for factor, sums, a, b in zip(each, reached[:, 1:-1], bottom, top, strict=True)
    ]
    found = _search(wanted, double=False)
    if any(count for count, *_ in found):
        others = _search(wanted, double=True)
        if sum(count for count, *_ in others) < sum(count for count, *_ in found):
            found = others
    rows = np.array([(n, m, way.left, way.right) for n, m, way in found], np.int64)
    differing, multiplier, left, right = rows[inverse].T
    rounding = Rounding.DOUBLE if found[0][2].double else Rounding.SINGLE
    return Multipliers(multiplier, left, right, rounding, differing, inside[inverse])


def _united(groups: np.ndarray, ranges: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest sum of the channels of each group."""
    least, most = (np.array(bounds, np.int64) for bounds in zip(*ranges, strict=True))
    bottom, top = (np.full(groups.max() + 1, end) for end in (_MOST, -_MOST - 1))
    np.minimum.at(bottom, groups, least)
    np.maximum.at(top, groups, most)
    return bottom, top


def _search(wanted: Sequence[_Wanted], *, double: bool) -> list[_Found]:
    """Return the best parameters of each factor, searched if the nearest do not agree."""
    found = []
    starts = [one.starts(double) for one in wanted]
    ways = np.array([(m, way.left, way.right) for m, way in starts], np.int64)[:, :, None]
    results = wanted[0].results
    sums = np.array([one.sums for one in wanted])
    with np.errstate(over="ignore"):
        halves = (2 * results - 1) << (30 + ways[:, 2])
        if double:
            halves += np.where(results > 0, -(1 << 30), 1 << 30) * (ways[:, 2] > 0)
        reached = -(-halves // (ways[:, 0] << ways[:, 1]))
    bounds = np.array([(one.low, one.high + 1) for one in wanted])[:, :, None]
    agrees = (np.clip(reached, bounds[:, 0], bounds[:, 1]) == sums).all(axis=1)
    agrees &= ways[:, 2, 0] <= _MOST_RIGHT
    for one, (multiplier, way), good in zip(wanted, starts, agrees.tolist(), strict=True):
        if good:
            found.append((0, multiplier, way))
        else:
            found.append(one.doubled() if double else one.single())
    return found


def _centred(factor: float) -> tuple[int, int]:
    """Return multiplier and shift of a factor, with other multipliers above."""
    multiplier, shift = quantize_multiplier(factor)
    return (multiplier, shift) if multiplier < _MOST - _MARGIN else (multiplier >> 1, shift + 1)
