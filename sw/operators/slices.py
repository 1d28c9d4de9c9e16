"""Operators that cut tensors: slices and splits."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tflite

from celosia.sw.ir.graph import Operation
from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.lowering import Lowering, View
from celosia.sw.layers.node import ModelError, Node
from celosia.sw.layers.products import MOST_MOVED, add_product
from celosia.sw.layers.quantize import exact_scaling
from celosia.sw.layers.record import Attributes, Shape, mover, require
from celosia.sw.layers.shapes import Axis, rectangles

#: First element, count and stride along rows, columns or channels.
_Way = tuple[int, int, int]


def _sliced(
    shape: tuple[int, ...], numbers: Sequence[Sequence[int]], masks: Sequence[int]
) -> dict[str, Any]:
    """Return the first element, count and stride of a slice in each dimension.

    - ``shape``: of the input.
    - ``numbers``: begin, end and stride as in the file; further dimensions are taken whole.
    - ``masks``: bits by dimension: begin left out, end left out, dimension dropped.

    Returns ``begin``, ``count`` and ``stride`` for each dimension, and ``dropped`` ones.
    """
    firsts, counts, steps = [], [], []
    for axis, extent in enumerate(shape):
        if axis >= len(numbers[0]):
            taken, step = range(extent), 1
        else:
            first, last, step = (values[axis] for values in numbers)
            open_first, open_last, drops = (bool(mask >> axis & 1) for mask in masks)
            if drops:
                last = first + 1 if first != -1 else extent
                open_last = False
            ends = slice(None if open_first else first, None if open_last else last, step)
            taken = range(extent)[ends]
        firsts.append(taken.start)
        counts.append(len(taken))
        steps.append(step)
    dropped = tuple(axis for axis in range(len(shape)) if masks[2] >> axis & 1)
    return {
        "begin": tuple(firsts),
        "count": tuple(counts),
        "stride": tuple(steps),
        "dropped": dropped,
    }


class _Masks(NamedTuple):
    """Bits of a STRIDED_SLICE, one for each number of its begin."""

    begin: int
    end: int
    shrink: int
    ellipsis: int
    new_axis: int

    def has(self, mask: str, position: int) -> bool:
        return bool(getattr(self, mask) >> position & 1)


def _spelt_out(
    rank: int, numbers: Sequence[Sequence[int]], masks: _Masks
) -> tuple[list[list[int]], list[int], tuple[int, ...]]:
    """Return begin, end and strides for dimensions of the input, without ellipsis and new axes.

    - ``numbers`` (result): begin, end and strides of the first dimensions.
    - ``masks`` (result): bits for these: begin left out, end left out, dimension dropped.
    - ``added`` (result): positions of the new dimensions in the result.
    """
    count = len(numbers[0])
    dots = [n for n in range(count) if masks.has("ellipsis", n)]
    new = [n for n in range(count) if masks.has("new_axis", n) and n not in dots]
    covered = rank - (count - len(new) - len(dots))
    if len(dots) > 1 or covered < len(dots):
        raise ModelError(f"wanted begin, end and strides of {rank} dimensions, got {numbers}")
    spelt: list[list[int]] = [[], [], []]
    bits, added, result = [0, 0, 0], list[int](), 0
    for position in range(count):
        if position in new:
            added.append(result)
            result += 1
            continue
        is_ellipsis = position in dots
        for _ in range(covered if is_ellipsis else 1):
            axis = len(spelt[0])
            for side, entry in enumerate(spelt):
                entry.append((0, 0, 1)[side] if is_ellipsis else numbers[side][position])
            names = ("begin", "end", "shrink")
            taken = [
                name != "shrink" if is_ellipsis else masks.has(name, position) for name in names
            ]
            bits = [mask | one << axis for mask, one in zip(bits, taken, strict=True)]
            result += not taken[2]
    return spelt, bits, tuple(added)


def _read_strided_slice(node: Node) -> dict[str, Any]:
    node.require_inputs(4)
    roles = ((1, "begin"), (2, "end"), (3, "strides"))
    numbers = [node.indices(position, role) for position, role in roles]
    options = node.require_options(tflite.StridedSliceOptions)
    if len({len(values) for values in numbers}) != 1:
        raise ModelError(f"wanted begin, end and strides of {node.rank} dimensions, got {numbers}")
    if 0 in numbers[2]:
        raise ModelError(f"wanted strides other than 0, got {numbers[2]}")
    masks = _Masks(
        options.BeginMask(),
        options.EndMask(),
        options.ShrinkAxisMask(),
        options.EllipsisMask(),
        options.NewAxisMask(),
    )
    shape = node.tensor(0).shape
    spelt, bits, added = _spelt_out(node.rank, numbers, masks)
    if options.Offset():
        # Ends count from the begin. LiteRT's kernel then has no open ends or new axes.
        if masks.end or masks.ellipsis or added or len(spelt[0]) < node.rank:
            raise ModelError("wanted ends of all dimensions, as offsets from begin")
        begins = [n + extent * (n < 0) for n, extent in zip(spelt[0], shape, strict=False)]
        spelt[1] = [a + b for a, b in zip(begins, spelt[1], strict=True)]
    return {**_sliced(shape, spelt, bits), "added": added}


def _read_slice(node: Node) -> dict[str, Any]:
    """Read SLICE: a STRIDED_SLICE of stride 1."""
    node.require_inputs(3)
    shape, rank = node.tensor(0).shape, node.rank
    first, count = node.indices(1, "begin"), node.indices(2, "size")
    if len(first) != rank or len(count) != rank or min(first, default=0) < 0:
        raise ModelError(f"wanted begin and size of {rank} dimensions, got {first} and {count}")
    zipped = zip(shape, first, count, strict=True)
    taken = [extent - start if n == -1 else n for extent, start, n in zipped]
    ends = [start + n for start, n in zip(first, taken, strict=True)]
    if any(n < 0 or end > e for n, end, e in zip(taken, ends, shape, strict=True)):
        raise ModelError(f"wanted a slice inside {shape}, got {first} and {count}")
    return {**_sliced(shape, (first, ends, [1] * rank), [0, 0, 0]), "added": ()}


def _slice_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    shape = operator.sources[0].shape
    ways = [
        attributes.integers(name, len(shape), -least, 1 << 31)
        for name, least in (("begin", 0), ("count", 0), ("stride", 1 << 31))
    ]
    for extent, begin, count, stride in zip(shape, *ways, strict=True):
        last = begin + (count - 1) * stride
        good = stride != 0 and (count == 0 or (begin < extent and 0 <= last < extent))
        require(good, f"a slice of {extent} elements", f"{count} from {begin}")
    dropped = attributes.axes("dropped", len(shape))
    require(all(ways[1][axis] == 1 for axis in dropped), "single elements in dropped dimensions")
    result = [n for axis, n in enumerate(ways[1]) if axis not in dropped]
    for position in sorted(attributes.axes("added", 2 * len(shape) + 1)):
        require(position <= len(result), f"new dimensions from 0 to {len(result)}", position)
        result.insert(position, 1)
    return [tuple(result)]


def _run_slice(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    attributes = operator.attributes
    ways = zip(attributes["begin"], attributes["count"], attributes["stride"], strict=True)
    stops = [(begin, begin + count * stride, stride) for begin, count, stride in ways]
    slices = [slice(begin, stop if stop >= 0 else None, step) for begin, stop, step in stops]
    taken = arrays[0][(slice(None), *slices)]
    return [taken.reshape(len(taken), *operator.results[0].shape)]


def _read_split(node: Node) -> dict[str, Any]:
    node.require_inputs(2, results=None)
    (number,) = node.indices(0, "axis")[:1] or [0]
    return {"axis": node.axis(number, len(node.tensor(1).shape))}


def _infer_split_sizes(node: Node) -> list[Shape]:
    """Return the shapes of the parts; one of size -1 takes the rest."""
    node.require_inputs(3, results=None)
    (number,) = node.indices(2, "axis")[:1] or [0]
    shape, axis, sizes = node.tensor(0).shape, node.axis(number), node.indices(1, "sizes")
    left = shape[axis] - sum(size for size in sizes if size != -1)
    parts = [left if size == -1 else size for size in sizes]
    if len(parts) != len(node.outputs) or sum(parts) != shape[axis] or min(parts) < 0:
        raise ModelError(f"wanted {len(node.outputs)} parts of {shape[axis]}, got {sizes}")
    return [(*shape[:axis], part, *shape[axis + 1 :]) for part in parts]


def _read_split_sizes(node: Node) -> dict[str, Any]:
    """Read SPLIT_V, whose parts are of any sizes."""
    node.require_inputs(3, results=None)
    (number,) = node.indices(2, "axis")[:1] or [0]
    axis = node.axis(number)
    sizes = node.indices(1, "sizes")
    lengths = [
        output.shape[axis] if len(output.shape) == node.rank else 0 for output in node.outputs
    ]
    pairs = zip(sizes, lengths, strict=False)
    if len(sizes) != len(lengths) or any(a not in (-1, b) for a, b in pairs):
        raise ModelError(f"wanted results of {sizes} along axis {axis}, got {lengths}")
    return {"axis": axis}


def _split_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    shape = operator.sources[0].shape
    axis = attributes.integer("axis", 0, len(shape) - 1)
    shapes = [result.shape for result in operator.results]
    require(
        all(len(result) == len(shape) for result in shapes), f"results of {len(shape)} dimensions"
    )
    parts = [result[axis] for result in shapes]
    if operator.kind == "SPLIT":
        parts = [shape[axis] // len(shapes)] * len(shapes)
    require(sum(parts) == shape[axis], f"parts that make up {shape[axis]}", parts)
    return [(*shape[:axis], part, *shape[axis + 1 :]) for part in parts]


def _run_split(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    axis = operator.attributes["axis"]
    ends = np.cumsum([result.shape[axis] for result in operator.results])[:-1]
    return np.split(arrays[0], ends.tolist(), axis=axis + 1)


def _lower_slice(lowering: Lowering, operation: Operation) -> None:
    """Lower SLICE and STRIDED_SLICE of an image, forwards, or of channels."""
    attributes = operation.attributes
    ways = list(zip(attributes["begin"], attributes["count"], attributes["stride"], strict=True))
    extent = lowering.graph.tensors[operation.inputs[0]].shape[0]
    changed = attributes["dropped"] or attributes["added"]
    if ways[0] != (0, extent, 1) or changed or min(attributes["stride"]) < 1:
        raise CompileError("wanted all samples, forwards, and no dimension removed or added")
    _take(lowering, operation, operation.outputs[0], _three(ways[1:]))


def _lower_split(lowering: Lowering, operation: Operation) -> None:
    """Lower SPLIT and SPLIT_V of images along rows or columns, or of channels."""
    graph, axis = lowering.graph, operation.attributes["axis"]
    if axis == 0:
        raise CompileError("wanted a split of other dimensions than the batch")
    first = 0
    for number in operation.outputs:
        shape = graph.tensors[number].shape
        ways = [(0, extent, 1) for extent in shape[1:]]
        ways[axis - 1] = (first, shape[axis], 1)
        _take(lowering, operation, number, _three(ways))
        first += shape[axis]


def _three(ways: list[_Way]) -> list[_Way]:
    """Return first element, count and stride along rows, columns and channels."""
    if len(ways) not in (1, 2, 3):
        raise CompileError(f"wanted an image, a row or channels, got {len(ways) + 1} dimensions")
    return [*[(0, 1, 1)] * (3 - len(ways)), *ways]


def _take(lowering: Lowering, operation: Operation, number: int, ways: list[_Way]) -> None:
    """Make a tensor of a slice of an operator's operand."""
    position = 1 if operation.kind == "SPLIT" else 0
    source = operation.inputs[position]
    if source not in lowering.views:
        raise CompileError("wanted an input that is computed")
    view = lowering.views[source]
    value = lowering.values[view.value]
    extents = view.height, view.width, value.channels
    shape = lowering.graph.tensors[source].shape
    natural = (1,) * (4 - len(shape)) + shape[1:]
    seen = None
    if extents != natural:
        vector = value.height * value.width == 1 and value.channels == math.prod(natural)
        if not vector or not lowering.covers(view):
            raise CompileError(f"wanted an input laid out as {natural}, got {extents}")
        high, wide, depth = natural
        extents = seen = high, wide, depth
    rows, columns, channels = ways
    shape = rows[1], columns[1], extents[2]
    complete = all(way == (0, n, 1) for way, n in zip(ways[:2], extents, strict=False))
    every = channels == (0, extents[2], 1)
    if not every and extents[2] * channels[1] > MOST_MOVED:
        raise CompileError(f"wanted at most {MOST_MOVED} ones to move channels")
    if every or seen or not complete:
        axes = [
            Axis(first, step, count, 1, first + (count - 1) * step + 1)
            for first, count, step in (rows, columns)
        ]
        lowering.vector(
            operation,
            view,
            number=number,
            windows=rectangles(axes, view.top, view.left),
            shape=shape,
            seen=seen,
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


_PARTS = "rows, columns or channels of an image, a row or a vector; of channels up to 16,384 pairs"
_SLICE: dict[str, Any] = {"lower": _lower_slice, "operands": (0,)}
_SPLIT: dict[str, Any] = {"lower": _lower_split, "core": _PARTS}
_CONSTANT = "constant numbers"

OPERATORS = (
    mover("SLICE", _slice_shapes, _run_slice, _CONSTANT, read=_read_slice, core=_PARTS, **_SLICE),
    mover(
        "STRIDED_SLICE",
        _slice_shapes,
        _run_slice,
        _CONSTANT,
        read=_read_strided_slice,
        core=f"{_PARTS}; any strides forwards",
        **_SLICE,
    ),
    mover(
        "SPLIT",
        _split_shapes,
        _run_split,
        "any axis, equal parts",
        read=_read_split,
        operands=(1,),
        **_SPLIT,
    ),
    mover(
        "SPLIT_V",
        _split_shapes,
        _run_split,
        "any axis, any parts",
        read=_read_split_sizes,
        infer=_infer_split_sizes,
        operands=(0,),
        **_SPLIT,
    ),
)
