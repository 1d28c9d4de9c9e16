"""Cuts the results of a product into blocks whose sums one half of the accumulators holds."""

import math

from celosia.hw.arch.config import Config
from celosia.sw.compiler.actions import Block, Range
from celosia.sw.compiler.bands import Band, vectors
from celosia.sw.compiler.spec import CompileError, Network, Pool, Product, Sum

__all__ = ["attached", "band_blocks", "blocks", "sums"]

#: Rows of a tile that a block without pooling has pixels for. Small blocks let the next layer start
#: early, and leave little to drain at the end. Pooling drains quickly enough by itself.
_TILES = 4


def _grid(count: int, size: int, stride: int) -> int:
    """Return the sums along one axis that ``count`` windows read, gaps included."""
    return (count - 1) * stride + size


def sums(pool: Pool, block: Block) -> tuple[int, int, int]:
    """Return items, rows and columns of sums that a block takes."""
    items, rows, columns = block.extents
    (high, wide), (down, right) = pool.window, pool.stride
    return items, _grid(rows, high, down), _grid(columns, wide, right)


def _even(first: int, last: int, most: int) -> list[Range]:
    """Return ranges of nearly equal length, at most ``most``."""
    count = -(-(last - first) // most)
    ends = [first + (last - first) * n // count for n in range(count + 1)]
    return list(zip(ends, ends[1:], strict=False))


def _most(limit: int, size: int, stride: int) -> int:
    """Return how many windows read at most ``limit`` sums."""
    return max(0, (limit - size) // stride + 1) if limit >= size else 0


def blocks(
    layer: Product | Sum,
    items: Range,
    config: Config,
    strip: Range | None = None,
    *,
    large: bool = False,
) -> list[Block]:
    """Return blocks that cover the results of a layer for some items, in order.

    ``strip`` are the rows of results, if not all. ``large`` asks for as few blocks as there can be.

    Raises
    ------
    CompileError
        If one window takes more sums than a half of the accumulators has rows.
    """
    depth = config.accumulator_depth
    output = layer.output
    columns = output[1]
    strip = strip or (0, output[0])
    rows = strip[1] - strip[0]
    (high, wide), (down, right) = layer.pool.window, layer.pool.stride
    across, along = _grid(columns, wide, right), _grid(rows, high, down)
    pixels = along * across
    count = items[1] - items[0]
    if count > 1 and 2 * pixels <= depth:
        return [
            Block(items=part, rows=strip, columns=(0, columns))
            for part in _even(*items, depth // pixels)
        ]
    most_columns = columns
    if high * across > depth:
        most_columns = _most(depth // high, wide, right)
        if not most_columns:
            raise CompileError(
                f"{layer.name}: wanted windows of at most {depth} sums, got {high} x {wide}"
            )
    across = _grid(most_columns, wide, right)
    most_rows = min(rows, _most(depth // across, high, down))
    pooled = layer.pool.window != (1, 1)
    least = pixels // 2 if pooled else _TILES * config.rows
    if pixels >= _TILES * config.rows and not large:
        most_rows = min(most_rows, max(1, -(-least // (across * down))))
    return [
        Block(items=(item, item + 1), rows=part, columns=piece)
        for item in range(*items)
        for part in _even(*strip, most_rows)
        for piece in _even(0, columns, most_columns)
    ]


def band_blocks(layer: Product, band: Band, row: int, items: Range, config: Config) -> list[Block]:
    """Return blocks of whole rows that cover the results of a layer with a band, in order.

    ``row`` are the pixels of its source from row to row.
    """
    rows, width = layer.output
    most = rows
    while math.prod(vectors(band, most, width, row)) > config.accumulator_depth:
        most -= 1
    return [
        Block(items=(item, item + 1), rows=part, columns=(0, width))
        for item in range(*items)
        for part in _even(0, rows, most)
    ]


def attached(network: Network, number: int) -> bool:
    """Return whether a layer is a sum that is done along with the product in front of it.

    Then each block is added as soon as it is drained, in the same rows of accumulators.
    """
    if number == 0:
        return False
    layer, before = network.layers[number], network.layers[number - 1]
    return (
        isinstance(layer, Sum)
        and isinstance(before, Product)
        and before.result in layer.sources
        and before.output == layer.output
    )
