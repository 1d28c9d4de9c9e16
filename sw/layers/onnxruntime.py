"""ONNX Runtime's arithmetic of quantised operators, as its CPU provider computes on x86.

Sums are integers. Everything after them is single precision, in the order of the provider's
kernels, and rounds halves to even. Results are int8: 128 less than a model's uint8.
If a kernel's rounding depends on the type in the model, ``unsigned`` names it.
"""

from collections.abc import Callable

import numpy as np

from celosia.sw.ir.graph import Quantization

_LOW, _HIGH = -128, 127

_One = np.float32(1)


#: Numbers of single precision, one or an array.
Single = np.ndarray | np.float32


def fused(a: Single, b: Single, c: Single) -> np.ndarray:
    """Return a · b + c in single precision, rounded once."""
    return np.asarray(a.astype(np.float64) * b + c, np.float32)


def _single(value: float) -> np.ndarray:
    return np.float32(value).reshape(1)


def factors(source: Quantization, weights: np.ndarray, output: Quantization) -> np.ndarray:
    """Return the float32 factors from sums of products to results.

    - ``source``, ``output``: quantisation of the input and the result.
    - ``weights``: float32, scales of the weights.
    """
    with np.errstate(over="ignore"):
        return source.scales[0] * weights.astype(np.float32) / output.scales[0]


def requantized(sums: np.ndarray, factor: Single, zero_point: int) -> np.ndarray:
    """Return the int8 results of sums in the range of int32; factors broadcast."""
    scaled = sums.astype(np.float32) * factor
    low, high = np.float32(_LOW - zero_point), np.float32(_HIGH - zero_point)
    return (np.rint(np.clip(scaled, low, high)).astype(np.int64) + zero_point).astype(np.int8)


def quantized(values: np.ndarray, output: Quantization) -> np.ndarray:
    """Return the int8 of float32 values; NaN gives the least."""
    low, high = np.float32(_LOW - output.zero_point), np.float32(_HIGH - output.zero_point)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = values.astype(np.float32) / output.scales[0]
    bounded = np.fmin(np.fmax(ratio, low), high)
    return (np.rint(bounded).astype(np.int64) + output.zero_point).astype(np.int8)


def dequantized(values: np.ndarray, source: Quantization) -> np.ndarray:
    """Return int8 values as float32."""
    return source.scales[0] * (values.astype(np.int64) - source.zero_point).astype(np.float32)


def added(
    first: np.ndarray,
    second: np.ndarray,
    ends: tuple[Quantization, Quantization, Quantization],
    *,
    unsigned: bool,
) -> np.ndarray:
    """Return the int8 of a sum: ``MlasQLinearAdd`` with fused multiplications.

    - ``first``, ``second``: int8 values, or their integers; they broadcast.
    - ``ends``: quantisation of both and of the result.
    - ``unsigned``: true if the model's types are uint8.
    """
    one, two, output = ends
    offset = 128 if unsigned else 0
    points = [np.float32(end.zero_point + offset) for end in ends]
    left, right = one.scales[0] / output.scales[0], two.scales[0] / output.scales[0]
    part = fused(left, points[0], right * points[1])
    fixed = points[2] - part
    total = fused((second.astype(np.int64) + offset).astype(np.float32), right, fixed)
    total = fused((first.astype(np.int64) + offset).astype(np.float32), left, total)
    bounded = np.clip(np.rint(total), _LOW + offset, _HIGH + offset)
    return (bounded.astype(np.int64) - offset).astype(np.int8)


def multiplied(
    first: np.ndarray,
    second: np.ndarray,
    ends: tuple[Quantization, Quantization, Quantization],
    *,
    unsigned: bool,
) -> np.ndarray:
    """Return the int8 of a product: ``MlasQLinearMul``; parameters as in ``added``."""
    one, two, output = ends
    offset = 128 if unsigned else 0
    factor = one.scales[0] * two.scales[0] / output.scales[0]
    left = (first.astype(np.int64) - one.zero_point).astype(np.float32)
    right = (second.astype(np.int64) - two.zero_point).astype(np.float32)
    total = factor * (left * right) + np.float32(output.zero_point + offset)
    bounded = np.clip(np.rint(total), _LOW + offset, _HIGH + offset)
    return (bounded.astype(np.int64) - offset).astype(np.int8)


def averaged(
    windows: np.ndarray,
    counts: np.ndarray,
    source: Quantization,
    output: Quantization,
    *,
    unsigned: bool,
) -> np.ndarray:
    """Return the int8 means of windows: ``QLinearAveragePool``, which adds in single precision.

    - ``windows``: int8, shape ``(taps, ...)``, zero points past the edge.
    - ``counts``: elements that each window is divided by; broadcasts.
    - ``source``, ``output``: quantisation of the input and the result.
    - ``unsigned``: true if the model's types are uint8.
    """
    offset = 128 if unsigned else 0
    total = np.zeros(windows.shape[1:], np.float32)
    for tap in windows:
        total = total + dequantized(tap, source)
    mean = total / counts.astype(np.float32)
    shifted = mean / output.scales[0] + np.float32(output.zero_point + offset)
    bounded = np.clip(np.rint(shifted), _LOW + offset, _HIGH + offset)
    return (bounded.astype(np.int64) - offset).astype(np.int8)


def softmax(values: np.ndarray, source: Quantization, output: Quantization) -> np.ndarray:
    """Return the int8 softmax over the last axis: ``QLinearSoftmax``."""
    length = values.shape[-1]
    scale = float(source.scales[0])
    reach = np.log(np.finfo(np.float32).max / np.float32(length))
    shift = max(0.0, float(reach) - 5) / scale
    exponents = np.exp((np.arange(256) - 255 + shift) * scale).astype(np.float32)
    maximum = values.max(axis=-1, keepdims=True).astype(np.int64)
    powers = exponents[255 - maximum + values]
    total = np.cumsum(powers, axis=-1, dtype=np.float32)[..., -1:]
    steps = np.floor(_One / output.scales[0])
    # In float64: the product with steps of a small scale is past float32.
    rounded = np.rint(powers.astype(np.float64) * steps / total) + output.zero_point
    return np.clip(rounded, _LOW, _HIGH).astype(np.int8)


def table(function: Callable[[np.ndarray], np.ndarray], source: Quantization, output: Quantization):
    """Return the results of a function of float32 for every int8, by its bits: shape (256,)."""
    entries = np.arange(256, dtype=np.uint8).view(np.int8)
    with np.errstate(all="ignore"):
        return quantized(function(dequantized(entries, source)), output)


#: Coefficients of the rational approximations, from the highest power down.
_LOGISTIC = (
    (4.37031012579801e-11, 1.15627324459942e-07, 6.08574864600143e-05)
    + (8.51377133304701e-03, 2.48287947061529e-01),
    (6.10247389755681e-13, 5.76102136993427e-09, 6.29106785017040e-06)
    + (1.70198817374094e-03, 1.16817656904453e-01, 9.93151921023180e-01),
)
_TANH = (
    (-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08)
    + (1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03),
    (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03),
)


def _ratio(x: np.ndarray, coefficients: tuple[tuple[float, ...], ...], limit: float) -> np.ndarray:
    """Return x · p(x²) / q(x²), by Horner's rule with fused multiplications."""
    x = np.clip(x, np.float32(-limit), np.float32(limit))
    square, results = x * x, []
    for powers in coefficients:
        total = _single(powers[0])
        for coefficient in powers[1:]:
            total = fused(total, square, _single(coefficient))
        results.append(total)
    return results[0] * x / results[1]


def logistic(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(−x))."""
    return np.clip(_ratio(x, _LOGISTIC, 18) + np.float32(0.5), 0, 1)


def tanh(x: np.ndarray) -> np.ndarray:
    """Return the hyperbolic tangent."""
    return _ratio(x, _TANH, 9)
