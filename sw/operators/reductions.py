"""Operators that reduce some dimensions to one element each."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tflite

from celosia.hw.arch.isa import Window
from celosia.sw.compiler.errors import CompileError
from celosia.sw.compiler.lowering import Lowering
from celosia.sw.compiler.quantize import ends, mean_scaling
from celosia.sw.compiler.windows import Axis, rectangles
from celosia.sw.ir.graph import Operation
from celosia.sw.ir.parts import HostOperator
from celosia.sw.operators.attributes import Attributes
from celosia.sw.operators.fixed_point import finished, meaning, quotients, times
from celosia.sw.operators.node import Node
from celosia.sw.operators.record import Operator, Shape

__all__ = ["OPERATORS", "read_axes", "reduced"]


def read_axes(node: Node) -> dict[str, Any]:
    """Return axes, sorted and counted from the first, and whether they stay as 1."""
    node.require_inputs(2)
    options = node.options(tflite.ReducerOptions)
    return {"axes": node.axes(1), "keep_dims": bool(options.KeepDims()) if options else False}


def reduced(operator: HostOperator, said: Attributes) -> list[Shape]:
    """Return the shape of a result without the dimensions ``axes``: shape rule."""
    shape = operator.sources[0].shape
    axes = said.axes("axes", len(shape))
    if said.flag("keep_dims"):
        return [tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))]
    return [tuple(extent for axis, extent in enumerate(shape) if axis not in axes)]


def _lower_mean(lowering: Lowering, operation: Operation) -> None:
    """Lower MEAN over rows and columns."""
    graph, number = lowering.graph, operation.outputs[0]
    rank = len(graph.tensors[operation.inputs[0]].shape)
    if rank != 4 or operation.attributes["axes"] != (1, 2):
        got = f"{operation.attributes['axes']} of {rank} dimensions"
        raise CompileError(f"wanted the mean over axes (1, 2) of 4, got axes {got}")
    view = lowering.view(operation)
    scaling = mean_scaling(*ends(graph, operation), view.height * view.width)
    axes = [Axis(0, 1, 1, extent, extent) for extent in (view.height, view.width)]
    windows = rectangles(axes, view.top, view.left)
    shape = 1, 1, lowering.values[view.value].channels
    lowering.vector(
        operation, number, operation.kind, view, windows, [scaling], shape, combine=Window.SUM
    )


def _run_mean(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    (source,), (output,), axes = operator.sources, operator.results, operator.attributes["axes"]
    count = int(np.prod([source.shape[axis] for axis in axes], dtype=np.int64))
    scaling = mean_scaling(meaning(source), meaning(output), count)
    sums = arrays[0].sum(axis=tuple(axis + 1 for axis in axes), dtype=np.int64) + scaling.bias[0]
    values = times(sums, scaling.multiplier[0], scaling.left[0] - scaling.right[0])
    (result,) = finished(values, output)
    return [result.reshape(len(result), *output.shape)]


def _read_greatest(node: Node) -> dict[str, Any]:
    node.require_inputs(2)
    (given,) = node.indices(1, "axis")[:1] or [0]
    return {"axis": node.axis(given)}


def _greatest_shapes(operator: HostOperator, said: Attributes) -> list[Shape]:
    shape = operator.sources[0].shape
    axis = said.whole("axis", 0, len(shape) - 1)
    return [shape[:axis] + shape[axis + 1 :]]


def _run_greatest(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the index of the greatest element along an axis, the first of equals."""
    indices = arrays[0].argmax(axis=operator.attributes["axis"] + 1)
    return [indices.astype(operator.results[0].dtype)]


OPERATORS = (
    Operator(
        kind="ARG_MAX",
        read=_read_greatest,
        shapes=_greatest_shapes,
        operands=(0,),
        types=(("int8",), ("int32", "int64")),
        kernel=_run_greatest,
        host="any axis, to int32 or int64",
    ),
    Operator(
        kind="MEAN",
        read=read_axes,
        shapes=reduced,
        operands=(0,),
        kernel=_run_mean,
        lower=_lower_mean,
        factors=quotients,
        core="over rows and columns of an image",
        host="any axes",
    ),
)
