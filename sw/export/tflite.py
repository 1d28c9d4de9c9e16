"""Networks as ``.tflite`` files describe them, and their files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite

from celosia.sw.ir import graph
from celosia.sw.ir.graph import Quantization, Signature

__all__ = ["RESOURCE", "Graph", "Operation", "Quantization", "Signature", "Tensor"]
__all__ += ["serialize"]

#: Type of the handles of variables.
RESOURCE = np.dtype(object)


@dataclass(frozen=True, eq=False)
class Tensor(graph.Tensor):
    """Tensor; only constants have ``data``.

    ``signature`` is the shape with -1 for each dynamic extent. A ``variable`` keeps its contents
    from one invocation to the next.
    """

    signature: tuple[int, ...] | None = None
    variable: bool = False


@dataclass(frozen=True, eq=False)
class Operation:
    """An operator.

    ``kind`` is a name of ``tflite.BuiltinOperator``, or else the code of a custom operator.
    ``inputs`` and ``outputs`` are numbers of tensors; -1 is an input left out. ``options`` are the
    fields of the operator's table of options in the schema, for instance ``strideW``; values of
    enumerations may be names. ``customOptions`` are the bytes of a custom operator,
    ``intermediates`` the numbers of tensors that it uses within.
    """

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Graph:
    """A subgraph."""

    tensors: tuple[Tensor, ...]
    operations: tuple[Operation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    name: str = "model"

    def label(self, operation: Operation) -> str:
        """Return the name of an operation in messages: number, kind and name of its result."""
        number = self.operations.index(operation)
        result = self.tensors[operation.outputs[0]].name if operation.outputs else ""
        return f"operator {number} {operation.kind} ({result!r})"


_TYPES = {name: kind for name, kind in vars(tflite.TensorType).items() if name.isupper()}
_OPERATORS = {name: code for name, code in vars(tflite.BuiltinOperator).items() if name[0] != "_"}

#: Versions of the first int8 kernels; 1 of all others.
_VERSIONS = {
    4: "FULLY_CONNECTED",
    3: "CONV_2D DEPTHWISE_CONV_2D RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR TRANSPOSE_CONV",
    2: "ABS ADD ARG_MAX AVERAGE_POOL_2D BATCH_TO_SPACE_ND BROADCAST_TO CONCATENATION DEQUANTIZE EXP "
    "GELU LEAKY_RELU LOG LOGISTIC LOG_SOFTMAX MAXIMUM MAX_POOL_2D MEAN MINIMUM MUL PACK PAD PADV2 "
    "QUANTIZE RELU RELU6 RSQRT SLICE SOFTMAX SPACE_TO_BATCH_ND SPACE_TO_DEPTH SPLIT SPLIT_V SQRT "
    "STRIDED_SLICE SUB TANH TRANSPOSE UNPACK",
}
_VERSION = {kind: version for version, kinds in _VERSIONS.items() for kind in kinds.split()}

#: Names of tables of options, in small letters, for operators whose table has another name.
_TABLES = {name.lower(): name for name in vars(tflite.BuiltinOptions) if name.endswith("Options")}
_SHARED = {
    "Pool2DOptions": "AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D",
    "ReducerOptions": "MEAN SUM REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD",
    "MaximumMinimumOptions": "MAXIMUM MINIMUM",
    "L2NormOptions": "L2_NORMALIZATION",
    "LocalResponseNormalizationOptions": "LOCAL_RESPONSE_NORMALIZATION",
    "SequenceRNNOptions": "UNIDIRECTIONAL_SEQUENCE_RNN",
}
_TABLE = {kind: table for table, kinds in _SHARED.items() for kind in kinds.split()}

#: Enumerations of fields of options.
_ENUMERATIONS = {
    "FusedActivationFunction": tflite.ActivationFunctionType,
    "Padding": tflite.Padding,
    "Mode": tflite.MirrorPadMode,
    **dict.fromkeys(("OutputType", "OutType", "InDataType", "OutDataType"), tflite.TensorType),
}


def table_of(kind: str) -> str | None:
    """Return the name of the table of an operator's options; None if it has none."""
    return _TABLE.get(kind) or _TABLES.get(kind.replace("_", "").lower() + "options")


def serialize(*graphs: Graph, signatures: Sequence[Signature] = ()) -> bytes:
    """Return the ``.tflite`` file of some subgraphs, the first of them the main one."""
    return _Writer(graphs, signatures).content


class _Writer:
    """A file under construction. Methods return the offset of the table they finish."""

    def __init__(self, graphs: tuple[Graph, ...], signatures: Sequence[Signature]) -> None:
        self.builder = flatbuffers.Builder(1 << 16)
        # Buffer 0 is the empty one, of all tensors that are computed.
        self.buffers = [self.table("Buffer")]
        self.kinds = sorted({operation.kind for graph in graphs for operation in graph.operations})
        subgraphs = [self.graph(graph) for graph in graphs]
        model = self.table(
            "Model",
            Version=3,
            OperatorCodes=[self.code(kind) for kind in self.kinds],
            Subgraphs=subgraphs,
            Buffers=self.buffers,
            SignatureDefs=[self.signature(one) for one in signatures] or None,
        )
        self.builder.Finish(model, file_identifier=b"TFL3")
        self.content = bytes(self.builder.Output())

    def table(self, name: str, **fields: Any) -> int:
        """Write a table of the schema. Lists are of offsets, tuples of int32; None is left out."""
        values = {key: self.value(value) for key, value in fields.items() if value is not None}
        getattr(tflite, f"{name}Start")(self.builder)
        for key, value in values.items():
            getattr(tflite, f"{name}Add{key}")(self.builder, value)
        return getattr(tflite, f"{name}End")(self.builder)

    def value(self, value: Any) -> Any:
        """Write a field outside its table; return its offset, or the value itself."""
        if isinstance(value, str):
            return self.builder.CreateString(value)
        if isinstance(value, list):
            self.builder.StartVector(4, len(value), 4)
            for offset in reversed(value):
                self.builder.PrependUOffsetTRelative(offset)
            return self.builder.EndVector()
        if isinstance(value, bytes):
            # The schema requires an alignment of 16 bytes, which CreateByteVector has not.
            self.builder.StartVector(1, len(value), 16)
            start = self.builder.head = self.builder.Head() - len(value)
            self.builder.Bytes[start : start + len(value)] = value
            return self.builder.EndVector()
        if isinstance(value, tuple):
            value = np.array(value, np.int32)
        return self.builder.CreateNumpyVector(value) if isinstance(value, np.ndarray) else value

    def tensor(self, tensor: Tensor) -> int:
        """Write a tensor, and its contents if it has any."""
        kind = "RESOURCE" if tensor.dtype.hasobject else tensor.dtype.name.upper()
        if tensor.data is not None:
            self.buffers.append(self.table("Buffer", Data=tensor.data.tobytes()))
        meaning = tensor.quantization
        return self.table(
            "Tensor",
            Shape=tensor.shape,
            Type=_TYPES[kind],
            Buffer=0 if tensor.data is None else len(self.buffers) - 1,
            Name=tensor.name,
            Quantization=meaning
            and self.table(
                "QuantizationParameters",
                Scale=meaning.scales.astype(np.float32),
                ZeroPoint=meaning.zero_points.astype(np.int64),
                QuantizedDimension=meaning.axis,
            ),
            IsVariable=tensor.variable,
            ShapeSignature=tensor.signature,
        )

    def signature(self, signature: Signature) -> int:
        """Write a signature."""
        inputs, outputs = (
            [self.table("TensorMap", Name=name, TensorIndex=tensor) for name, tensor in side]
            for side in (signature.inputs, signature.outputs)
        )
        return self.table(
            "SignatureDef",
            SignatureKey=signature.key,
            SubgraphIndex=signature.subgraph,
            Inputs=inputs,
            Outputs=outputs,
        )

    def code(self, kind: str) -> int:
        """Write an operator code."""
        code = _OPERATORS.get(kind, tflite.BuiltinOperator.CUSTOM)
        return self.table(
            "OperatorCode",
            # The old field is a signed byte; 127 there selects the wider one.
            DeprecatedBuiltinCode=min(code, 127),
            BuiltinCode=code,
            CustomCode=None if kind in _OPERATORS else kind,
            Version=_VERSION.get(kind, 1),
        )

    def operation(self, operation: Operation) -> int:
        """Write an operator with its options."""
        kind, options = operation.kind, dict(operation.options)
        custom = options.pop("customOptions", None)
        intermediates = options.pop("intermediates", None)
        table = table_of(kind)
        assert table or not options, kind
        fields = {name[:1].upper() + name[1:]: value for name, value in options.items()}
        for name, value in fields.items():
            if name in _ENUMERATIONS and isinstance(value, str):
                fields[name] = vars(_ENUMERATIONS[name])[value.upper()]
        return self.table(
            "Operator",
            OpcodeIndex=self.kinds.index(kind),
            Inputs=operation.inputs,
            Outputs=operation.outputs,
            BuiltinOptionsType=table and getattr(tflite.BuiltinOptions, table),
            BuiltinOptions=table and self.table(table, **fields),
            CustomOptions=custom,
            Intermediates=intermediates,
        )

    def graph(self, graph: Graph) -> int:
        """Write a subgraph."""
        return self.table(
            "SubGraph",
            Tensors=[self.tensor(tensor) for tensor in graph.tensors],
            Inputs=graph.inputs,
            Outputs=graph.outputs,
            Operators=[self.operation(operation) for operation in graph.operations],
            Name=graph.name,
        )
