"""CAST: numbers as numbers of another type, without regard to scales."""

from collections.abc import Sequence

import numpy as np

from celosia.sw.ir.parts import HostOperator
from celosia.sw.operators.functions import same_shape
from celosia.sw.operators.record import ANY, Operator

__all__ = ["OPERATORS"]

#: Types that float32 saturates at; int64 has no numbers there that it could, int8 wraps.
_SATURATE = ("uint8", "int16", "int32")


def _from_float(x: np.ndarray, kind: np.dtype) -> np.ndarray:
    """Return float32 as integers, towards zero; what is no number as the processor does it.

    The kernel's C++ leaves some of these open. Processors of the x86 family give the least number
    of 32 or 64 bits for what does not fit, and int8 its lowest byte.
    """
    wide = "int64" if kind == "int64" else "int32"
    limits = np.iinfo(kind if kind.name in _SATURATE else wide)
    known = np.isfinite(x)
    whole = np.trunc(np.where(known, x, 0).astype(np.float64))
    least, most = float(limits.min), float(limits.max)
    if kind.name in _SATURATE:
        values = np.clip(np.where(known, whole, np.sign(x) * np.inf), least, most)
        values = np.where(np.isnan(x), most if kind == "int32" else 0, values)
        return values.astype(kind)
    fits = known & (whole >= least) & (whole < -least)
    return np.where(fits, whole, least).astype(wide).astype(kind)


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
