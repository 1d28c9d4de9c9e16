from typing import Any

import numpy as np
import pytest
import tflite

from celosia.sw.frontend.writer import FullyConnected, write_fully_connected

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
