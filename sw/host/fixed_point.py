"""Multiplications by real factors as LiteRT's reference kernels do them in integers."""

import numpy as np

from celosia.sw.compiler.multiplier import quantize_multiplier
from celosia.sw.ir.graph import Quantization
from celosia.sw.ir.program import HostOperator, Operand

__all__ = ["factors", "meaning", "rescaled", "times"]


def meaning(operand: Operand) -> Quantization:
    """Return what an operand's integers mean."""
    return Quantization(np.array([operand.scale], np.float32), np.array([operand.zero_point]))


def factors(operator: HostOperator) -> np.ndarray:
    """Return the real factors of sums of products of the first two operands.

    Returns
    -------
    numpy.ndarray
        float64, one for each channel, or one for all.
    """
    (source, weights), (output,) = operator.sources[:2], operator.results
    scales = np.array(weights.scales or [weights.scale], np.float64)
    return source.scale * scales / output.scale


def times(x: np.ndarray, multiplier: np.ndarray | int, shift: np.ndarray | int) -> np.ndarray:
    """Return ``MultiplyByQuantizedMultiplier``, which rounds twice.

    Parameters
    ----------
    x : numpy.ndarray
        int64 in the range of int32, also where shifted left.
    multiplier, shift : int or int64 array
        Q31 multiplier, which may be negative, and exponent; arrays broadcast.
    """
    left, right = np.maximum(shift, 0), np.maximum(-np.asarray(shift), 0)
    wrapped = (x << left).astype(np.int32).astype(np.int64)
    high = (wrapped * multiplier + (1 << 30)) >> 31
    half = (1 << right) >> 1
    return np.where(right > 0, (high + half - (high < 0)) >> right, high)


def rescaled(x: np.ndarray, factor: float) -> np.ndarray:
    """Return x times a real factor of at least 0, below 2^30."""
    return times(x, *quantize_multiplier(factor))
