"""Reader of each operator, and its refusals."""

from dataclasses import replace
from typing import Any

import networks as w
import numpy as np
import pytest
from read_operators import assert_read, assert_refused, contents

from celosia.sw.frontend.tflite import load

#: Of the input of every graph here.
SHAPE = (2, 9, 11, 3)


def convolution(**changes: Any) -> w.Convolution:
    values: dict[str, Any] = {
        "weights": np.ones((4, 3, 2, 3), np.int8),
        "weight_scale": np.array([0.5, 0.25, 0.125, 1.0]),
        "bias": np.arange(4, dtype=np.int32),
        "output_scale": 0.5,
        "output_zero_point": 7,
        "padding": "VALID",
        "stride": (2, 3),
        "activation": "RELU6",
    }
    return w.Convolution(**values | changes)


def depthwise(**changes: Any) -> w.Depthwise:
    values: dict[str, Any] = {
        **vars(convolution()),
        "weights": np.arange(36, dtype=np.int8).reshape(1, 3, 2, 6),
        "weight_scale": np.array([0.5, 0.25, 0.125, 1.0, 2.0, 4.0]),
        "bias": np.arange(6, dtype=np.int32),
    }
    return w.Depthwise(**values | changes)


DENSE = w.FullyConnected(weights=np.ones((5, 297), np.int8), weight_scale=0.5, output_scale=2.0)
POOL = w.Pool(window=(3, 2), stride=(1, 4), padding="SAME", activation="RELU")
ADD = w.Add(second="input", output_scale=3.0, output_zero_point=5, activation="RELU_N1_TO_1")
PAD = w.Pad(before=(0, 1, 2, 0), after=(1, 0, 3, 4))
RESHAPE = w.Reshape(shape=(6, 99))
SAME = {"padding": "SAME", "stride": (1, 1), "dilation": (2, 3), "activation": "NONE"}
VALID = {"padding": "VALID", "stride": (2, 3), "dilation": (1, 1), "activation": "RELU6"}
WHOLE = {"depth_multiplier": 1}
TWO = {"depth_multiplier": 2}
COVERING = depthwise(weights=np.ones((1, 9, 11, 3), np.int8), weight_scale=1.0, bias=None)
POOLED = {"padding": "SAME", "stride": (1, 4), "window": (3, 2), "activation": "RELU"}


def graph(*layers: w.Layer) -> w.Graph:
    return w.sequential(layers, input_shape=SHAPE, input_scale=0.5, input_zero_point=-7)


LAYERS = [
    (convolution(), (2, 4, 4, 4), VALID),
    (convolution(**SAME), (2, 9, 11, 4), SAME),
    (convolution(bias=None, weight_scale=1.0, stride=(1, 1)), (2, 7, 10, 4), {}),
    (depthwise(), (2, 4, 4, 6), VALID | TWO),
    (depthwise(**SAME), (2, 9, 11, 6), SAME),
    (depthwise(bias=None, weight_scale=0.5), (2, 4, 4, 6), TWO),
    (COVERING, (2, 1, 1, 3), WHOLE),
    (POOL, (2, 9, 3, 3), POOLED),
    (
        w.Pool(kind="AVERAGE_POOL_2D", activation="RELU_N1_TO_1"),
        (2, 4, 5, 3),
        {"padding": "VALID", "stride": (2, 2), "window": (2, 2), "activation": "RELU_N1_TO_1"},
    ),
    (DENSE, (2, 5), {"activation": "NONE", "keep_num_dims": False}),
    (w.Mean(), (2, 3), {"axes": (1, 2), "keep_dims": False}),
    (
        w.Mean(axes=(-1, 1, 3), keep_dims=True),
        (2, 1, 11, 1),
        {"axes": (1, 3), "keep_dims": True},
    ),
    (w.Mean(output_scale=2.0, output_zero_point=9), (2, 3), {}),
    (PAD, (3, 10, 16, 7), {"before": (0, 1, 2, 0), "after": (1, 0, 3, 4), "value": -7}),
    (replace(PAD, wide=True), (3, 10, 16, 7), {"before": (0, 1, 2, 0), "value": -7}),
    (replace(PAD, value=-100), (3, 10, 16, 7), {"before": (0, 1, 2, 0), "value": -100}),
    (w.Softmax(beta=0.75), SHAPE, {"beta": 0.75}),
    (w.Activation(kind="RELU", output_scale=3.0), SHAPE, {}),
    (w.Activation(kind="RELU6"), SHAPE, {}),
    (w.Activation(kind="RELU_N1_TO_1"), SHAPE, {}),
    (w.Quantize(output_scale=3.0, output_zero_point=5), SHAPE, {}),
    (w.Reshape(shape=(2, -1)), (2, 297), {}),
    (ADD, SHAPE, {"activation": "RELU_N1_TO_1"}),
]


@pytest.mark.parametrize(("layer", "shape", "attributes"), LAYERS)
def test_attributes(layer: w.Layer, shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    assert_read(graph(layer), shape, attributes)


def scaled(scales: Any, zero_points: Any, axis: int = 0) -> dict[str, Any]:
    arrays = np.atleast_1d(np.float32(scales)), np.atleast_1d(np.int64(zero_points))
    return {"quantization": w.Quantization(*arrays, axis)}


def ones(*shape: int, dtype: type = np.int8) -> dict[str, Any]:
    return contents(np.ones(shape), dtype)


def rows(*groups: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Layer, operand, its changes, and the message."""
    return [(layer, name, *row) for layer, name, *some in groups for row in some]


NONE = {"quantization": None}
FOUR, SIX = np.ones(4), np.ones(6)
FLAT = {"shape": (2, 297)}
BIAS = "wanted a constant bias of 6 int32, got int32 (3,) ('bias_0')"
INT8, PADDINGS = "wanted int8 weights", "wanted paddings of shape (4, 2) of at least 0, got "
NEGATIVE = [[0, 0], [0, 0], [-1, 0], [0, 0]]
INSIDE = "wanted a window inside the image, got 3 x 2 on 9 x 11 pixels"
TWISTED = scaled(FOUR, 0 * FOUR, 3)
CONV, APART = convolution(), depthwise()


@pytest.mark.parametrize(
    ("layer", "name", "changes", "message"),
    rows(
        (
            CONV,
            "weights_0",
            (
                ones(4, 3, 2, 1),
                "or whole groups of them, got weights of shape (4, 3, 2, 1) on 3 channels",
            ),
            (ones(4, 3, 2), "wanted 4 dimensions, got (4, 3, 2)"),
            (ones(4, 3, 2, 3, dtype=np.int32), f"{INT8}, got int32 (4, 3, 2, 3) ('weights_0')"),
            (NONE, "wanted 1 or 4 scales of weights 'weights_0'"),
            (scaled([1, 1, 1], [0, 0, 0], 3), "wanted 1 or 4 scales of weights 'weights_0'"),
            (TWISTED, "wanted scales of the weights along axis 0, got axis 3"),
            (scaled(FOUR, [0, 0, -3, 0]), "wanted weights with zero point 0, got -3"),
        ),
        (
            CONV,
            "bias_0",
            (contents([0] * 3), "wanted a constant bias of 4 int32, got int32 (3,) ('bias_0')"),
            (contents([0] * 4, np.int64), "wanted a constant bias of 4"),
        ),
        (CONV, "output_0", (TWISTED, "int8 tensor 'output_0': wanted one scale and zero point")),
        (
            APART,
            "weights_0",
            (
                ones(2, 3, 1, 6),
                "wanted whole channels for each of the input's, got weights of shape (2, 3, 1, 6) on 3",
            ),
            (ones(1, 3, 2, 5) | scaled([1], [0], 3), "wanted a constant bias of 5 int32"),
            (ones(3, 2, 6), "wanted 1 or 0 scales of weights 'weights_0'"),
            (ones(1, 3, 2, 6, dtype=np.int32), f"{INT8}, got int32 (1, 3, 2, 6) ('weights_0')"),
            (NONE, "wanted 1 or 6 scales of weights 'weights_0'"),
            (scaled([1, 1, 1], [0, 0, 0], 3), "wanted 1 or 6 scales of weights 'weights_0'"),
            (scaled(SIX, 0 * SIX), "wanted scales of the weights along axis 3, got axis 0"),
            (scaled(SIX, [0, 0, -3, 0, 0, 0], 3), "wanted weights with zero point 0, got -3"),
        ),
        (APART, "bias_0", (contents([0] * 3), BIAS)),
        (APART, "input", ({"shape": (18, 11, 3)}, "wanted 4 dimensions, got (18, 11, 3)")),
        (
            APART,
            "output_0",
            ({"shape": (2, 4, 4, 3)}, "wanted a result of shape (2, 4, 4, 6), got"),
        ),
    ),
)
def test_operands_of_a_convolution(layer, name, changes, message) -> None:
    changed = w.retensored(graph(layer), name, **changes)
    if changes.keys() == NONE.keys() and name == "output_0":
        # What is no output of the model meets the operator's own check.
        changed = replace(changed, outputs=(0,))
    assert_refused(changed, message)


def test_weights_within_channels_are_quantized_along_their_last_axis() -> None:
    read = load(w.serialize(graph(APART)))
    weights, bias = (read.tensors[number] for number in read.operations[0].inputs[1:])
    assert weights.quantization is not None and weights.quantization.axis == 3
    assert bias.quantization is not None
    assert bias.quantization.scales.tolist() == [0.25, 0.125, 0.0625, 0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": (1, 1, 1, 2)}, "inputs of one shape, got (2, 9, 11, 3) and (1, 1, 1, 2)"),
        ({"shape": (2, 99, 3)}, "inputs of one shape, got (2, 9, 11, 3) and (2, 99, 3)"),
        ({"dtype": np.dtype(np.int32)}, "wanted int8, got int32 'second'"),
        (NONE, "int8 tensor 'second': wanted one scale and zero point"),
        (scaled(1, 128), "wanted a zero point in int8, got 128"),
    ],
)
def test_second_input_of_an_addition(changes: dict[str, Any], message: str) -> None:
    network = graph(ADD)
    second = replace(network.tensors[0], name="second")
    network = replace(network, tensors=(*network.tensors, second), inputs=(0, 2))
    network = w.rewired(network, inputs=(0, 2))
    assert load(w.serialize(network)).operations[0].inputs == (0, 2)
    assert_refused(w.retensored(network, "second", **changes), message)


def test_computed_operands() -> None:
    given = replace(graph(convolution(weight_scale=1.0)), inputs=(0, 1))
    message = "wanted constant weights, got computed ones ('weights_0')"
    assert_refused(w.retensored(given, "weights_0", data=None), message)
    given = replace(graph(w.Mean()), inputs=(0, 1))
    computed = {"data": None, "dtype": np.dtype(np.int8), **scaled(1, 0)}
    message = "wanted constant int32 or int64 axes, got computed int8 (2,) ('axes_0')"
    assert_refused(w.retensored(given, "axes_0", **computed), message)


@pytest.mark.parametrize(
    ("layer", "changes", "message"),
    [
        (CONV, {"strideH": 0, "strideW": 1}, "wanted a stride of at least 1 x 1, got 0 x 1"),
        (CONV, {"strideH": 1, "strideW": -1}, "wanted a stride of at least 1 x 1, got 1 x -1"),
        (CONV, {"dilationWFactor": 0}, "wanted a dilation of at least 1 x 1, got 1 x 0"),
        (CONV, {"strideW": 2}, "wanted a result of shape (2, 4, 5, 4), got (2, 4, 4, 4)"),
        (CONV, {"padding": "SAME"}, "wanted a result of shape (2, 5, 4, 4), got (2, 4, 4, 4)"),
        (CONV, {"dilationHFactor": 5}, INSIDE),
        (APART, {"strideH": 0, "strideW": 1}, "wanted a stride of at least 1 x 1, got 0 x 1"),
        (APART, {"dilationWFactor": -1}, "wanted a dilation of at least 1 x 1, got 1 x -1"),
        (APART, {"strideW": 2}, "wanted a result of shape (2, 4, 5, 6), got (2, 4, 4, 6)"),
        (APART, {"padding": "SAME"}, "wanted a result of shape (2, 5, 4, 6), got (2, 4, 4, 6)"),
        (APART, {"dilationHFactor": 5}, INSIDE),
        (POOL, {"filterHeight": 0}, "wanted a window of at least 1 x 1, got 0 x 2"),
        (POOL, {"strideW": 3}, "wanted a result of shape (2, 9, 4, 3), got (2, 9, 3, 3)"),
        (w.Mean(), {"keepDims": True}, "wanted a result of shape (2, 1, 1, 3), got (2, 3)"),
        (w.Softmax(), {"beta": 0.0}, "wanted scale * beta of more than 0, got 0.5 * 0"),
        (w.Softmax(), {"beta": float("nan")}, "wanted a finite beta"),
        (w.Softmax(), {"beta": float("inf")}, "wanted a finite beta"),
    ],
)
def test_options(layer: w.Layer, changes: dict[str, Any], message: str) -> None:
    given = graph(layer)
    assert_refused(w.rewired(given, options={**given.operations[0].options, **changes}), message)


@pytest.mark.parametrize(
    ("layer", "name", "changes", "message"),
    rows(
        (POOL, "input", ({"shape": (9, 11, 3)}, "wanted 4 dimensions, got (9, 11, 3)")),
        (POOL, "output_0", (scaled(0.5, -6), "wanted the same scale and")),
        (
            PAD,
            "output_0",
            (scaled(0.25, -7), "wanted the same scale and"),
            ({"shape": SHAPE}, "result of shape (3, 10, 16, 7), got (2, 9, 11, 3)"),
        ),
        (
            RESHAPE,
            "output_0",
            (scaled(1, -7), "the same"),
            ({"shape": (6, 98)}, "wanted a result of shape (6, 99), got (6, 98)"),
            ({"shape": (99, 6)}, "wanted a result of shape (6, 99), got (99, 6)"),
        ),
        (
            RESHAPE,
            "shape_0",
            (contents([2, 3, 99]), "wanted a result of shape (2, 3, 99), got (6, 99)"),
            (
                contents([6, 99], np.int8),
                "wanted constant int32 or int64 shape, got int8 (2,) ('shape_0')",
            ),
        ),
        (
            w.Mean(),
            "axes_0",
            (contents([1, 4]), "axes from -4 to 3, got [1, 4]"),
            (contents([1, 3]), "result of shape (2, 11), got"),
        ),
        (
            PAD,
            "paddings_0",
            (contents([[0, 0]] * 3), f"{PADDINGS}{[[0, 0]] * 3}"),
            (contents(NEGATIVE), f"{PADDINGS}{NEGATIVE}"),
        ),
        (
            replace(PAD, value=1),
            "value_0",
            (ones(2), "wanted one value, got 2"),
            (scaled(1, -7), "wanted the same scale and zero point"),
        ),
        (
            w.Softmax(),
            "output_0",
            (scaled(1 / 255, -128), "wanted a result of scale 1/256 and zero point -128, got"),
        ),
        (w.Activation(), "output_0", (FLAT, "wanted a result of shape (2, 9, 11, 3)")),
        (w.Quantize(output_scale=1.0), "output_0", (FLAT, "wanted a result of shape")),
        (
            ADD,
            "output_0",
            ({"shape": (1, 9, 11, 3)}, "wanted a result of shape (2, 9, 11, 3), got"),
            (NONE, "'output_0': wanted one scale and zero point"),
        ),
    ),
)
def test_other_operands(layer: w.Layer, name: str, changes: dict[str, Any], message: str) -> None:
    assert_refused(w.retensored(graph(layer), name, **changes), message)


@pytest.mark.parametrize(
    ("layer", "inputs", "message"),
    [
        (CONV, (0,), "wanted 2 to 3 inputs and one output, got 1 and 1"),
        (CONV, (0, -1, 2), "wanted 2 to 3 inputs and one output, got 2 and 1"),
        (APART, (0,), "wanted 2 to 3 inputs and one output, got 1 and 1"),
        (APART, (0, -1, 2), "wanted 2 to 3 inputs and one output, got 2 and 1"),
        (APART, (0, 1, 2, 2), "wanted 2 to 3 inputs and one output, got 4 and 1"),
        (POOL, (0, 0), "wanted 1 input and one output, got 2 and 1"),
        (w.Mean(), (0,), "wanted 2 inputs and one output, got 1 and 1"),
        (ADD, (0,), "wanted 2 inputs and one output, got 1 and 1"),
        (ADD, (0, -1), "wanted 2 inputs and one output, got 1 and 1"),
        (ADD, (0, 0, 0), "wanted 2 inputs and one output, got 3 and 1"),
    ],
)
def test_operands_left_out(layer: w.Layer, inputs: tuple[int, ...], message: str) -> None:
    assert_refused(w.rewired(graph(layer), inputs=inputs), message)


@pytest.mark.parametrize("inputs", [(0, 1), (0, 1, -1)])
@pytest.mark.parametrize("layer", [convolution(bias=None), CONV, APART])
def test_bias_left_out(layer: w.Layer, inputs: tuple[int, ...]) -> None:
    assert load(w.serialize(w.rewired(graph(layer), inputs=inputs))).operations[0].inputs == inputs


def test_axes_may_be_one_number() -> None:
    given = w.retensored(graph(w.Mean(axes=(1,))), "axes_0", **contents(1))
    assert load(w.serialize(given)).operations[0].attributes["axes"] == (1,)
