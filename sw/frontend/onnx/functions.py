"""Float operators that compute each element from one element, and from constants for all."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from celosia.sw.frontend.onnx.file.nodes import OnnxNode
from celosia.sw.layers import onnxruntime
from celosia.sw.layers.node import ModelError
from celosia.sw.operators import floats

#: Operators that only clamp their input.
BOUNDS = ("Clip", "Relu")

_Attributes = Mapping[str, Any]
_Function = Callable[[Sequence[Any], _Attributes], np.ndarray]

_ZERO, _ONE, _HALF = (np.float32(number) for number in (0, 1, 0.5))


def _of_one(function: Callable[[np.ndarray], np.ndarray]) -> _Function:
    return lambda inputs, _: function(inputs[0])


def _of_all(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> _Function:
    return lambda inputs, _: functools.reduce(function, inputs)


def _of_host(kind: str) -> _Function:
    """Return the function of an operator of the host, in single precision."""
    return lambda inputs, attributes: floats.FUNCTIONS[kind](
        inputs[0],
        **{name: attributes.get(name, n) for name, n in floats.ATTRIBUTES[kind].items()},
    )


def _clip(inputs: Sequence[Any], _: _Attributes) -> np.ndarray:
    x, *bounds = inputs
    for bound, choose in zip(bounds, (np.maximum, np.minimum), strict=False):
        x = x if bound is None else choose(x, bound)
    return x


def _leaky(inputs: Sequence[Any], attributes: _Attributes) -> np.ndarray:
    (x,) = inputs
    return np.where(x >= 0, x, x * np.float32(attributes.get("alpha", 0.01)))


def _gelu(inputs: Sequence[Any], attributes: _Attributes) -> np.ndarray:
    (x,) = inputs
    if attributes.get("approximate", "none") == "tanh":
        cube = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
        return _HALF * x * (_ONE + onnxruntime.tanh(cube))
    erf = FUNCTIONS["Erf"]((x * np.float32(math.sqrt(0.5)),), {}).astype(np.float32)
    return _HALF * x * (_ONE + erf)


def _prelu(inputs: Sequence[Any], _: _Attributes) -> np.ndarray:
    x, slope = inputs
    return np.where(x < 0, x * slope, x)


#: By operator, its inputs and attributes to its result, in float32.
FUNCTIONS: dict[str, _Function] = {
    **{kind: _of_host(kind) for kind in floats.FUNCTIONS},
    "Abs": _of_one(np.abs),
    "Add": _of_all(np.add),
    "Ceil": _of_one(np.ceil),
    "Clip": _clip,
    "Cos": _of_one(np.cos),
    "Div": _of_all(np.divide),
    "Exp": _of_one(np.exp),
    "Floor": _of_one(np.floor),
    "Gelu": _gelu,
    "HardSwish": _of_one(lambda x: x * floats.hard_sigmoid(x, alpha=1 / 6)),
    "LeakyRelu": _leaky,
    "Log": _of_one(np.log),
    "Max": _of_all(np.maximum),
    "Min": _of_all(np.minimum),
    "Mul": _of_all(np.multiply),
    "Neg": _of_one(np.negative),
    "PRelu": _prelu,
    "Relu": _of_one(lambda x: np.maximum(x, _ZERO)),
    "Round": _of_one(np.rint),
    "Sigmoid": _of_one(onnxruntime.logistic),
    "Sign": _of_one(np.sign),
    "Sin": _of_one(np.sin),
    "Sqrt": _of_one(np.sqrt),
    "Sub": _of_all(np.subtract),
    "Sum": _of_all(np.add),
    "Tanh": _of_one(onnxruntime.tanh),
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
