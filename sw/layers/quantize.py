"""Integer parameters of the requantiser, operator by operator.

Factors and clamps are computed as LiteRT's reference kernels compute them, in the same
floating-point types. If a kernel rounds otherwise than the requantiser, multipliers are chosen that
give the kernel's bytes for every possible sum. Without such multipliers CompileError is raised, and
the host runs the channels or the operator.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from celosia.hw.arch.isa import Rounding
from celosia.sw.ir.graph import Graph, Operation, Quantization
from celosia.sw.layers.errors import ChannelError, CompileError, UndefinedError
from celosia.sw.layers.multiplier import quantize_multiplier, single_multiplier
from celosia.sw.layers.values import Scaling, scaling_of, uniform_scaling

_INT32 = (-(1 << 31), (1 << 31) - 1)
#: Least and greatest results of fused activations; None for those of the type.
BOUNDS = {
    "NONE": (None, None),
    "RELU": (0.0, None),
    "RELU6": (0.0, 6.0),
    "RELU_0_TO_1": (0.0, 1.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}


def single_factor(*scales: np.float32, over: np.float32) -> float:
    """Return the product of scales over another one in single precision, infinite past that."""
    with np.errstate(over="ignore"):
        return float(math.prod(scales[1:], start=scales[0]) / over)


def matrix_factor(first: np.float32, second: np.float32, *, over: np.float32) -> float:
    """Return the product of scales in single precision, divided in double: for a BATCH_MATMUL."""
    with np.errstate(over="ignore"):
        return float(first * second) / float(over)


def activation_range(activation: str, output: Quantization, dtype: str = "int8") -> tuple[int, int]:
    """Return the clamp of a fused activation.

    - ``activation``: ``NONE``, ``RELU``, ``RELU6``, ``RELU_0_TO_1`` or ``RELU_N1_TO_1``.
    - ``output``: quantisation of the operator's result.
    - ``dtype``: type of the result.

    Raises UndefinedError if a bound is past 32 bits at this scale.
    """

    def quantized(bound: float) -> int:
        ratio = single_factor(np.float32(bound), over=output.scales[0])
        if abs(ratio) >= 1 << 31:
            got = f"{bound:g} at a scale of {output.scale:.6g}"
            raise UndefinedError(f"{activation}: wanted a bound within 32 bits, got {got}")
        rounded = math.floor(abs(ratio) + 0.5)
        return output.zero_point + (-rounded if ratio < 0 else rounded)

    low, high = BOUNDS[activation]
    limits = np.iinfo(dtype)
    first, last = int(limits.min), int(limits.max)
    least = first if low is None else min(max(first, quantized(low)), last)
    greatest = last if high is None else max(min(last, quantized(high)), least)
    return least, greatest


def clamped(scaling: Scaling, activation: str, output: Quantization) -> Scaling:
    """Return a scaling with the clamp of one more activation, which may follow a maximum."""
    low, high = activation_range(activation, output)
    low, high = max(scaling.low, low), min(scaling.high, high)
    # Bounds that do not meet: the later one decides.
    low = min(low, high) if high < scaling.low else low
    return replace(scaling, low=low, high=max(low, high))


def keeps_order(weights: np.ndarray, scaling: Scaling) -> bool:
    """Return whether a greater sum never comes to a smaller result, because nothing wraps.

    - ``weights``: int8, shape ``(channels, ...)``.
    - ``scaling``: parameters applied to the sums.
    """
    flat = weights.reshape(len(weights), -1)
    plain = sum_ranges(flat, np.zeros(len(flat), np.int64), 0)
    biased = sum_ranges(flat, scaling.bias, 0)
    shifted = [
        (low << left, high << left)
        for (low, high), left in zip(biased, scaling.left.tolist(), strict=True)
    ]
    return all(_INT32[0] < low and high < _INT32[1] for low, high in (*plain, *biased, *shifted))


def dense_scaling(graph: Graph, operation: Operation, weights: np.ndarray) -> Scaling:
    """Return the parameters of a FULLY_CONNECTED, which rounds in float64.

    ``weights``: int8, shape ``(channels, taps)``. Raises CompileError if there is a channel without
    multiplier.
    """
    tensor, _ = ends(graph, operation)
    bias = bias_of(graph, operation, len(weights))
    ranges = sum_ranges(weights, bias, tensor.zero_point)
    return _dense(graph, operation, ranges, folded(bias, weights, tensor.zero_point))


def computed_dense_scaling(graph: Graph, operation: Operation, taps: int) -> Scaling:
    """Return the parameters of a FULLY_CONNECTED of computed weights, which have a zero point.

    They are those of each channel, or of one channel if there is no bias. Raises CompileError if
    there is no multiplier.
    """
    first, second, _ = ends_of_two(graph, operation)
    channels = graph.tensors[operation.inputs[1]].shape[0]
    bias = bias_of(graph, operation, channels)
    bias = bias if bias.any() else bias[:1]
    one, other = ((-128 - source.zero_point, 127 - source.zero_point) for source in (first, second))
    products = [x * y for x in one for y in other]
    least, greatest = taps * min(products), taps * max(products)
    ranges = [_within(int(summand) + least, int(summand) + greatest) for summand in bias]
    constant = _wrapped(bias + taps * first.zero_point * second.zero_point)
    return _dense(graph, operation, ranges, constant)


def _dense(
    graph: Graph, operation: Operation, ranges: list[tuple[int, int]], bias: np.ndarray
) -> Scaling:
    """Return the parameters of a FULLY_CONNECTED whose channels have sums in the given ranges."""
    _, output = ends(graph, operation)
    low, high = activation_range(operation.attributes["activation"], output)
    zero_point = output.zero_point
    reals = _factors(graph, operation, len(ranges))
    multipliers, shifts = _exact(reals, ranges, zero_point=zero_point, low=low, high=high)
    return scaling_of(bias, multipliers, shifts, Rounding.SINGLE, (zero_point, low, high))


def convolution_scaling(graph: Graph, operation: Operation, weights: np.ndarray) -> Scaling:
    """Return the parameters of a CONV_2D or DEPTHWISE_CONV_2D, which round twice.

    ``weights``: int8, shape ``(channels, taps)``. Raises CompileError if a factor is past the
    kernel's range.
    """
    tensor, output = ends(graph, operation)
    reals = _factors(graph, operation, len(weights))
    if max(reals) >= 1 << 30:
        raise CompileError(f"wanted factors below 2^30, got {max(reals):.9g}")
    multipliers, shifts = np.array([quantize_multiplier(real) for real in reals], np.int64).T
    clamp = activation_range(operation.attributes["activation"], output)
    bias = folded(bias_of(graph, operation, len(weights)), weights, tensor.zero_point)
    return scaling_of(bias, multipliers, shifts, Rounding.DOUBLE, (output.zero_point, *clamp))


def identity_scaling(low: int = -128, high: int = 127) -> Scaling:
    """Return the parameters that change nothing but clamp."""
    return uniform_scaling(0, (1 << 30, 1), Rounding.SINGLE, (0, low, high))


def exact_scaling(bias: int | np.ndarray, zero_point: int) -> Scaling:
    """Return the parameters that only add a bias before and a zero point after.

    ``bias`` is one number, or int64 of shape ``(channels,)``.
    """
    biases = np.atleast_1d(np.asarray(bias, np.int64))
    multiplier = np.full(biases.size, 1 << 30, np.int64)
    ends = (zero_point, -128, 127)
    return scaling_of(biases, multiplier, np.ones_like(biases), Rounding.DOUBLE, ends)


def multiplication_scaling(
    factor: float,
    source: Quantization,
    output: Quantization,
    weights: np.ndarray,
    activation: str = "NONE",
) -> Scaling:
    """Return the parameters of a MUL by a constant for each channel, or of a BATCH_MATMUL.

    - ``factor``: product of the scales of both inputs, over that of the result.
    - ``source``, ``output``: quantisation of the input and the result.
    - ``weights``: int8 or int16, shape ``(channels, taps)``: the constant less its zero point.
    - ``activation``: fused activation.

    Raises CompileError if the factor is past the kernel's range.
    """
    if factor >= 1 << 30:
        raise CompileError(f"wanted a factor below 2^30, got {factor:.9g}")
    multiplier, shift = (np.full(len(weights), n, np.int64) for n in quantize_multiplier(factor))
    bias = folded(np.zeros(len(weights), np.int64), weights, source.zero_point)
    ends = (output.zero_point, *activation_range(activation, output))
    return scaling_of(bias, multiplier, shift, Rounding.DOUBLE, ends)


def average_scaling(count: int, low: int, high: int, *, unsigned: bool = False) -> Scaling:
    """Return the parameters that divide a sum of int8 by ``count``, halves away from zero.

    Halves of values that stand for uint8 are rounded up. Raises CompileError if no multiplier does
    so for all sums.
    """
    zero = -128 if unsigned else 0
    sums = (-(128 + zero) * count, (127 - zero) * count)
    pair = single_multiplier(1 / count, zero_point=zero, low=low, high=high, sums=sums)
    if pair is None:
        raise CompileError(f"wanted a window that 31 bits divide by, got {count} elements")
    return uniform_scaling(-zero * count, pair, Rounding.SINGLE, (zero, low, high))


def rescaling(source: Quantization, output: Quantization, activation: str = "NONE") -> Scaling:
    """Return the parameters of QUANTIZE, or of an activation without a matrix layer before it.

    The kernels of activations divide in single precision, QUANTIZE in double.
    """
    single = single_factor(source.scales[0], over=output.scales[0])
    pair = quantize_multiplier(single if activation != "NONE" else source.scale / output.scale)
    clamp = activation_range(activation, output)
    return uniform_scaling(-source.zero_point, pair, Rounding.DOUBLE, (output.zero_point, *clamp))


def mean_scaling(source: Quantization, output: Quantization, count: int) -> Scaling:
    """Return the parameters of a MEAN over ``count`` elements.

    The kernel divides its multiplier by ``count`` after the largest left shift that keeps the
    quotient within 31 bits (``QuantizedMeanOrSum`` of TensorFlow Lite's reference kernels).
    """
    multiplier, shift = quantize_multiplier(source.scale / output.scale)
    more = min(count.bit_length() - 1, 32, 31 + shift)
    pair = (multiplier << more) // count, shift - more
    bias = -source.zero_point * count
    return uniform_scaling(bias, pair, Rounding.DOUBLE, (output.zero_point, -128, 127))


def addition_scalings(
    first: Quantization, second: Quantization, output: Quantization, activation: str
) -> tuple[Scaling, Scaling, Scaling]:
    """Return the parameters of ADD: of both inputs, and of their sum.

    Inputs are shifted left by 20 bits and brought to twice the greater of their scales, as
    TensorFlow Lite's reference kernel does.
    """
    twice = 2 * max(first.scale, second.scale)
    one, other = (shifted_scaling(source, source.scale / twice, 20) for source in (first, second))
    pair = quantize_multiplier(twice / ((1 << 20) * output.scale))
    clamp = activation_range(activation, output)
    return one, other, uniform_scaling(0, pair, Rounding.DOUBLE, (output.zero_point, *clamp))


def shifted_scaling(source: Quantization, factor: float, left: int) -> Scaling:
    """Return the parameters that subtract a zero point, shift to the left, and multiply."""
    pair = quantize_multiplier(factor)
    scaling = uniform_scaling(-source.zero_point, pair, Rounding.DOUBLE, (0, -128, 127))
    return replace(scaling, left=np.array([left], np.int64))


def product_scalings(
    first: Quantization, second: Quantization, output: Quantization, factor: float, activation: str
) -> tuple[Scaling, Scaling, Scaling]:
    """Return the parameters of MUL: of both inputs, less their zero points, and of the product.

    ``factor``: product of the scales of both inputs, over that of the result.
    """
    one, other = (exact_scaling(-source.zero_point, 0) for source in (first, second))
    ends = output.zero_point, *activation_range(activation, output)
    return one, other, uniform_scaling(0, quantize_multiplier(factor), Rounding.DOUBLE, ends)


def meanings(graph: Graph, *numbers: int) -> tuple[Quantization, ...]:
    """Return the quantisation of tensors, each of which has one."""
    quantizations = [graph.tensors[number].quantization for number in numbers]
    assert all(quantizations)
    return tuple(quantization for quantization in quantizations if quantization)


def ends(graph: Graph, operation: Operation) -> tuple[Quantization, Quantization]:
    """Return the quantisation of an operator's first input and of its result."""
    source, output = meanings(graph, operation.inputs[0], operation.outputs[0])
    return source, output


def ends_of_two(
    graph: Graph, operation: Operation
) -> tuple[Quantization, Quantization, Quantization]:
    """Return the quantisation of an operator's first two inputs and of its result."""
    first, second, output = meanings(graph, *operation.inputs[:2], operation.outputs[0])
    return first, second, output


def bias_of(graph: Graph, operation: Operation, channels: int) -> np.ndarray:
    """Return the bias of a matrix operator, int64 of shape ``(channels,)``; zeros without one."""
    if len(operation.inputs) < 3 or operation.inputs[2] == -1:
        return np.zeros(channels, np.int64)
    bias = graph.tensors[operation.inputs[2]].data
    assert bias is not None
    return bias.reshape(-1).astype(np.int64)


def folded(bias: np.ndarray, weights: np.ndarray, zero_point: int) -> np.ndarray:
    """Return the bias with the source's zero point in it, modulo 2³²."""
    return _wrapped(bias - zero_point * weights.sum(axis=1, dtype=np.int64))


def _wrapped(sums: np.ndarray) -> np.ndarray:
    """Return sums modulo 2³², in the range of int32."""
    return sums.astype(np.int32).astype(np.int64)


def _within(least: int, greatest: int) -> tuple[int, int]:
    """Return the range of sums, all of int32 if they can exceed that, because sums wrap."""
    return (least, greatest) if _INT32[0] <= least and greatest <= _INT32[1] else _INT32


def sum_ranges(weights: np.ndarray, bias: np.ndarray, zero_point: int) -> list[tuple[int, int]]:
    """Return the least and the greatest sum of each channel, over all inputs.

    - ``weights``: int8, shape ``(channels, taps)``.
    - ``bias``: int64, shape ``(channels,)``.
    - ``zero_point``: zero point of the inputs, which are int8.

    Returns all of int32 for a channel whose sums can exceed that, because sums wrap.
    """
    up = np.maximum(weights, 0).sum(axis=1, dtype=np.int64)
    down = np.minimum(weights, 0).sum(axis=1, dtype=np.int64)
    least = bias + up * (-128 - zero_point) + down * (127 - zero_point)
    greatest = bias + up * (127 - zero_point) + down * (-128 - zero_point)
    return [_within(*pair) for pair in zip(least.tolist(), greatest.tolist(), strict=True)]


def _exact(
    reals: list[float], ranges: list[tuple[int, int]], **clamp: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return multipliers and shifts with which no sum gives another byte than in float64.

    Channels of one factor share a multiplier, unless only the narrower sums of each allow any.
    """
    wide: dict[float, tuple[int, int]] = {}
    for real, (least, greatest) in zip(reals, ranges, strict=True):
        known = wide.get(real, (least, greatest))
        wide[real] = min(least, known[0]), max(greatest, known[1])
    shared = {real: single_multiplier(real, sums=sums, **clamp) for real, sums in wide.items()}
    pairs, refused = list[tuple[int, int]](), dict[int, str]()
    for channel, (real, sums) in enumerate(zip(reals, ranges, strict=True)):
        got = f"factor {real:.9g} on sums from {sums[0]} to {sums[1]}"
        # Past 32 bits the kernel's result does not follow from the numbers.
        if max(-sums[0], sums[1]) * real + 128 >= 1 << 31:
            requirement = "results within 32 bits before the clamp"
            raise UndefinedError(f"channel {channel}: wanted {requirement}, got {got}")
        pair = shared[real] or single_multiplier(real, sums=sums, **clamp)
        if pair is None:
            refused[channel] = got
        pairs.append(pair or (0, 0))
    if refused:
        requirement = "a factor that 31 bits round like the reference kernel"
        channel, got = next(iter(refused.items()))
        raise ChannelError(f"channel {channel}: wanted {requirement}, got {got}", [*refused])
    multipliers, shifts = np.array(pairs, np.int64).T
    return multipliers, shifts


def channel_factors(
    source: float, kernel: np.ndarray, output: float, attributes: dict[str, Any]
) -> np.ndarray:
    """Return the real factor of each channel, float64: the product of two scales over another.

    Products for convolutions of uint8 are float32.
    """
    products = source * kernel.astype(np.float64)
    if attributes.get("unsigned"):
        products = products.astype(np.float32).astype(np.float64)
    return products / output


def _factors(graph: Graph, operation: Operation, channels: int) -> list[float]:
    source, kernel, output = ends_of_two(graph, operation)
    scales = np.broadcast_to(kernel.scales, (channels,))
    return channel_factors(source.scale, scales, output.scale, operation.attributes).tolist()
