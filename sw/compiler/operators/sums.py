"""Operators that add two values: ADD, SUB, and CONCATENATION of values with room for one another."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from celosia.sw.compiler.errors import CompileError
from celosia.sw.compiler.lowering import Lowering, View
from celosia.sw.compiler.operators.products import MOST_MOVED, add_product
from celosia.sw.compiler.operators.tables import function
from celosia.sw.compiler.quantize import addition_scalings, exact_scaling, identity_scaling
from celosia.sw.compiler.spec import Sum
from celosia.sw.compiler.tables import tabulated
from celosia.sw.compiler.values import Scaling
from celosia.sw.ir.graph import Operation

__all__ = ["add", "concatenate"]

#: Each int8 to -1 - x, by its bits: what leaves room for the negative of -128.
_COMPLEMENT = ~np.arange(256, dtype=np.uint8).view(np.int8)


def add(lowering: Lowering, operation: Operation, label: str) -> None:
    """Lower ADD and SUB of two values of one shape, or of a value and a number.

    SUB adds the complement, which is less than the negative by one.
    """
    if tabulated(operation):
        function(lowering, operation, label)
        return
    graph, numbers = lowering.graph, operation.inputs[:2]
    for source in numbers:
        if source not in lowering.views:
            raise CompileError("wanted two inputs that are computed")
    shapes = [_shape(lowering, lowering.views[number]) for number in numbers]
    if shapes[0] != shapes[1]:
        raise CompileError(f"wanted inputs laid out alike, got {shapes[0]}, {shapes[1]}")
    for source in numbers[: 1 if operation.kind == "SUB" else 2]:
        if not lowering.covers(lowering.views[source]):
            lowering.copy(operation, source, lowering.views[source])
    first, second, output = (
        graph.tensors[n].quantization for n in (*numbers, operation.outputs[0])
    )
    assert first and second and output
    scalings = addition_scalings(first, second, output, operation.attributes["activation"])
    sources = [lowering.views[n].value for n in numbers]
    if operation.kind == "SUB":
        sources[1] = _complement(lowering, operation)
        bias = np.array([1 + second.zero_point], np.int64)
        scalings = scalings[0], replace(scalings[1], bias=bias), scalings[2]
    _sum(lowering, operation, sources, scalings)


def concatenate(lowering: Lowering, operation: Operation, label: str) -> None:
    """Lower CONCATENATION of images: each is put into a frame of zeros, and these are added.

    Rows and columns are put there by copies, channels by a product with ones.
    """
    graph, number = lowering.graph, operation.outputs[0]
    extents, wanted = graph.tensors[number].shape, lowering.shapes[number]
    along = len(extents), operation.attributes["axis"]
    place = {(4, 1): 0, (4, 2): 1, (4, 3): 2, (2, 1): 2}.get(along)
    output = graph.tensors[number].quantization
    assert output
    if place is None or len(operation.inputs) < 2:
        raise CompileError("wanted two or more along rows, columns or channels")
    if extents[0] != lowering.items:
        raise CompileError(f"wanted a batch of {lowering.items}, got shape {extents}")
    sizes = []
    for source in operation.inputs:
        if source not in lowering.views:
            raise CompileError("wanted inputs that are computed")
        view = lowering.views[source]
        shape = _shape(lowering, view)
        sizes.append(shape[place])
        others = [n for axis, n in enumerate(shape) if axis != place]
        if others != [n for axis, n in enumerate(wanted) if axis != place]:
            raise CompileError(f"wanted inputs laid out alike, got {shape} for {wanted}")
        if lowering.values[view.value].fill != output.zero_point:
            raise CompileError("wanted zero points around its inputs")
    if sum(sizes) != wanted[place] or (place == 2 and max(sizes) * wanted[2] > MOST_MOVED):
        raise CompileError(f"wanted at most {MOST_MOVED} ones to move channels")
    centred = exact_scaling(-output.zero_point, 0)
    scalings = centred, centred, exact_scaling(0, output.zero_point)
    before, total = 0, -1
    for source, size in zip(operation.inputs, sizes, strict=True):
        view = lowering.views[source]
        if place == 2:
            framed = _channels(lowering, operation, view, before, wanted)
        else:
            top, left = (before, 0) if place == 0 else (0, before)
            frame = View(view.value, view.top - top, view.left - left, *wanted[:2])
            kept = lowering.views[source]
            framed = lowering.copy(operation, number, frame)
            lowering.views[source] = kept
        before += size
        if total < 0:
            total = framed
        else:
            last = before == sum(sizes)
            total = _sum(lowering, operation, [total, framed], scalings, tail=last)


def _shape(lowering: Lowering, view: View) -> tuple[int, int, int]:
    return view.height, view.width, lowering.values[view.value].channels


def _complement(lowering: Lowering, operation: Operation) -> int:
    """Return a new value with the complement of the second input."""
    number = operation.inputs[1]
    view = lowering.views[number]
    windows, scalings = lowering.each(view), [identity_scaling()]
    shape = _shape(lowering, view)
    lowering.vector(
        operation, number, "COMPLEMENT", view, windows, scalings, shape, table=_COMPLEMENT
    )
    value, lowering.views[number] = lowering.views[number].value, view
    return value


def _channels(
    lowering: Lowering,
    operation: Operation,
    view: View,
    before: int,
    wanted: tuple[int, int, int],
) -> int:
    """Return a new value with the channels of a view behind ``before`` others, and zeros."""
    count, number = lowering.values[view.value].channels, operation.outputs[0]
    weights = np.zeros((wanted[2], 1, 1, count), np.int8)
    weights[before : before + count, 0, 0] = np.eye(count, dtype=np.int8)
    zero_point = lowering.values[view.value].fill
    own = weights.sum(axis=(1, 2, 3), dtype=np.int64)
    scaling = exact_scaling(-zero_point * own, zero_point)
    return add_product(
        lowering,
        operation,
        view,
        weights,
        scaling,
        result=lowering.add(number, wanted),
        grid=wanted[:2],
    )


def _sum(
    lowering: Lowering,
    operation: Operation,
    sources: Sequence[int],
    scalings: tuple[Scaling, Scaling, Scaling],
    *,
    tail: bool = True,
) -> int:
    """Add the sum of two values, together with what follows it if ``tail``; return its value."""
    number, place = operation.outputs[0], operation.place
    value = lowering.values[sources[0]]
    shape = value.height, value.width, value.channels
    name = lowering.graph.tensors[number].name or f"{operation.kind.lower()}_{place}"
    last, scaling, kinds, table = number, scalings[2], [operation.kind], None
    if tail:
        found = lowering.tail(number, scaling)
        last, scaling, table = found.last, found.scaling, found.table
        kinds += found.kinds
    lowering.layers.append(
        Sum(
            name=name,
            kind="+".join(kinds),
            place=place,
            source=sources[0],
            second=sources[1],
            result=lowering.add(last, shape),
            extents=shape,
            scalings=(*scalings[:2], scaling),
            table=table,
        )
    )
    return lowering.layers[-1].result
