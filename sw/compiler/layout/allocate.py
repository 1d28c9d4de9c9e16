"""Samples computed at the same time, and addresses of values and constants.

The first layers of a network, which have many pixels, run sample by sample: the per-image layers.
The last ones have fewer pixels than a tile has rows. They run for many samples at once, so that
these share the weights: the batched layers. Values that per-image layers make for batched layers
are kept for all samples. A batch that does not fit runs in sub-batches. While one sample or
sub-batch is computed, the input of the next is loaded, if the buffer has space for both.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from celosia.hw.arch.config import ADDRESS_BITS, TABLE_BYTES, Config
from celosia.sw.compiler import policy
from celosia.sw.compiler.layout.pack import packed_bytes
from celosia.sw.compiler.layout.pitches import Layout
from celosia.sw.compiler.layout.placement import Placement, ValueAddresses, per_image_layers
from celosia.sw.compiler.layout.scratch import spread_layers
from celosia.sw.compiler.layout.spans import Span, bytes_needed, first_fit
from celosia.sw.compiler.layout.stripes import result_rows, source_rows, stripe_bytes, widest
from celosia.sw.compiler.layout.tile import Tiling
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.network import Network, attached
from celosia.sw.layers.spec import Layer, MatrixLayer

#: External addresses of tables start at multiples of this: no burst crosses a 4 KiB page early.
ALIGNMENT = 4096


def allocate(
    network: Network,
    layouts: tuple[Layout, ...],
    tiling: Tiling,
    gains: Sequence[int],
    config: Config,
    batch: int,
) -> Placement | CompileError:
    """Choose addresses of values and constants.

    - ``network``, ``layouts``, ``tiling``, ``config``: results of the passes before, and the core.
    - ``gains``: by layer, the cycles saved if the next layer begins before its end.
    - ``batch``: samples of one run of the program, at least 1.

    Returns the error of a layer if one sample alone does not fit. Raises CompileError if external
    memory is too small for the batch.
    """
    spread = spread_layers(network, tiling.scratch, config)
    allocator = _Allocator(network, layouts, config, gains, spread)
    chosen = allocator.choose(batch)
    if isinstance(chosen, CompileError):
        return chosen
    address = 0

    def take(count: int) -> int:
        nonlocal address
        start = address
        address = -(-(address + count) // ALIGNMENT) * ALIGNMENT
        return start

    constants = [packed_bytes(*p, config) for p in zip(network.layers, tiling.layers, strict=True)]
    pairs = [(take(weights), take(parameters)) for weights, parameters in constants]
    tables = take(TABLE_BYTES * (tiling.tables.size + tiling.exponentials.size))
    external = {
        number: take((1 if value.contents is not None else batch) * value.bytes_per_item)
        for number, value in enumerate(network.values)
        if value.is_input or value.is_output
    }
    for number, value in enumerate(network.values):
        # Samples follow one another in external memory.
        if number in chosen.spilled and number not in external:
            external[number] = take(value.bytes_per_item)
    if address >> ADDRESS_BITS:
        got = f"wanted at most 4 GiB of external memory, got {address} bytes"
        raise CompileError(got, layer="network")
    return Placement(
        per_image=allocator.per_image,
        sub_batches=tuple(
            (first, min(chosen.samples, batch - first)) for first in range(0, batch, chosen.samples)
        ),
        values=chosen.values,
        layouts=layouts,
        external=external,
        weights=tuple(weights for weights, _ in pairs),
        parameters=tuple(parameters for _, parameters in pairs),
        tables=tables,
        code=address,
        stripes=chosen.stripes,
        stripe_rows=chosen.stripe_rows,
        overlap=chosen.overlap,
        direct=chosen.direct,
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
    direct: frozenset[int]


class _Allocator:
    def __init__(
        self,
        network: Network,
        layouts: tuple[Layout, ...],
        config: Config,
        gains: Sequence[int],
        alone: frozenset[int],
    ) -> None:
        self.network = network
        self.layouts = layouts
        self.config = config
        self.per_image = per_image_layers(network, config)
        self.gains = gains
        self.overlap = self.direct = frozenset[int]()
        self.stuck: CompileError | None = None
        self.alone = alone
        self.widest = cache(
            lambda number, values, space: widest(network, layouts, number, values, space, config)
        )

    def choose(self, batch: int) -> _Choice | CompileError:
        """Return the best use of the unified buffer; values too large go outside, largest first.

        Returns the error of a layer if nothing fits.
        """
        kept = self.network.repeated
        large = [n for n in range(len(self.layouts)) if not self.whole(n) and n not in kept]
        large.sort(key=lambda n: -self.layouts[n].sample_pitch)
        ways = [frozenset(large[:count]) for count in range(len(large) + 1)]
        # More values outside leave more space inside.
        first = bisect_left(ways, True, key=self.may_fit)
        for spilled in ways[first:]:
            found = self.best_order(batch, (False,) if spilled else (True, False), spilled)
            if found is not None:
                return found
        if self.stuck is None:
            for spilled in ways[:first]:
                self.best_order(batch, (False,), spilled)
        return self.stuck or self.why()

    def may_fit(self, spilled: frozenset[int]) -> bool:
        """Return whether the values kept inside could fit, even with no other bytes beside them."""
        spans = self.spans(1, False, False, spilled)
        needed = bytes_needed(spans, len(self.network.layers), 1)
        return max(needed) <= self.config.unified_bytes

    def best_order(
        self, batch: int, permanent: Sequence[bool], spilled: frozenset[int]
    ) -> _Choice | None:
        """Return the best use of the buffer, with as many overlapping layers as fit."""

        def fits(ends: frozenset[int]) -> _Choice | None:
            self.overlap = ends | self.direct
            choices = (self.best(batch, way, spilled) for way in permanent)
            return next((choice for choice in choices if choice is not None), None)

        self.direct = self.passed_on(spilled)
        alone = fits(frozenset())
        if alone is None and self.direct:
            self.direct = frozenset()
            alone = fits(frozenset())
        if alone is None:
            return None
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
            return everything
        best, taken = alone, frozenset[int]()
        for end in sorted(ends, key=lambda n: -self.gains[n]):
            found = fits(taken | {end})
            if found is not None and found.samples >= alone.samples:
                best, taken = found, taken | {end}
        return best

    def passed_on(self, spilled: frozenset[int]) -> frozenset[int]:
        """Return the layers whose results the next one reads from buffers, some rows at a time."""
        network, found = self.network, set[int]()
        for number, (layer, after) in enumerate(pairwise(network.layers)):
            result = layer.result
            if (
                result in spilled
                and self.network.readers[result] == [number + 1]
                and self.network.makers[result] == [number]
                and not network.values[result].is_output
                and isinstance(layer, MatrixLayer)
                and isinstance(after, MatrixLayer)
                and layer.source not in spilled
                and after.result not in spilled
                and number + 1 != self.per_image
            ):
                found.add(number)
        return frozenset(found)

    def until(self, number: int) -> int:
        """Return the last layer that may begin before the end of a layer."""
        last = self.end_of_run(number)
        return self.end_of_run(last + 1) if last in self.overlap else number

    def end_of_run(self, number: int) -> int:
        """Return the last layer that runs jointly with a layer."""
        while number + 1 < len(self.network.layers) and attached(self.network, number + 1):
            number += 1
        return number

    def best(self, batch: int, permanent: bool, spilled: frozenset[int]) -> _Choice | None:
        """Return the use for the largest sub-batch that fits, with inputs ahead if possible."""
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
        end = len(self.network.layers)
        spans = []
        for number, value in enumerate(self.network.values):
            layout = self.layouts[number]
            uses, births = self.network.readers[number], self.network.makers[number]
            if number in spilled or not (uses or births):
                continue
            birth = births[0] if births else uses[0]
            if births and attached(self.network, birth):
                birth -= 1
            death = end if value.is_output else self.until(max([birth, *uses]))
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
        return spans

    def buffers(
        self, spans: Sequence[Span], spilled: frozenset[int]
    ) -> tuple[list[Span], dict[int, int]] | None:
        """Return stripe buffers, and the rows of each layer's stripes; None if they do not fit."""
        result: list[Span] = []
        rows: dict[int, int] = {}
        needed = bytes_needed(spans, len(self.network.layers), self.config.rows)
        for number, layer in enumerate(self.network.layers):
            if not spilled & {*layer.sources, layer.result}:
                continue
            if number in self.direct:
                continue
            first = number - 1 if number - 1 in self.direct else number
            taken = max(needed[first : number + 1])
            space = self.config.unified_bytes - taken
            most, turns = self.widest(
                number, spilled.intersection((*layer.sources, layer.result)), space
            )
            if not most:
                self.stuck = CompileError(
                    f"strips of one row do not fit beside {taken} bytes, "
                    f"wanted at most unified_bytes = {self.config.unified_bytes}",
                    layer=layer.name,
                    place=layer.place,
                )
                return None
            height = result_rows(self.network, layer)
            if first < number:
                # The second layer begins after the first one has made a stripe.
                most = min(most, -(-height // policy.DIRECT_STRIPES))
                if turns < 2:
                    return None
            rows[number] = -(-height // -(-height // most))
            if first < number and not _two_buffers_do(self.network, layer, height, rows[number]):
                return None
            sizes = stripe_bytes(self.network, self.layouts, number, rows[number], spilled)
            for value, size in sizes.items():
                result += [Span((value, number, t), size, first, number) for t in range(turns)]
        return result, rows

    def whole(self, number: int) -> bool:
        """Return whether a value is kept for all samples of a sub-batch, for batched layers."""
        network = self.network
        return max([-1, *network.readers[number], *network.makers[number]]) >= self.per_image

    def fit(
        self, samples: int, ahead: bool, permanent: bool, spilled: frozenset[int]
    ) -> _Choice | None:
        """Return the addresses for a size of sub-batch, or None if they do not fit."""
        spans = self.spans(samples, ahead, permanent, spilled)
        found = self.buffers(spans, spilled)
        if found is None:
            return None
        buffers, rows = found
        spans = spans + buffers
        if max(bytes_needed(spans, len(self.network.layers), 1)) > self.config.unified_bytes:
            return None
        by_birth = sorted(spans, key=lambda span: span.birth)
        by_count = sorted(spans, key=lambda span: -span.count)
        for order, alternate in ((by_birth, False), (by_count, False), (by_birth, True)):
            addresses = first_fit(order, self.config, alternate)
            if addresses is not None:
                return self.choice(samples, spilled, addresses, rows, permanent)
        return None

    def choice(
        self,
        samples: int,
        spilled: frozenset[int],
        addresses: dict[tuple[int, int, int], int],
        rows: dict[int, int],
        permanent: bool,
    ) -> _Choice:
        """Return the use of the buffer with the given addresses of all copies."""
        copies: dict[tuple[int, int], tuple[int, ...]] = {}
        for value, layer, turn in sorted(addresses):
            copies[value, layer] = (*copies.get((value, layer), ()), addresses[value, layer, turn])
        layouts = self.layouts
        values = {
            value: ValueAddresses(turns, self.whole(value), permanent and layouts[value].margins)
            for (value, layer), turns in copies.items()
            if layer < 0
        }
        stripes = {key: turns for key, turns in copies.items() if key[1] >= 0}
        return _Choice(samples, spilled, values, stripes, rows, self.overlap, self.direct)

    def why(self) -> CompileError:
        """Return the error of a network of which one sample does not fit: its largest layer."""
        network = self.network

        def need(number: int) -> int:
            layer = network.layers[number]
            return sum(self.layouts[v].sample_pitch for v in (*layer.sources, layer.result))

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


def _two_buffers_do(network: Network, layer: Layer, height: int, rows: int) -> bool:
    """Return whether a layer's stripes of ``rows`` can read two buffers in turn.

    A row passed to the next layer is written into the buffers of this stripe and of the next one,
    so three must not read it. A stripe that reads margins alone would wait for nothing.
    """
    reads = [source_rows(layer, (n, min(n + rows, height))) for n in range(0, height, rows)]
    last = network.values[layer.sources[0]].height
    if not all(one[0] < last and one[1] > 0 for one in reads):
        return False
    return all(one[1] <= other[0] for one, other in zip(reads, reads[2:], strict=False))
