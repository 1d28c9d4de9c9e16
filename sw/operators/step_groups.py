"""Operators of a training step in groups of images: rows of tensors, apart and together.

The core copies nothing: the rows are parts of one tensor in external memory. No file of a model has
these operators. See docs/design/training.md.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from celosia.sw.ir.graph import Operation
from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.lowering import Lowering, View
from celosia.sw.layers.record import Attributes, Shape, require
from celosia.sw.layers.values import Value
from celosia.sw.operators.shifted import of_step

_Arrays = Sequence[np.ndarray]


def row_axis(shape: Sequence[int]) -> int:
    """Return the dimension of rows: the second one of matrices, the first one of images."""
    return 1 if len(shape) == 3 else 0


def _taken_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    shape = operator.sources[0].shape
    axis = row_axis(shape)
    require(math.prod(shape[:axis]) == 1, "one matrix", shape)
    first = attributes.integer("first", 0, shape[axis] - 1)
    count = attributes.integer("count", 1, shape[axis] - first)
    result, elements = operator.results[0].shape, math.prod(shape) // shape[axis] * count
    require(math.prod(result) == elements, f"a result of {elements} elements", result)
    return [result]


def _run_taken(operator: HostOperator, arrays: _Arrays) -> list[np.ndarray]:
    first, count = (operator.attributes[name] for name in ("first", "count"))
    axis = row_axis(arrays[0].shape)
    rows = arrays[0].take(range(first, first + count), axis)
    return [rows.reshape(operator.results[0].shape)]


def _joined_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    shapes = [operand.shape for operand in operator.sources]
    axis = row_axis(shapes[0])
    others = {(*shape[:axis], 0, *shape[axis + 1 :]) for shape in shapes}
    require(len(others) == 1 and math.prod(shapes[0][:axis]) == 1, "rows of one length", shapes)
    return [(*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])]


def _run_joined(operator: HostOperator, arrays: _Arrays) -> list[np.ndarray]:
    return [np.concatenate(arrays, row_axis(arrays[0].shape))]


def _lower_taken(lowering: Lowering, operation: Operation) -> None:
    """Let rows be loaded apart from a tensor that is stored."""
    (number,), result = operation.inputs, operation.outputs[0]
    source, shape = lowering.graph.tensors[number].shape, lowering.graph.tensors[result].shape
    place, value = _complete(lowering, number)
    if not value.is_input:
        lowering.values[place] = replace(value, is_output=True)
    length = math.prod(source) // source[row_axis(source)]
    original = place if value.original < 0 else value.original
    offset = value.offset + operation.attributes["first"] * length
    part = replace(value, **_row(shape), original=original, offset=offset, spread=False)
    _add(lowering, result, replace(part, is_input=True, is_output=False))


def _lower_joined(lowering: Lowering, operation: Operation) -> None:
    """Let layers store their results one after the other; all are loaded as one value."""
    (result,), offset = operation.outputs, 0
    for number in operation.inputs:
        _, value = _complete(lowering, number)
        if value.is_input or value.is_output:
            # It has its own place in external memory.
            lowering.vector(operation, lowering.views[number], number=number, kind="COPY")
    for number in operation.inputs:
        place, value = _complete(lowering, number)
        together = len(lowering.values)
        lowering.values[place] = replace(value, original=together, offset=offset, is_output=True)
        offset += value.bytes_per_item
    shape = lowering.graph.tensors[result].shape
    _add(lowering, result, Value(name="", **_row(shape), is_input=True))


def _complete(lowering: Lowering, number: int) -> tuple[int, Value]:
    """Return the value that a tensor is, with its number; raises CompileError if it is not all."""
    if number not in lowering.views or not lowering.covers(lowering.views[number]):
        raise CompileError("wanted inputs that the core computes")
    place = lowering.views[number].value
    return place, lowering.values[place]


def _row(shape: Shape) -> dict[str, Any]:
    """Return the extents of a value of one row."""
    return {"height": 1, "width": math.prod(shape[:-1]), "channels": shape[-1]}


def _add(lowering: Lowering, number: int, value: Value) -> None:
    """Add the value of a tensor."""
    lowering.values.append(replace(value, name=lowering.graph.tensors[number].name))
    lowering.views[number] = View(len(lowering.values) - 1, 0, 0, 1, value.width)


OPERATORS = tuple(
    of_step(kind, shapes, kernel, lower)
    for kind, shapes, kernel, lower in (
        ("TakenRows", _taken_shapes, _run_taken, _lower_taken),
        ("JoinedRows", _joined_shapes, _run_joined, _lower_joined),
    )
)
