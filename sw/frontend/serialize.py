"""Writes graphs as ``.tflite`` files: what ``celosia.sw.frontend.tflite.load`` reads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
import tflite

from celosia.sw.ir.graph import Graph, Operation, Quantization, Tensor

__all__ = ["ACTIVATIONS", "PADDINGS", "serialize"]

#: Schema version of the files written.
_VERSION = 3

_TYPES = {
    "int8": tflite.TensorType.INT8,
    "int32": tflite.TensorType.INT32,
    "int64": tflite.TensorType.INT64,
    "uint8": tflite.TensorType.UINT8,
    "float32": tflite.TensorType.FLOAT32,
}

#: Fused activations and paddings by the names that ``Operation.attributes`` gives them.
ACTIVATIONS = {
    name: getattr(tflite.ActivationFunctionType, name)
    for name in ("NONE", "RELU", "RELU_N1_TO_1", "RELU6")
}
PADDINGS = {name: getattr(tflite.Padding, name) for name in ("SAME", "VALID")}

_Field = Callable[[Mapping[str, Any]], Any]


def _item(name: str, index: int) -> _Field:
    return lambda attributes: attributes[name][index]


def _value(name: str) -> _Field:
    return lambda attributes: attributes[name]


def _activation(attributes: Mapping[str, Any]) -> int:
    return ACTIVATIONS[attributes["activation"]]


def _padding(attributes: Mapping[str, Any]) -> int:
    return PADDINGS[attributes["padding"]]


@dataclass(frozen=True)
class _Format:
    """How an operator is written: version of its code, name and fields of its options."""

    version: int
    table: str = ""
    fields: Mapping[str, _Field] | None = None


_WINDOWS: dict[str, _Field] = {
    "Padding": _padding,
    "StrideH": _item("stride", 0),
    "StrideW": _item("stride", 1),
    "FusedActivationFunction": _activation,
}
_POOL = _WINDOWS | {"FilterHeight": _item("window", 0), "FilterWidth": _item("window", 1)}
_CONVOLUTION = _WINDOWS | {
    "DilationHFactor": _item("dilation", 0),
    "DilationWFactor": _item("dilation", 1),
}
_DENSE: dict[str, _Field] = {
    "FusedActivationFunction": _activation,
    "KeepNumDims": _value("keep_num_dims"),
}

_ACTIVATED: dict[str, _Field] = {"FusedActivationFunction": _activation}
_RESIZE: dict[str, _Field] = {
    "AlignCorners": _value("align_corners"),
    "HalfPixelCenters": _value("half_pixel_centers"),
}


def _open_ends(attributes: Mapping[str, Any]) -> int:
    """Return the mask of the dimensions whose slices end in front of the first element."""
    ways = zip(*(attributes[name] for name in ("begin", "count", "stride")), strict=True)
    stops = [begin + count * stride for begin, count, stride in ways]
    return sum(1 << axis for axis, stop in enumerate(stops) if stop < 0)


# Versions are those of the first int8 kernel.
_FORMATS = {
    "ABS": _Format(2, "AbsOptions", {}),
    "ADD": _Format(2, "AddOptions", _ACTIVATED),
    "ARG_MAX": _Format(2, "ArgMaxOptions", {"OutputType": _value("_type")}),
    "AVERAGE_POOL_2D": _Format(2, "Pool2DOptions", _POOL),
    "BATCH_TO_SPACE_ND": _Format(2, "BatchToSpaceNDOptions", {}),
    "CONCATENATION": _Format(2, "ConcatenationOptions", {"Axis": _value("axis")}),
    "CONV_2D": _Format(3, "Conv2DOptions", _CONVOLUTION),
    "DEPTHWISE_CONV_2D": _Format(
        3,
        "DepthwiseConv2DOptions",
        {**_CONVOLUTION, "DepthMultiplier": _value("depth_multiplier")},
    ),
    "DEPTH_TO_SPACE": _Format(1, "DepthToSpaceOptions", {"BlockSize": _value("block")}),
    "DEQUANTIZE": _Format(2, "DequantizeOptions", {}),
    "ELU": _Format(1),
    "EXP": _Format(2, "ExpOptions", {}),
    "EXPAND_DIMS": _Format(1, "ExpandDimsOptions", {}),
    "FULLY_CONNECTED": _Format(4, "FullyConnectedOptions", _DENSE),
    "GELU": _Format(2, "GeluOptions", {"Approximate": _value("approximate")}),
    "HARD_SWISH": _Format(1, "HardSwishOptions", {}),
    "LEAKY_RELU": _Format(2, "LeakyReluOptions", {"Alpha": _value("alpha")}),
    "LOG": _Format(2),
    "LOGISTIC": _Format(2),
    "MAXIMUM": _Format(2, "MaximumMinimumOptions", {}),
    "MAX_POOL_2D": _Format(2, "Pool2DOptions", _POOL),
    "MEAN": _Format(2, "ReducerOptions", {"KeepDims": _value("keep_dims")}),
    "MINIMUM": _Format(2, "MaximumMinimumOptions", {}),
    "MUL": _Format(2, "MulOptions", _ACTIVATED),
    "NEG": _Format(1, "NegOptions", {}),
    "PACK": _Format(2, "PackOptions", {"Axis": _value("axis"), "ValuesCount": _value("_inputs")}),
    "PAD": _Format(2, "PadOptions", {}),
    "PADV2": _Format(2, "PadV2Options", {}),
    "PRELU": _Format(1),
    "QUANTIZE": _Format(2, "QuantizeOptions", {}),
    "RELU": _Format(2),
    "RELU6": _Format(2),
    "RELU_0_TO_1": _Format(1),
    "RELU_N1_TO_1": _Format(1),
    "RESHAPE": _Format(1, "ReshapeOptions", {}),
    "RESIZE_BILINEAR": _Format(3, "ResizeBilinearOptions", _RESIZE),
    "RESIZE_NEAREST_NEIGHBOR": _Format(3, "ResizeNearestNeighborOptions", _RESIZE),
    "RSQRT": _Format(2),
    "SLICE": _Format(2, "SliceOptions", {}),
    "SOFTMAX": _Format(2, "SoftmaxOptions", {"Beta": _value("beta")}),
    "SPACE_TO_BATCH_ND": _Format(2, "SpaceToBatchNDOptions", {}),
    "SPACE_TO_DEPTH": _Format(2, "SpaceToDepthOptions", {"BlockSize": _value("block")}),
    "SPLIT": _Format(2, "SplitOptions", {"NumSplits": _value("_outputs")}),
    "SPLIT_V": _Format(2, "SplitVOptions", {"NumSplits": _value("_outputs")}),
    "SQRT": _Format(2),
    "SQUEEZE": _Format(1, "SqueezeOptions", {}),
    "STRIDED_SLICE": _Format(
        2,
        "StridedSliceOptions",
        {
            "EndMask": _open_ends,
            "ShrinkAxisMask": lambda attributes: sum(1 << a for a in attributes["dropped"]),
        },
    ),
    "SUB": _Format(2, "SubOptions", _ACTIVATED),
    "TANH": _Format(2),
    "TRANSPOSE": _Format(2, "TransposeOptions", {}),
    "TRANSPOSE_CONV": _Format(3, "TransposeConvOptions", _WINDOWS),
    "UNPACK": _Format(2, "UnpackOptions", {"Axis": _value("axis"), "Num": _value("_outputs")}),
}

_OFFSET = "PrependUOffsetTRelative"


class _Writer:
    """A file under construction. Methods return the offset of the table they finish."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1 << 16)
        # Buffer 0 is the empty one, of all tensors that are computed.
        self.buffers = [self._buffer(None)]

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

    def _quantization(self, quantization: Quantization) -> int:
        scale = self.vector(
            tflite.QuantizationParametersStartScaleVector,
            quantization.scales.tolist(),
            "PrependFloat32",
        )
        zero_point = self.vector(
            tflite.QuantizationParametersStartZeroPointVector,
            quantization.zero_points.tolist(),
            "PrependInt64",
        )
        tflite.QuantizationParametersStart(self.builder)
        tflite.QuantizationParametersAddScale(self.builder, scale)
        tflite.QuantizationParametersAddZeroPoint(self.builder, zero_point)
        tflite.QuantizationParametersAddQuantizedDimension(self.builder, quantization.axis)
        return tflite.QuantizationParametersEnd(self.builder)

    def tensor(self, tensor: Tensor) -> int:
        """Write a tensor, and its contents where it has any."""
        builder = self.builder
        buffer = 0
        if tensor.data is not None:
            buffer = len(self.buffers)
            self.buffers.append(self._buffer(tensor.data))
        quantization = None
        if tensor.quantization is not None:
            quantization = self._quantization(tensor.quantization)
        text = builder.CreateString(tensor.name)
        sizes = self.vector(tflite.TensorStartShapeVector, tensor.shape, "PrependInt32")
        tflite.TensorStart(builder)
        tflite.TensorAddShape(builder, sizes)
        tflite.TensorAddType(builder, _TYPES[tensor.dtype.name])
        tflite.TensorAddBuffer(builder, buffer)
        tflite.TensorAddName(builder, text)
        if quantization is not None:
            tflite.TensorAddQuantization(builder, quantization)
        return tflite.TensorEnd(builder)

    def code(self, kind: str) -> int:
        """Write an operator code."""
        code = getattr(tflite.BuiltinOperator, kind)
        tflite.OperatorCodeStart(self.builder)
        # The old field is a signed byte; 127 there says that the wider one counts.
        tflite.OperatorCodeAddDeprecatedBuiltinCode(self.builder, min(code, 127))
        tflite.OperatorCodeAddBuiltinCode(self.builder, code)
        tflite.OperatorCodeAddVersion(self.builder, _FORMATS[kind].version)
        return tflite.OperatorCodeEnd(self.builder)

    def operator(self, operation: Operation, code: int, dtype: str) -> int:
        """Write an operator with its options.

        Parameters
        ----------
        operation : Operation
            The operator.
        code : int
            Number of its operator code.
        dtype : str
            Type of its first result.
        """
        builder = self.builder
        form = _FORMATS[operation.kind]
        more = {
            "_inputs": len(operation.inputs),
            "_outputs": len(operation.outputs),
            "_type": _TYPES[dtype],
        }
        options = self._options(form, operation.attributes | more) if form.table else 0
        inputs = self.vector(tflite.OperatorStartInputsVector, operation.inputs, "PrependInt32")
        outputs = self.vector(tflite.OperatorStartOutputsVector, operation.outputs, "PrependInt32")
        tflite.OperatorStart(builder)
        tflite.OperatorAddOpcodeIndex(builder, code)
        tflite.OperatorAddInputs(builder, inputs)
        tflite.OperatorAddOutputs(builder, outputs)
        if form.table:
            kind = getattr(tflite.BuiltinOptions, form.table)
            tflite.OperatorAddBuiltinOptionsType(builder, kind)
            tflite.OperatorAddBuiltinOptions(builder, options)
        return tflite.OperatorEnd(builder)

    def _options(self, form: _Format, attributes: Mapping[str, Any]) -> int:
        getattr(tflite, f"{form.table}Start")(self.builder)
        for name, field in (form.fields or {}).items():
            getattr(tflite, f"{form.table}Add{name}")(self.builder, field(attributes))
        return getattr(tflite, f"{form.table}End")(self.builder)

    def subgraph(self, graph: Graph, tensors: Sequence[int], operators: Sequence[int]) -> int:
        """Write the only subgraph."""
        tensor_vector = self.vector(tflite.SubGraphStartTensorsVector, tensors, _OFFSET)
        inputs = self.vector(tflite.SubGraphStartInputsVector, graph.inputs, "PrependInt32")
        outputs = self.vector(tflite.SubGraphStartOutputsVector, graph.outputs, "PrependInt32")
        steps = self.vector(tflite.SubGraphStartOperatorsVector, operators, _OFFSET)
        tflite.SubGraphStart(self.builder)
        tflite.SubGraphAddTensors(self.builder, tensor_vector)
        tflite.SubGraphAddInputs(self.builder, inputs)
        tflite.SubGraphAddOutputs(self.builder, outputs)
        tflite.SubGraphAddOperators(self.builder, steps)
        return tflite.SubGraphEnd(self.builder)

    def finish(self, codes: Sequence[int], graph: int) -> bytes:
        """Write the model around its subgraph; return the file."""
        builder = self.builder
        code_vector = self.vector(tflite.ModelStartOperatorCodesVector, codes, _OFFSET)
        graph_vector = self.vector(tflite.ModelStartSubgraphsVector, [graph], _OFFSET)
        buffer_vector = self.vector(tflite.ModelStartBuffersVector, self.buffers, _OFFSET)
        tflite.ModelStart(builder)
        tflite.ModelAddVersion(builder, _VERSION)
        tflite.ModelAddOperatorCodes(builder, code_vector)
        tflite.ModelAddSubgraphs(builder, graph_vector)
        tflite.ModelAddBuffers(builder, buffer_vector)
        builder.Finish(tflite.ModelEnd(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())


def serialize(graph: Graph) -> bytes:
    """Return the ``.tflite`` file of a graph. Shapes and quantisation are written as they are.

    Raises
    ------
    ValueError
        If there is an operator, attribute or type that cannot be written.
    """
    for tensor in graph.tensors:
        if tensor.dtype.name not in _TYPES:
            wanted = ", ".join(_TYPES)
            raise ValueError(f"{tensor.name!r}: wanted one of {wanted}, got {tensor.dtype.name}")
    writer = _Writer()
    tensors = [writer.tensor(tensor) for tensor in graph.tensors]
    kinds = sorted({operation.kind for operation in graph.operations})
    operators = []
    for operation in graph.operations:
        if operation.kind not in _FORMATS:
            raise ValueError(f"{graph.label(operation)}: operator cannot be written")
        try:
            dtype = graph.tensors[operation.outputs[0]].dtype.name
            operators.append(writer.operator(operation, kinds.index(operation.kind), dtype))
        except KeyError as error:
            raise ValueError(f"{graph.label(operation)}: unknown or missing {error}") from None
    codes = [writer.code(kind) for kind in kinds]
    return writer.finish(codes, writer.subgraph(graph, tensors, operators))
