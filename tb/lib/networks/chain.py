"""Graphs under construction, one operator after the other; branches begin at earlier results."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from celosia.sw.export.tflite import RESOURCE, Graph, Operation, Quantization, Tensor

__all__ = ["Chain", "Constant", "Operand", "quantized", "window_count"]

#: Types of results that inherit a quantisation.
_QUANTIZED = ("int8", "uint8", "int16")


class Constant(NamedTuple):
    """A constant with a quantisation: see ``Chain.constant``."""

    data: Any
    scale: float | np.ndarray = 0
    zero_point: int | np.ndarray = 0
    axis: int = 0
    dtype: str = ""


#: An input of an operator: number or name of a tensor, or a constant.
Operand = int | str | np.ndarray | Constant


class Chain:
    """A graph under construction.

    Operators read the last result unless other inputs are given; ``back_to`` makes an earlier one
    the last. Tensors are named ``input``, then for instance ``weights_0``, ``bias_0``,
    ``output_0``, by the number of the operator. A scale of 0 stands for no quantisation; float
    tensors have none in any case. A chain of shape None begins without input.
    """

    def __init__(
        self,
        shape: Sequence[int] | None,
        scale: float | np.ndarray = 0,
        zero_point: int = 0,
        dtype: str = "int8",
        signature: Sequence[int] | None = None,
    ) -> None:
        self._tensors: list[Tensor] = []
        self._operations: list[Operation] = []
        self._inputs: list[int] = []
        self._last = -1
        if shape is not None:
            self.input("input", shape, scale, zero_point, dtype, signature)

    def input(
        self,
        name: str,
        shape: Sequence[int],
        scale: float | np.ndarray = 0,
        zero_point: int = 0,
        dtype: str = "int8",
        signature: Sequence[int] | None = None,
    ) -> int:
        """Add an input of the model, which becomes the last result; return its number."""
        self._last = self.tensor_of(
            name,
            shape,
            dtype,
            quantized(scale, zero_point),
            signature=signature and tuple(signature),
        )
        self._inputs.append(self._last)
        return self._last

    def tensor_of(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str | np.dtype,
        quantization: Quantization | None = None,
        **more: Any,
    ) -> int:
        """Add a tensor, for instance ``variable=True``; return its number."""
        kind = RESOURCE if dtype == "resource" else np.dtype(dtype)
        quantization = quantization if kind.kind in "iu" else None
        extents = tuple(int(extent) for extent in shape)
        self._tensors.append(Tensor(name, extents, kind, quantization, **more))
        return len(self._tensors) - 1

    @property
    def last(self) -> Tensor:
        """Result of the last operator, or the input."""
        return self._tensors[self._last]

    @property
    def scale(self) -> float:
        """Scale of the last result."""
        return self.quantization(self._last).scale

    @property
    def zero_point(self) -> int:
        """Zero point of the last result."""
        return self.quantization(self._last).zero_point

    @property
    def number(self) -> int:
        """Number of the last result."""
        return self._last

    @property
    def results(self) -> tuple[int, ...]:
        """Numbers of all results of the last operator."""
        return self._operations[-1].outputs

    def back_to(self, number: int) -> None:
        """Make an earlier result the last one, so that another branch begins there."""
        self._last = number

    def find(self, name: str) -> int:
        """Return the number of a result, or of an input, by its name."""
        results = (*self._inputs, *(n for one in self._operations for n in one.outputs))
        return next(number for number in results if self._tensors[number].name == name)

    def tensor(self, number: int) -> Tensor:
        """Return a tensor by its number."""
        return self._tensors[number]

    def quantization(self, number: int) -> Quantization:
        """Return the quantisation of a result, by its number."""
        quantization = self._tensors[number].quantization
        assert quantization is not None
        return quantization

    def image(self) -> tuple[int, int, int, int]:
        """Return batch, height, width and channels of the last result, which must have these."""
        batch, height, width, channels = self.last.shape
        return batch, height, width, channels

    def positions(
        self, window: Sequence[int], stride: Sequence[int], dilation: Sequence[int], padding: str
    ) -> list[int]:
        """Return the number of positions of a window along y and x of the last result."""
        extents = self.image()[1:3]
        steps = zip(extents, window, stride, dilation, strict=True)
        return [window_count(*numbers, padding) for numbers in steps]

    def constant(
        self,
        role: str,
        data: Any,
        scale: float | np.ndarray = 0,
        zero_point: int | np.ndarray = 0,
        axis: int = 0,
        dtype: str = "",
    ) -> int:
        """Add a constant of the operator to come; return its number.

        ``role`` begins its name. ``scale`` is one number, or one for each index of
        dimension ``axis``. Python's numbers become int32 unless ``dtype`` is given.
        """
        array = np.asarray(data, dtype or (None if isinstance(data, np.ndarray) else np.int32))
        return self.tensor_of(
            f"{role}_{len(self._operations)}",
            array.shape,
            array.dtype,
            quantized(scale, zero_point, axis),
            data=array,
        )

    def operator(
        self,
        kind: str,
        shape: Sequence[int] | None = None,
        constants: Sequence[Operand] = (),
        *,
        inputs: Sequence[Operand] | None = None,
        dtype: str | np.dtype | None = None,
        scale: float | np.ndarray | None = None,
        zero_point: int | np.ndarray | None = None,
        scale_axis: int = 0,
        shapes: Sequence[Sequence[int]] | None = None,
        **options: Any,
    ) -> None:
        """Add an operator that reads the last result, and makes the next one.

        ``kind``: its name, for instance ``CONV_2D``; else the code of a custom operator; ``shape``:
        of its result; as the last one unless given; ``constants``: further inputs; ``inputs``: all
        inputs, if the last result is not the first of them; -1 is a missing one; ``dtype``: of its
        results; as the last one unless given; ``scale``, ``zero_point``, ``scale_axis``:
        quantisation of its results; as the last one unless given; ``shapes``: shapes of all
        results, if there are several. The first becomes the last result; the names of the others
        are its name with ``_1``, ``_2`` and so on appended; ``**options``: as in ``Operation``.
        """
        number = len(self._operations)
        last = self.last if self._last >= 0 else Tensor("", (), np.dtype(np.float32))
        read = [*constants] if inputs is None else [*inputs]
        read = [self._number(n, operand) for n, operand in enumerate(read)]
        read = [self._last, *read] if inputs is None else read
        dtype = last.dtype if dtype is None else dtype
        quantization = last.quantization if str(dtype) in _QUANTIZED else None
        if scale is not None:
            zero = quantization.zero_point if zero_point is None and quantization else zero_point
            quantization = quantized(scale, 0 if zero is None else zero, scale_axis)
        elif zero_point is not None and quantization is not None:
            quantization = quantized(quantization.scales, zero_point, quantization.axis)
        extents = [last.shape if shape is None else shape] if shapes is None else shapes
        outputs = tuple(
            self.tensor_of(
                f"output_{number}_{n}" if n else f"output_{number}", each, dtype, quantization
            )
            for n, each in enumerate(extents)
        )
        self._operations.append(Operation(kind, tuple(read), outputs, options))
        self._last = outputs[0] if outputs else self._last

    def retype(self, number: int, dtype: str) -> None:
        """Set the type of a result; a type that is not a quantised integer has no scale."""
        old = self._tensors[number]
        quantization = old.quantization if dtype in _QUANTIZED else None
        self._tensors[number] = replace(old, dtype=np.dtype(dtype), quantization=quantization)

    def _number(self, index: int, operand: Operand) -> int:
        if isinstance(operand, str):
            return self.find(operand)
        if isinstance(operand, np.ndarray):
            operand = Constant(operand)
        if isinstance(operand, Constant):
            return self.constant(f"operand{index}", *operand)
        return operand

    def graph(self, *outputs: int, name: str = "model") -> Graph:
        """Return the graph; outputs are those given, else the results that no operator reads."""
        read = {number for operation in self._operations for number in operation.inputs}
        results = (number for operation in self._operations for number in operation.outputs)
        ends = outputs or tuple(number for number in results if number not in read)
        tensors, operations = tuple(self._tensors), tuple(self._operations)
        return Graph(tensors, operations, tuple(self._inputs), ends, name)


def quantized(
    scale: float | np.ndarray, zero_point: int | np.ndarray = 0, axis: int = 0
) -> Quantization | None:
    """Return a quantisation; None for a scale of 0."""
    scales = np.atleast_1d(np.asarray(scale, np.float32))
    if not np.any(np.asarray(scale)):
        return None
    zeros = np.broadcast_to(np.asarray(zero_point, np.int64), scales.shape)
    return Quantization(scales, zeros.copy(), axis)


def window_count(extent: int, window: int, stride: int, dilation: int, padding: str) -> int:
    """Return the number of positions of a window along one dimension of an image."""
    reach = 1 if padding == "SAME" else (window - 1) * dilation + 1
    return -(-(extent - reach + 1) // stride)
