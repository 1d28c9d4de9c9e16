"""Operators that ONNX Runtime refuses, or computes by another rule than ONNX: refused by name."""

from collections.abc import Callable
from typing import Any

import numpy as np
import prerequisites
import pytest
from onnx_graphs import Net, numbers, reference

from celosia.sw.frontend.source import load
from celosia.sw.layers.node import ModelError

_errors = prerequisites.package("onnxruntime.capi.onnxruntime_pybind11_state")
REFUSED = (_errors.Fail, _errors.InvalidArgument, _errors.RuntimeException)

_SHAPE = (1, 3, 6, 7)
_WINDOW: dict[str, Any] = {"kernel_shape": [2, 2]}


def _operator(
    kind: str,
    *weights: tuple[int, ...] | np.ndarray,
    shape: tuple[int, ...] = _SHAPE,
    real: bool = False,
    opset: int = 17,
    **more: Any,
) -> bytes:
    """An operator between quantised tensors, or of floats, with weights of a shape or constants."""
    net = Net(opset, x=shape)
    x = net.quantized("x")
    x = net.add("Sin", x) if real else x
    ends = [net.constant(e) if isinstance(e, np.ndarray) else net.weights(*e) for e in weights]
    y = net.add(kind, x, *ends, **more)
    return net.content(y if real else net.quantized(y))


def _referred(content: bytes) -> list[np.ndarray]:
    """Return ONNX Runtime's results of random inputs."""
    session = reference(content)
    return session.run(None, {end.name: numbers(*end.shape) for end in session.get_inputs()})


def _two(*shape: int) -> bytes:
    net = Net(x=shape, y=(*shape[:-2], *shape[:-3:-1]))
    return net.content(net.quantized(net.add("Gemm", net.quantized("x"), net.quantized("y"))))


def _of_axis(axis: int) -> bytes:
    net = Net(x=_SHAPE)
    weights = net.weights(4, 3, 1, 1, scale=np.ones(4, np.float32), axis=axis)
    return net.content(net.quantized(net.add("Conv", net.quantized("x"), weights)))


_OUTSIDE = r"wanted an axis from -4 to 3, got "
_MATRICES = "wanted two operands of 2 dimensions, got "

#: Beginning of the name: the operator that the message names.
INVALID: dict[str, tuple[Callable[[], bytes], str]] = {
    "Softmax-9": (lambda: _operator("Softmax", axis=9), f"{_OUTSIDE}9"),
    "Softmax--5": (lambda: _operator("Softmax", axis=-5), f"{_OUTSIDE}-5"),
    "Softmax-real": (lambda: _operator("Softmax", real=True, axis=4), f"{_OUTSIDE}4"),
    "LogSoftmax-real": (lambda: _operator("LogSoftmax", real=True, axis=9), f"{_OUTSIDE}9"),
    "Gemm-of-4": (lambda: _operator("Gemm", (7, 4)), f"{_MATRICES}4 and 2"),
    "Gemm-of-1": (lambda: _operator("Gemm", (6, 4), shape=(6,)), f"{_MATRICES}1 and 2"),
    "Gemm-computed": (lambda: _two(1, 2, 6, 5), f"{_MATRICES}4 and 4"),
    "Gemm-real": (lambda: _operator("Gemm", numbers(7, 4), real=True), f"{_MATRICES}4 and 2"),
    "Gemm-bias": (
        lambda: _operator("Gemm", (6, 4), numbers(5), shape=(1, 6)),
        "wanted a bias of 4, got 5",
    ),
    "Conv-bias": (lambda: _operator("Conv", (4, 3, 1, 1), numbers(2)), "wanted a bias of 4, got 2"),
    "InstanceNormalization-channels": (
        lambda: _operator("InstanceNormalization", numbers(5), numbers(5)),
        r"wanted shapes that broadcast, got \[\(1, 3, 6, 7\), \(5, 1, 1\)\]",
    ),
    "MaxPool-pads": (
        lambda: _operator("MaxPool", **_WINDOW, pads=[1, 2, 0, 0]),
        r"wanted pads below the window \(2, 2\), got \[1, 2, 0, 0\]",
    ),
    "AveragePool-pads": (
        lambda: _operator("AveragePool", **_WINDOW, pads=[0, 0, 2, 0]),
        r"wanted pads below the window \(2, 2\), got \[0, 0, 2, 0\]",
    ),
    "MaxPool-real": (
        lambda: _operator("MaxPool", real=True, **_WINDOW, pads=[1, 2, 0, 0]),
        r"wanted pads below the window \(2, 2\), got \[1, 2, 0, 0\]",
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_what_onnx_runtime_refuses_is_refused(name: str) -> None:
    model, message = INVALID[name]
    content = model()
    with pytest.raises(ModelError, match=f" {name.split('-')[0]} .*: {message}$"):
        load(content)
    with pytest.raises(REFUSED):
        _referred(content)


def test_scales_along_no_axis() -> None:
    """The first refusal counts, also if the layer in float fails in another way."""
    with pytest.raises(ModelError, match=r" Conv .*: wanted scales along axis 0, got axis 9$"):
        load(_of_axis(9))


@pytest.mark.parametrize("kind", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("pool", ["MaxPool", "AveragePool"])
def test_automatic_pads_of_dilated_pools(pool: str, kind: str) -> None:
    """ONNX Runtime pads them as without dilation: its result has fewer pixels than ONNX defines."""
    more: Any = {"kernel_shape": [2, 3], "strides": [1, 2], "auto_pad": kind, "opset": 19}
    content = _operator(pool, real=True, dilations=[1, 2], **more)
    (result,) = _referred(content)
    assert result.shape != (1, 3, 6, 4)
    message = rf" {pool} .*: auto_pad {kind} with dilations is not supported; give pads$"
    with pytest.raises(ModelError, match=message):
        load(content)
    load(_operator(pool, real=True, dilations=[1, 1], **more))


@pytest.mark.parametrize("kind", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("pool", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 2), (1, 3), (1, 4)])
def test_automatic_pads_of_pools_that_leave_out_pixels(kernel, stride, pool, kind) -> None:
    """ONNX Runtime's pads are negative: refused there, or other windows."""
    more: dict[str, Any] = {"kernel_shape": [kernel, 2], "auto_pad": kind, "real": True}
    content = _operator(pool, strides=[stride, 1], **more)
    message = rf" {pool} .*: auto_pad {kind} with windows that leave out pixels is not supported;"
    with pytest.raises(ModelError, match=message):
        load(content)
    with pytest.raises(REFUSED):
        _referred(content)


@pytest.mark.parametrize("kind", ["SAME_UPPER", "SAME_LOWER"])
def test_automatic_pads_of_transposed_windows_below_the_stride(kind: str) -> None:
    """ONNX Runtime's result has fewer pixels than ONNX defines."""
    content = _operator("ConvTranspose", (3, 2, 2, 2), strides=[3, 2], auto_pad=kind)
    (result,) = _referred(content)
    assert result.shape == (1, 2, 17, 14)
    message = rf"wanted a result of auto_pad {kind} of at most \[17, 14\], got \[18, 14\]$"
    with pytest.raises(ModelError, match=message):
        load(content)
