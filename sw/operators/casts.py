"""CAST: numbers as numbers of another type, without regard to scales."""

from collections.abc import Sequence

import numpy as np

from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.record import ANY, Operator
from celosia.sw.operators.functions import same_shape


def _from_float(x: np.ndarray, kind: np.dtype) -> np.ndarray:
    """Return float32 as integers, towards zero and saturated; the greatest for no number."""
    limits = np.iinfo(kind)
    wide = x.astype(np.float64)
    # The least integer is a power of two; the greatest of 64 bits is no float64.
    low, high = wide <= float(limits.min), ~(wide < float(limits.max))
    rounded = np.where(low | high, 0, wide).astype(np.int64)
    return np.where(high, limits.max, np.where(low, limits.min, rounded)).astype(kind)


def _run(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    (array,), kind = arrays, np.dtype(operator.results[0].dtype)
    if array.dtype == np.float32 and kind.kind in "iu":
        return [_from_float(array, kind)]
    return [array.astype(kind)]


OPERATORS = (
    Operator(
        kind="CAST",
        shapes=same_shape,
        types=ANY,
        plain=True,
        kernel=_run,
        host="any types",
    ),
)
