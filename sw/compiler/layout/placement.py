"""Addresses in the unified buffer and in external memory."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from celosia.hw.arch.config import ADDRESS_BITS
from celosia.sw.compiler.errors import CompileError
from celosia.sw.compiler.layout.pitches import Layout

__all__ = ["Place", "Placement"]


@dataclass(frozen=True)
class Place:
    """Addresses of a value in the unified buffer.

    Parameters
    ----------
    addresses : tuple of int
        Byte addresses of its copies, used in turn by successive samples or sub-batches.
    whole : bool
        True if it holds all samples of a sub-batch, else one.
    permanent : bool
        True if no other bytes ever use the addresses.
    """

    addresses: tuple[int, ...]
    whole: bool
    permanent: bool


@dataclass(frozen=True)
class Placement:
    """Addresses of values and constants, and the order of samples.

    Parameters
    ----------
    head : int
        Number of per-image layers.
    parts : tuple of (int, int)
        First sample and number of samples of each sub-batch.
    places : dict of int to Place
        By value.
    layouts : tuple of Layout
        By value.
    external : dict
        Value to byte address of the batch in external memory, of inputs and outputs.
    weights, parameters : tuple of int
        External address of each layer's tiles and channel parameters.
    tables, code : int
        External address of the tables, and the first address free for code.
    strips : dict of (int, int) to tuple of int
        By value and layer, addresses of the stripe buffers through which the layer reads or writes
        a value in external memory.
    strip_rows : dict of int to int
        By layer, the rows of its result that it makes at a time, if not all.
    overlap : frozenset of int
        Layers after which the next one may begin early.
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
        """Return the address of a sample of the batch, in its sub-batch, in the unified buffer."""
        place = self.places[value]
        turns = place.addresses
        if not place.whole:
            return turns[item % len(turns)]
        index = item - self.parts[part][0]
        return turns[part % len(turns)] + index * self.layouts[value].item_pitch

    def outside(self, value: int) -> bool:
        """Return whether a value lies in external memory and only passes through buffers."""
        return value not in self.places

    def moved(self, by: int) -> "Placement":
        """Return a placement with all external addresses increased by ``by`` bytes.

        Raises
        ------
        CompileError
            If its code would begin past the last address.
        """
        moved = replace(
            self,
            external={value: address + by for value, address in self.external.items()},
            weights=tuple(address + by for address in self.weights),
            parameters=tuple(address + by for address in self.parameters),
            tables=self.tables + by,
            code=self.code + by,
        )
        if moved.code >> ADDRESS_BITS:
            got = f"wanted at most 4 GiB of external memory, got {moved.code} bytes"
            raise CompileError(got, layer="network")
        return moved
