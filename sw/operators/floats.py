"""Operators in single precision that the host runs: parts of ONNX models left in float.

Terms are added in double precision and rounded once. ONNX Runtime adds in single precision, in an
order that depends on the processor.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.record import EXTENT, FLOAT, Attributes, Operator, Shape, require
from celosia.sw.operators.functions import same_shape
from celosia.sw.operators.matrix import window_sums
from celosia.sw.operators.real import correct
from celosia.sw.operators.transposed import transposed_sums
from celosia.sw.operators.windows import ACTIVATIONS, image, window_counts


def _shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    require(len(operator.sources) == 2, "2 inputs", len(operator.sources))
    source, weights = operator.sources
    batch, *extents, inputs = image(source.shape)
    channels, *kernel, depth = image(weights.shape)
    good = weights.data is not None and weights.dtype == "float32" and depth > 0
    require(good and inputs % depth == 0, f"constant weights of {inputs} channels", weights.shape)
    require(channels % (inputs // depth) == 0, "whole groups of channels", weights.shape)
    attributes.name("activation", ACTIVATIONS[:1])
    return [(batch, *window_counts(extents, kernel, attributes, dilated=True), channels)]


def _run(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    sums = window_sums(operator, arrays).astype(np.float32)
    return [sums.reshape(len(arrays[0]), *operator.results[0].shape)]


def _transposed_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    require(len(operator.sources) == 2, "2 inputs", len(operator.sources))
    source, weights = operator.sources
    batch, *extents, inputs = image(source.shape)
    channels, *kernel, depth = image(weights.shape)
    good = weights.data is not None and weights.dtype == "float32" and depth == inputs
    require(good, f"constant weights of {inputs} channels", weights.shape)
    margins = attributes.integers("margins", 2, 0, 0)
    require(margins == [0, 0], "margins of 0", margins)
    counts, strides = (
        image(operator.results[0].shape)[1:3],
        attributes.integers("stride", 2, 1, EXTENT),
    )
    for count, extent, taps, stride in zip(counts, extents, kernel, strides, strict=True):
        more = count - (extent - 1) * stride - taps
        require(0 <= more < stride, f"{extent} pixels from a result of {counts}", count)
    return [(batch, *counts, channels)]


def _run_transposed(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [transposed_sums(operator, arrays).astype(np.float32)]


def _celu(x: np.ndarray, *, alpha: float = 1.0) -> np.ndarray:
    return np.maximum(x, 0) + np.minimum(0, alpha * (np.exp(x / alpha) - 1))


def _elu(x: np.ndarray, *, alpha: float = 1.0) -> np.ndarray:
    return np.where(x >= 0, x, alpha * (np.exp(x) - 1))


def hard_sigmoid(x: np.ndarray, *, alpha: float = 0.2, beta: float = 0.5) -> np.ndarray:
    """Return a line between 0 and 1."""
    return np.clip(alpha * x + beta, 0, 1)


def _selu(
    x: np.ndarray,
    *,
    alpha: float = 1.67326319217681884765625,
    gamma: float = 1.05070102214813232421875,
) -> np.ndarray:
    return gamma * np.where(x > 0, x, alpha * (np.exp(x) - 1))


def _shrink(x: np.ndarray, *, bias: float = 0.0, lambd: float = 0.5) -> np.ndarray:
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _thresholded(x: np.ndarray, *, alpha: float = 1.0) -> np.ndarray:
    return np.where(x > alpha, x, 0)


#: Functions of one element that LiteRT has not, by name; what follows it are attributes.
FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "Acos": np.arccos,
    "Acosh": np.arccosh,
    "Asin": np.arcsin,
    "Asinh": np.arcsinh,
    "Atan": np.arctan,
    "Atanh": np.arctanh,
    "Celu": _celu,
    "Cosh": np.cosh,
    "Elu": _elu,
    "Erf": np.vectorize(math.erf, otypes=[np.float64]),
    "HardSigmoid": hard_sigmoid,
    "Mish": lambda x: x * np.tanh(_softplus(x)),
    "Reciprocal": lambda x: 1 / x,
    "Selu": _selu,
    "Shrink": _shrink,
    "Sinh": np.sinh,
    "Softplus": _softplus,
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Tan": np.tan,
    "ThresholdedRelu": _thresholded,
}

#: Attributes of these, with their values by default.
ATTRIBUTES: dict[str, dict[str, float]] = {
    kind: getattr(function, "__kwdefaults__", None) or {} for kind, function in FUNCTIONS.items()
}


def _function_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    for name in ATTRIBUTES[operator.kind]:
        attributes.real(name)
    return same_shape(operator, attributes)


def _run_function(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return a function, rounded correctly."""
    return [correct(partial(FUNCTIONS[operator.kind], **operator.attributes))(arrays[0])]


OPERATORS = (
    Operator(
        kind="Conv",
        shapes=_shapes,
        types=FLOAT,
        weighted=True,
        kernel=_run,
        host="float32, constant weights: any kernel, stride, dilation, padding and groups",
    ),
    Operator(
        kind="ConvTranspose",
        shapes=_transposed_shapes,
        types=FLOAT,
        weighted=True,
        kernel=_run_transposed,
        host="float32, constant weights: any kernel and stride",
    ),
    *(
        Operator(
            kind=kind,
            shapes=_function_shapes,
            types=FLOAT,
            kernel=_run_function,
            host="float32",
        )
        for kind in FUNCTIONS
    ),
)
