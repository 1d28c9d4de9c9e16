"""Vector functions in single precision, as LiteRT computes them on x86: in four lanes.

Order of additions as in ``neon_tensor_utils.cc``, which LiteRT translates to SSE.
"""

from collections.abc import Callable

import numpy as np

__all__ = ["ACTIVATIONS", "activated", "summed"]

_LANES = 4


def summed(terms: np.ndarray) -> np.ndarray:
    """Return sums of float32 along the last dimension."""
    count = terms.shape[-1]
    whole = count - count % _LANES
    lanes = np.zeros((*terms.shape[:-1], _LANES), np.float32)
    for start in range(0, whole, _LANES):
        lanes = lanes + terms[..., start : start + _LANES]
    total = lanes[..., 0] + lanes[..., 1] + lanes[..., 2] + lanes[..., 3]
    for n in range(whole, count):
        total = total + terms[..., n]
    return total


_FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "NONE": lambda x: x,
    "RELU": lambda x: np.maximum(x, np.float32(0)),
    "RELU_N1_TO_1": lambda x: np.clip(x, np.float32(-1), np.float32(1)),
    "RELU6": lambda x: np.clip(x, np.float32(0), np.float32(6)),
}

#: Names of activations that ``activated`` takes.
ACTIVATIONS = tuple(_FUNCTIONS)


def activated(x: np.ndarray, name: str) -> np.ndarray:
    """Return an activation of float32."""
    return _FUNCTIONS[name](x)
