"""Trained networks as int8 ``.tflite`` files."""

from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
import tflite

from celosia.sw.training.scheme import ONE, Conv, Dense, Network
from celosia.sw.training.weights import highs

#: Version of the format.
_FORMAT = 3

#: Versions of the operators, of int8 tensors.
_VERSIONS = {"FULLY_CONNECTED": 4, "CONV_2D": 3, "MAX_POOL_2D": 2, "RESHAPE": 1}

#: Their options.
_OPTIONS = {
    "FULLY_CONNECTED": "FullyConnected",
    "CONV_2D": "Conv2D",
    "MAX_POOL_2D": "Pool2D",
    "RESHAPE": "Reshape",
}

#: Scale of the first weights: a power of two, as those of all others then are, too.
_WEIGHT_SCALE = 2.0**-8


def tflite_of(network: Network, weights: Sequence[np.ndarray]) -> bytes:
    """Return the file of a network: int8 images of 0 to ONE in, logits out.

    All scales are that of the images times powers of two, so that the kernels of LiteRT divide sums
    by the same powers of two as the training did.
    """
    writer = _Writer(image_shape(network), float(np.float32(1 / ONE)))
    for number, (layer, values) in enumerate(zip(network.layers, weights, strict=True)):
        if isinstance(layer, Conv):
            writer.conv(f"conv_{number}", layer, highs(values))
        else:
            final = number == len(network.layers) - 1
            writer.dense(f"dense_{number}", layer, highs(values), relu=not final)
    return writer.finish(network.name)


def image_shape(network: Network) -> tuple[int, ...]:
    """Return the shape of an image."""
    first = network.layers[0]
    return (first.height, first.width, first.inputs) if isinstance(first, Conv) else (first.inputs,)


class _Writer:
    """A file under construction, layer by layer.

    ``shape``, ``scale``: of the images, without the batch; ``scale`` is then that of the last
    result.
    """

    def __init__(self, shape: tuple[int, ...], scale: float) -> None:
        self.builder = flatbuffers.Builder(1 << 16)
        self.buffers = [self._table("Buffer")]  # The empty one, of tensors that are computed.
        self.scale = scale
        self.tensors: list[int] = []
        self.operators: list[int] = []
        self.codes: list[str] = []
        self.shape = shape
        self.last = self._tensor("images", (1, *shape), scale)

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

    def _tensor(
        self,
        name: str,
        shape: tuple[int, ...],
        scale: float,
        content: np.ndarray | None = None,
        kind: int = tflite.TensorType.INT8,
    ) -> int:
        """Write a tensor with zero point 0, and its contents if it has any; return its number.

        ``scale``: 0 if it has none; ``kind``: of its numbers.
        """
        buffer = 0
        if content is not None:
            data = self.builder.CreateNumpyVector(content.reshape(-1).view(np.uint8))
            self.buffers.append(self._table("Buffer", Data=data))
            buffer = len(self.buffers) - 1
        fields = {"Shape": self._numbers(shape, np.int32), "Name": self.builder.CreateString(name)}
        if scale:
            scales, zeros = self._numbers([scale], np.float32), self._numbers([0], np.int64)
            quantized = self._table("QuantizationParameters", Scale=scales, ZeroPoint=zeros)
            fields["Quantization"] = quantized
        self.tensors.append(self._table("Tensor", **fields, Type=kind, Buffer=buffer))
        return len(self.tensors) - 1

    def _operator(
        self, code: str, inputs: list[int], shape: tuple[int, ...], name: str, **options: int
    ) -> None:
        """Write an operator of the last result and other tensors; ``shape``: of its result."""
        kind = _OPTIONS[code]
        written = self._table(f"{kind}Options", **options)
        found = self._numbers([self.last, *inputs], np.int32)
        self.shape, self.last = shape, self._tensor(name, (1, *shape), self.scale)
        if code not in self.codes:
            self.codes.append(code)
        self.operators.append(
            self._table(
                "Operator",
                OpcodeIndex=self.codes.index(code),
                Inputs=found,
                Outputs=self._numbers([self.last], np.int32),
                BuiltinOptionsType=getattr(tflite.BuiltinOptions, f"{kind}Options"),
                BuiltinOptions=written,
            )
        )

    def conv(self, name: str, layer: Conv, values: np.ndarray) -> None:
        """Write CONV_2D with ReLU, and MAX_POOL_2D; ``values``: int8, as in the training."""
        kernel, pool = layer.kernel, layer.pool
        matrix = values.reshape(kernel, kernel, layer.inputs, -1).transpose(3, 0, 1, 2)
        filters = np.ascontiguousarray(matrix)
        # The kernel of LiteRT wants a bias.
        nothing, kind = np.zeros(layer.outputs, np.int32), tflite.TensorType.INT32
        sums = self.scale * _WEIGHT_SCALE
        bias = self._tensor(f"{name}/bias", nothing.shape, sums, nothing, kind)
        self.scale *= _WEIGHT_SCALE * 2.0**layer.shift
        weights = self._tensor(f"{name}/weights", filters.shape, _WEIGHT_SCALE, filters)
        paddings, relu = tflite.Padding, tflite.ActivationFunctionType.RELU
        less = kernel - 1 - 2 * layer.padding
        steps = {
            "StrideH": 1,
            "StrideW": 1,
            "Padding": paddings.SAME if layer.same else paddings.VALID,
        }
        shape = (layer.height - less, layer.width - less, layer.outputs)
        self._operator(
            "CONV_2D", [weights, bias], shape, name, FusedActivationFunction=relu, **steps
        )
        if pool > 1:
            steps = {"StrideH": pool, "StrideW": pool, "Padding": paddings.VALID}
            window = {"FilterHeight": pool, "FilterWidth": pool}
            shape = (*layer.pooled, layer.outputs)
            self._operator("MAX_POOL_2D", [], shape, f"{name}/pool", **steps, **window)

    def dense(self, name: str, layer: Dense, values: np.ndarray, *, relu: bool) -> None:
        """Write FULLY_CONNECTED without bias; ``values``: int8, as in the training."""
        if len(self.shape) > 1:
            flat = np.array([-1, layer.inputs], np.int32)
            shape = self._tensor(f"{name}/shape", (2,), 0, flat, tflite.TensorType.INT32)
            self._operator("RESHAPE", [shape], (layer.inputs,), f"{name}/flat")
        self.scale *= _WEIGHT_SCALE * 2.0**layer.shift
        matrix = np.ascontiguousarray(values.T)
        weights = self._tensor(f"{name}/weights", matrix.shape, _WEIGHT_SCALE, matrix)
        kinds = tflite.ActivationFunctionType
        activation = kinds.RELU if relu else kinds.NONE
        self._operator(
            "FULLY_CONNECTED",
            [weights, -1],
            (layer.outputs,),
            name,
            FusedActivationFunction=activation,
        )

    def finish(self, name: str) -> bytes:
        """Return the file."""
        codes = []
        for code in self.codes:
            number = getattr(tflite.BuiltinOperator, code)
            fields = {"DeprecatedBuiltinCode": number, "BuiltinCode": number}
            codes.append(self._table("OperatorCode", **fields, Version=_VERSIONS[code]))
        graph = {
            "Tensors": self._offsets(self.tensors),
            "Inputs": self._numbers([0], np.int32),
            "Outputs": self._numbers([self.last], np.int32),
            "Operators": self._offsets(self.operators),
            "Name": self.builder.CreateString(name),
        }
        subgraphs = self._offsets([self._table("SubGraph", **graph)])
        model = {
            "OperatorCodes": self._offsets(codes),
            "Buffers": self._offsets(self.buffers),
            "Subgraphs": subgraphs,
        }
        self.builder.Finish(self._table("Model", Version=_FORMAT, **model), b"TFL3")
        return bytes(self.builder.Output())
