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
from celosia.sw.frontend.onnx.readers.floats import cast, two, value_of
from celosia.sw.frontend.onnx.readers.moves import numbers, one_axis
from celosia.sw.frontend.onnx.readers.recurrent import recurrent
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


class _Steps:
    """Operations in single precision, one after the other, under the name of a unit's result."""

    def __init__(self, builder: Builder, of: Operand) -> None:
        self.builder, self.of = builder, of

    def two(self, kind: str, first: Any, second: Any) -> Value:
        """Return the result of an operation on two values or arrays."""
        two(self.builder, kind, [first, second], self.of)
        return self.builder.values[self.of.name]

    def one(self, kind: str, value: Value, **attributes: Any) -> Value:
        """Return the result of an operation that keeps the shape."""
        number = self.builder.operate(kind, [value.number], value.stored, self.of, **attributes)
        self.builder.alike(self.of, number, value)
        return self.builder.values[self.of.name]

    def choice(self, kind: str, value: Value, bound: float, chosen: Value) -> Value:
        """Return a value where another one compares with a bound, else 0."""
        condition = replace(self.of, name=f"{self.of.name} (condition)", dtype=np.dtype(np.bool_))
        two(self.builder, kind, [value, _single(bound)], condition)
        zero = self.builder.constant("zero", np.zeros([1] * len(value.stored), np.float32))
        ends = [self.builder.values[condition.name].number, chosen.number, zero]
        number = self.builder.operate("SELECT_V2", ends, value.stored, self.of)
        self.builder.alike(self.of, number, value)
        return self.builder.values[self.of.name]

    def mean(self, value: Value, axes: list[int]) -> Value:
        """Return the mean over some axes, which stay as 1."""
        value = self.builder.plain(value)
        shape = tuple(1 if axis in axes else n for axis, n in enumerate(value.shape))
        number = self.builder.operate(
            "MEAN", [value.number], shape, self.of, axes=tuple(sorted(axes)), keep_dims=True
        )
        return self.builder.define(self.of, number, shape)

    def normal(self, value: Value, axes: list[int], epsilon: float) -> tuple[Value, Value, Value]:
        """Return a value less its mean, divided by its deviation; the mean and the deviation."""
        mean = self.mean(value, axes)
        apart = self.two("SUB", value, mean)
        variance = self.mean(self.one("SQUARE", apart), axes)
        deviation = self.one("SQRT", self.two("ADD", variance, np.array(epsilon, np.float32)))
        return self.two("DIV", apart, deviation), mean, deviation


def _normalisation(builder: Builder, unit: Unit) -> None:
    """Read LayerNormalization, InstanceNormalization and GroupNormalization."""
    value, (of, *more) = builder.plain(value_of(builder, unit.inputs[0])), unit.outputs
    unit.attributes.get("stash_type")
    steps, rank = _Steps(builder, of), len(value.shape)
    epsilon = unit.attributes.get("epsilon", 1e-5)
    factors = [real_array(each) for each in unit.inputs[1:3] if each is not None]
    if unit.kind == "LayerNormalization":
        first = one_axis(unit.attributes.get("axis", -1), rank)
        result, mean, deviation = steps.normal(value, [*range(first, rank)], epsilon)
        for end in more[:1]:
            builder.alike(end, mean.number, mean)
        for end in more[1:]:
            _Steps(builder, end).two("DIV", _single(1), deviation)
    else:
        groups = unit.attributes.get("num_groups", value.shape[1])
        if groups < 1 or value.shape[1] % groups:
            raise ModelError(f"wanted groups of {value.shape[1]} channels, got {groups}")
        split = builder.reshaped(
            value, (value.shape[0], groups, -(-value.shape[1] // groups), *value.shape[2:])
        )
        result, *_ = steps.normal(split, [*range(2, rank + 1)], epsilon)
        result = builder.reshaped(result, value.shape)
        factors = [each.reshape(-1, *[1] * (rank - 2)) for each in factors]
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
    ends = [
        real_array(each) if each is not None and each.data is not None else value_of(builder, each)
        for each in unit.inputs
    ]
    of = unit.outputs[0]
    steps, total = _Steps(builder, of), ends[0]
    if not isinstance(total, Value):
        raise ModelError("wanted a first input that is computed")
    for each in ends[1:]:
        total = steps.two("ADD", total, each)
    if unit.kind == "Mean":
        total = steps.two("DIV", total, np.array(len(ends), np.float32))
    builder.alike(of, total.number, total)


def _compared(builder: Builder, unit: Unit) -> None:
    two(
        builder,
        COMPARISONS[unit.kind],
        [
            real_array(each)
            if each is not None and each.data is not None
            else value_of(builder, each)
            for each in unit.inputs
        ],
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
        _Steps(builder, of).one(after, builder.values[of.name])


def _running(builder: Builder, unit: Unit) -> None:
    """Read CumSum."""
    value, of = builder.plain(value_of(builder, unit.inputs[0])), unit.outputs[0]
    axis = one_axis((numbers(unit, 1) or [0])[0], len(value.shape))
    flags = {name: bool(unit.attributes.get(name)) for name in ("exclusive", "reverse")}
    number = builder.operate("CUMSUM", [value.number], value.shape, of, axis=axis, **flags)
    builder.define(of, number, value.shape)


def _single(number: Any) -> np.ndarray:
    return np.array(number, np.float32)


def _exponential(builder: Builder, unit: Unit) -> None:
    """Read Celu, Elu and Selu: a line above zero, an exponential function below."""
    value, (of,) = value_of(builder, unit.inputs[0]), unit.outputs
    steps, selu = _Steps(builder, of), unit.kind == "Selu"
    alpha = _single(unit.attributes.get("alpha", 1.67326319217681884765625 if selu else 1))
    if unit.kind == "Elu" and alpha == 1:
        steps.one("ELU", value)
        return
    below = steps.two("MINIMUM", value, _single(0))
    if unit.kind == "Celu":
        below = steps.two("DIV", below, alpha)
    below = steps.two("MUL", steps.two("SUB", steps.one("EXP", below), _single(1)), alpha)
    total = steps.two("ADD", steps.two("MAXIMUM", value, _single(0)), below)
    if selu:
        gamma = unit.attributes.get("gamma", 1.05070102214813232421875)
        steps.two("MUL", total, _single(gamma))


def _product(builder: Builder, unit: Unit) -> None:
    """Read Mish and Softsign: a value times or by a function of it."""
    value, steps = value_of(builder, unit.inputs[0]), _Steps(builder, unit.outputs[0])
    if unit.kind == "Mish":
        steps.two("MUL", value, steps.one("TANH", steps.one("Softplus", value)))
    else:
        steps.two("DIV", value, steps.two("ADD", steps.one("ABS", value), _single(1)))


def _chosen(builder: Builder, unit: Unit) -> None:
    """Read Shrink and ThresholdedRelu: zero, but past a bound."""
    value, steps = value_of(builder, unit.inputs[0]), _Steps(builder, unit.outputs[0])
    if unit.kind == "ThresholdedRelu":
        steps.choice("GREATER", value, unit.attributes.get("alpha", 1.0), value)
        return
    bias, edge = (unit.attributes.get(name, n) for name, n in (("bias", 0.0), ("lambd", 0.5)))
    above = steps.choice("GREATER", value, edge, steps.two("SUB", value, _single(bias)))
    below = steps.choice("LESS", value, -edge, steps.two("ADD", value, _single(bias)))
    steps.two("ADD", above, below)


def _quantize(builder: Builder, unit: Unit) -> None:
    """Read a QuantizeLinear in float: of a computed scale, of several, or to other integers."""
    (of,) = unit.outputs
    if of.dtype.name not in ANY[1]:
        raise ModelError(f"wanted a result of int8, uint8 or int16, got {of.dtype}")
    bounds, value = np.iinfo(of.dtype), _number(builder, unit, 0)
    real = _Steps(builder, Operand(f"{of.name} (float)", np.dtype(np.float32)))
    result = real.one("ROUND", real.two("DIV", value, _number(builder, unit, 1)))
    if len(unit.inputs) > 2:
        result = real.two("ADD", result, _number(builder, unit, 2))
    for kind, bound in (("MAXIMUM", bounds.min), ("MINIMUM", bounds.max)):
        result = real.two(kind, result, _single(bound))
    _Steps(builder, of).one("CAST", result)


def _dequantize(builder: Builder, unit: Unit) -> None:
    """Read a DequantizeLinear in float: of a computed scale, of several, or of other integers."""
    steps, result = _Steps(builder, unit.outputs[0]), _number(builder, unit, 0)
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
    result = _Steps(builder, of).one("CAST", value)
    if value.unsigned:
        _Steps(builder, of).two("ADD", result, np.array(128))


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
    "Celu": _exponential,
    "ConvTranspose": real_transposed,
    "CumSum": _running,
    COMPUTED["DequantizeLinear"]: _dequantize,
    "Elu": _exponential,
    INTEGERS: _integers,
    "LayerNormalization": _normalisation,
    "Mean": _mean,
    "Mish": _product,
    "PRelu": _prelu,
    COMPUTED["QuantizeLinear"]: _quantize,
    "Selu": _exponential,
    "Shrink": _chosen,
    "Softsign": _product,
    "Sum": _mean,
    "ThresholdedRelu": _chosen,
}
