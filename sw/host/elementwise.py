"""Operators of the host that compute each element from one element of each input."""

from collections.abc import Sequence

import numpy as np

from celosia.sw.compiler.multiplier import quantize_multiplier
from celosia.sw.compiler.quantize import activation_range, single_factor
from celosia.sw.host.fixed_point import meaning, rescaled, times
from celosia.sw.ir.program import HostOperator, Operand

__all__ = [
    "addition",
    "dequantize",
    "greatest",
    "maximum",
    "minimum",
    "multiplication",
    "prelu",
    "quantize",
    "subtraction",
]

#: Bits by which ADD and SUB shift their inputs.
_SHIFT = 20


def _single(operand: Operand) -> np.float32:
    """Return the scale as the kernels have it."""
    return np.float32(operand.scale)


def _centred(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the inputs less their zero points, int64, with as many dimensions as the result."""
    rank = len(operator.results[0].shape)
    result = []
    for operand, array in zip(operator.sources, arrays, strict=True):
        wide = array.astype(np.int64) - operand.zero_point
        if operand.data is None:
            missing = (1,) * (rank - len(operand.shape))
            wide = wide.reshape(len(wide), *missing, *operand.shape)
        result.append(wide)
    return result


def _finished(values: np.ndarray, output: Operand, activation: str = "NONE") -> list[np.ndarray]:
    """Return the result: zero point added, clamped."""
    low, high = activation_range(activation, meaning(output))
    return [np.clip(values + output.zero_point, low, high).astype(np.int8)]


def _sum(operator: HostOperator, arrays: Sequence[np.ndarray], sign: int) -> list[np.ndarray]:
    (first, second), (output,) = operator.sources, operator.results
    twice = 2 * max(first.scale, second.scale)
    terms = []
    for operand, x, factor in zip(
        operator.sources, _centred(operator, arrays), (1, sign), strict=True
    ):
        multiplier, shift = quantize_multiplier(operand.scale / twice)
        terms.append(times(x << _SHIFT, factor * multiplier, shift))
    total = rescaled(terms[0] + terms[1], twice / ((1 << _SHIFT) * output.scale))
    return _finished(total, output, operator.attributes["activation"])


def addition(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the sum of two inputs, which may broadcast."""
    return _sum(operator, arrays, 1)


def subtraction(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the difference of two inputs, which may broadcast."""
    return _sum(operator, arrays, -1)


def multiplication(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the product of two inputs, which may broadcast."""
    (first, second), (output,) = operator.sources, operator.results
    left, right = _centred(operator, arrays)
    factor = single_factor(_single(first), _single(second), over=_single(output))
    return _finished(rescaled(left * right, factor), output, operator.attributes["activation"])


def _chosen(operator: HostOperator, arrays: Sequence[np.ndarray], choose: np.ufunc) -> list:
    left, right = _centred(operator, arrays)
    return _finished(choose(left, right), operator.results[0])


def maximum(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the greater of two inputs, which may broadcast."""
    return _chosen(operator, arrays, np.maximum)


def minimum(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the lesser of two inputs, which may broadcast."""
    return _chosen(operator, arrays, np.minimum)


def greatest(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return where the greatest element along an axis is, the first of equals."""
    places = arrays[0].argmax(axis=operator.attributes["axis"] + 1)
    return [places.astype(operator.results[0].dtype)]


def prelu(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the first input, where below zero times the second, which may broadcast."""
    (source, alpha), (output,) = operator.sources, operator.results
    x, slope = _centred(operator, arrays)
    above = rescaled(x, single_factor(_single(source), over=_single(output)))
    factor = single_factor(_single(source), _single(alpha), over=_single(output))
    below = rescaled(x * slope, factor)
    return _finished(np.where(x >= 0, above, below), output)


def quantize(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return float as integers, or integers of another meaning or type."""
    (source,), (output,), (array,) = operator.sources, operator.results, arrays
    limits = np.iinfo(np.dtype(output.dtype))
    if source.dtype != "float32":
        centred = array.astype(np.int64) - source.zero_point
        values = rescaled(centred, source.scale / output.scale) + output.zero_point
        return [np.clip(values, limits.min, limits.max).astype(output.dtype)]
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = (array / _single(output)).astype(np.float64)
    # Past this they saturate whatever the zero point; what is no number counts as nothing.
    ratio = np.clip(np.nan_to_num(ratio, nan=0.0), -1024, 1024)
    rounded = np.copysign(np.floor(np.abs(ratio) + 0.5), ratio) + output.zero_point
    return [np.clip(rounded, limits.min, limits.max).astype(output.dtype)]


def dequantize(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return integers as float."""
    (source,) = operator.sources
    return [_single(source) * (arrays[0].astype(np.int64) - source.zero_point).astype(np.float32)]
