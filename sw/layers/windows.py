"""Windows of pooling, grouped into rectangles of equal ones.

A window that reaches past the edge counts only elements inside, so windows at edges are smaller.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from celosia.sw.layers.spec import Windows


@dataclass(frozen=True)
class Axis:
    """Windows along rows or columns."""

    start: int  #: First element of the first window, below zero before the edge.
    #: Elements from one window to the next, number of windows, and elements of each.
    stride: int
    count: int
    size: int
    extent: int  #: Elements of the source.

    @property
    def whole(self) -> bool:
        """True if no window reaches past an edge."""
        last = self.start + (self.count - 1) * self.stride
        return self.start >= 0 and last + self.size <= self.extent


@dataclass(frozen=True)
class _Run:
    result: int
    count: int
    source: int
    size: int


def padding(kind: str, extent: int, size: int, stride: int, count: int) -> int:
    """Return the elements before the edge: for ``SAME`` half of all, rounded down; else none.

    ``size`` spans the window from its first to its last element.
    """
    if kind == "VALID":
        return 0
    return max((count - 1) * stride + size - extent, 0) // 2


def _runs(axis: Axis) -> Iterator[_Run]:
    """Yield groups of windows of one size that follow one another at the stride."""
    run: _Run | None = None
    for result in range(axis.count):
        start = axis.start + result * axis.stride
        first, last = max(start, 0), min(start + axis.size, axis.extent)
        if run and run.size == last - first and first == run.source + run.count * axis.stride:
            run = replace(run, count=run.count + 1)
            continue
        if run:
            yield run
        run = _Run(result, 1, first, last - first)
    if run:
        yield run


def _stretches(indices: Sequence[int], stride: int) -> Iterator[_Run]:
    """Yield groups of indices that follow one another at the stride."""
    first = 0
    for place in range(1, len(indices) + 1):
        if place == len(indices) or indices[place] != indices[place - 1] + stride:
            yield _Run(first, place - first, indices[first], 1)
            first = place


def taken(
    rows: Sequence[int],
    columns: Sequence[int],
    stride: tuple[int, int],
    top: int = 0,
    left: int = 0,
) -> tuple[Windows, ...]:
    """Return windows of one pixel: row and column in a source at ``top``, ``left``, by result."""
    return _all_pairs(_stretches(rows, stride[0]), _stretches(columns, stride[1]), top, left)


def rectangles(axes: Sequence[Axis], top: int = 0, left: int = 0) -> tuple[Windows, ...]:
    """Return windows along rows and columns; the source starts at row ``top``, column ``left``."""
    rows, columns = axes
    return _all_pairs(_runs(rows), _runs(columns), top, left)


def _all_pairs(
    rows: Iterator[_Run], columns: Iterator[_Run], top: int, left: int
) -> tuple[Windows, ...]:
    return tuple(
        Windows(
            result=(y.result, x.result),
            count=(y.count, x.count),
            source=(top + y.source, left + x.source),
            size=(y.size, x.size),
        )
        for y, x in product(rows, columns)
    )
