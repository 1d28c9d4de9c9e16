"""Readers of operators that move or repeat elements; most change only the record of their order."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from celosia.sw.frontend.onnx.builder import IMAGE, Builder, Value
from celosia.sw.frontend.onnx.operand import Operand, Unit
from celosia.sw.layers.node import ModelError

_Reader = Callable[[Builder, Unit], None]


def numbers(unit: Unit, index: int) -> list[int] | None:
    """Return the whole numbers of a constant input; None where it is left out."""
    operand = unit.inputs[index] if len(unit.inputs) > index else None
    if operand is None:
        return None
    if operand.data is None or operand.data.dtype.kind not in "iu":
        raise ModelError(f"wanted constant whole numbers, got {operand.name!r}")
    return [int(number) for number in operand.data.reshape(-1)]


def one_axis(axis: int, rank: int) -> int:
    """Return an axis counted from the first."""
    if not -rank <= axis < rank:
        raise ModelError(f"wanted an axis from {-rank} to {rank - 1}, got {axis}")
    return axis % rank


def _reshape(builder: Builder, unit: Unit, shape: list[int]) -> None:
    """Define the result: the same elements in another shape, not moved."""
    value = builder.value(unit.inputs[0])
    count = math.prod(value.shape)
    if shape.count(-1) == 1:
        known = -math.prod(shape)
        shape = [count // known if known and extent == -1 else extent for extent in shape]
    if math.prod(shape) != count or min(shape, default=1) < 1:
        raise ModelError(f"wanted {count} elements, got shape {shape}")
    of = unit.outputs[0]
    builder.define(of, value.number, tuple(shape), value.source, value.order)


def _to_shape(builder: Builder, unit: Unit) -> None:
    value, shape = builder.value(unit.inputs[0]), numbers(unit, 1) or []
    if not unit.attributes.get("allowzero"):
        pairs = zip(shape, (*value.shape, *[0] * len(shape)), strict=False)
        shape = [extent or extent_before for extent, extent_before in pairs]
    _reshape(builder, unit, shape)


def _flatten(builder: Builder, unit: Unit) -> None:
    shape = builder.value(unit.inputs[0]).shape
    axis = unit.attributes.get("axis", 1)
    axis = axis if axis == len(shape) else one_axis(axis, len(shape))
    _reshape(builder, unit, [math.prod(shape[:axis]), math.prod(shape[axis:])])


def _squeeze(builder: Builder, unit: Unit) -> None:
    shape = builder.value(unit.inputs[0]).shape
    axes = numbers(unit, 1)
    if axes is None:
        axes = [axis for axis, extent in enumerate(shape) if extent == 1]
    removed = {one_axis(axis, len(shape)) for axis in axes}
    _reshape(builder, unit, [n for axis, n in enumerate(shape) if axis not in removed])


def _unsqueeze(builder: Builder, unit: Unit) -> None:
    shape, axes = builder.value(unit.inputs[0]).shape, numbers(unit, 1) or []
    rank = len(shape) + len(axes)
    new = {one_axis(axis, rank) for axis in axes}
    extents = iter(shape)
    _reshape(builder, unit, [1 if axis in new else next(extents) for axis in range(rank)])


def _same(builder: Builder, unit: Unit) -> None:
    """Read Identity and Dropout."""
    value, (_, training) = builder.value(unit.inputs[0]), (*unit.inputs[1:3], None, None)[:2]
    if training is not None and (training.data is None or training.data.any()):
        raise ModelError("wanted Dropout without training")
    builder.alike(unit.outputs[0], value.number, value)


def _transpose(builder: Builder, unit: Unit) -> None:
    value = builder.value(unit.inputs[0])
    rank = len(value.shape)
    axes = list(unit.attributes.get("perm", range(rank)[::-1]))
    if sorted(axes) != [*range(rank)]:
        raise ModelError(f"wanted a permutation of {rank} axes, got {axes}")
    turned(builder, unit.outputs[0], as_stored(builder, value), axes)


def turned(builder: Builder, of: Operand, value: Value, axes: Sequence[int]) -> Value:
    """Define a value whose axes have another order, not moved."""
    shape = tuple(value.shape[axis] for axis in axes)
    order = tuple(axes.index(axis) for axis in value.order)
    return builder.define(of, value.number, shape, shape, order)


def as_stored(builder: Builder, value: Value) -> Value:
    """Return a value whose axes are those of its source; images do not change."""
    return value if value.shape == value.source else builder.plain(value)


def _concat(builder: Builder, unit: Unit) -> None:
    of = unit.outputs[0]
    values = [as_stored(builder, builder.value(operand)) for operand in unit.inputs]
    if any(value.order == IMAGE for value in values):
        values = [builder.image(value) for value in values]
    elif len({value.order for value in values}) > 1:
        values = [builder.plain(value) for value in values]
    values = [builder.meant(value, of) for value in values]
    joined(builder, of, values, unit.attributes.get("axis", 0))


def joined(builder: Builder, of: Operand, values: Sequence[Value], axis: int) -> Value:
    """Define values whose axes lie in one order, one after the other along an axis."""
    first = values[0]
    axis = one_axis(axis, len(first.shape))
    for value in values:
        sides = [(*v.shape[:axis], *v.shape[axis + 1 :]) for v in (value, first)]
        if sides[0] != sides[1]:
            raise ModelError(f"wanted inputs alike, got {value.shape} and {first.shape}")
    total = sum(value.shape[axis] for value in values)
    shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
    stored, place = tuple(shape[n] for n in first.order), first.order.index(axis)
    numbers = [value.number for value in values]
    number = builder.operate("CONCATENATION", numbers, stored, of, axis=place)
    return builder.define(of, number, shape, shape, first.order)


def cut(builder: Builder, value: Value, ways: list[tuple[int, int, int]], of: Operand) -> Value:
    """Return some elements of a value, under the name of a result.

    ``ways``: the first element, their count and stride, by axis.
    """
    shape = tuple(count for _, count, _ in ways)
    begin, count, stride = (tuple(ways[axis][k] for axis in value.order) for k in range(3))
    number = builder.operate(
        "STRIDED_SLICE",
        [value.number],
        count,
        of,
        begin=begin,
        count=count,
        stride=stride,
        dropped=(),
        added=(),
    )
    return builder.define(of, number, shape, shape, value.order)


def _slice(builder: Builder, unit: Unit) -> None:
    value = as_stored(builder, builder.value(unit.inputs[0]))
    starts, ends = numbers(unit, 1) or [], numbers(unit, 2) or []
    axes = numbers(unit, 3) or [*range(len(starts))]
    steps = numbers(unit, 4) or [1] * len(starts)
    ways = [(0, extent, 1) for extent in value.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        dimension = one_axis(axis, len(value.shape))
        taken = range(value.shape[dimension])[slice(start, end, step)]
        if not taken:
            raise ModelError(f"wanted elements along axis {axis}, got none")
        ways[dimension] = (taken[0], len(taken), step)
    cut(builder, value, ways, unit.outputs[0])


def _split(builder: Builder, unit: Unit) -> None:
    value = as_stored(builder, builder.value(unit.inputs[0]))
    axis = one_axis(unit.attributes.get("axis", 0), len(value.shape))
    extent, count = value.shape[axis], len(unit.outputs)
    size = -(-extent // count)
    if unit.attributes.get("num_outputs", count) != count:
        raise ModelError(f"wanted {unit.attributes['num_outputs']} results, got {count}")
    parts = numbers(unit, 1) or [min(size, extent - n * size) for n in range(count)]
    if sum(parts) != extent or min(parts) < 1 or len(parts) != count:
        raise ModelError(f"wanted {count} parts of {extent}, got {parts}")
    first = 0
    for number, part in enumerate(parts):
        ways = [(0, n, 1) for n in value.shape]
        ways[axis] = (first, part, 1)
        cut(builder, value, ways, unit.outputs[number])
        first += part


def _blocks(builder: Builder, unit: Unit) -> None:
    """Read DepthToSpace and SpaceToDepth."""
    value, of = builder.image(builder.value(unit.inputs[0])), unit.outputs[0]
    number, size = value.number, unit.attributes.get("blocksize", 1)
    items, channels, rows, columns = value.shape
    if unit.kind == "DepthToSpace":
        kind, good = "DEPTH_TO_SPACE", channels % size**2 == 0
        mode = unit.attributes.get("mode", "DCR")
        if mode not in ("DCR", "CRD"):
            raise ModelError(f"wanted mode DCR or CRD, got {mode!r}")
        if good and mode == "CRD":
            order = np.arange(channels).reshape(-1, size * size).T.reshape(-1)
            ends = [number, builder.constant("order", order)]
            number = builder.operate("GATHER", ends, value.stored, of, axis=3, batch_dims=0)
        shape = items, channels // size**2, rows * size, columns * size
    else:
        kind, good = "SPACE_TO_DEPTH", rows % size == 0 and columns % size == 0
        shape = items, channels * size**2, rows // size, columns // size
    if not good:
        raise ModelError(f"wanted whole blocks of {size}, got shape {value.shape}")
    stored = tuple(shape[axis] for axis in IMAGE)
    number = builder.operate(kind, [number], stored, of, block=size)
    builder.define(of, number, shape, shape, IMAGE)


def _expand(builder: Builder, unit: Unit) -> None:
    """Read Expand, which broadcasts, and Tile."""
    value, of = builder.plain(builder.value(unit.inputs[0])), unit.outputs[0]
    extents = tuple(numbers(unit, 1) or [])
    if min(extents, default=1) < 1:
        raise ModelError(f"wanted numbers of at least 1, got {extents}")
    if unit.kind == "Tile":
        if len(extents) != len(value.shape):
            raise ModelError(f"wanted {len(value.shape)} repeats, got {extents}")
        shape = tuple(n * times for n, times in zip(value.shape, extents, strict=True))
        kind, attributes = "TILE", {"multiples": extents}
    else:
        shape = tuple(np.broadcast_shapes(value.shape, extents))
        kind, attributes = "BROADCAST_TO", {"shape": shape}
    if shape == value.shape:
        builder.alike(of, value.number, value)
        return
    extents = builder.constant("numbers", np.array(extents, np.int32))
    builder.define(
        of, builder.operate(kind, [value.number, extents], shape, of, **attributes), shape
    )


MOVES: dict[str, _Reader] = {
    "Concat": _concat,
    "DepthToSpace": _blocks,
    "Dropout": _same,
    "Expand": _expand,
    "Flatten": _flatten,
    "Identity": _same,
    "Reshape": _to_shape,
    "Slice": _slice,
    "SpaceToDepth": _blocks,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _expand,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
