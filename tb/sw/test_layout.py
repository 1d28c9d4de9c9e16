"""Layouts and segments: every tap is read once, where it lies."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from whole_networks.small import alone

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.layout.pitches import Segment, lay_out, least_steps, segments
from celosia.sw.layers.network import Network
from celosia.sw.layers.spec import MatrixLayer
from celosia.sw.layers.values import Value

EDGE = preset("edge")


def product(kernel: tuple[int, int], depth: int, **changes: Any) -> MatrixLayer:
    return alone(1, kernel, depth, name=f"{kernel}", **changes)


def parts(layer: MatrixLayer, pitch: int) -> tuple[Segment, ...]:
    return segments(layer, pitch, layer.weights.shape[3], (0, 1), EDGE)


def network(value: Value, *layers: MatrixLayer) -> Network:
    grids = enumerate(layer.grid for layer in layers)
    results = [Value(name=f"y{n}", height=h, width=w, channels=1) for n, (h, w) in grids]
    return Network(values=(value, *results), layers=layers, items=1, inputs={0: 0}, outputs={})


def image(height: int, width: int, channels: int) -> Value:
    return Value(name="x", height=height, width=width, channels=channels, is_input=True)


@pytest.mark.parametrize("most", [None, 1, 3])
def test_segments_read_every_tap_where_it_lies(rng: np.random.Generator, most: int | None) -> None:
    for _ in range(300):
        kernel = (int(rng.integers(1, 8)), int(rng.integers(1, 8)))
        dilation = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
        depth = int(rng.integers(1, 40))
        reach = ((kernel[1] - 1) * dilation[1] + 1) * depth
        pitch = reach + int(rng.integers(0, 70))
        layer = product(kernel, depth, dilation=dilation)
        found = {}
        for part in segments(layer, pitch, depth, (0, 1), EDGE, most):
            for place, tap in enumerate(part.taps.tolist()):
                assert tap not in found
                skipped = place // part.run * part.skip * EDGE.rows
                found[tap] = part.offset + place + skipped
            if most is not None and not part.side_by_side:
                assert part.steps(EDGE) <= max(most, 1)
        y, x, c = np.indices((*kernel, depth))
        wanted = (y * dilation[0] * pitch + x * dilation[1] * depth + c).reshape(-1)
        assert [found[tap] for tap in range(layer.taps)] == wanted.tolist()


@pytest.mark.parametrize(
    ("kernel", "extents", "pitch"),
    [((5, 5), (28, 28, 1), 37), ((5, 5), (14, 14, 32), 448), ((3, 3), (28, 28, 1), 35)],
)
def test_pitch_packs_all_taps_of_a_kernel(kernel, extents, pitch) -> None:
    grid = (extents[0] - kernel[0] + 1, extents[1] - kernel[1] + 1)
    layer = product(kernel, extents[2], grid=grid)
    layout = lay_out(network(image(*extents), layer), {}, EDGE)[0]
    assert (layout.pitch, layout.margins) == (pitch, False)
    (part,) = parts(layer, layout.pitch)
    assert part.steps(EDGE) == least_steps(layer, EDGE)


def test_padding_becomes_margins() -> None:
    layer = product((5, 3), 2, origin=(-2, -1), grid=(6, 7))
    layout = lay_out(network(image(6, 7, 2), layer), {}, EDGE)[0]
    assert (layout.top, layout.left, layout.bottom, layout.right) == (2, 1, 2, 1)
    assert layout.pitch >= 18 and layout.pitch % EDGE.rows == 6
    assert layout.sample_pitch == 10 * layout.pitch


def test_readers_and_makers_of_values() -> None:
    ends = ({}, {"result": 2}, {"source": 2, "result": 3})
    layers = [product((1, 1), 1, grid=(4, 4), **each) for each in ends]
    made = network(image(4, 4, 1), *layers)
    assert made.readers == [[0, 1], [], [2], []]
    assert made.makers == [[], [0], [1], [2]]


def test_of_two_readers_the_more_costly_one_chooses() -> None:
    large = product((3, 3), 1, grid=(26, 26))
    small = product((5, 5), 1, grid=(2, 2), result=2)
    layout = lay_out(network(image(28, 28, 1), large, small), {}, EDGE)[0]
    assert len(parts(large, layout.pitch)) == 1
    assert len(parts(small, layout.pitch)) == 5


def test_a_kernel_that_covers_its_source_reads_it_in_one_go() -> None:
    layer = product((7, 7), 64)
    layout = lay_out(network(image(7, 7, 64), layer), {}, EDGE)[0]
    (part,) = parts(layer, layout.pitch)
    assert part.side_by_side and part.steps(EDGE) == 196


def test_channels_that_keep_to_themselves_read_their_own_taps() -> None:
    plain = product((3, 3), 1, grid=(4, 4))
    weights = np.arange(40 * 9, dtype=np.int8).reshape(40, 3, 3, 1)
    zeros = np.zeros(40, np.int64)
    scaling = replace(plain.scaling, bias=zeros, multiplier=zeros, left=zeros, right=zeros)
    layer = replace(plain, weights=weights, scaling=scaling, depth_multiplier=2)
    # Output channels 16 to 31 read source channels 8 to 15.
    assert layer.inputs(16, 32) == (8, 8) and layer.inputs(32, 40) == (16, 4)
    found = segments(layer, 6 * 20, 20, (16, 32), EDGE)
    corners = [(y * 120 + x * 20, 8) for y in range(3) for x in range(3)]
    assert [(part.offset, len(part.taps)) for part in found] == corners
    matrix = layer.matrix(16, 32).reshape(16, 9, 8)
    wanted = np.zeros((16, 9, 8), np.int8)
    for channel in range(16):
        wanted[channel, :, channel // 2] = weights[16 + channel].reshape(9)
    assert np.array_equal(matrix, wanted)
