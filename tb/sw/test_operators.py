"""What the front end says about each operator, and what it refuses."""

from dataclasses import replace
from typing import Any

import networks as w
import numpy as np
import pytest

from celosia.sw.frontend.tflite import ModelError, load
from celosia.sw.operators.registry import OPERATORS as READERS

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


DENSE = w.FullyConnected(weights=np.ones((5, 297), np.int8), weight_scale=0.5, output_scale=2.0)
POOL = w.Pool(window=(3, 2), stride=(1, 4), padding="SAME", activation="RELU")
ADD = w.Add(second="input", output_scale=3.0, output_zero_point=5, activation="RELU_N1_TO_1")
PAD = w.Pad(before=(0, 1, 2, 0), after=(1, 0, 3, 4))


def graph(*layers: w.Layer) -> w.Graph:
    return w.sequential(layers, input_shape=SHAPE, input_scale=0.5, input_zero_point=-7)


def retensored(given: w.Graph, name: str, **changes: Any) -> w.Graph:
    """Return a graph with one tensor changed."""
    tensors = [replace(t, **changes) if t.name == name else t for t in given.tensors]
    assert any(tensor.name == name for tensor in tensors)
    return replace(given, tensors=tuple(tensors))


def rewired(given: w.Graph, **changes: Any) -> w.Graph:
    """Return a graph with its only operator changed."""
    (operation,) = given.operations
    return replace(given, operations=(replace(operation, **changes),))


def assert_refused(given: w.Graph, kind: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        load(w.serialize(given))
    assert str(caught.value).startswith(f"model: operator 0 {kind} ('output_0'): ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("layer", "shape", "attributes"),
    [
        (
            convolution(),
            (2, 4, 4, 4),
            {"padding": "VALID", "stride": (2, 3), "dilation": (1, 1), "activation": "RELU6"},
        ),
        (
            convolution(padding="SAME", stride=(1, 1), dilation=(2, 3), activation="NONE"),
            (2, 9, 11, 4),
            {"padding": "SAME", "stride": (1, 1), "dilation": (2, 3), "activation": "NONE"},
        ),
        (convolution(bias=None, weight_scale=1.0, stride=(1, 1)), (2, 7, 10, 4), {}),
        (
            POOL,
            (2, 9, 3, 3),
            {"padding": "SAME", "stride": (1, 4), "window": (3, 2), "activation": "RELU"},
        ),
        (
            w.Pool(kind="AVERAGE_POOL_2D", activation="RELU_N1_TO_1"),
            (2, 4, 5, 3),
            {
                "padding": "VALID",
                "stride": (2, 2),
                "window": (2, 2),
                "activation": "RELU_N1_TO_1",
            },
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
    ],
)
def test_attributes(layer: w.Layer, shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    written = graph(layer)
    read = load(w.serialize(written))
    (operation,) = read.operations
    assert operation.kind == written.operations[0].kind
    assert operation.attributes.items() >= attributes.items()
    assert read.tensors[operation.outputs[0]].shape == shape
    for one, other in zip(read.tensors, written.tensors, strict=True):
        assert (one.name, one.shape, one.dtype) == (other.name, other.shape, other.dtype)
        assert (one.data is None) == (other.data is None)
        assert one.data is None or one.data.tobytes() == np.asarray(other.data).tobytes()
        assert (one.quantization is None) == (other.quantization is None)
        assert one.quantization is None or one.quantization.equals(other.quantization)


def test_operators_that_can_be_read() -> None:
    assert set(READERS) >= {
        *("CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D", "FULLY_CONNECTED", "MEAN", "PAD", "PADV2"),
        *("SOFTMAX", "RELU", "RELU6", "RELU_N1_TO_1", "QUANTIZE", "RESHAPE", "ADD"),
        "DEPTHWISE_CONV_2D",
    }


@pytest.mark.parametrize(
    ("numbers", "count"),
    [
        ((5, 3, 1, 1, "VALID"), 3),
        ((5, 3, 2, 1, "VALID"), 2),
        ((6, 3, 2, 1, "VALID"), 2),
        ((5, 3, 1, 2, "VALID"), 1),
        ((4, 3, 1, 2, "VALID"), 0),
        ((5, 7, 2, 3, "SAME"), 3),
        ((6, 1, 4, 1, "SAME"), 2),
    ],
)
def test_window_count(numbers: tuple[int, int, int, int, str], count: int) -> None:
    assert w.window_count(*numbers) == count


def quantization(scales: Any, zero_points: Any, axis: int = 0) -> w.Quantization:
    return w.Quantization(
        np.atleast_1d(np.float32(scales)), np.atleast_1d(np.int64(zero_points)), axis
    )


def contents(data: np.ndarray) -> dict[str, Any]:
    return {"data": data, "shape": data.shape, "dtype": data.dtype}


FOUR = np.ones(4)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "weights_0",
            contents(np.ones((4, 3, 2, 1), np.int8)),
            "or whole groups of them, got weights of shape (4, 3, 2, 1) on 3 channels",
        ),
        (
            "weights_0",
            contents(np.ones((4, 3, 2), np.int8)),
            "wanted 4 dimensions, got (4, 3, 2)",
        ),
        (
            "weights_0",
            contents(np.ones((4, 3, 2, 3), np.int32)),
            "wanted int8 weights, got int32 (4, 3, 2, 3) ('weights_0')",
        ),
        ("weights_0", {"quantization": None}, "wanted 1 or 4 scales of weights 'weights_0'"),
        (
            "weights_0",
            {"quantization": quantization([1, 1, 1], [0, 0, 0], 3)},
            "wanted 1 or 4 scales of weights 'weights_0'",
        ),
        (
            "weights_0",
            {"quantization": quantization(FOUR, 0 * FOUR, 3)},
            "wanted scales of the weights along axis 0, got axis 3",
        ),
        (
            "weights_0",
            {"quantization": quantization(FOUR, [0, 0, -3, 0])},
            "wanted weights with zero point 0, got -3",
        ),
        (
            "bias_0",
            contents(np.zeros(3, np.int32)),
            "wanted a constant bias of 4 int32, got int32 (3,) ('bias_0')",
        ),
        (
            "bias_0",
            contents(np.zeros(4, np.int64)),
            "wanted a constant bias of 4",
        ),
        (
            "output_0",
            {"quantization": quantization(FOUR, 0 * FOUR, 3)},
            "int8 tensor 'output_0': wanted one scale and zero point",
        ),
    ],
)
def test_operands_of_a_convolution(name: str, changes: dict[str, Any], message: str) -> None:
    changed = retensored(graph(convolution()), name, **changes)
    if name == "output_0":
        # What is no output of the model meets the operator's own check.
        changed = replace(changed, outputs=(0,))
    assert_refused(changed, "CONV_2D", message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": (1, 1, 1, 2)}, "inputs of one shape, got (2, 9, 11, 3) and (1, 1, 1, 2)"),
        ({"shape": (2, 99, 3)}, "inputs of one shape, got (2, 9, 11, 3) and (2, 99, 3)"),
        ({"dtype": np.dtype(np.int32)}, "wanted int8, got int32 'second'"),
        ({"quantization": None}, "int8 tensor 'second': wanted one scale and zero point"),
        ({"quantization": quantization(1, 128)}, "wanted a zero point in int8, got 128"),
    ],
)
def test_second_input_of_an_addition(changes: dict[str, Any], message: str) -> None:
    given = graph(ADD)
    second = replace(given.tensors[0], name="second")
    given = replace(given, tensors=(*given.tensors, second), inputs=(0, 2))
    given = rewired(given, inputs=(0, 2))
    assert load(w.serialize(given)).operations[0].inputs == (0, 2)
    assert_refused(retensored(given, "second", **changes), "ADD", message)


def test_computed_operands() -> None:
    given = replace(graph(convolution(weight_scale=1.0)), inputs=(0, 1))
    message = "wanted constant weights, got computed ones ('weights_0')"
    assert_refused(retensored(given, "weights_0", data=None), "CONV_2D", message)
    given = replace(graph(w.Mean()), inputs=(0, 1))
    computed = {"data": None, "dtype": np.dtype(np.int8), "quantization": quantization(1, 0)}
    message = "wanted constant int32 or int64 axes, got computed int8 (2,) ('axes_0')"
    assert_refused(retensored(given, "axes_0", **computed), "MEAN", message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strideH": 0, "strideW": 1}, "wanted a stride of at least 1 x 1, got 0 x 1"),
        ({"strideH": 1, "strideW": -1}, "wanted a stride of at least 1 x 1, got 1 x -1"),
        ({"dilationWFactor": 0}, "wanted a dilation of at least 1 x 1, got 1 x 0"),
        ({"strideW": 2}, "wanted a result of shape (2, 4, 5, 4), got (2, 4, 4, 4)"),
        ({"padding": "SAME"}, "wanted a result of shape (2, 5, 4, 4), got (2, 4, 4, 4)"),
        ({"dilationHFactor": 5}, "wanted a window inside the image, got 3 x 2 on 9 x 11 pixels"),
    ],
)
def test_options_of_a_convolution(changes: dict[str, Any], message: str) -> None:
    given = graph(convolution())
    options = {**given.operations[0].options, **changes}
    assert_refused(rewired(given, options=options), "CONV_2D", message)


@pytest.mark.parametrize(
    ("layer", "changes", "message"),
    [
        (POOL, {"filterHeight": 0}, "wanted a window of at least 1 x 1, got 0 x 2"),
        (POOL, {"strideW": 3}, "wanted a result of shape (2, 9, 4, 3), got (2, 9, 3, 3)"),
        (w.Mean(), {"keepDims": True}, "wanted a result of shape (2, 1, 1, 3), got (2, 3)"),
        (w.Softmax(), {"beta": 0.0}, "wanted scale * beta of more than 2^-26, got 0.5 * 0"),
        (w.Softmax(), {"beta": float("nan")}, "wanted a finite beta"),
        (w.Softmax(), {"beta": float("inf")}, "wanted a finite beta"),
    ],
)
def test_other_options(layer: w.Layer, changes: dict[str, Any], message: str) -> None:
    given = graph(layer)
    operation = given.operations[0]
    options = {**operation.options, **changes}
    assert_refused(rewired(given, options=options), operation.kind, message)


@pytest.mark.parametrize(
    ("layer", "name", "changes", "message"),
    [
        (POOL, "input", {"shape": (9, 11, 3)}, "wanted 4 dimensions, got (9, 11, 3)"),
        (POOL, "output_0", {"quantization": quantization(0.5, -6)}, "wanted the same scale and"),
        (PAD, "output_0", {"quantization": quantization(0.25, -7)}, "wanted the same scale and"),
        (w.Reshape(shape=(6, 99)), "output_0", {"quantization": quantization(1, -7)}, "the same"),
        (
            w.Reshape(shape=(6, 99)),
            "output_0",
            {"shape": (6, 98)},
            "wanted a result of shape (6, 99), got (6, 98)",
        ),
        (
            w.Reshape(shape=(6, 99)),
            "output_0",
            {"shape": (99, 6)},
            "wanted a result of shape (6, 99), got (99, 6)",
        ),
        (
            w.Reshape(shape=(6, 99)),
            "shape_0",
            contents(np.array([2, 3, 99], np.int32)),
            "wanted a result of shape (2, 3, 99), got (6, 99)",
        ),
        (
            w.Reshape(shape=(6, 99)),
            "shape_0",
            contents(np.array([6, 99], np.int8)),
            "wanted constant int32 or int64 shape, got int8 (2,) ('shape_0')",
        ),
        (w.Mean(), "axes_0", contents(np.array([1, 4], np.int32)), "axes from -4 to 3, got [1, 4]"),
        (w.Mean(), "axes_0", contents(np.array([1, 3], np.int32)), "result of shape (2, 11), got"),
        (
            PAD,
            "paddings_0",
            contents(np.zeros((3, 2), np.int32)),
            "wanted paddings of shape (4, 2) of at least 0, got [[0, 0], [0, 0], [0, 0]]",
        ),
        (
            PAD,
            "paddings_0",
            contents(np.array([[0, 0], [0, 0], [-1, 0], [0, 0]], np.int32)),
            "wanted paddings of shape (4, 2) of at least 0, got [[0, 0], [0, 0], [-1, 0], [0, 0]]",
        ),
        (PAD, "output_0", {"shape": SHAPE}, "result of shape (3, 10, 16, 7), got (2, 9, 11, 3)"),
        (
            replace(PAD, value=1),
            "value_0",
            contents(np.ones(2, np.int8)),
            "wanted one value, got 2",
        ),
        (
            replace(PAD, value=1),
            "value_0",
            {"quantization": quantization(1, -7)},
            "wanted the same scale and zero point",
        ),
        (
            w.Softmax(),
            "output_0",
            {"quantization": quantization(1 / 255, -128)},
            "wanted a result of scale 1/256 and zero point -128, got",
        ),
        (w.Activation(), "output_0", {"shape": (2, 297)}, "wanted a result of shape (2, 9, 11, 3)"),
        (w.Quantize(output_scale=1.0), "output_0", {"shape": (2, 297)}, "wanted a result of shape"),
        (ADD, "output_0", {"shape": (1, 9, 11, 3)}, "wanted a result of shape (2, 9, 11, 3), got"),
        (ADD, "output_0", {"quantization": None}, "'output_0': wanted one scale and zero point"),
    ],
)
def test_other_operands(layer: w.Layer, name: str, changes: dict[str, Any], message: str) -> None:
    given = retensored(graph(layer), name, **changes)
    assert_refused(given, given.operations[0].kind, message)


@pytest.mark.parametrize(
    ("layer", "inputs", "message"),
    [
        (convolution(), (0,), "wanted 2 to 3 inputs and one output, got 1 and 1"),
        (convolution(), (0, -1, 2), "wanted 2 to 3 inputs and one output, got 2 and 1"),
        (POOL, (0, 0), "wanted 1 input and one output, got 2 and 1"),
        (w.Mean(), (0,), "wanted 2 inputs and one output, got 1 and 1"),
        (ADD, (0,), "wanted 2 inputs and one output, got 1 and 1"),
        (ADD, (0, -1), "wanted 2 inputs and one output, got 1 and 1"),
        (ADD, (0, 0, 0), "wanted 2 inputs and one output, got 3 and 1"),
    ],
)
def test_operands_left_out(layer: w.Layer, inputs: tuple[int, ...], message: str) -> None:
    given = graph(layer)
    assert_refused(rewired(given, inputs=inputs), given.operations[0].kind, message)


@pytest.mark.parametrize("layer", [convolution(bias=None), convolution()])
def test_bias_left_out(layer: w.Convolution) -> None:
    given = graph(layer)
    read = load(w.serialize(rewired(given, inputs=(0, 1, -1))))
    assert read.operations[0].inputs == (0, 1, -1)


def test_axes_may_be_one_number() -> None:
    given = graph(w.Mean(axes=(1,)))
    read = load(w.serialize(retensored(given, "axes_0", **contents(np.array(1, np.int32)))))
    assert read.operations[0].attributes["axes"] == (1,)
