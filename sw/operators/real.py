"""Functions of one element in single precision, as LiteRT's reference kernels compute them.

Sums, products, quotients and square roots are exact to the last bit. The last bits of ``exp``,
``log``, ``sin``, ``cos``, ``tanh``, ``erfc``, ``expm1`` and ``pow`` are those of the C library that
LiteRT runs with, and not the same everywhere. Those here are rounded correctly, as in newer
libraries.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.record import Kernel

Function = Callable[[np.ndarray], np.ndarray]

ONE, _HALF = np.float32(1), np.float32(0.5)
_CUBIC = np.float32(0.044715)
_SQRT_HALF = np.float32(math.sqrt(0.5))
_SQRT_TWO_PI = np.float32(math.sqrt(2 / math.pi))

#: Where the kernel of LOGISTIC takes 1, and where the exponential.
_LOGISTIC_ENDS = (np.float32(16.619047164916992188), np.float32(-9))


def of_each(function: Function) -> Kernel:
    """Return the kernel of a function of one element."""

    def run(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [function(arrays[0])]

    return run


def correct(function: Function) -> Function:
    """Return a function on float32, computed in float64 and rounded."""
    return lambda x: function(x.astype(np.float64)).astype(np.float32)


exponential, logarithm, tanh = (correct(f) for f in (np.exp, np.log, np.tanh))
sine, cosine, _expm1 = (correct(f) for f in (np.sin, np.cos, np.expm1))
_erfc = correct(np.vectorize(math.erfc, otypes=[np.float64]))


def power(base: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Return ``pow`` of float32."""
    return np.power(base.astype(np.float64), exponent.astype(np.float64)).astype(np.float32)


def logistic(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + e^-x)."""
    above, below = _LOGISTIC_ENDS
    middle = ONE / (ONE + exponential(-x))
    return np.where(x > above, ONE, np.where(x < below, exponential(x), middle))


def elu(x: np.ndarray) -> np.ndarray:
    """Return x, or e^x - 1 below zero."""
    return np.where(x < 0, _expm1(x), x)


def gelu(x: np.ndarray) -> np.ndarray:
    """Return x times the normal distribution."""
    return _HALF * x * _erfc(x * -_SQRT_HALF)


def gelu_by_tanh(x: np.ndarray) -> np.ndarray:
    """Return the approximation of ``gelu``."""
    return _HALF * x * (ONE + tanh(_SQRT_TWO_PI * (x + _CUBIC * x * x * x)))


def hard_swish(x: np.ndarray) -> np.ndarray:
    """Return x · relu6(x + 3) / 6."""
    return x * np.clip(x + np.float32(3), 0, 6) / np.float32(6)


def leaky(x: np.ndarray, alpha: float) -> np.ndarray:
    """Return x, or x · alpha where it is not above zero."""
    return np.where(x > 0, x, x * np.float32(alpha))


def reciprocal_root(x: np.ndarray) -> np.ndarray:
    """Return 1 / √x."""
    return ONE / np.sqrt(x)
