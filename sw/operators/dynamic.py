"""Operators of ONNX that quantise at run time, on the host: each sample has its range."""

from collections.abc import Sequence

import numpy as np

from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.record import EXTENT, Attributes, Operator, Shape, Types, require
from celosia.sw.operators.matrix import window_sums
from celosia.sw.operators.windows import image, window_counts

_Arrays = Sequence[np.ndarray]

_INTEGERS: Types = (("uint8", "int8"), ("int32",))


def _range_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    require(len(operator.sources) == 1, "1 input", len(operator.sources))
    types = [result.dtype for result in operator.results]
    require(types == ["uint8", "float32", "uint8"], "uint8, a scale and a zero point", types)
    return [operator.sources[0].shape, (), ()]


def _run_range(operator: HostOperator, arrays: _Arrays) -> list[np.ndarray]:
    """Return integers, scales and zero points: ``DynamicQuantizeLinear`` of ONNX Runtime."""
    x = arrays[0].astype(np.float32)
    rows = x.reshape(len(x), -1)
    low, high = rows.min(axis=1, initial=0), rows.max(axis=1, initial=0)
    scale = np.where(high == low, np.float32(1), (high - low) / np.float32(255))
    point = np.rint(np.clip(-low / scale, 0, 255)).astype(np.float32)
    steps = np.rint(rows / scale[:, None]) + point[:, None]
    integers = np.clip(steps, 0, 255).astype(np.uint8).reshape(x.shape)
    return [integers, scale.astype(np.float32), point.astype(np.uint8)]


def _centred(operator: HostOperator, arrays: _Arrays, position: int, point: int) -> np.ndarray:
    """Return an operand less its zero point, float64; a constant has one axis less."""
    points = arrays[point].astype(np.float64)
    array = arrays[position].astype(np.float64)
    if operator.sources[point].data is None:
        points = points.reshape(-1, *[1] * (array.ndim - 1))
    return array - points


def _product_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    require(len(operator.sources) in (3, 4), "3 or 4 inputs", len(operator.sources))
    first, second, *points = operator.sources
    require((second.data is None) == (len(points) == 2), "zero points of computed operands")
    require(all(np.prod(point.shape) == 1 for point in points), "one zero point")
    good = min(len(first.shape), len(second.shape)) >= 2 and first.shape[-1] == second.shape[-2]
    require(good, f"rows of {second.shape[-2:]}", first.shape)
    batches = np.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    return [(*batches, first.shape[-2], second.shape[-1])]


def _run_product(operator: HostOperator, arrays: _Arrays) -> list[np.ndarray]:
    """Return sums of products, which float64 holds."""
    rank = len(operator.results[0].shape)
    first = _centred(operator, arrays, 0, 2)
    first = first.reshape(len(first), *[1] * (rank + 1 - first.ndim), *first.shape[1:])
    if operator.sources[1].data is None:
        second = _centred(operator, arrays, 1, 3)
        second = second.reshape(len(second), *[1] * (rank + 1 - second.ndim), *second.shape[1:])
    else:
        second = arrays[1].astype(np.float64)
    return [np.matmul(first, second).astype(np.int64).astype(np.int32)]


def _convolution_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    require(len(operator.sources) == 3, "3 inputs", len(operator.sources))
    source, weights, point = operator.sources
    batch, *extents, inputs = image(source.shape)
    channels, *kernel, depth = image(weights.shape)
    require(weights.data is not None, "constant weights")
    require(depth > 0 and inputs % depth == 0, f"weights of {inputs} channels", weights.shape)
    require(channels % (inputs // depth) == 0, "whole groups of channels", weights.shape)
    require(np.prod(point.shape) == 1, "one zero point", point.shape)
    margins = [attributes.integers(name, 2, 0, EXTENT) for name in ("before", "after")]
    padded = [sum(lengths) for lengths in zip(extents, *margins, strict=True)]
    return [(batch, *window_counts(padded, kernel, attributes, dilated=True), channels)]


def _run_convolution(operator: HostOperator, arrays: _Arrays) -> list[np.ndarray]:
    """Return the sums of a convolution; pixels past the edge are zero points."""
    attributes, x = operator.attributes, _centred(operator, arrays, 0, 2)
    around = zip(attributes["before"], attributes["after"], strict=True)
    x = np.pad(x, [(0, 0), (0, 0), *around, (0, 0)])
    sums = window_sums(operator, [x, arrays[1]])
    shape = (len(x), *operator.results[0].shape)
    return [sums.astype(np.int64).astype(np.int32).reshape(shape)]


OPERATORS = (
    Operator(
        kind="ConvInteger",
        shapes=_convolution_shapes,
        types=_INTEGERS,
        weighted=True,
        plain=True,
        kernel=_run_convolution,
        host="uint8, constant weights, a computed zero point",
    ),
    Operator(
        kind="DynamicQuantizeLinear",
        shapes=_range_shapes,
        types=(("float32",), ("uint8", "float32")),
        plain=True,
        kernel=_run_range,
        host="float32 to uint8, by the range of each sample",
    ),
    Operator(
        kind="MatMulInteger",
        shapes=_product_shapes,
        types=_INTEGERS,
        weighted=True,
        plain=True,
        kernel=_run_product,
        host="uint8, constant or computed weights, computed zero points",
    ),
)
