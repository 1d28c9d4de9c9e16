"""ONNX operators of three dimensions, of other integers than int8, of several scales, and cubic."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx_graphs import Net, numbers, onnx, require_equal, results

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.layers.node import ModelError

_SOLID, _IMAGE, _COUNT = (1, 3, 6, 5, 7), (1, 4, 6, 8), 3

#: Part of the values at which a sum in float may lie between two results.
_TIES = 1 / 500


def _solid(**more) -> bytes:
    net = Net(x=_SOLID)
    bias = net.constant(np.arange(4, dtype=np.float32) / 9)
    scales = np.array([0.0113, 0.0207, 0.0131, 0.0117], np.float32)
    weights = net.weights(4, 3, 2, 3, 2, scale=scales, axis=0)
    y = net.add("Conv", net.quantized("x"), weights, bias, **more)
    return net.content(net.quantized(net.add("Relu", y), 0.0313, -5))


def _solid_float() -> bytes:
    net = Net(x=_SOLID)
    weights, bias = net.constant(numbers(4, 3, 2, 3, 2)), net.constant(numbers(4))
    return net.content(net.add("Conv", net.quantized("x"), weights, bias, pads=[1, 1, 1, 0, 0, 1]))


def _pooled(kind: str, shape: tuple[int, ...] = _SOLID, dtype: Any = np.int8, **more) -> bytes:
    net = Net(x=shape)
    x = net.quantized("x", 0.05, 3, dtype)
    scale = 0.0413 if kind == "AveragePool" else 0.05
    return net.content(net.quantized(net.add(kind, x, **more), scale, 3, dtype))


def _sixteen(kind: str, dtype: Any = np.int16, *, constant: bool = False) -> bytes:
    """An operator between tensors of 16 bits; ``constant``: with a constant of them."""
    net, low = Net(opset=21, x=_IMAGE), np.iinfo(dtype).min + (1 << 15)
    x = net.quantized("x", 0.0002, 5 + low, dtype)
    if constant:
        data = net.constant(np.arange(300, 308, dtype=dtype) * 9)
        y = net.add(kind, x, net.add("DequantizeLinear", data, *net.scale(0.0003, 7, dtype)))
    elif kind == "Conv":
        y = net.add("Conv", x, net.weights(5, 4, 3, 3))
    elif kind == "Add":
        y = net.add("Add", x, net.quantized(net.add("Relu", x), 0.0003, 7 + low, dtype))
    else:
        y = net.add(kind, x)
    return net.content(net.quantized(y, 0.00041, low + 100, dtype))


def _cubic(**more) -> bytes:
    net = Net(x=_IMAGE)
    scales = net.constant(np.array([1, 1, 2, 0.7], np.float32))
    ends = net.quantized("x"), net.constant(numbers(0)), scales
    y = net.add("Resize", *ends, mode="cubic", **more)
    return net.content(net.quantized(y, 0.0413, -1))


def _turned_twice() -> bytes:
    """One tensor in two orders of one shape."""
    net = Net(x=(1, 3, 3, 3, 2))
    x = net.quantized("x")
    ends = [net.add("Transpose", x, perm=order) for order in ([0, 2, 3, 1, 4], [0, 3, 1, 2, 4])]
    return net.content(net.add("Concat", *map(net.quantized, ends), axis=4))


def _channels(kind: str) -> bytes:
    """Scales of channels around an operator in float."""
    net = Net(x=_IMAGE)
    scales = net.constant(np.array([0.05, 0.07, 0.03, 0.04], np.float32))
    ends = scales, net.constant(np.array([3, 0, -7, 1], np.int8))
    x = net.add("QuantizeLinear", net.quantized("x"), *ends, axis=1)
    return net.content(net.add(kind, net.add("DequantizeLinear", x, *ends, axis=1)))


def _vector() -> bytes:
    net = Net(x=_IMAGE)
    return net.content(net.add("MatMul", net.quantized("x"), net.constant(numbers(8))))


_WINDOWS: Any = {"kernel_shape": [2, 3, 2], "strides": [2, 1, 2], "pads": [1, 1, 1, 0, 1, 0]}
CASES: dict[str, Callable[[], bytes]] = {
    "conv-of-solids": _solid,
    "conv-of-solids-padded": lambda: _solid(pads=[1, 0, 1, 1, 1, 0], strides=[2, 1, 1]),
    "conv-of-solids-dilated": lambda: _solid(dilations=[2, 1, 1]),
    "conv-of-solids-same": lambda: _solid(auto_pad="SAME_UPPER"),
    "conv-of-solids-in-float": _solid_float,
    "max-of-solids": lambda: _pooled("MaxPool", **_WINDOWS),
    "average-of-solids": lambda: _pooled("AveragePool", **_WINDOWS),
    "max-dilated": lambda: _pooled("MaxPool", _IMAGE, kernel_shape=[2, 3], dilations=[2, 2]),
    "max-dilated-of-uint8": lambda: _pooled(
        "MaxPool", _IMAGE, np.uint8, kernel_shape=[2, 3], dilations=[2, 2], pads=[1, 1, 0, 2]
    ),
    "int16-add": lambda: _sixteen("Add"),
    "int16-add-constant": lambda: _sixteen("Add", constant=True),
    "int16-conv": lambda: _sixteen("Conv"),
    "int16-div-constant": lambda: _sixteen("Div", constant=True),
    "int16-relu": lambda: _sixteen("Relu"),
    "int16-sigmoid": lambda: _sixteen("Sigmoid"),
    "uint16-add": lambda: _sixteen("Add", np.uint16),
    "uint16-conv": lambda: _sixteen("Conv", np.uint16),
    "uint16-mul-constant": lambda: _sixteen("Mul", np.uint16, constant=True),
    "cubic": _cubic,
    "cubic-inside": lambda: _cubic(exclude_outside=1, cubic_coeff_a=-0.5),
    "cubic-aligned": lambda: _cubic(coordinate_transformation_mode="align_corners"),
    "two-orders": _turned_twice,
    "scales-of-channels": lambda: _channels("Relu"),
    "vector": _vector,
}


@pytest.mark.parametrize("name", CASES)
def test_equal(name):
    content = CASES[name]()
    shape = onnx.load_from_string(content).graph.input[0].type.tensor_type.shape.dim
    shape = (_COUNT, *(each.dim_value for each in shape[1:]))
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    (got,), (wanted,) = results(content, {"x": x})
    if name in ("vector", "conv-of-solids-in-float", "scales-of-channels"):
        np.testing.assert_allclose(got, wanted, atol=1e-5)
        return
    step = np.diff(np.unique(wanted)).min()
    steps = np.abs(got - wanted) / step
    assert steps.max() < 1.5 and (steps > 0.5).mean() <= _TIES


def _two_computed(dtype: Any) -> bytes:
    net, point = Net(x=(1, 2, 6, 16)), 3 if dtype == np.int8 else 131
    x = net.quantized("x", 0.031, point, dtype)
    first = net.quantized(net.add("Relu", x), 0.017, np.iinfo(dtype).min, dtype)
    y = net.add("MatMul", first, net.add("Transpose", x, perm=[0, 1, 3, 2]))
    return net.content(net.quantized(y, 0.1313, point + 4, dtype))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_two_computed_matrices_are_multiplied_on_the_core(dtype):
    content = _two_computed(dtype)
    program = compile_graph(load(content), preset("transformer"), 4)
    assert "QLinearBatchMatMul" not in [operator.kind for operator in program.host]
    x = np.random.default_rng(1).normal(size=(4, 2, 6, 16)).astype(np.float32)
    require_equal(content, {"x": x}, "transformer")


def test_many_operators_in_float():
    net = Net(x=(1, 8))
    x = y = net.quantized("x")
    for _ in range(600):
        y = net.add("Add", y, x)
    require_equal(net.content(y), {"x": numbers(2, 8)})


def test_pixels_of_uint8_become_float():
    net = Net(x=(1, 3, 6, 6))
    x = net.add("Div", net.add("Cast", "x", to=1), net.constant(255.0))
    y = net.add("Conv", net.quantized(x, 1 / 255, -128), net.weights(4, 3, 3, 3))
    proto = net.proto(net.quantized(y, 0.0113))
    proto.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    x = np.random.default_rng(1).integers(0, 256, (_COUNT, 3, 6, 6)).astype(np.uint8)
    require_equal(proto.SerializeToString(), {"x": x})


def _zero_point(dtype: str) -> bytes:
    net = Net(opset=21, x=_IMAGE)
    proto = net.proto(net.quantized("x", 0.5, 0))
    kind = getattr(onnx.TensorProto, dtype)
    point = onnx.helper.make_tensor(net.constants[1].name, kind, [], [0])
    proto.graph.initializer[1].CopyFrom(point)
    return proto.SerializeToString()


def _result() -> bytes:
    net = Net(opset=21, x=_IMAGE)
    ends = net.scale(0.0002, 5, np.uint16)
    return net.content(net.add("QuantizeLinear", "x", *ends), dtype=np.uint16)


def _input(dtype: str) -> bytes:
    net = Net(x=_IMAGE)
    proto = net.proto(net.quantized(net.add("Cast", "x", to=1)))
    proto.graph.input[0].type.tensor_type.elem_type = getattr(onnx.TensorProto, dtype)
    return proto.SerializeToString()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda: _zero_point("INT4"), "QuantizeLinear .* got a zero point 'c1' of less bits"),
        (lambda: _zero_point("FLOAT8E5M2"), "QuantizeLinear .* a result of int8, .* got float8"),
        (_result, "output .*: wanted int8, .* got uint16"),
        (lambda: _input("FLOAT16"), "input 'x': wanted int8, .* got float16"),
        (lambda: _pooled("Relu", (1, 0, 4)), r"'x': wanted extents of at least 1, got \[1, 0, 4\]"),
        (lambda: _solid(group=3), "wanted weights of 3 channels, got 3 x 3"),
    ],
)
def test_refusals(content, message):
    with pytest.raises(ModelError, match=message) as caught:
        load(content())
    assert "\n" not in str(caught.value)
