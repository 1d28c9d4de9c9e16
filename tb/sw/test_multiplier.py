import doctest
import math

import numpy as np
import pytest

from celosia.hw.arch.isa import Rounding
from celosia.sim import quantize
from celosia.sw.compiler import multiplier as module
from celosia.sw.compiler.multiplier import exact_multiplier, quantize_multiplier


def on_core(sums: np.ndarray, multiplier: int, shift: int, zero_point: int) -> np.ndarray:
    left, right = quantize.split_shift(shift)
    h = quantize.requantize(sums, 0, multiplier, left, right, Rounding.SINGLE)
    return quantize.finish(h, zero_point, -128, 127)


def around_halves(real: float, rng: np.random.Generator) -> np.ndarray:
    """Sums on both sides of every half, and others."""
    halves = (np.arange(-260, 260) + 0.5) / real
    near = np.round(halves)[:, None] + np.arange(-2, 3)
    other = rng.integers(-300, 300, 2000) / real * rng.random(2000)
    sums = np.concatenate([near.ravel(), np.round(other)])
    return np.clip(sums, -(1 << 24), 1 << 24).astype(np.int32)


def factors(rng: np.random.Generator) -> list[float]:
    scales = rng.uniform(1e-3, 0.1, (30, 2)).tolist()
    usual = [quantize.effective_scale(i, w, 0.1) for i, w in scales]
    few_bits = [rng.integers(1, 400) * 2.0 ** -rng.integers(6, 20) for _ in range(30)]
    powers = [2.0**-n for n in range(1, 16)]
    return [float(real) for real in (*usual, *few_bits, *powers)]


def test_agrees_with_float64_for_every_sum(rng: np.random.Generator):
    differs = 0
    for real in factors(rng):
        zero_point = int(rng.integers(-128, 128))
        sums = around_halves(real, rng)
        want = quantize.litert_fully_connected(sums, real, zero_point)
        multiplier, shift, exact = exact_multiplier(real, zero_point=zero_point, most=1 << 24)
        assert exact, real
        np.testing.assert_array_equal(on_core(sums, multiplier, shift, zero_point), want)
        differs += np.any(on_core(sums, *quantize_multiplier(real), zero_point) != want)
    assert differs > 30


def test_every_sum_of_a_narrow_range():
    sums = np.arange(-(1 << 12), 1 << 12, dtype=np.int32)
    for real in (0.5, 0.375, 1.0, 1.5, 2.0, 0.0625, 5 / 64):
        multiplier, shift, exact = exact_multiplier(real, zero_point=3, most=1 << 12)
        assert exact
        want = quantize.litert_fully_connected(sums, real, 3)
        np.testing.assert_array_equal(on_core(sums, multiplier, shift, 3), want)


def test_says_when_there_is_none():
    # One more is too many by a whole sum at the far end of the range.
    assert exact_multiplier(2.0**-24, zero_point=0) == (1 << 30, -23, False)
    assert exact_multiplier(2.0**-24, zero_point=0, most=1 << 24)[2]
    assert exact_multiplier(2.0**-40, zero_point=0) == (0, 0, False)


@pytest.mark.parametrize("real", [0.0, 2.0**-33, 2.0**-32, 0.3, 1.0 - 2.0**-40, 7.0, 2.0**40])
def test_quantize_multiplier_is_the_model_s(real: float):
    assert quantize_multiplier(real) == quantize.quantize_multiplier(real)
    assert math.isfinite(real)


def test_examples():
    assert doctest.testmod(module).failed == 0
