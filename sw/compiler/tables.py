"""Tables of 256 entries: operators whose result depends on one int8 alone.

Each gives what LiteRT's kernel makes of every int8. Most kernels fill a table of their own, in
single precision, with functions of the C library, whose last bits are not the same everywhere.
Those here are rounded correctly, as in newer libraries; with older ones, one table in about 15,000
of TANH, GELU and ELU differs, by one entry. RSQRT and SQRT are defined below zero, too, where the
kernels stop.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from celosia.sw.compiler.errors import CompileError
from celosia.sw.compiler.multiplier import quantize_multiplier
from celosia.sw.compiler.quantize import activation_range
from celosia.sw.ir.graph import Operation, Quantization

__all__ = ["ENTRIES", "TABLES", "table", "tabulated"]

#: Entries of a table.
ENTRIES = 256

#: The int8 of every entry, in the order of their bits.
_BYTES = np.arange(ENTRIES, dtype=np.uint8).view(np.int8).astype(np.int64)

_ONE, _HALF = np.float32(1), np.float32(0.5)
_CUBIC = np.float32(0.044715)
_SQRT_HALF = np.float32(math.sqrt(0.5))
_SQRT_TWO_PI = np.float32(math.sqrt(2 / math.pi))

#: Factors that a signed shift of 32 bits can say.
_MOST_FACTOR = 1 << 30

_Attributes = Mapping[str, Any]
_Table = Callable[[Quantization, Quantization, _Attributes], np.ndarray]


def tabulated(operation: Operation) -> bool:
    """Whether a table does an operator, because its other input is one number for all elements."""
    kind = operation.kind
    return kind in TABLES and _NEEDED.get(kind) in (None, *operation.attributes)


def table(
    label: str, kind: str, source: Quantization, output: Quantization, attributes: _Attributes
) -> np.ndarray:
    """Return what an operator makes of every int8.

    Parameters
    ----------
    label : str
        How messages name the operator.
    kind : str
        One of ``TABLES``.
    source, output : Quantization
        Of its input and its result.
    attributes : mapping
        As of ``Operation``.

    Returns
    -------
    numpy.ndarray
        int8, shape ``(256,)``, by the bits of the input.

    Raises
    ------
    CompileError
        If a ratio of scales is past what the kernel can do.
    """
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            values = TABLES[kind](source, output, attributes)
    except ValueError as error:
        raise CompileError(str(error), layer=label) from None
    except ArithmeticError:
        values = np.full(ENTRIES, np.nan)
    if np.isnan(values).any():
        got = f"{source.scale:.6g} and {output.scale:.6g}"
        wanted = "scales that leave single precision room"
        raise CompileError(f"wanted {wanted}, got {got}", layer=label)
    return np.clip(values, -128, 127).astype(np.int8)


def _populated(function: Callable[[np.ndarray], np.ndarray]) -> _Table:
    """Return the table of a function on float32: ``LUTPopulate`` of TensorFlow Lite's kernels."""

    def fill(source: Quantization, output: Quantization, _: _Attributes) -> np.ndarray:
        inputs = source.scales[0] * (_BYTES - source.zero_point).astype(np.float32)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            scaled = function(inputs) * (_ONE / output.scales[0])
        # Past this they saturate whatever the zero point.
        scaled = np.clip(scaled, -ENTRIES, ENTRIES)
        whole = np.trunc(scaled)
        away = np.abs(scaled - whole) >= _HALF
        return whole + np.copysign(away.astype(np.float32), scaled) + output.zero_point

    return fill


def _rounded(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function on float32, computed in float64 and rounded."""
    return lambda x: function(x.astype(np.float64)).astype(np.float32)


_exp, _expm1, _log, _tanh = (_rounded(f) for f in (np.exp, np.expm1, np.log, np.tanh))
_erfc = _rounded(lambda x: np.array([math.erfc(value) for value in x]))


def _logistic(x: np.ndarray) -> np.ndarray:
    return _ONE / (_ONE + _exp(-x))


def _elu(x: np.ndarray) -> np.ndarray:
    return np.where(x < 0, _expm1(x), x)


def _logarithm(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, _log(x), -np.inf)


def _gelu(x: np.ndarray) -> np.ndarray:
    return _HALF * x * _erfc(x * -_SQRT_HALF)


def _gelu_by_tanh(x: np.ndarray) -> np.ndarray:
    return _HALF * x * (_ONE + _tanh(_SQRT_TWO_PI * (x + _CUBIC * x * x * x)))


def _either_gelu(source: Quantization, output: Quantization, attributes: _Attributes) -> np.ndarray:
    function = _gelu_by_tanh if attributes["approximate"] else _gelu
    return _populated(function)(source, output, attributes)


def _halved(x: np.ndarray, times: int) -> np.ndarray:
    """Return x / 2^times, halves away from zero."""
    return (x + ((1 << times) >> 1) - (x < 0)) >> times if times else x


def _times(x: np.ndarray, multiplier: int, shift: int) -> np.ndarray:
    """Return ``MultiplyByQuantizedMultiplier``, which rounds twice."""
    wrapped = (x << max(shift, 0)).astype(np.int32).astype(np.int64)
    return _halved((wrapped * multiplier + (1 << 30)) >> 31, max(-shift, 0))


def _scaled(x: np.ndarray, factor: float) -> np.ndarray:
    """Return x times a real factor as the kernels multiply.

    Raises
    ------
    ValueError
        If the factor is past what they can do.
    """
    if not abs(factor) < _MOST_FACTOR:
        raise ValueError(f"wanted factors below 2^30, got {factor:.9g}")
    product = _times(x, *quantize_multiplier(abs(factor)))
    return -product if factor < 0 else product


def _kinked(x: np.ndarray, below: np.ndarray, source: Quantization, output: Quantization):
    """Return values from zero on by the ratio of scales, and those below as they are given."""
    above = _scaled(x, float(source.scales[0] / output.scales[0]))
    return output.zero_point + np.where(x >= 0, above, below)


def _leaky_relu(source: Quantization, output: Quantization, attributes: _Attributes) -> np.ndarray:
    x = _BYTES - source.zero_point
    factor = source.scales[0] * np.float32(attributes["alpha"]) / output.scales[0]
    return _kinked(x, _scaled(x, float(factor)), source, output)


def _prelu(source: Quantization, output: Quantization, attributes: _Attributes) -> np.ndarray:
    x = _BYTES - source.zero_point
    factor = source.scales[0] * np.float32(attributes["alpha_scale"]) / output.scales[0]
    return _kinked(x, _scaled(x * attributes["alpha"], float(factor)), source, output)


def _activated(y: np.ndarray, output: Quantization, attributes: _Attributes) -> np.ndarray:
    return np.clip(y + output.zero_point, *activation_range(attributes["activation"], output))


def _sum(sign: int) -> _Table:
    """Return the table of ADD, or of SUB for -1, of a constant."""

    def fill(source: Quantization, output: Quantization, attributes: _Attributes) -> np.ndarray:
        scale, constant = attributes["constant_scale"], np.array([attributes["constant"]])
        twice = 2 * max(source.scale, scale)
        multiplier, shift = quantize_multiplier(scale / twice)
        other = _times(constant << 20, sign * multiplier, shift)
        x = (_BYTES - source.zero_point) << 20
        total = _times(x, *quantize_multiplier(source.scale / twice)) + other
        total = _scaled(total, twice / ((1 << 20) * output.scale))
        return _activated(total, output, attributes)

    return fill


def _product(source: Quantization, output: Quantization, attributes: _Attributes) -> np.ndarray:
    x = (_BYTES - source.zero_point) * attributes["constant"]
    factor = source.scales[0] * np.float32(attributes["constant_scale"]) / output.scales[0]
    return _activated(_scaled(x, float(factor)), output, attributes)


def _absolute(source: Quantization, output: Quantization, _: _Attributes) -> np.ndarray:
    x = np.abs(_BYTES - source.zero_point)
    if source.scale != output.scale:
        x = _scaled(x, float(source.scales[0] / output.scales[0]))
    return output.zero_point + x


def _negative(source: Quantization, output: Quantization, _: _Attributes) -> np.ndarray:
    """Return the negated integers; the least one stays."""
    return np.where(_BYTES == -128, _BYTES, -_BYTES)


def _square_root(source: Quantization, output: Quantization, _: _Attributes) -> np.ndarray:
    """Return square roots, rounded down; those of what is below zero are zero."""
    x = np.maximum(_BYTES - source.zero_point, 0).astype(np.float32)
    return np.trunc(np.sqrt(source.scales[0] * x) / output.scales[0]) + output.zero_point


def _inverse_root(x: int) -> tuple[int, int]:
    """Return Q31 multiplier and shift of 1 / √x, by Newton and Raphson, for 1 to 255.

    ``GetInvSqrtQuantizedMultiplierExp`` of TensorFlow Lite, whose numbers have three integer bits.
    """
    if x == 1:
        return (1 << 31) - 1, 0

    def product(a: int, b: int) -> int:
        return (a * b + (1 << 30)) >> 31

    pairs = (31 - x.bit_length()) // 2 - 1
    fraction = x << 2 * pairs >> 1
    half = (fraction + 1) >> 1
    root = 1 << 28
    for _ in range(5):
        cube = product(product(root, root), root) << 6
        root = (product(3 << 27, root) - product(half, cube)) << 3
    root = product(root, 1518500250)
    shift = pairs - 11
    return root << max(shift, 0), min(shift, 0)


def _reciprocal_root(source: Quantization, output: Quantization, _: _Attributes) -> np.ndarray:
    """Return 1 / √x; the greatest result stands for what is not above zero."""
    factor = 1 / float(np.sqrt(source.scales[0]) * output.scales[0])
    multiplier, shift = quantize_multiplier(factor)
    if not -12 < shift <= 30 or factor >= _MOST_FACTOR:
        raise ValueError(f"wanted factors from 2^-12 to 2^30, got {factor:.9g}")
    values = np.full(ENTRIES, 127, np.int64)
    for entry, x in enumerate((_BYTES - source.zero_point).tolist()):
        if x > 0:
            root, up = _inverse_root(x)
            fine = _times(np.array([1]), root, up + 20)
            values[entry] = _times(fine, multiplier, shift - 20)[0] + output.zero_point
    return values


def _short(multiplier: int) -> int:
    """Return a Q31 multiplier as Q15."""
    return min((multiplier + (1 << 15)) >> 16, (1 << 15) - 1)


def _saturated(x: np.ndarray) -> np.ndarray:
    return np.clip(x, -(1 << 15), (1 << 15) - 1)


def _short_halved(x: np.ndarray, times: int) -> np.ndarray:
    """Return x / 2^times of 16 bits; from 16 on the kernel's mask is all ones, or -1."""
    return _halved(x, times) if times < 16 else np.where(x < 0, -1, 1)


def _hard_swish(source: Quantization, output: Quantization, _: _Attributes) -> np.ndarray:
    """Return x · relu6(x + 3) / 6 in the 16-bit integers of the kernel."""
    fine = source.scales[0] / np.float32(128)
    ratio = float(fine / output.scales[0])
    if not ratio < 1:
        raise ValueError(f"wanted an output scale above 1/128 of the input's, got 1/{128 * ratio}")
    multiplier, shift = quantize_multiplier(ratio)
    slope, up = quantize_multiplier(float(fine / (np.float32(3) / np.float32(1 << 15))))
    x = (_BYTES - source.zero_point) << 7
    scaled = (x * _short(multiplier) + (1 << 14)) >> 15
    # 3 becomes 2^15; the last bit of a left shift comes after the multiplication.
    gate = _saturated(x << max(up - 1, 0))
    gate = (gate * _short(slope) + (1 << 14)) >> 15
    gate = _saturated(gate << int(up > 0))
    gate = (_short_halved(gate, max(-up, 0)) + (1 << 15)) >> 1
    product = np.trunc(gate * scaled / (1 << 15)).astype(np.int64)
    return _short_halved(product, -shift) + output.zero_point


#: What operators say where a table can do them, because their other input is one number.
_NEEDED = {"ADD": "constant", "MUL": "constant", "PRELU": "alpha", "SUB": "constant"}

#: Operators that a table does, each by the function that fills it.
TABLES: dict[str, _Table] = {
    "ABS": _absolute,
    "ADD": _sum(1),
    "ELU": _populated(_elu),
    "EXP": _populated(_exp),
    "GELU": _either_gelu,
    "HARD_SWISH": _hard_swish,
    "LEAKY_RELU": _leaky_relu,
    "LOG": _populated(_logarithm),
    "LOGISTIC": _populated(_logistic),
    "MUL": _product,
    "NEG": _negative,
    "PRELU": _prelu,
    "RSQRT": _reciprocal_root,
    "SQRT": _square_root,
    "SUB": _sum(-1),
    "TANH": _populated(_tanh),
}
