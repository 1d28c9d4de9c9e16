"""Blocks of sums, windows and row stripes: everything once, and nothing too large."""

import math
from typing import Any

import numpy as np
import pytest
from whole_networks.small import alone

from celosia.hw.arch.presets import preset
from celosia.sim.timing.costs import drain_latency, sum_latency
from celosia.sw.compiler.layout.stripes import source_rows
from celosia.sw.compiler.schedule.blocks import blocks, sums, wanted_sums
from celosia.sw.layers.shapes import Axis, padding, rectangles
from celosia.sw.layers.spec import MatrixLayer, Pool


def product(grid: tuple[int, int], pool: Pool, stride=1, taps=1, channels=1) -> MatrixLayer:
    size: dict[str, Any] = {"grid": grid, "stride": (stride, stride), "origin": (-1, -1)}
    return alone(channels, (taps, taps), pool=pool, **size)


def test_blocks_cover_results_once_and_fit(rng: np.random.Generator) -> None:
    for _ in range(300):
        config = preset(f"micro,accumulator_depth={2 ** int(rng.integers(4, 8))}")
        window = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        stride = window[0] + int(rng.integers(0, 2)), window[1] + int(rng.integers(0, 2))
        grid = window[0] + int(rng.integers(0, 40)), window[1] + int(rng.integers(0, 40))
        layer = product(grid, Pool(window=window, stride=stride))
        items = (3, 3 + int(rng.integers(1, 6)))
        covered = np.zeros((items[1], *layer.output), int)
        end = int(rng.integers(1, 40))
        wanted = (max(end, int(rng.integers(1, 200))), end) if rng.random() < 0.7 else None
        for block in blocks(layer, items, config, wanted=wanted):
            assert math.prod(sums(layer.pool, block)) <= config.accumulator_depth
            covered[slice(*block.samples), slice(*block.rows), slice(*block.columns)] += 1
        assert not covered[: items[0]].any() and (covered[items[0] :] == 1).all()


def heights(layer: MatrixLayer, steps: int, streams: bool = False) -> list[int]:
    config = preset("edge")
    latency = sum_latency(config) + drain_latency(config)
    cut = blocks(layer, (0, 1), config, wanted=wanted_sums(layer, steps, streams, latency, config))
    assert all(block.columns == (0, layer.output[1]) for block in cut)
    return [last - first for first, last in (block.rows for block in cut)]


@pytest.mark.parametrize(
    ("grid", "channels", "steps", "streams", "wanted"),
    [
        # 64 sums, and less in the end where it takes many steps to make them.
        ((32, 32), 16, 9, False, [2] * 16),
        ((16, 16), 32, 18, False, [4, 4, 4, 2, 2]),
        ((16, 16), 32, 18, True, [4] * 4),
        ((8, 8), 64, 36, False, [4, 2, 2]),
        ((5, 5), 64, 72, False, [5]),
        # As quickly made as drained, or more quickly.
        ((32, 32), 16, 2, False, [8] * 4),
        ((32, 32), 16, 2, True, [8] * 4),
        ((32, 32), 8, 2, False, [2] * 16),
        ((32, 32), 8, 1, False, [8] * 4),
        # The first as early as the second has room.
        ((28, 28), 16, 1, False, [10, 18]),
        ((8, 8), 64, 2, False, [8]),
    ],
)
def test_blocks_fit_the_pace_of_a_layer(grid, channels, steps, streams, wanted) -> None:
    layer = product(grid, Pool(window=(1, 1), stride=(1, 1)), channels=channels)
    assert heights(layer, steps, streams) == wanted


def test_a_layer_that_pools_is_halved_whatever_its_steps() -> None:
    layer = product((28, 28), Pool(window=(2, 2), stride=(2, 2)), channels=16)
    assert {tuple(heights(layer, steps)) for steps in (1, 2, 9, 40)} == {(7, 7)}


def test_rectangles_hold_each_window_clipped(rng: np.random.Generator) -> None:
    for _ in range(300):
        axes = []
        for extent in rng.integers(1, 15, 2):
            size, stride = int(rng.integers(1, 6)), int(rng.integers(1, 4))
            count = -(-int(extent) // stride)
            start = -padding("SAME", int(extent), size, stride, count)
            axes.append(Axis(start, stride, count, size, int(extent)))
        seen = {}
        for part in rectangles(axes, 2, 3):
            for y in range(part.count[0]):
                for x in range(part.count[1]):
                    key = part.result[0] + y, part.result[1] + x
                    assert key not in seen
                    starts = zip(part.source, (y, x), axes, strict=True)
                    first = [start + n * axis.stride for start, n, axis in starts]
                    seen[key] = (*first, *part.size)
        wanted = {}
        for y in range(axes[0].count):
            for x in range(axes[1].count):
                spans = []
                for n, axis in zip((y, x), axes, strict=True):
                    start = axis.start + n * axis.stride
                    spans.append((max(start, 0), min(start + axis.size, axis.extent)))
                (top, bottom), (left, right) = spans
                wanted[y, x] = (2 + top, 3 + left, bottom - top, right - left)
        assert seen == wanted


def test_rows_of_the_source_that_a_strip_reads() -> None:
    plain = product((8, 8), Pool(window=(1, 1), stride=(1, 1)), taps=3)
    assert source_rows(plain, (0, 2)) == (-1, 3)
    pooled = product((8, 8), Pool(window=(2, 2), stride=(2, 2)), stride=2, taps=3)
    # Rows 2 and 3 of results are rows 4 to 7 of sums, which begin at row 7 of the source.
    assert source_rows(pooled, (2, 4)) == (7, 16)
