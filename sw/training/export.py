"""Trained networks as int8 ``.tflite`` files."""

from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
import tflite

from celosia.sw.training.scheme import ONE, Network
from celosia.sw.training.weights import highs

#: Versions of FULLY_CONNECTED with int8, and of the format.
_OPERATOR_VERSION, _FORMAT = 4, 3

#: Scale of the first weights: a power of two, as those of all others then are, too.
_WEIGHT_SCALE = 2.0**-8


def tflite_of(network: Network, weights: Sequence[np.ndarray]) -> bytes:
    """Return the file of a network: int8 images of 0 to ONE in, logits out.

    All scales are that of the images times powers of two, so that the kernels of LiteRT divide sums
    by the same powers of two as the training did.
    """
    writer = _Writer()
    scale = float(np.float32(1 / ONE))
    tensors = [writer.tensor("images", (1, network.layers[0].inputs), scale)]
    operators = []
    for number, (layer, values) in enumerate(zip(network.layers, weights, strict=True)):
        final = number == len(network.layers) - 1
        matrix = np.ascontiguousarray(highs(values).T)
        name = f"dense_{number}"
        scale *= _WEIGHT_SCALE * 2.0**layer.shift
        source = len(tensors) - 1
        tensors.append(writer.tensor(f"{name}/weights", matrix.shape, _WEIGHT_SCALE, matrix))
        tensors.append(writer.tensor(name, (1, layer.outputs), scale))
        operators.append(writer.dense(source, source + 1, source + 2, relu=not final))
    return writer.finish(network.name, tensors, operators)


class _Writer:
    """A file under construction. Methods return the offset of the table they finish."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1 << 16)
        self.buffers = [self._table("Buffer")]  # The empty one, of tensors that are computed.

    def _table(self, name: str, **fields: Any) -> int:
        getattr(tflite, f"{name}Start")(self.builder)
        for key, value in fields.items():
            getattr(tflite, f"{name}Add{key}")(self.builder, value)
        return getattr(tflite, f"{name}End")(self.builder)

    def _offsets(self, offsets: Sequence[int]) -> int:
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return self.builder.EndVector()

    def _numbers(self, values: Sequence[float], kind: type[np.generic]) -> int:
        return self.builder.CreateNumpyVector(np.array(values, kind))

    def tensor(
        self, name: str, shape: tuple[int, ...], scale: float, content: np.ndarray | None = None
    ) -> int:
        """Write an int8 tensor with zero point 0, and its contents if it has any."""
        buffer = 0
        if content is not None:
            data = self.builder.CreateNumpyVector(content.reshape(-1).view(np.uint8))
            self.buffers.append(self._table("Buffer", Data=data))
            buffer = len(self.buffers) - 1
        scales, zeros = self._numbers([scale], np.float32), self._numbers([0], np.int64)
        quantized = self._table("QuantizationParameters", Scale=scales, ZeroPoint=zeros)
        fields = {"Shape": self._numbers(shape, np.int32), "Name": self.builder.CreateString(name)}
        kind = tflite.TensorType.INT8
        return self._table("Tensor", **fields, Type=kind, Buffer=buffer, Quantization=quantized)

    def dense(self, source: int, weights: int, result: int, *, relu: bool) -> int:
        """Write a FULLY_CONNECTED of tensors by number, without bias."""
        kinds = tflite.ActivationFunctionType
        options = self._table(
            "FullyConnectedOptions", FusedActivationFunction=kinds.RELU if relu else kinds.NONE
        )
        return self._table(
            "Operator",
            OpcodeIndex=0,
            Inputs=self._numbers([source, weights, -1], np.int32),
            Outputs=self._numbers([result], np.int32),
            BuiltinOptionsType=tflite.BuiltinOptions.FullyConnectedOptions,
            BuiltinOptions=options,
        )

    def finish(self, name: str, tensors: Sequence[int], operators: Sequence[int]) -> bytes:
        """Return the file."""
        code = tflite.BuiltinOperator.FULLY_CONNECTED
        codes = self._table(
            "OperatorCode",
            DeprecatedBuiltinCode=code,
            BuiltinCode=code,
            Version=_OPERATOR_VERSION,
        )
        graph = {
            "Tensors": self._offsets(tensors),
            "Inputs": self._numbers([0], np.int32),
            "Outputs": self._numbers([len(tensors) - 1], np.int32),
            "Operators": self._offsets(operators),
            "Name": self.builder.CreateString(name),
        }
        subgraphs = self._offsets([self._table("SubGraph", **graph)])
        model = {
            "OperatorCodes": self._offsets([codes]),
            "Buffers": self._offsets(self.buffers),
            "Subgraphs": subgraphs,
        }
        self.builder.Finish(self._table("Model", Version=_FORMAT, **model), b"TFL3")
        return bytes(self.builder.Output())
