"""First-fit addresses for spans of the unified buffer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain

from celosia.hw.arch.config import Config


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
    """Return the bytes of the spans of each layer and of the end, in multiples of ``unit``."""
    steps = [0] * (layers + 2)
    for span in spans:
        count = -(-span.count // unit) * unit
        steps[span.birth] += count
        steps[span.death + 1] -= count
    return list(accumulate(steps))


def begin_early(
    spans: Sequence[Span], earliest: Mapping[int, int], layers: int, most: int
) -> list[Span]:
    """Return the spans, begun earlier while those of each layer take ``most`` bytes or less.

    ``earliest``: by value, the first layer in which its spans may begin.
    """
    used, result = bytes_needed(spans, layers, 1), []
    for span in spans:
        birth = span.birth
        while birth > max(0, earliest.get(span.key[0], birth)):
            if used[birth - 1] + span.count > most:
                break
            birth -= 1
            used[birth] += span.count
        result.append(replace(span, birth=birth) if birth < span.birth else span)
    return result


def first_fit(
    spans: Sequence[Span], config: Config, alternate: bool
) -> dict[tuple[int, int, int], int] | None:
    """Place spans one by one at the lowest free address, or in turn at the lowest and highest."""
    placed: dict[tuple[int, int, int], int] = {}
    #: By layer, the bytes that have been placed.
    taken: list[list[tuple[int, int]]] = [[] for _ in range(max(s.death for s in spans) + 1)]
    for turn, span in enumerate(spans):
        layers = taken[span.birth : span.death + 1]
        busy = set(chain(*layers))
        if alternate and turn % 2:
            start = _highest(span.count, busy, config)
        else:
            start = _lowest(span.count, busy, config)
        if not 0 <= start <= config.unified_bytes - span.count:
            return None
        placed[span.key] = start
        for layer in layers:
            layer.append((start, start + span.count))
    return placed


def _lowest(count: int, busy: Iterable[tuple[int, int]], config: Config) -> int:
    """Return the lowest address with ``count`` free bytes after it, in unlimited memory."""
    start = 0
    for begin, end in sorted(busy):
        if start + count <= begin:
            break
        start = max(start, -(-end // config.rows) * config.rows)
    return start


def _highest(count: int, busy: Iterable[tuple[int, int]], config: Config) -> int:
    """Return the highest address with ``count`` free bytes after it; negative if there is none."""
    start = (config.unified_bytes - count) // config.rows * config.rows
    for begin, end in sorted(busy, key=lambda one: -one[1]):
        if end <= start:
            break
        start = min(start, (begin - count) // config.rows * config.rows)
    return start
