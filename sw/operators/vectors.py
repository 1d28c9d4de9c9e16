"""Vector functions in single precision, as LiteRT computes them on x86: in four lanes.

Order of additions as in ``neon_tensor_utils.cc``, which LiteRT translates to SSE.
"""

from collections.abc import Callable

import numpy as np

_LANES = 4
_ZERO = np.float32(0)


def summed(terms: np.ndarray, start: np.ndarray | np.float32 = _ZERO) -> np.ndarray:
    """Return sums of float32 along the last dimension, added to ``start``."""
    count = terms.shape[-1]
    aligned = count - count % _LANES
    lanes = np.zeros((*terms.shape[:-1], _LANES), np.float32)
    for n in range(0, aligned, _LANES):
        lanes = lanes + terms[..., n : n + _LANES]
    total = start + (lanes[..., 0] + lanes[..., 1] + lanes[..., 2] + lanes[..., 3])
    for n in range(aligned, count):
        total = total + terms[..., n]
    return total


#: Numerator and denominator of the quotient that approximates a hyperbolic tangent, of x² each,
#: from the highest power on, and the argument from which it is 1.
_TANH = (
    (1.394553628e-8, 2.102733560e-5, 3.520756727e-3, 1.340216100e-1),
    (8.015776984e-7, 3.326951409e-4, 2.597254514e-2, 4.673548340e-1, 1.0),
)
_TANH_END = np.float32(7.90738964080810547)


def _tanh(x: np.ndarray) -> np.ndarray:
    """Return ``ptanh_float`` of Eigen, without fused multiplications."""
    x = np.clip(x, -_TANH_END, _TANH_END)
    square = x * x
    numerator, denominator = (_polynomial(square, coefficients) for coefficients in _TANH)
    return (square * x * numerator + x) / denominator


def _polynomial(x: np.ndarray, coefficients: tuple[float, ...]) -> np.ndarray:
    first, *others = map(np.float32, coefficients)
    total = np.full_like(x, first)
    for coefficient in others:
        total = total * x + coefficient
    return total


def _clamped(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return numbers within bounds; the lower one of no number."""
    above = np.where(x > high, np.float32(high), x)
    return np.where(x > low, above, np.float32(low))


_FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "NONE": lambda x: x,
    "RELU": lambda x: _clamped(x, 0, np.inf),
    "RELU_N1_TO_1": lambda x: _clamped(x, -1, 1),
    "TANH": _tanh,
    "SIGN_BIT": lambda x: np.signbit(x).astype(np.float32),
    "RELU6": lambda x: _clamped(x, 0, 6),
}

#: Names of activations that ``activated`` takes.
ACTIVATIONS = tuple(_FUNCTIONS)


def activated(x: np.ndarray, name: str) -> np.ndarray:
    """Return an activation of float32."""
    return _FUNCTIONS[name](x)
