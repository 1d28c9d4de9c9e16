"""Jobs of products of two computed matrices: tiles are moved, multiplied, and drained."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

from celosia.sw.compiler import policy
from celosia.sw.compiler.layout.scratch import Scratch, spreads, steps_of_groups
from celosia.sw.compiler.schedule.actions import (
    Action,
    Block,
    Drain,
    LoadRegion,
    MoveWeights,
    MultiplyMoved,
    OnSums,
    Passes,
    SpreadSums,
)
from celosia.sw.compiler.schedule.blocks import even
from celosia.sw.compiler.schedule.interleave import Job
from celosia.sw.compiler.schedule.movement import Movement
from celosia.sw.layers.network import attached
from celosia.sw.layers.spec import DynamicProduct, Range
from celosia.sw.layers.terms import Term


def boxes(counts: tuple[int, int, int], depth: int) -> list[Range]:
    """Return ranges of at most ``depth`` rows that are boxes of nested loops."""
    outer, middle, inner = counts
    unit = middle * inner
    if unit <= depth:
        return [(first * unit, last * unit) for first, last in even(0, outer, depth // unit)]
    cut = even(0, middle, depth // inner)
    starts = range(0, outer * unit, unit)
    return [(start + a * inner, start + b * inner) for start in starts for a, b in cut]


class DynamicJobs:
    """Jobs of a layer, for some samples.

    - ``moves``: stores of the program.
    - ``number``, ``sub_batch``: the layer, and the sub-batch of its samples.
    """

    def __init__(self, moves: Movement, number: int, sub_batch: int) -> None:
        self.moves = moves
        self.config = moves.config
        self.number = number
        self.sub_batch = sub_batch
        layer = moves.network.layers[number]
        assert isinstance(layer, DynamicProduct)
        self.layer = layer
        self.tiles = -(-layer.channels // moves.tiling.layers[number].channels)
        self.scratch: Scratch = moves.tiling.scratch
        self.turns = count()
        self.steps = -(-layer.taps // moves.config.rows)
        #: First slot of tiles that other layers multiply, too; -1 if there are none.
        self.shared = self.scratch.shared.get(number, -1)
        self.once = self.steps <= self.scratch.steps and layer.groups == 1 and self.shared < 0
        self.before = steps_of_groups(layer, moves.config)
        self.spreads = spreads(layer, self.scratch, moves.config)
        #: Groups of taps of a pass.
        self.grouped = 1
        if layer.reads and not any(layer.turned):
            pixel = moves.placement.layouts[layer.source].pixel
            self.grouped = layer.reads.jump(pixel, moves.config.rows)[0]

    def jobs(self, samples: Range) -> Iterator[Job]:
        """Yield the jobs in order; a head's results are stored when they are complete."""
        groups = [
            list(self.placed((sample, sample + 1), some))
            for sample in range(*samples)
            for some in self.together()
        ]
        for index, works in enumerate(groups):
            following = groups[index + 1] if index + 1 < len(groups) else []
            job = Job(drains=[list(self.drained(work)) for work in works])
            if self.layer.stepped >= 0 or self.layer.turns:
                yield from self.in_pairs(groups, index)
                continue
            if self.spreads:
                # Sums of columns for the next job are copied meanwhile, in the other half.
                passes: Passes = [a for work in works for a in self.multiplied(work)]
                middle = -(-len(passes) // 2)
                after: Passes = list(self.begun(following, 1))
                job.tiles = [passes[:middle], after, passes[middle:]]
                if not index:
                    job.tiles.insert(0, list(self.begun(works, 0)))
            else:
                job.tiles = list(self.in_turn(works))
            if not index and self.layer.lines:
                job.tiles[0].insert(0, self.constant(works[0]))
            yield job

    def in_pairs(self, groups: Sequence[Sequence["_Work"]], index: int) -> Iterator[Job]:
        """Yield a job of several pairs, or whose sums are shifted in place before addends come.

        The products of the second job of a pair come before the addends of the first, in the other
        half: meanwhile the sums of the first are shifted.
        """
        added: Passes = [a for work in groups[index] for a in self.added(work)]
        following = groups[index + 1] if index + 1 < len(groups) else []
        begun: Passes = []
        after: Passes = []
        if index % 2 == 0 and self.layer.turns:
            begun = list(self.summed((groups[index], following)))
        elif index % 2 == 0:
            begun = [a for work in groups[index] for a in self.shifted(work, 0)]
            after = [a for work in following for a in self.shifted(work, 1)]
        tiles = [begun, after, added]
        drains = [list(self.drained(work)) for work in groups[index]]
        yield Job(tiles=[tile for tile in tiles if tile], drains=drains)

    def summed(self, halves: Sequence[Sequence["_Work"]]) -> Iterator[OnSums | LoadRegion]:
        """Yield the products of all pairs of matrices, for two jobs, and the shifts in place.

        A pair is loaded while the one before is multiplied.
        """
        count, works = self.layer.groups_of_pair, [(h, w) for h in (0, 1) for w in halves[h]]
        samples = works[0][1].block.samples
        yield from self.loaded(0, samples)
        for place in range(len(self.layer.turns)):
            yield from self.loaded(place + 1, samples)
            for half, work in works:
                for action in self.multiplied(work, range(place * count, (place + 1) * count)):
                    yield action if isinstance(action, MoveWeights) else action._replace(half=half)
        for half, work in works if self.layer.stepped >= 0 else ():
            yield self.spread(work, half, work.row)._replace(each=True)

    def loaded(self, place: int, samples: Range) -> Iterator[LoadRegion]:
        """Yield the loads of a pair of matrices, if there is one at a place."""
        for pair in self.layer.turns[place : place + 1]:
            for value in dict.fromkeys(pair):
                if self.moves.network.values[value].contents is None:
                    region = self.moves.everything(value, self.sub_batch, samples)
                    yield LoadRegion(region=region, layer=self.number)

    def shifted(self, work: "_Work", half: int) -> Iterator[OnSums]:
        """Yield the products of some work, the first addends, and the shift in place."""
        if self.once:
            yield self.moved(work)
        for action in self.multiplied(work):
            yield action if isinstance(action, MoveWeights) else action._replace(half=half)
        yield self.spread(work, half, work.row)._replace(each=True)

    def spread(self, work: "_Work", half: int, row: int) -> SpreadSums:
        """Return the copy of a row of sums to the rows of some work."""
        return SpreadSums(
            block=work.block,
            sub_batch=self.sub_batch,
            layer=self.number,
            tile=work.tile,
            half=half,
            row=row,
            accumulator=work.row,
            rows=work.rows[1] - work.rows[0],
        )

    def in_turn(self, works: Sequence["_Work"]) -> Iterator[Passes]:
        """Yield the moves of several tiles, then the passes of each; the first tile has landed."""
        for first in range(0, len(works), self.scratch.turns):
            some = works[first : first + self.scratch.turns]
            if self.once and self.steps:
                yield [self.moved(work) for work in some]
            for work in some:
                yield list(self.multiplied(work))

    def together(self) -> Iterator[list[tuple[int, int, Range]]]:
        """Yield heads, output tiles and rows whose sums share a half of the accumulators."""
        turns = self.scratch.turns
        depth = self.config.accumulator_depth - self.spreads * turns
        layer = self.layer
        cut = boxes(layer.reads.counts, depth) if layer.reads else even(0, layer.rows, depth)
        if layer.grid:
            cut = boxes((layer.grid.images, *layer.image), depth)
        elif unit := max((a.repeats.width for a in layer.addends if a.repeats), default=0):
            # Whole rows of pixels.
            parts = even(0, layer.rows // unit, depth // unit)
            cut = [(first * unit, last * unit) for first, last in parts]
        work = [
            (head, tile, rows)
            for head in range(layer.heads)
            for tile in range(self.tiles)
            for rows in cut
        ]
        longest = max(last - first for first, last in cut)
        # Few rows: their drains would take longer to start than the passes take.
        most = max(turns // 2, policy.BLOCK_TILES * self.config.rows // longest)
        if self.spreads:
            # Tiles of this job and of the next one.
            most = turns // 2
        most = max(1, min(most, depth // longest))
        for first in range(0, len(work), most):
            yield work[first : first + most]

    def placed(self, samples: Range, some: list[tuple[int, int, Range]]) -> Iterator["_Work"]:
        """Yield work with its rows of the accumulators, and its tiles."""
        row = 0
        for index, (head, tile, rows) in enumerate(some):
            block = self.block(samples, head, rows)
            sums = self.config.accumulator_depth - 1 - index
            yield _Work(block, head, tile, rows, row, sums, next(self.turns))
            row += rows[1] - rows[0]

    def block(self, samples: Range, head: int, rows: Range) -> Block:
        """Return the results of some rows of a head's matrix, as pixels of the value."""
        first, last = rows
        if self.layer.output == (self.layer.heads, self.layer.rows):
            return Block(samples=samples, rows=(head, head + 1), columns=rows)
        before = head * self.layer.rows
        return Block(samples=samples, rows=(0, 1), columns=(before + first, before + last))

    def moved(self, work: "_Work") -> MoveWeights:
        """Return the move of all steps of a tile."""
        return MoveWeights(**self.about(work, 0, self.steps), term=Term.PRODUCT)

    def begun(self, works: Sequence["_Work"], half: int) -> Iterator[OnSums]:
        """Yield the moves of tiles, and copies of their column sums to all rows of a job.

        The copies are multiplied by ``times``.
        """
        yield from map(self.moved, works)
        for work in works:
            about = self.about(work, 0, self.steps)
            about |= {"rows": (0, 1), "half": half, "accumulator": work.sums}
            yield MultiplyMoved(**about, accumulate=False, term=Term.COLUMNS)
        for work in works:
            yield self.spread(work, half, work.sums)

    def multiplied(self, work: "_Work", some: range | None = None) -> Iterator[OnSums]:
        """Yield the passes over a tile, and the moves of its steps unless all are in place.

        ``some``: groups of taps, all unless given.
        """
        layer, spread, most = self.layer, self.spreads, self.scratch.steps
        sums = {"rows": work.rows, "half": 0, "accumulator": work.row}
        groups = range(layer.groups) if some is None else some
        groups = groups[:: self.grouped]
        counts = {n: -(-layer.taps_of(n) // self.config.rows) for n in groups}
        parts = [(n, first) for n, count in counts.items() for first in range(0, count, most)]
        for group, first in parts:
            about = self.about(work, first, min(first + most, counts[group]))
            about["group"] = group
            about["groups"] = min(self.grouped, layer.groups - group)
            moves = not self.once
            if self.shared >= 0:
                steps = work.tile * self.before[-1] + self.before[group] + first
                about["slot"] = self.shared + steps
                moves = layer.tiles_from < 0 and not work.rows[0]
            elif moves:
                about["slot"] = self.scratch.slot(next(self.turns))
            if moves:
                yield MoveWeights(**about, term=Term.PRODUCT)
            started = spread or group > 0 or first > 0
            yield MultiplyMoved(**about, **sums, accumulate=started, term=Term.PRODUCT)
            for _ in range(layer.columns.times if layer.columns and not spread else 0):
                yield MultiplyMoved(**about, **sums, accumulate=True, term=Term.COLUMNS)
        if layer.stepped < 0 and not layer.turns:
            yield from self.added(work)
        if layer.lines:
            for step in list(range(self.steps)) * layer.lines.times:
                about = self.about(work, step, step + 1)
                about["slot"] = self.scratch.constants[self.number]
                yield MultiplyMoved(**about, **sums, accumulate=True, term=Term.LINES)

    def added(self, work: "_Work") -> Iterator[MultiplyMoved]:
        """Yield the passes of addends."""
        tiled = self.moves.tiling.layers[self.number]
        started = self.steps > 0
        for addend in self.layer.addends:
            cut = addend.repeats.cuts(work.rows) if addend.repeats else [work.rows]
            for factor in addend.tiles:
                fields: dict[str, Any] = self.about(work, 0, 1)
                fields["slot"] = tiled.slot(self.layer.factors.index(factor))
                fields |= {"half": 0, "accumulate": started, "term": addend}
                for rows in cut:
                    row = work.row + rows[0] - work.rows[0]
                    yield MultiplyMoved(**fields, rows=rows, accumulator=row)
                started = True

    def about(self, work: "_Work", first: int, last: int) -> dict[str, Any]:
        """Return fields of the actions on some steps of a tile."""
        return {
            "block": work.block,
            "sub_batch": self.sub_batch,
            "layer": self.number,
            "head": work.head,
            "tile": work.tile,
            "first_step": first,
            "last_step": last,
            "slot": self.scratch.slot(work.turn),
        }

    def constant(self, work: "_Work") -> MoveWeights:
        """Return the move of the tile of equal weights, which lasts for all jobs."""
        about = self.about(work, 0, 1)
        about |= {"tile": 0, "slot": self.scratch.constants[self.number]}
        return MoveWeights(**about, term=Term.LINES)

    def drained(self, work: "_Work") -> Iterator[Action]:
        """Yield the drain of an output tile, then stores of complete results."""
        layer, moves, block = self.layer, self.moves, work.block
        yield Drain(
            block=block,
            sub_batch=self.sub_batch,
            layer=self.number,
            tile=work.tile,
            half=0,
            accumulator=work.row,
        )
        following = self.number + 1
        if following < len(moves.network.layers) and attached(moves.network, following):
            after = DynamicJobs(moves, following, self.sub_batch)
            yield from after.drained(work)
        value, pixel = (
            moves.network.values[layer.result],
            moves.placement.layouts[layer.result].pixel,
        )
        if layer.stepped >= 0 and value.channels == layer.channels == pixel and self.tiles == 1:
            # Each job stores its own rows.
            region = moves.everything(layer.result, self.sub_batch, block.samples)
            columns = work.rows[0] * pixel, work.rows[1] * pixel
            yield from moves.store(self.number, region._replace(columns=columns))
            return
        if work.tile + 1 < self.tiles or work.rows[1] < layer.rows:
            return
        if moves.network.makers[layer.result][-1] != self.number:
            return
        region = moves.everything(layer.result, self.sub_batch, block.samples)
        if layer.output[0] > 1:
            yield from moves.store(self.number, region._replace(rows=block.rows))
        elif work.head + 1 == layer.heads:
            parts = policy.LATE_STORES if self.number in moves.placement.late else 1
            for first, last in even(0, value.width, -(-value.width // parts)):
                columns = first * pixel, last * pixel
                yield from moves.store(self.number, region._replace(columns=columns))


class _Work(NamedTuple):
    """Rows of a head's matrix times an output tile."""

    block: Block  #: The results.
    head: int
    tile: int
    rows: Range
    #: First row of the accumulators, and the one for sums of columns.
    row: int
    sums: int
    turn: int  #: Region of tiles.
