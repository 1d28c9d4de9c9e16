"""Functions of int16 by tables that are interpolated, as in LiteRT's reference kernels."""

import math
from collections.abc import Sequence

import numpy as np

from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.multiplier import quantize_multiplier
from celosia.sw.layers.record import Kernel
from celosia.sw.operators import real
from celosia.sw.operators.fixed_point import centred, finished, multiplied, single, times

#: The only scale of results.
ONE = 1 / (1 << 15)

#: Entries of the kernel's table of sigmoid that are one more than the function rounded.
_ABOVE = (4, 8, 12, *range(14, 18), *range(19, 23), 25, *range(27, 32), *range(33, 36), 37) + (
    *(39, 40, 41, 43, 44, 45, 46, 49, 50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116),
    *(135, 255),
)

#: Tolerance of the logarithm of a power of two.
_NEARLY = 1e-3


def _sigmoid() -> np.ndarray:
    """Return sigmoid(n / 24) of 16 bits, for n from 0 to 255."""
    exact = 65536 / (1 + np.exp(-np.arange(256) / 24))
    table = np.floor(exact + 0.5).astype(np.int64)
    table[list(_ABOVE)] += 1
    return table


_SIGMOID = _sigmoid()


def _thirds(operator: HostOperator, arrays: Sequence[np.ndarray], limit: int) -> np.ndarray:
    """Return inputs in units of 1 / 12288; power-of-two scales shift by up to ``limit``."""
    (source,) = operator.sources
    exponent = math.log2(source.scale)
    shift = 12 + round(exponent)
    if abs(exponent - round(exponent)) < _NEARLY and 0 <= shift <= limit:
        multiplier, shift = 3 << shift, 0
    else:
        exact, shift = source.scale * 4096 * 3, 0
        while exact <= 32767 / 2 and shift <= 30:
            exact, shift = exact * 2, shift + 1
        multiplier = int(exact)
    x = arrays[0].astype(np.int64)
    return ((x * multiplier + ((1 << shift) >> 1)).astype(np.int32) >> shift).astype(np.int64)


def _interpolated(x: np.ndarray, bits: int, saturated: int) -> np.ndarray:
    """Return sigmoid of whole numbers from 0 on, whose last ``bits`` lie between two entries."""
    entry = np.minimum(x >> bits, 254)
    below, part = _SIGMOID[entry], x & ((1 << bits) - 1)
    between = (below << bits) + part * (_SIGMOID[entry + 1] - below)
    return np.where(x >> bits >= 255, saturated, between)


def logistic(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return 1 / (1 + e^-x)."""
    x = _thirds(operator, arrays, 0)
    result = _interpolated(np.abs(x), 9, 0x7FFF << 10)
    result = np.where(x >= 0, result, (1 << 25) - result - 1) + (1 << 9)
    return [(result >> 10).astype(np.int16)]


def tanh(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return tanh(x), which is 2 sigmoid(2x) - 1."""
    x = _thirds(operator, arrays, 1)
    result = _interpolated(np.abs(x), 8, 0xFFFF << 8) - (1 << 23)
    result = np.where(x >= 0, result, -result - 1) + (1 << 7)
    return [(result >> 8).astype(np.int16)]


def _table(
    function: real.Function, low: np.floating, high: np.floating, scale: np.floating
) -> np.ndarray:
    """Return 513 values of a function, of 16 bits, such that midpoints of steps are right.

    - ``low``, ``high``: its first and last argument, whose precision the function is computed in.
    - ``scale``: steps of a result of 1.
    """
    step = (high - low) / 512
    steps = np.arange(512).astype(low.dtype)
    first = _away(function(low + steps * step) * scale)
    after = function(low + (steps + 1) * step) * scale
    middle = _away((after + first) / 2) - _away(function(low + steps * step + step / 2) * scale)
    table = np.append(first - _away(middle / 2), _away(function(high.reshape(1)) * scale))
    # The kernel casts what is no number to 0.
    bounded = np.clip(table, -(1 << 15), (1 << 15) - 1)
    return np.where(np.isnan(table), 0, bounded).astype(np.int64)


def _away(x: np.ndarray) -> np.ndarray:
    """Return numbers rounded, halves away from zero."""
    integers = np.trunc(x)
    return integers + np.copysign((np.abs(x - integers) >= 0.5).astype(x.dtype), x)


_UNIT = np.float64(1 << 15)
#: Of numbers from -10 to 0, and of those from 0 to 1.
_EXPONENTIAL = _table(np.exp, np.float64(-10), np.float64(0), _UNIT)
_RECIPROCAL = _table(lambda x: 1 / (1 + x), np.float64(0), np.float64(1), _UNIT)


def _looked_up(x: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return a function of numbers of 16 bits; slopes have 16 bits, too."""
    x = np.clip(x, -(1 << 15), (1 << 15) - 1)
    entry = 256 + (x >> 7)
    slope = (table[entry + 1] - table[entry]).astype(np.int16).astype(np.int64)
    return table[entry] + ((slope * (x & 127) + 64) >> 7)


def tabulated(function: real.Function, bound: int | None = None) -> Kernel:
    """Return the kernel of a function in single precision.

    ``bound``: its result for arguments not above zero, in steps.
    """

    def run(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        source, output = (single(operand) for operand in (*operator.sources, *operator.results))

        def bounded(x: np.ndarray) -> np.ndarray:
            results = function(x)
            return results if bound is None else np.where(x > 0, results, output * real.ONE * bound)

        low, high = (np.float32(end) for end in (-(1 << 15), (1 << 15) - 1))
        scale = np.float32(1 << 16) / (output * high - output * low)
        table = _table(bounded, source * low, source * high, scale)
        return [_looked_up(arrays[0].astype(np.int64), table).astype(np.int16)]

    return run


def square_root(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return square roots, rounded down; those of numbers below zero are zero."""
    source, output = (single(operand) for operand in (*operator.sources, *operator.results))
    x = np.maximum(arrays[0], 0).astype(np.float32)
    return finished(np.trunc(np.sqrt(source * x) / output), operator.results[0])


def absolute(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return absolute values."""
    (source,), (output,) = operator.sources, operator.results
    (x,) = centred(operator, arrays)
    return finished(multiplied(np.abs(x), float(single(source) / single(output))), output)


def softmax(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return softmax over the last dimension."""
    beta = float(np.float32(operator.attributes["beta"]))
    factor = operator.sources[0].scale * beta / (10.0 / 65535.0)
    x = arrays[0].astype(np.int64)
    below = x - x.max(axis=-1, keepdims=True)
    scaled = times(below, *quantize_multiplier(factor))
    powers = _looked_up(scaled + (1 << 15) - 1, _EXPONENTIAL)
    sums = powers.sum(axis=-1, keepdims=True)
    digits = np.frexp(sums.astype(np.float64))[1].astype(np.int64)
    fractions = ((sums << (31 - digits)) + (1 << 13)) >> 14
    shares = _looked_up(fractions - (1 << 15) - (1 << 16), _RECIPROCAL)
    right = digits - 1
    values = (powers * shares + (1 << (right - 1))) >> right
    return [np.clip(values, 0, (1 << 15) - 1).astype(np.int16)]


def leaky(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return x, or x · alpha below zero."""
    (source,), (output,) = operator.sources, operator.results
    (x,) = centred(operator, arrays)
    slope = single(source) * np.float32(operator.attributes["alpha"]) / single(output)
    ratio = float(single(source) / single(output))
    below = np.sign(slope) * times(x, *quantize_multiplier(abs(float(slope))))
    return finished(np.where(x >= 0, times(x, *quantize_multiplier(ratio)), below), output)
