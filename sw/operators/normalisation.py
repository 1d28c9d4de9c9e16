"""Normalisations: logarithms of softmax, division by the norm, and by that of near channels.

Fixed-point numbers are those of ``softmax``.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tflite

from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.multiplier import quantize_multiplier
from celosia.sw.layers.node import ModelError, Node, read_activation
from celosia.sw.layers.record import (
    EXTENT,
    FLOAT,
    SAME,
    Attributes,
    Operator,
    Shape,
    by_type,
    require,
)
from celosia.sw.operators.exponentials import (
    decayed,
    digits,
    high_product,
    reciprocal,
    saturated,
)
from celosia.sw.operators.fixed_point import halved, inverse_root, times
from celosia.sw.operators.functions import same_shape
from celosia.sw.operators.pooling import pool_shapes, read_pool, run_real
from celosia.sw.operators.real import exponential, logarithm, power
from celosia.sw.operators.windows import image

#: Scales and zero points that results must have.
_LOGARITHMS = (1 / 16, 127)
_NORMALISED = (1 / 128, 0)

#: Integer bits of sums of exponentials, and of the terms of their logarithm.
_SUM_BITS, _TERM_BITS = 12, 6

#: With no integer bits: log 2, √½, ⁴√½, and the coefficients of the kernel's rational function.
_LOG_TWO, _ROOT, _FOURTH_ROOT = 1488522236, 1518500250, 1805811301
_CUBE, _SQUARE, _CONSTANT, _LINEAR = 117049297, 127690142, 1057819769, 638450708

#: Least norm that float32 is divided by.
_EPSILON = np.float32(1e-6)


def _fixed_logarithm(x: np.ndarray) -> np.ndarray:
    """Return ``log_x_for_x_greater_than_or_equal_to_1``: 12 integer bits in, 5 out."""
    quarter = 1 << (29 - _TERM_BITS)
    spare = 32 - digits(x)
    first = saturated(high_product(x << (spare - 1), _ROOT) << 1)
    spare_of_root = 31 - digits(high_product(x, _ROOT))
    second = saturated(x << spare_of_root)
    r = np.minimum(first, second)
    bits = 31 - _TERM_BITS
    scaled = np.maximum(
        ((_SUM_BITS - spare) << bits) + quarter, ((_SUM_BITS - spare_of_root) << bits) - quarter
    )
    half = (r + _FOURTH_ROOT + 1) >> 1
    q = (r - _FOURTH_ROOT) << 1
    squared = high_product(q, q)
    above = high_product(q, r) + high_product(high_product(q, squared), _CUBE)
    below = high_product(half, _CONSTANT + q + high_product(squared, _SQUARE))
    below = reciprocal(below + high_product(q, _LINEAR))
    terms = high_product(scaled, _LOG_TWO) + high_product(halved(above, _TERM_BITS), below)
    return saturated(terms << 1)


def _log_softmax_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    (source,), (result,) = operator.sources, operator.results
    require(bool(source.shape), "at least 1 dimension")
    if source.dtype == "int8":
        got = (result.scale, result.zero_point)
        require(got == _LOGARITHMS, "a result of scale 1/16 and zero point 127", got)
        require(source.scale > 2.0**-25, "a scale of more than 2^-25", f"{source.scale:.6g}")
    return same_shape(operator, attributes)


def _run_log_softmax(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    real = min(operator.sources[0].scale * (1 << 26), float((1 << 31) - 1))
    multiplier, shift = quantize_multiplier(real)
    back = quantize_multiplier((1 << (31 - shift)) / multiplier)
    radius = (31 << 26) >> shift
    x = arrays[0].astype(np.int64)
    below = x - x.max(axis=-1, keepdims=True)
    fine = times(np.maximum(below, -radius), multiplier, shift)
    terms = np.where(below >= -radius, halved(decayed(fine), _SUM_BITS), 0)
    logarithms = _fixed_logarithm(terms.sum(axis=-1, keepdims=True))
    least = np.maximum(-radius - 1, times(logarithms - (1 << 31), *back))
    values = np.clip(halved(fine - logarithms, 22) + 127, -128, 127)
    return [np.where(below > least, values, -128).astype(np.int8)]


def _run_real_log_softmax(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    below = arrays[0] - arrays[0].max(axis=-1, keepdims=True)
    sums = np.add.accumulate(exponential(below), axis=-1)[..., -1:]
    return [below - logarithm(sums)]


def _read_norm(node: Node) -> dict[str, Any]:
    node.require_inputs(1)
    options = node.options(tflite.L2NormOptions)
    activation = read_activation(options.FusedActivationFunction() if options else 0)
    if activation != "NONE":
        raise ModelError(f"fused activation {activation} is not supported")
    return {}


def _norm_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    (source,), (result,) = operator.sources, operator.results
    require(bool(source.shape), "at least 1 dimension")
    got = (result.scale, result.zero_point)
    good = source.dtype != "int8" or got == _NORMALISED
    require(good, "a result of scale 1/128 and zero point 0", got)
    return same_shape(operator, attributes)


def _run_norm(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    x = arrays[0].astype(np.int64) - operator.sources[0].zero_point
    sums, inverse = np.unique(np.square(x).sum(axis=-1, keepdims=True), return_inverse=True)
    inverses = np.array([inverse_root(value) for value in sums.tolist()], np.int64)
    roots, shifts = inverses[inverse.reshape(*x.shape[:-1], 1)].transpose(-1, *range(x.ndim))
    # 7 fractional bits; uint8 has them before the multiplication.
    unsigned = bool(operator.attributes.get("unsigned"))
    values = times(x << 7, roots, shifts) if unsigned else times(x, roots, shifts + 7)
    return [np.clip(values, -128, 127).astype(np.int8)]


def _run_real_norm(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    sums = np.add.accumulate(np.square(arrays[0]), axis=-1)[..., -1:]
    return [arrays[0] / np.maximum(np.sqrt(sums), _EPSILON)]


def _read_near(node: Node) -> dict[str, Any]:
    node.require_inputs(1)
    options = node.require_options(tflite.LocalResponseNormalizationOptions)
    real = {"bias": options.Bias(), "alpha": options.Alpha(), "beta": options.Beta()}
    if not all(math.isfinite(value) for value in real.values()) or options.Radius() < 0:
        raise ModelError(f"wanted a radius and finite numbers, got {options.Radius()}, {real}")
    return {"radius": options.Radius(), **{name: float(value) for name, value in real.items()}}


def _near_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    attributes.integer("radius", 0, EXTENT)
    for name in ("bias", "alpha", "beta"):
        attributes.real(name)
    image(operator.sources[0].shape)
    return same_shape(operator, attributes)


def _run_near(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return elements times a power of the sum of squares of channels around them."""
    (x,), attributes = arrays, operator.attributes
    channels, reach = x.shape[-1], attributes["radius"]
    sums = np.zeros_like(x)
    with np.errstate(all="ignore"):
        squares = np.square(x)
        for channel in range(channels):
            near = squares[..., max(0, channel - reach) : min(channels, channel + reach)]
            if near.shape[-1]:
                sums[..., channel] = np.add.accumulate(near, axis=-1)[..., -1]
        base = np.float32(attributes["bias"]) + np.float32(attributes["alpha"]) * sums
        return [x * power(base, np.array(-attributes["beta"], np.float32))]


def _root_mean_square(part: np.ndarray, count: int) -> np.ndarray:
    rows = np.square(part).reshape(*part.shape[:2], count, part.shape[-1])
    return np.sqrt(np.add.accumulate(rows, axis=2)[:, :, -1] / np.float32(count))


_LAST = "over the last dimension: int8, float32"

OPERATORS = (
    Operator(
        kind="LOG_SOFTMAX",
        shapes=_log_softmax_shapes,
        types=(("int8", "float32"), SAME),
        kernel=by_type(int8=_run_log_softmax, plain=_run_real_log_softmax),
        host=_LAST,
    ),
    Operator(
        kind="L2_NORMALIZATION",
        read=_read_norm,
        shapes=_norm_shapes,
        types=(("int8", "float32"), SAME),
        kernel=by_type(int8=_run_norm, plain=_run_real_norm),
        unsigned=True,
        host=_LAST,
    ),
    Operator(
        kind="LOCAL_RESPONSE_NORMALIZATION",
        read=_read_near,
        shapes=_near_shapes,
        types=FLOAT,
        kernel=_run_near,
        host="float32",
    ),
    Operator(
        kind="L2_POOL_2D",
        read=read_pool,
        shapes=pool_shapes,
        types=FLOAT,
        kernel=run_real(_root_mean_square),
        host="float32",
    ),
)
