"""Operators that the vector unit runs alone."""

from dataclasses import replace

from celosia.hw.arch.isa import Window
from celosia.sw.compiler.lowering import ACTIVATIONS, Lowering
from celosia.sw.compiler.quantize import (
    activation_range,
    addition_scalings,
    average_scaling,
    ends,
    identity_scaling,
    mean_scaling,
    rescaling,
)
from celosia.sw.compiler.spec import CompileError, Sum
from celosia.sw.compiler.windows import Axis, rectangles
from celosia.sw.graph import Operation

__all__ = ["add", "mean", "pointwise", "pooling"]


def add(lowering: Lowering, operation: Operation, label: str) -> None:
    """Lower ADD of two values of one shape."""
    graph, number = lowering.graph, operation.outputs[0]
    numbers = operation.inputs[:2]
    for source in numbers:
        if source not in lowering.views:
            raise CompileError(f"{label}: wanted two inputs that the core computes")
        if not lowering.covers(lowering.views[source]):
            lowering.copy(operation, source, lowering.views[source])
    first, second, output = (graph.tensors[n].quantization for n in (*numbers, number))
    assert first and second and output
    activation = operation.attributes["activation"]
    left, right = (lowering.values[lowering.views[n].value] for n in numbers)
    shape = left.height, left.width, left.channels
    if shape != (right.height, right.width, right.channels):
        raise CompileError(f"{label}: wanted inputs laid out alike")
    sources = [lowering.views[n].value for n in numbers]
    name = graph.tensors[number].name or f"add_{operation.place}"
    scalings = addition_scalings(first, second, output, activation)
    tail = lowering.tail(number, scalings[2])
    lowering.layers.append(
        Sum(
            name=name,
            kind="+".join(["ADD", *tail.kinds]),
            place=operation.place,
            source=sources[0],
            second=sources[1],
            result=lowering.add(tail.last, shape),
            extents=shape,
            scalings=(*scalings[:2], tail.scaling),
            table=tail.table,
        )
    )


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
        raise CompileError(f"{label}: wanted the mean over axes (1, 2) of 4, got axes {got}")
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
