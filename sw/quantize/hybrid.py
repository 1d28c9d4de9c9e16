"""``.tflite`` files that compute in float with weights of fewer bits: their weights in float.

The converter's usual optimisation makes such files (dynamic range), and float16 weights are
another. They are float networks to a quantiser that measures ranges.
"""

from importlib import import_module
from typing import Any

import numpy as np
import tflite

from celosia.sw.quantize.model import QUANTISED, QuantizeError

_SMALL = {
    tflite.TensorType.FLOAT16: "<f2",
    tflite.TensorType.INT16: "<i2",
    tflite.TensorType.INT4: "i1",
    tflite.TensorType.INT8: "i1",
    tflite.TensorType.UINT8: "u1",
}


def float_weights(content: bytes) -> bytes:
    """Return a ``.tflite`` file whose weights are float32, with the same results up to rounding.

    ``content``: a file that computes in float; one with float weights is returned as given. Raises
    QuantizeError if it computes in integers, or no weights can be in it.
    """
    schema: Any = import_module("ai_edge_litert.schema_py_generated")
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    kinds = {_kind(code) for code in model.operatorCodes}
    _require_variables(model, kinds)
    if not any(tensor.type in _SMALL for graph in model.subgraphs for tensor in graph.tensors):
        return content
    if tflite.BuiltinOperator.QUANTIZE in kinds:
        raise QuantizeError(QUANTISED)
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if _data(model, tensor):
                _widen(model, tensor)
        _fold(model, graph)
    return pack(model)


def pack(model: Any) -> bytes:
    """Return the file of a model of the schema's own classes."""
    builder: Any = import_module("flatbuffers").Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _kind(code: Any) -> int:
    return max(code.builtinCode, code.deprecatedBuiltinCode)


def _data(model: Any, tensor: Any) -> bool:
    data = model.buffers[tensor.buffer].data
    return data is not None and len(data) > 0


def _require_variables(model: Any, kinds: set[int]) -> None:
    """Refuse a file whose weights are variables that it gives no contents."""
    operators = tflite.BuiltinOperator
    if operators.READ_VARIABLE in kinds and operators.ASSIGN_VARIABLE not in kinds:
        raise QuantizeError(
            "its weights are variables without contents; convert the network again, from the "
            "Keras model or a SavedModel of model.export()"
        )


def _widen(model: Any, tensor: Any) -> None:
    """Make a constant of few bits one of float32; integers without a scale stay."""
    scales = tensor.quantization.scale if tensor.quantization else None
    is_half = tensor.type == tflite.TensorType.FLOAT16
    if tensor.type not in _SMALL or not (is_half or (scales is not None and len(scales))):
        return
    if tensor.quantization and tensor.quantization.details:
        raise QuantizeError("its weights have a scale for each block; wanted one for each channel")
    raw = np.asarray(model.buffers[tensor.buffer].data, np.uint8)
    if tensor.type == tflite.TensorType.INT4:
        # Two in each byte, the first one in the lower half.
        halves = np.stack([raw & 15, raw >> 4], axis=1).reshape(-1)
        raw = ((halves ^ 8) - np.uint8(8)).astype(np.uint8)
    shape = tuple(tensor.shape)
    values = raw.view(_SMALL[tensor.type])[: int(np.prod(shape))].reshape(shape)
    values = values.astype(np.float32)
    if not is_half:
        values = _real(values, tensor.quantization)
    _fill(model, tensor, values)


def _fill(model: Any, tensor: Any, values: np.ndarray) -> None:
    """Give a tensor a content of float32."""
    buffer = type(model.buffers[0])()
    buffer.data = np.frombuffer(values.astype("<f4").tobytes(), np.uint8)
    # Others may share the old one.
    tensor.buffer = len(model.buffers)
    model.buffers.append(buffer)
    tensor.type, tensor.quantization = tflite.TensorType.FLOAT32, None


def _real(values: np.ndarray, quantization: Any) -> np.ndarray:
    """Return the numbers that integers stand for."""
    scales = np.asarray(quantization.scale, np.float32)
    zeros = np.asarray([0] if quantization.zeroPoint is None else quantization.zeroPoint)
    axes = [1] * values.ndim
    if len(scales) > 1:
        axes[quantization.quantizedDimension] = -1
    zeros = zeros.astype(np.float32) if len(zeros) else np.zeros(1, np.float32)
    return (values - (zeros.reshape(axes) if len(zeros) > 1 else zeros[0])) * scales.reshape(axes)


def _fold(model: Any, graph: Any) -> None:
    """Take operators out that brought weights to float, and give what moves them its type."""
    operators, same = [], {}
    for operator in graph.operators:
        operator.inputs = np.array([same.get(n, n) for n in operator.inputs], np.int32)
        source = graph.tensors[operator.inputs[0]] if len(operator.inputs) else None
        kind = _kind(model.operatorCodes[operator.opcodeIndex])
        if source and kind == tflite.BuiltinOperator.DEQUANTIZE and source.type == 0:
            same[int(operator.outputs[0])] = int(operator.inputs[0])
            continue
        for number in operator.outputs:
            tensor = graph.tensors[number]
            if tensor.type in _SMALL and source and source.type == 0:
                tensor.type, tensor.quantization = tflite.TensorType.FLOAT32, None
        operators.append(operator)
    graph.operators = operators
    written = {int(n) for operator in operators for n in operator.outputs} | {*graph.inputs}
    for number, tensor in enumerate(graph.tensors):
        if number not in written and not tensor.isVariable and not _data(model, tensor):
            # The quantiser reads each tensor, though nothing writes this one.
            tensor.shape, tensor.shapeSignature = np.array([1], np.int32), None
            _fill(model, tensor, np.zeros(1))
    graph.outputs = np.array([same.get(n, n) for n in graph.outputs], np.int32)
