import doctest
from fractions import Fraction

import litert_arithmetic
import numpy as np
import pytest

from celosia.hw.arch.isa import Rounding
from celosia.sim.model import quantize
from celosia.sw.layers import multiplier as module
from celosia.sw.layers.multiplier import quantize_multiplier, single_multiplier

INT32 = (-(1 << 31), (1 << 31) - 1)


def on_core(
    sums: np.ndarray, scaling: tuple[int, int], zero_point: int, low: int = -128, high: int = 127
) -> np.ndarray:
    left, right = max(scaling[1], 0), max(-scaling[1], 0)
    h = quantize.requantize(sums, 0, scaling[0], left, right, Rounding.SINGLE)
    return quantize.finish(h, zero_point, low, high)


def around_halves(real: float, rng: np.random.Generator, reach: int) -> np.ndarray:
    """Sums on both sides of every half, and others."""
    halves = (np.arange(-260, 260) + 0.5) / real
    near = np.round(halves)[:, None] + np.arange(-2, 3)
    other = rng.integers(-300, 300, 2000) / real * rng.random(2000)
    sums = np.concatenate([near.ravel(), np.round(other), [-reach, reach]])
    return np.clip(sums, -reach, reach).astype(np.int32)


def factors(rng: np.random.Generator) -> list[float]:
    scales = rng.uniform(1e-3, 0.1, (30, 2)).tolist()
    usual = [litert_arithmetic.effective_scale(i, w, 0.1) for i, w in scales]
    few_bits = [rng.integers(1, 400) * 2.0 ** -rng.integers(6, 20) for _ in range(30)]
    powers = [2.0**-n for n in range(1, 16)]
    return [float(real) for real in (*usual, *few_bits, *powers, 3e-9, 1.7, 40.0, 3e5)]


def test_agrees_with_float64_for_every_sum(rng: np.random.Generator):
    differs = 0
    for real in factors(rng):
        zero_point = int(rng.integers(-128, 128))
        reach = min(1 << 24, int(2**30 / real))
        sums = around_halves(real, rng, reach)
        want = litert_arithmetic.litert_fully_connected(sums, real, zero_point)
        found = single_multiplier(real, zero_point=zero_point, sums=(-reach, reach))
        assert found is not None, real
        np.testing.assert_array_equal(on_core(sums, found, zero_point), want)
        differs += np.any(on_core(sums, quantize_multiplier(real), zero_point) != want)
    assert differs > 30


def same(real: float, multiplier: int, shift: int, sums: range, zero_point: int, clamp) -> bool:
    """True if a multiplier agrees for all sums of a range, by trying each."""
    every = np.arange(sums.start, sums.stop, dtype=np.int32)
    want = litert_arithmetic.litert_fully_connected(every, real, zero_point, *clamp)
    return np.array_equal(on_core(every, (multiplier, shift), zero_point, *clamp), want)


def test_finds_one_exactly_where_there_is_one(rng: np.random.Generator):
    found = 0
    for _ in range(150):
        # Near halves of sums that are far apart: some have no multiplier.
        real = float(rng.integers(1, 300) + rng.choice([0.0, 1e-6, -1e-7, 3e-7])) / 256
        least = int(rng.integers(-9000, 1000))
        sums = range(least, least + int(rng.integers(1, 12_000)))
        zero_point, low = int(rng.integers(-128, 128)), int(rng.integers(-128, 100))
        clamp, ends = (low, int(rng.integers(low, 128))), (least, sums.stop - 1)
        got = single_multiplier(real, zero_point=zero_point, low=low, high=clamp[1], sums=ends)
        if got is not None:
            assert same(real, *got, sums, zero_point, clamp)
            found += 1
            continue
        nearest, shift = quantize_multiplier(real)
        for tried in range(nearest - 20, nearest + 21):
            assert not same(real, tried, shift, sums, zero_point, clamp)
    assert 100 < found


def test_keeps_the_nearest_where_it_can():
    nearest = quantize_multiplier(0.5)
    assert single_multiplier(0.5, zero_point=0, sums=(0, 1000)) == nearest
    assert single_multiplier(0.5, zero_point=0, low=0, sums=(-1000, 1000)) == nearest
    assert single_multiplier(0.5, zero_point=0, sums=(-1, 1)) == (nearest[0] + 1, 0)
    assert single_multiplier(0.5, zero_point=0, low=3, high=3, sums=INT32) == nearest


@pytest.mark.parametrize("off", [2.0**-40, -(2.0**-40), -(2.0**-33), 2.0**-32])
def test_next_to_a_power_of_two(off: float):
    sums = np.arange(-600, 601, dtype=np.int32)
    for power in (0.25, 0.5, 1.0, 2.0, 16.0):
        real = power * (1 + off)
        found = single_multiplier(real, zero_point=-4, sums=(-600, 600))
        assert found is not None
        want = litert_arithmetic.litert_fully_connected(sums, real, -4)
        np.testing.assert_array_equal(on_core(sums, found, -4), want)


def test_reports_when_there_is_none():
    # One more is too many by a whole sum at the far end of the range.
    assert single_multiplier(2.0**-24, zero_point=0, sums=INT32) is None
    assert single_multiplier(2.0**-24, zero_point=0, sums=(-(1 << 24), 1 << 24)) is not None


@pytest.mark.parametrize("real", [2.0**-33, 2.0**-40, 2.0**-32 - 2.0**-63])
def test_factors_that_no_sum_brings_to_a_half(real: float):
    ends = np.array(INT32, np.int32)
    assert single_multiplier(real, zero_point=7, sums=INT32) == (0, 0)
    np.testing.assert_array_equal(litert_arithmetic.litert_fully_connected(ends, real, 7), [7, 7])


def test_quantize_multiplier_is_within_half_a_unit(rng: np.random.Generator):
    drawn = np.exp2(rng.uniform(-31.9, 29.9, 500)).tolist()
    for real in (*drawn, 1e-3, 0.3, 0.5, 0.9999999999, 1.0, 1.5, 7.0, 1000.3, 2.0**-31):
        multiplier, shift = quantize_multiplier(real)
        assert 1 << 30 <= multiplier < 1 << 31 and -31 <= shift <= 30
        off = abs(Fraction(real) - Fraction(multiplier, 1 << 31) * Fraction(2) ** shift)
        assert off <= Fraction(1, 1 << 32) * Fraction(2) ** shift


@pytest.mark.parametrize(
    ("real", "want"),
    [
        (0.0, (0, 0)),
        (1.0, (1 << 30, 1)),
        (0.5, (1 << 30, 0)),
        (0.75, (3 << 29, 0)),
        (2.0**-32, (1 << 30, -31)),
        (2.0**-33, (0, 0)),
        (1.0 - 2.0**-40, (1 << 30, 1)),
        (2.0**29, (1 << 30, 30)),
        (2.0**30 - 1, ((1 << 31) - 2, 30)),
        (2.0**30, ((1 << 31) - 1, 30)),
        (2.0**40, ((1 << 31) - 1, 30)),
    ],
)
def test_quantize_multiplier_at_the_ends(real: float, want: tuple[int, int]):
    assert quantize_multiplier(real) == want


def test_examples():
    assert doctest.testmod(module).failed == 0
