"""Operators that take a part of a value: copies of rows and columns, products for channels."""

import numpy as np

from celosia.sw.compiler.errors import CompileError
from celosia.sw.compiler.lowering import Lowering, View
from celosia.sw.compiler.operators.products import MOST_MOVED, add_product
from celosia.sw.compiler.quantize import exact_scaling, identity_scaling
from celosia.sw.compiler.windows import Axis, rectangles
from celosia.sw.ir.graph import Operation

__all__ = ["cut", "split"]

#: First element, how many and the distance, along rows, columns or channels.
_Way = tuple[int, int, int]


def cut(lowering: Lowering, operation: Operation, label: str) -> None:
    """Lower SLICE and STRIDED_SLICE of an image, forwards, or of channels."""
    said = operation.attributes
    ways = list(zip(said["begin"], said["count"], said["stride"], strict=True))
    extent = lowering.graph.tensors[operation.inputs[0]].shape[0]
    if ways[0] != (0, extent, 1) or said["dropped"] or min(said["stride"]) < 1:
        raise CompileError("wanted all items, forwards, and all dimensions to stay")
    _take(lowering, operation, operation.outputs[0], _three(label, ways[1:]), label)


def split(lowering: Lowering, operation: Operation, label: str) -> None:
    """Lower SPLIT and SPLIT_V of images along rows or columns, or of channels."""
    graph, axis = lowering.graph, operation.attributes["axis"]
    if axis == 0:
        raise CompileError("wanted all items to stay together")
    first = 0
    for number in operation.outputs:
        shape = graph.tensors[number].shape
        ways = [(0, extent, 1) for extent in shape[1:]]
        ways[axis - 1] = (first, shape[axis], 1)
        _take(lowering, operation, number, _three(label, ways), label)
        first += shape[axis]


def _three(label: str, ways: list[_Way]) -> list[_Way]:
    """Return the ways along rows, columns and channels."""
    if len(ways) not in (1, 3):
        raise CompileError(f"wanted an image or channels, got {len(ways) + 1} dimensions")
    return [*[(0, 1, 1)] * (3 - len(ways)), *ways]


def _take(
    lowering: Lowering, operation: Operation, number: int, ways: list[_Way], label: str
) -> None:
    """Make a tensor of some of an operator's operand."""
    place = 1 if operation.kind == "SPLIT" else 0
    source = operation.inputs[place]
    if source not in lowering.views:
        raise CompileError("wanted an input that is computed")
    view = lowering.views[source]
    value = lowering.values[view.value]
    extents = view.height, view.width, value.channels
    shape = lowering.graph.tensors[source].shape
    wanted = (1,) * (4 - len(shape)) + shape[1:]
    if extents != wanted:
        raise CompileError(f"wanted an input laid out as {wanted}, got {extents}")
    rows, columns, channels = ways
    shape = rows[1], columns[1], value.channels
    whole = all(way == (0, n, 1) for way, n in zip(ways[:2], extents, strict=False))
    every = channels == (0, value.channels, 1)
    if not every and value.channels * channels[1] > MOST_MOVED:
        raise CompileError(f"wanted at most {MOST_MOVED} ones to move channels")
    if every or not whole:
        axes = [
            Axis(first, step, count, 1, first + (count - 1) * step + 1)
            for first, count, step in (rows, columns)
        ]
        lowering.vector(
            operation,
            number,
            operation.kind,
            view,
            rectangles(axes, view.top, view.left),
            [identity_scaling()],
            shape,
            stride=(rows[2], columns[2]),
        )
        view = lowering.views[number]
    if not every:
        _channels(lowering, operation, number, view, channels)


def _channels(lowering: Lowering, operation: Operation, number: int, view: View, way: _Way) -> None:
    first, count, step = way
    value = lowering.values[view.value]
    weights = np.zeros((count, 1, 1, value.channels), np.int8)
    weights[np.arange(count), 0, 0, first + step * np.arange(count)] = 1
    own = weights.sum(axis=(1, 2, 3), dtype=np.int64)
    grid = view.height, view.width
    scaling = exact_scaling(-value.fill * own, value.fill)
    result = lowering.add(number, (*grid, count))
    add_product(lowering, operation, view, weights, scaling, result=result, grid=grid)
