"""Operators that move no elements: other shapes, and margins around images."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tflite

from celosia.sw.ir.graph import Operation
from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.lowering import Lowering, View
from celosia.sw.layers.node import ModelError, Node
from celosia.sw.layers.record import ANY, EXTENT, Attributes, Operator, Shape, require
from celosia.sw.layers.shapes import OF_BYTES, OF_ROWS, RESHAPES
from celosia.sw.layers.spec import Windows
from celosia.sw.operators import gradients


def _lower_reshape(lowering: Lowering, operation: Operation) -> None:
    """Lower RESHAPE: the same bytes, moved only out of padding, or where a vector becomes an image.

    An image that becomes one row is copied if products or transposes of heads follow, which read
    only rows. Raises CompileError for images that become images of another shape.
    """
    number = operation.outputs[0]
    view = lowering.view(operation)
    if not lowering.covers(view):
        lowering.copy(operation, number, view)
        view = lowering.views[number]
    value = lowering.values[view.value]
    shape, got = lowering.shapes[number], (value.height, value.width, value.channels)
    image = len(lowering.graph.tensors[number].shape) == 4
    kinds = {reader.kind for reader in lowering.readers.get(number, [])}
    bytewise = kinds <= (OF_BYTES | OF_ROWS if value.height == 1 else OF_BYTES)
    row = shape[0] == 1 < value.height and shape[2] == value.channels
    if row and not image and lowering.leads_to(number, OF_ROWS):
        windows = tuple(
            Windows(result=(0, y * value.width), count=(1, value.width), source=(y, 0), size=(1, 1))
            for y in range(value.height)
        )
        lowering.vector(operation, view, shape=shape, windows=windows)
    elif shape != got and value.height == 1 and not image and "SLICE" in kinds:
        lowering.vector(operation, View(view.value, 0, 0, *shape[:2]), seen=shape)
    elif shape == got or not image or bytewise:
        lowering.views[number] = view
    elif value.height == 1:
        lowering.vector(operation, View(view.value, 0, 0, *shape[:2]), seen=shape)
    else:
        raise CompileError(f"wanted one shape of images, got {got} and {shape}")


def _lower_pad(lowering: Lowering, operation: Operation) -> None:
    """Lower PAD: a view that reaches past the value's edges, into zero points.

    Another constant takes a copy with that around it, and one that is read as a whole. Raises
    CompileError if other dimensions than rows and columns are padded.
    """
    number = operation.outputs[0]
    view = lowering.view(operation)
    before, after = operation.attributes["before"], operation.attributes["after"]
    if len(before) != 4 or before[0] or after[0] or before[3] or after[3]:
        raise CompileError(f"wanted padding of rows and columns, got {before, after}")
    constant = operation.attributes["value"]
    other = constant != lowering.values[view.value].fill
    if other:
        around = lowering.copy(operation, number, view)
        lowering.values[around] = replace(lowering.values[around], fill=constant)
        view = lowering.views[number]
    lowering.views[number] = View(
        view.value,
        view.top - before[1],
        view.left - before[2],
        view.height + before[1] + after[1],
        view.width + before[2] + after[2],
    )
    if other:
        lowering.copy(operation, number, lowering.views[number])


def _read_reshape(node: Node) -> dict[str, Any]:
    node.require_inputs(1, 2)
    result = node.outputs[0].shape
    if node.optional(1) is not None:
        shape = node.indices(1, "shape")
        known = len(shape) == len(result) and all(
            extent in (-1, length) for extent, length in zip(shape, result, strict=True)
        )
        if not known:
            raise ModelError(f"wanted a result of shape {tuple(shape)}, got {result}")
    return {}


def _infer_reshape(node: Node) -> list[Shape]:
    """Return the shape that the second input or the options name, -1 filled in."""
    node.require_inputs(1, 2)
    if node.optional(1) is not None:
        shape = node.indices(1, "shape")
    else:
        options = node.require_options(tflite.ReshapeOptions)
        shape = [options.NewShape(n) for n in range(options.NewShapeLength())]
    elements = node.tensor(0).elements
    if shape.count(-1) == 1:
        known = -math.prod(shape)
        shape[shape.index(-1)] = elements // known if known > 0 else 0
    if min(shape, default=1) < 1 or math.prod(shape) != elements:
        raise ModelError(f"wanted a shape of {elements} elements, got {tuple(shape)}")
    return [tuple(shape)]


def _infer_expand_dims(node: Node) -> list[Shape]:
    node.require_inputs(2)
    (number,) = node.indices(1, "axis")[:1] or [0]
    shape, axis = node.tensor(0).shape, node.axis(number, node.rank + 1)
    return [(*shape[:axis], 1, *shape[axis:])]


def _infer_squeeze(node: Node) -> list[Shape]:
    """Return the shape without the dimensions that the options name, or without all of 1."""
    node.require_inputs(1)
    shape, options = node.tensor(0).shape, node.options(tflite.SqueezeOptions)
    axes = [options.SqueezeDims(n) for n in range(options.SqueezeDimsLength())] if options else []
    dropped = {node.axis(axis) for axis in axes}
    if any(shape[axis] != 1 for axis in dropped):
        raise ModelError(f"wanted extents of 1 to drop, got {axes} of {shape}")
    ones = dropped or {axis for axis, extent in enumerate(shape) if extent == 1}
    return [tuple(extent for axis, extent in enumerate(shape) if axis not in ones)]


_INFER = {
    "EXPAND_DIMS": _infer_expand_dims,
    "RESHAPE": _infer_reshape,
    "SQUEEZE": _infer_squeeze,
}


def _read_same_extents(node: Node) -> dict[str, Any]:
    """Read SQUEEZE or EXPAND_DIMS; the shapes show where the dimensions of 1 are."""
    node.require_inputs(1, 2)
    shapes = node.tensor(0).shape, node.outputs[0].shape
    extents = [[extent for extent in shape if extent != 1] for shape in shapes]
    if extents[0] != extents[1]:
        raise ModelError(f"wanted the same extents but for 1, got {shapes[0]}, {shapes[1]}")
    return {}


def _reshape_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    shape, result = operator.sources[0].shape, operator.results[0].shape
    same = math.prod(shape) == math.prod(result)
    require(same, "as many elements in the result", f"{shape} to {result}")
    return [result]


def _run_reshape(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [arrays[0].reshape(len(arrays[0]), *operator.results[0].shape)]


def _read_pad(node: Node) -> dict[str, Any]:
    """Read PAD, which writes the zero point, or PADV2, which writes a constant."""
    node.require_inputs(2, 3)
    margins, source = node.margins(), node.tensor(0)
    value = source.quantization.zero_point if source.quantization else 0
    shape_input = node.optional(2)
    if shape_input is not None:
        constant = node.constant(2, (source.dtype.type,), "value")
        if constant.size != 1:
            raise ModelError(f"wanted one value, got {constant.size}")
        if source.quantization and not source.quantization.equals(shape_input.quantization):
            raise ModelError("wanted the same scale and zero point on both sides")
        value = constant.reshape(-1)[0].item()
    return margins | {"value": value}


def _pad_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    shape = operator.sources[0].shape
    margins = [attributes.integers(name, len(shape), 0, EXTENT) for name in ("before", "after")]
    if operator.sources[0].dtype == "float32":
        attributes.real("value")
    else:
        limits = np.iinfo(operator.sources[0].dtype)
        attributes.integer("value", int(limits.min), int(limits.max))
    return [tuple(a + n + b for a, n, b in zip(margins[0], shape, margins[1], strict=True))]


def _run_pad(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    attributes = operator.attributes
    margins = [(0, 0), *zip(attributes["before"], attributes["after"], strict=True)]
    return [np.pad(arrays[0], margins, constant_values=attributes["value"])]


_MOVED = "part of other layers; bytes move only if one row becomes an image"
_VIEWS: dict[str, Any] = {"types": ANY, "moves": True, "operands": (0,)}
_NUMBERS = ("int8", "uint8", "int16", "int32", "int64", "float32")
_PADS: dict[str, Any] = _VIEWS | {"types": (_NUMBERS, _NUMBERS)}

OPERATORS = (
    *(
        Operator(
            kind=kind,
            read=_read_reshape if kind == "RESHAPE" else _read_same_extents,
            infer=_INFER[kind],
            shapes=_reshape_shapes,
            kernel=_run_reshape,
            lower=_lower_reshape,
            gradient=gradients.reshape,
            core=_MOVED,
            host="any",
            **_VIEWS,
        )
        for kind in RESHAPES
    ),
    *(
        Operator(
            kind=kind,
            read=_read_pad,
            shapes=_pad_shapes,
            kernel=_run_pad,
            lower=_lower_pad,
            gradient=gradients.padded if kind == "PAD" else None,
            core=core,
            host="all dimensions",
            **_PADS,
        )
        for kind, core in (
            ("PAD", "rows and columns, no bytes move"),
            ("PADV2", "rows and columns, no bytes move if the value is the zero point"),
        )
    ),
)
