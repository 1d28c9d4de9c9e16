"""Operators that the vector unit runs alone."""

from dataclasses import replace

from celosia.hw.arch.isa import Window
from celosia.sw.compiler.errors import CompileError
from celosia.sw.compiler.lowering import ACTIVATIONS, Lowering
from celosia.sw.compiler.quantize import (
    activation_range,
    average_scaling,
    ends,
    identity_scaling,
    mean_scaling,
    rescaling,
)
from celosia.sw.compiler.windows import Axis, rectangles
from celosia.sw.ir.graph import Operation

__all__ = ["mean", "pointwise", "pooling"]


def pooling(lowering: Lowering, operation: Operation, label: str) -> None:
    """Lower MAX_POOL_2D and AVERAGE_POOL_2D that stand alone."""
    view, number = lowering.view(operation), operation.outputs[0]
    _, output = ends(lowering.graph, operation)
    low, high = activation_range(operation.attributes["activation"], output)
    axes = lowering.windows(operation, (view.height, view.width))
    windows = rectangles(axes, view.top, view.left)
    scalings, combine = [identity_scaling(low, high)], Window.MAX
    if operation.kind == "AVERAGE_POOL_2D":
        counts = sorted({w.size[0] * w.size[1] for w in windows})
        scalings = [average_scaling(label, count, low, high) for count in counts]
        windows = tuple(replace(w, parameters=counts.index(w.size[0] * w.size[1])) for w in windows)
        combine = Window.SUM
    lowering.vector(
        operation,
        number,
        operation.kind,
        view,
        windows,
        scalings,
        lowering.shapes[number],
        stride=operation.attributes["stride"],
        combine=combine,
    )


def mean(lowering: Lowering, operation: Operation, label: str) -> None:
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


def pointwise(lowering: Lowering, operation: Operation, label: str) -> None:
    """Lower RELU and its kind, and QUANTIZE."""
    view = lowering.view(operation)
    activation = operation.kind if operation.kind in ACTIVATIONS else "NONE"
    scaling = rescaling(*ends(lowering.graph, operation), activation)
    shape = view.height, view.width, lowering.values[view.value].channels
    windows = lowering.each(view)
    number = operation.outputs[0]
    lowering.vector(operation, number, operation.kind, view, windows, [scaling], shape)
