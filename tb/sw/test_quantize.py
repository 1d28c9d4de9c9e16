import numpy as np
import pytest
from networks import FullyConnected, write_fully_connected

from celosia.hw.arch.isa import Rounding
from celosia.sim.model.quantize import requantize
from celosia.sw.compiler.lower import lower
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.graph import Quantization
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.multiplier import single_multiplier
from celosia.sw.layers.quantize import activation_range, sum_ranges
from celosia.sw.layers.spec import MatrixLayer


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
def test_activation_range(activation, scale, zero_point, wanted) -> None:
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
    network = lower(load(write_fully_connected([layer], input_scale=1.0, input_zero_point=7)))
    (dense,) = network.layers
    assert isinstance(dense, MatrixLayer)
    scaling = dense.scaling
    assert scaling.bias.tolist() == [10 - 7 * 6, 20 + 7 * 5]
    assert (scaling.zero_point, scaling.low, scaling.high) == (9, 9, 127)
    assert scaling.rounding is Rounding.SINGLE
    assert scaling.multiplier.tolist() == [1 << 30] * 2
    assert scaling.left.tolist() == [2, 2] and scaling.right.tolist() == [0, 0]
    assert dense.macs == 6 and dense.grid == (1, 1)


def test_bias_wraps_to_int32() -> None:
    layer = FullyConnected(
        weights=np.full((1, 4), 127, np.int8),
        weight_scale=0.7,
        bias=np.array([(1 << 31) - 1], np.int32),
        output_scale=2.0**30,
    )
    network = lower(load(write_fully_connected([layer], input_scale=1.0, input_zero_point=-1)))
    (made,) = network.layers
    assert isinstance(made, MatrixLayer)
    assert made.scaling.bias.tolist() == [(1 << 31) - 1 + 4 * 127 - (1 << 32)]


def test_models_own_batch_becomes_items() -> None:
    layer = FullyConnected(weights=np.ones((2, 3), np.int8), weight_scale=0.5, output_scale=1.0)
    network = lower(load(write_fully_connected([layer], input_scale=1.0, batch=5)))
    assert network.items == 5
    assert [value.bytes_per_item for value in network.values] == [3, 2]


def dense(weights: list[list[int]], weight_scale: float, bias: list[int], input_scale: float = 1.0):
    layer = FullyConnected(
        weights=np.array(weights, np.int8),
        weight_scale=weight_scale,
        bias=np.array(bias, np.int32),
        output_scale=1.0,
    )
    (made,) = lower(load(write_fully_connected([layer], input_scale=input_scale))).layers
    assert isinstance(made, MatrixLayer)
    return made.scaling


def test_ranges_of_sums(rng: np.random.Generator) -> None:
    weights = rng.integers(-127, 128, (3, 4)).astype(np.int8)
    bias = np.array([0, 100, -(1 << 31)], np.int64)
    ranges = sum_ranges(weights, bias, 5)
    corners = np.array(np.meshgrid(*[[-128, 127]] * 4)).reshape(4, -1).T.astype(np.int64) - 5
    sums = corners @ weights.T.astype(np.int64) + bias
    assert ranges[:2] == list(zip(sums.min(axis=0), sums.max(axis=0), strict=True))[:2]
    assert ranges[2] == (-(1 << 31), (1 << 31) - 1)


def test_factor_of_one_scale_is_a_product_in_double_precision() -> None:
    # A product in single precision would be a half, and a sum of 1 come to 1 instead of 0.
    input_scale = float(np.float32(1 - 2.0**-20))
    weight_scale = float(np.float32(0.5 * (1 + 2.0**-20)))
    assert np.float32(input_scale) * np.float32(weight_scale) == 0.5
    made = dense([[0], [0]], weight_scale, [1, -1], input_scale)
    h = requantize([0, 0], made.bias, made.multiplier, made.left, made.right, made.rounding)
    assert h.tolist() == [0, 0]


def test_halves_below_zero_move_the_multiplier() -> None:
    assert dense([[1]], 0.5, [0]).multiplier.tolist() == [(1 << 30) + 1]
    assert dense([[0]], 0.5, [3]).multiplier.tolist() == [1 << 30]


def test_channels_of_one_factor_may_take_their_own() -> None:
    wide = (-(1 << 31), (1 << 30) + 127)
    assert single_multiplier(2.0**-24, zero_point=0, sums=wide) is None
    made = dense([[0], [1]], 2.0**-24, [-(1 << 31), 1 << 30])
    h = requantize([0, 0], made.bias, made.multiplier, made.left, made.right, made.rounding)
    assert h.tolist() == [-128, 64]


def test_refuses_what_no_multiplier_rounds() -> None:
    weights = np.zeros((2, 66_600), np.int8)
    weights[1] = 127
    layer = FullyConnected(weights=weights, weight_scale=2.0**-24, output_scale=1.0)
    graph = load(write_fully_connected([layer], input_scale=1.0))
    says = (
        r"operator 0 FULLY_CONNECTED .*: channel 1: wanted a factor that 31 bits round like the "
        r"reference kernel, got factor 5.96046448e-08 on sums from -1082649600 to 1074191400"
    )
    with pytest.raises(CompileError, match=says):
        lower(graph)


@pytest.mark.parametrize(
    ("weight", "bias", "scale", "fits"),
    [(1, 0, 2.0**23, True), (1, 0, 2.0**24, False), (0, -1, 2.0**30, True), (0, 0, 2.0**60, True)],
)
def test_refuses_results_past_32_bits(weight: int, bias: int, scale: float, fits: bool) -> None:
    if fits:
        assert dense([[weight]], scale, [bias]).rounding is Rounding.SINGLE
        return
    with pytest.raises(CompileError, match="channel 0: wanted results within 32 bits"):
        dense([[weight]], scale, [bias])
