"""Lowering: what becomes part of a product, what is a view, what is refused."""

from collections.abc import Sequence
from typing import Any

import networks as w
import numpy as np
import pytest

from celosia.sw.compiler.lower import lower
from celosia.sw.frontend.tflite import load
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.network import Network
from celosia.sw.layers.spec import MatrixLayer, Pooling


def convolution(channels: int, depth: int, padding: str = "VALID") -> w.Convolution:
    weights, bias = np.ones((channels, 3, 3, depth), np.int8), np.zeros(channels, np.int32)
    scales: dict[str, Any] = {"weight_scale": 0.01, "output_scale": 0.5}
    return w.Convolution(weights=weights, bias=bias, padding=padding, **scales)


def dense(outputs: int, inputs: int) -> w.FullyConnected:
    weights = np.ones((outputs, inputs), np.int8)
    return w.FullyConnected(weights=weights, weight_scale=0.013, output_scale=0.7)


def lowered(layers: Sequence[w.Layer], shape: tuple[int, ...] = (1, 9, 9, 2)) -> Network:
    ends = {"input_shape": shape, "input_scale": 0.1, "input_zero_point": 3}
    return lower(load(w.write_sequential(layers, **ends)))


def kinds(network: Network) -> list[str]:
    return [layer.kind for layer in network.layers]


def test_activation_and_pooling_become_part_of_a_convolution() -> None:
    network = lowered([convolution(4, 2), w.Activation(kind="RELU6"), w.Pool(), w.Activation()])
    assert kinds(network) == ["CONV_2D+RELU6+MAX_POOL_2D+RELU"]
    (layer,) = network.layers
    assert isinstance(layer, MatrixLayer)
    # 7 x 7 sums, of which the 3 x 3 windows read 6 x 6.
    assert layer.grid == (6, 6) and layer.output == (3, 3)
    assert (layer.scaling.low, layer.scaling.high) == (0, 12)
    assert layer.macs == 49 * 4 * 18


@pytest.mark.parametrize(
    "pool", [w.Pool(window=(3, 3)), w.Pool(padding="SAME"), w.Pool(kind="AVERAGE_POOL_2D")]
)
def test_pooling_that_overlaps_or_reaches_out_or_adds_stands_alone(pool: w.Pool) -> None:
    assert kinds(lowered([convolution(4, 2), pool])) == ["CONV_2D", pool.kind]


def test_change_of_scale_stands_alone() -> None:
    network = lowered([convolution(4, 2), w.Quantize(output_scale=0.3), w.Pool()])
    assert kinds(network) == ["CONV_2D", "QUANTIZE", "MAX_POOL_2D"]


def test_sums_that_may_wrap_are_not_pooled() -> None:
    weights, bias = np.ones((1, 1, 1, 2), np.int8), np.array([(1 << 31) - 5], np.int32)
    layer = w.Convolution(weights=weights, weight_scale=0.01, bias=bias, output_scale=0.5)
    assert kinds(lowered([layer, w.Pool()])) == ["CONV_2D", "MAX_POOL_2D"]


def test_padding_and_flattening_move_nothing() -> None:
    pad = w.Pad(before=(0, 1, 2, 0), after=(0, 3, 4, 0))
    network = lowered([pad, convolution(4, 2), w.Reshape(shape=(1, 11 * 13 * 4)), dense(5, 572)])
    first, second = network.layers
    assert isinstance(first, MatrixLayer) and isinstance(second, MatrixLayer)
    assert first.origin == (-1, -2) and first.grid == (11, 13)
    assert second.kernel == (11, 13) and second.grid == (1, 1)


def test_padding_that_is_reshaped_is_copied_first() -> None:
    pad = w.Pad(before=(0, 1, 0, 0), after=(0, 0, 0, 0))
    network = lowered([pad, w.Reshape(shape=(1, 180)), dense(3, 180)])
    assert kinds(network) == ["COPY", "FULLY_CONNECTED"]
    copy = network.layers[0]
    assert isinstance(copy, Pooling) and copy.windows[0].source == (-1, 0)


def test_padding_with_another_constant_is_copied() -> None:
    pad = w.Pad(before=(0, 1, 1, 0), after=(0, 1, 1, 0), value=7)
    network = lowered([pad, convolution(4, 2, "SAME")])
    assert kinds(network) == ["COPY", "COPY", "CONV_2D"]
    assert network.values[1].fill == 7 and network.values[2].fill == 3


def test_vector_becomes_an_image_by_a_copy() -> None:
    network = lowered([dense(32, 6), w.Reshape(shape=(1, 4, 4, 2)), convolution(3, 2)], (1, 6))
    assert kinds(network) == ["FULLY_CONNECTED", "RESHAPE", "CONV_2D"]


def test_input_that_is_only_reshaped_is_an_image_from_the_start() -> None:
    network = lowered([w.Reshape(shape=(1, 9, 9, 2)), convolution(4, 2)], (1, 162))
    assert kinds(network) == ["CONV_2D"]
    assert (network.values[0].height, network.values[0].width) == (9, 9)


class LogSoftmax:
    """A LOG_SOFTMAX over the last dimension."""

    def add(self, chain: w.Chain) -> None:
        """Add the operator."""
        chain.operator("LOG_SOFTMAX", scale=1 / 16, zero_point=127)


def test_log_softmax_is_not_for_the_core() -> None:
    wanted = "operator 1 LOG_SOFTMAX .*: operator is not supported"
    with pytest.raises(CompileError, match=wanted) as e:
        lowered([dense(5, 6), LogSoftmax(), dense(4, 5)], (1, 6))
    assert e.value.place == 1


def test_channels_are_not_padded() -> None:
    pad = w.Pad(before=(0, 0, 0, 1), after=(0, 0, 0, 0))
    with pytest.raises(CompileError, match="operator 0 PAD .*: wanted padding of rows and columns"):
        lowered([pad, convolution(4, 3)])


def test_three_dimensions_are_a_row_of_pixels() -> None:
    chain = w.Chain((1, 20, 8), 0.1, 3)
    chain.operator("LOGISTIC", scale=1 / 256, zero_point=-128)
    chain.operator("MEAN", (1, 20, 1), [np.array([2], np.int32)], keepDims=True)
    network = lower(load(w.serialize(chain.graph())))
    assert kinds(network) == ["LOGISTIC", "MEAN"]
    shapes = [(v.height, v.width, v.channels) for v in network.values]
    assert shapes == [(1, 20, 8), (1, 20, 8), (1, 20, 1)]


def test_heads_are_moved_once() -> None:
    """A row that becomes an image, and a transpose of that, are one copy."""
    chain = w.Chain((1, 20, 8), 0.1, 3)
    chain.operator("LOGISTIC", scale=1 / 256, zero_point=-128)
    chain.operator("RESHAPE", (1, 20, 2, 4), [np.array([1, 20, 2, 4], np.int32)])
    w.Transpose(permutation=(0, 2, 1, 3)).add(chain)
    assert kinds(lower(load(w.serialize(chain.graph())))) == ["LOGISTIC", "TRANSPOSE"]


@pytest.mark.parametrize("heads", [False, True])
def test_an_image_becomes_a_row_if_heads_are_made_of_it(heads: bool) -> None:
    chain = w.Chain((1, 5, 4, 8), 0.1, 3)
    chain.operator("LOGISTIC", scale=1 / 256, zero_point=-128)
    chain.operator("RESHAPE", (1, 20, 8), [np.array([1, 20, 8], np.int32)])
    chain.operator("TANH", scale=1 / 128, zero_point=0)
    if heads:
        chain.operator("RESHAPE", (1, 20, 2, 4), [np.array([1, 20, 2, 4], np.int32)])
        w.Transpose(permutation=(0, 2, 1, 3)).add(chain)
    network = lower(load(w.serialize(chain.graph())))
    wanted = ["LOGISTIC", "RESHAPE", "TANH", "TRANSPOSE"] if heads else ["LOGISTIC", "TANH"]
    assert kinds(network) == wanted
    assert network.values[2].height == (1 if heads else 5)
