"""Nodes, constants and ends of an ONNX file, with shapes fixed and constants folded."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from celosia.sw.operators.node import ModelError

#: Versions of the standard operators that can be read, and of ONNX Runtime's operators.
_OPSETS = (13, 21)
_DOMAINS = ("", "ai.onnx", "com.microsoft")

#: By quantised operator: the float one, the positions of operands, each followed by scale and zero
#: point, of the bias, and of the result's scale; no positions mean all from the third on.
LINEAR: dict[str, tuple[str, tuple[int, ...], int, int]] = {
    "QGemm": ("Gemm", (0, 3), 6, 7),
    "QLinearAdd": ("Add", (0, 3), -1, 6),
    "QLinearAveragePool": ("AveragePool", (0,), -1, 3),
    "QLinearConcat": ("Concat", (), -1, 0),
    "QLinearConv": ("Conv", (0, 3), 8, 6),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,), -1, 3),
    "QLinearLeakyRelu": ("LeakyRelu", (0,), -1, 3),
    "QLinearMatMul": ("MatMul", (0, 3), -1, 6),
    "QLinearMul": ("Mul", (0, 3), -1, 6),
    "QLinearReduceMean": ("ReduceMean", (0,), -1, 3),
    "QLinearSigmoid": ("Sigmoid", (0,), -1, 3),
    "QLinearSoftmax": ("Softmax", (0,), -1, 3),
}

#: Of these, those whose result has the shape of their input.
_ELEMENTWISE = ("LeakyRelu", "Sigmoid", "Softmax")

#: Nodes that stay although all of their inputs are constant.
_KEPT = ("DequantizeLinear",)


@dataclass(frozen=True, eq=False)
class Node:
    """An operator of the file."""

    kind: str  #: Its type.
    index: int  #: Its number in the file.
    #: Names of tensors; empty for one left out.
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]  #: By name, text decoded.

    @property
    def label(self) -> str:
        """Index, kind and result, for messages."""
        return f"operator {self.index} {self.kind} ({self.outputs[0]!r})"

    def input(self, number: int) -> str:
        """Return the name of an input, empty where it is left out."""
        return self.inputs[number] if number < len(self.inputs) else ""


@dataclass(frozen=True, eq=False)
class End:
    """An input or output of the model; extents of the first axis that are not fixed are 1."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Source:
    """A model: nodes in an order that can be run, constants by name, inputs and outputs."""

    nodes: tuple[Node, ...]
    constants: dict[str, np.ndarray]
    inputs: tuple[End, ...]
    outputs: tuple[End, ...]


def read(content: bytes) -> Source:
    """Return a file's nodes, constants and ends.

    Raises ModelError if it is no ONNX model, damaged, of other versions, or of shapes that are not
    fixed.
    """
    try:
        model = onnx.load_model_from_string(content)
    except Exception:
        raise ModelError("not an .onnx file, or a damaged one") from None
    if not model.graph.node:
        raise ModelError("wanted at least one operator, got none")
    _require_versions(model)
    constants = {each.name: _array(each) for each in model.graph.initializer}
    _fix(model, constants)
    try:
        onnx.checker.check_model(model)
        inferred = shape_inference.infer_shapes(_plain(model), data_prop=True).graph.value_info
    except UnicodeError:
        raise ModelError("damaged .onnx file") from None
    except (onnx.checker.ValidationError, shape_inference.InferenceError) as error:
        lines = str(error).strip().splitlines() or [""]
        raise ModelError(f"not a valid model ({lines[0]})") from None
    graph = model.graph
    inputs = tuple(_end(each) for each in graph.input if each.name not in constants)
    known = {each.name: each.shape for each in (*_ends(inferred), *inputs)}
    nodes = tuple(_folded(graph, constants, known, model.opset_import))
    return Source(nodes, constants, inputs, tuple(_end(each) for each in graph.output))


def _plain(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose shapes are the same, without ONNX Runtime's operators."""
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    for node in plain.graph.node:
        if node.op_type not in LINEAR or node.domain != _DOMAINS[2]:
            continue
        kind, positions = LINEAR[node.op_type][:2]
        positions = positions or range(2, len(node.input), 3)
        operands = [node.input[n] for n in positions]
        del node.input[:]
        node.input.extend(operands)
        node.domain, node.op_type = "", "Identity" if kind in _ELEMENTWISE else kind
    return plain


def _require_versions(model: onnx.ModelProto) -> None:
    others = sorted({node.domain for node in model.graph.node}.difference(_DOMAINS))
    if others:
        raise ModelError(f"operators of {others[0]!r} are not supported")
    for each in model.opset_import:
        low, high = _OPSETS
        if each.domain in _DOMAINS[:2] and not low <= each.version <= high:
            hint = "onnx.version_converter.convert_version changes it"
            raise ModelError(f"wanted opset {low} to {high}, got {each.version}: {hint}")
    if any(each.data_location == onnx.TensorProto.EXTERNAL for each in model.graph.initializer):
        raise ModelError("wanted weights inside the file, got external data")


def _array(tensor: onnx.TensorProto) -> np.ndarray:
    try:
        return numpy_helper.to_array(tensor)
    except Exception:
        raise ModelError(f"constant {tensor.name!r}: damaged") from None


def _fix(model: onnx.ModelProto, constants: dict[str, np.ndarray]) -> None:
    """Set first extents that are not fixed to 1, and remove shapes inferred from others."""
    del model.graph.value_info[:]
    names = {}
    for end in model.graph.input:
        if end.name in constants:
            continue
        for axis, dimension in enumerate(end.type.tensor_type.shape.dim):
            if not dimension.HasField("dim_value") and axis == 0:
                names[dimension.dim_param] = 1
                dimension.dim_value = 1
    for end in (*model.graph.input, *model.graph.output):
        for dimension in end.type.tensor_type.shape.dim:
            if not dimension.HasField("dim_value") and dimension.dim_param in names:
                dimension.dim_value = 1
    for end in model.graph.output:
        # The checker wants a shape; a shape of no dimensions stands for an unknown one.
        end.type.tensor_type.shape.SetInParent()
        if any(not each.HasField("dim_value") for each in end.type.tensor_type.shape.dim):
            del end.type.tensor_type.shape.dim[:]


def _ends(values: Any) -> Iterator[End]:
    """Yield values whose shapes are known."""
    for value in values:
        shape = value.type.tensor_type.shape
        if value.type.HasField("tensor_type") and all(d.dim_value > 0 for d in shape.dim):
            yield _end(value)


def _end(value: onnx.ValueInfoProto) -> End:
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        raise ModelError(f"tensor {value.name!r}: wanted a tensor")
    shape = tuple(each.dim_value for each in kind.shape.dim)
    if any(extent < 1 for extent in shape):
        got = [each.dim_param or each.dim_value for each in kind.shape.dim]
        raise ModelError(f"tensor {value.name!r}: wanted fixed extents but the first, got {got}")
    return End(value.name, np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type)), shape)


def _folded(
    graph: onnx.GraphProto, constants: dict[str, np.ndarray], known: dict[str, Any], opsets: Any
) -> Iterator[Node]:
    """Yield the nodes that compute; the results of others become constants."""
    for index, node in enumerate(graph.node):
        inputs = [name for name in node.input if name]
        if node.op_type == "Shape" and node.input[0] in known:
            constants[node.output[0]] = _shape(node, known[node.input[0]])
        elif all(name in constants for name in inputs) and node.op_type not in _KEPT:
            single = helper.make_function(
                "celosia", "node", list(inputs), list(node.output), [node], list(opsets)
            )
            try:
                made = ReferenceEvaluator(single).run(None, {n: constants[n] for n in inputs}, {})
            except Exception:
                label = f"operator {index} {node.op_type}"
                raise ModelError(f"{label}: wanted constants that can be computed") from None
            constants |= zip(node.output, map(np.asarray, made), strict=True)
        else:
            attributes = {each.name: _attribute(each) for each in node.attribute}
            yield Node(node.op_type, index, tuple(node.input), tuple(node.output), attributes)


def _shape(node: onnx.NodeProto, shape: tuple[int, ...]) -> np.ndarray:
    bounds = {each.name: each.i for each in node.attribute}
    return np.array(shape[bounds.get("start", 0) : bounds.get("end")], np.int64)


def _attribute(attribute: onnx.AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
