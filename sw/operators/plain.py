"""Arithmetic on two operands without scales, which broadcast: whole numbers and float32."""

from collections.abc import Callable, Sequence

import numpy as np

from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.quantize import BOUNDS
from celosia.sw.layers.record import Kernel, each_sample, require
from celosia.sw.operators.fixed_point import aligned
from celosia.sw.operators.real import power

_Binary = Callable[[np.ndarray, np.ndarray], np.ndarray]

#: How far an exponent of POW may be from a whole one that is multiplied out.
_NEARLY = np.float32(1e-5)


def of_two(function: _Binary) -> Kernel:
    """Return the kernel of a function of two elements, without fused activation."""

    def run(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [function(*aligned(operator, arrays)).astype(operator.results[0].dtype)]

    return run


def clamped(function: _Binary) -> Kernel:
    """Return the kernel of a function of two elements that has a fused activation.

    Without one, results are clamped to finite numbers.
    """

    def run(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        kind = np.dtype(operator.results[0].dtype)
        limits = np.finfo(kind) if kind == np.float32 else np.iinfo(kind)
        low, high = BOUNDS[operator.attributes["activation"]]
        low, high = limits.min if low is None else low, limits.max if high is None else high
        values = function(*aligned(operator, arrays))
        return [np.clip(values, kind.type(low), kind.type(high)).astype(kind)]

    return run


def _require_divisors(divisors: np.ndarray) -> None:
    require(bool(divisors.all()), "numbers other than 0 to divide by", 0)


def quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return quotients; those of whole numbers are rounded towards zero."""
    if a.dtype == np.float32:
        return a / b
    _require_divisors(b)
    quotient = np.abs(a.astype(np.int64)) // np.abs(b.astype(np.int64))
    return np.where((a < 0) != (b < 0), -quotient, quotient)


def floor_quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return quotients rounded down, of float64 for whole numbers, too."""
    _require_divisors(b)
    return np.floor(a.astype(np.float64) / b.astype(np.float64))


def floor_rest(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return remainders that have the sign of the divisor."""
    if a.dtype != np.float32:
        _require_divisors(b)
    remainder = np.fmod(a, b)
    return np.where((remainder != 0) & ((b < 0) != (remainder < 0)), remainder + b, remainder)


def greater(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the greater of two elements, the second where they do not compare."""
    return np.where(a > b, a, b)


def smaller(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the smaller of two elements, the second where they do not compare."""
    return np.where(a < b, a, b)


def squared_difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return squares of differences."""
    return np.square(a - b)


def _multiplied_out(base: np.ndarray, exponent: int) -> np.ndarray:
    """Return a power by repeated squaring, from the first bit of the exponent on."""
    result = base
    for bit in f"{exponent:b}"[1:]:
        result = result * result
        result = result * base if bit == "1" else result
    return result


def _whole_power(base: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Return powers of float64 as int32; the least stands for results outside int32."""
    values = np.power(base.astype(np.float64), exponent.astype(np.float64))
    limits = np.iinfo(np.int32)
    return np.where(np.abs(values) <= limits.max, values, limits.min)


def _powers(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return powers; the only exponent, of another shape, whole and above zero, multiplies out."""
    base, exponent = arrays
    kind = operator.results[0].dtype
    require(kind == "float32" or bool((exponent >= 0).all()), "exponents of at least 0")
    if exponent.size == 1 and operator.sources[0].shape != operator.sources[1].shape:
        value = exponent.reshape(-1)[0]
        rounded = np.rint(value)
        if abs(value - rounded) < _NEARLY and 1 <= rounded < 1 << 31:
            result = _multiplied_out(base, int(rounded))
            return [result.reshape(operator.results[0].shape)]
    values = (power if kind == "float32" else _whole_power)(base, exponent)
    return [values.astype(kind)]


powers = each_sample(_powers)
