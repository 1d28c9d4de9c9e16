from fractions import Fraction

import numpy as np
import pytest

from celosia.hw.arch.isa import Rounding
from celosia.sw.compiler.quantize import activation_range, quantize, quantize_multiplier
from celosia.sw.frontend.tflite import load
from celosia.sw.frontend.writer import FullyConnected, write_fully_connected
from celosia.sw.graph import Quantization


@pytest.mark.parametrize(
    ("real", "wanted"),
    [
        (0.0, (0, 0)),
        (1.0, (1 << 30, 1)),
        (0.5, (1 << 30, 0)),
        (0.75, (3 << 29, 0)),
        (2.0**-32, (1 << 30, -31)),
        (2.0**-33, (0, 0)),
        (1 - 2.0**-40, (1 << 30, 1)),
        (2.0**29, (1 << 30, 30)),
        (2.0**40, ((1 << 31) - 1, 30)),
    ],
)
def test_multiplier_corners(real: float, wanted: tuple[int, int]) -> None:
    assert quantize_multiplier(real) == wanted


def test_multiplier_is_within_half_a_unit(rng: np.random.Generator) -> None:
    for real in np.exp2(rng.uniform(-31.9, 29.9, 500)):
        multiplier, shift = quantize_multiplier(float(real))
        assert 1 << 30 <= multiplier < 1 << 31 and -31 <= shift <= 30
        off = abs(Fraction(float(real)) - Fraction(multiplier, 1 << 31) * Fraction(2) ** shift)
        assert off <= Fraction(1, 1 << 32) * Fraction(2) ** shift


@pytest.mark.parametrize(
    ("activation", "scale", "zero_point", "wanted"),
    [
        ("NONE", 0.1, 5, (-128, 127)),
        ("RELU", 0.1, 5, (5, 127)),
        ("RELU6", 0.1, 5, (5, 65)),
        ("RELU6", 0.01, 5, (5, 127)),
        ("RELU_N1_TO_1", 0.1, 5, (-5, 15)),
        ("RELU_N1_TO_1", 4.0, 0, (0, 0)),
        ("RELU_N1_TO_1", 2.0, 0, (-1, 1)),
        ("RELU", 0.1, 127, (127, 127)),
        ("RELU6", 0.1, -128, (-128, -68)),
    ],
)
def test_activation_range(
    activation: str, scale: float, zero_point: int, wanted: tuple[int, int]
) -> None:
    output = Quantization(np.array([scale], np.float32), np.array([zero_point]))
    assert activation_range(activation, output) == wanted


def test_zero_point_goes_into_the_bias() -> None:
    layer = FullyConnected(
        weights=np.array([[1, 2, 3], [-4, 5, -6]], np.int8),
        weight_scale=0.5,
        bias=np.array([10, 20], np.int32),
        output_scale=0.25,
        output_zero_point=9,
        activation="RELU",
    )
    network = quantize(load(write_fully_connected([layer], input_scale=1.0, input_zero_point=7)))
    (dense,) = network.layers
    assert dense.bias.tolist() == [10 - 7 * 6, 20 + 7 * 5]
    assert (dense.zero_point, dense.low, dense.high) == (9, 9, 127)
    assert dense.rounding is Rounding.SINGLE
    assert dense.multiplier.tolist() == [1 << 30] * 2
    assert dense.left.tolist() == [2, 2] and dense.right.tolist() == [0, 0]
    assert dense.macs == 6 and dense.rows == 1


def test_bias_wraps_to_int32() -> None:
    layer = FullyConnected(
        weights=np.full((1, 4), 127, np.int8),
        weight_scale=0.5,
        bias=np.array([(1 << 31) - 1], np.int32),
        output_scale=0.25,
    )
    network = quantize(load(write_fully_connected([layer], input_scale=1.0, input_zero_point=-1)))
    assert network.layers[0].bias.tolist() == [(1 << 31) - 1 + 4 * 127 - (1 << 32)]


def test_models_own_batch_becomes_items() -> None:
    layer = FullyConnected(weights=np.ones((2, 3), np.int8), weight_scale=0.5, output_scale=1.0)
    network = quantize(load(write_fully_connected([layer], input_scale=1.0, batch=5)))
    assert network.items == 5
    assert [value.bytes_per_item for value in network.values] == [3, 2]
