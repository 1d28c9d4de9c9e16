"""Early fetches of streamed constants.

Tiles, parameters and tables that stream pass through a ring of slots. A fetch starts as soon as its
slot is free, at most a few ahead, so that it runs while earlier actions do. Constants used again
soon are not fetched again.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from celosia.sw.compiler import policy
from celosia.sw.compiler.layout.placement import Arranged, Arrangement
from celosia.sw.compiler.layout.stripes import rows_read, source_rows
from celosia.sw.compiler.layout.tile import Tables
from celosia.sw.compiler.schedule.actions import (
    Action,
    AddRegion,
    Drain,
    Fetch,
    FillMargins,
    LoadRegion,
    MoveWeights,
    Multiply,
    MultiplyMoved,
    PoolRegion,
    Region,
    SpreadSums,
    StoreRegion,
)
from celosia.sw.compiler.schedule.constants import READERS, Constants, Reader
from celosia.sw.compiler.schedule.pace import Pace
from celosia.sw.compiler.schedule.rings import Queue, Use
from celosia.sw.layers.grids import Addend
from celosia.sw.layers.spec import DynamicProduct, Pooling


class Bound(NamedTuple):
    """An action that reads constants, with the slots of its first tile or channel and its table."""

    action: Reader
    slot: int
    table: int | None = None


Work = LoadRegion | StoreRegion | FillMargins | Fetch | Bound | MoveWeights | MultiplyMoved


def stream(actions: Sequence[Action], about: Arrangement) -> list[Work]:
    """Return the actions with fetches added, and matrix actions split by fetches of the ring."""
    return _Streamer(actions, about).run()


class _Loads:
    """Loads of regions in the order of their use, not earlier than the schedule allows."""

    def __init__(self, found: Sequence[tuple[int, int, LoadRegion]]) -> None:
        self.waiting = deque(sorted(found, key=lambda load: load[:2]))
        self.now = -1

    @property
    def position(self) -> int | None:
        """Position of the action that reads the next load, if it may start by now."""
        if not self.waiting or self.waiting[0][1] > self.now:
            return None
        return self.waiting[0][0]


class _Streamer(Arranged):
    """Puts loads between the actions: earliest use first, as early as the bus is free."""

    def __init__(self, actions: Sequence[Action], about: Arrangement) -> None:
        super().__init__(about)
        self.constants = Constants(about)
        self.pace = Pace(about)
        split = list(chain(*(self._rows(a) for a in self.constants.split(actions))))
        self.actions = [a for a in split if not isinstance(a, LoadRegion)]
        self.loads = _Loads(self._uses(split))
        #: By the position of an action: the offset of its constants in their fetch.
        self.offsets: dict[int, int] = {}
        self.tiles = Queue(self.tiling.weights, [*self._fetched(matrix=True)])
        self.channels = Queue(self.tiling.parameters, [*self._fetched(matrix=False)])
        self.tables = Queue(self.tiling.tables.ring, [*self._looked_up(self.tiling.tables)])
        self.exponentials = Queue(
            self.tiling.exponentials.ring, [*self._looked_up(self.tiling.exponentials)]
        )
        self.rings = (
            ("weights", self.tiles),
            ("parameters", self.channels),
            ("tables", self.tables),
            ("tables", self.exponentials),
        )
        self.work: list[Work] = []
        #: By the position of a later action: the cycle at which its loads are complete.
        self.arrived: dict[int, int] = {}

    def _rows(self, action: Action) -> Iterator[Action]:
        """Yield the loads of a stripe some rows at a time, so that others come between them.

        Rows whose pixels lie apart take an instruction each.
        """
        if not isinstance(action, LoadRegion) or not action.region.stripe:
            yield action
            return
        region = action.region
        value, layout = self.network.values[region.value], self.placement.layouts[region.value]
        step = max(1, policy.STRIPE_BYTES // (value.width * value.channels))
        if layout.pixel != value.channels:
            step = 1
        for first in range(*region.rows, step):
            rows = first, min(first + step, region.rows[1])
            yield action._replace(region=region._replace(rows=rows))

    def _fetched(self, *, matrix: bool) -> Iterator[Use]:
        """Yield the uses of weights that stream, or of parameters."""
        for number, action in enumerate(self.actions):
            if not isinstance(action, READERS) or isinstance(action, Multiply) != matrix:
                continue
            fetched = self.constants.fetched(action)
            if fetched is not None:
                first, count, self.offsets[number] = fetched
                yield number, (action.layer, first, count), count

    def _looked_up(self, tables: Tables) -> Iterator[Use]:
        """Yield the uses of tables that stream; the first layer that reads one fetches it."""
        users: dict[int, int] = {}
        for number, action in enumerate(self.actions):
            table = self.constants.table(action, tables) if isinstance(action, READERS) else None
            if table is not None and tables.slots[table] is None:
                first = tables.first + table * tables.each
                key = users.setdefault(table, action.layer), first, tables.each
                yield number, key, tables.each

    def run(self) -> list[Work]:
        """Return all actions, with the fetches between them."""
        for number, action in enumerate(self.actions):
            self.loads.now = number
            if isinstance(action, (StoreRegion, FillMargins)):
                self.work.append(action)
                if isinstance(action, StoreRegion) and action.region.stripe:
                    self.pace.store(self.pace.beats(action))
                else:
                    self.pace.dispatch("vector")
                continue
            self._need(number)
            if isinstance(action, (MoveWeights, MultiplyMoved)):
                self.pace.work(action, self.arrived.pop(number, 0))
                self.work.append(action)
            else:
                self._append(number, action)
            while not self.pace.load_waits() and self._ahead():
                pass
        return self.work

    def _need(self, number: int) -> None:
        """Load the missing data of an action."""
        while self.loads.position is not None and self.loads.position <= number:
            self._load()
        for memory, ring in self.rings:
            if ring.reader == number:
                while ring.missing:
                    self._fetch(memory, ring)

    def _ahead(self) -> bool:
        """Start the next load that has a slot; return whether there is one."""
        queues = ((ring.position, memory, ring) for memory, ring in self.rings)
        soon = [(at, memory, ring) for at, memory, ring in queues if at is not None]
        first = min(soon, key=lambda fetch: fetch[0], default=None)
        position = self.loads.position
        if position is not None and (first is None or position <= first[0]):
            self._load()
        elif first is not None:
            self._fetch(first[1], first[2])
        else:
            return False
        return True

    def _load(self) -> None:
        position, _, action = self.loads.waiting.popleft()
        stripe = action.region.stripe is not None
        ready = self.pace.load(self.pace.beats(action), fills=stripe)
        self.arrived[position] = max(ready, self.arrived.get(position, 0))
        self.work.append(action)

    def _fetch(self, memory: str, ring: Queue) -> None:
        number = ring.next
        (layer, first, count), slot, slots = ring.fetch()
        fetch = Fetch(memory, layer, first, count, slot)
        ring.ready[number] = self.pace.load(fetch.beats(self.config), ring.freed(slot, slots))
        self.work.append(fetch)

    def _append(self, number: int, action: Any) -> None:
        """Append an action that computes, with the slots of its constants."""
        streamed = [ring for _, ring in self.rings if ring.reader == number]
        ready = [ring.ready[ring.fetch_of[ring.use]] for ring in streamed]
        end = self.pace.work(action, max([0, self.arrived.pop(number, 0), *ready]))
        ring = self.tiles if isinstance(action, Multiply) else self.channels
        if ring in streamed:
            slot = ring.take(end) + self.offsets[number]
        else:
            slot = self.constants.slot(action)
        table = self.constants.table(action, self.tiling.tables)
        if table is not None:
            known = self.tiling.tables.slots[table]
            table = self.tables.take(end) if known is None else known
        if self.exponentials.reader == number:
            self.exponentials.take(end)
        self.work.append(Bound(action=action, slot=slot, table=table))

    def _uses(self, actions: Sequence[Action]) -> list[tuple[int, int, LoadRegion]]:
        """Return each load with the positions, without loads, of its first reader and of itself."""
        found: list[tuple[int, int, LoadRegion]] = []
        waiting: list[tuple[int, LoadRegion]] = []
        position = 0
        for action in actions:
            if isinstance(action, LoadRegion):
                waiting.append((position, action))
                continue
            for load in list(waiting):
                if self._reads(action, load[1].region):
                    waiting.remove(load)
                    found.append((position, *load))
            position += 1
        return found + [(position, *load) for load in waiting]

    def _reads(self, action: Action, region: Region) -> bool:
        """Return whether an action may read bytes of a region."""
        if isinstance(action, (LoadRegion, StoreRegion, FillMargins, SpreadSums, Drain)):
            return False
        layer = self.network.layers[action.layer]
        if region.value not in layer.sources or action.sub_batch != region.sub_batch:
            return False
        pooled = isinstance(action, PoolRegion)
        samples = action.samples if pooled else action.block.samples
        if samples[0] >= region.samples[1] or region.samples[0] >= samples[1]:
            return False
        if isinstance(layer, Pooling) and layer.seen:
            return True
        if self.network.values[region.value].height == 1:
            return not isinstance(action, Multiply) or self._taps(action, region)
        if isinstance(action, (MoveWeights, MultiplyMoved)):
            assert isinstance(layer, DynamicProduct)
            if isinstance(action.term, Addend):
                return True
            matrix = layer.matrices[isinstance(action, MoveWeights)][action.head]
            return region.rows[0] <= matrix < region.rows[1]
        stripes = action.sources if isinstance(action, AddRegion) else (action.source,)
        if region.stripe and region.stripe not in stripes:
            return False
        rows = action.rows if pooled else action.block.rows
        if region.stripe:
            first, last = source_rows(layer, rows)
        else:
            band = self.tiling.layers[action.layer].band
            first, last = rows_read(layer, rows, band, self.placement.layouts[region.value])
        return first < region.rows[1] and region.rows[0] < last

    def _taps(self, action: Multiply, region: Region) -> bool:
        """Return whether a matrix action may read some bytes of a vector."""
        layer = self.network.product(action.layer)
        if layer.taps != self.network.values[region.value].bytes_per_item or action.segment:
            return True
        first, last = action.first_step * self.config.rows, action.last_step * self.config.rows
        return first < region.columns[1] and region.columns[0] < last
