"""Operators that make images of another size."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tflite

from celosia.sw.ir.graph import Operation
from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.lowering import Lowering
from celosia.sw.layers.node import ModelError, Node
from celosia.sw.layers.record import FLOAT, SAME, Attributes, Operator, Shape, require
from celosia.sw.operators.windows import image

_ONE = 1 << 10


def _read(table: type):
    def read(node: Node) -> dict[str, Any]:
        size, result = _size(node), node.outputs[0].shape
        if list(result[1:3]) != size:
            raise ModelError(f"wanted a result of {size[0]} x {size[1]} pixels, got {result}")
        options = node.require_options(table)
        return {
            "align_corners": bool(options.AlignCorners()),
            "half_pixel_centers": bool(options.HalfPixelCenters()),
        }

    return read


def _size(node: Node) -> list[int]:
    node.require_inputs(2)
    size = node.indices(1, "size")
    if len(size) != 2 or min(size) < 1:
        raise ModelError(f"wanted a size of rows and columns, got {size}")
    return size


def _infer(node: Node) -> list[Shape]:
    batch, _, _, channels = image(node.tensor(0).shape)
    return [(batch, *_size(node), channels)]


def _shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    flags = [attributes.flag(name) for name in ("align_corners", "half_pixel_centers")]
    require(not all(flags), "align_corners or half_pixel_centers", "both")
    return _sized(operator)


def _sized(operator: HostOperator) -> list[Shape]:
    batch, _, _, channels = image(operator.sources[0].shape)
    return [(batch, *image(operator.results[0].shape)[1:3], channels)]


def _nearest_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    if "rows" not in operator.attributes:
        for name in ("align_corners", "half_pixel_centers"):
            attributes.flag(name)
        return _sized(operator)
    batch, *extents, channels = image(operator.sources[0].shape)
    counts = image(operator.results[0].shape)[1:3]
    for name, count, extent in zip(("rows", "columns"), counts, extents, strict=True):
        attributes.integers(name, count, 0, extent - 1)
    return [(batch, *counts, channels)]


def _along(operator: HostOperator, function: Callable[..., Any]) -> list[Any]:
    """Return a function of extents of the input and of the result, for rows and for columns."""
    flags = operator.attributes["align_corners"], operator.attributes["half_pixel_centers"]
    extents = (operand.shape[1:3] for operand in (operator.sources[0], operator.results[0]))
    return [function(*pair, *flags) for pair in zip(*extents, strict=True)]


def _nearest(source: int, result: int, align: bool, half: bool) -> np.ndarray:
    """Return the source row or column of each of the result's, in single precision."""
    scale = np.float32(source) / np.float32(result)
    if align and result > 1:
        scale = np.float32(source - 1) / np.float32(result - 1)
    offset = np.float32(0.5 if half else 0)
    origins = (np.arange(result, dtype=np.float32) + offset) * scale
    # The kernel rounds halves up; none is below zero.
    nearest = np.floor(origins.astype(np.float64) + 0.5) if align else np.floor(origins)
    return np.clip(nearest.astype(np.int64), 0, source - 1)


def _run_nearest(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return an image of another size, each pixel one of the input's."""
    attributes = operator.attributes
    if "rows" in attributes:
        rows, columns = attributes["rows"], attributes["columns"]
    else:
        rows, columns = _along(operator, _nearest)
    return [arrays[0][:, :, rows][:, :, :, columns]]


def _lower_nearest(lowering: Lowering, operation: Operation) -> None:
    """Lower RESIZE_NEAREST_NEIGHBOR to copies of columns, and then of rows."""
    view, number, attributes = lowering.view(operation), operation.outputs[0], operation.attributes
    if "rows" in attributes:
        lowering.take(operation, view, [attributes["rows"], attributes["columns"]])
        return
    flags = attributes["align_corners"], attributes["half_pixel_centers"]
    extents = zip((view.height, view.width), lowering.shapes[number][:2], strict=True)
    origins = [_nearest(source, result, *flags).tolist() for source, result in extents]
    lowering.take(operation, view, origins)


def _between(source: int, result: int, align: bool, half: bool) -> tuple[np.ndarray, ...]:
    """Return the two rows or columns around each of the result's, and the share of the second.

    Shares are of 2^10, and may be below 0 or above 1 at the edges.
    """
    scale = (_ONE * source + result // 2) // result
    if align and result > 1:
        scale = (_ONE * (source - 1) + (result - 1) // 2) // (result - 1)
    origins = np.arange(result, dtype=np.int64) * scale
    if half:
        origins = origins + scale // 2 - (1 << 9)
    below = np.maximum(np.trunc(origins / _ONE).astype(np.int64), 0)
    above = np.minimum(np.trunc((origins + _ONE - 1) / _ONE).astype(np.int64), source - 1)
    return below, above, origins - _ONE * below


def _really_between(source: int, result: int, align: bool, half: bool) -> tuple[np.ndarray, ...]:
    """Return the two rows or columns around each of the result's, and the share of the second.

    In single precision.
    """
    scale = np.float32(source) / np.float32(result)
    if align and result > 1:
        scale = np.float32(source - 1) / np.float32(result - 1)
    origins = np.arange(result, dtype=np.float32)
    if half:
        origins = (origins + np.float32(0.5)) * scale - np.float32(0.5)
    else:
        origins = origins * scale
    below = np.maximum(np.floor(origins).astype(np.int64), 0)
    above = np.minimum(np.ceil(origins).astype(np.int64), source - 1)
    return below, above, origins - below.astype(np.float32)


def _run_real_bilinear(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return an image of another size, of int8 that stand for uint8, by float32."""
    (top, bottom, down), (left, right, over) = _along(operator, _really_between)
    x = (arrays[0].astype(np.int64) + 128).astype(np.float32)
    down, over, one = down[:, None, None], over[:, None], np.float32(1)
    upper, lower = x[:, :, top], x[:, :, bottom]
    total = upper[:, :, :, left] * (one - down) * (one - over)
    total = total + lower[:, :, :, left] * down * (one - over)
    total = total + upper[:, :, :, right] * (one - down) * over
    total = total + lower[:, :, :, right] * down * over + np.float32(0.5)
    return [(total.astype(np.int64) - 128).astype(np.int8)]


def _run_bilinear(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return an image of another size, each pixel a mean of four of the input's."""
    if operator.attributes.get("unsigned"):
        return _run_real_bilinear(operator, arrays)
    (top, bottom, down), (left, right, over) = _along(operator, _between)
    x, down, over = arrays[0].astype(np.int64), down[:, None, None], over[:, None]
    upper = x[:, :, top] * (_ONE - down)
    lower = x[:, :, bottom] * down
    total = (upper[:, :, :, left] + lower[:, :, :, left]) * (_ONE - over)
    total += (upper[:, :, :, right] + lower[:, :, :, right]) * over
    away = np.where(total > 0, 1 << 19, -(1 << 19))
    # Division towards zero.
    rounded = np.trunc((total + away) / (1 << 20)).astype(np.int64)
    return [rounded.astype(arrays[0].dtype)]


def _weighed_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    """Check the rows and columns around each of the result's, and their weights."""
    batch, *extents, channels = image(operator.sources[0].shape)
    counts = image(operator.results[0].shape)[1:3]
    for name, count, extent in zip(("rows", "columns"), counts, extents, strict=True):
        weights = operator.attributes.get(f"{name}_weights")
        good = isinstance(weights, list | tuple) and len(weights) in (2 * count, 4 * count)
        require(good, f"{2 * count} or {4 * count} weights of {name}")
        attributes.integers(name, len(weights or ()), 0, extent - 1)
        good = all(type(weight) is float and math.isfinite(weight) for weight in weights or ())
        require(good, f"finite weights of {name}")
    return [(batch, *counts, channels)]


def _run_weighed(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return an image of another size: pixels times their weights, in single precision.

    Of two pixels each the weights are multiplied first; of four, columns are added, then rows.
    """
    (x,), attributes = arrays, operator.attributes
    counts = operator.results[0].shape[1:3]
    (rows, down), (columns, over) = (
        (
            np.reshape(attributes[name], (-1, count)),
            np.reshape(attributes[f"{name}_weights"], (-1, count)).astype(np.float32),
        )
        for name, count in zip(("rows", "columns"), counts, strict=True)
    )
    total = np.float32(0)
    for row, high in zip(rows, down, strict=True):
        line = np.float32(0)
        for column, wide in zip(columns, over, strict=True):
            pixels = x[:, :, row][:, :, :, column]
            if len(rows) == len(columns) == 2:
                total = total + (wide * high[:, None])[..., None] * pixels
            else:
                line = line + wide[:, None] * pixels
        total = total + high[:, None, None] * line
    return [np.asarray(total, np.float32)]


_RESIZE: dict[str, Any] = {
    "infer": _infer,
    "operands": (0,),
}

OPERATORS = (
    Operator(
        kind="RESIZE_BILINEAR",
        read=_read(tflite.ResizeBilinearOptions),
        shapes=_shapes,
        # The kernel copies means of integers, whatever scale the result has.
        unsigned=True,
        kernel=_run_bilinear,
        types=(("int8", "int16"), SAME),
        host="any size; align_corners, half_pixel_centers; int8, int16",
        **_RESIZE,
    ),
    Operator(
        kind="RESIZE_NEAREST_NEIGHBOR",
        read=_read(tflite.ResizeNearestNeighborOptions),
        shapes=_nearest_shapes,
        kernel=_run_nearest,
        types=(("int8", "int16", "float32"), SAME),
        host="any size; align_corners, half_pixel_centers; int8, int16, float32",
        keeps_scale=True,
        lower=_lower_nearest,
        core="int8: any size; columns are copied, then rows",
        **_RESIZE,
    ),
    Operator(
        kind="Resize",
        shapes=_weighed_shapes,
        types=FLOAT,
        kernel=_run_weighed,
        host="float32: means of two or four rows and columns each, of any weights",
    ),
)
