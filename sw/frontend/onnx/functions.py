"""Float operators that compute each element from one element, and from constants for all."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from celosia.sw.frontend.onnx.file.nodes import OnnxNode
from celosia.sw.layers import onnxruntime
from celosia.sw.layers.node import ModelError

#: Operators that only clamp their input.
BOUNDS = ("Clip", "Relu")

_Attributes = Mapping[str, Any]
_Function = Callable[[Sequence[Any], _Attributes], np.ndarray]

_ZERO, _ONE, _HALF = (np.float32(number) for number in (0, 1, 0.5))


def _of_one(function: Callable[[np.ndarray], np.ndarray]) -> _Function:
    return lambda inputs, _: function(inputs[0])


def _of_all(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> _Function:
    return lambda inputs, _: functools.reduce(function, inputs)


def _named(attributes: _Attributes, name: str, default: float) -> np.float32:
    return np.float32(attributes.get(name, default))


def _clip(inputs: Sequence[Any], _: _Attributes) -> np.ndarray:
    x, *bounds = inputs
    for bound, choose in zip(bounds, (np.maximum, np.minimum), strict=False):
        x = x if bound is None else choose(x, bound)
    return x


def _leaky(inputs: Sequence[Any], attributes: _Attributes) -> np.ndarray:
    (x,) = inputs
    return np.where(x >= 0, x, x * _named(attributes, "alpha", 0.01))


def _elu(inputs: Sequence[Any], attributes: _Attributes) -> np.ndarray:
    (x,) = inputs
    return np.where(x >= 0, x, _named(attributes, "alpha", 1) * (np.exp(x) - _ONE))


def _hard_sigmoid(inputs: Sequence[Any], attributes: _Attributes) -> np.ndarray:
    (x,) = inputs
    return np.clip(
        _named(attributes, "alpha", 0.2) * x + _named(attributes, "beta", 0.5), _ZERO, _ONE
    )


def _hard_swish(inputs: Sequence[Any], _: _Attributes) -> np.ndarray:
    (x,) = inputs
    return x * _hard_sigmoid((x,), {"alpha": 1 / 6})


def _erf(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(number) for number in x.ravel()], np.float32).reshape(x.shape)


def _gelu(inputs: Sequence[Any], attributes: _Attributes) -> np.ndarray:
    (x,) = inputs
    if attributes.get("approximate", "none") == "tanh":
        cube = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
        return _HALF * x * (_ONE + onnxruntime.tanh(cube))
    return _HALF * x * (_ONE + _erf(x * np.float32(math.sqrt(0.5))))


def _selu(inputs: Sequence[Any], attributes: _Attributes) -> np.ndarray:
    (x,) = inputs
    alpha = _named(attributes, "alpha", 1.67326319217681884765625)
    gamma = _named(attributes, "gamma", 1.05070102214813232421875)
    return gamma * np.where(x > 0, x, alpha * (np.exp(x) - _ONE))


def _celu(inputs: Sequence[Any], attributes: _Attributes) -> np.ndarray:
    (x,), alpha = inputs, _named(attributes, "alpha", 1)
    return np.maximum(x, _ZERO) + np.minimum(_ZERO, alpha * (np.exp(x / alpha) - _ONE))


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x + np.log1p(np.exp(-np.abs(x))), np.log1p(np.exp(-np.abs(x))))


def _thresholded(inputs: Sequence[Any], attributes: _Attributes) -> np.ndarray:
    (x,) = inputs
    return np.where(x > _named(attributes, "alpha", 1), x, _ZERO)


def _shrink(inputs: Sequence[Any], attributes: _Attributes) -> np.ndarray:
    (x,), bias = inputs, _named(attributes, "bias", 0)
    edge = _named(attributes, "lambd", 0.5)
    return np.where(x < -edge, x + bias, np.where(x > edge, x - bias, _ZERO))


def _prelu(inputs: Sequence[Any], _: _Attributes) -> np.ndarray:
    x, slope = inputs
    return np.where(x < 0, x * slope, x)


#: By operator, its inputs and attributes to its result, in float32.
FUNCTIONS: dict[str, _Function] = {
    "Abs": _of_one(np.abs),
    "Acos": _of_one(np.arccos),
    "Acosh": _of_one(np.arccosh),
    "Add": _of_all(np.add),
    "Asin": _of_one(np.arcsin),
    "Asinh": _of_one(np.arcsinh),
    "Atan": _of_one(np.arctan),
    "Atanh": _of_one(np.arctanh),
    "Ceil": _of_one(np.ceil),
    "Celu": _celu,
    "Clip": _clip,
    "Cos": _of_one(np.cos),
    "Cosh": _of_one(np.cosh),
    "Div": _of_all(np.divide),
    "Elu": _elu,
    "Erf": _of_one(_erf),
    "Exp": _of_one(np.exp),
    "Floor": _of_one(np.floor),
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "LeakyRelu": _leaky,
    "Log": _of_one(np.log),
    "Max": _of_all(np.maximum),
    "Min": _of_all(np.minimum),
    "Mish": _of_one(lambda x: x * np.tanh(_softplus(x))),
    "Mul": _of_all(np.multiply),
    "Neg": _of_one(np.negative),
    "PRelu": _prelu,
    "Reciprocal": _of_one(lambda x: _ONE / x),
    "Relu": _of_one(lambda x: np.maximum(x, _ZERO)),
    "Round": _of_one(np.rint),
    "Selu": _selu,
    "Shrink": _shrink,
    "Sigmoid": _of_one(onnxruntime.logistic),
    "Sign": _of_one(np.sign),
    "Sin": _of_one(np.sin),
    "Sinh": _of_one(np.sinh),
    "Softplus": _of_one(_softplus),
    "Softsign": _of_one(lambda x: x / (_ONE + np.abs(x))),
    "Sqrt": _of_one(np.sqrt),
    "Sub": _of_all(np.subtract),
    "Sum": _of_all(np.add),
    "Tan": _of_one(np.tan),
    "Tanh": _of_one(onnxruntime.tanh),
    "ThresholdedRelu": _thresholded,
}


def evaluate(
    nodes: Mapping[str, OnnxNode],
    constants: Mapping[str, np.ndarray],
    name: str,
    leaf: str,
    x: np.ndarray,
) -> np.ndarray:
    """Return a tensor as a function of another one.

    - ``nodes``: float operators by their result.
    - ``constants``: constants by name, of one element each.
    - ``name``, ``leaf``: the tensor wanted, and the one that is known.
    - ``x``: float32, elements of ``leaf``.
    """
    if name == leaf:
        return x
    if name in constants:
        return constants[name].reshape(()).astype(np.float32)
    node = nodes[name]
    inputs = [
        evaluate(nodes, constants, operand, leaf, x) if operand else None for operand in node.inputs
    ]
    with np.errstate(all="ignore"):
        return FUNCTIONS[node.kind](inputs, node.attributes).astype(np.float32)


def bound(node: OnnxNode, constants: Mapping[str, np.ndarray]) -> tuple[float, float]:
    """Return the least and the greatest result of a Relu or Clip."""
    if node.kind == "Relu":
        return 0.0, math.inf
    ends = [-math.inf, math.inf]
    for number in (1, 2):
        if name := node.input(number):
            if name not in constants:
                raise ModelError(f"wanted a constant bound, got {name!r}")
            ends[number - 1] = float(constants[name].reshape(-1)[0])
    return ends[0], ends[1]
