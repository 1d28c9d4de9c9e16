"""Constants that do not stay are fetched in time.

Tiles, parameters and tables that stream pass through a ring of places. A fetch is put as early as
its place is free, at most a few ahead, so that it runs while earlier work is under way. What is
used again soon is not fetched again.
"""

import itertools
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from celosia.hw.arch.config import Config
from celosia.sw.compiler.actions import (
    Action,
    AddRegion,
    Drain,
    FillMargins,
    LoadRegion,
    Multiply,
    PoolRegion,
    StoreRegion,
)
from celosia.sw.compiler.spec import Network, Pooling
from celosia.sw.compiler.tile import Ring, Tiling

__all__ = ["Bound", "FetchParameters", "FetchTables", "FetchWeights", "Work", "stream"]

#: Fetches that run ahead of the work that needs them.
_AHEAD = 7


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
class FetchTables:
    """Load ``count`` tables, from number ``first`` on, to ``place``, for a layer."""

    layer: int
    first: int
    count: int
    place: int


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Work that reads constants, and the places of its first tile or channel and of its table."""

    action: Multiply | Drain | PoolRegion | AddRegion
    place: int
    table: int | None = None


#: Work that reads constants.
_READERS = (Multiply, Drain, PoolRegion, AddRegion)

Fetch = FetchWeights | FetchParameters | FetchTables
Work = LoadRegion | StoreRegion | FillMargins | Fetch | Bound


class _Stream:
    """Places in a ring for pieces in the order of their use.

    Parameters
    ----------
    ring : Ring
        The places.
    uses : sequence of (key, count)
        What is used one after the other, and how many places each takes.
    """

    def __init__(self, ring: Ring, uses: Sequence[tuple[Hashable, int]]) -> None:
        self.ring = ring
        self.counts: list[int] = []
        self.keys: list[Hashable] = []
        self.piece_of = [self._piece(key, count) for key, count in uses]
        #: For each use, the first piece that it or a later one needs.
        self.needed = list(self.piece_of)
        for use in range(len(uses) - 2, -1, -1):
            self.needed[use] = min(self.needed[use], self.needed[use + 1])
        self.use = 0
        self.next = 0
        self.live: deque[tuple[int, int]] = deque()

    def _piece(self, key: Hashable, count: int) -> int:
        """Return a piece fetched not long ago, or a new one.

        A third of the ring may be held for what is used again: the rest always has room for a
        piece of a third of the ring. What was used last stays in any case.
        """
        held = 0
        latest = len(self.keys) - 1
        for piece in range(latest, -1, -1):
            held += self.counts[piece]
            if piece != latest and 3 * held > self.ring.count:
                break
            if self.keys[piece] == key:
                return piece
        self.keys.append(key)
        self.counts.append(count)
        return len(self.keys) - 1

    def ahead(self, most: int) -> Iterator[tuple[Hashable, int]]:
        """Yield (key, place) of fetches to start now: what is used next, and one of those after it.

        More at once would fill the load unit's queue, and hold up the work behind them.
        """
        if self.use == len(self.piece_of):
            return
        while self.live and self.live[0][0] < self.needed[self.use]:
            self.live.popleft()
        while self.next < len(self.keys) and self.next <= self.piece_of[self.use] + most:
            place = self._place(self.counts[self.next])
            if place is None:
                return
            self.live.append((self.next, place))
            self.next += 1
            yield self.keys[self.next - 1], self.ring.first + place
            if self.next > self.piece_of[self.use] + 1:
                return

    def take(self) -> int:
        """Return where what is used next lies, and go on."""
        piece = self.piece_of[self.use]
        self.use += 1
        return self.ring.first + next(place for number, place in self.live if number == piece)

    def _place(self, count: int) -> int | None:
        if not self.live:
            return 0
        spans = [(place, place + self.counts[piece]) for piece, place in self.live]
        for start in (spans[-1][1], 0):
            end = start + count
            if end <= self.ring.count and all(end <= a or b <= start for a, b in spans):
                return start
        return None


class _Streaming:
    def __init__(self, network: Network, tiling: Tiling, config: Config) -> None:
        self.network = network
        self.tiling = tiling
        self.config = config

    def tiles(self, action: Multiply) -> tuple[int, int]:
        """Return the first of a layer's tiles that matrix work reads, and how many it does."""
        layer = self.tiling.layers[action.layer]
        first = action.tile * layer.steps + layer.first_step(
            action.tile, action.segment, self.config
        )
        return first + action.first_step, action.last_step - action.first_step

    def channel(self, action: Drain | PoolRegion | AddRegion) -> int:
        """Return the first of a layer's channels that vector work reads."""
        if isinstance(action, AddRegion):
            return action.step * self.config.columns
        if isinstance(action, Drain):
            return action.tile * self.tiling.layers[action.layer].parameters
        layer = self.network.layers[action.layer]
        assert isinstance(layer, Pooling)
        return layer.windows[action.windows].parameters * self.config.columns

    def stays(self, action: Multiply | Drain | PoolRegion | AddRegion) -> bool:
        """Whether the constants that work reads are resident."""
        layer = self.tiling.layers[action.layer]
        if isinstance(action, Multiply):
            return layer.place(self.tiles(action)[0]) is not None
        return layer.first_channel is not None

    def place(self, action: Multiply | Drain | PoolRegion | AddRegion) -> int:
        """Return where resident constants lie."""
        layer = self.tiling.layers[action.layer]
        if isinstance(action, Multiply):
            place = layer.place(self.tiles(action)[0])
            assert place is not None
            return place
        assert layer.first_channel is not None
        return layer.first_channel + self.channel(action)

    def table(self, action: Multiply | Drain | PoolRegion | AddRegion) -> int | None:
        """Return the number of the table that work looks up in, if it does."""
        if isinstance(action, Multiply) or (isinstance(action, AddRegion) and action.step < 2):
            return None
        return self.tiling.tables.of.get(action.layer)

    def split(self, actions: Sequence[Action]) -> Iterator[Action]:
        """Cut matrix work where its weights cease to be resident, and to pieces for the ring."""
        most = max(1, self.tiling.weights.count // (_AHEAD + 1))
        for action in actions:
            if not isinstance(action, Multiply):
                yield action
                continue
            layer = self.tiling.layers[action.layer]
            if not layer.segments[action.tile][action.segment].side_by_side:
                yield action
                continue
            start, count = self.tiles(action)
            ends = [0]
            while ends[-1] < count:
                at = start + ends[-1]
                last = start + count
                if layer.place(at) is None:
                    last = min(last, at + most)
                ends.append(layer.stretch(at, last) - start)
            for first, last in itertools.pairwise(ends):
                yield replace(
                    action,
                    first_step=action.first_step + first,
                    last_step=action.first_step + last,
                    accumulate=action.accumulate or first > 0,
                )


def stream(
    actions: Sequence[Action], network: Network, tiling: Tiling, config: Config
) -> list[Work]:
    """Return the work with fetches put in, and matrix work cut to pieces that the ring holds."""
    about = _Streaming(network, tiling, config)
    pieces = list(about.split(actions))
    reads = [a for a in pieces if isinstance(a, _READERS)]
    lookups = [(a.layer, about.table(a)) for a in reads]
    reads = [a for a in reads if not about.stays(a)]
    tiles = _Stream(
        tiling.weights,
        [((a.layer, *about.tiles(a)), about.tiles(a)[1]) for a in reads if isinstance(a, Multiply)],
    )
    parameters = [
        (a, tiling.layers[a.layer].parameters) for a in reads if not isinstance(a, Multiply)
    ]
    channels = _Stream(
        tiling.parameters,
        [((a.layer, about.channel(a), count), count) for a, count in parameters],
    )
    stay = tiling.tables.places
    users = {number: layer for layer, number in reversed(lookups)}
    tables = _Stream(
        tiling.tables.ring,
        [((users[n], n, 1), 1) for _, n in lookups if n is not None and stay[n] is None],
    )
    work: list[Work] = []
    rings = ((FetchWeights, tiles), (FetchParameters, channels), (FetchTables, tables))

    def fetch(most: int) -> None:
        for kind, ring in rings:
            for (layer, first, count), place in ring.ahead(most):  # pyright: ignore[reportGeneralTypeIssues]
                work.append(kind(layer=layer, first=first, count=count, place=place))

    for number, action in enumerate(pieces):
        if isinstance(action, (StoreRegion, FillMargins)):
            work.append(action)
        elif isinstance(action, LoadRegion):
            # What is used next comes first, unless that stays.
            later = (pieces[at] for at in range(number, len(pieces)))
            user = next((a for a in later if isinstance(a, _READERS)), None)
            if user is not None and not about.stays(user):
                fetch(0)
            work.append(action)
        else:
            fetch(_AHEAD)
            ring = tiles if isinstance(action, Multiply) else channels
            place = about.place(action) if about.stays(action) else ring.take()
            table = about.table(action)
            if table is not None:
                table = tables.take() if stay[table] is None else stay[table]
            work.append(Bound(action=action, place=place, table=table))
    return work
