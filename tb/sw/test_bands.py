"""Bands: what a tile multiplies, when a layer has one, and in which order the units work."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from networks import Convolution, Depthwise, Layer, Pad, write_sequential
from whole_networks.small import alone

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_steps
from celosia.sw.compiler.compiled import bounds
from celosia.sw.compiler.layout.bands import Band, band_matrix, parameters_of_tile, spans, vectors
from celosia.sw.compiler.layout.choose import choose
from celosia.sw.compiler.layout.pack import pack_parameters, packed, packed_bytes
from celosia.sw.compiler.layout.pitches import Layout, band_segments, lay_out
from celosia.sw.compiler.layout.stripes import rows_read
from celosia.sw.compiler.layout.tile import tile
from celosia.sw.compiler.lower import lower
from celosia.sw.compiler.schedule.blocks import band_blocks
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.graph import Graph
from celosia.sw.layers.network import Network
from celosia.sw.layers.spec import MatrixLayer

EDGE = preset("edge")
Pair = tuple[int, int]


def product(rng, grid: Pair, kernel: Pair, channels: int, each=1, **pace: Any) -> MatrixLayer:
    fields = {"kind": "DEPTHWISE_CONV_2D", "grid": grid, "depth_multiplier": each}
    layer = alone(channels * each, kernel, **fields, **pace)
    numbers = np.arange(channels * each, dtype=np.int64)
    scaled = {"bias": numbers, "multiplier": numbers + 1000, "left": numbers % 7}
    scaling = replace(layer.scaling, **scaled, right=numbers % 5)
    weights = rng.integers(-128, 128, layer.weights.shape).astype(np.int8)
    return replace(layer, weights=weights, scaling=scaling)


def pair(rng: np.random.Generator, most: int) -> Pair:
    return int(rng.integers(1, most + 1)), int(rng.integers(1, most + 1))


def test_a_tile_multiplies_what_it_reads(rng: np.random.Generator) -> None:
    """Any vector times the matrix gives the sums of its results, whatever the geometry."""
    split = 0
    for _ in range(200):
        kernel, each = pair(rng, 5), int(rng.integers(1, 4))
        pace = {"stride": pair(rng, 3), "dilation": pair(rng, 3)}
        stride, dilation = pace.values()
        band = Band(int(rng.integers(1, 4)), int(rng.integers(2, 9)), joined=False)
        row = (kernel[1] - 1) * dilation[1] + 1 + int(rng.integers(0, 20))
        layer = product(rng, (9, 9), kernel, 2 * band.channels, each, **pace)
        found = spans(layer, band, row, EDGE)
        split += len(found) > 1
        first = band.channels
        matrix = band_matrix(layer, band, first, found, row).astype(int)
        last = max(start + count for start, count in found)
        pixels = rng.integers(-128, 128, (last, band.channels))
        taps = np.concatenate([pixels[start : start + count] for start, count in found])
        sums = (matrix @ taps.reshape(-1)).reshape(band.count, band.channels, each)
        y, x = np.indices(kernel).reshape(2, -1)
        for result in range(band.count):
            window = y * dilation[0] * row + x * dilation[1] + result * stride[1]
            for channel in range(band.channels):
                own = layer.weights[(first + channel) * each :][:each].reshape(each, -1)
                wanted = own.astype(int) @ pixels[window, channel]
                assert sums[result, channel].tolist() == wanted.tolist()
    assert 20 < split < 180


def test_taps_of_one_pixel_are_not_one_weight(rng: np.random.Generator) -> None:
    """Rows of the kernel that meet on a pixel are read each by itself."""
    layer = product(rng, (9, 1), (3, 3), 4)
    for row, count in ((2, 3), (3, 1)):
        assert len(spans(layer, Band(1, 2, joined=True), row, EDGE)) == count


def test_segments_skip_from_pixel_to_pixel(rng: np.random.Generator) -> None:
    layer = product(rng, (25, 5), (3, 3), 64)
    layout = Layout(1, 1, 1, 0, 6 * 66, 27 * 6 * 66, 66, 6)
    (part,) = band_segments(layer, Band(2, 8, joined=True), layout, EDGE)
    assert (part.offset, part.run, part.skip, len(part.taps)) == (0, 2, 4, 44)
    assert part.steps(EDGE) == 3
    # Where channels lie side by side there is nothing to skip.
    (part,) = band_segments(layer, Band(2, 8, joined=True), replace(layout, pixel=2), EDGE)
    assert part.side_by_side


@pytest.mark.parametrize(("channels", "count"), [(1, 8), (2, 8), (8, 8), (3, 16), (16, 16)])
def test_parameters_of_a_tile(channels: int, count: int) -> None:
    assert parameters_of_tile(channels, EDGE) == count


def test_blocks_of_bands_cover_rows_once_and_fit(rng: np.random.Generator) -> None:
    for _ in range(200):
        config = preset(f"micro,accumulator_depth={2 ** int(rng.integers(4, 8))}")
        grid = int(rng.integers(2, 60)), int(rng.integers(1, 30))
        band = Band(1, int(rng.integers(2, 9)), joined=bool(rng.integers(0, 2)))
        row = grid[1] + int(rng.integers(0, 3))
        rows = []
        for block in band_blocks(product(rng, grid, (3, 3), 8), band, row, (2, 3), config):
            assert (block.samples, block.columns) == ((2, 3), (0, grid[1]))
            rows += range(*block.rows)
            counts = vectors(band, block.extents[1], grid[1], row)
            assert math.prod(counts) <= config.accumulator_depth
        assert rows == list(range(grid[0]))


#: Quantisation of the layers of the networks below.
SCALES: dict[str, Any] = {"weight_scale": 0.01, "output_scale": 0.5}


def pointwise(channels: int, depth: int) -> Convolution:
    weights, bias = np.ones((channels, 1, 1, depth), np.int8), np.zeros(channels, np.int32)
    return Convolution(weights=weights, bias=bias, **SCALES)


def depthwise(channels: int, kernel: int = 3, padding: str = "SAME", stride: int = 1) -> Depthwise:
    weights = np.ones((1, kernel, kernel, channels), np.int8)
    more: dict[str, Any] = {"padding": padding, "stride": (stride, stride), **SCALES}
    return Depthwise(weights=weights, bias=np.zeros(channels, np.int32), **more)


def model(*layers: Layer, rows: int = 25, columns: int = 5, depth: int = 3) -> Graph:
    shape = (1, rows, columns, depth)
    return load(write_sequential(layers, input_shape=shape, input_scale=0.1, input_zero_point=3))


FIRST, LAST = pointwise(64, 3), pointwise(8, 64)
#: As in networks that spot keywords.
KEYWORDS = model(FIRST, depthwise(64), pointwise(64, 64), depthwise(64), LAST)


def chosen(graph: Graph, config: Config = EDGE) -> tuple[Network, dict[int, Band]]:
    network = lower(graph)
    return network, choose(network, config)


def test_narrow_images_are_one_long_row() -> None:
    network, bands = chosen(KEYWORDS)
    assert bands == dict.fromkeys((1, 3), Band(2, 8, joined=True))
    layouts = lay_out(network, bands, EDGE)
    source, result = layouts[1], layouts[2]
    # One pixel stands between rows, and is the last of one and the first of the next.
    assert (source.pixel, source.row, source.pitch) == (66, 6, 396)
    assert (source.top, source.left, source.bottom, source.right) == (1, 1, 1, 0)
    # The vector that ends after the last result reads three pixels and a corner more.
    assert source.after == 1 + 7
    assert (result.pixel, result.row, result.margins) == (66, 6, False)
    # Results after the last one have an address, too: the last row has one pixel more already.
    assert result.sample_pitch == (25 * 6 + 7 - 1) * 66


@pytest.mark.parametrize(
    ("graph", "bands"),
    [
        # What the next layer pads does not change: whole rows, no results between them.
        (model(FIRST, depthwise(64), depthwise(64), rows=24, columns=15), {1: False}),
        # A stride leads from row to row.
        (model(FIRST, depthwise(64, stride=2), LAST, rows=40, columns=33), {1: False}),
        # Inputs and outputs lie as the host has them.
        (model(depthwise(64), LAST, depth=64), {}),
        (model(FIRST, depthwise(64)), {}),
        # Few pixels leave the array waiting for tiles.
        (model(FIRST, depthwise(64), LAST, rows=4, columns=4), {}),
    ],
)
def test_who_has_a_band(graph: Graph, bands: dict[int, bool]) -> None:
    _, found = chosen(graph)
    assert {number: band.joined for number, band in found.items()} == bands


def test_a_band_on_an_input_of_as_many_channels() -> None:
    """An input whose pixels lie at a suitable pitch needs no work of the host."""
    _, bands = chosen(model(depthwise(2), pointwise(8, 2), rows=30, columns=15, depth=2))
    assert bands[0].channels == 2


@pytest.mark.parametrize("columns", [4, 5, 8, 13, 16, 21])
@pytest.mark.parametrize("window", [(3, "SAME", 1), (5, "SAME", 2), (3, "VALID", 1)])
def test_rows_cover_the_pixels_of_all_vectors(columns: int, window: tuple[int, str, int]) -> None:
    """The last vector of a row, or the kernel's last column, may end on pixels of the next one."""
    network, bands = chosen(model(pointwise(8, 3), depthwise(8, *window), columns=columns))
    layer, band, layout = network.product(1), bands[1], lay_out(network, bands, EDGE)[1]
    ends = [first + count for first, count in spans(layer, band, layout.row, EDGE)]
    for first in range(layer.grid[0]):
        high, wide = vectors(band, 1, layer.grid[1], layout.row)
        assert high == 1
        start = layout.left + layer.origin[1] + (wide - 1) * band.count * layer.stride[1]
        row = layer.origin[0] + first * layer.stride[0]
        last = row + (start + max(ends) - 1) // layout.row
        assert rows_read(layer, (first, first + 1), band, layout) == (row, last + 1)


def test_padding_that_the_kernel_does_not_read_up() -> None:
    """Rows of results that are longer than those of the source are not counted through."""
    around = Pad(before=(0, 2, 2, 0), after=(0, 2, 2, 0))
    for kernel, joined in ((2, False), (3, True)):
        layers = pointwise(64, 3), around, depthwise(64, kernel, "VALID"), pointwise(8, 64)
        _, bands = chosen(model(*layers, rows=30, columns=9))
        assert bands[1].joined == joined


def test_parameters_stand_once_for_each_lane(rng: np.random.Generator) -> None:
    network, bands = chosen(KEYWORDS)
    tiling = tile(network, lay_out(network, bands, EDGE), bands, EDGE)
    layer, tiled = product(rng, (25, 5), (3, 3), 64), tiling.layers[1]
    assert (tiled.tiles, tiled.channels, tiled.parameters) == (32, 2, 8)
    raw = np.frombuffer(pack_parameters(layer, tiled), "<i4").reshape(32, 8, 4)
    wanted = np.arange(64).reshape(32, 2)
    assert np.array_equal(raw[:, :, 0], np.tile(wanted, 4))
    assert np.array_equal(raw[:, :, 1], np.tile(wanted + 1000, 4))


def test_constants_take_the_bytes_that_were_counted() -> None:
    network, bands = chosen(KEYWORDS)
    layouts = lay_out(network, bands, EDGE)
    tiling = tile(network, layouts, bands, EDGE)
    pairs = zip(network.layers, tiling.layers, strict=True)
    made = packed(network, tiling, layouts, EDGE)
    assert [(len(w), len(p)) for w, p in made] == [packed_bytes(*pair, EDGE) for pair in pairs]


def work(graph: Graph, *opcodes: Opcode) -> list[tuple[int, Instruction]]:
    (part,) = compile_steps(graph, EDGE).parts
    return [(s.layer, s.instruction) for s in part.steps if s.instruction.opcode in opcodes]


def test_drains_come_one_group_late() -> None:
    """Between the passes of eight tiles stand the drains of the eight before."""
    steps = work(KEYWORDS, Opcode.MATMUL, Opcode.VECTOR)
    order = [i.opcode is Opcode.MATMUL for layer, i in steps if layer == 1]
    assert order == [True] * 8 + [True, False] * 24 + [False] * 8


def test_the_next_layer_starts_on_channels_that_are_there() -> None:
    order = work(KEYWORDS, Opcode.MATMUL, Opcode.VECTOR)
    first = next(n for n, (layer, _) in enumerate(order) if layer == 2)
    passes = [i for layer, i in order[first:] if layer == 2 and i.opcode is Opcode.MATMUL]
    assert [i.taps for i in passes] == [48, 48, 16, 16, 64, 64]
    # The last eight drains come among the first passes of two tiles, and after those.
    assert [layer for layer, _ in order[first : first + 11]] == [2, 1, 2, *[1] * 7, 2]


def test_who_feeds_a_band_goes_tile_by_tile() -> None:
    """All pixels of sixteen channels, so that the band can start on those."""
    passes = [i for layer, i in work(KEYWORDS, Opcode.MATMUL) if layer == 0]
    # The first in two parts, because the image is still being loaded.
    assert [i.x_count * i.y_count for i in passes] == [60, 65, 125, 125, 125]


def test_bound_of_a_band() -> None:
    compiled = compile_steps(KEYWORDS, EDGE)
    # 32 pairs of channels, 3 steps, 19 vectors.
    assert bounds(compiled)[1] == 32 * 3 * 19
    assert compiled.program.layers[1].note == "in bands: 8 results of 2 channels a vector"


def test_what_does_not_fit_goes_without_bands() -> None:
    """Row stripes lie without gaps between pixels."""
    assert compile_steps(KEYWORDS, EDGE).parts[0].bands == frozenset({1, 3})
    assert not compile_steps(KEYWORDS, preset("edge,unified_bytes=8192")).parts[0].bands
