"""Pooling over windows of images."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import tflite

from celosia.hw.arch.isa import Window
from celosia.sw.ir.graph import Operation
from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.lowering import Lowering
from celosia.sw.layers.node import Node
from celosia.sw.layers.quantize import (
    BOUNDS,
    activation_range,
    average_scaling,
    ends,
    identity_scaling,
)
from celosia.sw.layers.record import (
    EXTENT,
    SAME,
    Attributes,
    Kernel,
    Operator,
    Shape,
    by_type,
    require,
)
from celosia.sw.layers.shapes import padding, rectangles
from celosia.sw.layers.spec import Windows
from celosia.sw.layers.values import Scaling
from celosia.sw.operators import gradients
from celosia.sw.operators.fixed_point import meaning
from celosia.sw.operators.windows import ACTIVATIONS, image, read_windows, window_counts

_Reduce = Callable[[np.ndarray, int], np.ndarray]


def read_pool(node: Node) -> dict[str, Any]:
    """Return windows, strides, padding and activation of a pooling."""
    node.require_inputs(1)
    return read_windows(node, tflite.Pool2DOptions, "stride", "window")


def pool_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    """Return the shape of a pooling's result: shape rule."""
    require(len(operator.sources) == 1, "1 input", len(operator.sources))
    batch, *extents, channels = image(operator.sources[0].shape)
    attributes.name("activation", ACTIVATIONS)
    window = attributes.integers("window", 2, 1, EXTENT)
    return [(batch, *window_counts(extents, window, attributes), channels)]


def lower_pool(
    lowering: Lowering, operation: Operation, scaling: Callable[[int], Scaling], combine: Window
) -> None:
    """Lower a pooling that is a layer by itself; ``scaling`` follows from a window's elements."""
    view = lowering.view(operation)
    batch, *seen = lowering.graph.tensors[operation.inputs[0]].shape
    if lowering.shapes[operation.inputs[0]] == tuple(seen):
        axes = lowering.windows(operation, (view.height, view.width))
        windows, rows = rectangles(axes, view.top, view.left), None
    else:
        windows, rows = _of_batch(lowering, operation), (batch * seen[0], seen[1], seen[2])
    sizes = [math.prod(w.size) if combine is Window.SUM else 1 for w in windows]
    counts = sorted(set(sizes))
    pairs = zip(windows, sizes, strict=True)
    lowering.vector(
        operation,
        view,
        windows=tuple(replace(w, parameters=counts.index(size)) for w, size in pairs),
        scalings=[scaling(count) for count in counts],
        shape=lowering.shapes[operation.outputs[0]],
        seen=rows,
        stride=operation.attributes["stride"],
        combine=combine,
    )


def _of_batch(lowering: Lowering, operation: Operation) -> tuple[Windows, ...]:
    """Return windows of images that are one row of pixels, those of each row of results."""
    images, high, wide = lowering.graph.tensors[operation.outputs[0]].shape[:3]
    height, width = lowering.graph.tensors[operation.inputs[0]].shape[1:3]
    down = operation.attributes["stride"][0]
    one = rectangles(lowering.windows(operation, (height, width), (high, wide)))
    return tuple(
        Windows(
            result=(0, (image * high + part.result[0] + row) * wide + part.result[1]),
            count=(1, part.count[1]),
            source=(image * height + part.source[0] + row * down, part.source[1]),
            size=part.size,
        )
        for image in range(images)
        for part in one
        for row in range(part.count[0])
    )


def _lower(lowering: Lowering, operation: Operation) -> None:
    _, output = ends(lowering.graph, operation)
    clamp = activation_range(operation.attributes["activation"], output)
    if operation.kind == "MAX_POOL_2D":
        lower_pool(lowering, operation, lambda _: identity_scaling(*clamp), Window.MAX)
        return
    unsigned = bool(operation.attributes.get("unsigned"))
    scaling = partial(average_scaling, low=clamp[0], high=clamp[1], unsigned=unsigned)
    lower_pool(lowering, operation, scaling, Window.SUM)


def spans(operator: HostOperator, axis: int) -> list[tuple[int, int]]:
    """Return first row or column of each window, and the one after its last."""
    attributes, extent = operator.attributes, operator.sources[0].shape[1 + axis]
    count = operator.results[0].shape[1 + axis]
    size, stride = attributes["window"][axis], attributes["stride"][axis]
    first = -padding(attributes["padding"], extent, size, stride, count)
    starts = range(first, first + count * stride, stride)
    return [(max(start, 0), min(start + size, extent)) for start in starts]


def pooled(operator: HostOperator, x: np.ndarray, reduce: _Reduce) -> np.ndarray:
    """Return ``reduce`` of every window and of the number of its pixels, int64 or float32."""
    kind = np.float32 if x.dtype == np.float32 else np.int64
    result = np.empty((len(x), *operator.results[0].shape), kind)
    for row, (top, bottom) in enumerate(spans(operator, 0)):
        for column, (left, right) in enumerate(spans(operator, 1)):
            part = x[:, :, top:bottom, left:right].astype(kind)
            result[:, :, row, column] = reduce(part, (bottom - top) * (right - left))
    return result


def _average(part: np.ndarray, count: int) -> np.ndarray:
    """Return the mean of a window, halves away from zero."""
    total = part.sum(axis=(2, 3))
    return np.sign(total) * ((np.abs(total) + count // 2) // count)


def _average_up(part: np.ndarray, count: int) -> np.ndarray:
    """Return the mean of a window of int8 that stand for uint8, halves rounded up."""
    return (part.sum(axis=(2, 3)) + count // 2) // count


def _run_average(operator: HostOperator, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    mean = _average_up if operator.attributes.get("unsigned") else _average
    return _run(mean)(operator, arrays)


def run_real(reduce: _Reduce) -> Kernel:
    """Return the kernel of a pooling in single precision."""

    def run(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        low, high = BOUNDS[operator.attributes["activation"]]
        low, high = -np.inf if low is None else low, np.inf if high is None else high
        return [np.clip(pooled(operator, arrays[0], reduce), low, high).astype(np.float32)]

    return run


def _maximum(part: np.ndarray, _: int) -> np.ndarray:
    return part.max(axis=(2, 3))


def _run(reduce: _Reduce) -> Kernel:
    def run(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        output = operator.results[0]
        activation = operator.attributes["activation"]
        low, high = activation_range(activation, meaning(output), output.dtype)
        return [np.clip(pooled(operator, arrays[0], reduce), low, high).astype(output.dtype)]

    return run


_POOLED: dict[str, Any] = {
    "read": read_pool,
    "shapes": pool_shapes,
    "types": (("int8", "int16", "float32"), SAME),
    "keeps_scale": True,
    "lower": _lower,
    "gradient": gradients.pooling,
    "host": "any window: int8, int16, float32",
}
_POOL = "windows up to 255 × 255 whose results fit the accumulators"

OPERATORS = (
    Operator(
        kind="AVERAGE_POOL_2D",
        unsigned=True,
        kernel=by_type(
            float32=run_real(lambda part, count: part.sum(axis=(2, 3)) / np.float32(count)),
            plain=_run_average,
        ),
        core=f"{_POOL}; element counts that a 31-bit multiplier divides by",
        **_POOLED,
    ),
    Operator(
        kind="MAX_POOL_2D",
        kernel=by_type(float32=run_real(_maximum), plain=_run(_maximum)),
        core=f"{_POOL}; part of the previous matrix layer if windows do not overlap",
        **_POOLED,
    ),
)
