"""Operators that join tensors, or take them apart, along one dimension."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tflite

from celosia.sw.ir.graph import Operation
from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.lowering import Lowering, View, add_sum
from celosia.sw.layers.node import ModelError, Node
from celosia.sw.layers.quantize import exact_scaling
from celosia.sw.layers.record import Attributes, Shape, mover, require
from celosia.sw.layers.spec import Sum
from celosia.sw.operators import gradients


def _all_inputs(node: Node) -> None:
    node.require_inputs(len(node.inputs) or 1)


def _read_concatenation(node: Node) -> dict[str, Any]:
    _all_inputs(node)
    options = node.require_options(tflite.ConcatenationOptions)
    if options.FusedActivationFunction():
        raise ModelError("fused activations are not supported")
    return {"axis": node.axis(options.Axis())}


def _read_pack(node: Node) -> dict[str, Any]:
    _all_inputs(node)
    return {"axis": node.axis(node.require_options(tflite.PackOptions).Axis(), node.rank + 1)}


def _read_unpack(node: Node) -> dict[str, Any]:
    node.require_inputs(1, results=None)
    return {"axis": node.axis(node.require_options(tflite.UnpackOptions).Axis())}


def _concatenation_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    shapes = [operand.shape for operand in operator.sources]
    axis = attributes.integer("axis", 0, len(shapes[0]) - 1)
    rests = {shape[:axis] + shape[axis + 1 :] for shape in shapes}
    alike = len(rests) == 1 and len({len(shape) for shape in shapes}) == 1
    require(alike, f"inputs that differ along axis {axis} alone", shapes)
    total = sum(shape[axis] for shape in shapes)
    return [(*shapes[0][:axis], total, *shapes[0][axis + 1 :])]


def _pack_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    shapes = [operand.shape for operand in operator.sources]
    require(len(set(shapes)) == 1, "inputs of one shape", " and ".join(map(str, shapes)))
    axis = attributes.integer("axis", 0, len(shapes[0]))
    return [(*shapes[0][:axis], len(shapes), *shapes[0][axis:])]


def _unpack_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    shape = operator.sources[0].shape
    axis = attributes.integer("axis", 0, len(shape) - 1)
    # As many as there are: that many results would do, and no more are made.
    count = len(operator.results)
    require(shape[axis] == count, f"{shape[axis]} results", count)
    return [shape[:axis] + shape[axis + 1 :]] * shape[axis]


def _whole(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the inputs with samples as first dimension, constants repeated for each."""
    samples = max(
        [1, *(len(a) for a, x in zip(arrays, operator.sources, strict=True) if not x.data)]
    )
    return [
        array if operand.data is None else np.broadcast_to(array, (samples, *operand.shape))
        for array, operand in zip(arrays, operator.sources, strict=True)
    ]


def _run_join(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    join = np.stack if operator.kind == "PACK" else np.concatenate
    return [join(_whole(operator, arrays), axis=operator.attributes["axis"] + 1)]


def _run_unpack(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return list(np.moveaxis(arrays[0], operator.attributes["axis"] + 1, 0))


def _lower(lowering: Lowering, operation: Operation) -> None:
    """Lower CONCATENATION of images.

    The layers before write channels side by side, as they do the pixels of one row. Copies put rows
    and columns into frames of zeros, which are added.
    """
    graph, number = lowering.graph, operation.outputs[0]
    extents, target = graph.tensors[number].shape, lowering.shapes[number]
    along = len(extents), operation.attributes["axis"]
    side = {(4, 1): 0, (4, 2): 1, (4, 3): 2, (3, 1): 1, (3, 2): 2, (2, 1): 2}.get(along)
    output = graph.tensors[number].quantization
    fill = output.zero_point if output else 0
    if side is None or len(operation.inputs) < 2:
        raise CompileError("wanted two or more along rows, columns or channels")
    if extents[0] != lowering.items:
        raise CompileError(f"wanted a batch of {lowering.items}, got shape {extents}")
    sizes = []
    for source in operation.inputs:
        if source not in lowering.views:
            raise CompileError("wanted inputs that are computed")
        view = lowering.views[source]
        shape = lowering.extents(source)
        sizes.append(shape[side])
        others = [n for axis, n in enumerate(shape) if axis != side]
        if others != [n for axis, n in enumerate(target) if axis != side]:
            raise CompileError(f"wanted inputs laid out alike, got {shape} for {target}")
        if lowering.values[view.value].fill != fill:
            raise CompileError("wanted zero points around its inputs")
    if sum(sizes) != target[side]:
        raise CompileError(f"wanted inputs of {target[side]} together, got {sizes}")
    if side == 2:
        _side_by_side(lowering, operation, target)
        return
    if along == (3, 1) and all(lowering.covers(lowering.views[n]) for n in operation.inputs):
        _side_by_side(lowering, operation, (1, 1, target[1] * target[2]))
        return
    centred = exact_scaling(-fill, 0)
    scalings = centred, centred, exact_scaling(0, fill)
    before, total = 0, -1
    for source, size in zip(operation.inputs, sizes, strict=True):
        view = lowering.views[source]
        top, left = (before, 0) if side == 0 else (0, before)
        frame = View(view.value, view.top - top, view.left - left, *target[:2])
        original = lowering.views[source]
        framed = lowering.copy(operation, number, frame)
        lowering.views[source] = original
        before += size
        if total < 0:
            total = framed
        else:
            last = before == sum(sizes)
            total = add_sum(lowering, operation, [total, framed], scalings, tail=last)


def _side_by_side(lowering: Lowering, operation: Operation, shape: tuple[int, int, int]) -> None:
    """Let the layers of the inputs write their channels into the result; copy others there.

    Inputs of several pixels for a result of one are rows: their pixels count as channels.
    """
    number, before = operation.outputs[0], 0
    views = [lowering.views[source] for source in operation.inputs]
    result = lowering.add(number, shape)
    for source, view in zip(operation.inputs, views, strict=True):
        pixels, channels = view.height * view.width, lowering.values[view.value].channels
        row = pixels != shape[0] * shape[1]
        maker = None if row else _maker(lowering, operation, source)
        if maker is None:
            lowering.views.pop(number)
            seen = (1, 1, pixels * channels) if row else None
            start = View(view.value, 0, 0, 1, 1) if row else view
            lowering.vector(operation, start, seen=seen)
            lowering.views[number] = View(result, 0, 0, *shape[:2])
            maker = len(lowering.layers) - 1
        layer = lowering.layers[maker]
        assert not isinstance(layer, Sum)
        lowering.layers[maker] = replace(layer, result=result, first=before)
        before += pixels * channels if row else channels


def _maker(lowering: Lowering, operation: Operation, source: int) -> int | None:
    """Return the layer that makes a tensor, if it can write into the result of its one reader."""
    view = lowering.views[source]
    shown = [number for number, other in lowering.views.items() if other.value == view.value]
    alone = lowering.follower(source) is operation and shown == [source]
    if not alone or operation.inputs.count(source) > 1 or not lowering.covers(view):
        return None
    makers = [n for n, layer in enumerate(lowering.layers) if layer.result == view.value]
    if len(makers) != 1 or isinstance(lowering.layers[makers[0]], Sum):
        return None
    return makers[0]


OPERATORS = (
    mover(
        "CONCATENATION",
        _concatenation_shapes,
        _run_join,
        "any axis, constants",
        read=_read_concatenation,
        lower=_lower,
        gradient=gradients.concatenation,
        core="two or more along rows, columns or channels",
    ),
    mover("PACK", _pack_shapes, _run_join, "any axis", read=_read_pack),
    mover("UNPACK", _unpack_shapes, _run_unpack, "any axis", read=_read_unpack),
)
