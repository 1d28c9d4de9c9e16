"""Networks in real numbers: what a model computes without its quantisation."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from celosia.sw.ir.graph import Graph, Operation, Tensor
from celosia.sw.operators.registry import OPERATORS

#: Operators that change the quantisation of a value alone.
_CONVERSIONS = ("QUANTIZE", "DEQUANTIZE", "QuantizeLinear", "DequantizeLinear")
#: Operators at the end of a network that make probabilities of logits.
_SOFTMAX = ("SOFTMAX", "LOG_SOFTMAX", "QLinearSoftmax", "LOGISTIC")
#: Operators of ONNX, and those that compute the same in real numbers, with their attributes.
_OF_ONNX: dict[str, tuple[str, dict[str, Any]]] = {
    "QGemm": ("FULLY_CONNECTED", {}),
    "QLinearAdd": ("ADD", {"activation": "NONE"}),
    "QLinearAveragePool": ("AVERAGE_POOL_2D", {}),
    "QLinearConv": ("CONV_2D", {}),
    "QLinearGlobalAveragePool": ("MEAN", {"axes": (1, 2), "keepdims": True}),
    "QLinearMatMul": ("FULLY_CONNECTED", {}),
    "QLinearSoftmax": ("SOFTMAX", {"beta": 1.0}),
}
#: Operators whose activation becomes an operator.
_POOLINGS = ("MAX_POOL_2D", "AVERAGE_POOL_2D")


def real_network(graph: Graph) -> Graph:
    """Return a network in float32 that computes the same but for the rounding.

    Constants of integers are the real numbers that they mean; conversions between types go; the
    activation of a pooling is an operator; dense weights take a transpose before them, and
    convolutions a padding with zeros.
    """
    tensors = [_real(tensor) for tensor in graph.tensors]
    operations: list[Operation] = []
    values = list(range(len(tensors)))
    ends, biases = _ends(graph), set[int]()
    for operation in graph.operations:
        inputs = tuple(n if n == -1 else values[n] for n in operation.inputs)
        if operation.kind in _CONVERSIONS:
            values[operation.outputs[0]] = inputs[0]
            continue
        if operation.kind in _OF_ONNX:
            operation = _of_onnx(graph.tensors, operation, operation.outputs[0] in ends)
        if OPERATORS[operation.kind].weighted and len(inputs) > 2 and inputs[2] != -1:
            bias = _bias(graph.tensors, operation)
            if inputs[2] in biases:
                # Another layer reads the same integers, in other steps.
                tensors.append(bias)
                inputs = (*inputs[:2], len(tensors) - 1)
            tensors[inputs[2]] = bias
            biases.add(inputs[2])
        if operation.kind == "PAD":
            operation = _pad(graph.tensors, operation)
        activation = operation.attributes.get("activation", "NONE")
        if operation.kind in _POOLINGS and activation != "NONE":
            (result,) = operation.outputs
            tensors.append(replace(tensors[result], name=f"{tensors[result].name}/pooled"))
            pooled = (len(tensors) - 1,)
            fields = operation.attributes | {"activation": "NONE"}
            operations.append(replace(operation, inputs=inputs, outputs=pooled, attributes=fields))
            operation = replace(operation, kind=activation, attributes={})
            inputs = pooled
        operations.append(replace(operation, inputs=inputs))
    outputs = tuple(values[number] for number in graph.outputs)
    operations = _without_transposes(tensors, without_pads(tensors, operations, outputs))
    real = replace(graph, tensors=tuple(tensors), operations=tuple(operations), outputs=outputs)
    return replace(real, unsigned=frozenset())


def channels_last(network: Graph, samples: Sequence[np.ndarray]) -> tuple[Graph, list[np.ndarray]]:
    """Return a network without a transpose of its input, and samples transposed instead.

    Networks of ONNX and PyTorch take images with the channels first.
    """
    (source,) = network.inputs
    readers = [o for o in network.operations if source in o.inputs]
    order = readers[0].attributes.get("permutation", (1,)) if len(readers) == 1 else (1,)
    if order[0] != 0:
        return network, list(samples)
    (first,), tensors = readers, list(network.tensors)
    (result,) = first.outputs
    tensors[result] = replace(tensors[result], name=tensors[source].name)
    operations = tuple(o for o in network.operations if o is not first)
    last = replace(network, tensors=tuple(tensors), operations=operations, inputs=(result,))
    return last, [np.ascontiguousarray(array.transpose(order)) for array in samples]


def without_pads(
    tensors: Sequence[Tensor], operations: Sequence[Operation], outputs: Sequence[int]
) -> list[Operation]:
    """Return operations whose convolutions pad themselves with zeros, if windows are larger.

    Their attributes ``before`` and ``after`` are rows and columns of zeros.
    """
    results = list(operations)
    for pad in (o for o in operations if o.kind == "PAD"):
        readers = [o for o in results if pad.outputs[0] in o.inputs]
        if not readers or pad.outputs[0] in outputs:
            continue
        before, after = pad.attributes["before"], pad.attributes["after"]
        is_plain = len(before) == 4 and not (before[0] or before[3] or after[0] or after[3])
        if pad.attributes["value"] or not is_plain:
            continue
        fields = {"before": tuple(before[1:3]), "after": tuple(after[1:3])}
        margins = np.maximum(*fields.values())
        if not all(
            OPERATORS[o.kind].weighted
            and o.attributes.get("padding") == "VALID"
            and (np.array(tensors[o.inputs[1]].shape[1:3]) > margins).all()
            for o in readers
        ):
            continue
        for reader in readers:
            inputs = (pad.inputs[0], *reader.inputs[1:])
            place = results.index(reader)
            results[place] = replace(reader, inputs=inputs, attributes=reader.attributes | fields)
        results.remove(pad)
    return results


def _without_transposes(tensors: list[Tensor], operations: Sequence[Operation]) -> list[Operation]:
    """Return operations without transposes between images and dense weights: rows move instead.

    The files of PyTorch have one before each ``Flatten``.
    """
    results = list(operations)
    for before, flat, dense in zip(operations, operations[1:], operations[2:], strict=False):
        if (before.kind, flat.kind, dense.kind) != ("TRANSPOSE", "RESHAPE", "FULLY_CONNECTED"):
            continue
        follows = flat.inputs[0] == before.outputs[0] and dense.inputs[0] == flat.outputs[0]
        readers = [o for o in operations if {*before.outputs, *flat.outputs} & {*o.inputs}]
        if not follows or len(readers) > 2:
            continue
        source, weights = tensors[before.inputs[0]], tensors[dense.inputs[1]]
        order, elements = before.attributes["permutation"], source.elements
        if weights.data is None or weights.shape[-1] != elements or order[0] != 0:
            continue
        columns = np.arange(elements).reshape(source.shape).transpose(order).reshape(-1)
        data = weights.data[:, np.argsort(columns)]
        tensors.append(replace(weights, data=data))
        inputs = (dense.inputs[0], len(tensors) - 1, *dense.inputs[2:])
        results[results.index(dense)] = replace(dense, inputs=inputs)
        results[results.index(flat)] = replace(flat, inputs=(*before.inputs[:1], *flat.inputs[1:]))
        results.remove(before)
    return results


def _ends(graph: Graph) -> set[int]:
    """Return the outputs of a network, and what they are but for conversions and a softmax."""
    ends = set(graph.outputs)
    for operation in reversed(graph.operations):
        if operation.kind in (*_CONVERSIONS, *_SOFTMAX) and ends.intersection(operation.outputs):
            ends.add(operation.inputs[0])
    return ends


def _of_onnx(tensors: Sequence[Tensor], operation: Operation, is_end: bool) -> Operation:
    """Return an operator of ONNX under its other name.

    A quantised file has no ReLU: results whose zero point is the least integer end at 0. At the
    end of a network they were just above 0 for the samples of its calibration.
    """
    kind, more = _OF_ONNX[operation.kind]
    fields = operation.attributes | more
    if "depth_multiplier" in fields:
        kind = "DEPTHWISE_CONV_2D"
    quantization = tensors[operation.outputs[0]].quantization
    is_clamped = quantization is not None and quantization.zero_point == -128
    is_sum = kind == "ADD" or OPERATORS[kind].weighted
    if is_sum and fields["activation"] == "NONE" and is_clamped and not is_end:
        fields["activation"] = "RELU"
    return replace(operation, kind=kind, attributes=fields)


def _pad(tensors: Sequence[Tensor], operation: Operation) -> Operation:
    """Return a padding with the real number that its value means."""
    value, quantization = operation.attributes["value"], tensors[operation.outputs[0]].quantization
    if quantization:
        value = float((value - quantization.zero_point) * quantization.scale)
    return replace(operation, attributes=operation.attributes | {"value": value})


def _real(tensor: Tensor) -> Tensor:
    """Return a tensor in float32; integers without a scale, as shapes are, stay."""
    data, quantization = tensor.data, tensor.quantization
    if tensor.dtype.kind == "f":
        data = None if data is None else data.astype(np.float32)
    elif quantization is None:
        return tensor
    elif data is not None:
        extents = np.ones(data.ndim, np.int64)
        if len(quantization.scales) > 1:
            # Some files have axes of biases past their one.
            extents[min(quantization.axis, data.ndim - 1)] = len(quantization.scales)
        scales, zeros = (
            array.reshape(extents) if data.ndim else array[0]
            for array in (quantization.scales, quantization.zero_points)
        )
        data = ((data.astype(np.float64) - zeros) * scales).astype(np.float32)
    return Tensor(tensor.name, tensor.shape, np.dtype(np.float32), None, data)


def _bias(tensors: Sequence[Tensor], operation: Operation) -> Tensor:
    """Return the bias of an operation in float32: its scale is that of input times weights."""
    source, weights, bias = (tensors[number] for number in operation.inputs[:3])
    if bias.data is None or bias.dtype.kind == "f":
        return _real(bias)
    scales = np.float64(1)
    for tensor in (source, weights):
        scales = scales * (tensor.quantization.scales if tensor.quantization else 1.0)
    data = (bias.data.astype(np.float64) * scales).astype(np.float32)
    return Tensor(bias.name, bias.shape, np.dtype(np.float32), None, data)
