"""Parameters of the requantiser that give ONNX Runtime's bytes: see ``multiplier``.

A layer is refused if more than one sum in ``1 / _MOST_DIFFERING`` would have another result. It
then runs on the host.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from celosia.hw.arch.isa import Rounding
from celosia.sw.ir.graph import Graph, Operation, Quantization
from celosia.sw.layers.errors import ChannelError, CompileError
from celosia.sw.layers.multiplier import Multipliers, multipliers, quantize_multiplier
from celosia.sw.layers.onnxruntime import added, factors
from celosia.sw.layers.quantize import activation_range, bias_of, ends_of_two, folded, sum_ranges
from celosia.sw.layers.values import Scaling, uniform_scaling

#: Number of sums among which one may have a result that is one off.
_MOST_DIFFERING = 250_000

#: Factors that a Q31 multiplier and its shifts reach.
_LEAST_FACTOR, _MOST_FACTOR = 2.0**-31, 2.0**30

#: Pairs of the 65,536 of an addition that may be one off.
_MOST_PAIRS = 0

#: Attempts to adjust the parameters of an addition, and their seed.
_TRIES, _SEED = 200, 2029

_Ends = tuple[int, int, int]


def _require_factors(values: np.ndarray) -> None:
    outside = np.flatnonzero((values < _LEAST_FACTOR) | ~(values < _MOST_FACTOR)).tolist()
    if outside:
        got = f"{values.min():.6g} to {values.max():.6g}"
        raise ChannelError(f"wanted factors from 2^-31 to 2^30, got {got}", outside)


# A layer is lowered again for each operator that the host must take.
@lru_cache(maxsize=1 << 8)
def _multipliers(factor: bytes, ranges: tuple[tuple[int, int], ...], clamp: _Ends) -> Multipliers:
    """Return the parameters of float32 factors of sums in the given ranges."""
    zero_point, low, high = clamp
    numbers = np.frombuffer(factor, np.float32)
    return multipliers(numbers, list(ranges), zero_point=zero_point, low=low, high=high)


def _scaling(
    factor: np.ndarray, ranges: list[tuple[int, int]], bias: np.ndarray, clamp: _Ends
) -> Scaling:
    """Return the parameters for float32 factors of sums in the given ranges."""
    _require_factors(factor)
    zero_point, low, high = clamp
    chosen = _multipliers(factor.tobytes(), tuple(ranges), clamp)
    differing, sums = int(chosen.differing.sum()), int(chosen.sums.sum())
    other = f"{differing} of {sums:,} sums come to a result that is one off" if differing else ""
    if differing * _MOST_DIFFERING > sums:
        refused = np.flatnonzero(chosen.differing * _MOST_DIFFERING > chosen.sums).tolist()
        raise ChannelError(f"wanted multipliers that round half to even, {other}", refused)
    return Scaling(
        bias=bias,
        multiplier=chosen.multiplier,
        left=chosen.left,
        right=chosen.right,
        rounding=chosen.rounding,
        zero_point=zero_point,
        low=low,
        high=high,
        note=other,
    )


def product_scaling(graph: Graph, operation: Operation, weights: np.ndarray) -> Scaling:
    """Return the parameters of a CONV_2D, DEPTHWISE_CONV_2D or FULLY_CONNECTED.

    ``weights``: int8 or int16, shape ``(channels, taps)``. Raises CompileError if there is a
    channel without multiplier.
    """
    source, kernel, output = ends_of_two(graph, operation)
    bias = bias_of(graph, operation, len(weights))
    ranges = sum_ranges(weights, bias, source.zero_point)
    scales = np.broadcast_to(kernel.scales, (len(weights),))
    clamp = output.zero_point, *activation_range(operation.attributes["activation"], output)
    inside = folded(bias, weights, source.zero_point)
    return _scaling(factors(source, scales, output), ranges, inside, clamp)


def computed_scaling(graph: Graph, operation: Operation, taps: int) -> Scaling:
    """Return the parameters of a product of two computed matrices, sums of ``taps`` products."""
    first, second, output = ends_of_two(graph, operation)
    one, other = ((-128 - source.zero_point, 127 - source.zero_point) for source in (first, second))
    products = [x * y for x in one for y in other]
    reach = taps * min(products), taps * max(products)
    bias = np.array([taps * first.zero_point * second.zero_point], np.int64)
    clamp = output.zero_point, -128, 127
    return _scaling(factors(first, second.scales[:1], output), [reach], bias, clamp)


def mean_scaling(source: Quantization, output: Quantization, count: int) -> Scaling:
    """Return the parameters of a MEAN of ``count`` elements, ``QLinearGlobalAveragePool``."""
    factor = source.scales[:1] / (output.scales[:1] * np.float32(count))
    bias = -source.zero_point * count
    reach = -128 * count + bias, 127 * count + bias
    clamp = output.zero_point, -128, 127
    return _scaling(factor, [reach], np.array([bias], np.int64), clamp)


def average_scaling(source: Quantization, output: Quantization, count: int) -> Scaling:
    """Return the parameters of an AVERAGE_POOL_2D of ``count`` elements.

    The kernel adds in single precision: the parameters are valid if no sum comes so near to a half
    that rounding of intermediate sums could matter. Raises CompileError if a sum does.
    """
    ratio = source.scale / output.scale / count
    sums = np.arange(-128 * count, 127 * count + 1) - source.zero_point * count
    exact = sums * ratio
    near = np.abs(exact - np.floor(exact) - 0.5)
    inside = np.abs(exact) < 256
    largest = max(128.0, np.abs(exact).max() / ratio / count * source.scale / output.scale)
    if (near[inside] <= (count + 4) * 2.0**-24 * 2 * largest).any():
        raise CompileError(f"wanted sums of {count} elements that stay apart from halves")
    return mean_scaling(source, output, count)


def addition_scalings(
    first: Quantization, second: Quantization, output: Quantization, *, unsigned: bool
) -> tuple[Scaling, Scaling, Scaling]:
    """Return the parameters of ADD: of both inputs, and of their sum.

    Inputs are brought to a common fraction of the result's steps, as fine as 32 bits allow. If a
    pair of inputs still has another result, their factors are adjusted. Raises CompileError if a
    pair has another result after all attempts.
    """
    quotients = np.array([one.scales[0] / output.scales[0] for one in (first, second)], np.float32)
    _require_factors(quotients)
    values = np.arange(-128, 128)
    sources = (first, second)
    exact = added(values[:, None], values[None], (first, second, output), unsigned=unsigned)
    bits = math.floor(math.log2((1 << 30) / (256 * float(quotients.sum()))))
    if not 8 <= bits <= 30:
        raise CompileError(f"wanted scales of like size, got quotients {quotients.tolist()}")
    generator, best = np.random.default_rng(_SEED), None
    for number in range(_TRIES):
        moved = generator.normal(size=3) * (number > 0)
        reals = quotients.astype(np.float64) * (1 + moved[:2] * 2.0**-24)
        bias = round(moved[2] * math.ldexp(1, bits - 17))
        scalings = _fractions(sources, output, reals, bits, bias)
        sums = _sums(scalings, values)
        differing = int((sums != exact).sum())
        if best is None or differing < best[0]:
            best = differing, scalings
        if not differing:
            break
    assert best
    if best[0] > _MOST_PAIRS:
        raise CompileError(f"wanted an exact sum of {values.size**2} pairs, {best[0]} otherwise")
    return best[1]


def _fractions(
    sources: Sequence[Quantization],
    output: Quantization,
    reals: np.ndarray,
    bits: int,
    bias: int,
) -> tuple[Scaling, Scaling, Scaling]:
    """Return the parameters that add in units of ``2**-bits`` of the result's steps."""
    inputs = []
    for source, real in zip(sources, reals.tolist(), strict=True):
        pair = quantize_multiplier(math.ldexp(real, bits))
        inputs.append(uniform_scaling(-source.zero_point, pair, Rounding.SINGLE, (0, -128, 127)))
    clamp = (output.zero_point, -128, 127)
    total = uniform_scaling(bias, (1 << 30, 1 - bits), Rounding.SINGLE, clamp)
    return inputs[0], inputs[1], total


def _sums(scalings: tuple[Scaling, Scaling, Scaling], values: np.ndarray) -> np.ndarray:
    """Return the results of all pairs of values."""
    first, second, total = scalings
    sums = _rescaled(values[:, None], first) + _rescaled(values[None], second)
    return np.clip(_rescaled(sums, total) + total.zero_point, total.low, total.high)


def _rescaled(values: np.ndarray, scaling: Scaling) -> np.ndarray:
    """Return the requantised values; no shift takes them out of 32 bits."""
    right = scaling.right
    half = np.where(right == 0, 1 << 30, 0)
    high = (((values + scaling.bias) << scaling.left) * scaling.multiplier + half) >> 31
    return (high + ((1 << right) >> 1)) >> right
