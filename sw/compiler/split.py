"""Weights that are sums of two int8: the reads for their second parts.

A weight less its zero point can need nine bits. Most fit int8 all the same, so that the second part
of a tile is often zero: only the steps in which it is not are multiplied.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from celosia.sw.compiler.layout.pitches import Segment
from celosia.sw.compiler.spec import Product

__all__ = ["second_parts"]


def second_parts(
    layer: Product, channels: tuple[int, int], parts: tuple[Segment, ...], rows: int
) -> Iterator[Segment]:
    """Yield the reads for the second parts of weights: the steps in which any is not zero."""
    if not layer.split:
        return
    matrix = layer.matrix(*channels)
    count = matrix.shape[1] // 2
    used = np.any(matrix[:, count:], axis=0).reshape(-1)
    for part in parts:
        pieces = [piece for run in _runs(part, rows) for piece in _used(run, used, rows)]
        if sum(-(-len(piece.taps) // rows) for piece in pieces) > -(-len(part.taps) // rows):
            pieces = [part]
        for piece in pieces:
            yield replace(piece, taps=count + piece.taps)


def _runs(part: Segment, rows: int) -> Iterator[Segment]:
    """Yield the taps of a segment that lie side by side."""
    for number in range(-(-len(part.taps) // part.run)):
        taps = part.taps[number * part.run : (number + 1) * part.run]
        yield Segment(part.offset + number * (part.run + part.skip * rows), taps, len(taps), 0)


def _used(part: Segment, used: np.ndarray, rows: int) -> Iterator[Segment]:
    """Yield the steps of taps side by side in which some are used, those in a row together."""
    steps = np.flatnonzero(np.add.reduceat(used[part.taps], range(0, len(part.taps), rows)))
    for stretch in np.split(steps, np.flatnonzero(np.diff(steps) > 1) + 1):
        if stretch.size:
            first = int(stretch[0]) * rows
            taps = part.taps[first : (int(stretch[-1]) + 1) * rows]
            yield Segment(part.offset + first, taps, len(taps), 0)
