"""The graph under construction: images have their channels last, without moving bytes.

ONNX keeps channels before rows. A value records the order in which its axes are stored. A transpose
or reshape in the model thus costs nothing until an operator needs the order of the model. An
operator with weights has its weights permuted instead.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from celosia.sw.frontend.onnx.constants import real_array
from celosia.sw.frontend.onnx.file.nodes import OnnxEnd
from celosia.sw.frontend.onnx.operand import Operand
from celosia.sw.ir.graph import Graph, Operation, Quantization, Tensor
from celosia.sw.layers.node import ModelError
from celosia.sw.layers.onnxruntime import quantized, table

Shape = tuple[int, ...]

#: Elements before and after along each axis.
Pads = tuple[Shape, Shape]

#: Order of the axes of a stored image: channels last.
IMAGE = (0, 2, 3, 1)

_UINT8 = np.dtype(np.uint8)


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of the model, and the order in which it is stored."""

    number: int  #: Tensor of the graph.
    shape: tuple[int, ...]  #: As the model has it.
    #: Shape of the model before reshapes that move nothing; has as many elements.
    source: tuple[int, ...]
    order: tuple[int, ...]  #: Axes of ``source`` in the order in which they are stored.
    unsigned: bool = False  #: True where the model's type is uint8: the stored int8 are 128 less.

    @property
    def stored(self) -> tuple[int, ...]:
        """Stored shape."""
        return tuple(self.source[axis] for axis in self.order)

    @property
    def in_order(self) -> bool:
        """True where elements follow one another as in the model."""
        return in_order(self.source, self.order)


def in_order(shape: tuple[int, ...], order: tuple[int, ...]) -> bool:
    """Return whether a permutation of axes moves no element."""
    axes = [axis for axis in order if shape[axis] > 1]
    return axes == sorted(axes)


def shifted(meaning: Quantization, dtype: np.dtype) -> Quantization:
    """Return the quantisation of the int8 that stand for integers of a type."""
    offset = 128 if dtype == _UINT8 else 0
    return replace(meaning, zero_points=meaning.zero_points - offset)


class Builder:
    """A graph under construction.

    ``values``: values made so far, by the model's name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: dict[str, Value] = {}
        self.tensors: list[Tensor] = []
        self.operations: list[Operation] = []
        self._inputs: list[int] = []
        self._outputs: list[int] = []
        #: Values that were brought to another order: by tensor, operator, shape, permutation.
        self._known: dict[tuple[int, str, Shape, Shape], int] = {}

    def tensor(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: Any,
        meaning: Quantization | None = None,
        data: np.ndarray | None = None,
    ) -> int:
        """Add a tensor; return its number."""
        self.tensors.append(Tensor(name, tuple(shape), np.dtype(dtype), meaning, data))
        return len(self.tensors) - 1

    def constant(self, name: str, data: np.ndarray, meaning: Quantization | None = None) -> int:
        """Add a constant; return its number."""
        return self.tensor(name, data.shape, data.dtype, meaning, np.ascontiguousarray(data))

    def operate(
        self, kind: str, inputs: list[int], shape: Shape, of: Operand, /, **attributes: Any
    ) -> int:
        """Add an operation with one result, of an operand's meaning; return its tensor."""
        if of.quantization is None:
            number = self.tensor(of.name, shape, of.dtype)
        else:
            number = self.tensor(of.name, shape, np.int8, shifted(of.quantization, of.dtype))
        self.add(kind, inputs, [number], **attributes)
        return number

    def add(self, kind: str, inputs: list[int], results: list[int], **attributes: Any) -> None:
        """Add an operation whose results have tensors."""
        index, ends = len(self.operations), (tuple(inputs), tuple(results))
        self.operations.append(Operation(kind, index, *ends, attributes))

    def meaning(self, value: Value) -> Quantization:
        """Return the quantisation of a value's stored integers."""
        quantization = self.tensors[value.number].quantization
        assert quantization
        return quantization

    def value(self, operand: Operand | None) -> Value:
        """Return an operand that is computed.

        Raises ModelError if it is a constant, or left out.
        """
        if operand is None or operand.name not in self.values:
            got = "none" if operand is None else f"constant {operand.name!r}"
            raise ModelError(f"wanted an input that is computed, got {got}")
        return self.values[operand.name]

    def define(
        self,
        of: Operand,
        number: int,
        shape: tuple[int, ...],
        source: tuple[int, ...] | None = None,
        order: tuple[int, ...] | None = None,
    ) -> Value:
        """Give a tensor of the graph the name that an operand has in the model."""
        source = source or shape
        order = order or tuple(range(len(source)))
        unsigned = of.dtype == _UINT8 and self.tensors[number].dtype == np.int8
        value = Value(number, shape, source, order, unsigned)
        self.values[of.name] = value
        return value

    def alike(self, of: Operand, number: int, value: Value) -> None:
        """Define a value that is stored like another one."""
        self.define(of, number, value.shape, value.source, value.order)

    def _moved(self, value: Value, kind: str, shape: tuple[int, ...], **attributes: Any) -> int:
        """Add an operation that moves a value's elements, unless it exists already."""
        key = value.number, kind, shape, attributes.get("permutation", ())
        if key not in self._known:
            tensor = self.tensors[value.number]
            number = self.tensor(tensor.name, shape, tensor.dtype, tensor.quantization)
            self.add(kind, [value.number], [number], **attributes)
            self._known[key] = number
        return self._known[key]

    def reshaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        """Return a value stored as the model has it, in another shape."""
        value = self.plain(value)
        if value.source != shape:
            number = self._moved(value, "RESHAPE", shape)
            value = Value(number, shape, shape, tuple(range(len(shape))), value.unsigned)
        return value

    def plain(self, value: Value) -> Value:
        """Return a value stored as the model has it."""
        if value.in_order:
            if value.stored == value.shape:
                number = value.number
            else:
                number = self._moved(value, "RESHAPE", value.shape)
        else:
            back = tuple(int(axis) for axis in np.argsort(value.order))
            number = self._moved(value, "TRANSPOSE", value.source, permutation=back)
            if value.source != value.shape:
                between = Value(number, value.source, value.source, tuple(range(len(back))))
                number = self._moved(between, "RESHAPE", value.shape)
        order = tuple(range(len(value.shape)))
        return Value(number, value.shape, value.shape, order, value.unsigned)

    def image(self, value: Value, shape: tuple[int, ...] | None = None) -> Value:
        """Return a value stored as an image, channels last.

        - ``value``: of four dimensions, or of as many elements as ``shape``.
        - ``shape``: samples, channels, rows and columns.
        """
        shape = shape or value.shape
        if len(shape) != 4:
            raise ModelError(f"wanted 4 dimensions, got shape {value.shape}")
        if value.source == shape and value.order == IMAGE:
            return replace(value, shape=shape)
        value = self.reshaped(value, shape) if value.shape != shape else self.plain(value)
        return self.stored(value, IMAGE)

    def stored(self, value: Value, order: tuple[int, ...]) -> Value:
        """Return a value stored in an order of the model's axes."""
        value, shape = self.plain(value), value.shape
        number, stored = value.number, tuple(shape[axis] for axis in order)
        if not in_order(shape, order):
            number = self._moved(value, "TRANSPOSE", stored, permutation=order)
        elif stored != shape:
            number = self._moved(value, "RESHAPE", stored)
        return Value(number, shape, shape, order, value.unsigned)

    def padded(self, value: Value, pads: Pads, of: Operand, fill: float) -> tuple[int, Shape]:
        """Add margins before and after each stored axis; return the result and its shape."""
        before, after = pads
        shape = tuple(a + n + b for a, n, b in zip(before, value.stored, after, strict=True))
        margins = self.constant("paddings", np.array(pads, np.int32).T)
        margin = {"before": before, "after": after, "value": fill}
        return self.operate("PAD", [value.number, margins], shape, of, **margin), shape

    def lookup(self, number: int, entries: np.ndarray, of: Operand) -> int:
        """Add a function of one element, given for each of 256; return its result."""
        shape = self.tensors[number].shape
        return self.operate("LookupTable", [number], shape, of, entries=tuple(entries.tolist()))

    def meant(self, value: Value, of: Operand) -> Value:
        """Return a value brought to an operand's scale and zero point."""
        assert of.quantization
        meaning = shifted(of.quantization, of.dtype)
        if meaning.equals(self.meaning(value)):
            return value
        entries = table(lambda x: x, self.meaning(value), meaning)
        tensor = replace(of, name=self.tensors[value.number].name)
        number = self.lookup(value.number, entries, tensor)
        return replace(value, number=number, unsigned=of.dtype == _UINT8)

    def real(self, value: Value) -> Value:
        """Return a value without scale: one that is quantised passes through DEQUANTIZE."""
        tensor, key = self.tensors[value.number], (value.number, "DEQUANTIZE", value.stored, ())
        if tensor.quantization is None:
            return value
        if key not in self._known:
            number = self.tensor(f"{tensor.name} (float)", value.stored, np.float32)
            self.add("DEQUANTIZE", [value.number], [number])
            self._known[key] = number
        return replace(value, number=self._known[key], unsigned=False)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Leave the graph unchanged where reading a unit ends with ModelError."""
        counts = len(self.tensors), len(self.operations)
        values, known = dict(self.values), dict(self._known)
        try:
            yield
        except ModelError:
            del self.tensors[counts[0] :], self.operations[counts[1] :]
            self.values, self._known = values, known
            raise

    def scaled(self, operand: Operand | None, of: Operand) -> Value:
        """Return an operand at another one's scale, stored as the model has it; a constant, too."""
        if operand is None or operand.data is None:
            value = self.value(operand)
            return self.plain(self.meant(value, of) if of.quantization else self.real(value))
        data, meaning = real_array(operand), None
        if of.quantization:
            meaning = shifted(of.quantization, of.dtype)
            data = quantized(data, meaning)
        number = self.constant(operand.name, data, meaning)
        return Value(number, data.shape, data.shape, tuple(range(data.ndim)))

    def input(self, end: OnnxEnd, operand: Operand | None) -> None:
        """Add an input of the model; the host makes int8 of uint8."""
        meaning = operand.quantization if operand else None
        number = self.tensor(end.name, end.shape, end.dtype, meaning)
        self._inputs.append(number)
        of = operand or Operand(end.name, end.dtype)
        if end.dtype == _UINT8:
            number = self.operate("QUANTIZE", [number], end.shape, of)
        self.define(of, number, end.shape)

    def output(self, end: OnnxEnd, operand: Operand) -> None:
        """Add an output of the model, in the model's type and order of axes."""
        value = self.plain(self.values[operand.name])
        if value.shape != end.shape and end.shape:
            raise ModelError(f"output {end.name!r}: wanted shape {value.shape}, got {end.shape}")
        number = value.number
        if end.dtype != self.tensors[number].dtype:
            meaning = operand.quantization if end.dtype == _UINT8 else None
            number = self.tensor(end.name, value.shape, end.dtype, meaning)
            kind = "QUANTIZE" if end.dtype == _UINT8 else "DEQUANTIZE"
            self.add(kind, [value.number], [number])
        elif number not in self._inputs:
            self.tensors[number] = replace(self.tensors[number], name=end.name)
        self._outputs.append(number)

    def graph(self) -> Graph:
        """Return the finished graph."""
        return Graph(
            self.name,
            tuple(self.tensors),
            tuple(self.operations),
            tuple(self._inputs),
            tuple(self._outputs),
        )
