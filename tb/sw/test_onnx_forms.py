"""Forms in which exporters write one thing: constants on the way to an operator, ranges, sizes."""

from collections.abc import Callable

import numpy as np
import pytest
from onnx_graphs import Net, numbers, require_equal, results

from celosia.sw.frontend.source import load

_SHAPE, _COUNT = (1, 4, 6, 8), 12


def _product(**more) -> bytes:
    """Weights that a Transpose turns, with a scale for each channel."""
    net = Net(x=(1, 8))
    x, weights = net.quantized("x"), net.weights(6, 8, **more)
    x = net.add("MatMul", x, net.add("Transpose", weights, perm=[1, 0]))
    return net.content(net.quantized(x, 0.0413, 4))


def _conv(*nodes: str) -> bytes:
    """Weights and bias that operators pass on to a convolution."""
    net = Net(x=_SHAPE)
    x, weights = net.quantized("x"), net.weights(6, 4, 3, 3)
    bias = net.constant(np.arange(-900, 900, 300, dtype=np.int32))
    scale = 0.02 if "quantised" in nodes else 0.01
    bias = net.add("DequantizeLinear", bias, net.constant(0.05 * scale), net.constant(0, np.int32))
    for kind in nodes:
        if kind == "Reshape":
            weights = net.add("Reshape", weights, net.constant(np.array([6, 4, 3, 3])))
        elif kind == "quantised":
            weights = net.quantized(weights, scale, 0)
        else:
            weights, bias = net.add(kind, weights), net.add(kind, bias)
    return net.content(net.quantized(net.add("Conv", x, weights, bias), 0.0831, -7))


CONSTANTS: dict[str, Callable[[], bytes]] = {
    "identity": lambda: _conv("Identity"),
    "identities": lambda: _conv("Identity", "Identity", "Reshape"),
    "quantised-again": lambda: _conv("Identity", "quantised"),
    "transpose": _product,
    "transpose-scales": lambda: _product(
        scale=np.linspace(0.01, 0.02, 6, dtype=np.float32), axis=0
    ),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_that_pass_operators(name):
    """Products of integers, equal to ONNX Runtime's."""
    content = CONSTANTS[name]()
    kinds = {operation.kind for operation in load(content).operations}
    assert kinds & {"QLinearConv", "QLinearMatMul"}
    shape = (8,) if "transpose" in name else _SHAPE[1:]
    require_equal(content, {"x": numbers(_COUNT, *shape)})


def _float_weights(kind: str, *nodes: str, point: int = -7, bias: bool = True, **more) -> bytes:
    """Float weights between DequantizeLinear and QuantizeLinear."""
    net = Net(x=(1, 8) if kind == "Gemm" else _SHAPE)
    shape = {"Conv": (6, 4, 3, 3), "ConvTranspose": (4, 6, 3, 3), "Gemm": (8, 6)}[kind]
    ends = [net.constant(numbers(*shape)), *([net.constant(numbers(6))] if bias else [])]
    x = net.add(kind, net.quantized("x"), *ends, **more)
    for node in nodes:
        bounds = [net.constant(-0.6), net.constant(2.1)] if node == "Clip" else []
        x = net.add(node, x, *bounds)
    return net.content(net.quantized(x, 0.0831, point))


FLOAT_WEIGHTS: dict[str, Callable[[], bytes]] = {
    "convolution": lambda: _float_weights("Conv", pads=[1, 1, 1, 1]),
    "convolution-without-bias": lambda: _float_weights("Conv", bias=False),
    "convolution-relu": lambda: _float_weights("Conv", "Relu", point=-128),
    "convolution-relu-of-a-zero-point": lambda: _float_weights("Conv", "Relu", point=-30),
    "convolution-clip": lambda: _float_weights("Conv", "Clip"),
    "convolution-clip-relu": lambda: _float_weights("Conv", "Clip", "Relu"),
    "transposed-relu": lambda: _float_weights("ConvTranspose", "Relu"),
    "gemm-clip": lambda: _float_weights("Gemm", "Clip", "Relu"),
    "transposed": lambda: _float_weights("ConvTranspose", strides=[2, 2]),
    "gemm": lambda: _float_weights("Gemm"),
}


@pytest.mark.parametrize("name", FLOAT_WEIGHTS)
def test_float_weights_of_quantised_operators(name):
    """ONNX Runtime quantises them."""
    shape = (8,) if "gemm" in name else _SHAPE[1:]
    (got,), (wanted,) = results(FLOAT_WEIGHTS[name](), {"x": numbers(_COUNT, *shape) * 2})
    np.testing.assert_allclose(got, wanted, atol=1e-6)


#: Operators between DequantizeLinear and a convolution with float weights: constants after the
#: data, attributes, and the least opset in which ONNX Runtime moves the DequantizeLinear past them.
_BETWEEN: dict[str, tuple[tuple, dict, int | None]] = {
    "DepthToSpace": ((), {"blocksize": 1}, None),
    "Gather": ((np.array([3, 5, 0, 1]),), {"axis": 2}, None),
    "GlobalMaxPool": ((), {}, None),
    "MaxPool": ((), {"kernel_shape": [2, 2]}, 12),
    "Pad": ((np.array([0, 0, 1, 2, 0, 0, 1, 0]),), {"mode": "reflect"}, None),
    "Reshape": ((np.array([1, 4, 8, 6]),), {}, 10),
    "Slice": (tuple(np.array([n]) for n in (0, 5, 2)), {}, 10),
    "SpaceToDepth": ((), {"blocksize": 1}, None),
    "Tile": ((np.array([1, 1, 2, 1]),), {}, None),
    "Transpose": ((), {"perm": [0, 1, 3, 2]}, 10),
}


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("weights", ["int8", "float32"])
@pytest.mark.parametrize("kind", _BETWEEN)
def test_float_operands_after_another_operator(kind, weights, opset):
    """ONNX Runtime quantises them where it moves the DequantizeLinear past that operator."""
    constants, more, least = _BETWEEN[kind]
    net = Net(opset, x=_SHAPE)
    x = net.add(kind, net.quantized("x"), *map(net.constant, constants), **more)
    kernel = net.weights(4, 6, 3, 3) if weights == "int8" else net.constant(numbers(4, 6, 3, 3))
    x = net.add("ConvTranspose", x, kernel, net.constant(numbers(6, seed=9)))
    content = net.content(net.quantized(x, 0.0831, -7), ir_version=8)
    (got,), (wanted,) = results(content, {"x": numbers(_COUNT, *_SHAPE[1:]) * 2})
    # Sums in float that lie at a tie depend on the order of their terms.
    assert np.mean(np.abs(got - wanted) > 1e-6) < 1e-3
    kinds = {operation.kind for operation in load(content).operations}
    assert ("QLinearConvTranspose" in kinds) == (least is not None and opset >= least)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("factors", [(2, 2), (1.5, 0.7)])
def test_resize_of_integers(dtype, factors):
    """Means of integers are cut, not rounded."""
    net = Net(x=_SHAPE)
    ends = net.scale(0.05, 3 if dtype == np.int8 else 131, dtype)
    x = net.add("QuantizeLinear", "x", *ends)
    scales = net.constant(np.array([1, 1, *factors], np.float32))
    x = net.add("Resize", x, "", scales, mode="linear", nearest_mode="floor")
    content = net.content(net.add("DequantizeLinear", x, *ends))
    require_equal(content, {"x": numbers(_COUNT, *_SHAPE[1:]) * 3})


@pytest.mark.parametrize("count", [2, 4])
def test_results_of_split(count):
    net = Net(18, x=_SHAPE)
    net.add("Split", net.quantized("x"), results=count, num_outputs=count, axis=1)
    names = [f"t{len(net.nodes) - 1}_{number}" for number in range(count)]
    require_equal(net.content(*names), {"x": numbers(_COUNT, *_SHAPE[1:])})


def test_a_range_that_the_graph_computes():
    """As ``quantize_dynamic`` wrote it before DynamicQuantizeLinear."""
    net = Net(x=_SHAPE)
    low, high = (net.add(kind, "x", keepdims=0) for kind in ("ReduceMin", "ReduceMax"))
    scale = net.add("Div", net.add("Sub", high, low), net.constant(255.0))
    point = net.add("Floor", net.add("Div", net.add("Sub", net.constant(0.0), low), scale))
    point = net.add("Cast", point, to=2)
    x = net.add("QuantizeLinear", "x", scale, point)
    weights = net.constant(np.arange(-36, 36, dtype=np.int8).reshape(2, 4, 3, 3))
    sums = net.add("Cast", net.add("ConvInteger", x, weights, point), to=1)
    content = net.content(net.add("Mul", sums, scale), net.add("DequantizeLinear", x, scale, point))
    samples = numbers(_COUNT, *_SHAPE[1:]) * np.linspace(1, 3, _COUNT).reshape(-1, 1, 1, 1)
    require_equal(content, {"x": samples.astype(np.float32)})


def _recurrent(kind, direction="forward", *, state=False, last_only=False, **more) -> bytes:
    """A recurrent layer of five steps, and a quantised result."""
    gates, count = {"GRU": 3, "LSTM": 4, "RNN": 1}[kind], 1 + (direction == "bidirectional")
    net = Net(x=(1, 5, 6))
    x = net.add("Transpose", net.quantized("x"), perm=[1, 0, 2])
    shapes = (count, gates * 7, 6), (count, gates * 7, 7), (count, 2 * gates * 7)
    ends = [net.constant(numbers(*shape) / 2) for shape in shapes]
    if state:
        ends += ["", net.constant(numbers(count, 1, 7))]
    names = 3 if kind == "LSTM" else 2
    y = net.add(kind, x, *ends, results=names, hidden_size=7, direction=direction, **more)
    last = f"{y[:-1]}1"
    if last_only:
        net.nodes[-1].output[0] = ""
        return net.content(net.add("Exp", last))
    return net.content(net.add("Transpose", y, perm=[2, 0, 1, 3]), last)


RECURRENT: dict[str, Callable[[], bytes]] = {
    "gru": lambda: _recurrent("GRU", state=True, linear_before_reset=1),
    "gru-reset-before": lambda: _recurrent("GRU", "bidirectional"),
    "lstm": lambda: _recurrent("LSTM", "reverse", state=True),
    "lstm-last-state": lambda: _recurrent("LSTM", last_only=True),
    "rnn": lambda: _recurrent("RNN", "bidirectional", state=True),
}


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(name):
    """All steps, and the last state."""
    got, wanted = results(RECURRENT[name](), {"x": numbers(4, 5, 6)})
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)
