"""Operators of the host that compute each element from a neighbourhood."""

from collections.abc import Sequence

import numpy as np

from celosia.sw.compiler.multiplier import quantize_multiplier
from celosia.sw.compiler.quantize import activation_range, mean_scaling
from celosia.sw.host.fixed_point import factors, meaning, times
from celosia.sw.ir.program import HostOperator

__all__ = ["mean", "resize_bilinear", "resize_nearest", "transposed_convolution"]

_ONE = 1 << 10


def mean(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the mean over some axes."""
    (source,), (output,), axes = operator.sources, operator.results, operator.attributes["axes"]
    count = int(np.prod([source.shape[axis] for axis in axes], dtype=np.int64))
    scaling = mean_scaling(meaning(source), meaning(output), count)
    sums = arrays[0].sum(axis=tuple(axis + 1 for axis in axes), dtype=np.int64) + scaling.bias[0]
    values = times(sums, scaling.multiplier[0], scaling.left[0] - scaling.right[0])
    result = np.clip(values + output.zero_point, -128, 127).astype(np.int8)
    return [result.reshape(len(result), *output.shape)]


def _nearest(source: int, result: int, align: bool, half: bool) -> np.ndarray:
    """Return which row or column each of the result's is taken from; in single precision."""
    scale = np.float32(source) / np.float32(result)
    if align and result > 1:
        scale = np.float32(source - 1) / np.float32(result - 1)
    offset = np.float32(0.5 if half else 0)
    places = (np.arange(result, dtype=np.float32) + offset) * scale
    # None is below zero: halves up is what the kernel does.
    whole = np.floor(places.astype(np.float64) + 0.5) if align else np.floor(places)
    return np.clip(whole.astype(np.int64), 0, source - 1)


def resize_nearest(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return an image of another size, each pixel one of the input's."""
    said = operator.attributes["align_corners"], operator.attributes["half_pixel_centers"]
    _, high, wide, _ = operator.sources[0].shape
    _, rows, columns, _ = operator.results[0].shape
    taken = arrays[0][:, :, _nearest(high, rows, *said)]
    return [taken[:, :, :, _nearest(wide, columns, *said)]]


def _between(source: int, result: int, align: bool, half: bool) -> tuple[np.ndarray, ...]:
    """Return the two rows or columns around each of the result's, and the share of the second.

    Shares are of 2^10, and may be below 0 or above 1 at the edges.
    """
    scale = (_ONE * source + result // 2) // result
    if align and result > 1:
        scale = (_ONE * (source - 1) + (result - 1) // 2) // (result - 1)
    places = np.arange(result, dtype=np.int64) * scale
    if half:
        places = places + scale // 2 - (1 << 9)
    below = np.maximum(np.trunc(places / _ONE).astype(np.int64), 0)
    above = np.minimum(np.trunc((places + _ONE - 1) / _ONE).astype(np.int64), source - 1)
    return below, above, places - _ONE * below


def resize_bilinear(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return an image of another size, each pixel a mean of four of the input's."""
    said = operator.attributes["align_corners"], operator.attributes["half_pixel_centers"]
    _, high, wide, _ = operator.sources[0].shape
    _, rows, columns, _ = operator.results[0].shape
    top, bottom, down = _between(high, rows, *said)
    left, right, over = _between(wide, columns, *said)
    x, down, over = arrays[0].astype(np.int64), down[:, None, None], over[:, None]
    upper = x[:, :, top] * (_ONE - down)
    lower = x[:, :, bottom] * down
    total = (upper[:, :, :, left] + lower[:, :, :, left]) * (_ONE - over)
    total += (upper[:, :, :, right] + lower[:, :, :, right]) * over
    away = np.where(total > 0, 1 << 19, -(1 << 19))
    # Division towards zero.
    rounded = np.trunc((total + away) / (1 << 20)).astype(np.int64)
    return [rounded.astype(np.int8)]


def transposed_convolution(
    operator: HostOperator, arrays: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Return what a convolution of these weights would have taken to this input."""
    source = operator.sources[0]
    (output,), said = operator.results, operator.attributes
    x = arrays[0].astype(np.int64) - source.zero_point
    kernel = arrays[1].astype(np.int64)
    units, batch, high, wide, _ = x.shape
    (down, right), (top, left) = said["stride"], said["margins"]
    channels, tall, broad, _ = kernel.shape
    _, rows, columns, _ = output.shape
    around = (
        max(rows, (high - 1) * down + tall) + top,
        max(columns, (wide - 1) * right + broad) + left,
    )
    sums = np.zeros((units, batch, *around, channels), np.int64)
    for row in range(tall):
        for column in range(broad):
            part = x @ kernel[:, row, column].T
            sums[
                :,
                :,
                row : row + (high - 1) * down + 1 : down,
                column : column + (wide - 1) * right + 1 : right,
            ] += part
    sums = sums[:, :, top : top + rows, left : left + columns]
    if len(arrays) > 2:
        sums = sums + arrays[2].astype(np.int64)
    pairs = [quantize_multiplier(float(factor)) for factor in factors(operator)]
    multipliers, shifts = np.array(pairs, np.int64).T
    sums = sums.astype(np.int32).astype(np.int64)
    low, high_end = activation_range(said["activation"], meaning(output))
    values = times(sums, multipliers, shifts) + output.zero_point
    return [np.clip(values, low, high_end).astype(np.int8)]
