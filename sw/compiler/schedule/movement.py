"""Loads and stores of a schedule: inputs, outputs, row stripes and margins."""

from collections.abc import Iterator
from itertools import pairwise

from celosia.hw.arch.config import Config
from celosia.sw.compiler.layout.placement import Placement
from celosia.sw.compiler.layout.strips import source_rows
from celosia.sw.compiler.layout.tile import Tiling
from celosia.sw.compiler.schedule.actions import (
    Action,
    FillMargins,
    LoadRegion,
    Region,
    StoreRegion,
    Strip,
)
from celosia.sw.compiler.spec import Network

__all__ = ["Movement"]

#: Bytes of an image in one load.
_LOAD_BYTES = 1024
#: Bytes of an image in the first load: few, so that the array starts soon.
_FIRST_BYTES = 192


class Movement:
    """Loads and stores of a program, by layer, sub-batch and samples.

    Parameters
    ----------
    network, tiling, placement, config
        Results of the passes before, and the core.
    """

    def __init__(
        self, network: Network, tiling: Tiling, placement: Placement, config: Config
    ) -> None:
        self.network = network
        self.tiling = tiling
        self.placement = placement
        self.config = config
        self.first_use = {
            source: number
            for number, layer in reversed([*enumerate(network.layers)])
            for source in layer.sources
        }

    def load_strips(
        self,
        number: int,
        part: int,
        items: tuple[int, int],
        cut: list[tuple[int, int]],
        place: int,
    ) -> Iterator[Action]:
        """Yield the loads of the source rows that a stripe reads, and their margins."""
        layer = self.network.layers[number]
        if place >= len(cut):
            return
        rows = source_rows(layer, cut[place])
        for value in dict.fromkeys(layer.sources):
            strip = self.buffer(value, number, place, rows[0])
            if strip is None or (
                number - 1 in self.placement.direct
                and value == self.network.layers[number - 1].result
            ):
                continue
            region = self.everything(value, part, items)._replace(rows=rows, strip=strip)
            if self.placement.layouts[value].margins:
                yield FillMargins(region=region, layer=number)
            inside = max(rows[0], 0), min(rows[1], self.network.values[value].height)
            if inside[0] < inside[1]:
                yield LoadRegion(region=region._replace(rows=inside), layer=number)

    def buffer(self, value: int, number: int, place: int, first: int) -> Strip | None:
        """Return the buffer of a layer's stripe that begins at row ``first`` of an external value.

        None for a value that the unified buffer holds.
        """
        if not self.placement.outside(value):
            return None
        turns = len(self.placement.strips[value, number])
        return Strip(layer=number, turn=place % turns, first=first)

    def is_fresh(self, number: int, value: int, part: int, items: tuple[int, int]) -> bool:
        """Return whether a layer is the first reader of an input that has not been loaded ahead."""
        if not self.network.values[value].is_input or self.first_use[value] != number:
            return False
        if self.placement.outside(value):
            return False
        ahead = len(self.placement.places[value].addresses) == 2
        return not ahead or (items[0] == 0 if not self.placement.places[value].whole else part == 0)

    def is_vector(self, value: int) -> bool:
        """Return whether a value is one row without margins."""
        about, layout = self.network.values[value], self.placement.layouts[value]
        return about.height == 1 and not layout.margins

    def everything(self, value: int, part: int, items: tuple[int, int]) -> Region:
        """Return the region of all of a value."""
        about = self.network.values[value]
        columns = (0, about.width * about.channels)
        return Region(value=value, part=part, items=items, rows=(0, about.height), columns=columns)

    def margins(
        self, value: int, part: int, items: tuple[int, int], number: int
    ) -> Iterator[Action]:
        """Yield the writing of margins whose memory has had other contents."""
        layout = self.placement.layouts[value]
        if not layout.margins or self.placement.places[value].permanent:
            return
        if number > min([number, *self.network.makers[value]]):
            return
        rows = (-layout.top, self.network.values[value].height + layout.bottom)
        for item in range(*items):
            region = self.everything(value, part, (item, item + 1))._replace(rows=rows)
            yield FillMargins(region=region, layer=number)

    def load(self, number: int, value: int, part: int, items: tuple[int, int]) -> Iterator[Action]:
        """Yield loads of a layer's source, some rows at a time."""
        yield from self.margins(value, part, items, number)
        region = self.everything(value, part, items)
        for piece in self.pieces(region, self.first_rows(value)):
            yield LoadRegion(region=piece, layer=number)

    def store(self, number: int, region: Region) -> Iterator[Action]:
        """Yield stores of the complete rows of an output."""
        if self.network.values[region.value].is_output:
            for piece in self.pieces(region):
                yield StoreRegion(region=piece, layer=number)

    def first_rows(self, value: int) -> int:
        """Return the rows of an image that the first load brings; an image may have fewer."""
        about = self.network.values[value]
        return max(1, _FIRST_BYTES // (about.width * about.channels))

    def pieces(self, region: Region, first: int | None = None) -> Iterator[Region]:
        """Yield the region of each load or store of whole rows, ``first`` rows first."""
        value = self.network.values[region.value]
        if self.is_vector(region.value):
            yield region
            return
        step = max(1, _LOAD_BYTES // (value.width * value.channels))
        begin, end = region.rows
        ends = [begin, *range(begin + (first or step), end, step), end]
        for item in range(*region.items):
            for rows in pairwise(ends):
                yield region._replace(items=(item, item + 1), rows=rows)

    def prefetch(self, number: int, part: int, items: tuple[int, int]) -> Iterator[Action]:
        """Yield the loads of the next sample's or sub-batch's inputs with a separate address."""
        parts = self.placement.parts
        for value in dict.fromkeys(self.network.layers[number].sources):
            if not self.network.values[value].is_input or self.first_use[value] != number:
                continue
            if self.placement.outside(value):
                continue
            place = self.placement.places[value]
            last = sum(parts[part])
            after = part if not place.whole and items[1] < last else part + 1
            if len(place.addresses) == 2 and after < len(parts):
                following = (items[1], items[1] + 1)
                if place.whole:
                    following = (parts[after][0], sum(parts[after]))
                yield from self.load(number, value, after, following)
