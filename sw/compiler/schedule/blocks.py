"""Blocks of a matrix layer's results whose sums one half of the accumulators holds."""

import math

from celosia.hw.arch.config import Config
from celosia.sw.compiler import policy
from celosia.sw.compiler.layout.bands import Band, vectors
from celosia.sw.compiler.schedule.actions import Block
from celosia.sw.layers.spec import MatrixLayer, Pool, Range, Sum


def _grid(count: int, size: int, stride: int) -> int:
    """Return the sums along one axis that ``count`` windows read, gaps included."""
    return (count - 1) * stride + size


def sums(pool: Pool, block: Block) -> tuple[int, int, int]:
    """Return the samples, rows and columns of sums of a block."""
    samples, rows, columns = block.extents
    (high, wide), (down, right) = pool.window, pool.stride
    return samples, _grid(rows, high, down), _grid(columns, wide, right)


def rows_of(layer: MatrixLayer, band: Band | None, row: int, block: Block) -> int:
    """Return the rows of accumulators of a block; ``row`` is as in ``band_blocks``."""
    samples, rows, columns = sums(layer.pool, block)
    if band:
        rows, columns = vectors(band, rows, columns, row)
    return samples * rows * columns


def even(first: int, last: int, most: int) -> list[Range]:
    """Return ranges of nearly equal length, at most ``most``."""
    count = -(-(last - first) // most)
    ends = [first + (last - first) * n // count for n in range(count + 1)]
    return list(zip(ends, ends[1:], strict=False))


def _most(limit: int, size: int, stride: int) -> int:
    """Return the number of windows that read at most ``limit`` sums."""
    return max(0, (limit - size) // stride + 1) if limit >= size else 0


def drains_slowly(layer: MatrixLayer, steps: int, config: Config) -> bool:
    """Return whether the sums of a layer, of ``steps`` each, are made no slower than drained."""
    return layer.pool.window == (1, 1) and steps <= _groups(layer, config)


def _groups(layer: MatrixLayer, config: Config) -> int:
    """Return the groups of channels of a drain, for each pixel.

    Cycles of a sequential requantiser do not count: larger blocks take up to 3 % longer on `pico`.
    """
    return -(-min(layer.channels, config.columns) // config.lanes)


def wanted_sums(
    layer: MatrixLayer, steps: int, streams: bool, latency: int, config: Config
) -> tuple[int, int]:
    """Return the sums of a block and of the last block of a layer without pooling.

    If sums drain no faster than they are made, the start and end of each block's drain count, and
    blocks are large. If a sum takes many steps, small blocks at the end drain in time, too, and
    the next layer can start, unless the layer's weights stream in for each block anew.
    """
    usual = policy.BLOCK_TILES * config.rows
    if drains_slowly(layer, steps, config):
        large = config.accumulator_depth // (1 + (steps == _groups(layer, config)))
        return max(usual, large), max(usual, large)
    if streams or not steps:
        return usual, usual
    end = -(-policy.LAST_BLOCK // steps)
    if end > usual:
        # Few steps: as many sums as drain while the next tile is made. The tile after that one
        # needs their half.
        end = -(-latency // max(1, steps - _groups(layer, config)))
    return usual, min(usual, max(config.rows, end))


def _taper(ranges: list[Range], least: int) -> list[Range]:
    """Return ranges of which the last is split into halves down to ``least``."""
    *others, (first, last) = ranges
    while last - first >= 2 * least:
        middle = (first + last) // 2
        others.append((first, middle))
        first = middle
    return [*others, (first, last)]


def blocks(
    layer: MatrixLayer | Sum,
    samples: Range,
    config: Config,
    stripe: Range | None = None,
    *,
    wanted: tuple[int, int] | None = None,
    large: bool = False,
) -> list[Block]:
    """Return blocks that cover the results of a layer for some samples, in order.

    - ``layer``, ``samples``, ``config``: the layer, the samples of the batch and the core.
    - ``stripe``: rows of results, if not all.
    - ``wanted``: see ``wanted_sums``; 4 · R unless given.
    - ``large``: true for as few blocks as possible.

    One window needs at most as many sums as a half of the accumulators has rows.
    """
    depth = config.accumulator_depth
    output = layer.output
    columns = output[1]
    stripe = stripe or (0, output[0])
    rows = stripe[1] - stripe[0]
    (high, wide), (down, right) = layer.pool.window, layer.pool.stride
    across, along = _grid(columns, wide, right), _grid(rows, high, down)
    pixels = along * across
    count = samples[1] - samples[0]
    if count > 1 and 2 * pixels <= depth:
        return [
            Block(samples=sub_batch, rows=stripe, columns=(0, columns))
            for sub_batch in even(*samples, depth // pixels)
        ]
    most_columns = columns
    if high * across > depth:
        most_columns = _most(depth // high, wide, right)
    across = _grid(most_columns, wide, right)
    most_rows = min(rows, _most(depth // across, high, down))
    pooled = layer.pool.window != (1, 1)
    usual, end = wanted or (policy.BLOCK_TILES * config.rows,) * 2
    if pixels >= usual and not large:
        usual = pixels // 2 if pooled else usual
        most_rows = min(most_rows, max(1, -(-usual // (across * down))))
    rows_of_blocks = even(*stripe, most_rows)
    if not pooled and not large:
        if usual > policy.BLOCK_TILES * config.rows and len(rows_of_blocks) > 1:
            # Drains limit the speed: the first one starts as early as possible.
            first = stripe[0] + (rows - 1) % most_rows + 1
            rows_of_blocks = [(stripe[0], first), *even(first, stripe[1], most_rows)]
        least = -(-end // across)
        rows_of_blocks = _taper(rows_of_blocks, least)
        if len(rows_of_blocks) == 2:
            # Too short for halves: the block before takes as much as fits.
            (first, middle), (_, last) = rows_of_blocks
            middle = max(middle, min(last - least, first + depth // across))
            rows_of_blocks = [(first, middle), (middle, last)]
    return [
        Block(samples=(sample, sample + 1), rows=sub_batch, columns=piece)
        for sample in range(*samples)
        for sub_batch in rows_of_blocks
        for piece in even(0, columns, most_columns)
    ]


def band_blocks(
    layer: MatrixLayer,
    band: Band,
    row: int,
    samples: Range,
    config: Config,
    least: int = 0,
    stripe: Range | None = None,
) -> list[Block]:
    """Return blocks of whole rows that cover the results of a layer with a band, in order.

    ``row`` are the pixels of its source from one row to the next. A source made in several blocks
    is read in at least two, so that the first need not wait for the last rows. ``stripe``: rows of
    results, if not all.
    """
    width = layer.output[1]
    begin, end = stripe or (0, layer.output[0])
    rows = end - begin
    several = stripe is None and rows * layer.stride[0] * row > config.accumulator_depth
    most = -(-rows // 2) if several else rows
    while math.prod(vectors(band, most, width, row)) > config.accumulator_depth:
        most -= 1
    if least and several:
        while most > 1 and math.prod(vectors(band, most - 1, width, row)) >= least:
            most -= 1
    return [
        Block(samples=(sample, sample + 1), rows=sub_batch, columns=(0, width))
        for sample in range(*samples)
        for sub_batch in even(begin, end, most)
    ]
