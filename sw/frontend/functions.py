"""Readers of operators that compute each element from one element alone."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tflite

from celosia.sw.frontend.checks import (
    ModelError,
    Node,
    want_equal_quantization,
    want_int8,
    want_shape,
)
from celosia.sw.ir.graph import Tensor

__all__ = ["FUNCTIONS", "elementwise"]

#: The only scale that LiteRT's kernel of LOGISTIC takes for its result.
_LOGISTIC_SCALE = 1 / 256


def _ends(node: Node) -> tuple[Tensor, Tensor]:
    node.want_places(least=1, most=1)
    source, result = node.activations()
    want_shape(result, source.shape)
    return source, result


def elementwise(node: Node) -> dict[str, Any]:
    """Read an operator that says nothing besides its tensors.

    Raises
    ------
    ModelError
        If it has not one input and a result of the same shape.
    """
    _ends(node)
    return {}


def _gelu(node: Node) -> dict[str, Any]:
    _ends(node)
    options = node.options(tflite.GeluOptions)
    return {"approximate": bool(options.Approximate()) if options else False}


def _hard_swish(node: Node) -> dict[str, Any]:
    source, result = _ends(node)
    assert source.quantization is not None and result.quantization is not None
    with np.errstate(over="ignore"):
        ratio = source.quantization.scales[0] / np.float32(128) / result.quantization.scales[0]
    if not ratio < 1:
        scales = (source.quantization.scale, result.quantization.scale)
        got = " and ".join(f"{scale:.6g}" for scale in scales)
        raise ModelError(f"wanted a result of more than 1/128 of the input's scale, got {got}")
    return {}


def _leaky_relu(node: Node) -> dict[str, Any]:
    _ends(node)
    alpha = float(node.want_options(tflite.LeakyReluOptions).Alpha())
    if not math.isfinite(alpha):
        raise ModelError(f"wanted a finite alpha, got {alpha}")
    return {"alpha": alpha}


def _logistic(node: Node) -> dict[str, Any]:
    _, result = _ends(node)
    assert result.quantization is not None
    if result.quantization.scale != _LOGISTIC_SCALE:
        raise ModelError(f"wanted a result of scale 1/256, got {result.quantization.scale:.6g}")
    return {}


def _negative(node: Node) -> dict[str, Any]:
    want_equal_quantization(*_ends(node))
    return {}


def _prelu(node: Node) -> dict[str, Any]:
    node.want_places(least=2, most=2)
    source, result = node.activations()
    want_shape(result, source.shape)
    given = node.constant(1, (np.int8,), "alpha")
    shapes = given.shape, source.shape
    pairs = zip(*(reversed(shape) for shape in shapes), strict=False)
    if len(given.shape) > len(source.shape) or any(n not in (1, most) for n, most in pairs):
        raise ModelError(f"wanted alpha to broadcast, got {shapes[0]} on {shapes[1]}")
    values = np.unique(given)
    quantization = want_int8(node.tensor(1)).quantization
    assert quantization is not None
    if values.size != 1:
        return {}
    alpha = int(values[0]) - quantization.zero_point
    return {"alpha": alpha, "alpha_scale": quantization.scale}


#: Operator to the function that checks it and returns its attributes.
FUNCTIONS: dict[str, Callable[[Node], dict[str, Any]]] = {
    "ABS": elementwise,
    "ELU": elementwise,
    "EXP": elementwise,
    "GELU": _gelu,
    "HARD_SWISH": _hard_swish,
    "LEAKY_RELU": _leaky_relu,
    "LOG": elementwise,
    "LOGISTIC": _logistic,
    "NEG": _negative,
    "PRELU": _prelu,
    "RELU": elementwise,
    "RELU6": elementwise,
    "RELU_0_TO_1": elementwise,
    "RELU_N1_TO_1": elementwise,
    "RSQRT": elementwise,
    "SQRT": elementwise,
    "TANH": elementwise,
}
