"""Random cases of other types: those of int8 with other tensors, weights and inputs.

``unsigned`` makes everything uint8, weights with any zero point among it. ``wide`` makes
activations int16 and leaves weights int8.
"""

from dataclasses import replace

import numpy as np
from networks import Graph, Operation, Quantization, Tensor

from random_networks.cases import FAMILY, Case, case

#: First seeds of the int8 families from which cases of another type are made.
BASES = (0, FAMILY, 2 * FAMILY, 3 * FAMILY, 4 * FAMILY)

#: Position of the weights, and the dimension of their channels.
_WEIGHTED = {
    "CONV_2D": (1, 0),
    "DEPTHWISE_CONV_2D": (1, 3),
    "FULLY_CONNECTED": (1, 0),
    "TRANSPOSE_CONV": (1, 0),
}

#: Results of one scale and zero point, by type.
_FIXED = {
    "uint8": {"SOFTMAX": (1 / 256, 0), "LOGISTIC": (1 / 256, 0), "TANH": (1 / 128, 128)},
    "int16": dict.fromkeys(("SOFTMAX", "LOGISTIC", "TANH"), (1 / 32768, 0)),
}


def _quantization(scale: object, zero_point: int) -> Quantization:
    return Quantization(np.array([scale], np.float32), np.array([zero_point]))


def _weights(tensor: Tensor, rng: np.random.Generator) -> Tensor:
    """Return weights of one scale as uint8, with any zero point."""
    assert tensor.data is not None and tensor.quantization is not None
    zero_point = int(rng.choice([0, 255, 128, *rng.integers(0, 256, 9)]))
    data = np.clip(tensor.data.astype(np.int64) + zero_point, 0, 255).astype(np.uint8)
    scale = tensor.quantization.scales.mean()
    return replace(
        tensor, dtype=data.dtype, quantization=_quantization(scale, zero_point), data=data
    )


def _plain(tensor: Tensor, dtype: str) -> Tensor:
    """Return a tensor of int8 as uint8, or as int16 of the same range."""
    if tensor.dtype != np.int8 or tensor.quantization is None:
        return tensor
    quantization, data, kind = tensor.quantization, tensor.data, np.dtype(dtype)
    if dtype == "uint8":
        other = replace(quantization, zero_points=quantization.zero_points + 128)
        data = None if data is None else (data.astype(np.int64) + 128).astype(kind)
    else:
        other = _quantization(quantization.scales[0] / np.float32(200), 0)
        data = None if data is None else (data.astype(np.int64) * 200).astype(kind)
    return replace(tensor, dtype=kind, quantization=other, data=data)


def _bias(tensors: list[Tensor], operation: Operation, dtype: str) -> None:
    """Bring a bias to the scales of the other operands, and to the type it has for int16."""
    source = operation.inputs[2 if operation.kind == "TRANSPOSE_CONV" else 0]
    number = operation.inputs[-1]
    bias, first, second = tensors[number], tensors[source], tensors[operation.inputs[1]]
    if bias.data is None or bias.dtype != np.int32 or number == operation.inputs[0]:
        return
    assert first.quantization is not None and second.quantization is not None
    scales = first.quantization.scales * second.quantization.scales
    quantization = Quantization(scales, np.zeros(len(scales), np.int64))
    data = bias.data.astype(np.int64) * 200 if dtype == "int16" else bias.data
    tensors[number] = replace(bias, quantization=quantization, data=data, dtype=data.dtype)


def _one_scale(tensors: list[Tensor], operation: Operation, dtype: str) -> None:
    """Set a result's scale to the only one that its kernel accepts."""
    if operation.kind in _FIXED[dtype] and tensors[operation.outputs[0]].dtype == dtype:
        number = operation.outputs[0]
        quantization = _quantization(*_FIXED[dtype][operation.kind])
        tensors[number] = replace(tensors[number], quantization=quantization)


def converted(graph: Graph, dtype: str, rng: np.random.Generator) -> Graph:
    """Return a graph of int8 with other types."""
    weights = {o.inputs[_WEIGHTED[o.kind][0]] for o in graph.operations if o.kind in _WEIGHTED}
    tensors = [
        tensor
        if number in weights and dtype == "int16"
        else _weights(tensor, rng)
        if number in weights
        else _plain(tensor, dtype)
        for number, tensor in enumerate(graph.tensors)
    ]
    for operation in graph.operations:
        if operation.kind in _WEIGHTED:
            _bias(tensors, operation, dtype)
        _one_scale(tensors, operation, dtype)
    # LiteRT has no kernel for int16 of the other clamps.
    clamp = {"RELU_N1_TO_1": "RELU"} if dtype == "int16" else {}
    operations = tuple(replace(o, kind=clamp.get(o.kind, o.kind)) for o in graph.operations)
    return replace(graph, tensors=tuple(tensors), operations=operations)


def of_type(dtype: str, seed: int) -> Case:
    """Return a case of a type: ``uint8`` or ``int16``."""
    rng = np.random.default_rng(seed)
    base = case(BASES[seed % len(BASES)] + seed // len(BASES))
    graph = converted(base.graph, dtype, rng)
    inputs = []
    for values in base.inputs:
        if values.dtype == np.int8 and dtype == "uint8":
            values = values.view(np.uint8) ^ np.uint8(0x80)
        elif values.dtype == np.int8:
            fine = rng.integers(-100, 101, values.shape)
            values = (values.astype(np.int64) * 200 + fine).astype(np.int16)
        inputs.append(values)
    name = " ".join(operation.kind for operation in graph.operations)
    return replace(base, seed=seed, name=f"{dtype}: {name}", graph=graph, inputs=tuple(inputs))


#: Types of the cases.
TYPES = ("uint8", "int16")
