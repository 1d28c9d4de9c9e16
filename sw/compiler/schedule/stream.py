"""Constants that do not stay are fetched in time.

Tiles, parameters and tables that stream pass through a ring of places. A fetch is put as early as
its place is free, at most a few ahead, so that it runs while earlier work is under way. What is
used again soon is not fetched again.
"""

import itertools
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from celosia.hw.arch.config import Config
from celosia.sw.compiler.layout.allocate import Placement
from celosia.sw.compiler.layout.strips import source_rows
from celosia.sw.compiler.layout.tile import Ring, Tiling, parameters_of
from celosia.sw.compiler.schedule.actions import (
    Action,
    AddRegion,
    Drain,
    FillMargins,
    LoadRegion,
    Multiply,
    PoolRegion,
    Region,
    StoreRegion,
)
from celosia.sw.compiler.schedule.pace import Pace
from celosia.sw.compiler.spec import Network, Pooling, Product

__all__ = ["Bound", "FetchParameters", "FetchTables", "FetchWeights", "Work", "stream"]

#: Pieces that the ring of tiles holds.
_PIECES = 8


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


class _Ring:
    """Places in a ring for constants, in the order of their use.

    Parameters
    ----------
    ring : Ring
        The places.
    uses : sequence of (int, key, count)
        Positions of the work that reads constants, which, and how many places these take.
    """

    def __init__(self, ring: Ring, uses: Sequence[tuple[int, Hashable, int]]) -> None:
        self.ring = ring
        self.counts: list[int] = []
        self.keys: list[Hashable] = []
        #: Position of the first work that reads each piece.
        self.positions: list[int] = []
        self.piece_of = [self._piece(*use) for use in uses]
        #: For each use, the first piece that it or a later one needs.
        self.needed = list(self.piece_of)
        for use in range(len(uses) - 2, -1, -1):
            self.needed[use] = min(self.needed[use], self.needed[use + 1])
        self.use = 0
        self.next = 0
        self.end = 0
        self.live: deque[tuple[int, int]] = deque()
        #: When each piece that is there or on its way is there, and when each place is free again.
        self.ready: dict[int, int] = {}
        self.free: dict[int, int] = {}

    def _piece(self, position: int, key: Hashable, count: int) -> int:
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
        self.positions.append(position)
        return len(self.keys) - 1

    @property
    def position(self) -> int | None:
        """Position of the work that reads what is to be fetched next, if there is a place for it."""
        if self.next == len(self.keys):
            return None
        return None if self._place() is None else self.positions[self.next]

    @property
    def missing(self) -> bool:
        """Whether what is used next has not been fetched."""
        return self.use < len(self.piece_of) and self.piece_of[self.use] >= self.next

    def fetch(self) -> tuple[Any, int, int]:
        """Return key, place and count of what is to be fetched next, and go on to the one after."""
        place, piece = self._place(), self.next
        assert place is not None
        self.live.append((piece, place))
        self.end = place + self.counts[piece]
        self.next += 1
        return self.keys[piece], self.ring.first + place, self.counts[piece]

    def freed(self, place: int, count: int) -> int:
        """Return when the last work is done that reads some places."""
        first = place - self.ring.first
        return max(self.free.get(n, 0) for n in range(first, first + count))

    def take(self, until: int) -> int:
        """Return where what is used next lies, which is read ``until`` then, and go on."""
        piece = self.piece_of[self.use]
        self.use += 1
        place = next(place for number, place in self.live if number == piece)
        for n in range(place, place + self.counts[piece]):
            self.free[n] = until
        return self.ring.first + place

    def _place(self) -> int | None:
        count = self.counts[self.next]
        if self.use < len(self.needed):
            while self.live and self.live[0][0] < self.needed[self.use]:
                self.live.popleft()
        spans = [(place, place + self.counts[piece]) for piece, place in self.live]
        for start in (self.end, 0):
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

    def piece(self, action: Multiply) -> tuple[int, int, int]:
        """Return first and number of the tiles that are fetched together for matrix work.

        The third is the number of those that come before what it reads.
        """
        first, count = self.tiles(action)
        layer = self.tiling.layers[action.layer]
        alone = len(layer.segments[action.tile]) == 1 or layer.period % layer.steps
        if alone or _PIECES * layer.steps > self.tiling.weights.count:
            return first, count, 0
        start = action.tile * layer.steps
        steps = sum(part.steps(self.config) for part in layer.segments[action.tile])
        return start, steps, first - start

    def channel(self, action: Drain | PoolRegion | AddRegion) -> int:
        """Return the first of a layer's channels that vector work reads."""
        if isinstance(action, AddRegion):
            return action.step * self.config.columns
        if isinstance(action, Drain):
            return action.tile * self.tiling.layers[action.layer].parameters
        layer = self.network.layers[action.layer]
        assert isinstance(layer, Pooling)
        return layer.windows[action.windows].parameters * self.config.columns

    def portion(self, action: Drain | PoolRegion | AddRegion) -> tuple[int, int, int]:
        """Return first and number of the channels that are fetched together for vector work.

        The third is the number of those that come before what it reads.
        """
        channel, tiled = self.channel(action), self.tiling.layers[action.layer]
        total = parameters_of(self.network.layers[action.layer], tiled)
        most = self.tiling.parameters.count // _PIECES // tiled.parameters
        count = max(1, most) * tiled.parameters
        first = channel // count * count
        return first, min(count, total - first), channel - first

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
        most = max(1, self.tiling.weights.count // _PIECES)
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
    actions: Sequence[Action],
    network: Network,
    tiling: Tiling,
    placement: Placement,
    config: Config,
) -> list[Work]:
    """Return the work with fetches put in, and matrix work cut to pieces that the ring holds."""
    return _Streamer(actions, network, tiling, placement, config).run()


class _Loads:
    """Loads of regions in the order of their use, from where the schedule allows them on."""

    def __init__(self, found: Sequence[tuple[int, int, LoadRegion]]) -> None:
        self.waiting = deque(sorted(found, key=lambda item: (item[0], item[1])))
        self.now = -1

    @property
    def position(self) -> int | None:
        """Position of the work that reads what is to be loaded next, if it may be by now."""
        if not self.waiting or self.waiting[0][1] > self.now:
            return None
        return self.waiting[0][0]


class _Streamer:
    """Puts loads between the work: those needed next first, as early as the bus is free for them."""

    def __init__(
        self,
        actions: Sequence[Action],
        network: Network,
        tiling: Tiling,
        placement: Placement,
        config: Config,
    ) -> None:
        self.about = about = _Streaming(network, tiling, config)
        self.tables_at = tiling.tables.places
        self.pace = Pace(network, tiling, placement.layouts, config)
        split = list(about.split(actions))
        self.pieces = [a for a in split if not isinstance(a, LoadRegion)]
        self.loads = _Loads(_uses(split, network, config))
        reads = [(n, a) for n, a in enumerate(self.pieces) if isinstance(a, _READERS)]
        lookups = [(n, a.layer, about.table(a)) for n, a in reads]
        streamed = [(n, a) for n, a in reads if not about.stays(a)]
        users = {number: layer for _, layer, number in reversed(lookups)}
        matrix = [(n, a) for n, a in streamed if isinstance(a, Multiply)]
        vector = [
            (n, a.layer, *about.portion(a)[:2]) for n, a in streamed if not isinstance(a, Multiply)
        ]
        self.tiles = _Ring(
            tiling.weights,
            [(n, (a.layer, *about.piece(a)[:2]), about.piece(a)[1]) for n, a in matrix],
        )
        self.channels = _Ring(
            tiling.parameters,
            [(n, (layer, first, count), count) for n, layer, first, count in vector],
        )
        self.tables = _Ring(
            tiling.tables.ring,
            [
                (n, (users[t], t, 1), 1)
                for n, _, t in lookups
                if t is not None and self.tables_at[t] is None
            ],
        )
        self.work: list[Work] = []
        #: When what has been loaded for work that is still to come is there, by its position.
        self.arrived: dict[int, int] = {}

    def run(self) -> list[Work]:
        """Return all work."""
        for number, action in enumerate(self.pieces):
            self.loads.now = number
            if isinstance(action, (StoreRegion, FillMargins)):
                self.work.append(action)
                self.pace.dispatch("vector")
                continue
            self._need(number)
            self._append(number, action)
            while not self.pace.load_waits() and self._ahead():
                pass
        return self.work

    def _need(self, number: int) -> None:
        """Load what work reads and is not there."""
        while self.loads.position is not None and self.loads.position <= number:
            self._load()
        action = self.pieces[number]
        for kind, ring in self._rings():
            if self._streams(kind, action):
                while ring.missing:
                    self._fetch(kind, ring)

    def _ahead(self) -> bool:
        """Load what is needed next and has a place; return whether there is anything."""
        queues = ((ring.position, kind, ring) for kind, ring in self._rings())
        soon = [(at, kind, ring) for at, kind, ring in queues if at is not None]
        first = min(soon, key=lambda item: item[0], default=None)
        position = self.loads.position
        if position is not None and (first is None or position <= first[0]):
            self._load()
        elif first is not None:
            self._fetch(first[1], first[2])
        else:
            return False
        return True

    def _rings(self) -> tuple[tuple[Any, _Ring], ...]:
        return (
            (FetchWeights, self.tiles),
            (FetchParameters, self.channels),
            (FetchTables, self.tables),
        )

    def _streams(self, kind: Any, action: Action) -> bool:
        """Return whether work reads constants of a kind that pass through a ring."""
        assert isinstance(action, _READERS)
        if kind is FetchTables:
            table = self.about.table(action)
            return table is not None and self.tables_at[table] is None
        return isinstance(action, Multiply) == (
            kind is FetchWeights
        ) and not self.about.stays(action)

    def _load(self) -> None:
        position, _, action = self.loads.waiting.popleft()
        ready = self.pace.load(self.pace.beats(action))
        self.arrived[position] = max(ready, self.arrived.get(position, 0))
        self.work.append(action)

    def _fetch(self, kind: Any, ring: _Ring) -> None:
        piece = ring.next
        (layer, first, count), place, places = ring.fetch()
        unit = {FetchWeights: "tiles", FetchParameters: "channels", FetchTables: "tables"}[kind]
        beats = self.pace.fetch_beats(**{unit: count})
        ring.ready[piece] = self.pace.load(beats, ring.freed(place, places))
        self.work.append(kind(layer=layer, first=first, count=count, place=place))

    def _append(self, number: int, action: Any) -> None:
        """Append work that computes, with the places of the constants it reads."""
        streamed = [ring for kind, ring in self._rings() if self._streams(kind, action)]
        ready = [ring.ready[ring.piece_of[ring.use]] for ring in streamed]
        start = self.pace.work(action, max([0, self.arrived.pop(number, 0), *ready]))
        end = start + self.pace.cycles(action)
        ring = self.tiles if isinstance(action, Multiply) else self.channels
        place = self.about.place(action) if self.about.stays(action) else ring.take(end)
        if not self.about.stays(action):
            matrix = isinstance(action, Multiply)
            place += (self.about.piece(action) if matrix else self.about.portion(action))[2]
        table = self.about.table(action)
        if table is not None:
            known = self.tables_at[table]
            table = self.tables.take(end) if known is None else known
        self.work.append(Bound(action=action, place=place, table=table))


def _uses(actions: Sequence[Action], network: Network, config: Config) -> list[tuple[int, int, LoadRegion]]:
    """Return each load with the positions, loads left out, of its first reader and of itself."""
    found: list[tuple[int, int, LoadRegion]] = []
    waiting: list[tuple[int, LoadRegion]] = []
    position = 0
    for action in actions:
        if isinstance(action, LoadRegion):
            waiting.append((position, action))
            continue
        for item in list(waiting):
            if _reads(action, item[1].region, network, config):
                waiting.remove(item)
                found.append((position, *item))
        position += 1
    return found + [(position, *item) for item in waiting]


def _reads(action: Action, region: Region, network: Network, config: Config) -> bool:
    """Return whether work may read part of a region."""
    if not isinstance(action, (Multiply, PoolRegion, AddRegion)):
        return False
    layer = network.layers[action.layer]
    if region.value not in layer.sources or action.part != region.part:
        return False
    pooled = isinstance(action, PoolRegion)
    items = action.items if pooled else action.block.items
    if items[0] >= region.items[1] or region.items[0] >= items[1]:
        return False
    if isinstance(layer, Pooling) and layer.seen:
        return True
    if network.values[region.value].height == 1:
        return not isinstance(action, Multiply) or _taps(action, region, network, config)
    strips = action.sources if isinstance(action, AddRegion) else (action.source,)
    if region.strip and region.strip not in strips:
        return False
    first, last = source_rows(layer, action.rows if pooled else action.block.rows)
    return first < region.rows[1] and region.rows[0] < last


def _taps(action: Multiply, region: Region, network: Network, config: Config) -> bool:
    """Return whether matrix work may read some bytes of a vector."""
    layer = network.layers[action.layer]
    assert isinstance(layer, Product)
    if layer.taps != network.values[region.value].bytes_per_item or action.segment:
        return True
    first, last = action.first_step * config.rows, action.last_step * config.rows
    return first < region.columns[1] and region.columns[0] < last
