"""Weights that are sums of two or three int8: the reads for the second and third summand.

A weight less its zero point can need nine bits. Most still fit int8, so that the second summand of
a tile is often zero: only its non-zero steps are multiplied. 255 alone has a third.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from celosia.sw.compiler.layout.pitches import Segment
from celosia.sw.layers.spec import MatrixLayer


def further_parts(
    layer: MatrixLayer, channels: tuple[int, int], segments: tuple[Segment, ...], rows: int
) -> Iterator[Segment]:
    """Yield the reads for the second and third summands of weights: steps that are not all zero."""
    if layer.summands == 1:
        return
    first, *others = np.split(np.any(layer.matrix(*channels), axis=0), layer.summands)
    for number, used in enumerate(others, 1):
        for segment in segments:
            reads = [read for run in _runs(segment, rows) for read in _used(run, used, rows)]
            if sum(-(-len(read.taps) // rows) for read in reads) > -(-len(segment.taps) // rows):
                reads = [segment]
            for read in reads:
                yield replace(read, taps=number * first.size + read.taps)


def _runs(segment: Segment, rows: int) -> Iterator[Segment]:
    """Yield the taps of a segment that lie side by side."""
    for number in range(-(-len(segment.taps) // segment.run)):
        taps = segment.taps[number * segment.run : (number + 1) * segment.run]
        yield Segment(
            segment.offset + number * (segment.run + segment.skip * rows), taps, len(taps), 0
        )


def _used(segment: Segment, used: np.ndarray, rows: int) -> Iterator[Segment]:
    """Yield the steps of taps side by side in which some are used, successive ones as one."""
    steps = np.flatnonzero(np.add.reduceat(used[segment.taps], range(0, len(segment.taps), rows)))
    for stretch in np.split(steps, np.flatnonzero(np.diff(steps) > 1) + 1):
        if stretch.size:
            first = int(stretch[0]) * rows
            taps = segment.taps[first : (int(stretch[-1]) + 1) * rows]
            yield Segment(segment.offset + first, taps, len(taps), 0)
