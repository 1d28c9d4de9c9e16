from dataclasses import replace
from typing import Any

import networks as w
import numpy as np
import prerequisites
import pytest
import tflite

WEIGHTS = np.arange(6, dtype=np.int8).reshape(2, 3)


def layer(**changes: Any) -> w.FullyConnected:
    values: dict[str, Any] = {"weights": WEIGHTS, "weight_scale": 0.5, "output_scale": 0.25}
    return w.FullyConnected(**values | changes)


def test_what_is_written_can_be_read():
    bias = np.array([7, -9], np.int32)
    second = layer(weights=np.ones((4, 2), np.int8), weight_scale=np.full(4, 0.125))
    content = w.write_fully_connected(
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
        *("input", "weights_0", "bias_0", "output_0", "weights_1", "output_1")
    ]
    assert [tensor.ShapeAsNumpy().tolist() for tensor in tensors] == [
        *([5, 3], [2, 3], [2], [5, 2], [4, 2], [5, 4])
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


def test_layers_must_fit():
    with pytest.raises(ValueError, match="layers: wanted at least one, got none"):
        w.write_fully_connected([], input_scale=1.0)
    with pytest.raises(ValueError, match="layer 1: wanted 3 inputs, got shape .2, 2."):
        w.write_fully_connected([layer(), layer()], input_scale=1.0, batch=2)


KERNEL = np.zeros((4, 3, 3, 2), np.int8)


def convolution(**changes: Any) -> w.Convolution:
    values: dict[str, Any] = {"weights": KERNEL, "weight_scale": 0.5, "output_scale": 0.25}
    return w.Convolution(**values | changes)


def depthwise() -> w.Depthwise:
    weights = np.zeros((1, 3, 2, 6), np.int8)
    return w.Depthwise(
        weights=weights, weight_scale=0.5, output_scale=0.5, padding="VALID", stride=(2, 3)
    )


def addition(second: str = "input", **changes: Any) -> w.Add:
    return w.Add(**{"second": second, "output_scale": 0.5} | changes)


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (convolution(), (1, 8, 8), "wanted an input of 4 dimensions, got shape .1, 8, 8."),
        (convolution(), (1, 8, 8, 3), "wanted 2 channels, got 3"),
        (convolution(padding="VALID"), (1, 8, 2, 2), "wanted a window inside .8, 2. pixels, got"),
        (depthwise(), (1, 8, 8), "wanted an input of 4 dimensions, got shape .1, 8, 8."),
        (depthwise(), (1, 8, 8, 4), "wanted weights of whole multiples of 4, got 6"),
        (depthwise(), (1, 8, 8, 12), "wanted weights of whole multiples of 12, got 6"),
        (depthwise(), (1, 2, 8, 3), "wanted a window inside .2, 8. pixels, got .3, 2."),
        (w.Pool(), (8, 8, 3), "wanted an input of 4 dimensions, got shape .8, 8, 3."),
        (w.Mean(), (8, 8), "wanted axes from -2 to 1, got .1, 2."),
        (w.Mean(axes=()), (8, 8), "wanted axes from -2 to 1, got .."),
        (
            w.Pad(before=(1, 1), after=(1, 1)),
            (1, 8, 8),
            "wanted 3 dimensions, got .1, 1. and .1, 1.",
        ),
        (w.Reshape(shape=(5, -1)), (2, 3), "wanted 6 elements, got shape .5, -1."),
        (layer(), (2, 4), "wanted 3 inputs, got shape .2, 4."),
        (layer(), (2, 2, 2), "wanted 3 inputs, got shape .2, 2, 2."),
        (addition("output_0"), (2, 3), "wanted an earlier result, input to input, got 'output_0'"),
        (
            w.Back(to="weights_0"),
            (2, 3),
            "wanted an earlier result, input to input, got 'weights_0'",
        ),
    ],
)
def test_layers_that_cannot_take_their_input(layer: w.Layer, shape: tuple[int, ...], message: str):
    with pytest.raises(ValueError, match="^layer 0: " + message):
        w.write_sequential([layer], input_shape=shape, input_scale=1.0)


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


def test_a_chain_of_all():
    layers = [
        w.Pad(before=(0, 1, 1, 0), after=(0, 2, 2, 0), value=4),
        convolution(weight_scale=np.full(4, 0.125), bias=np.ones(4, np.int32), output_zero_point=3),
        w.Activation(kind="RELU6", output_scale=0.5),
        w.Pool(kind="AVERAGE_POOL_2D", padding="SAME", stride=(3, 2)),
        w.Quantize(output_scale=2.0, output_zero_point=-1),
        w.Mean(),
        w.Reshape(shape=(2, 2, -1)),
        layer(weights=np.ones((5, 4), np.int8), bias=np.ones(5, np.int32)),
        w.Softmax(),
    ]
    graph = w.sequential(layers, input_shape=(2, 8, 9, 2), input_scale=1.5)
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
    model: Any = tflite.Model.GetRootAs(w.serialize(graph))
    kinds = [model.OperatorCodes(n).BuiltinCode() for n in range(model.OperatorCodesLength())]
    assert len(kinds) == len(set(kinds)) == 9


def test_branches():
    """Results may have several readers; those without any are the outputs."""
    apart = w.Depthwise(weights=np.ones((1, 3, 3, 2), np.int8), weight_scale=0.5, output_scale=2.0)
    layers = [
        apart,
        w.Back(to="input"),
        w.Pool(window=(1, 1), stride=(1, 1)),
        addition("output_0", output_zero_point=9, activation="RELU"),
        addition("output_2"),
        w.Back(to="output_1"),
        w.Mean(),
        w.Back(to="output_2"),
        addition("input"),
    ]
    graph = w.sequential(layers, input_shape=(1, 8, 9, 2), input_scale=1.5)
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
    read: Any = tflite.Model.GetRootAs(w.serialize(graph)).Subgraphs(0)
    assert read.OutputsAsNumpy().tolist() == list(graph.outputs)
    assert read.Operators(5).InputsAsNumpy().tolist() == [numbers["output_2"], 0]


def test_branches_that_do_not_meet():
    layers = [w.Pool(), addition("input")]
    with pytest.raises(ValueError, match=r"^layer 1: shape mismatch: .*\(1, 4"):
        w.sequential(layers, input_shape=(1, 8, 8, 2), input_scale=1.0)
    with pytest.raises(ValueError, match="layer 1: .*, input to output_0, got 'output_1'"):
        w.sequential([w.Pool(), w.Back(to="output_1")], input_shape=(1, 8, 8, 2), input_scale=1.0)


def test_what_cannot_be_serialized():
    graph = w.sequential([w.Pool()], input_shape=(1, 2, 2, 1), input_scale=1.0)
    (operation,) = graph.operations
    label = r"^operator 0 MAX_POOL_2D \('output_0'\): "
    for options, message in (
        ({"padding": "FULL"}, "Padding cannot be 'FULL'"),
        ({"beta": 1.0}, "Pool2DOptions has no 'Beta'"),
    ):
        changed = replace(operation, options=options)
        with pytest.raises(ValueError, match=label + message):
            w.serialize(replace(graph, operations=(changed,)))
    unknown = replace(operation, kind="RELU", options={"beta": 1.0})
    with pytest.raises(ValueError, match="wanted no options, got beta"):
        w.serialize(replace(graph, operations=(unknown,)))
    text = replace(graph.tensors[0], dtype=np.dtype("S4"))
    with pytest.raises(ValueError, match="^'input': bytes32 cannot be written"):
        w.serialize(replace(graph, tensors=(text, graph.tensors[1])))


def operand(*numbers: float, kind: type = np.int32) -> np.ndarray:
    return np.array(numbers, kind)


@pytest.mark.parametrize(
    ("kind", "layers", "wanted"),
    [
        (
            "int32",
            [
                w.Operator(
                    kind="CUMSUM", operands=[np.array(1, np.int32)], options={"reverse": True}
                )
            ],
            [22, 19, 12],
        ),
        (
            "float32",
            [w.Operator(kind="DIV", operands=[operand(2, kind=np.float32)])],
            [1.5, 3.5, 6],
        ),
        (
            "int32",
            [
                w.Operator(kind="LESS", operands=[operand(4)], output_type="bool"),
                w.Operator(kind="SELECT_V2", operands=["input", operand(9)], output_type="int32"),
            ],
            [3, 9, 9],
        ),
        ("int8", [w.Mean(kind="REDUCE_MAX", axes=(1,))], 12),
        (
            "int32",
            [
                w.Operator(
                    kind="CAST",
                    output_type="int16",
                    options={"inDataType": "INT32", "outDataType": "INT16"},
                )
            ],
            [3, 7, 12],
        ),
        (
            "int8",
            [w.Operator(kind="ADD", operands=[w.Constant(operand(4, kind=np.int8), 0.5)])],
            [7, 11, 16],
        ),
    ],
)
def test_any_operator(kind: str, layers: list[w.Layer], wanted: Any):
    content = w.write_sequential(layers, input_shape=(1, 3), input_scale=0.5, input_type=kind)
    (result,) = prerequisites.litert_outputs(content, np.array([[3, 7, 12]], kind))
    np.testing.assert_array_equal(result[0], wanted)


def test_variables_and_subgraphs():
    """A sum of all inputs so far, in a variable that another subgraph sets to 5 once."""
    main = w.Chain((1, 3), dtype="float32")
    main.operator("CALL_ONCE", inputs=[], shapes=[], initSubgraphIndex=1)
    main.operator("VAR_HANDLE", (), inputs=[], dtype="resource", sharedName="total")
    handle = main.number
    main.operator("READ_VARIABLE", (1, 3), dtype="float32")
    main.operator("ADD", None, ["input"])
    total = main.number
    main.operator("ASSIGN_VARIABLE", inputs=[handle, total], shapes=[])
    start = w.Chain(None)
    start.operator("VAR_HANDLE", (), inputs=[], dtype="resource", sharedName="total")
    five = start.constant("value", np.full((1, 3), 5, np.float32))
    start.operator("ASSIGN_VARIABLE", inputs=[start.number, five], shapes=[])
    made = prerequisites.litert(w.serialize(main.graph(total, signature="serve"), start.graph()))
    made.allocate_tensors()
    assert made.get_signature_list() == {"serve": {"inputs": ["input"], "outputs": ["output_3"]}}
    serve = made.get_signature_runner("serve")
    given = np.array([[1, 2, 3]], np.float32)
    for wanted in ([6, 7, 8], [7, 9, 11]):
        np.testing.assert_array_equal(serve(input=given)["output_3"], [wanted])


def test_tensors_of_all_kinds():
    """Variable, dynamic and per-channel tensors, and a custom operator, as LiteRT reads them."""
    chain = w.Chain((1, 2, 3), np.array([0.5, 0.25, 2.0]), dtype="int16", signature=(-1, 2, 3))
    state = chain.tensor_of("state", (1, 3), "float16", variable=True)
    chain.operator("TFLite_Mine", (1, 2), [state, -1], dtype="int64", customOptions=b"abc")
    model: Any = tflite.Model.GetRootAs(w.serialize(chain.graph()))
    graph = model.Subgraphs(0)
    assert graph.Tensors(0).ShapeSignatureAsNumpy().tolist() == [-1, 2, 3]
    assert graph.Tensors(0).Quantization().ScaleAsNumpy().tolist() == [0.5, 0.25, 2.0]
    assert [graph.Tensors(n).IsVariable() for n in range(3)] == [False, True, False]
    kinds = [tflite.TensorType.INT16, tflite.TensorType.FLOAT16, tflite.TensorType.INT64]
    assert [graph.Tensors(n).Type() for n in range(3)] == kinds
    assert model.OperatorCodes(0).CustomCode() == b"TFLite_Mine"
    assert graph.Operators(0).CustomOptionsAsNumpy().tobytes() == b"abc"
    assert graph.Operators(0).InputsAsNumpy().tolist() == [0, 1, -1]


def test_contents_lie_at_multiples_of_16_bytes():
    content = w.write_fully_connected([layer(bias=np.array([7, -9], np.int32))], input_scale=1.0)
    model: Any = tflite.Model.GetRootAs(content)
    for number in range(1, model.BuffersLength()):
        data = model.Buffers(number).DataAsNumpy().tobytes()
        assert content.index(data) % 16 == 0
