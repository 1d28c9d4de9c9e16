"""Nodes, constants and ends of an ONNX file, with shapes fixed and constants folded."""

from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from celosia.sw.frontend.onnx.file.shapes import FREE, Shapes, fix
from celosia.sw.frontend.onnx.file.versions import DOMAINS, ONNX_RUNTIME, current, opset_of
from celosia.sw.layers.node import ModelError

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

#: Attributes that change no result of a model that is not trained.
_WITHOUT_EFFECT = ("momentum", "saturate", "seed", "storage_order")

#: Types of less than eight bits, and those of eight that stand for them.
_NARROW: dict[int, Any] = {
    onnx.TensorProto.DataType.Value(name): kind
    for kind, names in ((np.int8, ("INT4", "INT2")), (np.uint8, ("UINT4", "UINT2")))
    for name in names
    if name in onnx.TensorProto.DataType.keys()
}

#: Node that stays although all of its inputs are constant.
_KEPT = "DequantizeLinear"

#: Version in which onnx computes it and QuantizeLinear.
_COMPUTED = 21

#: Operators that change no element: on a dequantised constant they change its integers.
_VIEWS = ("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")


class OnnxAttributes(dict[str, Any]):
    """Attributes of a node, by name; those that were read are remembered.

    - ``read``: names that were looked up.
    """

    def __init__(self, values: Mapping[str, Any] | None = None, read: set[str] | None = None):
        super().__init__(values or {})
        self.read = set() if read is None else read

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or the default."""
        self.read.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def extended(self, **more: Any) -> "OnnxAttributes":
        """Return the same attributes and more; what is read of them is remembered here, too."""
        return OnnxAttributes({**self, **more}, self.read)


@dataclass(frozen=True, eq=False)
class OnnxNode:
    """An operator of the file."""

    kind: str  #: Its type.
    index: int  #: Its number in the file.
    #: Names of tensors; empty for one left out.
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: OnnxAttributes  #: Text decoded.
    defaults: Mapping[str, Any] = field(default_factory=dict)  #: Of attributes, by name.

    @property
    def label(self) -> str:
        """Index, kind and result, for messages."""
        return f"operator {self.index} {self.kind} ({self.outputs[0]!r})"

    def input(self, number: int) -> str:
        """Return the name of an input, empty where it is left out."""
        return self.inputs[number] if number < len(self.inputs) else ""

    def require_read(self) -> None:
        """Refuse an attribute that nobody read and that has another value than by default."""
        for name, value in self.attributes.items():
            unread = name not in self.attributes.read and name not in _WITHOUT_EFFECT
            if unread and value != self.defaults.get(name):
                raise ModelError(f"attribute {name} = {value} is not supported")


@dataclass(frozen=True, eq=False)
class OnnxEnd:
    """An input or output of the model; extents of the first axis that are not fixed are 1."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """A model: nodes in an order that can be run, constants by name, inputs and outputs.

    - ``narrow``: constants of less than eight bits.
    - ``opset``: of the file; the nodes are those of one that ``current`` knows.
    """

    nodes: tuple[OnnxNode, ...]
    constants: dict[str, np.ndarray]
    inputs: tuple[OnnxEnd, ...]
    outputs: tuple[OnnxEnd, ...]
    narrow: frozenset[str]
    opset: int


def read(content: bytes, shapes: Shapes | None = None) -> OnnxModel:
    """Return a file's nodes, constants and ends.

    ``shapes``: of inputs whose extents are free, see ``fix``.

    Raises ModelError if it is no ONNX model, damaged, of other versions, or of shapes that are not
    fixed.
    """
    try:
        model = onnx.load_model_from_string(content)
    except Exception:
        raise ModelError("not an .onnx file, or a damaged one") from None
    if not model.graph.node:
        raise ModelError("wanted at least one operator, got none")
    if not model.graph.output:
        raise ModelError("wanted at least one output, got none")
    original, model = model, current(model)
    constants = {entry.name: _array(entry) for entry in model.graph.initializer}
    fix(model, shapes or {})
    try:
        onnx.checker.check_model(model)
        inferred = shape_inference.infer_shapes(_plain(model), data_prop=True).graph.value_info
    except UnicodeError:
        raise ModelError("damaged .onnx file") from None
    except (onnx.checker.ValidationError, shape_inference.InferenceError) as error:
        raise ModelError(_invalid(error)) from None
    graph = model.graph
    inputs = tuple(_end(entry) for entry in graph.input if entry.name not in constants)
    known = {entry.name: entry.shape for entry in (*_ends(inferred), *inputs)}
    nodes = _used(_folded(graph, constants, known, model.opset_import), graph.output)
    outputs = tuple(_end(entry) for entry in graph.output)
    narrow = {entry.name for entry in graph.initializer if entry.data_type in _NARROW}
    return OnnxModel(nodes, constants, inputs, outputs, frozenset(narrow), opset_of(original))


def fault_of(content: bytes) -> str:
    """Return why a file that can be read is no valid model: by strict inference of shapes."""
    try:
        model = _plain(current(onnx.load_model_from_string(content)))
        shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except shape_inference.InferenceError as error:
        return _invalid(error)
    except Exception:
        pass
    return "damaged .onnx file"


def _invalid(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
    return f"not a valid model ({lines[0].strip()})"


def _plain(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose shapes are the same, without ONNX Runtime's operators."""
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    for node in plain.graph.node:
        if node.op_type not in LINEAR or node.domain != ONNX_RUNTIME:
            continue
        kind, positions = LINEAR[node.op_type][:2]
        positions = positions or range(2, len(node.input), 3)
        operands = [node.input[n] for n in positions]
        del node.input[:]
        node.input.extend(operands)
        node.domain, node.op_type = "", "Identity" if kind in _ELEMENTWISE else kind
    return plain


def _array(tensor: onnx.TensorProto) -> np.ndarray:
    wide = _NARROW.get(tensor.data_type)
    try:
        array = numpy_helper.to_array(tensor)
        return array if wide is None else array.astype(wide)
    except Exception:
        raise ModelError(f"constant {tensor.name!r}: damaged") from None


def _ends(values: Any) -> Iterator[OnnxEnd]:
    """Yield values whose shapes are known."""
    for value in values:
        shape = value.type.tensor_type.shape
        if value.type.HasField("tensor_type") and all(d.dim_value > 0 for d in shape.dim):
            yield _end(value)


def _end(value: onnx.ValueInfoProto) -> OnnxEnd:
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        raise ModelError(f"tensor {value.name!r}: wanted a tensor")
    shape = tuple(dimension.dim_value for dimension in kind.shape.dim)
    if any(extent < 1 for extent in shape):
        fixed = [dimension.HasField("dim_value") for dimension in kind.shape.dim]
        dims = zip(kind.shape.dim, fixed, strict=True)
        got = [
            dimension.dim_value if known else dimension.dim_param or "?"
            for dimension, known in dims
        ]
        requirement = "wanted extents of at least 1" if all(fixed) else FREE
        raise ModelError(f"tensor {value.name!r}: {requirement}, got [{', '.join(map(str, got))}]")
    return OnnxEnd(value.name, np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type)), shape)


def _folded(
    graph: onnx.GraphProto, constants: dict[str, np.ndarray], shapes: dict[str, Any], opsets: Any
) -> Iterator[OnnxNode]:
    """Yield the nodes that compute; the results of others become constants."""
    (opset,) = (entry.version for entry in opsets if entry.domain in DOMAINS[:2])
    dequantised: dict[str, Any] = {}
    both = ChainMap(dequantised, constants)
    for index, node in enumerate(graph.node):
        inputs = [name for name in node.input if name]
        if node.op_type == "Shape" and node.input[0] in shapes:
            constants[node.output[0]] = _shape(node, shapes[node.input[0]])
        elif node.op_type == "If" and node.input[0] in constants:
            yield from _chosen(node, constants, shapes, opsets)
        elif _is_constant(node, inputs, both):
            if node.op_type in _VIEWS and _is_moved(node, dequantised, constants):
                node = _moved(index, node, dequantised, constants, opsets)
            elif node.op_type != _KEPT or any(
                attribute.name == "block_size" for attribute in node.attribute
            ):
                known = ChainMap({}, constants)
                for name in dequantised.keys() & inputs:
                    known |= _computed(index, dequantised[name], constants, opsets)
                constants |= _computed(index, node, known, opsets)
                continue
            dequantised[node.output[0]] = node
            yield _node(index, node, opset)
        else:
            yield _node(index, node, opset)


def _node(index: int, node: onnx.NodeProto, opset: int) -> OnnxNode:
    attributes = OnnxAttributes(
        {attribute.name: _attribute(attribute) for attribute in node.attribute}
    )
    ends = tuple(node.input), tuple(node.output)
    return OnnxNode(node.op_type, index, *ends, attributes, _defaults(node, opset))


def _computed(
    index: int, node: onnx.NodeProto, constants: Mapping[str, np.ndarray], opsets: Any
) -> dict[str, np.ndarray]:
    """Return the results of an operator on constants, by name."""
    inputs = list(dict.fromkeys(filter(None, node.input)))
    if node.op_type in (_KEPT, "QuantizeLinear"):
        opsets = [helper.make_opsetid("", _COMPUTED)]
    single = helper.make_function(
        "celosia", "node", inputs, list(node.output), [node], list(opsets)
    )
    try:
        results = ReferenceEvaluator(single).run(None, {n: constants[n] for n in inputs}, {})
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"operator {index} {node.op_type}: onnx cannot compute it from its constants ({reason})"
        ) from None
    return dict(zip(node.output, map(np.asarray, results), strict=True))


def _is_moved(
    node: onnx.NodeProto,
    dequantised: Mapping[str, onnx.NodeProto],
    constants: Mapping[str, np.ndarray],
) -> bool:
    """Return whether a view is of a dequantised constant whose scales it keeps."""
    source = dequantised.get(node.input[0])
    keeps_axes = node.op_type in ("Identity", "Transpose")
    return source is not None and (keeps_axes or constants[source.input[1]].size == 1)


def _moved(
    index: int,
    node: onnx.NodeProto,
    dequantised: Mapping[str, onnx.NodeProto],
    constants: dict[str, np.ndarray],
    opsets: Any,
) -> onnx.NodeProto:
    """Return the DequantizeLinear of a view of its integers, which become a constant."""
    source, view, result = dequantised[node.input[0]], onnx.NodeProto(), onnx.NodeProto()
    view.CopyFrom(node)
    view.input[0], view.output[0] = source.input[0], f"{node.output[0]} (integers)"
    constants |= _computed(index, view, constants, opsets)
    result.CopyFrom(source)
    result.input[0], result.output[0] = view.output[0], node.output[0]
    if node.op_type == "Transpose":
        rank = constants[view.output[0]].ndim
        axes = next((list(attribute.ints) for attribute in node.attribute), [*range(rank)][::-1])
        axis = next((attribute.i for attribute in source.attribute if attribute.name == "axis"), 1)
        del result.attribute[:]
        if constants[source.input[1]].size > 1:
            result.attribute.append(helper.make_attribute("axis", axes.index(axis % rank)))
    return result


def _is_constant(node: onnx.NodeProto, inputs: list[str], constants: Collection[str]) -> bool:
    """Return whether an operator's results follow from constants; graphs inside read others."""
    if any(attribute.type == onnx.AttributeProto.GRAPH for attribute in node.attribute):
        return False
    return all(name in constants for name in inputs)


def _chosen(
    node: onnx.NodeProto, constants: dict[str, np.ndarray], known: dict[str, Any], opsets: Any
) -> Iterator[OnnxNode]:
    """Yield the nodes of the branch that a constant condition chooses."""
    name = "then_branch" if constants[node.input[0]].reshape(-1)[0] else "else_branch"
    (branch,) = (attribute.g for attribute in node.attribute if attribute.name == name)
    constants |= {tensor.name: _array(tensor) for tensor in branch.initializer}
    yield from _folded(branch, constants, known, opsets)
    for number, (inner, outer) in enumerate(zip(branch.output, node.output, strict=True)):
        if inner.name in constants:
            constants[outer] = constants[inner.name]
        else:
            yield OnnxNode("Identity", number, (inner.name,), (outer,), OnnxAttributes())


def _defaults(node: onnx.NodeProto, opset: int) -> dict[str, Any]:
    """Return the attributes of an operator that have a value by default."""
    if node.domain == ONNX_RUNTIME:
        return {}
    attributes = defs.get_schema(node.op_type, opset, "").attributes.values()
    defaults = [attribute.default_value for attribute in attributes if attribute.default_value.name]
    return {attribute.name: _attribute(attribute) for attribute in defaults}


def _used(nodes: Iterator[OnnxNode], outputs: Any) -> tuple[OnnxNode, ...]:
    """Return the nodes that lead to an output of the model."""
    needed = {end.name for end in outputs}
    used = []
    for node in reversed([*nodes]):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            used.append(node)
    return tuple(used[::-1])


def _shape(node: onnx.NodeProto, shape: tuple[int, ...]) -> np.ndarray:
    bounds = {attribute.name: attribute.i for attribute in node.attribute}
    return np.array(shape[bounds.get("start", 0) : bounds.get("end")], np.int64)


def _attribute(attribute: onnx.AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
