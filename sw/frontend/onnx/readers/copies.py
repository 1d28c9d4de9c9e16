"""Readers of operators that repeat elements, or choose them at indices: Resize, Pad, Gather."""

import math
from collections.abc import Callable

import numpy as np

from celosia.sw.frontend.onnx.builder import IMAGE, Builder, Value
from celosia.sw.frontend.onnx.constants import real_array
from celosia.sw.frontend.onnx.operand import Operand, Unit
from celosia.sw.frontend.onnx.readers.elementwise import constant_of
from celosia.sw.frontend.onnx.readers.moves import as_stored, cut, numbers, one_axis
from celosia.sw.layers.node import ModelError
from celosia.sw.layers.onnxruntime import dequantized, quantized

_Reader = Callable[[Builder, Unit], None]

_HALF = np.float32(0.5)

#: Resize: source coordinates of the coordinates ``x`` of a result, in single precision, by mode.
#: ``step``: source pixels in one of the result.
_COORDINATES = {
    "align_corners": lambda x, n, count, _: x * np.float32(n - 1) / np.float32(max(count - 1, 1)),
    "asymmetric": lambda x, n, count, scale: x / scale,
    "half_pixel": lambda x, n, count, scale: (x + _HALF) / scale - _HALF,
    "half_pixel_symmetric": lambda x, n, count, scale: (
        np.float32(n)
        / np.float32(2)
        * (np.float32(1) - np.float32(count) / (scale * np.float32(n)))
        + (x + _HALF) / scale
        - _HALF
    ),
    "pytorch_half_pixel": lambda x, n, count, scale: (
        (x + _HALF) / scale - _HALF if count > 1 else x * np.float32(0)
    ),
}

#: Resize: whole numbers of source coordinates, by mode.
_ROUNDINGS = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
}


def _one_of(unit: Unit, name: str, default: str, names: dict) -> str:
    choice = unit.attributes.get(name, default)
    if choice not in names:
        raise ModelError(f"wanted {name} {', '.join(names)}, got {choice!r}")
    return choice


def _extents(unit: Unit, shape: tuple[int, ...]) -> tuple[list[int], list[np.float32]]:
    """Return the shape of a resized tensor, and the factor along each axis."""
    rank = len(shape)
    axes = [one_axis(axis, rank) for axis in unit.attributes.get("axes") or range(rank)]
    scales = unit.inputs[2] if len(unit.inputs) > 2 else None
    sizes, factors = list(shape), [np.float32(1)] * rank
    policies = {"stretch": None, "not_larger": min, "not_smaller": max}
    policy = policies[_one_of(unit, "keep_aspect_ratio_policy", "stretch", policies)]
    lengths, ratios = numbers(unit, 3), scales.data if scales else None
    if lengths is None and ratios is None:
        raise ModelError("wanted constant scales or sizes")
    entries = ratios if lengths is None else lengths
    if entries is None or len(entries) != len(axes):
        raise ModelError(f"wanted scales or sizes of {len(axes)} axes")
    for number, axis in enumerate(axes):
        if lengths is not None:
            sizes[axis] = lengths[number]
            factors[axis] = np.float32(lengths[number]) / np.float32(shape[axis])
        elif ratios is not None:
            factors[axis] = np.float32(ratios[number])
            sizes[axis] = math.floor(np.float32(shape[axis]) * factors[axis])
    if lengths is not None and policy is not None:
        factor = policy(factors[axis] for axis in axes)
        for axis in axes:
            factors[axis], sizes[axis] = factor, math.floor(shape[axis] * factor + 0.5)
    if sizes[:2] != [*shape[:2]] or min(sizes) < 1:
        raise ModelError(f"wanted rows and columns resized, got {sizes} from {shape}")
    return sizes, factors


def resize(builder: Builder, unit: Unit) -> None:
    """Read Resize of rows and columns: to the nearest pixels, or means of four or sixteen."""
    value, of = builder.value(unit.inputs[0]), unit.outputs[0]
    if len(value.shape) not in (3, 4):
        raise ModelError(f"wanted an image of 3 or 4 dimensions, got shape {value.shape}")
    sizes, factors = _extents(unit, value.shape)
    mode = _one_of(unit, "mode", "nearest", _MODES)
    way = _one_of(unit, "coordinate_transformation_mode", "half_pixel", _COORDINATES)
    if unit.attributes.get("antialias"):
        raise ModelError("antialias is not supported")
    for name in ("cubic_coeff_a", "exclude_outside", "extrapolation_value", "nearest_mode"):
        unit.attributes.get(name)  # Of other modes.
    unit.inputs.read.add(1)  # The region of tf_crop_and_resize.
    sources = []
    for extent, count, factor in zip(value.shape[2:], sizes[2:], factors[2:], strict=True):
        x = np.arange(count, dtype=np.float32)
        x = x if factor == 1 else _COORDINATES[way](x, extent, count, factor)
        sources.append((extent, np.asarray(x, np.float32)))
    missing = [1] * (4 - len(sizes))
    sources = [*[(1, np.zeros(1, np.float32)) for _ in missing], *sources]
    image = builder.image(value, (*value.shape[:2], *missing, *value.shape[2:]))
    shape = (*sizes[:2], *missing, *sizes[2:])
    stored = tuple(shape[axis] for axis in IMAGE)
    number = _MODES[mode](builder, unit, image, stored, sources)
    builder.define(of, number, tuple(sizes), shape, IMAGE)


def _nearest(builder: Builder, unit: Unit, image: Value, stored: tuple, sources: list) -> int:
    rounded = _ROUNDINGS[_one_of(unit, "nearest_mode", "round_prefer_floor", _ROUNDINGS)]
    origins = [
        tuple(np.clip(rounded(x.astype(np.float64)), 0, extent - 1).astype(int).tolist())
        for extent, x in sources
    ]
    size = builder.constant("size", np.array(stored[1:3], np.int32))
    return builder.operate(
        "RESIZE_NEAREST_NEIGHBOR",
        [image.number, size],
        stored,
        unit.outputs[0],
        align_corners=False,
        half_pixel_centers=False,
        rows=origins[0],
        columns=origins[1],
    )


def _linear(builder: Builder, unit: Unit, image: Value, stored: tuple, sources: list) -> int:
    """Add means of four pixels, in single precision; those of integers are cut to integers."""
    of, attributes = unit.outputs[0], {}
    for name, (extent, x) in zip(("rows", "columns"), sources, strict=True):
        x = np.clip(x, np.float32(0), np.float32(extent - 1))
        below = np.minimum(x.astype(np.int64), extent - 1)
        above = np.minimum(below + 1, extent - 1)
        weights = [np.abs(x - above.astype(np.float32)), np.abs(x - below.astype(np.float32))]
        weights = [np.where(below == above, _HALF, weight) for weight in weights]
        attributes[name] = tuple(np.concatenate([below, above]).tolist())
        attributes[f"{name}_weights"] = tuple(np.concatenate(weights).astype(float).tolist())
    if of.quantization is None:
        return builder.operate("Resize", [builder.real(image).number], stored, of, **attributes)
    real = Operand(f"{of.name} (float)", np.dtype(np.float32))
    number = builder.operate("CAST", [image.number], image.stored, real)
    shift = builder.constant("shift", np.full((1, 1, 1, 1), 128, np.float32))
    more = {"activation": "NONE"}
    if of.dtype == np.uint8:
        number = builder.operate("ADD", [number, shift], image.stored, real, **more)
    number = builder.operate("Resize", [number], stored, real, **attributes)
    if of.dtype == np.uint8:
        number = builder.operate("FLOOR", [number], stored, real)
        number = builder.operate("SUB", [number, shift], stored, real, **more)
    return builder.operate("CAST", [number], stored, of)


def _cubic(builder: Builder, unit: Unit, image: Value, stored: tuple, sources: list) -> int:
    """Add means of sixteen pixels, in single precision."""
    of, attributes = unit.outputs[0], {}
    if of.quantization is not None:
        raise ModelError("mode cubic of integers is not supported")
    a = np.float32(unit.attributes.get("cubic_coeff_a", -0.75))
    for name, (extent, x) in zip(("rows", "columns"), sources, strict=True):
        first = np.floor(x)
        s = x - first
        far = [((a * t - 5 * a) * t + 8 * a) * t - 4 * a for t in (s + 1, 2 - s)]
        near = [((a + 2) * t - (a + 3)) * t * t + 1 for t in (s, 1 - s)]
        weights = np.array([far[0], *near, far[1]], np.float32)
        pixels = first.astype(int) + np.arange(-1, 3)[:, None]
        if unit.attributes.get("exclude_outside"):
            weights = np.where((pixels >= 0) & (pixels < extent), weights, np.float32(0))
            weights = weights / weights.sum(axis=0)
        attributes[name] = tuple(np.clip(pixels, 0, extent - 1).ravel().tolist())
        attributes[f"{name}_weights"] = tuple(weights.astype(float).ravel().tolist())
    return builder.operate("Resize", [builder.real(image).number], stored, of, **attributes)


#: Reductions over axes, by operator.
REDUCTIONS = {
    "GlobalAveragePool": "MEAN",
    "ReduceMax": "REDUCE_MAX",
    "ReduceMean": "MEAN",
    "ReduceMin": "REDUCE_MIN",
    "ReduceProd": "REDUCE_PROD",
    "ReduceSum": "SUM",
}

#: Resize: its modes.
_MODES: dict[str, Callable[..., int]] = {"cubic": _cubic, "linear": _linear, "nearest": _nearest}


def _fill(builder: Builder, unit: Unit, value: Value) -> float:
    """Return the stored number of the constant that pads."""
    of, operand = unit.outputs[0], unit.inputs[2] if len(unit.inputs) > 2 else None
    if of.quantization is None:
        return float(real_array(operand).reshape(-1)[0]) if operand else 0.0
    meaning = builder.meaning(value)
    if unit.attributes["integers"]:
        integer = 0 if operand is None or operand.data is None else int(operand.data.reshape(-1)[0])
        return integer - (128 if of.dtype == np.uint8 else 0)
    if operand is None or operand.data is None:
        return meaning.zero_point
    number = operand.data.reshape(-1)[:1]
    if operand.quantization is not None:
        number = dequantized(number, operand.quantization)
    stored = quantized(number, meaning)
    if dequantized(stored, meaning)[0] != number[0]:
        raise ModelError(f"wanted a number of the input's scale that pads, got {number[0]:g}")
    return int(stored[0])


def pad(builder: Builder, unit: Unit) -> None:
    """Read Pad; margins below zero cut elements off."""
    modes = {"constant": 0, "reflect": 0, "edge": 0}
    mode = _one_of(unit, "mode", "constant", modes)
    value, of = as_stored(builder, builder.value(unit.inputs[0])), unit.outputs[0]
    if len(value.shape) == 4:
        value = builder.image(value)
    rank, margins_of_axes = len(value.shape), numbers(unit, 1) or []
    axes = numbers(unit, 3)
    axes = [*range(rank)] if axes is None else [one_axis(axis, rank) for axis in axes]
    if len(margins_of_axes) != 2 * len(axes):
        raise ModelError(f"wanted {2 * len(axes)} pads, got {margins_of_axes}")
    pads = [[0] * rank, [0] * rank]
    for number, axis in enumerate(axes):
        pads[0][axis], pads[1][axis] = margins_of_axes[number], margins_of_axes[len(axes) + number]
    if min(*pads[0], *pads[1]) < 0:
        ways = []
        for before, extent, after in zip(pads[0], value.shape, pads[1], strict=True):
            count = extent + min(before, 0) + min(after, 0)
            if count < 1:
                raise ModelError(f"wanted elements between the pads {pads}, got none")
            ways.append((max(-before, 0), count, 1))
        value = cut(builder, value, ways, of)
    before, after = (tuple(max(side[axis], 0) for axis in value.order) for side in pads)
    if mode == "constant":
        number, shape = builder.padded(value, (before, after), of, _fill(builder, unit, value))
    else:
        unit.inputs.read.add(2)  # The constant of the other mode.
        sides = zip(before, value.stored, after, strict=True)
        shape = tuple(sum(side) for side in sides)
        margins = builder.constant("paddings", np.array([before, after], np.int32).T)
        ends = [value.number, margins]
        number = builder.operate(
            "MIRROR_PAD", ends, shape, of, before=before, after=after, mode=mode
        )
    result = tuple(shape[value.order.index(axis)] for axis in range(rank))
    builder.define(of, number, result, result, value.order)


def gather(builder: Builder, unit: Unit) -> None:
    """Read Gather, at constant or computed indices, from a value or a constant table."""
    source, indices, of = unit.inputs[0], unit.inputs[1], unit.outputs[0]
    if source is not None and source.data is not None:
        value = _table(builder, source)
    else:
        value = builder.plain(builder.value(source))
    axis = one_axis(unit.attributes.get("axis", 0), len(value.shape))
    extent, fields = value.shape[axis], {"axis": axis, "batch_dims": 0}
    if indices is not None and indices.data is None:
        computed = builder.plain(builder.value(indices))
        number, rows = computed.number, computed.shape
        fields["wraps"] = 1
    else:
        positions = np.array(numbers(unit, 1), np.int64)
        if not ((positions >= -extent) & (positions < extent)).all():
            got = f"{positions.min()} to {positions.max()}"
            raise ModelError(f"wanted indices from {-extent} to {extent - 1}, got {got}")
        rows = indices.data.shape if indices else ()
        number = builder.constant("indices", (positions % extent).reshape(rows))
    shape = (*value.shape[:axis], *rows, *value.shape[axis + 1 :])
    builder.define(
        of, builder.operate("GATHER", [value.number, number], shape, of, **fields), shape
    )


def _table(builder: Builder, operand: Operand) -> Value:
    """Return the value of a constant, of one scale or none."""
    data, meaning = operand.data, operand.quantization
    assert data is not None
    order, unsigned = tuple(range(data.ndim)), False
    if meaning is None:
        number = builder.constant(operand.name, data)
    else:
        if operand.dtype not in (np.int8, np.uint8) or len(meaning.scales) > 1:
            got = f"{operand.dtype} of {len(meaning.scales)}"
            raise ModelError(f"wanted a table of int8 or uint8 of one scale, got {got}")
        number, unsigned = (
            constant_of(builder, operand, data.ndim, order),
            operand.dtype == np.uint8,
        )
    return Value(number, data.shape, data.shape, order, unsigned)


def gather_at(builder: Builder, unit: Unit) -> None:
    """Read GatherND and GatherElements at constant indices, as Gather of rows or elements."""
    value, of, operand = builder.plain(builder.value(unit.inputs[0])), *unit.outputs, unit.inputs[1]
    if operand is None or operand.data is None:
        raise ModelError("wanted constant indices")
    shape, indices = value.shape, operand.data
    if unit.kind == "GatherND":
        count = unit.attributes.get("batch_dims", 0)
        indices, rows = np.moveaxis(indices, -1, 0), indices.shape[:-1]
        places = [*np.indices(rows)[:count], *indices]
    else:
        axis, rows = one_axis(unit.attributes.get("axis", 0), len(shape)), indices.shape
        places = [*np.indices(rows)]
        places[axis] = indices
    extents, others = shape[: len(places)], shape[len(places) :]
    if any((x < -n).any() or (x >= n).any() for x, n in zip(places, extents, strict=True)):
        raise ModelError(f"wanted indices into {shape}, got others")
    wrapped = [x % n for x, n in zip(places, extents, strict=True)]
    flat = np.ravel_multi_index(wrapped, extents).astype(np.int64).reshape(rows)
    value = builder.reshaped(value, (math.prod(extents), *others))
    ends, result = [value.number, builder.constant("indices", flat)], (*rows, *others)
    builder.define(of, builder.operate("GATHER", ends, result, of, axis=0, batch_dims=0), result)


def extreme(builder: Builder, unit: Unit) -> None:
    """Read ReduceMax and ReduceMin."""
    reduced(builder, unit, builder.value(unit.inputs[0]))


def reduced(builder: Builder, unit: Unit, value: Value) -> None:
    """Add a reduction of a value over axes: over none, it moves nothing."""
    value, of, attributes = as_stored(builder, value), unit.outputs[0], unit.attributes
    axes, rank = numbers(unit, 1), len(value.shape)
    axes = attributes.get("axes") if axes is None else axes
    axes = [*range(2, rank)] if unit.kind == "GlobalAveragePool" else axes
    if attributes.get("noop_with_empty_axes") and not axes:
        builder.alike(of, value.number, value)
        return
    axes = {one_axis(axis, rank) for axis in axes or range(rank)}
    if attributes.get("keepdims", 1):
        shape = tuple(1 if axis in axes else n for axis, n in enumerate(value.shape))
        order, stored = value.order, tuple(shape[axis] for axis in value.order)
    else:
        left = [axis for axis in value.order if axis not in axes]
        names = sorted(left)
        shape, stored = (tuple(value.shape[axis] for axis in side) for side in (names, left))
        order = tuple(map(names.index, left))
    number = builder.operate(
        REDUCTIONS[unit.kind],
        [value.number],
        stored,
        of,
        axes=tuple(sorted(value.order.index(axis) for axis in axes)),
        keep_dims=len(shape) == rank,
    )
    builder.define(of, number, shape, shape, order)


def where(builder: Builder, unit: Unit) -> None:
    """Read Where: both values at the result's scale."""
    condition, *operands = unit.inputs
    (of,) = unit.outputs
    if condition is None or condition.dtype != np.bool_:
        raise ModelError("wanted a condition of bool")
    if condition.data is None:
        choice = builder.plain(builder.value(condition))
        number, shape = choice.number, choice.shape
    else:
        number, shape = builder.constant(condition.name, condition.data), condition.data.shape
    ends = [builder.scaled(operand, of) for operand in operands]
    shape = np.broadcast_shapes(shape, *(value.shape for value in ends))
    inputs = [number, *(end.number for end in ends)]
    builder.define(of, builder.operate("SELECT_V2", inputs, shape, of), shape)


COPIES: dict[str, _Reader] = {
    "Gather": gather,
    "GatherElements": gather_at,
    "GatherND": gather_at,
    "Pad": pad,
    "ReduceMax": extreme,
    "ReduceMin": extreme,
    "Resize": resize,
    "Where": where,
}
