"""Reads ``.tflite`` files into the compiler's graph."""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tflite

from celosia.sw.frontend.checks import ModelError, Node, constant_name, want_quantized
from celosia.sw.frontend.operators import READERS
from celosia.sw.ir.graph import Graph, Operation, Quantization, Tensor

__all__ = ["ModelError", "load"]

_IDENTIFIER = b"TFL3"
_TYPES = {
    tflite.TensorType.FLOAT32: np.dtype(np.float32),
    tflite.TensorType.FLOAT16: np.dtype(np.float16),
    tflite.TensorType.INT32: np.dtype(np.int32),
    tflite.TensorType.UINT8: np.dtype(np.uint8),
    tflite.TensorType.INT64: np.dtype(np.int64),
    tflite.TensorType.BOOL: np.dtype(np.bool_),
    tflite.TensorType.INT16: np.dtype(np.int16),
    tflite.TensorType.INT8: np.dtype(np.int8),
    tflite.TensorType.FLOAT64: np.dtype(np.float64),
}
# What the flatbuffers package raises on files whose offsets lead nowhere.
_BROKEN = (
    struct.error,
    TypeError,
    IndexError,
    KeyError,
    OverflowError,
    AttributeError,
    MemoryError,
    ValueError,
)


def load(source: str | Path | bytes) -> Graph:
    """Return the graph of a fully int8 quantised model, whose ends may be float32 or uint8.

    Parameters
    ----------
    source : str, pathlib.Path or bytes
        Path of a ``.tflite`` file, or its contents.

    Raises
    ------
    ModelError
        If there is no such file, it is damaged, not quantised to int8 throughout, or uses what is
        not supported. One line that names the file and the tensor or operator.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        name, content = "model", bytes(source)
    else:
        name = Path(source).name
        try:
            content = Path(source).read_bytes()
        except FileNotFoundError:
            raise ModelError(f"{source}: no such file") from None
        except OSError as error:
            raise ModelError(f"{source}: cannot be read ({error.strerror})") from None
    if len(content) < 8 or content[4:8] != _IDENTIFIER:
        raise ModelError(f"{name}: not a .tflite file")
    try:
        return _Reader(content, name).graph()
    except ModelError as error:
        raise ModelError(f"{name}: {error}") from None
    except _BROKEN:
        raise ModelError(f"{name}: truncated or damaged .tflite file") from None


class _Reader:
    """One file being read. Errors other than ModelError mean that the file is damaged."""

    def __init__(self, content: bytes, name: str) -> None:
        self.content = content
        self.name = name
        self.model: Any = tflite.Model.GetRootAs(content, 0)

    def graph(self) -> Graph:
        """Return the model's only subgraph."""
        self._check_buffers()
        count = self._count(self.model.SubgraphsLength(), 4)
        if count != 1:
            raise ModelError(f"wanted one subgraph, got {count}")
        subgraph = self.model.Subgraphs(0)
        tensors = tuple(self._each(subgraph.TensorsLength(), subgraph.Tensors, self._tensor))
        count = self._count(subgraph.OperatorsLength(), 4)
        if not count:
            raise ModelError("wanted at least one operator, got none")
        operations = []
        for place in range(count):
            operations.append(self._operation(place, subgraph.Operators(place), tensors))
        inputs = self._numbers(subgraph.InputsLength(), subgraph.Inputs)
        outputs = self._numbers(subgraph.OutputsLength(), subgraph.Outputs)
        if not inputs or not outputs:
            raise ModelError("wanted inputs and outputs, got none")
        # Results that are places, of ARG_MAX, mean what they are.
        plain = {number: (np.float32,) for number in inputs}
        plain |= {number: (np.float32, np.int32, np.int64) for number in outputs}
        for number, types in plain.items():
            tensor = tensors[_index(number, tensors)]
            if tensor.data is not None:
                raise ModelError(f"tensor {tensor.name!r}: wanted no constant as input or output")
            if tensor.dtype not in types:
                want_quantized(tensor)
        try:
            return Graph(self.name, tensors, tuple(operations), inputs, outputs)
        except ValueError as error:
            raise ModelError(str(error)) from None

    def _count(self, count: int, element_bytes: int) -> int:
        """Return a vector's length, refused where the file could not hold it."""
        if count * element_bytes > len(self.content):
            raise IndexError
        return count

    def _each(
        self, count: int, get: Callable[[int], Any], read: Callable[[Any], Any]
    ) -> Iterator[Any]:
        for number in range(self._count(count, 4)):
            yield read(get(number))

    def _numbers(self, count: int, get: Callable[[int], int]) -> tuple[int, ...]:
        return tuple(int(get(number)) for number in range(self._count(count, 4)))

    def _check_buffers(self) -> None:
        """Touch every buffer, also of what is not used, so that no truncated file passes."""
        for number in range(self._count(self.model.BuffersLength(), 4)):
            self._buffer(number)

    def _buffer(self, number: int) -> np.ndarray:
        """Return the bytes of a buffer; empty for one without contents."""
        if number >= self.model.BuffersLength():
            raise IndexError
        buffer = self.model.Buffers(number)
        if buffer.Offset() > 1:
            start, size = buffer.Offset(), buffer.Size()
            if start + size > len(self.content):
                raise IndexError
            return np.frombuffer(self.content, np.uint8, size, start)
        return buffer.DataAsNumpy() if buffer.DataLength() else np.empty(0, np.uint8)

    def _tensor(self, tensor: Any) -> Tensor:
        name = (tensor.Name() or b"").decode("utf-8", "replace")
        shape = self._numbers(tensor.ShapeLength(), tensor.Shape)
        dtype = _TYPES.get(tensor.Type())
        if dtype is None:
            kind = constant_name(tflite.TensorType, tensor.Type()).lower()
            raise ModelError(f"tensor {name!r}: type {kind} is not supported")
        if any(extent < 1 for extent in shape):
            raise ModelError(f"tensor {name!r}: wanted extents of at least 1, got shape {shape}")
        if tensor.Sparsity() is not None:
            raise ModelError(f"tensor {name!r}: sparse tensors are not supported")
        elements = 1
        for extent in shape:
            elements *= extent
        if elements > 1 << 31:
            raise ModelError(f"tensor {name!r}: wanted at most 2^31 elements, got shape {shape}")
        data = None
        raw = self._buffer(tensor.Buffer())
        if raw.size:
            if raw.size != elements * dtype.itemsize:
                wanted = elements * dtype.itemsize
                raise ModelError(f"tensor {name!r}: wanted {wanted} bytes, got {raw.size}")
            data = np.frombuffer(raw.tobytes(), dtype.newbyteorder("<")).reshape(shape)
        return Tensor(name, shape, dtype, self._quantization(name, tensor), data)

    def _quantization(self, name: str, tensor: Any) -> Quantization | None:
        details = tensor.Quantization()
        if details is None or not details.ScaleLength():
            return None
        scales = np.array(details.ScaleAsNumpy(), np.float32)
        zero_points = np.zeros(len(scales), np.int64)
        if details.ZeroPointLength():
            given = np.array(details.ZeroPointAsNumpy(), np.int64)
            if len(given) not in (1, len(scales)):
                raise ModelError(
                    f"tensor {name!r}: wanted {len(scales)} zero points, got {len(given)}"
                )
            zero_points[:] = given
        if not (np.isfinite(scales) & (scales > 0)).all():
            raise ModelError(f"tensor {name!r}: wanted scales greater than 0, got {scales.min()}")
        return Quantization(scales, zero_points, int(details.QuantizedDimension()))

    def _operation(self, place: int, operator: Any, tensors: tuple[Tensor, ...]) -> Operation:
        kind = self._kind(operator.OpcodeIndex())
        inputs = self._numbers(operator.InputsLength(), operator.Inputs)
        outputs = self._numbers(operator.OutputsLength(), operator.Outputs)
        label = f"operator {place} {kind}"
        results = tuple(tensors[_index(number, tensors)] for number in outputs)
        if results:
            label += f" ({results[0].name!r})"
        given = tuple(None if n == -1 else tensors[_index(n, tensors)] for n in inputs)
        if kind not in READERS:
            raise ModelError(f"{label}: operator is not supported, model refused")
        try:
            attributes = READERS[kind](Node(operator, given, results))
        except ModelError as error:
            raise ModelError(f"{label}: {error}") from None
        return Operation(kind, place, inputs, outputs, attributes)

    def _kind(self, number: int) -> str:
        """Return the operator's name.

        Small codes lie in a field of one byte, in old files in that alone; the greater of both
        counts. The package's own ``BuiltinCode`` never looks at small codes of the wider field.
        """
        if number >= self.model.OperatorCodesLength():
            raise IndexError
        code = self.model.OperatorCodes(number)
        place = code._tab.Offset(10)
        (wide,) = struct.unpack_from("<i", self.content, code._tab.Pos + place) if place else (0,)
        value = max(wide, code.DeprecatedBuiltinCode())
        if value == tflite.BuiltinOperator.CUSTOM:
            custom = (code.CustomCode() or b"").decode("utf-8", "replace")
            return f"CUSTOM {custom!r}"
        return constant_name(tflite.BuiltinOperator, value)


def _index(number: int, tensors: tuple[Tensor, ...]) -> int:
    if not 0 <= number < len(tensors):
        raise IndexError
    return number
