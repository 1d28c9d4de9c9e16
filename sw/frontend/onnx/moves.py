"""Readers of operators that move elements; most change only the record of their order."""

import math
from collections.abc import Callable

import numpy as np

from celosia.sw.frontend.onnx.builder import IMAGE, Builder, Value
from celosia.sw.frontend.onnx.operand import Unit
from celosia.sw.operators.node import ModelError

_Reader = Callable[[Builder, Unit], None]


def _numbers(unit: Unit, index: int) -> list[int] | None:
    """Return the whole numbers of a constant input; None where it is left out."""
    operand = unit.inputs[index] if len(unit.inputs) > index else None
    if operand is None:
        return None
    if operand.data is None or operand.data.dtype.kind not in "iu":
        raise ModelError(f"wanted constant whole numbers, got {operand.name!r}")
    return [int(number) for number in operand.data.reshape(-1)]


def _axis(axis: int, rank: int) -> int:
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
    value, wanted = builder.value(unit.inputs[0]), _numbers(unit, 1) or []
    if not unit.attributes.get("allowzero"):
        pairs = zip(wanted, (*value.shape, *[0] * len(wanted)), strict=False)
        wanted = [extent or kept for extent, kept in pairs]
    _reshape(builder, unit, wanted)


def _flatten(builder: Builder, unit: Unit) -> None:
    shape = builder.value(unit.inputs[0]).shape
    axis = unit.attributes.get("axis", 1)
    axis = axis if axis == len(shape) else _axis(axis, len(shape))
    _reshape(builder, unit, [math.prod(shape[:axis]), math.prod(shape[axis:])])


def _squeeze(builder: Builder, unit: Unit) -> None:
    shape = builder.value(unit.inputs[0]).shape
    axes = _numbers(unit, 1)
    if axes is None:
        axes = [axis for axis, extent in enumerate(shape) if extent == 1]
    removed = {_axis(axis, len(shape)) for axis in axes}
    _reshape(builder, unit, [n for axis, n in enumerate(shape) if axis not in removed])


def _unsqueeze(builder: Builder, unit: Unit) -> None:
    shape, axes = builder.value(unit.inputs[0]).shape, _numbers(unit, 1) or []
    rank = len(shape) + len(axes)
    new = {_axis(axis, rank) for axis in axes}
    rest = iter(shape)
    _reshape(builder, unit, [1 if axis in new else next(rest) for axis in range(rank)])


def _same(builder: Builder, unit: Unit) -> None:
    """Read Identity and Dropout."""
    value = builder.value(unit.inputs[0])
    builder.alike(unit.outputs[0], value.number, value)


def _transpose(builder: Builder, unit: Unit) -> None:
    value = builder.value(unit.inputs[0])
    rank = len(value.shape)
    axes = list(unit.attributes.get("perm", range(rank)[::-1]))
    if sorted(axes) != [*range(rank)]:
        raise ModelError(f"wanted a permutation of {rank} axes, got {axes}")
    value = _as_stored(builder, value)
    shape = tuple(value.shape[axis] for axis in axes)
    order = tuple(axes.index(axis) for axis in value.order)
    builder.define(unit.outputs[0], value.number, shape, shape, order)


def _as_stored(builder: Builder, value: Value) -> Value:
    """Return a value whose axes are those of its source; images do not change."""
    return value if value.shape == value.source else builder.plain(value)


def _concat(builder: Builder, unit: Unit) -> None:
    of = unit.outputs[0]
    found = [_as_stored(builder, builder.value(operand)) for operand in unit.inputs]
    if any(value.order == IMAGE for value in found):
        found = [builder.image(value) for value in found]
    elif len({value.order for value in found}) > 1:
        found = [builder.plain(value) for value in found]
    found = [builder.meant(value, of) for value in found]
    first = found[0]
    axis = _axis(unit.attributes.get("axis", 0), len(first.shape))
    shape = list(first.shape)
    shape[axis] = sum(value.shape[axis] for value in found)
    for value in found:
        if [*value.shape[:axis], *value.shape[axis + 1 :]] != [*shape[:axis], *shape[axis + 1 :]]:
            raise ModelError(f"wanted inputs alike, got {value.shape} and {first.shape}")
    stored = tuple(shape[each] for each in first.order)
    number = builder.operate(
        "CONCATENATION", [v.number for v in found], stored, of, axis=first.order.index(axis)
    )
    builder.define(of, number, tuple(shape), tuple(shape), first.order)


def _pad(builder: Builder, unit: Unit) -> None:
    if unit.attributes.get("mode", "constant") != "constant" or _numbers(unit, 3) is not None:
        raise ModelError("wanted padding of all axes with a constant")
    value, of = _as_stored(builder, builder.value(unit.inputs[0])), unit.outputs[0]
    if len(value.shape) == 4:
        value = builder.image(value)
    pads = _numbers(unit, 1) or []
    rank = len(value.shape)
    if len(pads) != 2 * rank or min(pads) < 0:
        raise ModelError(f"wanted {2 * rank} pads of at least 0, got {pads}")
    given = unit.inputs[2].data if len(unit.inputs) > 2 and unit.inputs[2] else None
    constant = 0 if given is None else given.reshape(-1)[0]
    if of.quantization is None:
        fill = float(constant)
    elif unit.attributes["integers"]:
        fill = int(constant) - (128 if of.dtype == np.uint8 else 0)
    elif constant:
        raise ModelError(f"wanted 0 as the constant that pads, got {constant:g}")
    else:
        fill = builder.meaning(value).zero_point
    before = tuple(pads[axis] for axis in value.order)
    after = tuple(pads[rank + axis] for axis in value.order)
    number, shape = builder.padded(value, (before, after), of, fill)
    whole = tuple(shape[value.order.index(axis)] for axis in range(rank))
    builder.define(of, number, whole, whole, value.order)


def _resize(builder: Builder, unit: Unit) -> None:
    """Read Resize of an image to the nearest pixel."""
    value, of = builder.image(builder.value(unit.inputs[0])), unit.outputs[0]
    attributes = unit.attributes
    if attributes.get("mode", "nearest") != "nearest":
        raise ModelError(f"mode {attributes['mode']!r} is not supported")
    scales = unit.inputs[2] if len(unit.inputs) > 2 else None
    sizes = _numbers(unit, 3)
    if attributes.get("axes") is not None:
        raise ModelError("axes are not supported")
    if sizes is None:
        if scales is None or scales.data is None or scales.data.size != 4:
            raise ModelError("wanted constant scales or sizes of 4 axes")
        sizes = [math.floor(n * float(s)) for n, s in zip(value.shape, scales.data, strict=True)]
    if sizes[:2] != [*value.shape[:2]]:
        raise ModelError(f"wanted rows and columns resized, got {sizes} from {value.shape}")
    for axis in (2, 3):
        factor = np.float32(sizes[axis]) / np.float32(value.shape[axis])
        if scales is not None and scales.data is not None and scales.data.size == 4:
            factor = np.float32(scales.data[axis])
        wanted = _nearest(sizes[axis], value.shape[axis], factor, attributes)
        # TensorFlow Lite's nearest pixel: the quotient, rounded down.
        plain = np.arange(sizes[axis]) * value.shape[axis] // sizes[axis]
        if (wanted != plain).any():
            raise ModelError(f"from {value.shape[axis]} to {sizes[axis]} pixels is not supported")
    stored = tuple(sizes[axis] for axis in IMAGE)
    extents = builder.constant("size", np.array(sizes[2:], np.int32))
    number = builder.operate(
        "RESIZE_NEAREST_NEIGHBOR",
        [value.number, extents],
        stored,
        of,
        align_corners=False,
        half_pixel_centers=False,
    )
    builder.define(of, number, tuple(sizes), tuple(sizes), IMAGE)


def _nearest(count: int, extent: int, factor: np.float32, attributes: dict) -> np.ndarray:
    """Return the source pixel of each pixel of the result."""
    sources = np.arange(count, dtype=np.float32)
    way = attributes.get("coordinate_transformation_mode", "half_pixel")
    if way == "asymmetric":
        sources = sources / factor
    elif way == "align_corners":
        sources = sources * np.float32((extent - 1) / max(count - 1, 1))
    elif way in ("half_pixel", "pytorch_half_pixel"):
        sources = (sources + np.float32(0.5)) / factor - np.float32(0.5)
        sources = np.zeros(1) if way.startswith("pytorch") and count == 1 else sources
    else:
        raise ModelError(f"{way} is not supported")
    rounding = {
        "round_prefer_floor": lambda x: np.ceil(x - 0.5),
        "round_prefer_ceil": lambda x: np.floor(x + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    found = rounding[attributes.get("nearest_mode", "round_prefer_floor")](sources)
    return np.clip(found, 0, extent - 1).astype(np.int64)


def _cut(builder: Builder, value: Value, ways: list[tuple[int, int, int]], unit: Unit, n: int):
    """Define a result as some elements of a value: first, count and stride by axis."""
    of = unit.outputs[n]
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
    builder.define(of, number, shape, shape, value.order)


def _slice(builder: Builder, unit: Unit) -> None:
    value = _as_stored(builder, builder.value(unit.inputs[0]))
    starts, ends = _numbers(unit, 1) or [], _numbers(unit, 2) or []
    axes = _numbers(unit, 3) or [*range(len(starts))]
    steps = _numbers(unit, 4) or [1] * len(starts)
    ways = [(0, extent, 1) for extent in value.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        dimension = _axis(axis, len(value.shape))
        taken = range(value.shape[dimension])[slice(start, end, step)]
        if not taken:
            raise ModelError(f"wanted elements along axis {axis}, got none")
        ways[dimension] = (taken[0], len(taken), step)
    _cut(builder, value, ways, unit, 0)


def _split(builder: Builder, unit: Unit) -> None:
    value = _as_stored(builder, builder.value(unit.inputs[0]))
    axis = _axis(unit.attributes.get("axis", 0), len(value.shape))
    extent, count = value.shape[axis], len(unit.outputs)
    each = -(-extent // count)
    parts = _numbers(unit, 1) or [min(each, extent - n * each) for n in range(count)]
    if sum(parts) != extent or min(parts) < 1 or len(parts) != count:
        raise ModelError(f"wanted {count} parts of {extent}, got {parts}")
    first = 0
    for number, part in enumerate(parts):
        ways = [(0, n, 1) for n in value.shape]
        ways[axis] = (first, part, 1)
        _cut(builder, value, ways, unit, number)
        first += part


def _blocks(builder: Builder, unit: Unit) -> None:
    """Read DepthToSpace and SpaceToDepth."""
    value, of = builder.image(builder.value(unit.inputs[0])), unit.outputs[0]
    size = unit.attributes.get("blocksize", 1)
    items, channels, rows, columns = value.shape
    if unit.kind == "DepthToSpace":
        kind, good = "DEPTH_TO_SPACE", channels % size**2 == 0
        if unit.attributes.get("mode", "DCR") != "DCR":
            raise ModelError("mode CRD is not supported")
        shape = items, channels // size**2, rows * size, columns * size
    else:
        kind, good = "SPACE_TO_DEPTH", rows % size == 0 and columns % size == 0
        shape = items, channels * size**2, rows // size, columns // size
    if not good:
        raise ModelError(f"wanted whole blocks of {size}, got shape {value.shape}")
    stored = tuple(shape[axis] for axis in IMAGE)
    number = builder.operate(kind, [value.number], stored, of, block=size)
    builder.define(of, number, shape, shape, IMAGE)


MOVES: dict[str, _Reader] = {
    "Concat": _concat,
    "DepthToSpace": _blocks,
    "Dropout": _same,
    "Flatten": _flatten,
    "Pad": _pad,
    "Reshape": _to_shape,
    "Resize": _resize,
    "Slice": _slice,
    "SpaceToDepth": _blocks,
    "Split": _split,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
