"""Readers of operators that multiply and add: convolutions, matrix multiplications, poolings."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from celosia.sw.frontend.onnx.builder import IMAGE, Builder, Value, shifted
from celosia.sw.frontend.onnx.operand import Operand, Unit
from celosia.sw.frontend.onnx.readers.windows import Windows, deep, pooling
from celosia.sw.ir.graph import Quantization
from celosia.sw.layers.node import ModelError
from celosia.sw.layers.onnxruntime import quantized

_Reader = Callable[[Builder, Unit], None]


def weights_of(operand: Operand | None, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Return constant weights less their zero points, int64, and their scales."""
    if operand is None or operand.data is None or operand.quantization is None:
        name = "none" if operand is None else repr(operand.name)
        raise ModelError(f"wanted constant weights with a scale, got {name}")
    meaning, data = operand.quantization, operand.data
    if data.dtype not in (np.int8, np.uint8):
        raise ModelError(f"wanted weights of int8 or uint8, got {data.dtype}")
    if len(meaning.scales) not in (1, data.shape[axis]):
        raise ModelError(f"wanted 1 or {data.shape[axis]} scales, got {len(meaning.scales)}")
    if len(meaning.scales) > 1 and meaning.axis % data.ndim != axis % data.ndim:
        raise ModelError(f"wanted scales along axis {axis}, got axis {meaning.axis}")
    along = [1] * data.ndim
    along[axis] = -1
    points = meaning.zero_points.reshape(along) if len(meaning.scales) > 1 else meaning.zero_points
    return data.astype(np.int64) - points, meaning.scales


def kernel_constants(
    builder: Builder, unit: Unit, weights: np.ndarray, scales: np.ndarray, axis: int
) -> list[int]:
    """Add weights and bias; return their numbers."""
    narrow = weights.min() >= -128 and weights.max() <= 127
    meaning = Quantization(scales, np.zeros(len(scales), np.int64), axis)
    name = unit.inputs[1].name if unit.inputs[1] else "weights"
    data = weights.astype(np.int8 if narrow else np.int16)
    numbers = [builder.constant(name, data, meaning)]
    bias = unit.inputs[2] if len(unit.inputs) > 2 else None
    if bias is not None:
        channels = weights.shape[axis]
        if bias.data is None or bias.data.dtype != np.int32:
            raise ModelError(f"wanted a bias of constant int32, got {bias.name!r}")
        if bias.data.size not in (1, channels):
            raise ModelError(f"wanted a bias of {channels}, got {bias.data.size}")
        data = np.broadcast_to(bias.data.reshape(-1), (channels,))
        numbers.append(builder.constant(bias.name, data.astype(np.int32)))
    return numbers


def bounded(builder: Builder, unit: Unit) -> None:
    """Bring a unit's result within the bounds of its real value."""
    (of,) = unit.outputs
    assert of.quantization
    value, meaning = builder.values[of.name], shifted(of.quantization, of.dtype)
    ends = np.array([unit.low, unit.high], np.float32)
    low, high = quantized(ends, meaning).tolist()
    if (low, high) == (-128, 127):
        return
    if (low, high) == (max(meaning.zero_point, -128), 127):
        shape = builder.tensors[value.number].shape
        number = builder.operate("RELU", [value.number], shape, of)
    else:
        entries = np.clip(np.arange(256, dtype=np.uint8).view(np.int8), low, high)
        number = builder.lookup(value.number, entries, of)
    builder.alike(of, number, value)


def convolution(builder: Builder, unit: Unit) -> None:
    """Read Conv; channels that keep to themselves as those of DEPTHWISE_CONV_2D."""
    value = builder.value(unit.inputs[0])
    weights, scales = weights_of(unit.inputs[1], 0)
    windows = Windows(unit, value, weights.shape[2:])
    if windows.rank == 3:
        deep(builder, unit, windows, convolution)
        return
    weights, inputs = windows.kernels(unit, weights), windows.shape[1]
    channels, groups = len(weights), inputs // weights.shape[3]
    attributes: dict[str, Any] = {"stride": windows.stride, "dilation": windows.dilation}
    axis = 0
    if groups == inputs > 1:
        axis = 3
        weights = weights.transpose(3, 1, 2, 0)
        attributes["depth_multiplier"] = channels // groups
    meaning = builder.meaning(value)
    source, padding = windows.image(builder, value, meaning.zero_point)
    constants = kernel_constants(builder, unit, weights, scales, axis)
    (of,) = unit.outputs
    number = builder.operate(
        "QLinearConv",
        [source, *constants],
        windows.result(channels),
        of,
        padding=padding,
        activation="NONE",
        **attributes,
    )
    windows.define(builder, of, number, channels)


def _columns(value: Value) -> np.ndarray | None:
    """Return the model's column of each stored element of a row, None if rows are not whole."""
    items, *extents = value.source
    if len(value.shape) != 2 or value.order[:1] != (0,) or value.shape[0] != items:
        return None
    order = [axis - 1 for axis in value.order[1:]]
    return np.arange(math.prod(extents)).reshape(extents).transpose(order).reshape(-1)


def require_matrices(unit: Unit, ranks: list[int]) -> None:
    """Raise ModelError for a Gemm of other operands than matrices."""
    if unit.kind == "Gemm" and ranks != [2, 2]:
        raise ModelError(f"wanted two operands of 2 dimensions, got {ranks[0]} and {ranks[1]}")


def _two_computed(builder: Builder, unit: Unit) -> None:
    """Read Gemm and MatMul of two batches of matrices that are computed."""
    (of,), attributes = unit.outputs, unit.attributes
    ends = [builder.plain(builder.value(operand)) for operand in unit.inputs[:2]]
    require_matrices(unit, [len(end.shape) for end in ends])
    turned = [bool(attributes.get(name)) for name in ("transA", "transB")]
    if len(unit.inputs) > 2 or {attributes.get(name, 1.0) for name in ("alpha", "beta")} != {1}:
        raise ModelError("wanted alpha and beta of 1, and no bias, for two computed matrices")
    if min(len(end.shape) for end in ends) < 2:
        raise ModelError("wanted two operands of at least 2 dimensions")
    first, second = (
        end.shape[-2:][::-1] if turn else end.shape[-2:]
        for end, turn in zip(ends, turned, strict=True)
    )
    if first[1] != second[0]:
        raise ModelError(f"wanted rows of {second[0]}, got {first[1]}")
    batches = np.broadcast_shapes(*(end.shape[:-2] for end in ends))
    shape = (*batches, first[0], second[1])
    numbers = [end.number for end in ends]
    more = {"adj_x": turned[0], "adj_y": turned[1]}
    builder.define(of, builder.operate("QLinearBatchMatMul", numbers, shape, of, **more), shape)


def product(builder: Builder, unit: Unit) -> None:
    """Read Gemm and MatMul with constant weights: rows of a matrix multiplication."""
    if unit.inputs[1] is not None and unit.inputs[1].data is None:
        _two_computed(builder, unit)
        return
    value = builder.value(unit.inputs[0])
    attributes = unit.attributes
    require_matrices(unit, [len(value.shape), 2])
    if (
        attributes.get("transA")
        or attributes.get("alpha", 1.0) != 1
        or attributes.get("beta", 1.0) != 1
    ):
        raise ModelError("wanted alpha and beta of 1, and no transA")
    transposed = bool(attributes.get("transB"))
    weights, scales = weights_of(unit.inputs[1], 0 if transposed else -1)
    if weights.ndim != 2 or not value.shape:
        raise ModelError(f"wanted weights of 2 dimensions, got {weights.ndim}")
    weights = weights if transposed else weights.T
    channels, taps = weights.shape
    if value.shape[-1] != taps:
        raise ModelError(f"wanted rows of {taps}, got shape {value.shape}")
    columns = _columns(value)
    if columns is None or len(columns) != taps:
        rows = math.prod(value.shape) // taps
        value = builder.reshaped(value, (rows, taps))
    else:
        weights = weights[:, columns]
    of, constants = unit.outputs[0], kernel_constants(builder, unit, weights, scales, 0)
    shape = (math.prod(value.shape) // taps, channels)
    number = builder.operate(
        "QLinearMatMul",
        [value.number, *constants],
        shape,
        of,
        activation="NONE",
    )
    full = (*builder.value(unit.inputs[0]).shape[:-1], channels)
    builder.define(of, number, full, shape)


def max_pool(builder: Builder, unit: Unit) -> None:
    """Read MaxPool and GlobalMaxPool."""
    max_pool_of(builder, unit, builder.value(unit.inputs[0]), -128)


def max_pool_of(builder: Builder, unit: Unit, value: Value, least: float) -> None:
    """Add the maxima of a value's windows; ``least``: least number of its type."""
    of = unit.outputs[0]
    if len(unit.outputs) > 1:
        raise ModelError("the output of indices is not supported")
    windows = pooling(unit, value, value.shape[2:])
    if windows.apart:
        windows.combined(builder, value, of, "MAXIMUM", least)
        return
    number = windows.pooled(builder, value, of, "MAX_POOL_2D", least)
    windows.define(builder, of, number, windows.shape[1])


def average_pool(builder: Builder, unit: Unit) -> None:
    """Read AveragePool."""
    value, (of,) = builder.value(unit.inputs[0]), unit.outputs
    windows = pooling(unit, value, ())
    more: dict[str, Any] = {"counted": bool(unit.attributes.get("count_include_pad"))}
    if windows.kernel == windows.shape[2:] and not any(map(any, windows.pads)):
        # ONNX Runtime takes its global mean for a window of all pixels.
        mean(builder, unit)
        return
    if windows.apart:
        raise ModelError("wanted windows of 1 or 2 dimensions, without dilation")
    if not (more["counted"] or windows.same):
        more |= {name: windows.inside(axis) for axis, name in enumerate(("rows", "columns"))}
    more["unsigned"] = of.dtype == np.uint8
    fill = builder.meaning(value).zero_point
    number = windows.pooled(builder, value, of, "QLinearAveragePool", fill, **more)
    windows.define(builder, of, number, windows.shape[1])


def mean(builder: Builder, unit: Unit) -> None:
    """Read GlobalAveragePool, and ReduceMean over all pixels."""
    value, (of,) = builder.value(unit.inputs[0]), unit.outputs
    rank = len(value.shape)
    keep = True
    if unit.kind == "ReduceMean":
        unit.attributes.get("noop_with_empty_axes")
        axes = unit.attributes.get("axes")
        if len(unit.inputs) > 1 and unit.inputs[1] is not None:
            numbers = unit.inputs[1].data
            axes = None if numbers is None else numbers.tolist()
        keep = bool(unit.attributes.get("keepdims", 1))
        if axes is None or sorted(axis % rank for axis in axes) != [*range(2, rank)]:
            raise ModelError(f"wanted the mean over all pixels, got axes {axes}")
    if rank < 3:
        raise ModelError(f"wanted 3 dimensions or more, got shape {value.shape}")
    items, channels, *extents, columns = value.shape
    image = builder.image(value, (items, channels, math.prod(extents), columns))
    source = (items, channels, 1, 1)
    number = builder.operate(
        "QLinearGlobalAveragePool", [image.number], tuple(source[axis] for axis in IMAGE), of
    )
    shape = (items, channels, *([1] * (rank - 2))) if keep else (items, channels)
    builder.define(of, number, shape, source, IMAGE)


LAYERS: dict[str, _Reader] = {
    "AveragePool": average_pool,
    "Conv": convolution,
    "Gemm": product,
    "GlobalAveragePool": mean,
    "MatMul": product,
    "ReduceMean": mean,
}
