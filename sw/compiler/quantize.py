"""First pass: from the graph to layers with the integer parameters of the requantiser.

Factors and clamps are computed as LiteRT's reference kernels compute them, in the same
floating-point types. Multipliers are those that give the kernels' bytes for every sum of a channel
that inputs can lead to; a layer without such multipliers is refused.
"""

import math
from dataclasses import replace

import numpy as np

from celosia.hw.arch.isa import Rounding
from celosia.sw.compiler.multiplier import single_multiplier
from celosia.sw.compiler.spec import CompileError, Dense, Network, Value
from celosia.sw.graph import Graph, Operation, Quantization, Tensor

__all__ = ["activation_range", "quantize", "sum_ranges"]

_INT32 = (-(1 << 31), (1 << 31) - 1)
_BOUNDS = {
    "NONE": (None, None),
    "RELU": (0.0, None),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}


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
    ranges = sum_ranges(weights, bias, tensor.quantization.zero_point)
    bias = bias - tensor.quantization.zero_point * weights.sum(axis=1, dtype=np.int64)
    low, high = activation_range(operation.attributes["activation"], output.quantization)
    zero_point = output.quantization.zero_point
    reals = _factors(tensor, kernel, output)
    label = graph.label(operation)
    multipliers, shifts = _scaling(label, reals, ranges, zero_point=zero_point, low=low, high=high)
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
        zero_point=zero_point,
        low=low,
        high=high,
    )


def sum_ranges(weights: np.ndarray, bias: np.ndarray, zero_point: int) -> list[tuple[int, int]]:
    """Return the least and the greatest sum of each channel, over all inputs.

    Parameters
    ----------
    weights : numpy.ndarray
        int8, shape ``(channels, taps)``.
    bias : numpy.ndarray
        int64, shape ``(channels,)``.
    zero_point : int
        Of the inputs, which are int8.

    Returns
    -------
    list of tuple of int
        All of int32 for a channel whose sums can leave that, because sums wrap.
    """
    up = np.maximum(weights, 0).sum(axis=1, dtype=np.int64)
    down = np.minimum(weights, 0).sum(axis=1, dtype=np.int64)
    least = bias + up * (-128 - zero_point) + down * (127 - zero_point)
    most = bias + up * (127 - zero_point) + down * (-128 - zero_point)
    pairs = zip(least.tolist(), most.tolist(), strict=True)
    return [(a, b) if _INT32[0] <= a and b <= _INT32[1] else _INT32 for a, b in pairs]


def _scaling(
    label: str, reals: list[float], ranges: list[tuple[int, int]], **clamp: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return multipliers and shifts with which no sum gives another byte than in float64.

    Channels of one factor share a multiplier, unless only the narrower sums of each allow any.
    """
    wide: dict[float, tuple[int, int]] = {}
    for real, (least, most) in zip(reals, ranges, strict=True):
        known = wide.get(real, (least, most))
        wide[real] = min(least, known[0]), max(most, known[1])
    shared = {real: single_multiplier(real, sums=sums, **clamp) for real, sums in wide.items()}
    pairs = []
    for channel, (real, sums) in enumerate(zip(reals, ranges, strict=True)):
        got = f"factor {real:.9g} on sums from {sums[0]} to {sums[1]}"
        # Past 32 bits the kernel's result is no longer what the numbers say.
        if max(-sums[0], sums[1]) * real + 128 >= 1 << 31:
            wanted = "results within 32 bits before the clamp"
            raise CompileError(f"{label}: channel {channel}: wanted {wanted}, got {got}")
        pair = shared[real] or single_multiplier(real, sums=sums, **clamp)
        if pair is None:
            wanted = "a factor that 31 bits round like the reference kernel"
            raise CompileError(f"{label}: channel {channel}: wanted {wanted}, got {got}")
        pairs.append(pair)
    multipliers, shifts = np.array(pairs, np.int64).T
    return multipliers, shifts


def _factors(source: Tensor, kernel: Tensor, output: Tensor) -> list[float]:
    """Return the real factor of each channel; products and quotients of scales are float64."""
    assert source.quantization and kernel.quantization and output.quantization
    scales = np.broadcast_to(kernel.quantization.scales, kernel.shape[:1]).astype(np.float64)
    return (source.quantization.scale * scales / output.quantization.scale).tolist()
