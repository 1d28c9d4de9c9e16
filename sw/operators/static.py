"""Operators whose results follow from shapes alone: the front ends replace them by constants."""

from collections.abc import Sequence

import numpy as np

from celosia.sw.ir.parts import HostOperator
from celosia.sw.operators.attributes import Attributes, require
from celosia.sw.operators.record import ANY, WHOLE, Operator, Shape

__all__ = ["OPERATORS"]


def _shape_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    require(len(operator.sources) == 1, "1 input", len(operator.sources))
    return [(len(operator.sources[0].shape),)]


def _run_shape(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [np.array([operator.sources[0].shape], operator.results[0].dtype)]


def _rank_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    require(len(operator.sources) == 1, "1 input", len(operator.sources))
    return [()]


def _run_rank(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [np.array([len(operator.sources[0].shape)], operator.results[0].dtype)]


OPERATORS = (
    Operator(
        kind="SHAPE",
        shapes=_shape_shapes,
        types=(ANY[0], WHOLE[0]),
        kernel=_run_shape,
        static=True,
        host="a constant",
    ),
    Operator(
        kind="RANK",
        shapes=_rank_shapes,
        types=(ANY[0], WHOLE[0]),
        kernel=_run_rank,
        static=True,
        host="a constant",
    ),
)
