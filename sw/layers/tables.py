"""Tables of 256 entries: the results of an operator that depends on one int8 alone."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from celosia.sw.ir.graph import Quantization
from celosia.sw.layers.errors import UndefinedError

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
