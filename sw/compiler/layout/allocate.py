"""Samples computed at the same time, and addresses of values and constants.

The first layers of a network, which have many pixels, run sample by sample: the per-image layers.
The last ones have fewer pixels than a tile has rows. They run for many samples at once, so that
these share the weights: the batched layers. Values that per-image layers make for batched layers
are kept for all samples. A batch that does not fit runs in sub-batches. While one sample or
sub-batch is computed, the input of the next is loaded, if the buffer has space for both.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from celosia.hw.arch.config import Config
from celosia.sw.compiler import policy
from celosia.sw.compiler.layout.chains import Chain, Chains, with_buffers
from celosia.sw.compiler.layout.external import external_memory
from celosia.sw.compiler.layout.in_place import in_place, in_turn, users
from celosia.sw.compiler.layout.pitches import Layout
from celosia.sw.compiler.layout.placement import (
    Placement,
    ValueAddresses,
    per_image_layers,
)
from celosia.sw.compiler.layout.scratch import spread_layers
from celosia.sw.compiler.layout.spans import Span, begin_early, bytes_needed, first_fit
from celosia.sw.compiler.layout.stripes import Passage
from celosia.sw.compiler.layout.tile import Tiling
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.network import Network, attached, end_of_run
from celosia.sw.layers.spec import DynamicProduct


def allocate(
    network: Network,
    layouts: tuple[Layout, ...],
    tiling: Tiling,
    gains: Sequence[int],
    cycles: Callable[[int, int], tuple[int, int]],
    config: Config,
    batch: int,
) -> Placement | CompileError:
    """Choose addresses of values and constants.

    - ``network``, ``layouts``, ``tiling``, ``config``: results of the passes before, and the core.
    - ``gains``: by layer, the cycles saved if the next layer begins before its end.
    - ``cycles``: cycles of a layer in the array and in the vector unit, in some row stripes.
    - ``batch``: samples of one run of the program, at least 1.

    Returns the error of a layer if one sample alone does not fit. Raises CompileError if external
    memory is too small for the batch.
    """
    spread = spread_layers(network, tiling.scratch, config)
    per_image = per_image_layers(network, config)
    chains = Chains(network, layouts, tiling, config, per_image, cycles)
    allocator = _Allocator(network, layouts, config, gains, spread, chains)
    chosen: _Choice | CompileError | None = None
    for share in policy.LATE_SHARES:
        if chosen is None or (isinstance(chosen, CompileError) and allocator.late):
            allocator.late = allocator.stored_in_parts(batch, share)
            chosen = allocator.choose(batch)
    if not isinstance(chosen, _Choice):
        assert chosen
        return chosen
    return Placement(
        per_image=allocator.per_image,
        sub_batches=tuple(
            (first, min(chosen.samples, batch - first)) for first in range(0, batch, chosen.samples)
        ),
        values=chosen.values,
        layouts=layouts,
        stripes=chosen.stripes,
        stripe_rows=chosen.stripe_rows,
        overlap=chosen.overlap,
        late=allocator.late,
        direct=chosen.direct,
        **external_memory(network, tiling, chosen.spilled, batch, config)._asdict(),
    )


@dataclass(frozen=True)
class _Choice:
    """One use of the unified buffer."""

    samples: int
    spilled: frozenset[int]
    values: dict[int, ValueAddresses]
    stripes: dict[tuple[int, int], tuple[int, ...]]
    stripe_rows: dict[int, int]
    overlap: frozenset[int]
    direct: Mapping[int, Passage]


class _Allocator:
    def __init__(
        self,
        network: Network,
        layouts: tuple[Layout, ...],
        config: Config,
        gains: Sequence[int],
        alone: frozenset[int],
        chains: Chains,
    ) -> None:
        self.network = network
        self.layouts = layouts
        self.config = config
        self.per_image = chains.per_image
        self.gains = gains
        self.overlap = frozenset[int]()
        self.alone = alone
        #: First layers in which inputs may have bytes.
        self.earliest = {
            number: max(readers[0] - policy.LEAD_LAYERS, network.stored_by.get(number, -1) + 1)
            for number, readers in enumerate(network.readers)
            if readers and network.values[number].is_input
            if not network.makers[number] and number not in network.in_turn
        }
        self.chains = chains
        #: Layers whose results are stored in parts, while the next layer runs.
        self.late = frozenset[int]()
        #: Bytes of the buffer, up to which inputs have theirs before their first readers.
        self.early_bytes = 0
        self.births: dict[int, int] = {}
        self.in_place = in_place(network, layouts, config) | in_turn(network)
        #: Values that take the place of each value.
        self.results = {source: list[int]() for source in self.in_place.values()}
        for number, source in self.in_place.items():
            self.results[source].append(number)
        #: By value that is inside: its first and its last layer, and whether it is stored late.
        self.lives = {n: life for n in range(len(layouts)) if (life := self.life(n))}

    def choose(self, batch: int) -> _Choice | CompileError:
        """Return the best use of the unified buffer; values too large go outside, largest first.

        Returns the error of a layer if nothing fits.
        """
        kept = self.network.repeated
        large = [n for n in self.lives if not self.whole(n) and n not in kept]
        large.sort(key=lambda n: -self.layouts[n].sample_pitch)
        ways = [frozenset(large[:count]) for count in range(len(large) + 1)]
        # More values outside leave more space inside.
        first = bisect_left(ways, True, key=self.may_fit)
        for spilled in self.by_cycles(ways[first:]):
            found = self.best_order(batch, (False,) if spilled else (True, False), spilled)
            if found is not None:
                return found
        if self.chains.stuck is None:
            for spilled in ways[:first]:
                self.best_order(batch, (False,), spilled)
        return self.chains.stuck or self.why()

    def by_cycles(self, ways: list[frozenset[int]]) -> Iterator[frozenset[int]]:
        """Yield sets of values outside; all values inside first, then by the estimated cycles."""
        if ways and not ways[0]:
            yield ways.pop(0)
        found: list[tuple[int, int]] = []
        for index, spilled in enumerate(ways):
            spans = self.spans(1, False, False, spilled)
            chosen = self.chains.choose(spans, spilled, self.config.unified_bytes)
            if chosen is not None:
                found.append((chosen[0], index))
        yield from (ways[index] for _, index in sorted(found))

    def may_fit(self, spilled: frozenset[int]) -> bool:
        """Return whether the values kept inside could fit, even with no other bytes beside them."""
        spans = self.spans(1, False, False, spilled)
        needed = bytes_needed(spans, len(self.network.layers), 1)
        return max(needed) <= self.config.unified_bytes

    def best_order(
        self, batch: int, permanent: Sequence[bool], spilled: frozenset[int]
    ) -> _Choice | None:
        """Return the best use of the buffer: overlapping layers, then inputs early, as many fit."""

        def fits(ends: frozenset[int], early: int = 0) -> _Choice | None:
            self.overlap, self.early_bytes = ends, early
            choices = (self.largest(batch, way, spilled) for way in permanent)
            return next((choice for choice in choices if choice is not None), None)

        alone = fits(frozenset())
        if alone is None:
            return None
        best, taken = self.overlapping(fits, alone, spilled)
        for share in () if self.per_image else policy.EARLY_SHARES:
            choice = fits(taken, int(share * self.config.unified_bytes))
            if choice is not None and choice.samples >= best.samples:
                return choice
        return best

    def overlapping(
        self,
        fits: Callable[[frozenset[int]], _Choice | None],
        alone: _Choice,
        spilled: frozenset[int],
    ) -> tuple[_Choice, frozenset[int]]:
        """Return the use with as many overlapping layers as fit, and these layers."""
        network = self.network
        outside = [
            not spilled.isdisjoint((*layer.sources, layer.result)) or n in self.alone
            for n, layer in enumerate(network.layers)
        ]
        ends = [
            n
            for n in range(len(network.layers) - 1)
            if not (attached(network, n + 1) or outside[n] or outside[n + 1])
        ]
        everything = fits(frozenset(ends))
        if everything is not None and everything.samples >= alone.samples:
            return everything, frozenset(ends)
        best, taken = alone, frozenset[int]()
        for end in sorted(ends, key=lambda n: -self.gains[n])[: policy.END_TRIALS // len(outside)]:
            found = fits(taken | {end})
            if found is not None and found.samples >= alone.samples:
                best, taken = found, taken | {end}
        return best, taken

    def until(self, number: int) -> int:
        """Return the last layer that may begin before the end of a layer."""
        last = end_of_run(self.network, number)
        return end_of_run(self.network, last + 1) if last in self.overlap else number

    def largest(self, batch: int, permanent: bool, spilled: frozenset[int]) -> _Choice | None:
        """Return the use for the largest sub-batch, with inputs of the next one if they fit."""
        fit = cache(lambda samples, ahead: self.fit(samples, ahead, permanent, spilled))
        whole = fit(batch, False)
        if whole is not None and not self.per_image:
            return whole
        alone = _largest(lambda samples: fit(samples, False), batch)
        values = enumerate(self.network.values)
        ahead = any(value.is_input and number not in spilled for number, value in values)
        double = _largest(lambda samples: fit(samples, ahead), batch)
        # With fewer pixels than a tile has rows, the array waits for weights.
        if double is not None and (
            alone is None or double.samples >= self.config.rows or double.samples == alone.samples
        ):
            return double
        return alone

    def spans(
        self, samples: int, ahead: bool, permanent: bool, spilled: frozenset[int]
    ) -> list[Span]:
        """Return the copies of all values that the unified buffer holds whole."""
        end, values = len(self.network.layers), self.network.values
        spans = []
        for number, life in self.lives.items():
            if number in spilled or number in self.in_place:
                continue
            value, layout, (birth, last, is_late) = values[number], self.layouts[number], life
            # Batched layers store an output when it is complete.
            stays = value.is_output and self.per_image > 0
            death = end if stays else self.until(last)
            if is_late:
                # Its store comes after the first sums of the next layer.
                death = self.until(min(end_of_run(self.network, death) + 1, end - 1))
            elif not self.late.isdisjoint(self.network.makers[number]):
                death = max(death, end_of_run(self.network, last) + 1)
            count = layout.sample_pitch * (samples if self.whole(number) else 1)
            # An input of per-image and batched layers arrives by sample, and stays.
            both = self.whole(number) and birth < self.per_image
            turns = 2 if ahead and value.is_input and not both else 1
            if turns == 2 or (permanent and layout.margins):
                birth, death = 0, end
            elif both and samples > 1:
                # Per-image layers go on with other samples after it is written.
                birth = 0
            spans += [Span((number, -1, turn), count, birth, death) for turn in range(turns)]
        return begin_early(spans, self.earliest, end, self.early_bytes)

    def life(self, number: int) -> tuple[int, int, bool] | None:
        """Return first and last layer of a value, and if it is stored late; None without layers."""
        network, results = self.network, self.results.get(number, [])
        uses, births = network.readers[number], network.makers[number]
        if not (uses or births):
            return None
        birth = births[0] - attached(network, births[0]) if births else uses[0]
        ends = [n for value in results for n in users(network, value)]
        makers = [*births, *(n for value in results for n in network.makers[value])]
        return birth, max([birth, *births, *uses, *ends]), any(map(self.stores_late, makers))

    def stores_late(self, number: int) -> bool:
        """Return whether a layer's results are stored after the next sums are made."""
        layer = self.network.layers[number]
        return isinstance(layer, DynamicProduct) and layer.stepped >= 0

    def stored_in_parts(self, batch: int, share: float) -> frozenset[int]:
        """Return the layers whose results stay until they are stored while the next layer runs.

        Those with large results, with which a ``share`` of the unified buffer at most is taken.
        """
        network, chosen, end = self.network, set[int](), len(self.network.layers)
        if self.per_image or batch > 1:
            return frozenset()
        space, self.late = int(share * self.config.unified_bytes), frozenset()
        used = bytes_needed(self.spans(1, False, False, frozenset()), end, 1)
        for number, (_, last, is_late) in self.lives.items():
            count, after = self.layouts[number].sample_pitch, end_of_run(self.network, last) + 1
            large = network.values[number].is_output and count >= policy.LATE_BYTES
            if not large or is_late or number in self.in_place or after == end:
                continue
            product = isinstance(network.layers[last], DynamicProduct)
            if product and last in network.makers[number] and used[after] + count <= space:
                chosen.add(last)
                used[after] += count
        return frozenset(chosen)

    def whole(self, number: int) -> bool:
        """Return whether a value is kept for all samples of a sub-batch, for batched layers."""
        network = self.network
        return max([-1, *network.readers[number], *network.makers[number]]) >= self.per_image

    def fit(
        self, samples: int, ahead: bool, permanent: bool, spilled: frozenset[int]
    ) -> _Choice | None:
        """Return the addresses for a size of sub-batch, or None if they do not fit."""
        copies = self.spans(samples, ahead, permanent, spilled)
        for share in (0, *policy.CHAIN_SLACK) if spilled else (0,):
            space = self.config.unified_bytes
            space -= space >> share if share else 0
            chosen = self.chains.choose(copies, spilled, space)
            if chosen is None:
                return None
            spans = with_buffers(copies, chosen[1])
            if max(bytes_needed(spans, len(self.network.layers), 1)) > self.config.unified_bytes:
                return None
            by_birth = sorted(spans, key=lambda span: span.birth)
            by_count = sorted(spans, key=lambda span: -span.count)
            for order, alternate in ((by_birth, False), (by_count, False), (by_birth, True)):
                addresses = first_fit(order, self.config, alternate)
                if addresses is not None:
                    for number, source in self.in_place.items():
                        addresses[number, -1, 0] = addresses[source, -1, 0]
                    self.births = {span.key[0]: span.birth for span in spans if span.key[1] < 0}
                    return self.choice(samples, spilled, addresses, chosen[1], permanent)
        return None

    def choice(
        self,
        samples: int,
        spilled: frozenset[int],
        addresses: dict[tuple[int, int, int], int],
        chains: Sequence[Chain],
        permanent: bool,
    ) -> _Choice:
        """Return the use of the buffer with the given addresses of all copies."""
        copies: dict[tuple[int, int], tuple[int, ...]] = {}
        for value, layer, turn in sorted(addresses):
            copies[value, layer] = (*copies.get((value, layer), ()), addresses[value, layer, turn])
        layouts = self.layouts
        values = {
            value: ValueAddresses(
                turns,
                self.whole(value),
                permanent and layouts[value].margins,
                self.births.get(value, 0),
            )
            for (value, layer), turns in copies.items()
            if layer < 0
        }
        stripes = {key: turns for key, turns in copies.items() if key[1] >= 0}
        rows = {chain.last: chain.rows for chain in chains}
        direct = {n: passed for chain in chains for n, passed in chain.passages.items()}
        overlap = self.overlap | direct.keys()
        return _Choice(samples, spilled, values, stripes, rows, overlap, direct)

    def why(self) -> CompileError:
        """Return the error of a network of which one sample does not fit: its largest layer."""
        network = self.network

        def need(number: int) -> int:
            layer = network.layers[number]
            values = (v for v in (*layer.sources, layer.result) if v not in self.in_place)
            return sum(self.layouts[v].sample_pitch for v in values)

        number = max(range(len(network.layers)), key=need)
        return CompileError(
            f"activations of one item take {need(number)} bytes "
            f"beside others still needed, wanted at most "
            f"unified_bytes = {self.config.unified_bytes}",
            layer=network.layers[number].name,
            place=network.layers[number].place,
        )


def _largest(fit: Callable[[int], _Choice | None], batch: int) -> _Choice | None:
    """Return the use for the largest even sub-batch that fits."""
    low, high = 0, batch + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fit(middle) is not None else (low, middle)
    return fit(-(-batch // -(-batch // low))) if low else None
