"""Constants read by actions: resident or streamed, and their fetches."""

import itertools
from collections.abc import Iterator, Sequence

from celosia.sw.compiler import policy
from celosia.sw.compiler.layout.placement import Arranged
from celosia.sw.compiler.layout.tile import Tables, copied_parameters, parameters_of
from celosia.sw.compiler.schedule.actions import (
    Action,
    AddRegion,
    Drain,
    Multiply,
    PoolRegion,
    SpreadSums,
)
from celosia.sw.layers.spec import DynamicProduct, Pooling

#: Actions that read constants.
READERS = (Multiply, Drain, SpreadSums, PoolRegion, AddRegion)
#: Actions of the vector unit that read constants.
VectorReader = Drain | SpreadSums | PoolRegion | AddRegion
Reader = Multiply | VectorReader


class Constants(Arranged):
    """Weights, parameters and tables that actions read."""

    def tiles(self, action: Multiply) -> tuple[int, int]:
        """Return the first of a layer's tiles that a matrix action reads, and their number."""
        layer = self.tiling.layers[action.layer]
        first = layer.first_step(action.tile, action.segment, self.config)
        first += action.tile * layer.steps
        return first + action.first_step, action.last_step - action.first_step

    def fetched(self, action: Reader) -> tuple[int, int, int] | None:
        """Return the first and the number of the tiles or channels of one fetch for an action.

        The third is the number of those before the ones that it reads. None if they are resident.
        """
        matrix = isinstance(action, Multiply)
        return self._tile_fetch(action) if matrix else self._channel_fetch(action)

    def _tile_fetch(self, action: Multiply) -> tuple[int, int, int] | None:
        """Return the result of ``fetched`` for a matrix action."""
        first, count = self.tiles(action)
        layer = self.tiling.layers[action.layer]
        if layer.slot(first) is not None:
            return None
        alone = len(layer.segments[action.tile]) == 1 or layer.period % layer.steps
        if alone or policy.RING_FETCHES * layer.steps > self.tiling.weights.count:
            return first, count, 0
        start = action.tile * layer.steps
        steps = sum(segment.steps(self.config) for segment in layer.segments[action.tile])
        return start, steps, first - start

    def channel(self, action: VectorReader) -> int:
        """Return the first of a layer's channels that a vector action reads."""
        if isinstance(action, AddRegion):
            return action.step * self.config.columns
        layer, tiled = self.network.layers[action.layer], self.tiling.layers[action.layer]
        if isinstance(action, SpreadSums):
            assert isinstance(layer, DynamicProduct)
            return copied_parameters(layer, tiled) + action.tile * tiled.parameters * action.each
        if isinstance(action, Drain):
            if isinstance(layer, DynamicProduct) and not layer.by_channel:
                return 0
            return action.tile * tiled.parameters
        assert isinstance(layer, Pooling)
        return layer.windows[action.windows].parameters * self.config.columns

    def _channel_fetch(self, action: VectorReader) -> tuple[int, int, int] | None:
        """Return the result of ``fetched`` for a vector action."""
        channel, tiled = self.channel(action), self.tiling.layers[action.layer]
        if tiled.first_channel is not None:
            return None
        total = parameters_of(self.network.layers[action.layer], tiled)
        limit = self.tiling.parameters.count // policy.RING_FETCHES // tiled.parameters
        layer = self.network.layers[action.layer]
        if isinstance(layer, DynamicProduct) and layer.stepped >= 0:
            limit = 1
        count = max(1, limit) * tiled.parameters
        first = channel // count * count
        return first, min(count, total - first), channel - first

    def slot(self, action: Reader) -> int:
        """Return the slot of resident constants."""
        layer = self.tiling.layers[action.layer]
        if isinstance(action, Multiply):
            slot = layer.slot(self.tiles(action)[0])
            assert slot is not None
            return slot
        assert layer.first_channel is not None
        return layer.first_channel + self.channel(action)

    def table(self, action: Reader, tables: Tables) -> int | None:
        """Return the number of the table of an action among ``tables``, if it has one."""
        if isinstance(action, Multiply | SpreadSums):
            return None
        if isinstance(action, AddRegion) and action.step < 2:
            return None
        return tables.of.get(action.layer)

    def split(self, actions: Sequence[Action]) -> Iterator[Action]:
        """Split matrix actions between resident and streamed tiles, and by fetches of the ring."""
        most = max(1, self.tiling.weights.count // policy.RING_FETCHES)
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
                if layer.slot(at) is None:
                    last = min(last, at + most)
                ends.append(layer.stretch(at, last) - start)
            for first, last in itertools.pairwise(ends):
                yield action._replace(
                    first_step=action.first_step + first,
                    last_step=action.first_step + last,
                    accumulate=action.accumulate or first > 0,
                )
