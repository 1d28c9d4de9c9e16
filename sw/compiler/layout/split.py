"""Weights that are sums of two or three int8: the reads for the second and third summand.

A weight less its zero point can need nine bits. Most still fit int8, so that the second summand of
a tile is often zero: only its non-zero steps are multiplied. 255 alone has a third.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from celosia.sw.compiler.layout.pitches import Segment
from celosia.sw.compiler.spec import Product

__all__ = ["further_parts"]


def further_parts(
    layer: Product, channels: tuple[int, int], parts: tuple[Segment, ...], rows: int
) -> Iterator[Segment]:
    """Yield the reads for the second and third summands of weights: steps that are not all zero."""
    if layer.parts == 1:
        return
    first, *others = np.split(np.any(layer.matrix(*channels), axis=0), layer.parts)
    for number, used in enumerate(others, 1):
        for part in parts:
            pieces = [piece for run in _runs(part, rows) for piece in _used(run, used, rows)]
            if sum(-(-len(piece.taps) // rows) for piece in pieces) > -(-len(part.taps) // rows):
                pieces = [part]
            for piece in pieces:
                yield replace(piece, taps=number * first.size + piece.taps)


def _runs(part: Segment, rows: int) -> Iterator[Segment]:
    """Yield the taps of a segment that lie side by side."""
    for number in range(-(-len(part.taps) // part.run)):
        taps = part.taps[number * part.run : (number + 1) * part.run]
        yield Segment(part.offset + number * (part.run + part.skip * rows), taps, len(taps), 0)


def _used(part: Segment, used: np.ndarray, rows: int) -> Iterator[Segment]:
    """Yield the steps of taps side by side in which some are used, successive ones as one."""
    steps = np.flatnonzero(np.add.reduceat(used[part.taps], range(0, len(part.taps), rows)))
    for stretch in np.split(steps, np.flatnonzero(np.diff(steps) > 1) + 1):
        if stretch.size:
            first = int(stretch[0]) * rows
            taps = part.taps[first : (int(stretch[-1]) + 1) * rows]
            yield Segment(part.offset + first, taps, len(taps), 0)
