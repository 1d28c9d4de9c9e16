"""Readers of operators that quantise while the network runs, as ``quantize_dynamic`` writes them.

A range belongs to one inference. The host measures it, and adds the integer products.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from celosia.sw.frontend.onnx.builder import Builder, Value
from celosia.sw.frontend.onnx.operand import Operand, Unit
from celosia.sw.frontend.onnx.readers.windows import Windows
from celosia.sw.layers.node import ModelError

#: Operators that float operators compute, by those of one constant scale to int8 or uint8.
COMPUTED = {
    "DequantizeLinear": "DequantizeLinear in float",
    "QuantizeLinear": "QuantizeLinear in float",
}

#: Types of the results that are not all float32.
RESULTS = {
    "ConvInteger": (np.int32,),
    "DynamicQuantizeLinear": (np.uint8, np.float32, np.uint8),
    "MatMulInteger": (np.int32,),
}


def _quantize(builder: Builder, unit: Unit) -> None:
    """Read DynamicQuantizeLinear: integers, scale and zero point."""
    value = builder.real(builder.value(unit.inputs[0]))
    shapes = (value.stored, (), ())
    numbers = [
        builder.tensor(of.name, shape, of.dtype)
        for of, shape in zip(unit.outputs, shapes, strict=True)
    ]
    builder.add("DynamicQuantizeLinear", [value.number], numbers)
    builder.alike(unit.outputs[0], numbers[0], value)
    for of, number in zip(unit.outputs[1:], numbers[1:], strict=True):
        builder.define(of, number, ())


def _whole(builder: Builder, operand: Operand | None) -> Value:
    """Return the integers of an operand, without its scale."""
    value = builder.value(operand)
    tensor = builder.tensors[value.number]
    if tensor.quantization is None:
        return value
    of = Operand(tensor.name, tensor.dtype)
    return replace(value, number=builder.operate("CAST", [value.number], value.stored, of))


def _point(builder: Builder, unit: Unit, position: int) -> int:
    """Return the zero point of an operand that is computed: one number.

    The integers of a quantised operand of uint8 are stored 128 less.
    """
    unsigned = builder.value(unit.inputs[position - 2]).unsigned
    operand = unit.inputs[position] if len(unit.inputs) > position else None
    if operand is None or operand.data is not None:
        data = np.zeros(1, np.int32) if operand is None or operand.data is None else operand.data
        if data.size != 1:
            raise ModelError(f"wanted one zero point, got {data.size}")
        stored = data.reshape(()).astype(np.int32) - (128 if unsigned else 0)
        return builder.constant("zero point", stored.astype(np.int32))
    if unsigned:
        raise ModelError(f"wanted a constant zero point, got {operand.name!r}")
    return builder.value(operand).number


def _weights(unit: Unit, axis: int) -> np.ndarray | None:
    """Return constant weights less their zero points, whose channels lie along an axis."""
    operand: Operand | None = unit.inputs[1]
    if operand is None or operand.data is None:
        return None
    points = unit.inputs[3] if len(unit.inputs) > 3 else None
    if points is None:
        return operand.data.astype(np.int16)
    if points.data is None:
        raise ModelError(f"wanted a constant zero point of the weights, got {points.name!r}")
    shape = [1] * operand.data.ndim
    shape[axis] = points.data.size
    return operand.data.astype(np.int16) - points.data.astype(np.int16).reshape(shape)


def _product(builder: Builder, unit: Unit) -> None:
    """Read MatMulInteger, also of two operands that are computed."""
    value, of, weights = builder.plain(_whole(builder, unit.inputs[0])), unit.outputs[0], None
    weights = _weights(unit, -1)
    points = [_point(builder, unit, 2)]
    if weights is None:
        second: Value | np.ndarray = builder.plain(_whole(builder, unit.inputs[1]))
        number = second.number
        points.append(_point(builder, unit, 3))
    else:
        second, number = weights, builder.constant("weights", weights)
    if min(len(value.shape), len(second.shape)) < 2 or value.shape[-1] != second.shape[-2]:
        raise ModelError(f"wanted rows of {second.shape[-2:]}, got {value.shape}")
    batches = np.broadcast_shapes(value.shape[:-2], second.shape[:-2])
    shape = (*batches, value.shape[-2], second.shape[-1])
    inputs = [value.number, number, *points]
    builder.define(of, builder.operate("MatMulInteger", inputs, shape, of), shape)


def _convolution(builder: Builder, unit: Unit) -> None:
    """Read ConvInteger."""
    value, of, weights = _whole(builder, unit.inputs[0]), unit.outputs[0], _weights(unit, 0)
    if weights is None:
        raise ModelError("wanted constant weights")
    windows = Windows(unit, value, weights.shape[2:])
    data, channels = windows.kernels(unit, weights), len(weights)
    image = builder.image(value, windows.shape)
    before, after = zip(*windows.pads, strict=True)
    number = builder.operate(
        "ConvInteger",
        [image.number, builder.constant("weights", data), _point(builder, unit, 2)],
        windows.result(channels),
        of,
        padding="VALID",
        before=before,
        after=after,
        stride=windows.stride,
        dilation=windows.dilation,
    )
    windows.define(builder, of, number, channels)


DYNAMIC: dict[str, Callable[[Builder, Unit], None]] = {
    "ConvInteger": _convolution,
    "DynamicQuantizeLinear": _quantize,
    "MatMulInteger": _product,
}
