"""Zero points of matrices that a model multiplies with each other, made 0.

A core spends one more pass of its array on each zero point of a BATCH_MATMUL of two computed
matrices. Post-training quantisation gives them zero points near 0 but seldom 0.
"""

import math
from typing import Any

import numpy as np
import tflite

#: Operators whose results have the scale and zero point of their inputs.
_MOVES = {
    tflite.BuiltinOperator.EXPAND_DIMS,
    tflite.BuiltinOperator.RESHAPE,
    tflite.BuiltinOperator.SQUEEZE,
    tflite.BuiltinOperator.TRANSPOSE,
}
#: Operators whose results have a scale and zero point that the kernel fixes.
_FIXED = {
    tflite.BuiltinOperator.LOGISTIC,
    tflite.BuiltinOperator.LOG_SOFTMAX,
    tflite.BuiltinOperator.SOFTMAX,
    tflite.BuiltinOperator.TANH,
}
#: Operators that bring each operand and result to its scale.
_FREE = {
    tflite.BuiltinOperator.ADD,
    tflite.BuiltinOperator.BATCH_MATMUL,
    tflite.BuiltinOperator.CONV_2D,
    tflite.BuiltinOperator.DEPTHWISE_CONV_2D,
    tflite.BuiltinOperator.DEQUANTIZE,
    tflite.BuiltinOperator.FULLY_CONNECTED,
    tflite.BuiltinOperator.GELU,
    tflite.BuiltinOperator.MEAN,
    tflite.BuiltinOperator.MUL,
    tflite.BuiltinOperator.QUANTIZE,
    tflite.BuiltinOperator.SQUARED_DIFFERENCE,
    tflite.BuiltinOperator.SUB,
}
#: Zero points, at most, for which the wider range is worth it: it grows by a quarter.
_NEAR = 32


def symmetric(model: bytes) -> bytes:
    """Return an int8 ``.tflite`` file in which computed operands of BATCH_MATMUL have zero point 0.

    Their scales grow so that no number is lost: by at most a quarter, else an operand stays as it
    was. So do inputs and outputs of the model, and operands whose scale another operator fixes.
    """
    content = bytearray(model)
    # What the package returns of vectors is typed as a number, too.
    root: Any = tflite.Model.GetRootAs(content)
    for number in range(root.SubgraphsLength()):
        graph = root.Subgraphs(number)
        for group in _groups(root, graph):
            _centre([graph.Tensors(tensor).Quantization() for tensor in group])
    return bytes(content)


def _groups(root: Any, graph: Any) -> list[list[int]]:
    """Return groups of tensors of one quantisation, each with an operand of BATCH_MATMUL."""
    group = {tensor: {tensor} for tensor in range(graph.TensorsLength())}
    operands, fixed = set[int](), {*graph.InputsAsNumpy(), *graph.OutputsAsNumpy()}
    for number in range(graph.OperatorsLength()):
        operator = graph.Operators(number)
        code = root.OperatorCodes(operator.OpcodeIndex())
        kind = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        inputs, outputs = operator.InputsAsNumpy(), operator.OutputsAsNumpy()
        if kind == tflite.BuiltinOperator.BATCH_MATMUL:
            operands |= set(inputs)
        elif kind in _MOVES:
            both = group[inputs[0]] | group[outputs[0]]
            group |= dict.fromkeys(both, both)
        elif kind in _FIXED:
            fixed |= set(outputs)
        elif kind not in _FREE:
            # It may need one scale on both sides.
            fixed |= {*inputs, *outputs}
    groups = {min(group[tensor]): group[tensor] for tensor in operands}
    # A file may store equal scales once, for several tensors.
    shared: dict[int, set[int]] = {}
    for tensor in group:
        shared.setdefault(_address(graph, tensor), set()).add(tensor)
    fixed |= {
        tensor
        for members in shared.values()
        if any(group[n] != group[min(members)] for n in members)
        for tensor in members
    }
    computed = {
        tensor
        for tensor in group
        if root.Buffers(graph.Tensors(tensor).Buffer()).DataLength() == 0
        and graph.Tensors(tensor).Type() == tflite.TensorType.INT8
    }
    return [
        sorted(members)
        for members in groups.values()
        if members <= computed and not members & fixed
    ]


def _address(graph: Any, tensor: int) -> int:
    """Return the address of a tensor's scales; a new one if it has none."""
    quantization = graph.Tensors(tensor).Quantization()
    if quantization is None or quantization.ScaleLength() == 0:
        return -1 - tensor
    return quantization.ScaleAsNumpy().__array_interface__["data"][0]


def _centre(group: list[Any]) -> None:
    """Make the zero point of equal quantisations 0, unless it is far from that."""
    parts = [quantization for quantization in group if quantization is not None]
    pairs = [
        (quantization.ScaleAsNumpy(), quantization.ZeroPointAsNumpy()) for quantization in parts
    ]
    if len(pairs) < len(group) or any(
        np.size(quantization) != 1 for pair in pairs for quantization in pair
    ):
        return
    if len({(float(scale[0]), int(zero[0])) for scale, zero in pairs}) > 1:
        return
    scale, zero = float(pairs[0][0][0]), int(pairs[0][1][0])
    if abs(zero) > _NEAR:
        return
    wide = scale * max((127 - zero) / 127, (128 + zero) / 128)
    # Rounded up: the ends of the range stay in it.
    wide = np.nextafter(np.float32(wide), np.float32(math.inf)) if zero else np.float32(scale)
    for scales, zeros in pairs:
        scales[0], zeros[0] = wide, 0
