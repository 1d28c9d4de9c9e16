"""Operations in single precision that readers of ONNX operators add."""

from typing import Any

import numpy as np

from celosia.sw.frontend.onnx.builder import Builder, Value
from celosia.sw.frontend.onnx.constants import real_array
from celosia.sw.frontend.onnx.operand import Operand
from celosia.sw.layers.node import ModelError

#: Operators with a fused activation.
_ACTIVATED = ("ADD", "DIV", "MUL", "SUB")


def value_of(builder: Builder, operand: Operand | None) -> Value:
    """Return a computed operand in float32; one without scale in its own type."""
    return builder.real(builder.value(operand))


def number_of(builder: Builder, operand: Operand | None) -> Value | np.ndarray:
    """Return an operand in float32: a computed value, or the array of a constant."""
    if operand is None or operand.data is None:
        return value_of(builder, operand)
    return real_array(operand)


def aligned(builder: Builder, values: list[Value]) -> list[Value]:
    """Return values whose axes lie in one order: channels last if all are images."""
    plain = all(value.shape == value.source for value in values)
    if plain and len({value.order for value in values}) == 1:
        return values
    if plain and all(len(value.shape) == 4 for value in values):
        return [builder.image(value) for value in values]
    return [builder.plain(value) for value in values]


def two(builder: Builder, kind: str, operands: list[Any], of: Operand) -> None:
    """Add an operation on two operands, each a value or an array."""
    values = aligned(builder, [operand for operand in operands if isinstance(operand, Value)])
    shapes = [tuple(operand.shape) for operand in operands]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ModelError(f"wanted shapes that broadcast, got {shapes}") from None
    if any(len(value.shape) != len(shape) for value in values):
        values = [builder.plain(value) for value in values]
    dtype = builder.tensors[values[0].number].dtype
    left, order = iter(values), tuple(range(len(shape)))
    order = values[0].order if len(values[0].order) == len(shape) else order
    numbers = [
        next(left).number
        if isinstance(operand, Value)
        else builder.constant(
            "constant",
            operand.astype(dtype)
            .reshape((1,) * (len(shape) - operand.ndim) + operand.shape)
            .transpose(order),
        )
        for operand in operands
    ]
    stored = tuple(shape[axis] for axis in order)
    # Sums and products past the greatest number become it, where ONNX Runtime gives infinity.
    more = {"activation": "NONE"} if kind in _ACTIVATED else {}
    builder.define(of, builder.operate(kind, numbers, stored, of, **more), shape, shape, order)


def clamped(builder: Builder, of: Operand, low: float, high: float) -> None:
    """Bring a float value within bounds."""
    for kind, bound in (("MAXIMUM", low), ("MINIMUM", high)):
        if np.isfinite(bound):
            two(builder, kind, [builder.values[of.name], np.array(bound)], of)


def cast(builder: Builder, value: Value, dtype: np.dtype) -> Value:
    """Return a value in another type."""
    tensor = builder.tensors[value.number]
    if tensor.dtype == dtype:
        return value
    of = Operand(f"{tensor.name} ({dtype})", dtype)
    builder.alike(of, builder.operate("CAST", [value.number], value.stored, of), value)
    return builder.values[of.name]


class Steps:
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
