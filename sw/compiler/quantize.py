"""First pass: from the graph to layers with the integer parameters of the requantiser.

The arithmetic is that of TensorFlow Lite when it prepares its reference kernels, in the same
floating-point types, so that every multiplier and clamp comes out the same.
"""

import math
from dataclasses import replace

import numpy as np

from celosia.hw.arch.isa import Rounding
from celosia.sw.compiler.spec import CompileError, Dense, Network, Value
from celosia.sw.graph import Graph, Operation, Quantization, Tensor

__all__ = ["activation_range", "quantize", "quantize_multiplier"]

_BOUNDS = {
    "NONE": (None, None),
    "RELU": (0.0, None),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}


def quantize_multiplier(real: float) -> tuple[int, int]:
    """Return the Q31 multiplier and the power of two that stand for a real factor.

    Parameters
    ----------
    real : float
        Not negative.

    Returns
    -------
    multiplier : int
        0, or 2³⁰ to 2³¹ − 1.
    shift : int
        −31 to 30; ``real`` is about ``multiplier / 2**31 * 2**shift``. Factors too small for that
        become zero.

    Examples
    --------
    >>> quantize_multiplier(0.75)
    (1610612736, 0)
    """
    fraction, shift = math.frexp(real)
    multiplier = math.floor(fraction * (1 << 31) + 0.5)
    if multiplier == 1 << 31:
        multiplier //= 2
        shift += 1
    if shift < -31 or multiplier == 0:
        return 0, 0
    if shift > 30:
        return (1 << 31) - 1, 30
    return multiplier, shift


def activation_range(activation: str, output: Quantization) -> tuple[int, int]:
    """Return the int8 clamp of a fused activation.

    Parameters
    ----------
    activation : str
        ``NONE``, ``RELU``, ``RELU6`` or ``RELU_N1_TO_1``.
    output : Quantization
        Of the operator's result.
    """

    def quantized(bound: float) -> int:
        ratio = float(np.float32(bound) / output.scales[0])
        rounded = math.floor(abs(ratio) + 0.5)
        return output.zero_point + (-rounded if ratio < 0 else rounded)

    low, high = _BOUNDS[activation]
    least = -128 if low is None else min(max(-128, quantized(low)), 127)
    most = 127 if high is None else max(min(127, quantized(high)), least)
    return least, most


def quantize(graph: Graph) -> Network:
    """Return the layers of a graph.

    RESHAPE moves nothing: its result is the value of its input.

    Raises
    ------
    CompileError
        Naming the operator that cannot be run, and why.
    """
    items = _items(graph)
    values: list[Value] = []
    place_of: dict[int, int] = {}

    def add(number: int, *, is_input: bool = False) -> int:
        tensor = graph.tensors[number]
        values.append(
            Value(name=tensor.name, bytes_per_item=tensor.elements // items, is_input=is_input)
        )
        place_of[number] = len(values) - 1
        return place_of[number]

    for number in graph.inputs:
        add(number, is_input=True)
    layers = []
    for operation in graph.operations:
        label = graph.label(operation)
        source = operation.inputs[0]
        if source not in place_of:
            raise CompileError(f"{label}: wanted an input that is not constant")
        if operation.kind == "RESHAPE":
            place_of[operation.outputs[0]] = place_of[source]
        elif operation.kind == "FULLY_CONNECTED":
            value = place_of[source]
            layers.append(_dense(graph, operation, value, add(operation.outputs[0]), items))
        else:
            raise CompileError(f"{label}: operator is not supported")
    for number in graph.outputs:
        if number not in place_of:
            raise CompileError(f"output {graph.tensors[number].name!r}: wanted a computed tensor")
        values[place_of[number]] = replace(values[place_of[number]], is_output=True)
    return Network(
        values=tuple(values),
        layers=tuple(layers),
        items=items,
        inputs={number: place_of[number] for number in graph.inputs},
        outputs={number: place_of[number] for number in graph.outputs},
    )


def _items(graph: Graph) -> int:
    """Return the model's own batch: the first extent, where all operators keep items apart."""
    ends = [graph.tensors[number] for number in (*graph.inputs, *graph.outputs)]
    first = {tensor.shape[0] if len(tensor.shape) > 1 else 1 for tensor in ends}
    if len(first) != 1:
        return 1
    items = first.pop()
    for operation in graph.operations:
        tensor = graph.tensors[operation.inputs[0]]
        row = 1
        if operation.kind == "FULLY_CONNECTED":
            row = graph.tensors[operation.inputs[1]].shape[1]
        if tensor.elements % (items * row):
            return 1
    return items


def _dense(graph: Graph, operation: Operation, source: int, result: int, items: int) -> Dense:
    tensor, output = graph.tensors[operation.inputs[0]], graph.tensors[operation.outputs[0]]
    kernel = graph.tensors[operation.inputs[1]]
    assert kernel.data is not None and tensor.quantization and output.quantization
    weights = kernel.data.astype(np.int8)
    channels, taps = weights.shape
    bias = np.zeros(channels, np.int64)
    if len(operation.inputs) > 2 and operation.inputs[2] != -1:
        given = graph.tensors[operation.inputs[2]].data
        assert given is not None
        bias = given.reshape(-1).astype(np.int64)
    bias = bias - tensor.quantization.zero_point * weights.sum(axis=1, dtype=np.int64)
    pairs = [quantize_multiplier(real) for real in _factors(tensor, kernel, output)]
    if len(pairs) == 1:
        pairs *= channels
    multipliers, shifts = np.array(pairs, np.int64).T
    low, high = activation_range(operation.attributes["activation"], output.quantization)
    return Dense(
        name=output.name or f"{operation.kind.lower()}_{operation.place}",
        kind=operation.kind,
        place=operation.place,
        source=source,
        result=result,
        rows=tensor.elements // taps // items,
        weights=weights,
        bias=bias.astype(np.int32).astype(np.int64),
        multiplier=multipliers,
        left=np.maximum(shifts, 0),
        right=np.maximum(-shifts, 0),
        rounding=Rounding.SINGLE,
        zero_point=output.quantization.zero_point,
        low=low,
        high=high,
    )


def _factors(source: Tensor, kernel: Tensor, output: Tensor) -> list[float]:
    """Return the real factors of requantisation: one, or one for each channel.

    TensorFlow Lite multiplies the first two scales in single precision for a kernel quantised as
    a whole, in double precision for one quantised by channel.
    """
    assert source.quantization and kernel.quantization and output.quantization
    scales = kernel.quantization.scales
    result = output.quantization.scale
    if len(scales) == 1:
        return [float(source.quantization.scales[0] * scales[0]) / result]
    return [source.quantization.scale * float(scale) / result for scale in scales]
