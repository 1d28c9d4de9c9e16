"""Networks in real numbers, of files that training begins with."""

from pathlib import Path

import numpy as np
import onnx_graphs
import prerequisites
import pytest
from float_networks import Layers, learner

from celosia.sw.frontend.source import load
from celosia.sw.ir.graph import Graph, Operation, Quantization, Tensor
from celosia.sw.training.graph import trained
from celosia.sw.training.origin import exponent_of, integers, opened
from celosia.sw.training.quantized import quantized
from celosia.sw.training.real import real_network


@pytest.mark.parametrize("end", ["", "Softmax"])
def test_the_first_file_computes_a_network_of_onnx(end: str, tmp_path: Path, seed: int) -> None:
    """Paddings before a stride, channels that keep to themselves, a sum, means, softmax."""
    rng, net = np.random.default_rng(seed), onnx_graphs.Net(x=(1, 3, 8, 8))

    def conv(x: str, shape: tuple[int, ...], *, scale: float, relu: bool = True, **more) -> str:
        more = {"kernel_shape": shape[2:], "pads": [shape[2] // 2] * 4} | more
        x = net.add("Conv", x, net.weights(*shape, scale=scale), **more)
        return net.quantized(net.add("Relu", x) if relu else x, 0.05, -128 if relu else 3)

    first = conv(net.quantized("x", 0.03, 0), (8, 3, 3, 3), scale=0.005, strides=[2, 2])
    x = conv(first, (8, 1, 3, 3), scale=0.01, group=8)
    x = conv(x, (8, 8, 1, 1), scale=0.01, relu=False)
    x = net.quantized(net.add("Relu", net.add("Add", x, first)), 0.05, -128)
    x = net.add("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.quantized(net.add("GlobalAveragePool", net.quantized(x, 0.05, -128)), 0.02, -128)
    x = net.add("MatMul", net.add("Flatten", x), net.weights(8, 4, scale=0.01))
    x = net.quantized(x, 0.02, 0)
    content = net.content(net.quantized(net.add(end, x), 1 / 256, -128) if end else x)
    path, images = tmp_path / "net.onnx", rng.normal(0, 1, (40, 3, 8, 8)).astype(np.float32)
    path.write_bytes(content)
    session = onnx_graphs.reference(content)
    expected = np.concatenate([session.run(None, {"x": image[None]})[0] for image in images])
    origin = opened(path, {}, lambda _: [images])
    (samples,) = origin.samples
    assert samples.shape == (40, 8, 8, 3)
    exponent = exponent_of(samples)
    steps = integers(samples, exponent)
    file = quantized(trained(origin.network), steps, exponent)
    (outputs,) = prerequisites.litert_outputs(file, steps)
    tensor = (graph := load(file)).tensors[graph.outputs[0]]
    assert tensor.quantization
    real = outputs.reshape(40, 4) * float(tensor.quantization.scale)
    if end:
        powers = np.exp(real)
        real = powers / powers.sum(axis=1, keepdims=True)
    assert np.abs(real - expected).max() < 0.1 * np.abs(expected).max()


@pytest.mark.parametrize(("zero_point", "activation"), [(-128, "RELU"), (3, "NONE")])
def test_a_network_of_onnx_has_its_activation_again(zero_point: int, activation: str) -> None:
    def tensor(scale: float, zero: int, data: np.ndarray | None = None) -> Tensor:
        quantization = Quantization(np.array([scale], np.float32), np.array([zero]))
        shape = (1, 2) if data is None else data.shape
        return Tensor("t", shape, np.dtype(np.int8), quantization, data)

    weights, bias = np.array([[3, -4], [5, 6]], np.int8), np.array([8, -2], np.int32)
    ends = tensor(2, zero_point), tensor(2, -128), tensor(1, -128)
    tensors = tensor(0.5, 1), tensor(0.25, 0, weights), tensor(1, 0, bias), *ends
    fields = {"activation": "NONE"}
    operations = (
        Operation("QGemm", 0, (0, 1, 2), (3,), fields),
        Operation("QGemm", 1, (3, 1, 2), (4,), fields),
        Operation("QuantizeLinear", 2, (4,), (5,)),
    )
    graph = real_network(Graph("net", tensors, operations, (0,), (5,)))
    assert graph.outputs == (4,)
    kinds = [(o.kind, o.attributes["activation"]) for o in graph.operations]
    # Outputs that were above 0 when the file was calibrated may be below it.
    assert kinds == [("FULLY_CONNECTED", activation), ("FULLY_CONNECTED", "NONE")]
    first, second = graph.tensors[1].data, graph.tensors[2].data
    assert first is not None and second is not None
    np.testing.assert_array_equal(first, weights * np.float32(0.25))
    np.testing.assert_array_equal(second, bias * np.float32(0.125))


def test_dense_weights_take_a_transpose_before_them() -> None:
    """A file of PyTorch has channels first before its ``Flatten``."""
    layers = Layers((3, 4, 5))
    layers.add("TRANSPOSE", [layers.last], (1, 5, 3, 4), permutation=(0, 3, 1, 2))
    layers.flat()
    layers.dense(4)
    before, graph = layers.graph(), real_network(layers.graph())
    assert [operation.kind for operation in graph.operations] == ["RESHAPE", "FULLY_CONNECTED"]
    assert graph.operations[0].inputs[0] == graph.inputs[0]
    pictures = np.random.default_rng(0).random((3, 4, 5), np.float32)
    weights = [net.tensors[net.operations[-1].inputs[1]].data for net in (before, graph)]
    assert weights[0] is not None and weights[1] is not None
    expected = weights[0] @ pictures.transpose(2, 0, 1).reshape(-1)
    np.testing.assert_allclose(weights[1] @ pictures.reshape(-1), expected, rtol=1e-5)
    learner(graph, 0)
