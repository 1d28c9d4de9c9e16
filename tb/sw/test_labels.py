"""Short names of layers: those of the user's network."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.graph import Operation, Tensor
from celosia.sw.ir.labels import labels, layer_name
from celosia.sw.shipped import model_path

FIXTURES = Path(__file__).parents[1] / "e2e" / "fixtures"

_TORCH = "__main__.Net/torch.nn.modules"
_OUTPUT = "serving_default_output_0_output"
_FUSED = "f_1/edges_relu_1/Relu;f_1/edges_bn_1/batchnorm/add_1;f_1/edges_1/convolution;f_1/e/sub1"

#: Full names, operators and labels of networks.
NETWORKS: dict[str, list[tuple[str, str, str]]] = {
    "keras": [
        (_FUSED, "CONV_2D+MAX_POOL_2D", "edges"),
        ("f_1/spread_1/Relu;f_1/spread_1/depthwise", "DEPTHWISE_CONV_2D", "spread"),
        ("f_1/skip_1/Add", "ADD", "skip"),
        ("f_1/flat_1/Reshape", "RESHAPE", "flat"),
        ("f_1/dense_1/Tensordot;f_1/dense_1/BiasAdd", "FULLY_CONNECTED+GELU", "dense"),
        ("StatefulPartitionedCall_1:0;f_1/gesture_1/MatMul", "FULLY_CONNECTED", "gesture"),
        ("StatefulPartitionedCall_1:0", "SOFTMAX", "softmax"),
        ("StatefulPartitionedCall_1:0 (2)", "DEQUANTIZE", "dequantize (2)"),
    ],
    # Keras numbers names a second time where it traces a network again.
    "keras, numbers of its own": [
        ("sequential_1/conv2d_1/Relu;sequential_1/conv2d_1/convolution", "CONV_2D", "conv2d"),
        ("sequential_1/conv2d_1_2/Relu;sequential_1/conv2d_1_2/convolution", "CONV_2D", "conv2d_1"),
    ],
    "tensorflow 1 and Keras 2": [
        ("model_1/conv2d_3/Conv2D", "CONV_2D", "conv2d_3"),
        ("model_1/conv2d_4/Conv2D", "CONV_2D", "conv2d_4"),
        ("model/dense_5/Relu", "FULLY_CONNECTED", "dense_5"),
        ("MatMul;Relu;add", "FULLY_CONNECTED", "MatMul"),
        ("Identity;MatMul_1", "FULLY_CONNECTED", "MatMul_1"),
    ],
    "pytorch": [
        (f"{_TORCH}.conv.Conv2d_edges;1", "RESHAPE", "input to channels last"),
        (
            f"__main__.Net;;{_TORCH}.batchnorm.BatchNorm2d_bn;;{_TORCH}.conv.Conv2d_edges;1",
            "DEPTHWISE_CONV_2D",
            "edges",
        ),
        (f"{_TORCH}.conv.Conv2d_shapes;", "PAD", "shapes pad"),
        (f"__main__.Net;;{_TORCH}.conv.Conv2d_shapes;1", "CONV_2D", "shapes"),
        (f"__main__.Net/__main__.Block_b/{_TORCH[13:]}.conv.Conv2d_0;", "CONV_2D", "b/Conv2d_0"),
        ("__main__.Net;1", "TRANSPOSE", "transpose"),
        (f"{_OUTPUT};{_TORCH}.linear.Linear_gesture;1", "FULLY_CONNECTED", "gesture"),
    ],
    "pytorch, a reshape of the user": [("__main__.Net;", "RESHAPE", "reshape")],
    "onnx": [("/conv1/Conv_output_0", "CONV_2D", "conv1"), ("relu", "CONV_2D", "relu")],
    "layers with weights choose first": [
        ("n/edges/Pad", "PAD", "edges/Pad"),
        ("n/edges/Relu;n/edges/convolution", "CONV_2D", "edges"),
    ],
    "numbers where nothing else helps": [
        ("n/norm/Mean", "MEAN", "norm/Mean"),
        ("n/norm/mul", "MUL", "norm/mul"),
        ("a/e/Sum;a/f", "MUL", "e/Sum #1"),
        ("a/e/Sum;a/g", "MUL", "e/Sum #2"),
        ("Sum", "SUM", "Sum #2"),
        ("Sum", "SUM", "Sum #3"),
        ("Sum #1", "SUM", "Sum #1"),
    ],
}


@pytest.mark.parametrize("name", NETWORKS)
def test_labels_are_names_of_the_users_layers(name: str) -> None:
    names, kinds, wanted = zip(*NETWORKS[name], strict=True)
    assert labels(names, kinds) == list(wanted)


def test_no_layers_have_no_labels() -> None:
    assert labels([], []) == []


def test_a_long_name_keeps_its_end() -> None:
    path = "network/" + "/".join(f"block{n}" for n in range(8)) + "/convolution"
    assert labels([path], ["CONV_2D"]) == ["block4/block5/block6/block7"]
    assert labels(["x" * 40], ["ADD"]) == ["..." + "x" * 29]


@pytest.mark.parametrize(
    ("result", "kind", "weights", "wanted"),
    [
        ("Identity", "FULLY_CONNECTED", "n/head/MatMul", "Identity;n/head/MatMul"),
        # The compiler has reshaped the weights.
        ("PartitionedCall:0", "CONV_2D", "head/4x5", "PartitionedCall:0;head"),
        ("n/head/BiasAdd", "FULLY_CONNECTED", "n/head/MatMul", "n/head/BiasAdd"),
        ("Identity", "ADD", "n/head/MatMul", "Identity"),
        ("Identity", "FULLY_CONNECTED", "", "Identity"),
        ("", "FULLY_CONNECTED", "n/head/MatMul", "fully_connected_7"),
    ],
)
def test_a_network_output_is_named_by_its_weights(result, kind, weights, wanted) -> None:
    int8 = np.dtype(np.int8)
    constant = Tensor(weights, (1, 1), int8, data=np.zeros((1, 1), np.int8))
    tensors = [Tensor("x", (1, 1), int8), constant, Tensor(result, (1, 1), int8)]
    operation = Operation(kind, 7, (0, 1), (2,))
    assert layer_name(tensors, operation) == wanted
    # Weights that are computed name nothing.
    tensors[1] = replace(constant, data=None)
    assert layer_name(tensors, operation) == wanted.partition(";")[0]


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        (model_path("mnist_cnn_3x3"), ["conv2d", "conv2d_1", "dense", "dense_1"]),
        (
            FIXTURES / "torch_cnn.tflite",
            ["input to channels last", "Conv2d_0", "Conv2d_3", "Linear_8", "Linear_10"],
        ),
    ],
)
def test_layers_of_a_program_have_the_names_of_the_network(model: Path, wanted: list[str]) -> None:
    program = compile_graph(load(model), preset("nano"))
    layers = program.layers
    assert labels([each.name for each in layers], [each.kind for each in layers])[:5] == wanted
    # Outputs have the names of the signature, and keep those of the file beside them.
    port = program.outputs[0]
    assert (port.name, port.tensor_name) in (("Identity", ""), ("output_0", _OUTPUT))
