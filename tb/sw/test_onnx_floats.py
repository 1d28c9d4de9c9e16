"""Parts of ONNX networks that stay in float run on the host, between and after quantised parts."""

from collections.abc import Callable

import numpy as np
import pytest
from onnx_graphs import Net, numbers, reference, results

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.layers.errors import CompileError
from celosia.sw.runtime.interpreter import open_session

_SHAPE, _COUNT = (1, 4, 6, 8), 12

#: Greatest difference of floats, as part of the greatest number: float32 adds in another order.
_ROUNDING = 1e-5


def _conv(net: Net, x: str, **more) -> str:
    """A quantised convolution."""
    bias = net.constant(np.arange(6, dtype=np.float32) / 7)
    y = net.add("Conv", x, net.weights(6, 4, 3, 3), bias, pads=[1, 1, 1, 1], **more)
    return net.quantized(y, 0.0831, -7)


def _tail(*kinds: str | tuple, opset: int = 17) -> bytes:
    """A quantised convolution and float operators: kinds, constants and attributes."""
    net = Net(opset, x=_SHAPE)
    x = _conv(net, net.quantized("x"))
    for each in kinds:
        kind, *rest = each if isinstance(each, tuple) else (each,)
        more = rest.pop() if rest and isinstance(rest[-1], dict) else {}
        ends = [net.constant(np.asarray(data)) for data in rest]
        x = net.add(kind, x, *ends, **more)
    return net.content(x)


def _norm() -> tuple:
    return ("BatchNormalization", *(np.abs(numbers(6)) + 1 for _ in range(4)), {"epsilon": 0.01})


def _weighted(**more) -> tuple:
    return ("Conv", numbers(4, 6 // more.get("group", 1), 3, 2), numbers(4), more)


def _transposed(**more) -> tuple:
    return ("ConvTranspose", numbers(6, 4 // more.get("group", 1), 3, 2), numbers(4), more)


_THIRD, _TURNED = ("Mul", np.float32(0.3)), ("Transpose", {"perm": [0, 2, 3, 1]})
_LARGER, _TWO = np.array([1, 1, 2, 1.5], np.float32), {"blocksize": 2}
_PADS = {"pads": [1, 1, 1, 0], "strides": [2, 1]}
_COUNTED = {"kernel_shape": [3, 3], "count_include_pad": 1}
_EPSILON = {"epsilon": 0.01}

#: Kinds, constants and attributes of operators after a quantised convolution.
TAILS: dict[str, list[str | tuple]] = {
    "softmax": ["GlobalAveragePool", "Flatten", ("Softmax", {"axis": -1})],
    "softmax-of-channels": [("Softmax", {"axis": 1})],
    "softmax-of-rows": [("Softmax", {"axis": 2})],
    "log-softmax": ["Flatten", "LogSoftmax"],
    "normalisation": [_norm(), "Relu"],
    "sum-and-relu": [("Add", numbers(6, 1, 1)), "Relu"],
    "quotient-of-more-dimensions": [("Div", numbers(2, 1, 1, 1, 1))],
    "functions": ["Sigmoid", "Exp", "Tanh", "Abs", "Sqrt", "Neg", "HardSigmoid"],
    "leaky": [("LeakyRelu", {"alpha": 0.3}), ("Elu", {})],
    "clip": [("Clip", np.float32(-0.5), np.float32(0.75)), ("Add", np.float32(1)), "Reciprocal"],
    "elu": [("Elu", {"alpha": 0.7})],
    "celu": [("Celu", {"alpha": 0.7})],
    "selu": ["Selu"],
    "mish": ["Mish"],
    "softplus-and-softsign": ["Softplus", "Softsign"],
    "shrink": [("Shrink", {"lambd": 0.4, "bias": 0.25})],
    "thresholded": [("ThresholdedRelu", {"alpha": 0.6})],
    "angles": [_THIRD, "Sin", "Acos", _THIRD, "Atan", "Asin", "Tan"],
    "hyperbolic": ["Tanh", "Sinh", "Asinh", "Cosh", ("Add", np.float32(1)), "Acosh"],
    "hyperbolic-of-tanh": [_THIRD, "Tanh", "Atanh"],
    "transposed": [_transposed(strides=[2, 2], pads=[1, 0, 1, 1])],
    "transposed-of-groups": [_transposed(group=2, dilations=[2, 1])],
    "transposed-more": [_transposed(strides=[2, 3], output_padding=[1, 2])],
    "nearest": ["Exp", ("Resize", numbers(0), _LARGER)],
    "linear": ["Exp", ("Resize", numbers(0), _LARGER, {"mode": "linear"})],
    "reflected": ["Exp", ("Pad", np.array([0, 0, 1, 0, 0, 0, 2, 1]), {"mode": "reflect"})],
    "blocks": ["Exp", ("SpaceToDepth", _TWO), ("DepthToSpace", {**_TWO, "mode": "CRD"})],
    "chosen": ["Exp", ("Gather", np.array([3, 0]), {"axis": 2}), ("Tile", np.array([1, 2, 1, 1]))],
    "expanded": ["Exp", ("Expand", np.array([2, 1, 6, 6, 8]))],
    "extremes": ["Exp", ("ReduceMax", {"axes": [1]}), "GlobalMaxPool"],
    "cast": [("Cast", {"to": 6}), ("Cast", {"to": 1})],
    "mean-of-rows": [("ReduceMean", {"axes": [2], "keepdims": 0})],
    "mean-of-channels": [("ReduceMean", {"axes": [1]}), ("Mul", np.float32(3))],
    "sum": [("ReduceSum", np.array([-1]), {"keepdims": 1})],
    "norm": [("ReduceL2", {"axes": [1]}), ("ReduceL1", {"axes": [-1], "keepdims": 0})],
    "sum-of-squares": [("ReduceSumSquare", np.array([2]), {})],
    "logarithm-of-a-sum": ["Exp", ("ReduceLogSum", {"axes": [1, 2]})],
    "moves": ["Relu", _TURNED, ("Reshape", np.array([1, -1, 3])), "Sigmoid"],
    "slice-and-pad": [
        "Exp",
        ("Slice", np.array([1]), np.array([5]), np.array([2])),
        ("Pad", np.array([0, 0, 1, 0, 0, 0, 2, 1]), np.float32(0.5)),
    ],
    "convolution": [_weighted(pads=[1, 1, 0, 2], strides=[1, 2])],
    "convolution-same": [_weighted(auto_pad="SAME_UPPER", strides=[2, 1])],
    "convolution-of-groups": [_weighted(group=2)],
    "maxima": ["Neg", ("MaxPool", {"kernel_shape": [3, 3], **_PADS})],
    "averages": ["Exp", ("AveragePool", {"kernel_shape": [3, 2], **_PADS})],
    "averages-counted": ["Exp", ("AveragePool", {**_COUNTED, "pads": [1] * 4})],
    "averages-without-pads": ["Exp", ("AveragePool", _COUNTED)],
    "layer-normalisation": [("LayerNormalization", numbers(8), numbers(8), _EPSILON), "Erf"],
    "layer-normalisation-of-two-axes": [("LayerNormalization", numbers(6, 8), {"axis": 2})],
    "gemm": [
        "Flatten",
        ("Gemm", numbers(5, 288), numbers(5), {"transB": 1, "alpha": 0.5, "beta": 2.0}),
    ],
    "matmul": ["Tanh", ("MatMul", numbers(8, 3))],
}
#: Opsets of newer operators.
OPSETS = {"mish": 18, "sum-of-squares": 18}


@pytest.mark.parametrize("name", TAILS)
def test_float_ends(name):
    x = numbers(_COUNT, *_SHAPE[1:])
    (got,), (wanted,) = results(_tail(*TAILS[name], opset=OPSETS.get(name, 17)), {"x": x})
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, wanted, rtol=_ROUNDING, atol=_ROUNDING * np.abs(wanted).max())


def _views() -> bytes:
    """The mean without scales that ``celosia quantize`` writes: views before QuantizeLinear."""
    net = Net(x=_SHAPE)
    x = _conv(net, net.quantized("x"))
    x = net.add("ReduceMean", x, axes=[2, 3], keepdims=1)
    x = net.quantized(net.add("Reshape", x, net.constant(np.array([1, -1]))), 0.0413, 4)
    return net.content(net.quantized(net.add("Gemm", x, net.weights(6, 3)), 0.0337, 5))


def _average() -> bytes:
    net = Net(x=_SHAPE)
    x = _conv(net, net.quantized("x"))
    x = net.add("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.add("Transpose", x, perm=[0, 2, 3, 1])
    x = net.add("Reshape", x, net.constant(np.array([1, -1])))
    return net.content(net.quantized(x, 0.0613, 4))


def _island(*kinds: str) -> bytes:
    """Operators in float between two quantised convolutions."""
    net = Net(x=_SHAPE)
    x = first = _conv(net, net.quantized("x"))
    x = net.add(*_args(net, x, _norm()))
    for kind in kinds:
        x = net.add(kind, x, first) if kind in ("Add", "Mul") else net.add(kind, x)
    x = net.quantized(x, 0.0793, 3)
    return net.content(net.quantized(net.add("Conv", x, net.weights(4, 6, 1, 1)), 0.0671, 2))


def _args(net: Net, x: str, operator: tuple) -> list[str]:
    kind, *rest, _ = operator
    return [kind, x, *(net.constant(data) for data in rest)]


def _unscaled_sum() -> bytes:
    """A sum whose result is clamped in float, then quantised."""
    net = Net(x=_SHAPE)
    x = net.quantized("x")
    x = net.add("Add", net.add("Sigmoid", net.add("Add", x, x)), x)
    return net.content(net.quantized(net.add("Relu", x), 0.0277, -128))


ISLANDS: dict[str, Callable[[], bytes]] = {
    "mean-reshape": _views,
    "average-transpose-reshape": _average,
    "normalisation": lambda: _island(),
    "normalisation-sum-relu": lambda: _island("Add", "Relu"),
    "normalisation-sigmoid-product": lambda: _island("Sigmoid", "Mul"),
    "sum-of-function": _unscaled_sum,
}


@pytest.mark.parametrize("name", ISLANDS)
def test_float_islands(name):
    """Equal bytes after QuantizeLinear, but for ties."""
    x = numbers(_COUNT, *_SHAPE[1:]) * 2
    (got,), (wanted,) = results(ISLANDS[name](), {"x": x})
    step = np.diff(np.unique(wanted)).min()
    steps = np.rint(np.abs(got - wanted) / step)
    assert steps.max() <= 1 and (steps > 0).mean() <= 0.002


def test_views_leave_the_mean_on_the_core():
    kinds = [operation.kind for operation in load(_views()).operations]
    assert "QLinearGlobalAveragePool" in kinds and "MEAN" not in kinds


def _slopes(net: Net, x: str) -> str:
    return net.quantized(net.add("PRelu", x, net.constant(numbers(5))))


def _places(net: Net, x: str) -> str:
    return net.quantized(net.add("ArgMax", x, axis=1))


@pytest.mark.parametrize(
    ("tail", "message"),
    [(_slopes, "wanted alpha to broadcast, got"), (_places, "wanted float32, got int64")],
)
def test_what_no_kernel_runs_is_not_compiled(tail, message) -> None:
    """No program is written that a session refuses."""
    net = Net(x=_SHAPE)
    content = net.content(tail(net, net.quantized("x")))
    with pytest.raises(CompileError, match=f"of the host: {message}"):
        compile_graph(load(content), preset("edge"))


@pytest.mark.parametrize("between", ["", "Identity", "Dropout"])
def test_pairs_one_after_another_round_twice(between: str) -> None:
    """ONNX Runtime's optimisations make one pair of two, which rounds once."""
    net, x = Net(x=(1, 40)), numbers(6, 40)
    y = net.quantized("x", 0.05)
    y = net.add(between, y) if between else y
    content = net.content(net.quantized(y, 0.07, -4))
    expected = [reference(content, fused=False).run(None, {"x": row[None]})[0] for row in x]
    with open_session(compile_graph(load(content), preset("edge"))) as driver:
        (got,) = driver.run([x])
    np.testing.assert_array_equal(got, np.concatenate(expected))
