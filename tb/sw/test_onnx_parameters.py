"""Quantisation parameters and attributes of ONNX operators: as ONNX Runtime reads them, or refused.

Each case changes one of them; a reader that assumes a value gives other results.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx_graphs import Net, reference, results

from celosia.sw.frontend.source import load
from celosia.sw.layers.node import ModelError

_SHAPE, _COUNT = (1, 3, 6, 7), 20
_BIAS = (900.0, -1500.0, 20.0, 1999.0)

#: Part of the values that may differ by one step where ONNX Runtime computes in float.
_TIES = 0.01


def _single(numbers: list[float]) -> np.ndarray:
    return np.array(numbers, np.float32)


def _conv(
    scale: Any = 0.0005, point=0, weights: Any = 0.01, data=_BIAS, dtype: Any = np.int32, **more
) -> bytes:
    net = Net(x=_SHAPE)
    values = np.array(data, dtype)
    bias = net.constant(values)
    if dtype != np.float32:
        points = np.full(np.shape(scale), point, dtype)
        bias = net.add("DequantizeLinear", bias, net.constant(scale), net.constant(points), axis=0)
    ends = net.quantized("x"), net.weights(4, 3, 3, 3, scale=weights, axis=0), bias
    return net.content(net.quantized(net.add("Conv", *ends, **more), 0.1, -5))


def _gemm(scale=0.0005, point=0, *, square=-1, **more):
    """A Gemm, or one of as many taps as columns; ``square``: axis of its scales."""
    net = Net(x=(1, 6))
    bias = net.constant(np.array(_BIAS, np.int32))
    bias = net.add("DequantizeLinear", bias, net.constant(scale), net.constant(point, np.int32))
    shape = (4, 6) if more.get("transB") else (6, 4)
    ends = net.quantized("x"), net.weights(*shape), bias
    if square >= 0:
        scales = _single([0.01, 0.03, 0.002, 0.02, 0.05, 0.007])
        ends = ends[0], net.weights(6, 6, scale=scales, axis=square)
    return net.content(net.quantized(net.add("Gemm", *ends, **more), 0.02, -5))


def _transposed(*scales: float, bias: Any) -> bytes:
    """A ConvTranspose of two groups with two channels, and a scale for each of these."""
    net = Net(x=(1, 4, 6, 7))
    weights = net.weights(4, 2, 3, 3, scale=_single([*scales]), axis=1)
    data = net.constant(np.array((9, -15, 2, 19), bias))
    if bias == np.int32:
        data = net.add("DequantizeLinear", data, *net.scale(0.0005, 0, bias))
    y = net.add("ConvTranspose", net.quantized("x"), weights, data, group=2)
    return net.content(net.quantized(y, 0.1, -5))


def _after(kind, *, pool=False, **more):
    """An operator whose float result is clamped before it is quantised."""
    net = Net(x=_SHAPE)
    x = net.quantized("x")
    x = net.add("Concat", x, x, axis=1) if kind == "Concat" else net.add(kind, x, **more)
    return net.content(net.quantized(net.add("Relu", x), 0.0417, 1))


def _sum_of_int32():
    net = Net(x=_SHAPE)
    data = net.constant(np.array([900, -1500, 20], np.int32).reshape(1, 3, 1, 1))
    data = net.add("DequantizeLinear", data, net.constant(0.001), net.constant(0, np.int32))
    return net.content(net.quantized(net.add("Add", net.quantized("x"), data), 0.06, -5))


def _moved(kind, *constants, opset=17, **more):
    net = Net(opset, x=_SHAPE)
    ends = [net.constant(each) for each in constants]
    return net.content(net.quantized(net.add(kind, net.quantized("x"), *ends, **more), 0.05, 3))


def _policy(sizes, **more):
    """A Resize to sizes that keeps the aspect ratio."""
    more |= {"axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"}
    return _moved("Resize", _single([]), _single([]), np.array(sizes), opset=18, **more)


def _softmax(opset, axis):
    net = Net(x=_SHAPE)
    ends = net.quantized("x"), *net.scale(), *net.scale(1 / 256, -128)
    x = net.add("QuantizeLinear", "x", *ends[1:3])
    x = net.add("QLinearSoftmax", x, *ends[1:], domain="com.microsoft", opset=opset, axis=axis)
    return net.content(net.add("DequantizeLinear", x, *ends[3:]))


def _output_dtype():
    net = Net(21, x=_SHAPE)
    x = net.add("QuantizeLinear", "x", net.constant(0.05), output_dtype=3)
    return net.content(net.add("DequantizeLinear", x, net.constant(0.05)))


CASES: dict[str, Callable[[], bytes]] = {
    "bias": _conv,
    "bias-scale-within-1%": lambda: _conv(0.000504),
    "bias-scale-other": lambda: _conv(0.00065),
    "bias-scale-multiple": lambda: _conv(0.001),
    "bias-scales": lambda: _conv(_single([0.0005, 0.001, 0.002, 0.004])),
    "bias-one-scale": lambda: _conv(weights=_single([0.01, 0.02, 0.03, 0.04])),
    "bias-zero-point": lambda: _conv(point=100),
    "bias-int8": lambda: _conv(0.05, 4, data=(90, -128, 20, 127), dtype=np.int8),
    "bias-float": lambda: _conv(data=(0.1, -0.2, 3, 4), dtype=np.float32),
    "bias-scale-0": lambda: _conv(0),
    "weight-scale-0": lambda: _conv(
        _single([0.0005, 0, 0.0005, 0.0005]), weights=_single([0.01, 0, 0.01, 0.01])
    ),
    "weight-scale-0-of-a-bias": lambda: _conv(weights=_single([0.01, 0, 0.01, 0.01])),
    "kernel_shape": lambda: _conv(kernel_shape=[3, 3]),
    "transposed-bias": lambda: _transposed(0.01, 0.02, bias=np.int32),
    "transposed-bias-float": lambda: _transposed(0.01, 0.02, bias=np.float32),
    "gemm": _gemm,
    "gemm-bias-scale": lambda: _gemm(0.0025),
    "gemm-bias-zero-point": lambda: _gemm(point=-70),
    "gemm-beta": lambda: _gemm(beta=0.5),
    "gemm-beta-bias-scale": lambda: _gemm(0.0025, beta=0.5),
    "gemm-beta-bias-zero-point": lambda: _gemm(point=-70, beta=2.0),
    "gemm-alpha": lambda: _gemm(alpha=2.0),
    "gemm-transB": lambda: _gemm(transB=1),
    "softmax-then-relu": lambda: _after("Softmax", axis=-1),
    "concat-then-relu": lambda: _after("Concat"),
    "maximum-then-relu": lambda: _after("MaxPool", kernel_shape=[2, 2]),
    "average-then-relu": lambda: _after("AveragePool", kernel_shape=[2, 2]),
    "mean-then-relu": lambda: _after("GlobalAveragePool"),
    "sum-of-int32": _sum_of_int32,
    "softmax-of-opset-11": lambda: _softmax(11, 1),
    "softmax-of-opset-13": lambda: _softmax(13, 1),
    "dropout-in-training": lambda: _moved("Dropout", np.float32(0.5), np.array(True)),
    "pad-of-axes": lambda: _moved("Pad", np.array([1, 2]), np.float32(0), np.array([-1]), opset=18),
    "resize-cubic": lambda: _moved(
        "Resize", _single([]), _single([1, 1, 2, 2]), mode="cubic", cubic_coeff_a=-0.5
    ),
    "resize-policy": lambda: _policy([6, 9]),
    "resize-policy-linear": lambda: _policy([9, 6], mode="linear"),
    "resize-policy-rounds": lambda: _policy([10, 12]),
    "maxpool-ceil_mode": lambda: _moved(
        "MaxPool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1
    ),
    "maxpool-dilations": lambda: _moved("MaxPool", kernel_shape=[2, 2], dilations=[2, 2]),
    "average-pads": lambda: _moved("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "average-pads-counted": lambda: _moved(
        "AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1
    ),
    "max-dilated": lambda: _moved("MaxPool", kernel_shape=[2, 2], dilations=[2, 3]),
    "mean-of-no-axes": lambda: _moved(
        "ReduceMean", np.array([], np.int64), opset=18, noop_with_empty_axes=1
    ),
    "slice-backwards": lambda: _moved("Slice", *map(np.array, ([-1], [-9], [3], [-2]))),
    "reshape-allowzero": lambda: _moved("Reshape", np.array([0, -1]), allowzero=0),
    "split": lambda: _moved("Split", opset=18, num_outputs=1, axis=1),
    "quantize-output_dtype": _output_dtype,
}

#: Cases that ONNX Runtime does not run, or with random numbers.
WITHOUT_REFERENCE = ("dropout-in-training",)


@pytest.mark.parametrize("name", CASES)
def test_parameter(name):
    """Equal, but for ties where ONNX Runtime adds in float; or refused in one line."""
    content = CASES[name]()
    try:
        load(content)
    except ModelError as error:
        assert "\n" not in str(error) and "damaged" not in str(error)
        return
    assert name not in WITHOUT_REFERENCE
    shape = {"gemm": (1, 6), "transposed": (1, 4, 6, 7)}.get(name.partition("-")[0], _SHAPE)
    x = np.random.default_rng(3).normal(size=(_COUNT, *shape[1:])).astype(np.float32) * 2
    (got,), (wanted,) = results(content, {"x": x})
    step = np.diff(np.unique(wanted)).min(initial=np.inf)
    steps = np.abs(got - wanted) / step
    assert steps.max() < 1.5 and (steps > 0.5).mean() <= _TIES, name


@pytest.mark.parametrize("transposed", [0, 1])
def test_scales_of_taps_are_not_those_of_columns(transposed):
    """The optimisations of ONNX Runtime 1.32 take them for those: it runs without."""
    content = _gemm(square=transposed, transB=transposed)
    x = np.random.default_rng(3).normal(size=(_COUNT, 6)).astype(np.float32) * 2
    (got,), _ = results(content, {"x": x})
    expected = [reference(content, fused=False).run(None, {"x": one[None]})[0] for one in x]
    np.testing.assert_array_equal(got.reshape(_COUNT, 6), np.concatenate(expected))


def test_a_convolution_that_two_others_read():
    """ONNX Runtime leaves it in float: a tie goes to either side."""
    net = Net(x=_SHAPE)
    conv = net.add("Conv", net.quantized("x"), net.weights(4, 3, 3, 3))
    ends = net.quantized(conv, 0.1, -5), net.quantized(net.add("Relu", conv), 0.07, 1)
    x = np.random.default_rng(3).normal(size=(_COUNT, *_SHAPE[1:])).astype(np.float32) * 2
    for got, wanted, scale in zip(*results(net.content(*ends), {"x": x}), (0.1, 0.07), strict=True):
        steps = np.rint(np.abs(got - wanted) / scale)
        assert np.unique(wanted).size > 40 and steps.max() <= 1 and steps.mean() <= _TIES
