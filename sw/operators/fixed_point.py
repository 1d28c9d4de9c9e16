"""Multiplications by real factors as LiteRT's reference kernels do them in integers."""

from collections.abc import Sequence

import numpy as np

from celosia.sw.ir.graph import Graph, Operation, Quantization
from celosia.sw.ir.parts import HostOperator, Operand
from celosia.sw.layers.multiplier import quantize_multiplier
from celosia.sw.layers.quantize import activation_range, channel_factors, single_factor

#: Factors that a signed shift of 32 bits can hold.
MOST_FACTOR = 1 << 30


def meaning(operand: Operand) -> Quantization:
    """Return the real values of an operand's integers."""
    return Quantization(np.array([operand.scale], np.float32), np.array([operand.zero_point]))


def factors(operator: HostOperator) -> np.ndarray:
    """Return the real factors of sums of products of the first two operands.

    Returns float64, one for each channel, or one for all.
    """
    (source, weights), (output,) = operator.sources[:2], operator.results
    scales = np.array(weights.scales or [weights.scale])
    return channel_factors(source.scale, scales, output.scale, operator.attributes)


def times(x: np.ndarray, multiplier: np.ndarray | int, shift: np.ndarray | int) -> np.ndarray:
    """Return ``MultiplyByQuantizedMultiplier``, which rounds twice.

    - ``x``: int64 in the range of int32, also where shifted left.
    - ``multiplier``, ``shift``: Q31 multiplier, which may be negative, and exponent; arrays
      broadcast.
    """
    left, right = np.maximum(shift, 0), np.maximum(-np.asarray(shift), 0)
    wrapped = (x << left).astype(np.int32).astype(np.int64)
    high = (wrapped * multiplier + (1 << 30)) >> 31
    return halved(high, right)


def times_wide(x: np.ndarray, multiplier: np.ndarray | int, shift: np.ndarray | int) -> np.ndarray:
    """Return ``MultiplyByQuantizedMultiplier`` of 64-bit numbers, which rounds once.

    The multiplier is cut to 16 bits; results are those of 32 bits.
    """
    short = np.minimum((np.asarray(multiplier) + (1 << 15)) >> 16, 0x7FFF)
    total = 15 - shift
    return ((x * short + (1 << (total - 1))) >> total).astype(np.int32).astype(np.int64)


def halved(x: np.ndarray, times: np.ndarray | int) -> np.ndarray:
    """Return ``RoundingDivideByPOT``: x / 2^times, halves away from zero."""
    half = (1 << np.asarray(times, np.int64)) >> 1
    return np.where(half > 0, (x + half - (x < 0)) >> times, x)


def multiplied(x: np.ndarray, factor: float) -> np.ndarray:
    """Return x times a real factor, which may be negative.

    Raises ValueError if the factor exceeds the range of the kernels.
    """
    if not abs(factor) < MOST_FACTOR:
        raise ValueError(f"wanted factors below 2^30, got {factor:.9g}")
    product = rescaled(x, abs(factor))
    return -product if factor < 0 else product


def rescaled(x: np.ndarray, factor: float) -> np.ndarray:
    """Return x times a real factor of at least 0, below 2^30."""
    return times(x, *quantize_multiplier(factor))


def single(operand: Operand) -> np.float32:
    """Return the scale of an operand in single precision."""
    return np.float32(operand.scale)


def aligned(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return operands that broadcast, those that are computed with the result's dimensions."""
    rank = len(operator.results[0].shape)
    return [
        array
        if operand.data is not None
        else array.reshape(len(array), *[1] * (rank - len(operand.shape)), *operand.shape)
        for operand, array in zip(operator.sources, arrays, strict=True)
    ]


def centred(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return operands less their zero points, int64, with as many dimensions as the result."""
    pairs = zip(operator.sources, aligned(operator, arrays), strict=True)
    return [array.astype(np.int64) - operand.zero_point for operand, array in pairs]


def finished(values: np.ndarray, output: Operand, activation: str = "NONE") -> list[np.ndarray]:
    """Return results: the zero point added, and clamped."""
    low, high = activation_range(activation, meaning(output), output.dtype)
    return [np.clip(values + output.zero_point, low, high).astype(output.dtype)]


def shaped(values: np.ndarray, output: Operand, activation: str = "NONE") -> list[np.ndarray]:
    """Return results as in ``finished``, in the shape of the operand, sample by sample."""
    (result,) = finished(values, output, activation)
    return [result.reshape(len(result), *output.shape)]


def _scales(graph: Graph, operation: Operation) -> list[Quantization | None]:
    return [None if n == -1 else graph.tensors[n].quantization for n in operation.inputs]


def quotients(graph: Graph, operation: Operation) -> list[float]:
    """Return the scale of each input over that of the result."""
    output = graph.tensors[operation.outputs[0]].quantization
    quantizations = _scales(graph, operation)
    return [source.scale / output.scale for source in quantizations if source and output]


def products(graph: Graph, operation: Operation) -> list[float]:
    """Return the product of the scales of two inputs over that of the result, in float32."""
    output = graph.tensors[operation.outputs[0]].quantization
    first, second = _scales(graph, operation)[:2]
    if not (first and second and output):
        return []
    return [single_factor(first.scales[0], second.scales[0], over=output.scales[0])]


def weighted(source: int, kernel: int):
    """Return the function of the greatest factor of inputs ``source`` and ``kernel``."""

    def greatest(graph: Graph, operation: Operation) -> list[float]:
        output = graph.tensors[operation.outputs[0]].quantization
        scales = _scales(graph, operation)
        first, second = scales[source], scales[kernel]
        if not (first and second and output):
            return []
        return [first.scale * float(second.scales.max()) / output.scale]

    return greatest


def inverse_root(x: int) -> tuple[int, int]:
    """Return Q31 multiplier and shift of 1 / √x, by Newton and Raphson; for 0 those of 1.

    ``GetInvSqrtQuantizedMultiplierExp`` of TensorFlow Lite, whose numbers have three integer bits.
    """
    if x <= 1:
        return (1 << 31) - 1, 0
    halvings = 0
    while x >= 1 << 29:
        x, halvings = x // 4, halvings + 1

    def product(a: int, b: int) -> int:
        return (a * b + (1 << 30)) >> 31

    pairs = (31 - x.bit_length()) // 2 - 1
    fraction = x << 2 * pairs >> 1
    half = (fraction + 1) >> 1
    root = 1 << 28
    for _ in range(5):
        cube = product(product(root, root), root) << 6
        root = (product(3 << 27, root) - product(half, cube)) << 3
    root = product(root, 1518500250)
    shift = pairs - 11 - halvings
    return root << max(shift, 0), min(shift, 0)
