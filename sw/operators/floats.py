"""Operators in single precision that the host runs: parts of ONNX models left in float.

Terms are added in double precision and rounded once. ONNX Runtime adds in single precision, in an
order that depends on the processor.
"""

import math
from collections.abc import Sequence

import numpy as np

from celosia.sw.ir.parts import HostOperator
from celosia.sw.operators.attributes import Attributes, require
from celosia.sw.operators.functions import same_shape
from celosia.sw.operators.matrix import window_sums
from celosia.sw.operators.real import of_each
from celosia.sw.operators.record import FLOAT, Operator, Shape
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


_erf = np.vectorize(math.erf, otypes=[np.float64])


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
        kind="Erf",
        shapes=same_shape,
        types=FLOAT,
        kernel=of_each(lambda x: _erf(x).astype(np.float32)),
        host="float32",
    ),
)
