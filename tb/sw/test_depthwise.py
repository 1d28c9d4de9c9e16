"""DEPTHWISE_CONV_2D: what is written and read, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from networks import Depthwise, Graph, Quantization, sequential, serialize, write_sequential

from celosia.sw.frontend.tflite import ModelError, load

#: Of the input of every graph here.
SHAPE = (2, 9, 11, 3)


def depthwise(**changes: Any) -> Depthwise:
    values: dict[str, Any] = {
        "weights": np.arange(36, dtype=np.int8).reshape(1, 3, 2, 6),
        "weight_scale": np.array([0.5, 0.25, 0.125, 1.0, 2.0, 4.0]),
        "bias": np.arange(6, dtype=np.int32),
        "output_scale": 0.5,
        "output_zero_point": 7,
        "padding": "VALID",
        "stride": (2, 3),
        "activation": "RELU6",
    }
    return Depthwise(**values | changes)


def graph(layer: Depthwise) -> Graph:
    return sequential([layer], input_shape=SHAPE, input_scale=0.5, input_zero_point=-7)


@pytest.mark.parametrize(
    ("layer", "shape", "attributes"),
    [
        (
            depthwise(),
            (2, 4, 4, 6),
            {
                "padding": "VALID",
                "stride": (2, 3),
                "dilation": (1, 1),
                "activation": "RELU6",
                "depth_multiplier": 2,
            },
        ),
        (
            depthwise(padding="SAME", stride=(1, 1), dilation=(2, 3), activation="NONE"),
            (2, 9, 11, 6),
            {"padding": "SAME", "dilation": (2, 3), "activation": "NONE"},
        ),
        (depthwise(bias=None, weight_scale=0.5), (2, 4, 4, 6), {"depth_multiplier": 2}),
        (
            depthwise(weights=np.ones((1, 9, 11, 3), np.int8), weight_scale=1.0, bias=None),
            (2, 1, 1, 3),
            {"depth_multiplier": 1},
        ),
    ],
)
def test_attributes(layer: Depthwise, shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    written = graph(layer)
    read = load(serialize(written))
    (operation,) = read.operations
    assert operation.kind == "DEPTHWISE_CONV_2D"
    assert operation.attributes.items() >= attributes.items()
    assert read.tensors[operation.outputs[0]].shape == shape


def test_weights_are_quantized_along_their_last_axis() -> None:
    layer = depthwise()
    read = load(serialize(graph(layer)))
    weights, bias = (read.tensors[number] for number in read.operations[0].inputs[1:])
    assert weights.quantization is not None and weights.quantization.axis == 3
    assert weights.quantization.scales.tolist() == [0.5, 0.25, 0.125, 1.0, 2.0, 4.0]
    np.testing.assert_array_equal(np.asarray(weights.data), layer.weights)
    assert bias.quantization is not None
    assert bias.quantization.scales.tolist() == [0.25, 0.125, 0.0625, 0.5, 1.0, 2.0]


def test_bias_may_be_left_out() -> None:
    given = graph(depthwise())
    (operation,) = given.operations
    for inputs in ((0, 1), (0, 1, -1)):
        changed = replace(given, operations=(replace(operation, inputs=inputs),))
        assert load(serialize(changed)).operations[0].inputs == inputs


def quantization(scales: Any, zero_points: Any, axis: int) -> dict[str, Any]:
    scales = np.asarray(scales, np.float32)
    return {"quantization": Quantization(scales, np.asarray(zero_points, np.int64), axis)}


def contents(data: np.ndarray) -> dict[str, Any]:
    return {"data": data, "shape": data.shape, "dtype": data.dtype}


SIX = np.ones(6)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "weights_0",
            contents(np.ones((2, 3, 1, 6), np.int8)),
            "wanted whole channels for each of the input's, got weights of shape (2, 3, 1, 6) on 3",
        ),
        (
            "weights_0",
            contents(np.ones((1, 3, 2, 5), np.int8)) | quantization([1], [0], 3),
            "wanted a constant bias of 5 int32",
        ),
        (
            "weights_0",
            contents(np.ones((3, 2, 6), np.int8)),
            "wanted 1 or 0 scales of weights 'weights_0'",
        ),
        (
            "weights_0",
            contents(np.ones((1, 3, 2, 6), np.int32)),
            "wanted int8 weights, got int32 (1, 3, 2, 6) ('weights_0')",
        ),
        ("weights_0", {"quantization": None}, "wanted 1 or 6 scales of weights 'weights_0'"),
        (
            "weights_0",
            quantization([1, 1, 1], [0, 0, 0], 3),
            "wanted 1 or 6 scales of weights 'weights_0'",
        ),
        (
            "weights_0",
            quantization(SIX, 0 * SIX, 0),
            "wanted scales of the weights along axis 3, got axis 0",
        ),
        (
            "weights_0",
            quantization(SIX, [0, 0, -3, 0, 0, 0], 3),
            "wanted weights with zero point 0, got -3",
        ),
        (
            "bias_0",
            contents(np.zeros(3, np.int32)),
            "wanted a constant bias of 6 int32, got int32 (3,) ('bias_0')",
        ),
        ("input", {"shape": (18, 11, 3)}, "wanted 4 dimensions, got (18, 11, 3)"),
        ("output_0", {"shape": (2, 4, 4, 3)}, "wanted a result of shape (2, 4, 4, 6), got"),
    ],
)
def test_operands(name: str, changes: dict[str, Any], message: str) -> None:
    given = graph(depthwise())
    tensors = [replace(t, **changes) if t.name == name else t for t in given.tensors]
    assert_refused(replace(given, tensors=tuple(tensors)), message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strideH": 0, "strideW": 1}, "wanted a stride of at least 1 x 1, got 0 x 1"),
        ({"dilationWFactor": -1}, "wanted a dilation of at least 1 x 1, got 1 x -1"),
        ({"strideW": 2}, "wanted a result of shape (2, 4, 5, 6), got (2, 4, 4, 6)"),
        ({"padding": "SAME"}, "wanted a result of shape (2, 5, 4, 6), got (2, 4, 4, 6)"),
        ({"dilationHFactor": 5}, "wanted a window inside the image, got 3 x 2 on 9 x 11 pixels"),
    ],
)
def test_options(changes: dict[str, Any], message: str) -> None:
    given = graph(depthwise())
    (operation,) = given.operations
    operation = replace(operation, options={**operation.options, **changes})
    assert_refused(replace(given, operations=(operation,)), message)


@pytest.mark.parametrize(
    ("inputs", "count"), [((0,), "1 and 1"), ((0, -1, 2), "2 and 1"), ((0, 1, 2, 2), "4 and 1")]
)
def test_operands_that_are_not_there(inputs: tuple[int, ...], count: str) -> None:
    given = graph(depthwise())
    (operation,) = given.operations
    changed = replace(given, operations=(replace(operation, inputs=inputs),))
    assert_refused(changed, f"wanted 2 to 3 inputs and one output, got {count}")


def assert_refused(given: Graph, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        load(serialize(given))
    assert str(caught.value).startswith("model: operator 0 DEPTHWISE_CONV_2D ('output_0'): ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 8, 8), "wanted an input of 4 dimensions, got shape .1, 8, 8."),
        ((1, 8, 8, 4), "wanted weights of whole multiples of 4, got 6"),
        ((1, 8, 8, 12), "wanted weights of whole multiples of 12, got 6"),
        ((1, 2, 8, 3), "wanted a window inside .2, 8. pixels, got .3, 2."),
    ],
)
def test_inputs_that_do_not_fit(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match="^layer 0: " + message):
        write_sequential([depthwise()], input_shape=shape, input_scale=1.0)
