"""Readers of operators that compute each element by itself, and of SOFTMAX."""

import math
from collections.abc import Callable

import numpy as np

from celosia.sw.frontend.onnx.builder import IMAGE, Builder, Value, shifted
from celosia.sw.frontend.onnx.operand import Operand, Unit
from celosia.sw.frontend.onnx.readers.moves import one_axis
from celosia.sw.ir.graph import Quantization
from celosia.sw.layers.node import ModelError
from celosia.sw.layers.onnxruntime import added, multiplied, quantized, table

_Reader = Callable[[Builder, Unit], None]


def function(builder: Builder, unit: Unit) -> None:
    """Read a function of one element: a table."""
    value, (of,) = builder.value(unit.inputs[0]), unit.outputs
    assert of.quantization and unit.function
    output = shifted(of.quantization, of.dtype)
    if unit.kind == "Identity" and output.equals(builder.meaning(value)):
        builder.alike(of, value.number, value)
        return
    entries = table(unit.function, builder.meaning(value), output)
    builder.alike(of, builder.lookup(value.number, entries, of), value)


def quantize_linear(builder: Builder, unit: Unit) -> None:
    """Read QuantizeLinear of a float input; an image is brought to its stored order first."""
    value, (of,) = builder.value(unit.inputs[0]), unit.outputs
    if len(value.shape) == 4:
        value = builder.image(value)
    number = builder.operate("QuantizeLinear", [value.number], value.stored, of)
    builder.alike(of, number, value)


def _meaning(operand: Operand) -> Quantization:
    if operand.quantization is None or len(operand.quantization.scales) != 1:
        raise ModelError(f"wanted one scale for {operand.name!r}")
    return shifted(operand.quantization, operand.dtype)


def _two(builder: Builder, unit: Unit) -> None:
    """Read Add and Mul of two quantised operands."""
    (of,) = unit.outputs
    first, second = unit.inputs[0], unit.inputs[1]
    if first is None or second is None or of.quantization is None:
        raise ModelError("wanted two inputs")
    ends = _meaning(first), _meaning(second), shifted(of.quantization, of.dtype)
    computed = [operand for operand in (first, second) if operand.data is None]
    unsigned = of.dtype == np.uint8
    if len(computed) == 1:
        constant = second if first is computed[0] else first
        assert constant.data is not None
        if constant.data.size == 1 and constant.data.ndim <= len(builder.value(computed[0]).shape):
            _number(builder, unit, ends, computed[0] is first)
            return
    values = [builder.value(operand) for operand in computed]
    values = _aligned(builder, values)
    shapes = [operand.data.shape for operand in (first, second) if operand.data is not None]
    shape = np.broadcast_shapes(*(value.shape for value in values), *shapes)
    base = values[0]
    if any(len(value.shape) != len(shape) for value in values):
        values = [builder.plain(value) for value in values]
        base = values[0]
    numbers = iter(values)
    operands = [
        next(numbers).number
        if operand.data is None
        else constant_of(builder, operand, len(shape), base.order)
        for operand in (first, second)
    ]
    order = base.order if len(base.order) == len(shape) else tuple(range(len(shape)))
    stored = tuple(shape[axis] for axis in order)
    number = builder.operate(f"QLinear{unit.kind}", operands, stored, of, unsigned=unsigned)
    builder.define(of, number, shape, shape, order)


def _aligned(builder: Builder, values: list[Value]) -> list[Value]:
    """Return values whose axes lie in the same order, none of them reshaped."""
    if len(values) == 2 and values[0].shape == values[1].shape:
        one, two = values
        if one.source == two.source and one.order == two.order and one.source != one.shape:
            return [builder.plain(value) for value in values]
    values = [v if v.source == v.shape else builder.plain(v) for v in values]
    if any(value.order == IMAGE for value in values):
        if all(len(value.shape) == 4 for value in values):
            return [builder.image(value) for value in values]
    if len({value.order for value in values}) > 1:
        return [builder.plain(value) for value in values]
    return values


def constant_of(builder: Builder, operand: Operand, rank: int, order: tuple[int, ...]) -> int:
    """Add a constant operand of one scale, stored in an order; return its number."""
    data = operand.data
    assert data is not None
    if data.ndim > rank or len(order) != rank:
        raise ModelError(f"wanted a constant of at most {rank} dimensions, got {data.ndim}")
    if operand.dtype not in (np.int8, np.uint8):
        raise ModelError(f"wanted a constant of int8 or uint8, got {operand.dtype}")
    wide = data.astype(np.int64) - (128 if operand.dtype == np.uint8 else 0)
    wide = wide.reshape((1,) * (rank - data.ndim) + data.shape).transpose(order)
    return builder.constant(operand.name, wide.astype(np.int8), _meaning(operand))


def _number(
    builder: Builder,
    unit: Unit,
    ends: tuple[Quantization, Quantization, Quantization],
    first: bool,
) -> None:
    """Define a sum or product of a value and one number: a table."""
    of, unsigned = unit.outputs[0], unit.outputs[0].dtype == np.uint8
    source, constant = unit.inputs[:2] if first else unit.inputs[1::-1]
    assert constant and constant.data is not None
    number = constant.data.astype(np.int64).reshape(-1) - (128 if unsigned else 0)
    value = builder.value(source)
    entries = np.arange(256, dtype=np.uint8).view(np.int8)
    compute = added if unit.kind == "Add" else multiplied
    if not first:
        ends = ends[1], ends[0], ends[2]
    results = compute(entries, number, ends, unsigned=unsigned)
    low, high = quantized(np.array([unit.low, unit.high], np.float32), ends[2])
    builder.alike(of, builder.lookup(value.number, np.clip(results, low, high), of), value)


def _extremes(builder: Builder, unit: Unit) -> None:
    """Read Max and Min of several: of the integers, at the result's scale."""
    (of,) = unit.outputs
    kind = "MAXIMUM" if unit.kind == "Max" else "MINIMUM"
    operands = [operand for operand in unit.inputs if operand is not None]
    computed = [operand for operand in operands if operand.data is None]
    values = iter(_aligned(builder, [builder.meant(builder.value(e), of) for e in computed]))
    ends = [
        next(values) if operand.data is None else builder.scaled(operand, of)
        for operand in operands
    ]
    shape = np.broadcast_shapes(*(end.shape for end in ends))
    if len({(len(end.shape), end.order) for end in ends}) > 1:
        ends = [builder.plain(end) for end in ends]
    order = ends[0].order if len(ends[0].shape) == len(shape) else tuple(range(len(shape)))
    result, *others = ends
    for other in others:
        extents = np.broadcast_shapes(result.shape, other.shape)
        stored = tuple(extents[axis] for axis in order[-len(extents) :])
        number = builder.operate(kind, [result.number, other.number], stored, of)
        result = Value(number, extents, extents, result.order)
    builder.define(of, result.number, shape, shape, order)


def last_axis(builder: Builder, value: Value, axis: int) -> Value:
    """Return a value whose axis is stored last."""
    if value.shape == value.source and value.order[-1] == axis:
        return value
    value = builder.plain(value)
    order = (*(other for other in value.order if other != axis), axis)
    if order == value.order:
        return value
    return builder.stored(value, order)


def softmax(builder: Builder, unit: Unit) -> None:
    """Read Softmax."""
    value, (of,) = builder.value(unit.inputs[0]), unit.outputs
    shape = value.shape
    axis = one_axis(unit.attributes.get("axis", -1), len(shape))
    # Before opset 13 Softmax made two dimensions of all.
    if unit.attributes.get("opset", 13) < 13 and axis != len(shape) - 1:
        value = builder.reshaped(value, (math.prod(shape[:axis]), math.prod(shape[axis:])))
        axis = 1
    value = last_axis(builder, value, axis)
    number = builder.operate("QLinearSoftmax", [value.number], value.stored, of)
    builder.define(of, number, shape, value.source, value.order)


ELEMENTWISE: dict[str, _Reader] = {
    "Add": _two,
    "Max": _extremes,
    "Min": _extremes,
    "Mul": _two,
    "QuantizeLinear": quantize_linear,
    "Softmax": softmax,
}
