"""Weights of a training step in two bytes: the bytes, and the exponents of first weights."""

import math

import numpy as np

#: High bytes and errors are -MOST to MOST.
MOST = 127
#: Bits of the low byte of a weight: a weight is ``high · 2^LOW_BITS + low``.
LOW_BITS = 6
#: Weights are -MOST_WEIGHT to MOST_WEIGHT - 1; the low bytes of one that saturates go around.
MOST_WEIGHT = (MOST << LOW_BITS) + (1 << (LOW_BITS - 1))
#: Exponent of the high bytes of int8 weights.
WEIGHT_EXPONENT = -8
#: Root of the mean square of the high bytes of first weights that train, about.
SPREAD = 24
#: Powers of two by which the high bytes of a bias that trains are multiplied, at least and at most.
LEAST_BIAS_SHIFT, MOST_BIAS_SHIFT = 6, 10
#: Exponents below that of the greatest weight that are tried.
_TRIALS = 3


def high_bytes(weights: np.ndarray) -> np.ndarray:
    """Return the high bytes of weights, which multiply: those over ``2^LOW_BITS``, rounded."""
    return (weights + (1 << (LOW_BITS - 1))) >> LOW_BITS


def limited(weights: np.ndarray) -> np.ndarray:
    """Return whole numbers as weights, int32: those beyond the limits become the limits."""
    return np.clip(weights, -MOST_WEIGHT, MOST_WEIGHT - 1).astype(np.int32)


def weight_exponent(
    first: np.ndarray, bias: np.ndarray | None, source: int, *, is_fixed: bool = False
) -> int:
    """Return the exponent of the high bytes of weights, which are real numbers or int8.

    That of the least squared error: where it is less, some weights saturate. Weights that train
    have a spread of about ``SPREAD`` at most. It is greater if the bias would saturate.

    - ``bias``: of the sums, in real numbers; None without one.
    - ``source``: exponent of what the weights multiply. ``is_fixed``: whether they do not train.
    """
    if first.dtype == np.int8:
        return WEIGHT_EXPONENT
    least = -math.inf if bias is None else _fitting(bias) - source
    greatest = _fitting(first)
    if greatest == -math.inf:
        return WEIGHT_EXPONENT if least == greatest else int(least) - LEAST_BIAS_SHIFT
    mean = math.sqrt(float(np.mean(np.square(first, dtype=np.float64))))
    start = int(greatest) - _TRIALS if is_fixed else round(math.log2(mean / SPREAD))
    trials = range(start, max(start, int(greatest)) + 1)
    exponent = min(trials, key=lambda exponent: _lost(first, exponent))
    return int(max(exponent, least - MOST_BIAS_SHIFT))


def bias_exponent(bias: np.ndarray, sums: int, *, is_fixed: bool = False) -> int:
    """Return the exponent of the high bytes of a bias, which does not saturate.

    ``bias``: real numbers; ``sums``: exponent of the sums; ``is_fixed``: whether it does not train.
    """
    return int(max(sums + (1 if is_fixed else LEAST_BIAS_SHIFT), _fitting(bias)))


def _fitting(numbers: np.ndarray) -> float:
    """Return the least exponent at which no number saturates."""
    greatest = float(np.abs(numbers).max(initial=0.0))
    return math.ceil(math.log2(greatest / (MOST + 0.5))) if greatest else -math.inf


def _lost(numbers: np.ndarray, exponent: int) -> float:
    """Return the squared error of numbers in steps of an exponent, of which some saturate."""
    steps = numbers.astype(np.float64) * 2.0**-exponent
    rounded = np.clip(np.rint(steps), -MOST, MOST)
    return float(np.square(steps - rounded).sum()) * 4.0**exponent
