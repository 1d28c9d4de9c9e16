"""Operators whose results follow from shapes alone: the front ends replace them by constants."""

from collections.abc import Sequence

import numpy as np

from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.record import ANY, WHOLE, Attributes, Operator, Shape
from celosia.sw.operators.functions import same_shape


def _shape_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    (shape,) = same_shape(operator, attributes)
    return [(len(shape),) if operator.kind == "SHAPE" else ()]


def _run(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    shape = operator.sources[0].shape
    content = shape if operator.kind == "SHAPE" else len(shape)
    return [np.array([content], operator.results[0].dtype)]


OPERATORS = tuple(
    Operator(
        kind=kind,
        shapes=_shape_shapes,
        types=(ANY[0], WHOLE[0]),
        kernel=_run,
        static=True,
        host="a constant",
    )
    for kind in ("SHAPE", "RANK")
)
