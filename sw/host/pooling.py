"""Pooling and matrix products on the host: for what the core's numbers cannot say."""

from collections.abc import Callable, Sequence

import numpy as np

from celosia.sw.compiler.quantize import activation_range
from celosia.sw.compiler.windows import padding
from celosia.sw.host.fixed_point import factors, meaning
from celosia.sw.ir.program import HostOperator

__all__ = ["average_pool", "dense", "max_pool"]

_Reduce = Callable[[np.ndarray, int], np.ndarray]


def _clamp(operator: HostOperator) -> tuple[int, int]:
    return activation_range(operator.attributes["activation"], meaning(operator.results[0]))


def _spans(operator: HostOperator, axis: int) -> list[tuple[int, int]]:
    """Return first row or column of each window, and the one behind its last."""
    said, extent = operator.attributes, operator.sources[0].shape[1 + axis]
    count = operator.results[0].shape[1 + axis]
    size, stride = said["window"][axis], said["stride"][axis]
    first = -padding(said["padding"], extent, size, stride, count)
    starts = range(first, first + count * stride, stride)
    return [(max(start, 0), min(start + size, extent)) for start in starts]


def _pooled(operator: HostOperator, x: np.ndarray, reduce: _Reduce) -> list[np.ndarray]:
    result = np.empty((len(x), *operator.results[0].shape), np.int8)
    low, high = _clamp(operator)
    for row, (top, bottom) in enumerate(_spans(operator, 0)):
        for column, (left, right) in enumerate(_spans(operator, 1)):
            part = x[:, :, top:bottom, left:right].astype(np.int64)
            count = (bottom - top) * (right - left)
            result[:, :, row, column] = np.clip(reduce(part, count), low, high)
    return [result]


def max_pool(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the greatest element of each window."""
    return _pooled(operator, arrays[0], lambda part, _: part.max(axis=(2, 3)))


def average_pool(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the mean of each window, halves away from zero."""

    def mean(part: np.ndarray, count: int) -> np.ndarray:
        total = part.sum(axis=(2, 3))
        return np.sign(total) * ((np.abs(total) + count // 2) // count)

    return _pooled(operator, arrays[0], mean)


def dense(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the product of rows with a matrix, which the kernel scales in double precision."""
    source, (output,) = operator.sources[0], operator.results
    matrix = arrays[1].astype(np.int64)
    rows = arrays[0].reshape(len(arrays[0]), -1, matrix.shape[1]).astype(np.int64)
    sums = (rows - source.zero_point) @ matrix.T
    if len(arrays) > 2:
        sums = sums + arrays[2].reshape(-1)
    exact = sums.astype(np.int32) * factors(operator)
    away = np.copysign(np.floor(np.abs(exact) + 0.5), exact) + output.zero_point
    low, high = _clamp(operator)
    result = np.clip(away, low, high).astype(np.int8)
    return [result.reshape(len(result), *output.shape)]
