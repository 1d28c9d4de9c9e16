from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tflite

from celosia.sw.frontend.writer import (
    Activation,
    Add,
    Back,
    Convolution,
    Depthwise,
    FullyConnected,
    Layer,
    Mean,
    Pad,
    Pool,
    Quantize,
    Reshape,
    Softmax,
    sequential,
    serialize,
    write_fully_connected,
    write_sequential,
)

WEIGHTS = np.arange(6, dtype=np.int8).reshape(2, 3)


def layer(**changes: Any) -> FullyConnected:
    values: dict[str, Any] = {"weights": WEIGHTS, "weight_scale": 0.5, "output_scale": 0.25}
    return FullyConnected(**values | changes)


def test_what_is_written_can_be_read():
    bias = np.array([7, -9], np.int32)
    second = layer(weights=np.ones((4, 2), np.int8), weight_scale=np.full(4, 0.125))
    content = write_fully_connected(
        [layer(bias=bias, output_zero_point=-4, activation="RELU6"), second],
        input_scale=0.75,
        input_zero_point=11,
        batch=5,
    )
    assert content[4:8] == b"TFL3"
    model: Any = tflite.Model.GetRootAs(content)
    graph = model.Subgraphs(0)
    tensors = [graph.Tensors(n) for n in range(graph.TensorsLength())]
    assert [tensor.Name().decode() for tensor in tensors] == [
        *("input", "weights_0", "bias_0", "output_0", "weights_1", "output_1"),
    ]
    assert [tensor.ShapeAsNumpy().tolist() for tensor in tensors] == [
        *([5, 3], [2, 3], [2], [5, 2], [4, 2], [5, 4]),
    ]
    assert graph.InputsAsNumpy().tolist() == [0]
    assert graph.OutputsAsNumpy().tolist() == [5]
    assert [graph.Operators(n).InputsAsNumpy().tolist() for n in (0, 1)] == [[0, 1, 2], [3, 4]]
    assert tensors[0].Quantization().ZeroPoint(0) == 11
    assert tensors[2].Quantization().Scale(0) == 0.375
    assert tensors[2].Type() == tflite.TensorType.INT32
    assert tensors[4].Quantization().ScaleAsNumpy().tolist() == [0.125] * 4
    data = model.Buffers(tensors[1].Buffer()).DataAsNumpy()
    np.testing.assert_array_equal(data.view(np.int8), WEIGHTS.ravel())
    data = model.Buffers(tensors[2].Buffer()).DataAsNumpy()
    np.testing.assert_array_equal(data.view(np.int32), bias)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"weights": WEIGHTS.astype(np.int16)},
            "weights: wanted int8 with 2 dimensions, got int16",
        ),
        ({"weights": WEIGHTS.ravel()}, "weights: wanted .*, got int8 with 1 dimensions"),
        ({"bias": np.zeros(3, np.int32)}, r"bias: wanted int32 of shape \(2,\), got int32 of"),
        ({"bias": np.zeros(2)}, "bias: wanted int32 .*, got float64"),
        ({"weight_scale": np.ones(3)}, "weight_scale: wanted 1 or 2 numbers, got 3"),
        ({"output_zero_point": 128}, "output_zero_point: wanted -128 to 127, got 128"),
        ({"activation": "TANH"}, "activation: wanted one of NONE, .*, got 'TANH'"),
    ],
)
def test_what_does_not_belong_together(changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        layer(**changes)


def test_layers_must_fit():
    with pytest.raises(ValueError, match="layers: wanted at least one, got none"):
        write_fully_connected([], input_scale=1.0)
    with pytest.raises(ValueError, match="layer 1: wanted 2 inputs, got 3"):
        write_fully_connected([layer(), layer()], input_scale=1.0)


KERNEL = np.zeros((4, 3, 3, 2), np.int8)


def convolution(**changes: Any) -> Convolution:
    values: dict[str, Any] = {"weights": KERNEL, "weight_scale": 0.5, "output_scale": 0.25}
    return Convolution(**values | changes)


def addition(second: str = "input", **changes: Any) -> Add:
    return Add(**{"second": second, "output_scale": 0.5} | changes)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: convolution(weights=KERNEL[0]),
            "weights: wanted int8 with 4 dimensions, got int8",
        ),
        (lambda: convolution(weight_scale=np.ones(3)), "wanted 1 or 4 numbers, got 3"),
        (lambda: convolution(bias=np.zeros(4)), "bias: wanted int32 of shape .4,., got float64"),
        (lambda: convolution(padding="FULL"), "padding: wanted one of SAME, VALID, got 'FULL'"),
        (lambda: convolution(output_zero_point=-129), "wanted -128 to 127, got -129"),
        (lambda: Pool(kind="L2_POOL_2D"), "kind: wanted one of MAX_POOL_2D, .*, got 'L2_POOL_2D'"),
        (lambda: Pool(activation="TANH"), "activation: wanted one of .*, got 'TANH'"),
        (lambda: Pool(padding="FULL"), "padding: wanted one of SAME, VALID, got 'FULL'"),
        (lambda: Activation(kind="TANH"), "kind: wanted one of RELU, .*, got 'TANH'"),
        (lambda: Activation(output_zero_point=128), "wanted -128 to 127, got 128"),
        (lambda: Mean(output_zero_point=128), "wanted -128 to 127, got 128"),
        (lambda: Quantize(output_scale=1.0, output_zero_point=128), "-128 to 127, got 128"),
        (lambda: addition(output_zero_point=128), "wanted -128 to 127, got 128"),
        (lambda: addition(activation="TANH"), "activation: wanted one of .*, got 'TANH'"),
    ],
)
def test_numbers_that_no_operator_has(make: Callable[[], Layer], message: str):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (convolution(), (1, 8, 8), "wanted an input of 4 dimensions, got shape .1, 8, 8."),
        (convolution(), (1, 8, 8, 3), "wanted 2 channels, got 3"),
        (convolution(padding="VALID"), (1, 8, 2, 2), "wanted a window inside .8, 2. pixels, got"),
        (Pool(), (8, 8, 3), "wanted an input of 4 dimensions, got shape .8, 8, 3."),
        (Mean(), (8, 8), "wanted axes from -2 to 1, got .1, 2."),
        (Mean(axes=()), (8, 8), "wanted axes from -2 to 1, got .."),
        (Pad(before=(1, 1), after=(1, 1)), (1, 8, 8), "wanted 3 dimensions, got .1, 1. and .1, 1."),
        (Reshape(shape=(5, -1)), (2, 3), "wanted 6 elements, got shape .5, -1."),
        (layer(), (2, 4), "wanted 3 inputs, got 4"),
        (layer(), (2, 2, 2), "wanted 3 inputs, got shape .2, 2, 2."),
        (addition("output_0"), (2, 3), "wanted an earlier result, input to input, got 'output_0'"),
        (Back(to="weights_0"), (2, 3), "wanted an earlier result, input to input, got 'weights_0'"),
    ],
)
def test_layers_that_cannot_take_their_input(layer: Layer, shape: tuple[int, ...], message: str):
    with pytest.raises(ValueError, match="^layer 0: " + message):
        write_sequential([layer], input_shape=shape, input_scale=1.0)


def test_a_chain_of_all():
    layers = [
        Pad(before=(0, 1, 1, 0), after=(0, 2, 2, 0), value=4),
        convolution(weight_scale=np.full(4, 0.125), bias=np.ones(4, np.int32), output_zero_point=3),
        Activation(kind="RELU6", output_scale=0.5),
        Pool(kind="AVERAGE_POOL_2D", padding="SAME", stride=(3, 2)),
        Quantize(output_scale=2.0, output_zero_point=-1),
        Mean(),
        Reshape(shape=(2, 2, -1)),
        layer(weights=np.ones((5, 4), np.int8), bias=np.ones(5, np.int32)),
        Softmax(),
    ]
    graph = sequential(layers, input_shape=(2, 8, 9, 2), input_scale=1.5)
    results = [graph.tensors[operation.outputs[0]] for operation in graph.operations]
    assert [tensor.shape for tensor in results] == [
        *((2, 11, 12, 2), (2, 11, 12, 4), (2, 11, 12, 4), (2, 4, 6, 4), (2, 4, 6, 4)),
        *((2, 4), (2, 2, 2), (2, 5), (2, 5)),
    ]
    quantizations = [tensor.quantization for tensor in results if tensor.quantization]
    assert [(q.scale, q.zero_point) for q in quantizations] == [
        *((1.5, 0), (0.25, 3), (0.5, 3), (0.5, 3), (2.0, -1)),
        *((2.0, -1), (2.0, -1), (0.25, 0), (1 / 256, -128)),
    ]
    scales = {tensor.name: tensor.quantization for tensor in graph.tensors}
    assert scales["bias_1"] is not None and scales["bias_1"].scales.tolist() == [0.1875] * 4
    assert scales["paddings_0"] is None
    model: Any = tflite.Model.GetRootAs(serialize(graph))
    kinds = [model.OperatorCodes(n).BuiltinCode() for n in range(model.OperatorCodesLength())]
    assert len(kinds) == len(set(kinds)) == 9


def test_branches():
    """Results may have several readers; those without any are the outputs."""
    apart = Depthwise(weights=np.ones((1, 3, 3, 2), np.int8), weight_scale=0.5, output_scale=2.0)
    layers = [
        apart,
        Back(to="input"),
        Pool(window=(1, 1), stride=(1, 1)),
        addition("output_0", output_zero_point=9, activation="RELU"),
        addition("output_2"),
        Back(to="output_1"),
        Mean(),
        Back(to="output_2"),
        addition("input"),
    ]
    graph = sequential(layers, input_shape=(1, 8, 9, 2), input_scale=1.5)
    numbers = {tensor.name: number for number, tensor in enumerate(graph.tensors)}
    wanted = {
        "output_2": ("output_1", "output_0"),
        "output_3": ("output_2", "output_2"),
        "output_4": ("output_1", "axes_4"),
        "output_5": ("output_2", "input"),
    }
    for operation in graph.operations[2:]:
        inputs = tuple(graph.tensors[number].name for number in operation.inputs)
        assert inputs == wanted[graph.tensors[operation.outputs[0]].name]
    assert graph.outputs == tuple(numbers[f"output_{n}"] for n in (3, 4, 5))
    total = graph.tensors[numbers["output_2"]].quantization
    assert total is not None and (total.scale, total.zero_point) == (0.5, 9)
    read: Any = tflite.Model.GetRootAs(serialize(graph)).Subgraphs(0)
    assert read.OutputsAsNumpy().tolist() == list(graph.outputs)
    assert read.Operators(5).InputsAsNumpy().tolist() == [numbers["output_2"], 0]


def test_branches_that_do_not_meet():
    layers = [Pool(), addition("input")]
    with pytest.raises(ValueError, match=r"^layer 1: wanted two inputs of one shape, got .*\(1, 4"):
        sequential(layers, input_shape=(1, 8, 8, 2), input_scale=1.0)
    with pytest.raises(ValueError, match="layer 1: .*, input to output_0, got 'output_1'"):
        sequential([Pool(), Back(to="output_1")], input_shape=(1, 8, 8, 2), input_scale=1.0)


def test_what_cannot_be_serialized():
    graph = sequential([Pool()], input_shape=(1, 2, 2, 1), input_scale=1.0)
    (operation,) = graph.operations
    unknown = replace(graph, operations=(replace(operation, kind="L2_POOL_2D"),))
    with pytest.raises(
        ValueError, match=r"operator 0 L2_POOL_2D \('output_0'\): .* cannot be written"
    ):
        serialize(unknown)
    padding = operation.attributes | {"padding": "FULL"}
    with pytest.raises(ValueError, match="operator 0 MAX_POOL_2D .*: unknown or missing 'FULL'"):
        serialize(replace(graph, operations=(replace(operation, attributes=padding),)))
    floating = replace(graph.tensors[0], dtype=np.dtype(np.float64))
    with pytest.raises(ValueError, match="^'input': wanted one of int8, .*, got float64"):
        serialize(replace(graph, tensors=(floating, graph.tensors[1])))
