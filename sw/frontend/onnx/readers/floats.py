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
from celosia.sw.frontend.onnx.readers.copies import REDUCTIONS, reduced, resize, where
from celosia.sw.frontend.onnx.readers.dynamic import DYNAMIC
from celosia.sw.frontend.onnx.readers.elementwise import last_axis
from celosia.sw.frontend.onnx.readers.layers import max_pool_of, require_matrices
from celosia.sw.frontend.onnx.readers.moves import joined, one_axis
from celosia.sw.frontend.onnx.readers.steps import (
    aligned,
    cast,
    clamped,
    number_of,
    two,
    value_of,
)
from celosia.sw.frontend.onnx.readers.windows import Windows, deep, pooling
from celosia.sw.layers.node import ModelError
from celosia.sw.layers.record import ANY
from celosia.sw.operators.floats import ATTRIBUTES, FUNCTIONS

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

#: Least number that stands for minus infinity.
_LEAST = float(np.finfo(np.float32).min)


def _binary(builder: Builder, unit: Unit) -> None:
    first, *others = [number_of(builder, operand) for operand in unit.inputs]
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
    elif unit.kind in ATTRIBUTES:
        defaults = ATTRIBUTES[unit.kind].items()
        more = {name: float(unit.attributes.get(name, number)) for name, number in defaults}
    number = builder.operate(_UNARY[unit.kind], [value.number], value.stored, of, **more)
    builder.alike(of, number, value)


def _clip(builder: Builder, unit: Unit) -> None:
    value, (of,) = value_of(builder, unit.inputs[0]), unit.outputs
    builder.alike(of, value.number, value)
    bounds = [real_array(operand).item() if operand else None for operand in unit.inputs[1:]]
    low, high = [*bounds, None, None][:2]
    clamped(builder, of, -np.inf if low is None else low, np.inf if high is None else high)


def _softmax(builder: Builder, unit: Unit) -> None:
    value, (of,) = value_of(builder, unit.inputs[0]), unit.outputs
    axis = one_axis(unit.attributes.get("axis", -1), len(value.shape))
    value = last_axis(builder, value, axis)
    kind, more = ("SOFTMAX", {"beta": 1.0}) if unit.kind == "Softmax" else ("LOG_SOFTMAX", {})
    builder.alike(of, builder.operate(kind, [value.number], value.stored, of, **more), value)


def _reduction(builder: Builder, unit: Unit) -> None:
    value = value_of(builder, unit.inputs[0])
    # Without their axes, sums are in the model's order.
    reduced(builder, unit, value if unit.attributes.get("keepdims", 1) else builder.plain(value))


def _normalisation(builder: Builder, unit: Unit) -> None:
    """Read BatchNormalization: a factor and a term for each channel."""
    value, of = value_of(builder, unit.inputs[0]), unit.outputs[0]
    if unit.attributes.get("training_mode") or len([end for end in unit.outputs if end]) > 1:
        raise ModelError("wanted BatchNormalization without training")
    scale, shift, mean, variance = (real_array(operand) for operand in unit.inputs[1:5])
    factor = scale / np.sqrt(variance + np.float32(unit.attributes.get("epsilon", 1e-5)))
    along_channels = (-1, *[1] * (len(value.shape) - 2))
    two(builder, "MUL", [value, factor.reshape(along_channels)], of)
    term = (shift - mean * factor).reshape(along_channels)
    two(builder, "ADD", [builder.values[of.name], term], of)


def _product(builder: Builder, unit: Unit) -> None:
    """Read MatMul and Gemm, also of two values that are computed."""
    attributes, of = unit.attributes, unit.outputs[0]
    flags = [bool(attributes.get("transA")), bool(attributes.get("transB"))]
    ends: list[Any] = [number_of(builder, operand) for operand in unit.inputs[:2]]
    ends = [builder.plain(end) if isinstance(end, Value) else end for end in ends]
    ranks = [len(end.shape) for end in ends]
    require_matrices(unit, ranks)
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
        matrix = [extent for extent, rank in sides if rank > 1]
        value = builder.reshaped(value, (*shape[:-2], *matrix))
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
    ends = [number_of(builder, operand) for operand in unit.inputs]
    values = aligned(builder, [end for end in ends if isinstance(end, Value)])
    order, left = values[0].order, iter(values)
    parts = [
        next(left)
        if isinstance(end, Value)
        else Value(builder.constant("part", end.transpose(order)), end.shape, end.shape, order)
        for end in ends
    ]
    joined(builder, of, parts, unit.attributes.get("axis", 0))


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
    max_pool_of(builder, unit, value_of(builder, unit.inputs[0]), _LEAST)


def _average_pool(builder: Builder, unit: Unit) -> None:
    """Read AveragePool: pads are zeros; where they do not count, sums are divided by less."""
    value, (of,) = value_of(builder, unit.inputs[0]), unit.outputs
    windows = pooling(unit, value, ())
    pads, taps = windows.pads[-windows.rank :], windows.kernel[-windows.rank :]
    less = any(map(any, pads)) and not unit.attributes.get("count_include_pad")
    counts = [windows.inside(axis - windows.rank) if less else [n] for axis, n in enumerate(taps)]
    inside = functools.reduce(np.multiply.outer, [np.array(count) for count in counts])
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
    **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys(_UNARY, _unary),
    "AveragePool": _average_pool,
    "BatchNormalization": _normalisation,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _convolution,
    "Gemm": _product,
    "GlobalMaxPool": _max_pool,
    "LogSoftmax": _softmax,
    "MatMul": _product,
    "MaxPool": _max_pool,
    "Resize": resize,
    "Softmax": _softmax,
    "Where": where,
}
