"""Networks that ``quantize_dynamic`` wrote: ranges of each inference, sums of integers."""

import logging
import tempfile
from pathlib import Path

import numpy as np
import pytest
from onnx_graphs import Net, onnx, reference, require_equal, results
from whole_networks.onnx import quantization

from celosia.sw.frontend.source import load
from celosia.sw.quantize.onnx import open_model


def dynamic(proto, weights=quantization.QuantType.QUInt8) -> bytes:
    logging.disable(logging.WARNING)
    try:
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "f.onnx", Path(folder) / "q.onnx"
            onnx.save(proto, source)
            quantization.quantize_dynamic(source, target, weight_type=weights)
            return target.read_bytes()
    finally:
        logging.disable(logging.NOTSET)


def _numbers(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def _mlp() -> tuple[Net, str]:
    net = Net(x=(1, 3, 12))
    x = net.add("MatMul", "x", net.constant(_numbers(12, 9)))
    x = net.add("Relu", net.add("Add", x, net.constant(_numbers(9))))
    return net, net.add("Softmax", net.add("MatMul", x, net.constant(_numbers(9, 5))), axis=-1)


def _attention() -> tuple[Net, str]:
    """Products of two computed matrices."""
    net = Net(x=(1, 6, 8))
    q, k, v = (net.add("MatMul", "x", net.constant(_numbers(8, n))) for n in (8, 8, 7))
    scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 2, 1]))
    return net, net.add("MatMul", net.add("Softmax", scores, axis=-1), v)


def _cnn() -> tuple[Net, str]:
    net = Net(x=(1, 3, 9, 8))
    kernel, bias = net.constant(_numbers(8, 3, 3, 3)), net.constant(_numbers(8))
    x = net.add("Conv", "x", kernel, bias, pads=[1, 1, 0, 2], strides=[1, 2])
    x = net.add("Relu", x)
    x = net.add("Conv", x, net.constant(_numbers(8, 4, 2, 2)), group=2)
    return net, net.add("Flatten", net.add("GlobalAveragePool", x))


def _rows() -> tuple[Net, str]:
    net = Net(x=(1, 4, 11))
    return net, net.add("Conv", "x", net.constant(_numbers(6, 4, 3)), pads=[1, 1])


NETWORKS = {"mlp": _mlp, "attention": _attention, "cnn": _cnn, "rows": _rows}


@pytest.mark.parametrize("name", NETWORKS)
def test_dynamic(name):
    net, last = NETWORKS[name]()
    content = dynamic(net.proto(last))
    kinds = {operation.kind for operation in load(content).operations}
    assert kinds & {"MatMulInteger", "ConvInteger"}
    spread = np.array([0.1, 1, 5, 0]).reshape(-1, *[1] * (len(net.ends["x"]) - 1))
    x = (_numbers(4, *net.ends["x"][1:]) * spread).astype(np.float32)
    (got,), (wanted,) = results(content, {"x": x})
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())


def test_ranges_belong_to_samples():
    """All integers, scales and zero points, of several samples in one run."""
    net = Net(x=(1, 7))
    x, scale, point = net.add("DynamicQuantizeLinear", "x", results=3), "t0_1", "t0_2"
    weights = net.constant(np.arange(-14, 14, dtype=np.int8).reshape(7, 4))
    sums = net.add("Cast", net.add("MatMulInteger", x, weights, point), to=1)
    content = net.content(net.add("Mul", sums, scale))
    samples = _numbers(9, 7) * np.linspace(-3, 3, 9, dtype=np.float32)[:, None]
    require_equal(content, {"x": samples})


@pytest.mark.parametrize("name", NETWORKS)
def test_quantize_makes_it_float_again(name, tmp_path):
    """Weights and shapes of the float network; then ranges that are known beforehand."""
    net, last = NETWORKS[name]()
    path = tmp_path / "net.onnx"
    path.write_bytes(dynamic(net.proto(last)))
    model = open_model(path)
    kinds = {node.op_type for node in onnx.load_from_string(model.content).graph.node}
    assert kinds & {"MatMul", "Conv"} and not kinds & {"MatMulInteger", "ConvInteger", "Cast"}
    x = _numbers(6, *net.ends["x"][1:])
    session = reference(net.content(last))
    wanted = np.concatenate([np.asarray(session.run(None, {"x": each[None]})[0]) for each in x])
    session = reference(model.content)
    got = np.concatenate([np.asarray(session.run(None, {"x": each[None]})[0]) for each in x])
    assert np.abs(got - wanted).max() <= 0.05 * np.abs(wanted).max()
    load(model.quantize({"x": each[None]} for each in x))


@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize("kind", ["ConvInteger", "MatMulInteger"])
@pytest.mark.parametrize("several", [False, True])
def test_scales_of_channels(kind: str, points: bool, several: bool, tmp_path: Path) -> None:
    """Weights in float are those integers times the scale of their channel."""
    is_image, count = kind == "ConvInteger", 6 if several else 1
    net = Net(x=(1, 4, 9, 8) if is_image else (1, 3, 4))
    scales = np.linspace(0.01, 0.02, count, dtype=np.float32)
    shape = (6, 4, 3, 3) if is_image else (4, 6)
    data = net.random.integers(-64, 64, shape).astype(np.int8)
    zeros = np.arange(count, dtype=np.int8) * points
    x, scale, point = net.add("DynamicQuantizeLinear", "x", results=3), "t0_1", "t0_2"
    ends = [net.constant(data), point, *([net.constant(zeros)] if points else [])]
    sums = net.add("Cast", net.add(kind, x, *ends), to=1)
    along = (count, 1, 1) if is_image else (count,)
    factor = net.add("Mul", scale, net.constant(scales.reshape(along)))
    path = tmp_path / "net.onnx"
    path.write_bytes(net.content(net.add("Mul", sums, factor)))
    graph = onnx.load_from_string(open_model(path).content).graph
    assert [node.op_type for node in graph.node] == [kind.removesuffix("Integer")]
    (weights,) = map(onnx.numpy_helper.to_array, graph.initializer)
    axes = (-1, 1, 1, 1) if is_image else (-1,)
    wanted = (data - zeros.astype(np.float32).reshape(axes)) * scales.reshape(axes)
    np.testing.assert_array_equal(weights, wanted)
