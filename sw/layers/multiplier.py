"""Multipliers whose rounding agrees with a kernel for every possible sum, or for nearly all.

LiteRT's reference FULLY_CONNECTED multiplies sums by the real factor in float64 and rounds halves
away from zero. A Q31 multiplier rounds halves up and is off by up to 2⁻³², so the two differ for
the few sums that fall on a half. The kernel is known from the least sum of each int8 result; each
of these bounds the multiplier, and any whole number within all bounds agrees.

Double rounding takes halves away from zero by itself if it has nothing to round first: with a
factor of k bits, for sums below 2^(31 − k). For those a multiplier one greater agrees as well, so
only single rounding is tried.

ONNX Runtime multiplies sums by a factor in single precision and rounds halves to even. Most factors
have a Q31 multiplier that gives the same for all sums. If the product in single precision falls on
halves that the exact product misses, on both sides, there may be none. Then double rounding helps:
it rounds halves away from zero, and numbers slightly less than a half, too, in a range that shrinks
with the left shift of the sums. Remaining sums are counted; the result of each is one off.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from celosia.hw.arch.isa import Rounding

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
    truncated = np.trunc(exact)
    rounded = truncated + np.copysign(np.abs(exact - truncated) >= 0.5, exact)
    return rounded >= results


def _least_sums(real: float, results: np.ndarray) -> np.ndarray:
    """Return the least whole sum that gives each of ``results`` in float64."""
    guess = np.ceil((results - 0.5) / real)
    # The quotient may be off by one in either direction.
    tried = guess + np.arange(-2, 3)[:, None]
    return tried[np.argmax(_reached(tried, real, results), axis=0), np.arange(results.size)]


def _conditions(
    first: np.ndarray, shift: int, results: np.ndarray, least: int, greatest: int
) -> Iterator[tuple[int, int]]:
    """Yield pairs for which ``value * multiplier >= bound`` must hold.

    Single rounding gives a result if value · multiplier ≥ (result − 1/2) · 2^(31 − shift).
    ``first`` are the least sums wanted for ``results``.
    """
    for start, result in zip(first.tolist(), results.tolist(), strict=True):
        bound = (2 * result - 1) << (30 - shift)
        if start <= greatest:
            yield max(int(start), least), bound
        if start > least:
            # The sum before gives less: both sides negated.
            yield -min(int(start) - 1, greatest), 1 - bound


# A network in several parts is lowered again for each operator that the host must take.
@lru_cache(maxsize=1 << 16)
def single_multiplier(
    real: float, *, zero_point: int, low: int = -128, high: int = 127, sums: tuple[int, int]
) -> tuple[int, int] | None:
    """Return a multiplier and shift whose single rounding agrees with float64 for every sum.

    - ``real``: factor from sums to results, greater than 0.
    - ``zero_point``, ``low``, ``high``: zero point and clamp of the results.
    - ``sums``: least and greatest possible sum, in the range of int32.

    Returns multiplier and shift as in ``quantize_multiplier``, the multiplier as near to that one
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
    - ``zero_point``, ``sums``: as in ``single_multiplier``, which returns the same.
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
        chosen = _nearest(nearest, _conditions(first, shift + offset, results, *sums))
        if chosen is not None:
            return chosen, shift + offset
    return None


def _nearest(multiplier: int, conditions: Iterable[tuple[int, int]]) -> int | None:
    """Return the multiplier nearest to the given one that meets all conditions, or None."""
    # With half of the greatest, sums that saturate before it are far past the clamp after it.
    smallest, greatest = 1 << 29, _MOST
    for value, bound in conditions:
        if value > 0:
            smallest = max(smallest, -(-bound // value))
        elif value < 0:
            greatest = min(greatest, bound // value)
        elif bound > 0:
            return None
    return min(max(multiplier, smallest), greatest) if smallest <= greatest else None


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
_Choice = tuple[int, int, _Way]


@dataclass(frozen=True, eq=False)
class _Target:
    """The least sums of results that a factor gives, from ``low`` to ``high + 1``."""

    factor: float
    results: np.ndarray
    sums: np.ndarray
    low: int
    high: int

    def near(self) -> "_Target":
        """Return the results whose least sum, or the one before it, is close to a half."""
        gaps = [np.abs(n * self.factor - self.results + 0.5) for n in (self.sums, self.sums - 1)]
        near = np.minimum(*gaps) < _NEAR
        return _Target(self.factor, self.results[near], self.sums[near], self.low, self.high)

    def differing(self, way: _Way, multipliers: np.ndarray) -> np.ndarray:
        """Return for each multiplier the number of sums with another result."""
        halves = way.halves(self.results)
        reached = -(-halves // (multipliers[:, None].astype(halves.dtype) << way.left))
        return np.abs(np.clip(reached, self.low, self.high + 1) - self.sums).sum(axis=1)

    def best(self, way: _Way, multiplier: int) -> tuple[int, int]:
        """Return the fewest differing sums, and the nearest multiplier with them."""
        halves = -(-way.halves(self.results) >> way.left)
        bounds = []
        for sums, reached in ((self.sums, self.sums <= self.high), (self.sums - 1, True)):
            used = reached & (sums != 0) & (sums >= self.low)
            quotients = halves[used] // sums[used]
            bounds += [quotients - 1, quotients, quotients + 1]
        candidates = np.concatenate([[multiplier], *bounds]).astype(np.int64)
        candidates = np.unique(
            candidates[(np.abs(candidates - multiplier) < _MARGIN) & (candidates <= _MOST)]
        )
        candidates = candidates[np.argsort(np.abs(candidates - multiplier), kind="stable")]
        counts = self.differing(way, candidates)
        number = int(np.argmin(counts))
        return int(counts[number]), int(candidates[number])

    def starts(self, double: bool) -> tuple[int, _Way]:
        """Return the nearest multiplier, and the shifts to try first."""
        multiplier, shift = _centred(self.factor)
        bits = max(-self.low, self.high, 1).bit_length()
        left = max(min(30 - bits, 31 + shift), shift, 0) if double else max(shift, 0)
        return multiplier, _Way(left, left - shift, double)

    def single(self) -> _Choice:
        """Return the parameters of single rounding."""
        multiplier, way = self.starts(double=False)
        return self.counted(way, self.near().best(way, multiplier)[1])

    def doubled(self) -> _Choice:
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

    def counted(self, way: _Way, multiplier: int) -> _Choice:
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
    >>> chosen = multipliers(np.array([0.0123], np.float32), [(-9000, 9000)], zero_point=0)
    >>> int(chosen.multiplier[0]), int(chosen.right[0]), int(chosen.differing[0])
    (1690499072, 6, 0)
    """
    distinct, inverse = np.unique(factors.astype(np.float32), return_inverse=True)
    bottom, top = _united(inverse, ranges)
    results = np.arange(low, high + 2, dtype=np.int64) - zero_point
    reached = least_sums(distinct[:, None], results, bottom[:, None], top[:, None])
    inside = np.maximum(reached[:, -1] - reached[:, 0], 1)
    targets = [
        _Target(float(factor), results[1:-1], sums, int(a), int(b))
        for factor, sums, a, b in zip(distinct, reached[:, 1:-1], bottom, top, strict=True)
    ]
    choices = _search(targets, double=False)
    if any(count for count, *_ in choices):
        others = _search(targets, double=True)
        if sum(count for count, *_ in others) < sum(count for count, *_ in choices):
            choices = others
    rows = np.array([(n, m, way.left, way.right) for n, m, way in choices], np.int64)
    differing, multiplier, left, right = rows[inverse].T
    rounding = Rounding.DOUBLE if choices[0][2].double else Rounding.SINGLE
    return Multipliers(multiplier, left, right, rounding, differing, inside[inverse])


def _united(groups: np.ndarray, ranges: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest sum of the channels of each group."""
    least, greatest = (np.array(bounds, np.int64) for bounds in zip(*ranges, strict=True))
    bottom, top = (np.full(groups.max() + 1, end) for end in (_MOST, -_MOST - 1))
    np.minimum.at(bottom, groups, least)
    np.maximum.at(top, groups, greatest)
    return bottom, top


def _search(targets: Sequence[_Target], *, double: bool) -> list[_Choice]:
    """Return the best parameters of each factor, searched if the nearest do not agree."""
    choices = []
    starts = [one.starts(double) for one in targets]
    ways = np.array([(m, way.left, way.right) for m, way in starts], np.int64)[:, :, None]
    results = targets[0].results
    sums = np.array([one.sums for one in targets])
    with np.errstate(over="ignore"):
        halves = (2 * results - 1) << (30 + ways[:, 2])
        if double:
            halves += np.where(results > 0, -(1 << 30), 1 << 30) * (ways[:, 2] > 0)
        reached = -(-halves // (ways[:, 0] << ways[:, 1]))
    bounds = np.array([(one.low, one.high + 1) for one in targets])[:, :, None]
    agrees = (np.clip(reached, bounds[:, 0], bounds[:, 1]) == sums).all(axis=1)
    agrees &= ways[:, 2, 0] <= _MOST_RIGHT
    for one, (multiplier, way), good in zip(targets, starts, agrees.tolist(), strict=True):
        if good:
            choices.append((0, multiplier, way))
        else:
            choices.append(one.doubled() if double else one.single())
    return choices


def _centred(factor: float) -> tuple[int, int]:
    """Return multiplier and shift of a factor, with other multipliers above."""
    multiplier, shift = quantize_multiplier(factor)
    return (multiplier, shift) if multiplier < _MOST - _MARGIN else (multiplier >> 1, shift + 1)
