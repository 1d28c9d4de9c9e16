"""Jobs of products of two computed matrices: tiles are moved, multiplied, and drained."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from celosia.sw.compiler.layout.scratch import Scratch
from celosia.sw.compiler.schedule.actions import (
    Action,
    Block,
    Drain,
    Matrix,
    MoveWeights,
    MultiplyMoved,
    Range,
)
from celosia.sw.compiler.schedule.blocks import TILES, even
from celosia.sw.compiler.schedule.interleave import Job
from celosia.sw.compiler.schedule.movement import Movement
from celosia.sw.compiler.spec import DynamicProduct, Term


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

    def jobs(self, samples: Range) -> Iterator[Job]:
        """Yield the jobs in order; a head's results are stored when they are complete."""
        for sample in range(*samples):
            for some in self.together():
                job = Job()
                row = 0
                for head, tile, rows in some:
                    block = self.block((sample, sample + 1), head, rows)
                    job.tiles.append(list(self.multiplied(block, head, tile, rows, row)))
                    job.drains.append(list(self.drained(block, head, tile, rows, row)))
                    row += rows[1] - rows[0]
                if self.layer.lines and sample == samples[0] and some[0][:2] == (0, 0):
                    if some[0][2][0] == 0:
                        job.tiles[0].insert(0, self.constant(job.tiles[0][0]))
                yield job

    def together(self) -> Iterator[list[tuple[int, int, Range]]]:
        """Yield heads, output tiles and rows whose sums share a half of the accumulators."""
        depth = self.config.accumulator_depth
        cut = even(0, self.layer.rows, depth)
        work = [
            (head, tile, rows)
            for head in range(self.layer.heads)
            for tile in range(self.tiles)
            for rows in cut
        ]
        # Few rows: their drains would take longer to start than the passes take.
        most = max(1, min(depth, TILES * self.config.rows) // (cut[0][1] - cut[0][0]))
        if len(cut) > 1:
            most = 1
        for first in range(0, len(work), most):
            yield work[first : first + most]

    def block(self, samples: Range, head: int, rows: Range) -> Block:
        """Return the results of some rows of a head's matrix, as pixels of the value."""
        first, last = rows
        if self.layer.output == (self.layer.heads, self.layer.rows):
            return Block(samples=samples, rows=(head, head + 1), columns=rows)
        before = head * self.layer.rows
        return Block(samples=samples, rows=(0, 1), columns=(before + first, before + last))

    def multiplied(
        self, block: Block, head: int, tile: int, rows: Range, row: int
    ) -> Iterator[Matrix]:
        """Yield the moves of tiles and the passes over them, as many steps as there are slots."""
        layer, times = self.layer, self.layer.columns.times if self.layer.columns else 0
        steps, most = -(-layer.taps // self.config.rows), self.scratch.steps
        about: dict[str, Any] = {
            "block": block,
            "sub_batch": self.sub_batch,
            "layer": self.number,
            "head": head,
        }
        sums = {"rows": rows, "half": 0, "accumulator": row}
        for first in range(0, steps, most):
            slot = self.scratch.slot(next(self.turns))
            some = about | {
                "first_step": first,
                "last_step": min(first + most, steps),
                "slot": slot,
            }
            yield MoveWeights(**some, tile=tile, term=Term.PRODUCT)
            yield MultiplyMoved(**some, **sums, accumulate=first > 0, term=Term.PRODUCT)
            for _ in range(times):
                yield MultiplyMoved(**some, **sums, accumulate=True, term=Term.COLUMNS)
        if layer.lines:
            sums |= {"slot": self.scratch.constants[self.number], "accumulate": True}
            for step in list(range(steps)) * layer.lines.times:
                some = about | {"first_step": step, "last_step": step + 1}
                yield MultiplyMoved(**some, **sums, term=Term.LINES)

    def constant(self, before: Matrix) -> MoveWeights:
        """Return the move of the tile of equal weights, which lasts for all jobs."""
        return MoveWeights(
            block=before.block,
            sub_batch=self.sub_batch,
            layer=self.number,
            head=0,
            tile=0,
            first_step=0,
            last_step=1,
            term=Term.LINES,
            slot=self.scratch.constants[self.number],
        )

    def drained(
        self, block: Block, head: int, tile: int, rows: Range, row: int
    ) -> Iterator[Action]:
        """Yield the drain of an output tile, then stores of complete results."""
        layer, moves = self.layer, self.moves
        yield Drain(
            block=block,
            sub_batch=self.sub_batch,
            layer=self.number,
            tile=tile,
            half=0,
            accumulator=row,
        )
        if tile + 1 < self.tiles or rows[1] < layer.rows:
            return
        region = moves.everything(layer.result, self.sub_batch, block.samples)
        if layer.output[0] > 1:
            yield from moves.store(self.number, region._replace(rows=block.rows))
        elif head + 1 == layer.heads:
            yield from moves.store(self.number, region)
