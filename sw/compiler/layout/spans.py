"""Addresses for what lies in the unified buffer at some time: first fit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from celosia.hw.arch.config import Config

__all__ = ["Span", "bytes_needed", "first_fit"]


@dataclass(frozen=True)
class Span:
    """A copy of a value, or one of its buffers: bytes, and the layers that need it.

    ``key`` is the value, the layer that a buffer serves or −1, and the turn.
    """

    key: tuple[int, int, int]
    count: int
    birth: int
    death: int


def bytes_needed(spans: Iterable[Span], layers: int, unit: int) -> list[int]:
    """Return the bytes that spans take while each layer runs and at the end, in whole units each."""
    steps = [0] * (layers + 2)
    for span in spans:
        count = -(-span.count // unit) * unit
        steps[span.birth] += count
        steps[span.death + 1] -= count
    return list(accumulate(steps))


def first_fit(
    spans: Sequence[Span], config: Config, alternate: bool
) -> dict[tuple[int, int, int], int] | None:
    """Place spans one by one at the lowest free address, or in turn at the lowest and highest."""
    placed: list[tuple[int, int, int, int]] = []
    for turn, span in enumerate(spans):
        first, last = span.birth, span.death
        busy = [
            (begin, end) for begin, end, birth, death in placed if birth <= last and first <= death
        ]
        room = config.unified_bytes - span.count
        starts = [0, *(end for _, end in busy)]
        starts = [-(-start // config.rows) * config.rows for start in starts]
        if alternate and turn % 2:
            ends = [config.unified_bytes, *(begin for begin, _ in busy)]
            starts = sorted((end - span.count) // config.rows * config.rows for end in ends)
            starts.reverse()
        else:
            starts.sort()
        free = [
            start
            for start in starts
            if 0 <= start <= room
            and all(start + span.count <= begin or end <= start for begin, end in busy)
        ]
        if not free:
            return None
        placed.append((free[0], free[0] + span.count, first, last))
    return {span.key: begin for span, (begin, *_) in zip(spans, placed, strict=True)}
