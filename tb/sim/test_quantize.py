import math

import litert_arithmetic
import numpy as np
import prerequisites
import pytest
from networks import FullyConnected, write_fully_connected

from celosia.hw.arch.isa import Rounding
from celosia.sim.model import quantize
from celosia.sw.layers.multiplier import quantize_multiplier

INT32 = (-(1 << 31), (1 << 31) - 1)


def wrap(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def by_contract(x: int, bias: int, multiplier: int, left: int, right: int, double: bool) -> int:
    """Steps of docs/design/arithmetic.md, 'What is computed', in whole numbers without a width."""
    x = wrap(x + bias) << left
    x = wrap(x) if double else min(max(x, INT32[0]), INT32[1])
    h = (x * multiplier + ((1 << 30) if double or right == 0 else 0)) >> 31
    if right:
        h = (h + (1 << (right - 1)) - (1 if double and h < 0 else 0)) >> right
    return h


def corners(rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Random arguments of requantize, with the ends of every range mixed in."""

    def ends(low: int, high: int) -> np.ndarray:
        near = [low, low + 1, high - 1, high, *(v for v in (-1, 0, 1) if low <= v <= high)]
        mixed = rng.integers(low, high, count, endpoint=True)
        return np.where(rng.random(count) < 0.4, rng.choice(near, count), mixed)

    small = rng.integers(-300, 300, count)
    return {
        "x": np.where(rng.random(count) < 0.5, small, ends(*INT32)),
        "bias": np.where(rng.random(count) < 0.5, 0, ends(*INT32)),
        "multiplier": ends(0, INT32[1]),
        "left": np.where(rng.random(count) < 0.6, 0, ends(0, 31)),
        "right": ends(0, 31),
    }


@pytest.mark.parametrize("rounding", Rounding)
def test_requantize_is_the_contract(rounding: Rounding, rng: np.random.Generator):
    arguments = corners(rng, 4000)
    got = quantize.requantize(**arguments, rounding=rounding)
    rows = zip(*(values.tolist() for values in arguments.values()), strict=True)
    double = rounding is Rounding.DOUBLE
    want = [by_contract(x, b, m, left, right, double) for x, b, m, left, right in rows]
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("left", [0, 1, 2])
def test_shifts_alone_are_the_contract(rounding: Rounding, left: int, rng) -> None:
    """One multiplier of a power of two for all elements, of which some are too large for 2³⁰."""
    double = rounding is Rounding.DOUBLE
    for right in range(32):
        for bias in (0, int(rng.integers(-5, 5)), int(rng.choice(INT32))):
            most = int(rng.choice([300, 1 << 20, (1 << 30) - 1, (1 << 30) + 5, INT32[1]]))
            x = np.array([-most, most, *rng.integers(-most, most, 20)], np.int32)
            got = quantize.requantize(x, bias, 1 << 30, left, right, rounding)
            want = [by_contract(each, bias, 1 << 30, left, right, double) for each in x.tolist()]
            assert got.dtype == np.int32
            np.testing.assert_array_equal(got, want)


def test_the_roundings_differ_where_the_first_rounding_makes_a_half():
    # A little less than a half: the first of two rounds to 1, whose half is rounded up again.
    multiplier, right = (1 << 31) - 1, 1
    single = quantize.requantize(1, 0, multiplier, 0, right, Rounding.SINGLE)
    double = quantize.requantize(1, 0, multiplier, 0, right, Rounding.DOUBLE)
    assert (int(single), int(double)) == (0, 1)


def test_finish_keeps_the_sum_exact():
    h = np.array([INT32[0], -1, 0, 1, INT32[1]])
    expected = np.array([-128, 126, 127, 127, 127], np.int8)
    np.testing.assert_array_equal(quantize.finish(h, 127, -128, 127), expected)
    np.testing.assert_array_equal(quantize.finish(h, -3, -2, 5), np.array([-2, -2, -2, -2, 5]))


def litert(layers: list[FullyConnected], x: np.ndarray, scale: float, zero_point: int):
    ends = {"input_scale": scale, "input_zero_point": zero_point}
    content = write_fully_connected(layers, **ends, batch=len(x))
    return prerequisites.litert_outputs(content, x)[0]


def random_layer(rng, real: float, per_channel: bool, bias) -> tuple[FullyConnected, float]:
    """A layer whose factor from sums to outputs is about ``real``, and its input scale."""
    outputs, inputs = 24, 20
    input_scale, output_scale = (float(np.float32(rng.uniform(0.01, 0.1))) for _ in range(2))
    spread = rng.uniform(0.5, 1, outputs if per_channel else None)
    weight_scale = np.asarray(real * output_scale / input_scale * spread, np.float32)
    reach = min(int(100 / real) + 1, 1 << 30)
    layer = FullyConnected(
        weights=rng.integers(-127, 128, (outputs, inputs)).astype(np.int8),
        weight_scale=weight_scale if per_channel else float(weight_scale),
        bias=rng.integers(-reach, reach, outputs).astype(np.int32) if bias else None,
        output_scale=output_scale,
        output_zero_point=int(rng.integers(-100, 100)),
    )
    return layer, input_scale


def channel_parameters(reals: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return multiplier, left and right shift of each real factor, as the compiler has them."""
    pairs = np.array([quantize_multiplier(float(real)) for real in np.ravel(reals)], np.int32)
    multiplier, shift = pairs.T.reshape(2, *np.shape(reals))
    return multiplier, np.maximum(shift, 0), np.maximum(-shift, 0)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("per_channel", [True, False])
def test_single_rounding_is_litert_fully_connected(per_channel, bias, rng):
    double_differs = 0
    for real in (2.0**-34, 2e-9, 1e-6, 1e-3, 0.01, 0.01, 0.3, 0.3, 0.8, 1.7, 40.0):
        layer, scale = random_layer(rng, real, per_channel, bias)
        zero_point = int(rng.integers(-128, 128))
        x = rng.integers(-128, 128, (64, 20)).astype(np.int8)
        want = litert([layer], x, scale, zero_point)
        sums = litert_arithmetic.fully_connected_sums(x, layer.weights, layer.bias, zero_point)
        reals = litert_arithmetic.effective_scale(scale, layer.weight_scale, layer.output_scale)
        exact = litert_arithmetic.litert_fully_connected(sums, reals, layer.output_zero_point)
        np.testing.assert_array_equal(exact, want)
        parameters = channel_parameters(reals)
        for rounding in Rounding:
            h = quantize.requantize(sums, 0, *parameters, rounding)
            got = quantize.finish(h, layer.output_zero_point, -128, 127)
            if rounding is Rounding.SINGLE:
                np.testing.assert_array_equal(got, want)
            double_differs += int(np.sum(got != want))
    assert double_differs > 0


def test_litert_rounds_halves_away_from_zero_in_float64():
    sums = np.arange(-9, 10, dtype=np.int32)
    weights = np.zeros((19, 1), np.int8)
    layer = FullyConnected(weights=weights, weight_scale=0.5, bias=sums, output_scale=1.0)
    want = litert([layer], np.zeros((1, 1), np.int8), 1.0, 0)[0]
    np.testing.assert_array_equal(litert_arithmetic.litert_fully_connected(sums, 0.5, 0), want)
    single = quantize.requantize(sums, 0, 1 << 30, 0, 0, Rounding.SINGLE)
    # The contract's SINGLE rounds halves up: it differs from the kernel on negative halves only.
    np.testing.assert_array_equal(np.flatnonzero(single != want), np.arange(0, 9, 2))


def test_litert_products_past_32_bits_become_the_least_number():
    weights = np.array([[1], [2], [3], [100], [-1], [-100]], np.int8)
    layer = FullyConnected(weights=weights, weight_scale=2.0**30, output_scale=1.0)
    x = np.ones((1, 1), np.int8)
    want = litert([layer], x, 1.0, 0)
    sums = litert_arithmetic.fully_connected_sums(x, weights, None, 0)
    np.testing.assert_array_equal(litert_arithmetic.litert_fully_connected(sums, 2.0**30, 0), want)
    np.testing.assert_array_equal(want, [[127, -128, -128, -128, -128, -128]])


def test_litert_clamps_fused_activations(rng: np.random.Generator):
    layer, scale = random_layer(rng, 0.02, False, True)
    x = rng.integers(-128, 128, (32, 20)).astype(np.int8)
    sums = litert_arithmetic.fully_connected_sums(x, layer.weights, layer.bias, 5)
    real = litert_arithmetic.effective_scale(scale, layer.weight_scale, layer.output_scale)
    for activation, top in (("RELU", math.inf), ("RELU6", 6.0)):
        fused = FullyConnected(**{**vars(layer), "activation": activation, "output_zero_point": -9})
        high = min(127, -9 + top / layer.output_scale)
        want = litert_arithmetic.litert_fully_connected(sums, real, -9, -9, round(high))
        np.testing.assert_array_equal(litert([fused], x, scale, 5), want)


def test_shares_of_the_ends() -> None:
    """A sum of 0 counts as the least normalised one: twice one half, shifted by 31 bits."""
    multipliers, rights = quantize.shares(np.array([0, 1, 1 << 27, (1 << 28) - 1]))
    assert rights.tolist() == [0, 4, 31, 31]
    assert multipliers[:3].tolist() == [(1 << 31) - 1] * 3
    assert multipliers[3] - (1 << 30) in range(4, 9)
