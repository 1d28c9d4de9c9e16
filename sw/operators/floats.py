"""Operators in single precision that the host runs: parts of ONNX models left in float.

Terms are added in double precision and rounded once. ONNX Runtime adds in single precision, in an
order that depends on the processor.
"""

import math
from collections.abc import Sequence

import numpy as np

from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.record import EXTENT, FLOAT, Attributes, Operator, Shape, require
from celosia.sw.operators.functions import same_shape
from celosia.sw.operators.matrix import window_sums
from celosia.sw.operators.real import Function, correct, of_each
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


#: Functions of one element that LiteRT has not, by name: rounded correctly.
FUNCTIONS: dict[str, Function] = {
    "Acos": np.arccos,
    "Acosh": np.arccosh,
    "Asin": np.arcsin,
    "Asinh": np.arcsinh,
    "Atan": np.arctan,
    "Atanh": np.arctanh,
    "Cosh": np.cosh,
    "Erf": np.vectorize(math.erf, otypes=[np.float64]),
    "Sinh": np.sinh,
    "Softplus": lambda x: np.logaddexp(0, x),
    "Tan": np.tan,
}


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
            shapes=same_shape,
            types=FLOAT,
            kernel=of_each(correct(function)),
            host="float32",
        )
        for kind, function in FUNCTIONS.items()
    ),
)
