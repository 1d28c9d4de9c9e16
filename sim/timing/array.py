"""Times of the matrix unit: passes of MATMULs, and tiles that MOVE_WEIGHTS fills."""

import math
from collections.abc import Generator
from typing import TYPE_CHECKING

from celosia.hw.arch.isa import Instruction, Opcode, Unit
from celosia.sim.check import footprint
from celosia.sim.timing.costs import spacing
from celosia.sim.timing.process import Process

if TYPE_CHECKING:
    from celosia.sim.timing.timeline import Timeline


class Array:
    """Process of the matrix unit of a ``Timeline``."""

    def __init__(self, timeline: "Timeline") -> None:
        self.timeline = timeline
        self.config, self.costs = timeline.config, timeline.costs
        # Cycles in which a tile loads, or in which its skips are found.
        rows_each = 1 if self.config.serial_skips else self.config.weight_rows
        self.load = self.config.rows // rows_each
        # From the first vector of a pass to the start of the next tile.
        self.switch = 0 if self.config.rows == self.config.weight_rows else 1
        # Start of the last tile, first vector of its pass; last vector, also of MOVE_WEIGHTS, and
        # of MATMUL; first start of a tile after MOVE_WEIGHTS.
        self.tile, self.first, self.last, self.added, self.landed = -self.load, 0, 0, 0, 0

    def run(self) -> Process:
        """Run the instructions of the unit; their tiles load one after the other."""
        timeline = self.timeline
        prepare = self.costs.prepare + (self.config.rows - 1).bit_length()
        if self.config.serial_skips:
            prepare = self.costs.begin
        passes = timeline.tasks[Unit.MATRIX]
        while True:
            while not passes:
                yield "taken"
            index, taken = passes[0]
            i = timeline.code[index]
            yield max(taken + prepare, self.last)
            moves = i.opcode is Opcode.MOVE_WEIGHTS
            begin = self._move(i, taken) if moves else self._passes(i, taken)
            passes.popleft()
            timeline._announce("ready")
            vectors = footprint.pixels(i) * footprint.steps(i, self.config)
            if moves:
                first, end = (at + self.costs.displaced for at in (begin, self.last + 1))
                timeline.tile_writes.take(first, end, 1.0)
            delay = yield from self._reads(begin, vectors)
            self.last += delay
            if moves:
                row = (footprint.pixels(i) - 1) % self.config.rows
                landed = self.last + max(1, self.costs.landing - row)
                self.landed = max(self.landed, landed)
            else:
                self.first += delay
                self.added = self.last
            finish = self.last + self.config.rows + self.config.columns + self.costs.matrix
            timeline._finish(index, taken, finish)

    def _passes(self, i: Instruction, taken: int) -> int:
        """Start the tiles of a MATMUL; return the cycle of its first vector."""
        timeline, load, costs = self.timeline, self.load, self.costs
        steps, pixels = footprint.steps(i, self.config), footprint.pixels(i)
        tile = max(
            taken + 1, self.first + self.switch, self.tile + load, self.landed, self._found(taken)
        )
        begin = max(timeline.now, tile, self.added + costs.add - 1 if i.accumulate else 0) + 1
        self.first = begin
        if steps > 1:
            second = max(tile + load, begin + self.switch)
            space = spacing(i, self.config, costs)
            tile = max(second + (steps - 2) * load, begin + self.switch + (steps - 2) * space)
            self.first = max(begin + (steps - 1) * space, second + (steps - 2) * load + 1)
        self.tile = tile
        timeline.free[Unit.MATRIX] = max(timeline.now, tile + 1)
        self.last = self.first + pixels - 1
        return begin

    def _found(self, taken: int) -> int:
        """Return the cycle before the first vector, as far as it waits for serial skips."""
        if not self.config.serial_skips:
            return 0
        return max(taken, self.first - 1) + self.config.rows + 1

    def _move(self, i: Instruction, taken: int) -> int:
        """Return the cycle of the first vector of a MOVE_WEIGHTS."""
        now = max(self.timeline.now, self._found(taken))
        begin = max(now + 1, self.tile + self.config.columns - self.costs.overtaken)
        self.timeline.free[Unit.MATRIX] = now
        self.last = begin + footprint.pixels(i) * footprint.steps(i, self.config) - 1
        return begin

    def _reads(self, begin: int, vectors: int) -> Generator[int, None, int]:
        """Wait until the last vector; return the cycles in which others read the buffer."""
        timeline = self.timeline
        cycles = self.last + 1 - begin
        share, delay = vectors / cycles, 0
        while self.last + delay > timeline.now:
            yield self.last + delay
            end = timeline.buffer_reads.end(begin, cycles, share)
            delay = math.ceil(end - self.last - 1)
        return delay
