"""Tables of ``.tflite`` files: tensors, and names of operators."""

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tflite

from celosia.sw.ir.graph import Quantization, Tensor, short_name
from celosia.sw.layers.node import ModelError, constant_name
from celosia.sw.operators.registry import OPERATORS

_TYPES = {
    tflite.TensorType.FLOAT32: np.dtype(np.float32),
    tflite.TensorType.FLOAT16: np.dtype(np.float16),
    tflite.TensorType.INT32: np.dtype(np.int32),
    tflite.TensorType.UINT8: np.dtype(np.uint8),
    tflite.TensorType.INT64: np.dtype(np.int64),
    tflite.TensorType.BOOL: np.dtype(np.bool_),
    tflite.TensorType.INT16: np.dtype(np.int16),
    tflite.TensorType.INT8: np.dtype(np.int8),
    tflite.TensorType.INT4: np.dtype(np.int8),
    tflite.TensorType.FLOAT64: np.dtype(np.float64),
    tflite.TensorType.RESOURCE: np.dtype(object),
}


#: Custom operators that hold the work of other processors, by the beginning of their names.
_COMPILED = {
    "ethos-u": "Ethos-U",
    "edgetpu-custom-op": "Edge TPU",
    "NeutronGraph": "eIQ Neutron",
    "XC_": "xcore",
}


class File:
    """One file. Errors other than ModelError mean that it is damaged."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.model: Any = tflite.Model.GetRootAs(content, 0)

    def count(self, count: int, element_bytes: int) -> int:
        """Return a vector's length, refused where the file could not hold it."""
        if count * element_bytes > len(self.content):
            raise IndexError
        return count

    def elements(
        self, count: int, get: Callable[[int], Any], read: Callable[[Any], Any]
    ) -> Iterator[Any]:
        """Yield the elements of a vector, each read by ``read``."""
        for number in range(self.count(count, 4)):
            yield read(get(number))

    def numbers(self, count: int, get: Callable[[int], int]) -> tuple[int, ...]:
        """Return the elements of a vector of numbers."""
        return tuple(int(get(number)) for number in range(self.count(count, 4)))

    def check_buffers(self) -> None:
        """Read every buffer, used or not, so that no truncated file passes."""
        for number in range(self.count(self.model.BuffersLength(), 4)):
            self.buffer(number)

    def buffer(self, number: int) -> np.ndarray:
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

    def tensor(self, tensor: Any) -> Tensor:
        """Return a tensor with its contents, if it is constant."""
        name = (tensor.Name() or b"").decode("utf-8", "replace")
        shape = self.numbers(tensor.ShapeLength(), tensor.Shape)
        dtype = _TYPES.get(tensor.Type())
        if dtype is None:
            kind = constant_name(tflite.TensorType, tensor.Type()).lower()
            raise refusal(name, f"type {kind} is not supported")
        if tensor.Sparsity() is not None:
            raise refusal(name, "sparse tensors are not supported")
        # Tensors without elements stand for inputs left out.
        elements = require_extents(name, shape) if 0 not in shape else 0
        data = None
        raw = self.buffer(tensor.Buffer())
        in_halves = tensor.Type() == tflite.TensorType.INT4
        size = (elements + 1) // 2 if in_halves else elements * dtype.itemsize
        if raw.size:
            if raw.size != size:
                raise refusal(name, f"wanted {size} bytes, got {raw.size}")
            plain = np.frombuffer(raw.tobytes(), dtype.newbyteorder("<"))
            data = (_halves(raw)[:elements] if in_halves else plain).reshape(shape)
        return Tensor(name, shape, dtype, self.quantization(name, tensor, data), data)

    def quantization(self, name: str, tensor: Any, data: np.ndarray | None) -> Quantization | None:
        """Return the meaning of a tensor's integers; None of one without scales.

        Constants alone, ``data``, may have scales of 0: channels of weights that are all 0.
        """
        details = tensor.Quantization()
        if details is None or not details.ScaleLength():
            return None
        scales = np.array(details.ScaleAsNumpy(), np.float32)
        zero_points = np.zeros(len(scales), np.int64)
        if details.ZeroPointLength():
            points = np.array(details.ZeroPointAsNumpy(), np.int64)
            if len(points) not in (1, len(scales)):
                raise refusal(name, f"wanted {len(scales)} zero points, got {len(points)}")
            zero_points[:] = points
        good = scales > 0 if data is None else scales >= 0
        if not (np.isfinite(scales) & good).all():
            raise refusal(name, f"wanted scales greater than 0, got {scales.min()}")
        return Quantization(scales, zero_points, int(details.QuantizedDimension()))

    def kind(self, number: int) -> str:
        """Return the operator's name.

        Small codes lie in a field of one byte, in old files in that alone; the greater of both
        counts. The package's own ``BuiltinCode`` ignores small codes of the wider field.
        """
        if number >= self.model.OperatorCodesLength():
            raise IndexError
        code = self.model.OperatorCodes(number)
        offset = code._tab.Offset(10)
        (wide,) = struct.unpack_from("<i", self.content, code._tab.Pos + offset) if offset else (0,)
        value = max(wide, code.DeprecatedBuiltinCode())
        if value == tflite.BuiltinOperator.CUSTOM:
            custom = (code.CustomCode() or b"").decode("utf-8", "replace")
            # Builtin operators are in capitals.
            known = custom in OPERATORS and not custom.isupper()
            return custom if known else f"CUSTOM {custom!r}"
        return constant_name(tflite.BuiltinOperator, value)


def unsupported(kind: str) -> str:
    """Return why a model with an operator of an unknown kind is refused."""
    for name, target in _COMPILED.items():
        if kind.startswith(f"CUSTOM '{name}"):
            return f"compiled for {target}; take the file from before its compiler"
    return "operator is not supported, model refused"


def _halves(raw: np.ndarray) -> np.ndarray:
    """Return int4 as int8, the lower half of each byte before the upper one."""
    halves = np.stack([raw & 15, raw >> 4], axis=-1).reshape(-1)
    return (halves ^ np.uint8(8)).view(np.int8) - np.int8(8)


def refusal(name: str, why: str) -> ModelError:
    """Return the error about a tensor."""
    return ModelError(f"tensor {short_name(name)!r}: {why}")


def require_extents(name: str, shape: tuple[int, ...], least: int = 1) -> int:
    """Return the elements of a shape, refused where an extent is too small, or it has too many."""
    if any(extent < least for extent in shape):
        raise refusal(name, f"wanted extents of at least {least}, got shape {shape}")
    elements = math.prod(shape)
    if elements > 1 << 31:
        raise refusal(name, f"wanted at most 2^31 elements, got shape {shape}")
    return elements


def index_in(number: int, tensors: Sequence[Any]) -> int:
    """Return the number of a tensor, refused where there is none."""
    if not 0 <= number < len(tensors):
        raise IndexError
    return number
