"""Readers of operators in float that are several operations, or whose results are no floats."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from celosia.sw.frontend.onnx.builder import Builder, Value
from celosia.sw.frontend.onnx.constants import real_array
from celosia.sw.frontend.onnx.operand import Operand, Operands, Unit
from celosia.sw.frontend.onnx.readers.dynamic import COMPUTED
from celosia.sw.frontend.onnx.readers.floats import FLOATS as ONE
from celosia.sw.frontend.onnx.readers.moves import numbers, one_axis
from celosia.sw.frontend.onnx.readers.recurrent import recurrent
from celosia.sw.frontend.onnx.readers.steps import Steps, cast, number_of, two, value_of
from celosia.sw.frontend.onnx.readers.transposed import real_transposed
from celosia.sw.layers.node import ModelError
from celosia.sw.layers.record import ANY

_Reader = Callable[[Builder, Unit], None]

#: Comparisons, by operator.
COMPARISONS = {
    "Equal": "EQUAL",
    "Greater": "GREATER",
    "GreaterOrEqual": "GREATER_EQUAL",
    "Less": "LESS",
    "LessOrEqual": "LESS_EQUAL",
}


#: Sums over axes: functions of their terms, and of the sums.
_NORMS = {
    "ReduceL1": ("ABS", ""),
    "ReduceL2": ("SQUARE", "SQRT"),
    "ReduceLogSum": ("", "LOG"),
    "ReduceSumSquare": ("SQUARE", ""),
}


def _normalisation(builder: Builder, unit: Unit) -> None:
    """Read LayerNormalization, InstanceNormalization and GroupNormalization."""
    value, (of, *more) = builder.plain(value_of(builder, unit.inputs[0])), unit.outputs
    unit.attributes.get("stash_type")
    steps, rank = Steps(builder, of), len(value.shape)
    epsilon = unit.attributes.get("epsilon", 1e-5)
    factors = [real_array(factor) for factor in unit.inputs[1:3] if factor is not None]
    if unit.kind == "LayerNormalization":
        first = one_axis(unit.attributes.get("axis", -1), rank)
        result, mean, deviation = steps.normal(value, [*range(first, rank)], epsilon)
        for end in more[:1]:
            builder.alike(end, mean.number, mean)
        for end in more[1:]:
            Steps(builder, end).two("DIV", np.float32(1), deviation)
    else:
        groups = unit.attributes.get("num_groups", value.shape[1])
        if groups < 1 or value.shape[1] % groups:
            raise ModelError(f"wanted groups of {value.shape[1]} channels, got {groups}")
        split = builder.reshaped(
            value, (value.shape[0], groups, -(-value.shape[1] // groups), *value.shape[2:])
        )
        result, *_ = steps.normal(split, [*range(2, rank + 1)], epsilon)
        result = builder.reshaped(result, value.shape)
        factors = [factor.reshape(-1, *[1] * (rank - 2)) for factor in factors]
    for kind, factor in zip(("MUL", "ADD"), factors, strict=False):
        result = steps.two(kind, result, factor)
    builder.alike(of, result.number, result)


def _prelu(builder: Builder, unit: Unit) -> None:
    value, of, slope = value_of(builder, unit.inputs[0]), unit.outputs[0], unit.inputs[1]
    value = builder.plain(value)
    slope = real_array(slope)
    ends = [value.number, builder.constant("slope", slope)]
    builder.define(of, builder.operate("PRELU", ends, value.shape, of), value.shape)


def _mean(builder: Builder, unit: Unit) -> None:
    """Read Mean and Sum of several tensors."""
    ends = [number_of(builder, operand) for operand in unit.inputs]
    of = unit.outputs[0]
    steps, total = Steps(builder, of), ends[0]
    if not isinstance(total, Value):
        raise ModelError("wanted a first input that is computed")
    for operand in ends[1:]:
        total = steps.two("ADD", total, operand)
    if unit.kind == "Mean":
        total = steps.two("DIV", total, np.array(len(ends), np.float32))
    builder.alike(of, total.number, total)


def _compared(builder: Builder, unit: Unit) -> None:
    two(
        builder,
        COMPARISONS[unit.kind],
        [number_of(builder, operand) for operand in unit.inputs],
        unit.outputs[0],
    )


def _index(builder: Builder, unit: Unit) -> None:
    """Read ArgMax and ArgMin: of integers as of the floats that they stand for."""
    value, of = builder.plain(builder.value(unit.inputs[0])), unit.outputs[0]
    axis = one_axis(unit.attributes.get("axis", 0), len(value.shape))
    shape = (*value.shape[:axis], *value.shape[axis + 1 :])
    kind = "ARG_MAX" if unit.kind == "ArgMax" else "ARG_MIN"
    last = bool(unit.attributes.get("select_last_index"))
    number = builder.operate(kind, [value.number], shape, of, axis=axis, last=last)
    if unit.attributes.get("keepdims", 1):
        shape = (*value.shape[:axis], 1, *value.shape[axis + 1 :])
        number = builder.operate("RESHAPE", [number], shape, of)
    builder.define(of, number, shape)


def _norm(builder: Builder, unit: Unit) -> None:
    """Read ReduceL1, ReduceL2, ReduceLogSum and ReduceSumSquare: a sum, and functions around it."""
    before, after = _NORMS[unit.kind]
    value, (_, *axes), (of,) = value_of(builder, unit.inputs[0]), unit.inputs, unit.outputs
    terms = Operand(f"{of.name} (terms)", np.dtype(np.float32))
    number = builder.operate(before, [value.number], value.stored, terms) if before else None
    builder.alike(terms, value.number if number is None else number, value)
    ONE["ReduceSum"](builder, replace(unit, kind="ReduceSum", inputs=Operands((terms, *axes))))
    if after:
        Steps(builder, of).one(after, builder.values[of.name])


def _running(builder: Builder, unit: Unit) -> None:
    """Read CumSum."""
    value, of = builder.plain(value_of(builder, unit.inputs[0])), unit.outputs[0]
    axis = one_axis((numbers(unit, 1) or [0])[0], len(value.shape))
    flags = {name: bool(unit.attributes.get(name)) for name in ("exclusive", "reverse")}
    number = builder.operate("CUMSUM", [value.number], value.shape, of, axis=axis, **flags)
    builder.define(of, number, value.shape)


def _quantize(builder: Builder, unit: Unit) -> None:
    """Read a QuantizeLinear in float: of a computed scale, of several, or to other integers."""
    (of,) = unit.outputs
    if of.dtype.name not in ANY[1]:
        raise ModelError(f"wanted a result of int8, uint8, int16 or uint16, got {of.dtype}")
    # int32 holds uint16.
    bounds = np.iinfo(np.uint16 if of.dtype == np.int32 else of.dtype)
    value = _number(builder, unit, 0)
    real = Steps(builder, Operand(f"{of.name} (float)", np.dtype(np.float32)))
    result = real.one("ROUND", real.two("DIV", value, _number(builder, unit, 1)))
    if len(unit.inputs) > 2:
        result = real.two("ADD", result, _number(builder, unit, 2))
    for kind, bound in (("MAXIMUM", bounds.min), ("MINIMUM", bounds.max)):
        result = real.two(kind, result, np.float32(bound))
    Steps(builder, of).one("CAST", result)


def _dequantize(builder: Builder, unit: Unit) -> None:
    """Read a DequantizeLinear in float: of a computed scale, of several, or of other integers."""
    steps, result = Steps(builder, unit.outputs[0]), _number(builder, unit, 0)
    if len(unit.inputs) > 2:
        result = steps.two("SUB", result, _number(builder, unit, 2))
    steps.two("MUL", result, _number(builder, unit, 1))


def _number(builder: Builder, unit: Unit, position: int) -> Any:
    """Return an operand as float32: a value, or a constant as it broadcasts with the first."""
    operand, shape = unit.inputs[position], builder.value(unit.inputs[0]).shape
    axis, size = unit.attributes.get("axis", 1), unit.attributes.get("block_size")
    if operand is None or operand.data is None:
        data = cast(builder, value_of(builder, operand), np.dtype(np.float32))
    else:
        data = real_array(operand)
    if position == 0 or math.prod(data.shape) == 1:
        return data if position == 0 else _numbers(builder, data, ())
    axis = one_axis(axis, len(shape))
    if not size:
        return _numbers(builder, data, (math.prod(data.shape), *[1] * (len(shape) - axis - 1)))
    if isinstance(data, Value):
        raise ModelError("wanted constant scales of blocks")
    return data.repeat(size, axis)[(slice(None),) * axis + (slice(shape[axis]),)]


def _numbers(builder: Builder, data: Any, shape: tuple[int, ...]) -> Any:
    """Return a value or an array in another shape."""
    if isinstance(data, np.ndarray):
        return data.reshape(shape)
    return builder.reshaped(data, shape)


def _integers(builder: Builder, unit: Unit) -> None:
    """Read the integers of a quantised tensor, in int32."""
    value, (of,) = builder.value(unit.inputs[0]), unit.outputs
    result = Steps(builder, of).one("CAST", value)
    if value.unsigned:
        Steps(builder, of).two("ADD", result, np.array(128))


#: Operator that gives the integers of a quantised tensor.
INTEGERS = "Integers"

#: Types of results that are not those of the first input, by operator.
KINDS = {
    **dict.fromkeys(("GRU", "LayerNormalization", "LSTM", "RNN"), (np.float32,) * 3),
    **dict.fromkeys(COMPARISONS, (np.bool_,)),
    **dict.fromkeys(("ArgMax", "ArgMin"), (np.int64,)),
    COMPUTED["DequantizeLinear"]: (np.float32,),
}

#: Readers of all operators in float.
FLOATS: dict[str, _Reader] = {
    **ONE,
    **dict.fromkeys(COMPARISONS, _compared),
    **dict.fromkeys(_NORMS, _norm),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), recurrent),
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization"), _normalisation),
    "ArgMax": _index,
    "ArgMin": _index,
    "ConvTranspose": real_transposed,
    "CumSum": _running,
    COMPUTED["DequantizeLinear"]: _dequantize,
    INTEGERS: _integers,
    "LayerNormalization": _normalisation,
    "Mean": _mean,
    "PRelu": _prelu,
    COMPUTED["QuantizeLinear"]: _quantize,
    "Sum": _mean,
}
