"""Where everything lies."""

from collections.abc import Mapping
from dataclasses import dataclass

from celosia.sw.compiler.layout.pitches import Layout

__all__ = ["Place", "Placement"]


@dataclass(frozen=True)
class Place:
    """Where a value lies in the unified buffer.

    Parameters
    ----------
    addresses : tuple of int
        Byte addresses of its copies, used in turn by items or parts that follow one another.
    whole : bool
        Whether it holds all items of a part, else one.
    permanent : bool
        Whether nothing else ever lies there.
    """

    addresses: tuple[int, ...]
    whole: bool
    permanent: bool


@dataclass(frozen=True)
class Placement:
    """Where everything lies.

    Parameters
    ----------
    head : int
        Number of layers that run item by item.
    parts : tuple of (int, int)
        First item and number of items of each part of the batch.
    places : dict of int to Place
        By value.
    layouts : tuple of Layout
        By value.
    external : dict
        Value to byte address of the batch in external memory, of inputs and outputs.
    weights, parameters : tuple of int
        External address of each layer's tiles and channel parameters.
    tables, code : int
        External address of the tables, and that from which on code may lie.
    strips : dict of (int, int) to tuple of int
        By value and layer, addresses of the buffers through which the layer passes a value that
        lies in external memory.
    strip_rows : dict of int to int
        By layer, the rows of its result that it makes at a time, if not all.
    overlap : frozenset of int
        Layers before whose end the next one may begin.
    direct : frozenset of int
        Layers whose results the next one reads from its buffers, without external memory.
    """

    head: int
    parts: tuple[tuple[int, int], ...]
    places: Mapping[int, Place]
    layouts: tuple[Layout, ...]
    external: Mapping[int, int]
    weights: tuple[int, ...]
    parameters: tuple[int, ...]
    tables: int
    code: int
    strips: Mapping[tuple[int, int], tuple[int, ...]]
    strip_rows: Mapping[int, int]
    overlap: frozenset[int]
    direct: frozenset[int]

    def address(self, value: int, part: int, item: int) -> int:
        """Return where an item of the batch, in a part of it, begins in the unified buffer."""
        place = self.places[value]
        turns = place.addresses
        if not place.whole:
            return turns[item % len(turns)]
        index = item - self.parts[part][0]
        return turns[part % len(turns)] + index * self.layouts[value].item_pitch

    def outside(self, value: int) -> bool:
        """Whether a value lies in external memory, and only passes through buffers."""
        return value not in self.places
