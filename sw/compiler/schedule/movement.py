"""Loads and stores of a schedule: inputs, outputs, row stripes and margins."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise

from celosia.sw.compiler import policy
from celosia.sw.compiler.layout.placement import Arranged
from celosia.sw.compiler.layout.stripes import source_rows
from celosia.sw.compiler.schedule.actions import (
    Action,
    FillMargins,
    LoadRegion,
    Region,
    StoreRegion,
    Stripe,
)
from celosia.sw.layers.network import attached
from celosia.sw.layers.spec import Range


class Movement(Arranged):
    """Loads and stores of a program, by layer, sub-batch and samples."""

    @cached_property
    def first_use(self) -> dict[int, int]:
        """First layer that reads each value."""
        layers = reversed([*enumerate(self.network.layers)])
        return {source: number for number, layer in layers for source in layer.sources}

    @cached_property
    def loaded_at(self) -> dict[int, int]:
        """Layer with which the load of each value comes: its first reader, or one before that."""
        result = dict(self.first_use)
        if self.placement.per_image:
            return result
        for value, use in self.first_use.items():
            kept = self.placement.values.get(value)
            first = use if kept is None else min(use, kept.since)
            while first < use and attached(self.network, first):
                first += 1
            result[value] = first
        return result

    @cached_property
    def early(self) -> dict[int, list[int]]:
        """Values that are loaded with a layer that does not read them, by layer."""
        values: dict[int, list[int]] = {n: [] for n in range(len(self.network.layers))}
        for value, number in self.loaded_at.items():
            if value not in self.network.layers[number].sources:
                values[number].append(value)
        return values

    def load_stripe(
        self, number: int, sub_batch: int, samples: Range, cut: Sequence[Range], index: int
    ) -> Iterator[Action]:
        """Yield the loads of the source rows that a stripe reads, and their margins."""
        layer = self.network.layers[number]
        if index >= len(cut) or cut[index][0] == cut[index][1]:
            return
        rows = source_rows(layer, cut[index])
        for value in dict.fromkeys(layer.sources):
            stripe = self.buffer(value, number, index, rows[0])
            if stripe is None or self.passage(value):
                continue
            region = self.everything(value, sub_batch, samples)._replace(rows=rows, stripe=stripe)
            layout = self.placement.layouts[value]
            if layout.margins or layout.beyond:
                yield FillMargins(region=region, layer=number)
            inside = max(rows[0], 0), min(rows[1], self.network.values[value].height)
            if inside[0] < inside[1]:
                yield LoadRegion(region=region._replace(rows=inside), layer=number)

    def buffer(self, value: int, number: int, index: int, first: int) -> Stripe | None:
        """Return the buffer of a layer's stripe, which begins at row ``first`` of a value.

        None for a value that the unified buffer holds.
        """
        if not self.placement.outside(value):
            return None
        passed = self.passage(value)
        if passed:
            return Stripe(layer=number, turn=0, first=passed.first(index))
        turns = len(self.placement.stripes[value, number])
        return Stripe(layer=number, turn=index % turns, first=first)

    def is_fresh(self, number: int, value: int, sub_batch: int, samples: Range) -> bool:
        """Return whether a layer is the first reader of an input that has not been loaded ahead."""
        if not self.network.values[value].is_input or self.placement.outside(value):
            return False
        if self.loaded_at[value] != number or value in self.network.in_turn:
            return False
        ahead = len(self.placement.values[value].addresses) == 2
        return not ahead or (
            samples[0] == 0 if not self.placement.values[value].whole else sub_batch == 0
        )

    def is_vector(self, value: int) -> bool:
        """Return whether a value is one row without margins."""
        about, layout = self.network.values[value], self.placement.layouts[value]
        return about.height == 1 and not layout.margins

    def everything(self, value: int, sub_batch: int, samples: Range) -> Region:
        """Return the region of all of a value."""
        about = self.network.values[value]
        columns = (0, about.width * self.placement.layouts[value].pixel)
        return Region(value, sub_batch, samples, (0, about.height), columns)

    def margins(self, value: int, sub_batch: int, samples: Range, number: int) -> Iterator[Action]:
        """Yield the writing of margins whose memory has had other contents."""
        layout = self.placement.layouts[value]
        if not layout.margins or self.placement.values[value].permanent:
            return
        if number > min([number, *self.network.makers[value]]):
            return
        rows = (-layout.top, self.network.values[value].height + layout.bottom)
        for sample in range(*samples):
            region = self.everything(value, sub_batch, (sample, sample + 1))._replace(rows=rows)
            yield FillMargins(region=region, layer=number)

    def load(self, number: int, value: int, sub_batch: int, samples: Range) -> Iterator[Action]:
        """Yield loads of a layer's source, some rows at a time."""
        yield from self.margins(value, sub_batch, samples, number)
        region = self.everything(value, sub_batch, samples)
        for rows in self.regions(region, self.first_rows(value)):
            yield LoadRegion(region=rows, layer=number)

    def store(self, number: int, region: Region) -> Iterator[Action]:
        """Yield stores of the complete rows of an output."""
        if self.network.values[region.value].is_output:
            for rows in self.regions(region):
                yield StoreRegion(region=rows, layer=number)

    def first_rows(self, value: int) -> int:
        """Return the rows of an image that the first load brings; an image may have fewer."""
        about = self.network.values[value]
        return max(1, policy.FIRST_BYTES // (about.width * about.channels))

    def regions(self, region: Region, first: int | None = None) -> Iterator[Region]:
        """Yield the region of each load or store of whole rows, ``first`` rows first."""
        value = self.network.values[region.value]
        if self.is_vector(region.value):
            yield region
            return
        step = max(1, policy.LOAD_BYTES // (value.width * value.channels))
        begin, end = region.rows
        ends = [begin, *range(begin + (first or step), end, step), end]
        for sample in range(*region.samples):
            for rows in pairwise(ends):
                yield region._replace(samples=(sample, sample + 1), rows=rows)

    def prefetch(self, number: int, sub_batch: int, samples: Range) -> Iterator[Action]:
        """Yield the loads of the next sample's or sub-batch's inputs with a separate address."""
        sub_batches = self.placement.sub_batches
        for value in dict.fromkeys(self.network.layers[number].sources):
            if not self.network.values[value].is_input or self.placement.outside(value):
                continue
            if self.first_use[value] != number:
                continue
            kept = self.placement.values[value]
            last = sum(sub_batches[sub_batch])
            after = sub_batch if not kept.whole and samples[1] < last else sub_batch + 1
            if len(kept.addresses) == 2 and after < len(sub_batches):
                following = (samples[1], samples[1] + 1)
                if kept.whole:
                    following = (sub_batches[after][0], sum(sub_batches[after]))
                yield from self.load(number, value, after, following)
