"""Writes ``.tflite`` files: small networks with known numbers, to hold executors against."""

from collections.abc import Sequence
from dataclasses import dataclass

import flatbuffers
import numpy as np
import tflite

#: Schema version of the files written.
_VERSION = 3

_ACTIVATIONS = {
    "NONE": tflite.ActivationFunctionType.NONE,
    "RELU": tflite.ActivationFunctionType.RELU,
    "RELU_N1_TO_1": tflite.ActivationFunctionType.RELU_N1_TO_1,
    "RELU6": tflite.ActivationFunctionType.RELU6,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class FullyConnected:
    """One int8 FULLY_CONNECTED operator.

    Parameters
    ----------
    weights : int8 array of shape (outputs, inputs)
        Weights, zero point 0.
    weight_scale : float or float array of shape (outputs,)
        Scale of the weights: one number per tensor, or one for each output channel.
    bias : int32 array of shape (outputs,), optional
        Bias in units of input scale × weight scale. None leaves the operand out.
    output_scale : float
        Scale of the outputs.
    output_zero_point : int
        Zero point of the outputs, -128 to 127.
    activation : str
        Fused activation: NONE, RELU, RELU_N1_TO_1 or RELU6.

    Raises
    ------
    ValueError
        If a shape, type or name is not as said above.
    """

    weights: np.ndarray
    weight_scale: float | np.ndarray
    bias: np.ndarray | None = None
    output_scale: float
    output_zero_point: int = 0
    activation: str = "NONE"

    def __post_init__(self) -> None:
        """Refuse arrays that do not belong together."""
        if self.weights.dtype != np.int8 or self.weights.ndim != 2:
            got = f"{self.weights.dtype} with {self.weights.ndim} dimensions"
            raise ValueError(f"weights: wanted int8 with 2 dimensions, got {got}")
        outputs = self.weights.shape[0]
        if self.bias is not None and (self.bias.dtype != np.int32 or self.bias.shape != (outputs,)):
            got = f"{self.bias.dtype} of shape {self.bias.shape}"
            raise ValueError(f"bias: wanted int32 of shape ({outputs},), got {got}")
        if np.size(self.weight_scale) not in (1, outputs):
            got = np.size(self.weight_scale)
            raise ValueError(f"weight_scale: wanted 1 or {outputs} numbers, got {got}")
        if not -128 <= self.output_zero_point <= 127:
            got = self.output_zero_point
            raise ValueError(f"output_zero_point: wanted -128 to 127, got {got}")
        if self.activation not in _ACTIVATIONS:
            wanted = ", ".join(_ACTIVATIONS)
            raise ValueError(f"activation: wanted one of {wanted}, got {self.activation!r}")


class _Writer:
    """A model under construction: flatbuffer offsets of the tables finished so far."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1 << 16)
        self.buffers = [self._buffer(None)]
        self.tensors: list[int] = []

    def vector(self, start, values: Sequence[float], prepend: str) -> int:
        """Write a vector whose start function is ``start``, of scalars or of table offsets."""
        start(self.builder, len(values))
        for value in reversed(values):
            getattr(self.builder, prepend)(value)
        return self.builder.EndVector()

    def _buffer(self, content: np.ndarray | None) -> int:
        place = None
        if content is not None:
            raw = content.tobytes()
            # The schema asks for 16-byte alignment, which the ready-made byte vector has not.
            self.builder.StartVector(1, len(raw), 16)
            head = self.builder.Head() - len(raw)
            self.builder.head = head
            self.builder.Bytes[head : head + len(raw)] = raw
            place = self.builder.EndVector()
        tflite.BufferStart(self.builder)
        if place is not None:
            tflite.BufferAddData(self.builder, place)
        return tflite.BufferEnd(self.builder)

    def _quantization(self, scales: np.ndarray, zero_points: Sequence[int]) -> int:
        scale = self.vector(
            tflite.QuantizationParametersStartScaleVector,
            [float(value) for value in scales],
            "PrependFloat32",
        )
        zero_point = self.vector(
            tflite.QuantizationParametersStartZeroPointVector, zero_points, "PrependInt64"
        )
        tflite.QuantizationParametersStart(self.builder)
        tflite.QuantizationParametersAddScale(self.builder, scale)
        tflite.QuantizationParametersAddZeroPoint(self.builder, zero_point)
        tflite.QuantizationParametersAddQuantizedDimension(self.builder, 0)
        return tflite.QuantizationParametersEnd(self.builder)

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        scale: float | np.ndarray,
        zero_point: int = 0,
        content: np.ndarray | None = None,
    ) -> int:
        """Write a tensor, int32 where ``content`` is, else int8; return its index."""
        buffer = 0
        if content is not None:
            buffer = len(self.buffers)
            self.buffers.append(self._buffer(content))
        scales = np.atleast_1d(np.asarray(scale, np.float32))
        quantization = self._quantization(scales, [zero_point] * scales.size)
        text = self.builder.CreateString(name)
        sizes = self.vector(tflite.TensorStartShapeVector, shape, "PrependInt32")
        wide = content is not None and content.dtype == np.int32
        tflite.TensorStart(self.builder)
        tflite.TensorAddShape(self.builder, sizes)
        kind = tflite.TensorType.INT32 if wide else tflite.TensorType.INT8
        tflite.TensorAddType(self.builder, kind)
        tflite.TensorAddBuffer(self.builder, buffer)
        tflite.TensorAddName(self.builder, text)
        tflite.TensorAddQuantization(self.builder, quantization)
        self.tensors.append(tflite.TensorEnd(self.builder))
        return len(self.tensors) - 1

    def fully_connected(self, inputs: Sequence[int], output: int, activation: str) -> int:
        """Write an operator of operator code 0; return its offset."""
        tflite.FullyConnectedOptionsStart(self.builder)
        tflite.FullyConnectedOptionsAddFusedActivationFunction(
            self.builder, _ACTIVATIONS[activation]
        )
        options = tflite.FullyConnectedOptionsEnd(self.builder)
        sources = self.vector(tflite.OperatorStartInputsVector, inputs, "PrependInt32")
        results = self.vector(tflite.OperatorStartOutputsVector, [output], "PrependInt32")
        tflite.OperatorStart(self.builder)
        tflite.OperatorAddOpcodeIndex(self.builder, 0)
        tflite.OperatorAddInputs(self.builder, sources)
        tflite.OperatorAddOutputs(self.builder, results)
        tflite.OperatorAddBuiltinOptionsType(
            self.builder, tflite.BuiltinOptions.FullyConnectedOptions
        )
        tflite.OperatorAddBuiltinOptions(self.builder, options)
        return tflite.OperatorEnd(self.builder)

    def finish(self, operators: Sequence[int], source: int, result: int) -> bytes:
        """Write the subgraph and the model around the operators; return the file."""
        builder = self.builder
        code = tflite.BuiltinOperator.FULLY_CONNECTED
        tflite.OperatorCodeStart(builder)
        tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, code)
        tflite.OperatorCodeAddBuiltinCode(builder, code)
        tflite.OperatorCodeAddVersion(builder, 4)
        codes = [tflite.OperatorCodeEnd(builder)]
        offset = "PrependUOffsetTRelative"
        tensors = self.vector(tflite.SubGraphStartTensorsVector, self.tensors, offset)
        inputs = self.vector(tflite.SubGraphStartInputsVector, [source], "PrependInt32")
        outputs = self.vector(tflite.SubGraphStartOutputsVector, [result], "PrependInt32")
        steps = self.vector(tflite.SubGraphStartOperatorsVector, operators, offset)
        tflite.SubGraphStart(builder)
        tflite.SubGraphAddTensors(builder, tensors)
        tflite.SubGraphAddInputs(builder, inputs)
        tflite.SubGraphAddOutputs(builder, outputs)
        tflite.SubGraphAddOperators(builder, steps)
        graphs = [tflite.SubGraphEnd(builder)]
        code_vector = self.vector(tflite.ModelStartOperatorCodesVector, codes, offset)
        graph_vector = self.vector(tflite.ModelStartSubgraphsVector, graphs, offset)
        buffer_vector = self.vector(tflite.ModelStartBuffersVector, self.buffers, offset)
        tflite.ModelStart(builder)
        tflite.ModelAddVersion(builder, _VERSION)
        tflite.ModelAddOperatorCodes(builder, code_vector)
        tflite.ModelAddSubgraphs(builder, graph_vector)
        tflite.ModelAddBuffers(builder, buffer_vector)
        builder.Finish(tflite.ModelEnd(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())


def write_fully_connected(
    layers: Sequence[FullyConnected],
    *,
    input_scale: float,
    input_zero_point: int = 0,
    batch: int = 1,
) -> bytes:
    """Return a ``.tflite`` file of int8 FULLY_CONNECTED operators, one after the other.

    Tensors are named ``input``, then ``weights_0``, ``bias_0``, ``output_0`` and so on. The model
    takes int8 of shape (batch, inputs) and gives int8 of shape (batch, outputs).

    Parameters
    ----------
    layers : sequence of FullyConnected
        At least one; each takes as many inputs as the one before has outputs.
    input_scale, input_zero_point : float, int
        Quantisation of the model's input.
    batch : int
        Rows of input, at least 1.

    Raises
    ------
    ValueError
        If there is no layer, or two that follow one another do not fit.
    """
    if not layers:
        raise ValueError("layers: wanted at least one, got none")
    writer = _Writer()
    width = layers[0].weights.shape[1]
    scale = float(input_scale)
    source = value = writer.tensor("input", (batch, width), scale, input_zero_point)
    operators = []
    for number, layer in enumerate(layers):
        outputs, inputs = layer.weights.shape
        if inputs != width:
            raise ValueError(f"layer {number}: wanted {width} inputs, got {inputs}")
        weights = writer.tensor(
            f"weights_{number}", (outputs, inputs), layer.weight_scale, 0, layer.weights
        )
        bias = -1
        if layer.bias is not None:
            units = np.asarray(layer.weight_scale) * scale
            bias = writer.tensor(f"bias_{number}", (outputs,), units, 0, layer.bias)
        result = writer.tensor(
            f"output_{number}", (batch, outputs), layer.output_scale, layer.output_zero_point
        )
        operands = [value, weights] if bias < 0 else [value, weights, bias]
        operators.append(writer.fully_connected(operands, result, layer.activation))
        value, width, scale = result, outputs, float(layer.output_scale)
    return writer.finish(operators, source, value)
