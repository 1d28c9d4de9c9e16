"""Terms and extents of products of two computed matrices."""

from dataclasses import dataclass
from enum import Enum


class Term(Enum):
    """Term of a product of two computed matrices."""

    PRODUCT = "product"
    COLUMNS = "columns"  #: The first zero point times the sums of the second matrix's columns.
    LINES = "lines"  #: The second zero point times the sums of the first matrix's rows.


@dataclass(frozen=True)
class Correction:
    """Term of a zero point: equal bytes in a value, multiplied ``times`` times."""

    value: int
    times: int


def extents_of(
    rows: int, taps: int, channels: int, turned: tuple[bool, bool]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return rows and columns of two matrices as they lie in values: see ``DynamicProduct``."""
    first = (taps, rows) if turned[0] else (rows, taps)
    second = (channels, taps) if turned[1] else (taps, channels)
    return first, second
