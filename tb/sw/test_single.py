"""Requantiser parameters for float32 factors rounded half to even."""

import numpy as np
import pytest

from celosia.hw.arch.isa import Rounding
from celosia.sim.model.quantize import finish, requantize
from celosia.sw.ir.graph import Quantization
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.multiplier import least_sums, multipliers
from celosia.sw.layers.onnxruntime import added, requantized
from celosia.sw.layers.single_scaling import addition_scalings, average_scaling, mean_scaling


def meaning(scale: float, zero_point: int) -> Quantization:
    return Quantization(np.array([scale], np.float32), np.array([zero_point]))


def scaled(sums, scaling):
    """Return the steps of a requantiser but for the last."""
    fields = scaling.multiplier, scaling.left, scaling.right, scaling.rounding
    return requantize(sums, scaling.bias, *fields)


def of_core(sums, found, channel, zero_point):
    shifts = found.left[channel], found.right[channel]
    h = requantize(sums, 0, found.multiplier[channel], *shifts, found.rounding)
    return finish(h, zero_point, -128, 127).astype(int)


@pytest.mark.parametrize("size", [0.3, 0.03, 0.004, 0.001, 0.0003])
def test_differing_sums_are_counted(size, rng):
    factors = (size * rng.uniform(1, 3, 12)).astype(np.float32)
    zero_point = int(rng.integers(-128, 128))
    reach = (300 / factors).astype(int)
    ranges = list(zip((-reach).tolist(), reach.tolist(), strict=True))
    found = multipliers(factors, ranges, zero_point=zero_point)
    for channel, (low, high) in enumerate(ranges):
        sums = np.arange(low, high + 1)
        wanted = requantized(sums, factors[channel], zero_point).astype(int)
        off = np.abs(of_core(sums, found, channel, zero_point) - wanted)
        assert off.sum() == (off > 0).sum() == found.differing[channel]
        inside = np.rint(sums.astype(np.float32) * factors[channel]) + zero_point
        assert found.sums[channel] == ((inside >= -128) & (inside <= 127)).sum()


def test_factors_of_a_hundredth_have_multipliers(rng):
    factors = rng.uniform(0.004, 0.1, 400).astype(np.float32)
    found = multipliers(factors, [(-40_000, 40_000)] * 400, zero_point=0)
    assert found.differing.sum() <= 2


def test_double_rounding_where_single_has_no_multiplier():
    """Two sums on halves, in single precision only, that single rounding cannot both take."""
    random = np.random.default_rng(5)
    factors = random.uniform(0.001, 0.004, 300).astype(np.float32)
    reach = [(-200_000, 200_000)]
    rounds = [multipliers(factors[n : n + 1], reach, zero_point=0) for n in range(300)]
    doubled = [each for each in rounds if each.rounding is Rounding.DOUBLE]
    assert len(doubled) > 2
    assert any(not each.differing[0] for each in doubled)


def test_halves_to_even_of_a_power_of_two_have_no_multiplier():
    found = multipliers(np.array([0.5], np.float32), [(-255, 254)], zero_point=0)
    assert found.differing[0] > 100


def test_least_sums_are_the_least(rng):
    factors = (10 ** rng.uniform(-6, 1, 50)).astype(np.float32)[:, None]
    results = np.arange(-127, 128)
    ends = np.full((50, 1), 1 << 30)
    found = least_sums(factors, results, -ends, ends)
    inside = np.abs(found) < 1 << 30
    at, before = (np.rint((found - n).astype(np.float32) * factors) for n in (0, 1))
    assert (at >= results)[inside].all() and (before < results)[inside].all()


@pytest.mark.parametrize("unsigned", [False, True])
def test_additions(unsigned, rng):
    exact = 0
    for _ in range(20):
        scales = rng.uniform(0.005, 0.1, 2)
        points = [int(n) for n in rng.integers(-128, 128, 3)]
        ends = (
            meaning(scales[0], points[0]),
            meaning(scales[1], points[1]),
            meaning(scales.sum() * rng.uniform(0.4, 1), points[2]),
        )
        try:
            first, second, total = addition_scalings(*ends, unsigned=unsigned)
        except CompileError:
            continue
        exact += 1
        x = np.arange(-128, 128)
        one, other = (scaled(x, scaling) for scaling in (first, second))
        h = scaled(one[:, None] + other, total)
        wanted = added(x[:, None], x[None], ends, unsigned=unsigned)
        np.testing.assert_array_equal(finish(h, total.zero_point, -128, 127), wanted)
    assert exact >= 18


def test_means_and_averages():
    source, output = meaning(0.05, -3), meaning(0.0431, 7)
    sums = np.arange(-128 * 49, 127 * 49 + 1)
    scaling = mean_scaling(source, output, 49)
    factor = np.float32(0.05) / (np.float32(0.0431) * np.float32(49))
    h = scaled(sums, scaling)
    wanted = requantized(sums + 3 * 49, factor, 7)
    np.testing.assert_array_equal(finish(h, 7, -128, 127), wanted)
    # 4 elements of one scale come to a half in one sum of four.
    with pytest.raises(CompileError, match="stay apart from halves"):
        average_scaling(source, source, 4)
