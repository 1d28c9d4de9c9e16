"""Values that share the unified buffer, and values that do not fit into it."""

from typing import Any

import networks as w
import numpy as np
import pytest
from agreement import compare

from celosia.hw.arch.isa import Opcode


def assert_exact(content: bytes, x: np.ndarray, sizes: str, note: str = "") -> None:
    """Compare machine model and LiteRT; some layer's note must have this text."""
    program = compare(content, x[None], sizes=sizes)
    assert not program.host
    assert any(note in layer.note for layer in program.layers)


def kernel(rng: np.random.Generator, *shape: int, scale: float = 0.004) -> dict[str, Any]:
    return {
        "weights": rng.integers(-127, 128, shape).astype(np.int8),
        "bias": rng.integers(-900, 900, shape[0]).astype(np.int32),
        "weight_scale": scale,
        "output_scale": 0.1,
    }


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(
    ("size", "stride", "dilation"),
    [((3, 3), (1, 1), (2, 2)), ((3, 1), (1, 1), (4, 1)), ((3, 3), (2, 2), (1, 1))],
)
def test_strips_of_a_convolution(size, stride, dilation, padding, rng) -> None:
    """Each strip needs rows of its neighbours: as many as the windows reach past it."""
    pace = {"stride": stride, "dilation": dilation, "padding": padding}
    layer = w.Convolution(**kernel(rng, 4, *size, 4) | pace)
    ends = {"input_shape": (1, 40, 40, 4), "input_scale": 0.1, "input_zero_point": 3}
    content = w.write_sequential([layer], **ends)
    x = rng.integers(-128, 128, (1, 40, 40, 4)).astype(np.int8)
    assert_exact(content, x, "micro,unified_bytes=4096", "through external memory")


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_strips_of_a_pooling(padding: str, rng: np.random.Generator) -> None:
    layers: list[w.Layer] = [
        w.Convolution(**kernel(rng, 6, 3, 3, 4)),
        w.Pool(kind="AVERAGE_POOL_2D", window=(3, 3), stride=(2, 2), padding=padding),
        w.Convolution(**kernel(rng, 6, 1, 1, 6)),
    ]
    content = w.write_sequential(layers, input_shape=(1, 40, 40, 4), input_scale=0.1)
    x = rng.integers(-128, 128, (1, 40, 40, 4)).astype(np.int8)
    assert_exact(content, x, "micro,unified_bytes=4096", "through external memory")


@pytest.mark.parametrize(("bus_bytes", "loads"), [(8, 4), (4, 2)])
def test_samples_share_a_tile_that_takes_longer_to_load_than_a_pass(bus_bytes, loads, rng) -> None:
    """A sample of twelve pixels: a tile takes 8 or 16 cycles on the bus; one stays."""
    layers: list[w.Layer] = [w.Convolution(**kernel(rng, 8, 1, 1, 8)) for _ in range(3)]
    content = w.write_sequential(layers, input_shape=(1, 3, 4, 8), input_scale=0.1)
    x = rng.integers(-128, 128, (2, 1, 3, 4, 8)).astype(np.int8)
    program = compare(content, x, sizes=f"micro,weight_tiles=2,bus_bytes={bus_bytes}", batch=2)
    found = [i for section in program.per_batch for i in section.instructions]
    assert sum(i.tiles for i in found if i.opcode is Opcode.LOAD_WEIGHTS) == loads


@pytest.mark.parametrize("widths", [(8, 8, 9), (8, 16, 9), (9, 8, 9), (16, 8, 17), (7, 8, 15)])
def test_neighbours_in_the_unified_buffer(widths, rng) -> None:
    """A value one byte longer than the gap before a neighbour that is still read."""
    first, second, third = widths
    layers: list[w.Layer] = [
        w.FullyConnected(**kernel(rng, second, first)),
        w.FullyConnected(**kernel(rng, third, second)),
        w.Back(to="output_0"),
        w.FullyConnected(**kernel(rng, second, second)),
        w.Add(second="output_0", output_scale=0.2),
    ]
    content = w.write_sequential(layers, input_shape=(1, first), input_scale=0.1)
    for _ in range(3):
        assert_exact(content, rng.integers(-128, 128, (1, first)).astype(np.int8), "micro")


@pytest.mark.parametrize("batch", [2, 5])
def test_results_kept_for_later_layers_outlast_the_next_samples(batch, rng) -> None:
    """Convolutions run by sample, FULLY_CONNECTED on all: nothing may overwrite its input."""
    layers: list[w.Layer] = [
        w.Convolution(**kernel(rng, 16, 3, 3, 4), padding="VALID"),
        w.Convolution(**kernel(rng, 8, 3, 3, 16), padding="VALID", stride=(2, 2)),
        w.Convolution(**kernel(rng, 4, 3, 3, 8), padding="VALID"),
        w.Reshape(shape=(-1, 36)),
        w.FullyConnected(**kernel(rng, 9, 36)),
    ]
    shape = 13, 13, 4
    content = w.write_sequential(layers, input_shape=(1, *shape), input_scale=0.1)
    x = rng.integers(-128, 128, (batch, 1, *shape)).astype(np.int8)
    compare(content, x, sizes="micro", batch=batch)


@pytest.mark.parametrize("ratio", [2.0**20, 2.0**26, 2.0**28, 2.0**30])
def test_mean_by_a_factor_next_to_nothing(ratio: float, rng: np.random.Generator) -> None:
    layer = w.Mean(output_scale=0.1 * ratio, output_zero_point=-7)
    content = w.write_sequential([layer], input_shape=(1, 8, 9, 3), input_scale=0.1)
    assert_exact(content, rng.integers(-128, 128, (1, 8, 9, 3)).astype(np.int8), "micro")
