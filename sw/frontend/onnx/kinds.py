"""Kinds of operators, and the types of their results."""

from dataclasses import replace

import numpy as np
from onnx import helper

from celosia.sw.frontend.onnx.file.nodes import OnnxNode
from celosia.sw.frontend.onnx.operand import Operand
from celosia.sw.frontend.onnx.readers.composites import KINDS
from celosia.sw.frontend.onnx.readers.dynamic import RESULTS

#: Operators that a pair of QuantizeLinear and DequantizeLinear encloses.
ENCLOSED = (
    "Add",
    "AveragePool",
    "Concat",
    "Conv",
    "ConvTranspose",
    "Gemm",
    "GlobalAveragePool",
    "MatMul",
    "Max",
    "Min",
    "Mul",
) + ("ReduceMean", "Softmax", "Where")

#: Operators that move elements, or choose among them: of integer or of float tensors.
MOVERS = ("DepthToSpace", "Dropout", "Expand", "Flatten", "Gather", "GatherElements") + (
    "GatherND",
    "GlobalMaxPool",
    "Identity",
    "MaxPool",
    "Pad",
    "ReduceMax",
    "ReduceMin",
    "Reshape",
    "Resize",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
)

#: Types of results that are not those of the first input, by operator.
_RESULTS = RESULTS | KINDS

#: Modes of Resize whose results are means.
_MEANS = ("cubic", "linear")

#: Of the movers, those that change no element, whatever its scale.
VIEWS = ("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")

#: Of the movers, those past which ONNX Runtime moves a DequantizeLinear, and from which opset on.
_PASSED = dict.fromkeys((*VIEWS, "Dropout", "Slice"), 1) | {"MaxPool": 12}

#: Types of tensors without scale that operators on numbers take.
NUMBERS = ("float32", "int32", "int64", "bool")


def moves(node: OnnxNode) -> bool:
    """Return whether the results of an operator are elements of its input."""
    means = node.kind == "Resize" and node.attributes.get("mode") in _MEANS
    return node.kind in MOVERS and not means


def results(node: OnnxNode, source: Operand, opset: int) -> tuple[Operand, ...]:
    """Return the results of an operator that moves an operand, in a file of an opset."""
    passed = source.dequantised and _PASSED.get(node.kind, opset + 1) <= opset
    moved = replace(source, data=None, dequantised=passed)
    return tuple(replace(moved, name=name) for name in node.outputs if name)


def stored_type(dtype: np.dtype) -> np.dtype:
    """Return the type in which the host keeps integers of a type: int32 for uint16."""
    return np.dtype(np.int32) if dtype == np.uint16 else dtype


def quantised_type(node: OnnxNode, zero_point: np.dtype | None) -> np.dtype:
    """Return the type of the integers of a QuantizeLinear: that of its zero point, or uint8."""
    kind = node.attributes.get("output_dtype")
    named = np.dtype(helper.tensor_dtype_to_np_dtype(kind) if kind else np.uint8)
    return stored_type(zero_point or named)


def types(node: OnnxNode, inputs: list[Operand | None]) -> list[np.dtype]:
    """Return the types of the results of an operator on numbers."""
    if node.kind == "Cast":
        return [np.dtype(helper.tensor_dtype_to_np_dtype(node.attributes.get("to")))]
    if node.kind in _RESULTS:
        return [np.dtype(kind) for kind in _RESULTS[node.kind]]
    first = inputs[1 if node.kind == "Where" else 0]
    if first is None or first.quantization is not None or first.dtype.kind == "f":
        return [np.dtype(np.float32)] * len(node.outputs)
    return [first.dtype] * len(node.outputs)
