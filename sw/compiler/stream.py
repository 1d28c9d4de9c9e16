"""Fifth pass: constants that do not stay are fetched in time.

Tiles and parameters that stream pass through a ring of places. A fetch is put as early as its
place is free, at most a few ahead, so that it runs while earlier work is under way.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from celosia.hw.arch.config import Config
from celosia.sw.compiler.schedule import Action, Drain, LoadBlock, Multiply, StoreBlock
from celosia.sw.compiler.tile import Ring, Tiling

__all__ = ["Bound", "FetchParameters", "FetchWeights", "Work", "stream"]

#: Fetches that run ahead of the work that needs them.
_AHEAD = 2


@dataclass(frozen=True, kw_only=True)
class FetchWeights:
    """Load ``count`` tiles of a layer, from its ``first`` on, to ``place`` of the weight buffer."""

    layer: int
    first: int
    count: int
    place: int


@dataclass(frozen=True, kw_only=True)
class FetchParameters:
    """Load ``count`` channels of a layer, from ``first`` on, to ``place`` of parameter memory."""

    layer: int
    first: int
    count: int
    place: int


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Matrix work or a drain, and the place of its first tile or channel."""

    action: Multiply | Drain
    place: int


Work = LoadBlock | StoreBlock | FetchWeights | FetchParameters | Bound


class _Stream:
    """Places in a ring for pieces in the order of their use."""

    def __init__(self, ring: Ring, counts: Sequence[int]) -> None:
        self.ring = ring
        self.counts = counts
        self.next = 0
        self.live: deque[tuple[int, int, int]] = deque()

    def ahead(self, piece: int, most: int) -> Iterator[tuple[int, int]]:
        """Yield (piece, place) of fetches to start now, when ``piece`` is the next to be used."""
        while self.live and self.live[0][0] < piece:
            self.live.popleft()
        while self.next < len(self.counts) and self.next <= piece + most:
            place = self._place(self.counts[self.next])
            if place is None:
                return
            self.live.append((self.next, place, self.counts[self.next]))
            yield self.next, self.ring.first + place
            self.next += 1

    def place(self, piece: int) -> int:
        """Return where a fetched piece lies."""
        return self.ring.first + next(p for number, p, _ in self.live if number == piece)

    def _place(self, count: int) -> int | None:
        if not self.live:
            return 0
        tail = self.live[-1][1] + self.live[-1][2]
        for start in (tail, 0):
            end = start + count
            if end <= self.ring.count and all(
                end <= place or place + other <= start for _, place, other in self.live
            ):
                return start
        return None


def stream(actions: Sequence[Action], tiling: Tiling, config: Config) -> list[Work]:
    """Return the work with fetches put in, and matrix work cut to pieces that the ring holds."""
    pieces = list(_split(actions, tiling, config))
    weights = [a for a in pieces if isinstance(a, Multiply) and _streams(a, tiling)]
    drains = [a for a in pieces if isinstance(a, Drain) and _streams(a, tiling)]
    tiles = _Stream(tiling.weights, [a.last_step - a.first_step for a in weights])
    channels = _Stream(tiling.parameters, [config.columns] * len(drains))
    used_weights = used_drains = 0
    work: list[Work] = []

    def fetch(most: int) -> None:
        for number, place in tiles.ahead(used_weights, most):
            action = weights[number]
            steps = tiling.layers[action.layer].steps
            first = action.tile * steps + action.first_step
            count = action.last_step - action.first_step
            work.append(FetchWeights(layer=action.layer, first=first, count=count, place=place))
        for number, place in channels.ahead(used_drains, most):
            layer, first = drains[number].layer, drains[number].tile * config.columns
            work.append(
                FetchParameters(layer=layer, first=first, count=config.columns, place=place)
            )

    for action in pieces:
        if isinstance(action, StoreBlock):
            work.append(action)
        elif isinstance(action, LoadBlock):
            fetch(0)
            work.append(action)
        elif not _streams(action, tiling):
            fetch(_AHEAD)
            work.append(Bound(action=action, place=_resident(action, tiling, config)))
        elif isinstance(action, Multiply):
            fetch(_AHEAD)
            work.append(Bound(action=action, place=tiles.place(used_weights)))
            used_weights += 1
        else:
            fetch(_AHEAD)
            work.append(Bound(action=action, place=channels.place(used_drains)))
            used_drains += 1
    return work


def _streams(action: Multiply | Drain, tiling: Tiling) -> bool:
    layer = tiling.layers[action.layer]
    first = layer.first_tile if isinstance(action, Multiply) else layer.first_channel
    return first is None


def _resident(action: Multiply | Drain, tiling: Tiling, config: Config) -> int:
    layer = tiling.layers[action.layer]
    if isinstance(action, Drain):
        assert layer.first_channel is not None
        return layer.first_channel + action.tile * config.columns
    assert layer.first_tile is not None
    return layer.first_tile + action.tile * layer.steps + action.first_step


def _split(actions: Sequence[Action], tiling: Tiling, config: Config) -> Iterator[Action]:
    """Cut matrix work whose weights stream, so that several pieces fit into the ring."""
    most = max(1, tiling.weights.count // (_AHEAD + 2))
    for action in actions:
        if not isinstance(action, Multiply) or not _streams(action, tiling):
            yield action
            continue
        for first in range(action.first_step, action.last_step, most):
            last = min(first + most, action.last_step)
            columns = {
                "first_column": first * config.rows,
                "last_column": min(last * config.rows, action.block.last_column),
            }
            yield replace(
                action,
                block=replace(action.block, **columns),
                first_step=first,
                last_step=last,
                accumulate=first > 0,
            )
