"""Corners of ONNX operators against ONNX Runtime: rests, defaults, last windows, bounds apart."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx_graphs import Net, numbers, reference, results

from celosia import InferenceSession

_SHAPE, _COUNT = (1, 4, 6, 7), 12


def compare(content: bytes, *shape: int) -> None:
    got, wanted = results(content, {"x": numbers(_COUNT, *shape) * 2})
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize(
    ("axis", "count", "parts"), [(3, 2, None), (3, 3, None), (-1, 4, None), (2, 2, [5, 1])]
)
def test_the_last_part_of_a_split_is_the_rest(axis, count, parts) -> None:
    net = Net(18, x=_SHAPE)
    more: dict[str, Any] = {} if parts else {"num_outputs": count}
    ends = [net.constant(np.array(parts))] if parts else []
    net.add("Split", net.quantized("x"), *ends, results=count, axis=axis, **more)
    compare(net.content(*(f"t{len(net.nodes) - 1}_{n}" for n in range(count))), *_SHAPE[1:])


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("kernel", "stride", "pads"),
    [
        # The last window would begin at the end of the image, before it, and past it.
        ((2, 2), (2, 2), (0, 0, 1, 1)),
        ((2, 3), (2, 3), (0, 0, 1, 2)),
        ((3, 3), (2, 2), (1, 1, 1, 1)),
        ((2, 2), (4, 4), (0, 0, 1, 1)),
        ((3, 2), (4, 5), (1, 0, 2, 1)),
        ((1, 1), (4, 4), (0, 0, 0, 0)),
    ],
)
def test_last_windows_of_ceil_mode(kind, kernel, stride, pads) -> None:
    """Of integers and of floats, on an image of 6 x 7."""
    for quantised in (True, False):
        net = Net(x=_SHAPE)
        x = net.quantized("x")
        x = x if quantised else net.add("Sin", x)
        x = net.add(kind, x, kernel_shape=kernel, strides=stride, pads=pads, ceil_mode=1)
        compare(net.content(net.quantized(x) if quantised else x), *_SHAPE[1:])


def _transposed(axis: int | None, shape: tuple[int, int], **more: Any) -> bytes:
    """A product whose weights, with a scale for each channel, pass a Transpose."""
    net, named = Net(x=(1, 8)), {} if axis is None else {"axis": axis}
    scales = np.linspace(0.01, 0.02, 6, dtype=np.float32)
    weights = net.weights(*shape, scale=scales, **named)
    weights = net.add("Transpose", weights, perm=[1, 0])
    kind = "Gemm" if more else "MatMul"
    x = net.add(kind, net.quantized("x"), weights, **more)
    return net.content(net.quantized(x, 0.0413, 4))


def _linear(*, turned: bool, several: bool, opset: int = 17, **more: Any) -> bytes:
    """QGemm of constant weights, of one scale or one for each channel."""
    net = Net(opset, x=(1, 8))
    ends, result = net.scale(), net.scale(0.04, -3)
    scales = np.linspace(0.01, 0.02, 6, dtype=np.float32) if several else np.float32(0.01)
    data = net.random.integers(-64, 64, (6, 8) if turned else (8, 6)).astype(np.int8)
    constants = [data, scales, np.zeros(np.shape(scales), np.int8)]
    constants += [np.arange(6, dtype=np.int32) * 100]
    x = net.add("QuantizeLinear", "x", *ends)
    more |= {"domain": "com.microsoft", "transB": int(turned)}
    x = net.add("QGemm", x, *ends, *map(net.constant, constants), *result, **more)
    return net.content(net.add("DequantizeLinear", x, *result))


PRODUCTS: dict[str, Callable[[], bytes]] = {
    "weights turned, default axis": lambda: _transposed(None, (8, 6), transB=1),
    "weights turned, axis 1": lambda: _transposed(1, (8, 6), transB=1),
    "weights turned, axis -1": lambda: _transposed(-1, (8, 6), transB=1),
    "weights turned, axis 0": lambda: _transposed(0, (6, 8)),
    "QGemm": lambda: _linear(turned=False, several=False),
    "QGemm turned": lambda: _linear(turned=True, several=False),
    "QGemm of half a product": lambda: _linear(turned=False, several=True, alpha=0.5),
    "QGemm of a factor": lambda: _linear(turned=True, several=False, alpha=1.7),
    "QGemm of several scales": lambda: _linear(turned=False, several=True),
    "QGemm turned, of several scales": lambda: _linear(turned=True, several=True),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_axis_of_the_scales_of_weights(name: str) -> None:
    compare(PRODUCTS[name](), 8)


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_softmax_before_opset_13(axis: int) -> None:
    """Over all axes from one on."""
    net = Net(x=_SHAPE)
    ends, result = net.scale(), net.scale(1 / 256, -128)
    more = {"domain": "com.microsoft", "axis": axis, "opset": 12}
    x = net.add("QuantizeLinear", "x", *ends)
    x = net.add("QLinearSoftmax", x, *ends, *result, **more)
    compare(net.content(net.add("DequantizeLinear", x, *result)), *_SHAPE[1:])


BOUNDS = [
    ((-2.0, -1.0), None),
    (None, (-2.0, -1.0)),
    ((3.0, 5.0), (0.0, 1.0)),
    ((0.0, 1.0), (3.0, 5.0)),
    ((-1.0, 2.0), None),
    (None, (0.5, 6.0)),
    (None, None),
]


@pytest.mark.parametrize("bounds", BOUNDS)
def test_bounds_one_after_the_other(bounds: tuple[tuple[float, float] | None, ...]) -> None:
    """Relu for none; where ranges are apart, the later one decides."""
    net = Net(x=_SHAPE)
    x = net.add("Conv", net.quantized("x"), net.weights(6, 4, 3, 3))
    for pair in bounds:
        x = net.add("Clip", x, *map(net.constant, pair)) if pair else net.add("Relu", x)
    compare(net.content(net.quantized(x, 0.0413, 4)), *_SHAPE[1:])


@pytest.mark.parametrize("quantised", [True, False])
@pytest.mark.parametrize(
    ("kind", "other", "shape", "more"),
    [
        ("MatMul", (8,), (1, 8), {}),
        ("MatMul", (8,), (1, 3, 8), {}),
        ("MatMul", (8, 1), (1, 8), {}),
        ("ReduceSum", (), (1, 8), {"keepdims": 0}),
    ],
)
def test_rows_of_no_dimensions(kind, other, shape, more, quantised) -> None:
    """One number for each sample has the shape of ONNX Runtime's."""
    net = Net(x=shape)
    x = net.quantized("x")
    x = x if quantised else net.add("Sin", x)
    y = net.add(kind, x, net.constant(numbers(*other) if other else np.array([1])), **more)
    content = net.content(net.quantized(y) if quantised else y)
    feed = {"x": numbers(*shape)}
    (expected,) = reference(content).run(None, feed)
    with InferenceSession(content) as session:
        (result,) = session.run(None, feed)
    assert result.shape == np.shape(expected)
    np.testing.assert_allclose(result, expected, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("extents", [(1, 1), (1, 6), ("rows", 1), ("rows", 6)])
def test_biases_of_two_dimensions(rows: int, extents: tuple[int | str, int]) -> None:
    """ONNX Runtime leaves them in float: rounded to units of the sums, they would make ties."""
    for seed in range(20):
        net = Net(x=(rows, 8))
        shape = tuple(rows if extent == "rows" else int(extent) for extent in extents)
        bias = net.constant(numbers(*shape, seed=seed))
        x = net.add("Gemm", net.quantized("x"), net.weights(8, 6), bias)
        content, samples = net.content(net.quantized(x)), numbers(rows, 8, seed=seed)
        (expected,) = reference(content).run(None, {"x": samples})
        with InferenceSession(content) as session:
            # Of several rows, all are one sample.
            (result,) = session.run(None, {"x": samples if rows == 1 else samples[None]})
        np.testing.assert_allclose(result.reshape(rows, 6), expected, atol=1e-6)
