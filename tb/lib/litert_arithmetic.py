"""Arithmetic of LiteRT, over NumPy arrays: the reference of tests.

Everything is computed in int64 or float64, by NumPy alone.
"""

import numpy as np
from numpy.typing import ArrayLike

_MOST = (1 << 31) - 1
_LEAST = -(1 << 31)


def effective_scale(input_scale: float, weight_scale: ArrayLike, output_scale: float) -> np.ndarray:
    """Return the real factor from sums to outputs, float64, one for each weight scale.

    The scales are float32 in a model file; the product and the quotient are float64.
    """
    weights = np.asarray(weight_scale, np.float32).astype(np.float64)
    scale = np.float64(np.float32(input_scale)) * weights
    return np.asarray(scale / np.float64(np.float32(output_scale)))


def fully_connected_sums(
    x: np.ndarray, weights: np.ndarray, bias: np.ndarray | None, input_zero_point: int
) -> np.ndarray:
    """Return the int32 sums of a fully connected layer.

    ``x`` (int8 array of shape (batch, inputs)): activations; ``weights`` (int8 array of shape
    (outputs, inputs)): weights, zero point 0; ``bias`` (int32 array of shape (outputs,), or None):
    added to the sums; ``input_zero_point``: taken from every activation.
    Returns int32 array of shape (batch, outputs).
    """
    sums = (x.astype(np.int64) - input_zero_point) @ weights.T.astype(np.int64)
    sums = sums if bias is None else sums + bias.astype(np.int64)
    return ((sums + (1 << 31)) % (1 << 32) - (1 << 31)).astype(np.int32)


def round_half_away(values: ArrayLike) -> np.ndarray:
    """Return float64 ``values`` rounded to whole numbers, halves away from zero."""
    values = np.asarray(values, np.float64)
    whole = np.trunc(values)
    return whole + np.copysign(np.abs(values - whole) >= 0.5, values)


def litert_fully_connected(
    sums: np.ndarray, scale: ArrayLike, zero_point: int, low: int = -128, high: int = 127
) -> np.ndarray:
    """Return the int8 outputs of LiteRT's reference FULLY_CONNECTED for int32 ``sums``.

    That kernel multiplies by the real factor in float64 and rounds halves away from zero; a
    product that leaves 32 bits becomes -2³¹.
    ``sums`` (int32 array of shape (…, outputs)): sums with bias; ``scale`` (array_like of float64):
    ``effective_scale``: one number, or one for each output; ``zero_point``, ``low``, ``high``: of
    the outputs; ``low`` and ``high`` clamp.
    """
    rounded = round_half_away(sums * np.asarray(scale, np.float64))
    fits = (rounded >= _LEAST) & (rounded <= _MOST)
    shifted = np.where(fits, rounded, _LEAST).astype(np.int64) + zero_point
    return np.minimum(np.maximum(shifted, low), high).astype(np.int8)
