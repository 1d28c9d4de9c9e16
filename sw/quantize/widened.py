"""Networks in float16 or bfloat16 as networks in float32, which are quantised."""

from importlib import import_module
from typing import Any

import numpy as np

_onnx: Any = import_module("onnx")

_FLOAT = _onnx.TensorProto.FLOAT
_NARROW = (_onnx.TensorProto.FLOAT16, _onnx.TensorProto.BFLOAT16)

#: Attributes that are types of results.
_TYPES = ("to", "dtype")


def widened(model: Any) -> Any:
    """Return a model whose tensors of float16 and bfloat16 are of float32, with equal constants."""
    result = type(model)()
    result.CopyFrom(model)
    _widen(result.graph)
    return result


def _widen(graph: Any) -> None:
    """Widen the tensors of a graph, and those of the graphs in its nodes."""
    for end in (*graph.input, *graph.output, *graph.value_info):
        if end.type.tensor_type.elem_type in _NARROW:
            end.type.tensor_type.elem_type = _FLOAT
    for tensor in graph.initializer:
        _widen_constant(tensor)
    for attribute in (one for node in graph.node for one in node.attribute):
        if attribute.name in _TYPES and attribute.i in _NARROW:
            attribute.i = _FLOAT
        if attribute.HasField("t"):
            _widen_constant(attribute.t)
        for inner in (attribute.g, *attribute.graphs):
            _widen(inner)


def _widen_constant(tensor: Any) -> None:
    """Widen a constant."""
    if tensor.data_type in _NARROW:
        data = _onnx.numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(_onnx.numpy_helper.from_array(data, tensor.name))
