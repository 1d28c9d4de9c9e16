"""Tiling of matrix layers: blocks of results, and stages of the reduction."""

from collections.abc import Sequence
from dataclasses import dataclass

from celosia.hw.arch.config import Config
from celosia.sim.timing.costs import drain_latency, pass_cycles, sum_latency
from celosia.sw.compiler import policy
from celosia.sw.compiler.layout.placement import Arranged
from celosia.sw.compiler.layout.stripes import source_rows
from celosia.sw.compiler.schedule.actions import Action, Block, LoadRegion, Region
from celosia.sw.compiler.schedule.blocks import (
    band_blocks,
    blocks,
    drains_slowly,
    rows_of,
    wanted_sums,
)
from celosia.sw.compiler.schedule.movement import Movement
from celosia.sw.layers.spec import MatrixLayer, Range


@dataclass(frozen=True)
class StepRange:
    """Reduction steps of one segment."""

    segment: int
    first: int
    last: int


#: Steps of each stage of a reduction; None is all of it.
Stages = Sequence[StepRange | None]
WHOLE: Stages = (None,)


class BlockTiling(Arranged):
    """Blocks and stages of matrix layers.

    - ``moves``: loads of the program.
    - ``overlap``: true if jobs are small, and those of the next layer come between them.
    """

    def __init__(self, moves: Movement, overlap: bool) -> None:
        super().__init__(moves.about)
        self.moves = moves
        self.overlap = overlap
        self.latency = sum_latency(self.config) + drain_latency(self.config)

    def overlaps(self, number: int) -> bool:
        """Return whether actions of the next layer may come between those of a layer."""
        direct = number in self.placement.direct
        return direct or (self.overlap and number in self.placement.overlap)

    def blocks(self, number: int, samples: Range, stripe: Range | None = None) -> list[Block]:
        """Return the blocks of a matrix layer, for some samples; ``stripe``: rows, if not all."""
        layer, tiled = self.network.product(number), self.tiling.layers[number]
        if tiled.band:
            row = self.placement.layouts[layer.source].row
            least = -(-policy.BAND_CYCLES // tiled.steps) if self.overlap else 0
            return band_blocks(layer, tiled.band, row, samples, self.config, least, stripe)
        if stripe:
            wanted = self.wanted(number)
            return blocks(layer, samples, self.config, stripe, wanted=wanted)
        # A band can start on the first channels of its source if one block makes all pixels.
        readers = self.network.readers[layer.result]
        large = layer.pixels <= self.config.accumulator_depth and any(
            self.tiling.layers[reader].band for reader in readers
        )
        return blocks(layer, samples, self.config, wanted=self.wanted(number), large=large)

    def wanted(self, number: int) -> tuple[int, int]:
        """Return the sums of a block of a matrix layer, and of its last one."""
        layer, tiled = self.network.product(number), self.tiling.layers[number]
        usual, last = wanted_sums(layer, tiled.steps, tiled.streams, self.latency, self.config)
        slow = drains_slowly(layer, tiled.steps, self.config)
        if slow and self.overlap and self.overlaps(number):
            return min(usual, policy.SLOW_SUMS), min(last, policy.SLOW_SUMS)
        return usual, last

    def tiles_in_flight(self, number: int, block: Block) -> int:
        """Return the number of output tiles that share a half of the accumulators.

        Those of a band, with few sums, make one reduction step of the next layer. If sums drain no
        faster than they are made, more is better: the next layer then fills the other half.
        """
        layer, tiled = self.network.product(number), self.tiling.layers[number]
        most = self.config.accumulator_depth // self.rows(number, block)
        if tiled.band:
            most = min(most, self.config.rows // tiled.channels)
            if self.overlap:
                cycles = tiled.steps * pass_cycles(self.rows(number, block), self.config)
                most = min(most, -(-policy.BAND_TILES // cycles))
            return max(1, most)
        if self.overlap and self.overlaps(number):
            most = min(most, policy.SLOW_SUMS // self.rows(number, block))
        return max(1, most) if drains_slowly(layer, tiled.steps, self.config) else 1

    def rows(self, number: int, block: Block) -> int:
        """Return the rows of accumulators of a block."""
        layer, band = self.network.product(number), self.tiling.layers[number].band
        return rows_of(layer, band, self.placement.layouts[layer.source].row, block)

    def arrivals(self, number: int, block: Block, rows: int) -> list[tuple[Block, int]]:
        """Return the blocks to multiply one after the other, each with its rows of accumulators.

        A reader of an image of which ``rows`` come first, if not 0, begins on those.
        """
        layer, tiled = self.network.product(number), self.tiling.layers[number]
        whole = [(block, 0)]
        overlap = layer.pool.stride[0] != layer.pool.window[0]
        if not rows or tiled.band or tiled.streams or block.extents[0] > 1 or overlap:
            return whole
        first, last = block.rows
        height = self.network.values[layer.source].height
        middle = first
        while middle < last and min(source_rows(layer, (first, middle + 1))[1], height) <= rows:
            middle += 1
        if middle in block.rows:
            return whole
        before, after = (block._replace(rows=span) for span in ((first, middle), (middle, last)))
        row = self.rows(number, before)
        if min(row, self.rows(number, after)) < self.config.rows:
            return whole
        return [(before, 0), (after, row)]

    def all_steps(self, number: int, tile: int) -> list[StepRange]:
        """Return the steps of the whole reduction of an output tile."""
        found = self.tiling.layers[number].segments[tile]
        return [StepRange(n, 0, segment.steps(self.config)) for n, segment in enumerate(found)]

    def stage_loads(
        self, number: int, sub_batch: int, block: Block, stages: Stages
    ) -> list[Action]:
        """Return the loads of the bytes of flat values that each stage of a reduction reads."""
        layer = self.network.layers[number]
        about = self.network.values[layer.source]
        if len(stages) == 1:
            region = self.moves.everything(layer.source, sub_batch, block.samples)
            return [LoadRegion(region=region, layer=number)]
        ends = [stage.last * self.config.rows for stage in stages if stage]
        ends[-1] = about.width * about.channels
        return [
            LoadRegion(Region(layer.source, sub_batch, block.samples, (0, 1), columns), number)
            for columns in zip([0, *ends], ends, strict=False)
        ]

    def stages(self, number: int, block: Block, loads: bool) -> Stages:
        """Return the stages of the first tiles of a layer, short at first for an early start.

        A reduction is split only if all its taps lie side by side.
        """
        layer = self.network.product(number)
        first = self.tiling.layers[number].segments[0][0]
        others = any(len(found) > 1 for found in self.tiling.layers[number].segments)
        if others or not first.side_by_side or layer.depth_multiplier:
            return WHOLE
        steps = first.steps(self.config)
        if not loads:
            ready = self.ready_taps(number, block) // self.config.rows
            ends = [ready, steps] if 0 < ready < steps else [steps]
        else:
            about = self.network.values[layer.source]
            samples = block.extents[0]
            beats = samples * -(-about.bytes_per_item // self.config.bus_bytes)
            vector = about.bytes_per_item == layer.taps
            resident = not self.tiling.layers[number].streams
            if vector and samples == 1 and resident and steps > 2 * policy.FIRST_STEPS:
                # A vector is read a step at a time: it need not be complete.
                ends = [policy.FIRST_STEPS, steps]
            elif not vector or samples == 1 or beats <= 2 * policy.STAGE_LATENCY:
                ends = [steps]
            else:
                ends = _growing_ends(layer, samples, self.config)
        ranges = zip([0, *ends], ends, strict=False)
        return [StepRange(0, first, last) for first, last in ranges]

    def maker(self, number: int) -> int | None:
        """Return the matrix layer that makes the source of a matrix layer, if one does."""
        layer = self.network.product(number)
        before = self.network.makers[layer.source][:1]
        return (
            before[0]
            if before and isinstance(self.network.layers[before[0]], MatrixLayer)
            else None
        )

    def band_before(self, number: int) -> bool:
        """Return whether a matrix layer reads the result of a band."""
        before = self.maker(number)
        return before is not None and self.tiling.layers[before].band is not None

    def ready_taps(self, number: int, block: Block) -> int:
        """Return the taps that are complete before the last drain of the layer before has ended."""
        layer = self.network.product(number)
        before = self.maker(number)
        if before is None:
            return 0
        tiled = self.tiling.layers[before]
        if tiled.band and layer.kernel == (1, 1):
            cut = self.blocks(before, block.samples)
            most = self.tiles_in_flight(before, cut[0])
            return (tiled.tiles - 1) // most * most * tiled.channels if len(cut) == 1 else 0
        if layer.pixels > 1:
            return 0
        value, layout = self.network.values[layer.source], self.placement.layouts[layer.source]
        if value.bytes_per_item != layer.taps:
            return 0
        if value.height == 1:
            return (value.channels - 1) // self.config.columns * self.config.columns
        cut = self.blocks(before, (block.samples[1] - 1, block.samples[1]))
        return cut[-1].rows[0] * layout.pitch if block.extents[0] == 1 else 0


def _growing_ends(layer: MatrixLayer, rows: int, config: Config) -> list[int]:
    """Return the steps to split at so that each stage loads while those before are multiplied."""
    steps = -(-layer.taps // config.rows)
    tiles = -(-layer.channels // config.columns)
    group = min(tiles, policy.ARRIVING_TILES, config.accumulator_depth // rows)
    step_cycles = pass_cycles(rows, config) * group
    step_beats = rows * config.rows / config.bus_bytes
    width = max(1, policy.STAGE_TAPS // config.rows, steps // policy.FIRST_STAGE)
    ends = [min(width, steps)]
    while ends[-1] < steps:
        spare = policy.STAGE_BUSY * width * step_cycles - policy.STAGE_LATENCY
        # The second stage loads while the first, a short one, is multiplied.
        least = steps // policy.LATER_STAGE if len(ends) > 1 else 0
        width = max(width, least, int(spare / step_beats))
        ends.append(min(ends[-1] + width, steps))
    return ends
