"""Tables of 256 entries: the results of an operator that depends on one int8 alone.

Tables of channels become matrix layers: a sum or product with a constant for each channel takes
each int8 to a rounded point on a line. The core computes ``weight * x + bias`` and multiplies that.
A larger weight gives the line a finer offset. Other weights give other offsets, so that nearly
every line has some that round to all of its 256 points.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from celosia.hw.arch.isa import Rounding
from celosia.sw.ir.graph import Quantization
from celosia.sw.ir.parts import HostOperator, Operand
from celosia.sw.layers.errors import CompileError, UndefinedError
from celosia.sw.layers.multiplier import quantize_multiplier
from celosia.sw.layers.values import Scaling, scaling_of

#: Entries of a table.
ENTRIES = 256

#: The int8 of every entry, in the order of their bits.
BYTES = np.arange(ENTRIES, dtype=np.uint8).view(np.int8).astype(np.int64)

_Attributes = Mapping[str, Any]


def table(
    fill: Callable[..., np.ndarray],
    source: Quantization,
    output: Quantization,
    attributes: _Attributes,
) -> np.ndarray:
    """Return the result of an operator for every int8.

    - ``fill``: returns the entries from the other arguments; see ``Operator.table``.
    - ``source``, ``output``: quantisation of its input and its result.
    - ``attributes``: attributes of the ``Operation``.

    Returns int8, shape ``(256,)``, by the bits of the input. Raises UndefinedError if a ratio of
    scales is past the kernel's range.
    """
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            values = fill(source, output, attributes)
    except ValueError as error:
        raise UndefinedError(str(error)) from None
    except ArithmeticError:
        values = np.full(ENTRIES, np.nan)
    if np.isnan(values).any():
        got = f"{source.scale:.6g} and {output.scale:.6g}"
        raise UndefinedError(f"wanted scales whose quotients fit single precision, got {got}")
    return np.clip(values, -128, 127).astype(np.int8)


def of_kernel(kernel: Callable[..., Sequence[np.ndarray]], name: str) -> Callable[..., np.ndarray]:
    """Return what fills the table of an operator of a value and one number: its kernel does.

    - ``name``: the attribute with the number less its zero point; ``<name>_scale`` is its scale.
    """

    def fill(source: Quantization, output: Quantization, attributes: dict[str, Any]) -> np.ndarray:
        value = Operand(0, "", (ENTRIES,), "int8", source.scale, source.zero_point)
        constant = replace(value, shape=(1,), scale=attributes[f"{name}_scale"], data=b"")
        result = replace(value, scale=output.scale, zero_point=output.zero_point)
        operator = HostOperator("", "", 0, (value, constant), (result,), attributes)
        number = np.array([attributes[name] + constant.zero_point])
        return kernel(operator, [BYTES[None], number])[0][0]

    return fill


#: Weights that are tried, from the finest.
_WEIGHTS = range(127, 15, -1)

_X = np.arange(-128, 128, dtype=np.int64)


def lines(
    tables: np.ndarray, slopes: np.ndarray, offsets: np.ndarray, zero_point: int
) -> tuple[np.ndarray, Scaling]:
    """Return weights by channel and the parameters that take every int8 to its entry.

    - ``tables``: int8, shape ``(channels, 256)``: entries for -128 to 127.
    - ``slopes``, ``offsets``: float64, shape ``(channels,)``: entries are about ``slope * x +
      offset + zero_point``.
    - ``zero_point``: zero point of the results.
    - ``weights`` (result): int8, shape ``(channels,)``.
    - ``scaling`` (result): parameters by channel.

    Raises CompileError if a channel has no such line.
    """
    parameters = []
    for channel, (entries, slope, offset) in enumerate(zip(tables, slopes, offsets, strict=True)):
        line = _line(entries.astype(np.int64), float(slope), float(offset), zero_point)
        if line is None:
            raise CompileError(f"wanted results that lie on a line, channel {channel} has none")
        parameters.append(line)
    weights, bias, multiplier, shift = np.array(parameters, np.int64).T
    scaling = scaling_of(bias, multiplier, shift, Rounding.SINGLE, (zero_point, -128, 127))
    return weights.astype(np.int8), scaling


def _line(
    entries: np.ndarray, slope: float, offset: float, zero_point: int
) -> tuple[int, int, int, int] | None:
    """Return weight, bias, multiplier and shift of one channel."""
    for weight in _WEIGHTS:
        multiplier, shift = quantize_multiplier(abs(slope) / weight)
        left, right = max(shift, 0), max(-shift, 0)
        signed = -weight if slope < 0 else weight
        start = offset * weight / abs(slope) if slope else 0.0
        if abs(start) > 1 << 24 or left > 6:
            continue
        biases = np.floor(start).astype(np.int64) + np.arange(2)
        sums = (signed * _X + biases[:, None]) << left
        high = (sums * multiplier + (1 << 30 if right == 0 else 0)) >> 31
        results = ((high + ((1 << right) >> 1)) >> right) + zero_point
        good = (np.clip(results, -128, 127) == entries).all(axis=1)
        if good.any():
            return signed, int(biases[np.argmax(good)]), multiplier, shift
    return None
