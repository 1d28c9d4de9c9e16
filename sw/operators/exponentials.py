"""exp(x) and 1 / (1 + x) of fixed-point numbers, as in ``gemmlowp/fixedpoint/fixedpoint.h``.

Arrays are int64 and hold gemmlowp's raw integers of ``width`` bits, 32 or 16: with ``n`` integer
bits, raw = value · 2^(width − 1 − n).
"""

import numpy as np

from celosia.sw.operators.fixed_point import halved

#: exp(-1/8), and 1/3, without integer bits.
_EXP_EIGHTH = 1895147668
_THIRD = 715827883

#: Raw exp(-2^n), for n from -2 on.
_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)

#: 48/17 and -32/17 with two integer bits: first guess of a reciprocal.
_GUESS = (1515870810, -1010580540)


def digits(x: np.ndarray) -> np.ndarray:
    """Return the number of binary digits of whole numbers."""
    return np.frexp(x.astype(np.float64))[1].astype(np.int64)


def saturated(x: np.ndarray, width: int = 32) -> np.ndarray:
    """Return integers clamped to ``width`` bits."""
    return np.clip(x, -(1 << (width - 1)), (1 << (width - 1)) - 1)


def high_product(a: np.ndarray, b: np.ndarray | int, width: int = 32) -> np.ndarray:
    """Return ``SaturatingRoundingDoublingHighMul``, without its one case that saturates."""
    return (a * b + (1 << (width - 2))) >> (width - 1)


def _constant(raw: int, width: int) -> int:
    """Return a constant of 32 bits as one of ``width`` bits."""
    return raw if width == 32 else (raw + (1 << 15)) >> 16


def decayed(a: np.ndarray, bits: int = 5, width: int = 32) -> np.ndarray:
    """Return ``exp_on_negative_values`` of numbers of ``bits`` integer bits; results have none."""
    fraction = width - 1 - bits
    quarter = 1 << (fraction - 2)
    part = (a & (quarter - 1)) - quarter
    # Taylor's series around -1/8, of the part in [-1/4, 0).
    x = (part << bits) + (1 << (width - 4))
    x2 = high_product(x, x, width)
    x3, x4 = high_product(x2, x, width), high_product(x2, x2, width)
    third, eighth = _constant(_THIRD, width), _constant(_EXP_EIGHTH, width)
    series = halved(high_product(halved(x4, 2) + x3, third, width) + x2, 1)
    result = eighth + high_product(x + series, eighth, width)
    quarters = part - a
    for number, power in enumerate(_POWERS[: bits + 2]):
        shrunk = high_product(result, _constant(power, width), width)
        result = np.where(quarters & (quarter << number), shrunk, result)
    if bits > 5:
        result = np.where(a < -(32 << fraction), 0, result)
    return np.where(a == 0, (1 << (width - 1)) - 1, result)


def doubled_reciprocal(a: np.ndarray, width: int = 32) -> np.ndarray:
    """Return 2 / (1 + a) for a from 0 to 1, with two integer bits.

    Three steps of Newton and Raphson.
    """
    half = (a + (1 << (width - 1))) >> 1
    first, slope = (_constant(guess, width) for guess in _GUESS)
    x = first + high_product(half, slope, width)
    for _ in range(3):
        error = (1 << (width - 3)) - high_product(half, x, width)
        x = x + (high_product(x, error, width) << 2)
    return x


def reciprocal(a: np.ndarray, width: int = 32) -> np.ndarray:
    """Return ``one_over_one_plus_x_for_x_in_0_1``, without integer bits."""
    return saturated(doubled_reciprocal(a, width) << 1, width)
