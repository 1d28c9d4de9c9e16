"""Readers of operators that stay in float: the host computes them in single precision.

They are the end of a network that is not quantised, and what lies between quantised parts. Also an
operator between DequantizeLinear and QuantizeLinear for which there are no integers is read here.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from celosia.sw.frontend.onnx.builder import Builder, Value
from celosia.sw.frontend.onnx.constants import real_array
from celosia.sw.frontend.onnx.operand import Operand, Unit
from celosia.sw.frontend.onnx.readers.copies import resize, where
from celosia.sw.frontend.onnx.readers.dynamic import DYNAMIC
from celosia.sw.frontend.onnx.readers.elementwise import last_axis
from celosia.sw.frontend.onnx.readers.windows import Windows, deep, pooling
from celosia.sw.layers.node import ModelError
from celosia.sw.layers.record import ANY
from celosia.sw.operators.floats import FUNCTIONS

_Reader = Callable[[Builder, Unit], None]

_BINARY = {
    "Add": "ADD",
    "Div": "DIV",
    "Max": "MAXIMUM",
    "Min": "MINIMUM",
    "Mul": "MUL",
    "Pow": "POW",
    "Sub": "SUB",
}

#: Of these, those with a fused activation.
_ACTIVATED = ("ADD", "DIV", "MUL", "SUB")

_UNARY = {
    "Abs": "ABS",
    **{kind: kind for kind in FUNCTIONS},
    "Ceil": "CEIL",
    "Cos": "COS",
    "Exp": "EXP",
    "Floor": "FLOOR",
    "Gelu": "GELU",
    "HardSwish": "HARD_SWISH",
    "LeakyRelu": "LEAKY_RELU",
    "Log": "LOG",
    "Neg": "NEG",
    "Relu": "RELU",
    "Round": "ROUND",
    "Sigmoid": "LOGISTIC",
    "Sign": "SIGN",
    "Sin": "SIN",
    "Sqrt": "SQRT",
    "Tanh": "TANH",
}

_REDUCTIONS = {
    "GlobalAveragePool": "MEAN",
    "ReduceMax": "REDUCE_MAX",
    "ReduceMean": "MEAN",
    "ReduceMin": "REDUCE_MIN",
    "ReduceProd": "REDUCE_PROD",
    "ReduceSum": "SUM",
}

#: Least number that stands for minus infinity.
_LEAST = float(np.finfo(np.float32).min)


def value_of(builder: Builder, operand: Operand | None) -> Value:
    """Return a computed operand in float32; one without scale in its own type."""
    return builder.real(builder.value(operand))


def _aligned(builder: Builder, values: list[Value]) -> list[Value]:
    """Return values whose axes lie in one order: channels last if all are images."""
    plain = all(value.shape == value.source for value in values)
    if plain and len({value.order for value in values}) == 1:
        return values
    if plain and all(len(value.shape) == 4 for value in values):
        return [builder.image(value) for value in values]
    return [builder.plain(value) for value in values]


def two(builder: Builder, kind: str, operands: list[Any], of: Operand) -> None:
    """Add an operation on two operands, each a value or an array."""
    values = _aligned(builder, [each for each in operands if isinstance(each, Value)])
    shape = np.broadcast_shapes(*(each.shape for each in operands))
    if any(len(value.shape) != len(shape) for value in values):
        values = [builder.plain(value) for value in values]
    dtype = builder.tensors[values[0].number].dtype
    rest, order = iter(values), tuple(range(len(shape)))
    order = values[0].order if len(values[0].order) == len(shape) else order
    numbers = [
        next(rest).number
        if isinstance(each, Value)
        else builder.constant(
            "constant",
            each.astype(dtype)
            .reshape((1,) * (len(shape) - each.ndim) + each.shape)
            .transpose(order),
        )
        for each in operands
    ]
    stored = tuple(shape[axis] for axis in order)
    # Sums and products past the greatest number become it, where ONNX Runtime gives infinity.
    more = {"activation": "NONE"} if kind in _ACTIVATED else {}
    builder.define(of, builder.operate(kind, numbers, stored, of, **more), shape, shape, order)


def _binary(builder: Builder, unit: Unit) -> None:
    first, *others = [
        value_of(builder, each) if each is None or each.data is None else real_array(each)
        for each in unit.inputs
    ]
    of = unit.outputs[0]
    if not others and isinstance(first, Value):
        builder.alike(of, first.number, first)
    for other in others:
        if unit.kind == "Pow" and isinstance(first, Value) and isinstance(other, Value):
            other = cast(builder, other, builder.tensors[first.number].dtype)
        two(builder, _BINARY[unit.kind], [first, other], of)
        first = builder.values[of.name]


def _unary(builder: Builder, unit: Unit) -> None:
    value, (of,), more = value_of(builder, unit.inputs[0]), unit.outputs, {}
    if unit.kind == "LeakyRelu":
        more = {"alpha": float(unit.attributes.get("alpha", 0.01))}
    elif unit.kind == "Gelu":
        more = {"approximate": unit.attributes.get("approximate", "none") == "tanh"}
    number = builder.operate(_UNARY[unit.kind], [value.number], value.stored, of, **more)
    builder.alike(of, number, value)


def clamped(builder: Builder, of: Operand, low: float, high: float) -> None:
    """Bring a float value within bounds."""
    for kind, bound in (("MAXIMUM", low), ("MINIMUM", high)):
        if np.isfinite(bound):
            two(builder, kind, [builder.values[of.name], np.array(bound)], of)


def _clip(builder: Builder, unit: Unit) -> None:
    value, (of,) = value_of(builder, unit.inputs[0]), unit.outputs
    builder.alike(of, value.number, value)
    bounds = [real_array(each).item() if each else None for each in unit.inputs[1:]]
    low, high = [*bounds, None, None][:2]
    clamped(builder, of, -np.inf if low is None else low, np.inf if high is None else high)


def _softmax(builder: Builder, unit: Unit) -> None:
    value, (of,) = value_of(builder, unit.inputs[0]), unit.outputs
    axis = unit.attributes.get("axis", -1) % len(value.shape)
    value = last_axis(builder, value, axis)
    kind, more = ("SOFTMAX", {"beta": 1.0}) if unit.kind == "Softmax" else ("LOG_SOFTMAX", {})
    builder.alike(of, builder.operate(kind, [value.number], value.stored, of, **more), value)


def _reduction(builder: Builder, unit: Unit) -> None:
    value, (of,), rank = value_of(builder, unit.inputs[0]), unit.outputs, 0
    value = value if value.shape == value.source else builder.plain(value)
    rank, keep = len(value.shape), bool(unit.attributes.get("keepdims", 1))
    axes = [*range(2, rank)] if unit.kind == "GlobalAveragePool" else unit.attributes.get("axes")
    if len(unit.inputs) > 1 and unit.inputs[1] is not None:
        axes = [int(axis) for axis in real_array(unit.inputs[1])]
    unchanged = unit.attributes.get("noop_with_empty_axes")
    axes = {axis % rank for axis in (axes or ([] if unchanged else range(rank)))}
    order = value.order if keep else tuple(sorted(value.order))
    value = value if order == value.order else builder.plain(value)
    shape = [1 if axis in axes else extent for axis, extent in enumerate(value.shape)]
    stored = [shape[axis] for axis in order if keep or axis not in axes]
    number = builder.operate(
        _REDUCTIONS[unit.kind],
        [value.number],
        tuple(stored),
        of,
        axes=tuple(sorted(order.index(axis) for axis in axes)),
        keep_dims=keep,
    )
    if keep:
        builder.define(of, number, tuple(shape), tuple(shape), order)
    else:
        builder.define(of, number, tuple(stored))


def _normalisation(builder: Builder, unit: Unit) -> None:
    """Read BatchNormalization: a factor and a term for each channel."""
    value, of = value_of(builder, unit.inputs[0]), unit.outputs[0]
    if unit.attributes.get("training_mode") or len([each for each in unit.outputs if each]) > 1:
        raise ModelError("wanted BatchNormalization without training")
    scale, shift, mean, variance = (real_array(each) for each in unit.inputs[1:5])
    factor = scale / np.sqrt(variance + np.float32(unit.attributes.get("epsilon", 1e-5)))
    along_channels = (-1, *[1] * (len(value.shape) - 2))
    two(builder, "MUL", [value, factor.reshape(along_channels)], of)
    term = (shift - mean * factor).reshape(along_channels)
    two(builder, "ADD", [builder.values[of.name], term], of)


def _product(builder: Builder, unit: Unit) -> None:
    """Read MatMul and Gemm, also of two values that are computed."""
    attributes, of = unit.attributes, unit.outputs[0]
    flags = [bool(attributes.get("transA")), bool(attributes.get("transB"))]
    ends: list[Any] = []
    for operand in unit.inputs[:2]:
        constant = operand is not None and operand.data is not None
        ends.append(real_array(operand) if constant else builder.plain(value_of(builder, operand)))
    ranks = [len(end.shape) for end in ends]
    for side, rank in enumerate(ranks):
        if rank == 1:
            # A row before a matrix, a column after one.
            extents = (*ends[side].shape, 1) if side else (1, *ends[side].shape)
            constant = isinstance(ends[side], np.ndarray)
            ends[side] = (
                ends[side].reshape(extents) if constant else builder.reshaped(ends[side], extents)
            )
    rows, depth = ends[0].shape[-2:][::-1] if flags[0] else ends[0].shape[-2:]
    inner, columns = ends[1].shape[-2:][::-1] if flags[1] else ends[1].shape[-2:]
    if depth != inner:
        raise ModelError(f"wanted rows of {inner}, got {depth}")
    shape = (*np.broadcast_shapes(ends[0].shape[:-2], ends[1].shape[:-2]), rows, columns)
    numbers = [e.number if isinstance(e, Value) else builder.constant("matrix", e) for e in ends]
    number = builder.operate("BATCH_MATMUL", numbers, shape, of, adj_x=flags[0], adj_y=flags[1])
    value = builder.define(of, number, shape)
    if 1 in ranks:
        sides = zip(shape[-2:], ranks, strict=True)
        kept = [extent for extent, rank in sides if rank > 1]
        value = builder.reshaped(value, (*shape[:-2], *kept))
        builder.alike(of, value.number, value)
    for name, position in (("alpha", None), ("beta", 2)):
        factor = np.float32(attributes.get(name, 1.0))
        if position is None and factor != 1:
            two(builder, "MUL", [builder.values[of.name], factor.reshape(())], of)
        elif position and len(unit.inputs) > 2 and unit.inputs[2] is not None:
            term = factor * real_array(unit.inputs[2])
            two(builder, "ADD", [builder.values[of.name], term], of)


def _concat(builder: Builder, unit: Unit) -> None:
    of = unit.outputs[0]
    ends = [
        real_array(e) if e and e.data is not None else value_of(builder, e) for e in unit.inputs
    ]
    values = iter(_aligned(builder, [end for end in ends if isinstance(end, Value)]))
    ends = [next(values) if isinstance(end, Value) else end for end in ends]
    order = next(end.order for end in ends if isinstance(end, Value))
    axis = unit.attributes.get("axis", 0) % len(order)
    shape = list(ends[0].shape)
    shape[axis] = sum(end.shape[axis] for end in ends)
    numbers = [
        end.number if isinstance(end, Value) else builder.constant("part", end.transpose(order))
        for end in ends
    ]
    stored = tuple(shape[each] for each in order)
    number = builder.operate("CONCATENATION", numbers, stored, of, axis=order.index(axis))
    builder.define(of, number, tuple(shape), tuple(shape), order)


def _scaled(builder: Builder, unit: Unit) -> None:
    """Read HardSigmoid and Reciprocal."""
    value, (of,) = value_of(builder, unit.inputs[0]), unit.outputs
    if unit.kind == "Reciprocal":
        two(builder, "DIV", [np.ones((), np.float32), value], of)
        return
    for kind, name, default in (("MUL", "alpha", 0.2), ("ADD", "beta", 0.5)):
        number = np.array(unit.attributes.get(name, default), np.float32)
        two(builder, kind, [value, number], of)
        value = builder.values[of.name]
    clamped(builder, of, 0, 1)


def _convolution(builder: Builder, unit: Unit) -> None:
    value, weights, of = (
        value_of(builder, unit.inputs[0]),
        real_array(unit.inputs[1]),
        unit.outputs[0],
    )
    windows = Windows(unit, value, weights.shape[2:])
    if windows.rank == 3:
        deep(builder, unit, windows, _convolution)
        return
    source, padding = windows.image(builder, value, 0.0)
    data, channels = windows.kernels(unit, weights), len(weights)
    number = builder.operate(
        "Conv",
        [source, builder.constant("weights", data)],
        windows.result(channels),
        of,
        padding=padding,
        activation="NONE",
        stride=windows.stride,
        dilation=windows.dilation,
    )
    windows.define(builder, of, number, channels)
    if len(unit.inputs) > 2 and unit.inputs[2] is not None:
        bias = real_array(unit.inputs[2]).reshape(-1, *[1] * windows.rank)
        two(builder, "ADD", [builder.values[of.name], bias], of)


def _max_pool(builder: Builder, unit: Unit) -> None:
    value, of = value_of(builder, unit.inputs[0]), unit.outputs[0]
    if len(unit.outputs) > 1:
        raise ModelError("the output of indices is not supported")
    windows = pooling(unit, value, value.shape[2:])
    if windows.apart:
        windows.combined(builder, value, of, "MAXIMUM", _LEAST)
        return
    number = windows.pooled(builder, value, of, "MAX_POOL_2D", _LEAST)
    windows.define(builder, of, number, windows.shape[1])


def _average_pool(builder: Builder, unit: Unit) -> None:
    """Read AveragePool: pads are zeros; where they do not count, sums are divided by less."""
    value, (of,) = value_of(builder, unit.inputs[0]), unit.outputs
    windows = pooling(unit, value, ())
    pads, taps = windows.pads[-windows.rank :], windows.kernel[-windows.rank :]
    less = any(map(any, pads)) and not unit.attributes.get("count_include_pad")
    counts = [windows.inside(axis - windows.rank) if less else [n] for axis, n in enumerate(taps)]
    inside = functools.reduce(np.multiply.outer, [np.array(each) for each in counts])
    if windows.apart:
        windows.combined(builder, value, of, "ADD", 0.0)
        factor = 1 / inside
    else:
        _windows_of_two(builder, value, windows, of)
        factor = math.prod(taps) / inside
    if (factor != 1).any():
        two(builder, "MUL", [builder.values[of.name], factor], of)


def _windows_of_two(builder: Builder, value: Value, windows: Windows, of: Operand) -> None:
    """Add means of windows whose pads are zeros that count."""
    image, shape = builder.image(value, windows.shape), windows.result(windows.shape[1])
    source, pads = image.number, windows.pads
    if any(map(any, pads)):
        before, after = ((0, pad[0], pad[1], 0) for pad in zip(*pads, strict=True))
        name = replace(of, name=f"{of.name} (padded)")
        source, _ = builder.padded(image, (before, after), name, 0.0)
    more = {"stride": windows.stride, "window": windows.kernel, "activation": "NONE"}
    number = builder.operate("AVERAGE_POOL_2D", [source], shape, of, padding="VALID", **more)
    windows.define(builder, of, number, windows.shape[1])


def cast(builder: Builder, value: Value, dtype: np.dtype) -> Value:
    """Return a value in another type."""
    tensor = builder.tensors[value.number]
    if tensor.dtype == dtype:
        return value
    of = Operand(f"{tensor.name} ({dtype})", dtype)
    builder.alike(of, builder.operate("CAST", [value.number], value.stored, of), value)
    return builder.values[of.name]


def _cast(builder: Builder, unit: Unit) -> None:
    """Read Cast."""
    value, (of,) = value_of(builder, unit.inputs[0]), unit.outputs
    unit.attributes.get("to")
    if of.dtype.name not in ANY[1]:
        raise ModelError(f"wanted a cast to {', '.join(ANY[1])}, got {of.dtype}")
    value = cast(builder, value, of.dtype)
    builder.alike(of, value.number, value)


FLOATS: dict[str, _Reader] = {
    **DYNAMIC,
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_REDUCTIONS, _reduction),
    **dict.fromkeys(_UNARY, _unary),
    "AveragePool": _average_pool,
    "BatchNormalization": _normalisation,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _convolution,
    "Gemm": _product,
    "GlobalMaxPool": _max_pool,
    "HardSigmoid": _scaled,
    "LogSoftmax": _softmax,
    "MatMul": _product,
    "MaxPool": _max_pool,
    "Reciprocal": _scaled,
    "Resize": resize,
    "Softmax": _softmax,
    "Where": where,
}
