"""Sizes of vector units."""

from typing import Any

import numpy as np

from celosia.hw.vector.task import VectorSizes

#: Cycles from a write until reads see it.
VISIBLE = 3

SHAPES = {  # rows, columns, lanes, bus_bytes
    "nano": (4, 4, 1, 4),
    "micro": (8, 8, 2, 8),
    "wide": (4, 12, 2, 4),
    "twelve": (4, 12, 4, 4),
    "tall": (16, 4, 4, 16),
    "full": (4, 4, 4, 4),
    "edge": (16, 16, 8, 16),
}


def sizes(name: str, **changes: Any) -> dict[str, Any]:
    """Return the sizes of a shape, as arguments."""
    rows, columns, lanes, bus_bytes = SHAPES[name]
    return {
        "rows": rows,
        "columns": columns,
        "lanes": lanes,
        "unified_bytes": 64 * rows,
        "accumulator_depth": 16,
        "parameter_channels": 8 * lanes,
        "tables": 2,
        "bus_bytes": bus_bytes,
        **changes,
    }


def vector_sizes(name: str, **changes: Any) -> VectorSizes:
    """Return the sizes of a shape."""
    fields = sizes(name, **changes)
    del fields["bus_bytes"]
    return VectorSizes(**fields)


def factor(values: np.ndarray) -> np.ndarray:
    """Return the 16 lower bits, signed, of integers."""
    return (values.astype(np.int64) + (1 << 15)) % (1 << 16) - (1 << 15)
