"""The order of work: layers that overlap, rows that pass from one to the next, what stays."""

from dataclasses import replace

import numpy as np
import pytest
from networks import Back, Concatenate, Convolution, Depthwise, Pad, write_sequential

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Opcode
from celosia.hw.arch.presets import preset
from celosia.sim.timing.costs import drain_latency, sum_latency
from celosia.sw.compiler.compile import compile_graph, compile_steps
from celosia.sw.compiler.emit.access import Access
from celosia.sw.compiler.layout.pitches import Segment
from celosia.sw.compiler.layout.residence import Demand, demand_of, reside
from celosia.sw.compiler.layout.tile import Ring
from celosia.sw.compiler.schedule.rings import Queue
from celosia.sw.frontend.tflite import load
from celosia.sw.layers.spec import MatrixLayer
from celosia.sw.runtime.interpreter import open_session

RANDOM = np.random.RandomState(7)


def convolution(channels: int, depth: int, size: int = 1, **changes: object) -> Convolution:
    weights = RANDOM.randint(-9, 10, (channels, size, size, depth)).astype(np.int8)
    bias = RANDOM.randint(-99, 99, channels).astype(np.int32)
    values = {"weights": weights, "weight_scale": 0.02, "bias": bias, "output_scale": 0.5}
    return Convolution(**(values | changes))  # pyright: ignore[reportArgumentType]


def depthwise(channels: int, stride: int, size: int = 3) -> Depthwise:
    weights = RANDOM.randint(-99, 100, (1, size, size, channels)).astype(np.int8)
    bias, steps = np.zeros(channels, np.int32), (stride, stride)
    return Depthwise(weights=weights, weight_scale=0.01, bias=bias, output_scale=0.3, stride=steps)


def outputs(content: bytes, config: Config, batch: int = 1) -> np.ndarray:
    program = compile_graph(load(content), config, batch)
    shape = (batch, *program.inputs[0].shape)
    values = np.random.RandomState(3).randint(-128, 128, shape).astype(np.int8)
    with open_session(program, device="machine") as session:
        return session.run([values])[0]


#: What is made in the middle is larger than the unified buffer.
EXPANDED = {
    stride: write_sequential(
        [convolution(48, 8), depthwise(48, stride), convolution(8, 48)],
        input_shape=(1, 47, 48, 8),
        input_scale=0.5,
    )
    for stride in (1, 2)
}


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("batch", [1, pytest.param(2, marks=pytest.mark.thorough)])
def test_rows_pass_to_the_next_layer_without_external_memory(stride: int, batch: int) -> None:
    small = preset(f"edge,unified_bytes={65536 if stride == 1 else 49152}")
    program = compile_graph(load(EXPANDED[stride]), small, batch)
    stored = sum(i.rows * i.length for i in program.main.instructions if i.opcode is Opcode.STORE)
    assert stored == batch * int(np.prod(program.outputs[0].shape))
    assert any("from the layer before, " in layer.note for layer in program.layers)
    whole = outputs(EXPANDED[stride], preset("edge"), batch)
    np.testing.assert_array_equal(outputs(EXPANDED[stride], small, batch), whole)


@pytest.mark.parametrize(("size", "stride"), [(1, 2), (2, 3), (1, 4)])
def test_rows_between_stripes_are_not_computed(size: int, stride: int) -> None:
    layers = [convolution(9, 5), convolution(32, 9), depthwise(32, stride, size)]
    layers.append(convolution(12, 32))
    content = write_sequential(layers, input_shape=(1, 39, 39, 5), input_scale=0.5)
    small = preset("micro,unified_bytes=16384")
    notes = [layer.note for layer in compile_graph(load(content), small).layers]
    assert any("from the layer before, " in note for note in notes)
    np.testing.assert_array_equal(outputs(content, small), outputs(content, preset("edge")))


@pytest.mark.parametrize(("above", "below", "size"), [(0, 3, 1), (5, 0, 2), (4, 4, 3)])
def test_a_stripe_of_margins_alone_goes_through_external_memory(above, below, size) -> None:
    pad = Pad(before=(0, above, 0, 0), after=(0, below, 0, 0))
    layers = [convolution(9, 5), convolution(32, 9), pad, convolution(12, 32, size)]
    content = write_sequential(layers, input_shape=(1, 39, 39, 5), input_scale=0.5)
    small = preset("edge,unified_bytes=16384")
    notes = [layer.note for layer in compile_graph(load(content), small).layers]
    assert any("through external memory, " in note for note in notes)
    np.testing.assert_array_equal(outputs(content, small), outputs(content, preset("edge")))


def test_channels_are_concatenated_where_they_are_made() -> None:
    layers = [
        *(convolution(16, 8), convolution(24, 16), Back(to="output_0"), convolution(8, 16, 3)),
        *(Concatenate(others=("output_1",), axis=3), convolution(16, 32)),
    ]
    content = write_sequential(layers, input_shape=(1, 6, 7, 8), input_scale=0.5)
    compiled = compile_steps(load(content), preset("edge"))
    (part,) = compiled.parts
    assert [type(layer) for layer in part.network.layers] == [MatrixLayer] * 4
    parts = {(x.first, x.channels) for x in part.network.layers if isinstance(x, MatrixLayer)}
    assert parts == {(0, 16), (8, 24), (0, 8)}
    small = outputs(content, preset("edge,unified_bytes=2048"))
    np.testing.assert_array_equal(small, outputs(content, preset("edge")))


def test_all_channels_of_an_output_are_stored() -> None:
    """The last part of it comes in row stripes; the first part is already in the unified buffer."""
    layers = [convolution(48, 5), convolution(12, 48, 3), convolution(16, 12)]
    joined = [*layers, Concatenate(others=("output_0",), axis=3)]
    content = write_sequential(joined, input_shape=(1, 9, 9, 5), input_scale=0.5)
    small = preset("edge,unified_bytes=8192")
    notes = [layer.note for layer in compile_graph(load(content), small).layers]
    assert "" in notes and "through external memory, " in notes[-1]
    np.testing.assert_array_equal(outputs(content, small), outputs(content, preset("edge")))


def test_channels_apart_do_not_conflict() -> None:
    one = Access("unified", True, 0, 96, 0, 4, 0, 96, 16, (0, 8))
    other = one._replace(writes=False, channels=(8, 16))
    assert not one.conflicts(other)
    assert one.conflicts(other._replace(channels=(7, 9)))
    assert one.conflicts(other._replace(channels=None))
    # Of other pixels nothing is known.
    assert one.conflicts(other._replace(pixel=24))


def demand(tiles: int, cycles: int, **changes: object) -> Demand:
    values = {"tiles": tiles, "period": 1, "cycles": cycles, "fixed": 0.0, "per_tile": 16.0}
    values |= {"first": False, "turns": False}
    return Demand(**(values | changes))  # pyright: ignore[reportArgumentType]


def test_the_bus_is_equally_busy_in_all_layers() -> None:
    """One layer uses a tile in 16 cycles, the other in 64."""
    places, used = reside([demand(100, 1600), None, demand(100, 6400)], 80)
    assert used <= 80
    assert places[1][2] == 0
    # The second streams nearly all of its tiles in a quarter of its time, and the first no more.
    assert (places[0][2], places[2][2]) == (76, 4)
    places, used = reside([demand(100, 1600), demand(100, 1600)], 80)
    assert [place[2] for place in places] == [40, 40]


def test_loads_and_stores_of_stripes_take_the_bus() -> None:
    config = preset("edge")
    layer = compile_steps(load(EXPANDED[1]), config).parts[0].network.product(2)
    tiles = ((Segment(0, np.arange(48), 48, 0),),)
    one, other = (demand_of(layer, tiles, False, 8, 1, config, s) for s in ((4, 0), (4, 500)))
    assert other == replace(one, fixed=one.fixed + 500)
    assert other.staying(0.06) > one.staying(0.06)


def test_few_tiles_of_the_first_layer_stay() -> None:
    places, _ = reside([demand(4, 6400, first=True), demand(100, 1600)], 50)
    assert places[0] == (0, 4, 1)


def test_latencies_are_those_of_the_estimate() -> None:
    config = preset("edge")
    assert (sum_latency(config), drain_latency(config)) == (44, 43)


@pytest.mark.parametrize(
    ("slots", "counts", "ahead", "after"),
    [
        (3, (1, 1, 1, 1), [4, 5, 6], 4),
        (4, (4, 1), [4], 4),
        # The next one does not fit after the second.
        (5, (2, 2, 2), [4, 6], 4),
        (6, (2, 2, 2, 1), [4, 6, 8], 4),
    ],
)
def test_all_slots_of_a_ring_hold_constants(slots, counts, ahead, after) -> None:
    """``ahead``: slots before the first use; ``after``: of the next constants after it."""
    queue = Queue(Ring(4, slots), [(n, n, count) for n, count in enumerate(counts)])
    fetched = []
    while queue.position is not None:
        fetched.append(queue.fetch()[1])
    assert fetched == ahead
    assert queue.take(until=9) == ahead[0]
    assert queue.position == len(ahead) and queue.fetch() == (len(ahead), after, counts[len(ahead)])
    assert queue.freed(after, 1) == 9
