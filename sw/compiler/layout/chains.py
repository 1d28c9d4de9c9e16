"""Chains: layers whose rows pass from one to the next inside the unified buffer.

A value that the unified buffer does not hold whole would go through external memory. If only the
next layer reads it, its rows can pass through a buffer instead: see ``stripes.Passage``. Several
such layers are a chain, which works turn by turn: some rows of the last result, and for these the
rows that every layer before it makes. A layer by itself is the shortest chain.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from celosia.hw.arch.config import Config
from celosia.sim.timing.costs import drain_gap
from celosia.sw.compiler import policy
from celosia.sw.compiler.layout.pitches import Layout
from celosia.sw.compiler.layout.spans import Span
from celosia.sw.compiler.layout.stripes import (
    Passage,
    even_rows,
    joint_cycles,
    passage,
    result_rows,
    row_beats,
    rows_after,
    source_rows,
    widest,
)
from celosia.sw.compiler.layout.tile import Tiling
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.network import Network
from celosia.sw.layers.spec import MatrixLayer, Pooling, Sum

#: Bytes of the buffers of values, and their number, by value and the layer that they serve.
Buffers = dict[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class Chain:
    """Layers ``first`` to ``last``, and their buffers."""

    first: int
    last: int
    rows: int  #: Rows of the last result in each turn.
    passages: dict[int, Passage]  #: Of the results of all layers but the last, by layer.
    buffers: Buffers
    cycles: int  #: Estimated.


@dataclass(frozen=True)
class _Link:
    """Rows of a layer's result that pass in each turn, and further rows that a turn reads."""

    number: int
    step: int
    halo: int
    period: int

    @property
    def rows(self) -> int:
        """Rows of the buffer."""
        return self.period * self.step + self.halo


@dataclass(frozen=True)
class _Plan:
    """Approximate buffers of a chain for some rows of the last result in each turn."""

    numbers: Sequence[int]
    rows: int
    turns: int
    links: tuple[_Link, ...]
    #: Rows of a stripe of each value in external memory, by value and the layer that it serves.
    outer: dict[tuple[int, int], int]


class Chains:
    """Choice of the chains of a network.

    - ``network``, ``layouts``, ``tiling``, ``config``: results of the passes before, and the core.
    - ``per_image``: number of per-image layers.
    - ``cycles``: cycles of a layer in the array and in the vector unit, in some stripes.
    """

    def __init__(
        self,
        network: Network,
        layouts: Sequence[Layout],
        tiling: Tiling,
        config: Config,
        per_image: int,
        cycles: Callable[[int, int], tuple[int, int]],
    ) -> None:
        self.network = network
        self.layouts = layouts
        self.tiling = tiling
        self.config = config
        self.per_image = per_image
        self.cycles = cache(cycles)
        self.best = cache(self._best)
        self.stuck: CompileError | None = None

    def choose(
        self, spans: Sequence[Span], spilled: frozenset[int], space: int
    ) -> tuple[int, list[Chain]] | None:
        """Return estimated cycles, and the chains of all layers with values outside.

        ``spans``: copies of the values that the unified buffer of ``space`` bytes holds whole.
        Returns None if a layer does not fit.
        """
        network, config = self.network, self.config
        count = len(network.layers)
        outside = [spilled.intersection((*x.sources, x.result)) for x in network.layers]
        #: By layer: the cycles of all layers before it, and the chain that ends before it.
        best: list[tuple[int, Chain | None]] = [(0, None)]
        for last in range(count):
            if not outside[last]:
                best.append((best[last][0] + max(self.cycles(last, 1)), None))
                continue
            options = []
            for first in range(last, max(-1, last - policy.CHAIN_LAYERS), -1):
                if first < last and not self.links(first, spilled):
                    break
                units = sum(
                    -(-span.count // config.rows)
                    for span in spans
                    if span.birth <= last and first <= span.death
                )
                values = frozenset[int]().union(*outside[first : last + 1])
                chain = self.best(first, last, space - units * config.rows, values)
                if chain:
                    options.append((best[first][0] + chain.cycles, chain))
                elif first == last:
                    self.refuse(last, units * config.rows)
            if not options:
                return None
            best.append(min(options, key=lambda option: option[0]))
        chains, end = list[Chain](), count
        while end:
            chain = best[end][1]
            chains += [chain] if chain else []
            end = chain.first if chain else end - 1
        return best[-1][0], chains[::-1]

    def refuse(self, number: int, taken: int) -> None:
        """Record the error of a layer of which not even one row fits."""
        layer = self.network.layers[number]
        self.stuck = CompileError(
            f"strips of one row do not fit beside {taken} bytes, "
            f"wanted at most unified_bytes = {self.config.unified_bytes}",
            layer=layer.name,
            place=layer.place,
        )

    def links(self, number: int, spilled: frozenset[int]) -> bool:
        """Return whether rows of a layer's result may pass to the next layer."""
        network = self.network
        value = network.layers[number].result
        return (
            value in spilled
            and network.readers[value] == [number + 1]
            and network.makers[value] == [number]
            and not network.values[value].is_output
            and number + 1 != self.per_image
            and all(
                isinstance(layer, MatrixLayer | Sum)
                or (isinstance(layer, Pooling) and layer.seen is None)
                for layer in network.layers[number : number + 2]
            )
        )

    def _best(self, first: int, last: int, space: int, outside: frozenset[int]) -> Chain | None:
        """Return the chain of some layers that takes the fewest cycles, if one fits into a space.

        ``outside``: their values that the unified buffer does not hold whole.
        """
        numbers = range(first, last + 1)
        height = result_rows(self.network, self.network.layers[last])
        if first == last:
            widest_rows, turns = widest(
                self.network, self.layouts, first, outside, space, self.config
            )
            rows = -(-height // -(-height // widest_rows)) if widest_rows else 0
            return self.chain(self.plan(numbers, rows, outside), turns) if widest_rows else None
        plans = []
        for rows in sorted(
            {-(-height // turns) for turns in range(policy.CHAIN_TURNS, height + 1)}
        ):
            plan = self.grown(self.plan(numbers, rows, outside), space)
            if plan is None:
                break
            plans.append(plan)
        plans.sort(key=self.estimated)
        chains = (self.chain(plan, 2) for plan in plans)
        return next((c for c in chains if c and self.bytes(c.buffers) <= space), None)

    def plan(self, numbers: Sequence[int], rows: int, outside: frozenset[int]) -> _Plan:
        """Return the least buffers of a chain for ``rows`` of the last result in each turn."""
        layers, (last, *_) = self.network.layers, numbers[::-1]
        height = result_rows(self.network, layers[last])
        turns, step, links = -(-height // rows), rows, list[_Link]()
        outer = {(layers[last].result, last): rows} if layers[last].result in outside else {}
        for number in reversed(numbers):
            layer = layers[number]
            height = result_rows(self.network, layer)
            # The first turn makes more rows.
            some = min(height, step + (links[-1].halo if links else 0))
            passed = layers[number - 1].result if number > numbers[0] else None
            for source in outside.intersection(layer.sources) - {passed}:
                reads = (source_rows(layer, stripe) for stripe in even_rows(height, some))
                outer[source, number] = max(end - begin for begin, end in reads)
            if passed is not None:
                layout, step = self.layouts[passed], min(step, height)
                middle = min((height - step) // 2, height - step - 1) if height > step else 0
                begin, end = source_rows(layer, (middle, middle + step))
                step = max(
                    1, source_rows(layer, (min(middle + step, height - 1), height))[0] - begin
                )
                halo = max(0, end - begin - step) + rows_after(layout, layout.beyond)
                further = halo + rows_after(layout, layout.spare)
                links.append(_Link(number - 1, step, halo, min(turns, 2 + -(-further // step))))
        return _Plan(numbers, rows, turns, tuple(links), outer)

    def grown(self, plan: _Plan, space: int) -> _Plan | None:
        """Return a plan with longer laps, as far as they fit; None if it does not fit at all.

        Rows that two laps read are written twice: fewer are if laps are longer.
        """

        def fits(links: Sequence[_Link]) -> bool:
            buffers: Buffers = {
                key: (self.size(key[0], rows), 2) for key, rows in plan.outer.items()
            }
            for link in links:
                value = self.network.layers[link.number].result
                buffers[value, link.number + 1] = self.size(value, link.rows), 1
            return self.bytes(buffers) <= space

        links = list(plan.links)
        if not fits(links):
            return None
        growing = {index for index, link in enumerate(links) if link.halo}
        while growing:
            index = max(growing, key=lambda n: self.twice(links[n], plan.turns))
            longer = replace(links[index], period=links[index].period + 1)
            if longer.period <= plan.turns and fits([*links[:index], longer, *links[index + 1 :]]):
                links[index] = longer
            else:
                growing.remove(index)
        return replace(plan, links=tuple(links))

    def twice(self, link: _Link, turns: int) -> int:
        """Return the cycles of the drains of rows that two laps read."""
        share = link.halo / (link.period * link.step) if link.period < turns else 0
        return int(share * self.cycles(link.number, turns)[1])

    def size(self, value: int, rows: int) -> int:
        """Return the bytes of a buffer of some rows."""
        layout = self.layouts[value]
        return rows * layout.pitch + layout.spare * layout.pixel

    def bytes(self, buffers: Buffers) -> int:
        """Return the bytes of all buffers."""
        unit = self.config.rows
        return sum(turns * -(-size // unit) * unit for size, turns in buffers.values())

    def estimated(self, plan: _Plan) -> int:
        """Return the estimated cycles of a chain.

        Loads and drains write the unified buffer both. In the first turn and in the last one, array
        and vector unit do not work at the same time.
        """
        config, network = self.config, self.network
        array = vector = apart = beats = 0
        for number in plan.numbers:
            units, tiled = self.cycles(number, plan.turns), self.tiling.layers[number]
            array, vector, apart = array + units[0], vector + units[1], apart + max(units)
            if tiled.band:
                vector += plan.turns * tiled.tiles * drain_gap(config)
            if tiled.streams:
                tiles = (tiled.periods - tiled.resident) * tiled.period * plan.turns
                beats += tiles * config.tile_bytes // config.bus_bytes
        vector += sum(self.twice(link, plan.turns) for link in plan.links)
        for (value, number), rows in plan.outer.items():
            moved = (
                plan.turns * rows * row_beats(network.values[value], self.layouts[value], config)
            )
            beats += moved
            vector += moved * (value != network.layers[number].result)
        start = (apart - max(array, vector)) // plan.turns
        turns = policy.TURN_CYCLES * (plan.turns * (1 + len(plan.links)) - 1)
        return joint_cycles(array, vector, beats) + max(0, start) + turns

    def chain(self, plan: _Plan, turns: int) -> Chain | None:
        """Return a chain with exact buffers, or None if rows cannot pass as planned.

        ``turns``: buffers of each value in external memory.
        """
        network, (last, *_) = self.network, plan.numbers[::-1]
        cut = even_rows(result_rows(network, network.layers[last]), plan.rows)
        passages: dict[int, Passage] = {}
        buffers: Buffers = {}
        for number in reversed(plan.numbers):
            layer = network.layers[number]
            for value, _ in (key for key in plan.outer if key[1] == number):
                reads = cut
                if value != layer.result:
                    reads = [source_rows(layer, rows) for rows in cut if rows[0] < rows[1]]
                height = max(end - begin for begin, end in reads)
                buffers[value, number] = self.size(value, height), turns
            if number > plan.numbers[0]:
                period = next(link.period for link in plan.links if link.number == number - 1)
                passed = passage(network, self.layouts, number - 1, cut, period)
                if passed is None:
                    return None
                value = network.layers[number - 1].result
                buffers[value, number] = self.size(value, passed.rows), 1
                passages[number - 1], cut = passed, passed.made
        first = plan.numbers[0]
        return Chain(first, last, plan.rows, passages, buffers, self.estimated(plan))


def with_buffers(spans: Sequence[Span], chains: Sequence[Chain]) -> list[Span]:
    """Return the spans of values, which live as long as chains that use them, and of buffers."""
    result = list(spans)
    for chain in chains:
        result = [
            replace(span, death=chain.last)
            if span.birth <= chain.last and chain.first <= span.death < chain.last
            else span
            for span in result
        ]
        result += [
            Span((value, number, turn), size, chain.first, chain.last)
            for (value, number), (size, turns) in chain.buffers.items()
            for turn in range(turns)
        ]
    return result
