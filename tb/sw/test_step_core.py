"""Steps of training on the core: programs that the compiler makes, against a reference in NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import step_reference as reference
from float_networks import Layers, network
from step_inputs import contents, shift_of
from step_sessions import CORES, images_of, lenet, require_equal, state_of

from celosia.hw.arch.presets import preset
from celosia.sim.check.hazards import check_hazards
from celosia.sim.timing.cycles import estimate
from celosia.sw.compiler import legalise
from celosia.sw.compiler.compile import compile_steps
from celosia.sw.ir.graph import Graph, Operation, Quantization, State, Tensor
from celosia.sw.layers import dense
from celosia.sw.runtime.opening import open_session
from celosia.sw.training.graph import StepGraph, step_graph

#: Images of a step of ``test_gradients``.
BATCH = 3

#: Cycles of a step of MLP 784-128-10 by the program that was written for it, on the RTL.
MLP_CYCLES = 62_822

SMALL_ARRAY = "nano,rows=8,columns=8,weight_tiles=128,unified_bytes=65536"

#: Cycles of a step of LeNet-5 with a batch of 4, about.
LENET_CYCLES = 150_000


def step(sizes: tuple[int, ...], seed: int, most: int, batch: int = BATCH) -> StepGraph:
    layers = Layers(sizes[:1], seed)
    for outputs in sizes[1:-1]:
        layers.dense(outputs, "RELU", bias=False)
    layers.dense(sizes[-1], bias=False)
    return step_graph(layers.graph(), batch, shift_of, most=most)


@pytest.mark.parametrize(
    ("name", "sizes", "most"),
    [
        ("edge", (45, 21, 18, 4), 1 << 14),
        ("edge,unified_bytes=32768", (200, 48, 4), 1 << 12),  # Three blocks of columns.
        ("edge,accumulator_depth=64", (150, 32, 4), 1 << 10),  # Sums of three jobs.
        # Slow drains: no job of another layer comes between two of a pair.
        (
            "micro,rows=16,columns=16,lanes=2,bus_bytes=4,unified_bytes=16384,weight_tiles=256,"
            "accumulator_depth=64,parameter_channels=64",
            (116, 52, 4),
            1 << 12,
        ),
        ("nano,rows=16,columns=16,weight_tiles=128,unified_bytes=16384", (30, 17, 4), 1 << 14),
    ],
)
def test_steps_equal_the_reference(name: str, sizes: tuple[int, ...], most: int, seed: int) -> None:
    program = require_equal(step(sizes, seed, most), name, seed)
    assert not program.host
    assert program.in_place == program.variables


def hidden(*sizes: int, seed: int) -> Graph:
    layers = Layers(sizes[:1], seed)
    for outputs in sizes[1:-1]:
        layers.dense(outputs, "RELU")
    layers.dense(sizes[-1])
    return layers.graph()


def test_half_of_the_hidden_results_are_left_out(seed: int) -> None:
    found = step_graph(hidden(45, 21, 18, 4, seed=seed), BATCH, shift_of, dropout=True)
    assert len(found.dropouts) == 2
    assert not require_equal(found, "edge", seed).host


@pytest.mark.thorough
def test_dropout_on_the_rtl(seed: int, verilator: None) -> None:
    found = step_graph(hidden(30, 17, 4, seed=seed), BATCH, shift_of, dropout=True)
    require_equal(found, "transformer", seed, "rtl")


def test_results_mean_the_same_with_dropout_and_without(seed: int) -> None:
    """All results count twice if half of them are left out; weights and biases do not change."""
    graph, means = hidden(45, 21, 18, 4, seed=seed), []
    graphs = [step_graph(graph, BATCH, shift_of, dropout=is_on) for is_on in (False, True)]
    for found in graphs:
        ends = [*found.graph.outputs, *(m.high for m in found.weights)]
        means.append([found.exponents[number] for number in ends])
        states = [state.initial for state in found.graph.states]
        means[-1] += [array.tobytes() for array in states]
    assert means[0] == means[1]


@pytest.mark.parametrize("late", [False, True])
def test_a_state_that_is_read_late_is_not_replaced(late: bool) -> None:
    """Operations between make it worth to load the old state again."""
    count, between = 1 << 12, 8
    plain = Quantization(np.ones(1, np.float32), np.zeros(1, np.int64))
    names = ("x", "old", "new", *(f"sum_{n}" for n in range(between)), "result")
    tensors = tuple(Tensor(name, (1, 1, count), np.dtype(np.int8), plain) for name in names)
    fields = {"shift": 0, "rounding": "UP", "kept_bits": 0, "bias": 0, "stepped": False}
    fields |= {"low": -128, "high": 127, "factors": (1, 1)}
    inputs = [(0, 1), *((0, n) for n in range(2, between + 2)), (1 if late else 2, between + 2)]
    sums = [Operation("ShiftedSum", n, ends, (n + 2,), fields) for n, ends in enumerate(inputs)]
    states = (State(1, 2, np.ones((1, 1, count), np.int8)),)
    graph = Graph("late", tensors, tuple(sums), (0,), (between + 3,), states=states)
    program = compile_steps(graph, preset("edge,activation_weights=true")).program
    assert len(program.in_place) == (not late)
    with open_session(program, device="machine") as session:
        (results,) = session.run([np.full((3, 1, count), 5, np.int8)])
    old, new = np.array([1, 6, 11]), np.array([6, 11, 16])
    expected = (old if late else new) + new + 5 * between
    np.testing.assert_array_equal(results[:, 0], np.repeat(expected[:, None], count, 1))


@pytest.mark.parametrize("core", [*CORES[:2], SMALL_ARRAY])
@pytest.mark.parametrize("loaded", [1 << 10, 1 << 15])
def test_layers_of_several_blocks_with_biases(core: str, loaded: int, seed, monkeypatch) -> None:
    """The last block of the second layer is narrow, and the errors of its inputs are needed.

    They are computed by rows of the weights: at once, or 16 rows of all blocks at a time.
    """
    monkeypatch.setattr(dense, "_LOADED", loaded)
    found = step_graph(hidden(50, 72, 40, 4, seed=seed), BATCH, shift_of, most=1 << 11)
    assert not require_equal(found, core, seed).host


def deep(seed: int) -> StepGraph:
    layers = Layers((12, 12, 8), seed)
    for _ in range(4):
        layers.conv(8)
    layers.dense(4)
    return step_graph(layers.graph(), BATCH, shift_of)


#: A core with too little space for all values between their first and their last reader.
SMALL = "edge,unified_bytes=40960"


def test_values_are_stored_and_loaded_again(seed: int) -> None:
    program = require_equal(deep(seed), SMALL, seed)
    assert not program.host
    (part,) = program.parts
    check_hazards([s.instructions for s in (*part.setups, *part.mains)], program.config)


@pytest.mark.thorough
def test_values_loaded_again_on_the_rtl(seed, verilator, monkeypatch) -> None:
    core = "transformer"
    network = step((48, 64, 64, 64, 64, 4), seed, 1 << 10, 240)
    assert not require_equal(network, core, seed, "rtl").host
    monkeypatch.setattr(legalise, "with_reloads", lambda network, *_: network)
    assert compile_steps(network.graph, preset(f"{core},activation_weights=true")).program.host


def test_without_loads_of_values_the_host_runs_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legalise, "with_reloads", lambda network, *_: network)
    assert compile_steps(deep(0).graph, preset(f"{SMALL},activation_weights=true")).program.host


def test_layers_share_the_tiles_of_addends() -> None:
    """A tile for each of 196 blocks of weights would not fit."""
    graph = step((30, 400, 400, 4), 0, 1 << 10).graph
    assert not compile_steps(graph, preset("edge,activation_weights=true")).program.host


CONVOLUTIONS: dict[str, list[dict[str, Any]]] = {
    "same": [{"outputs": 5}, {"outputs": 4}],
    "valid": [
        {"outputs": 18, "padding": "VALID"},
        {"outputs": 20, "kernel": (2, 3), "padding": "VALID"},
    ],
    "strides": [{"outputs": 5, "stride": (2, 2)}, {"outputs": 6, "stride": (2, 1)}],
    "large strides": [
        {"outputs": 5, "stride": (2, 2), "padding": "VALID"},
        {"outputs": 6, "stride": (3, 2), "padding": "VALID", "kernel": (1, 2)},
    ],
    "narrow": [{"outputs": 5, "kernel": (1, 1)}, {"outputs": 7, "kernel": (3, 1)}],
    "wide": [{"outputs": 5, "bias": False}, {"outputs": 33, "activation": "RELU6"}],
}


@pytest.mark.parametrize("name", ["dense", "maximum"])
@pytest.mark.parametrize("core", ["edge,columns=8", "edge,columns=32,lanes=16"])
def test_arrays_that_are_not_square(core: str, name: str, seed: int) -> None:
    """Parameters that shift sums in place are those of a tile, not of all columns."""
    step = step_graph(network(name, seed), BATCH, shift_of, most=64)
    assert not require_equal(step, core, seed).host


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("core", CORES)
def test_convolutions_run_on_the_core(name: str, core: str, seed: int) -> None:
    layers = Layers((7, 6, 2), seed)
    for fields in CONVOLUTIONS[name]:
        layers.conv(**fields)
    layers.dense(4)
    assert not require_equal(step_graph(layers.graph(), BATCH, shift_of), core, seed).host


def maxima(layers: Layers) -> None:
    layers.conv(5)
    layers.pool("MAX_POOL_2D", 2, 3)
    layers.conv(20)
    layers.pool("MAX_POOL_2D", 2, 1)


def windows_beside(layers: Layers) -> None:
    """Add a pooling that leaves out a row and a column."""
    layers.conv(5, (2, 2), padding="VALID")
    layers.pool("MAX_POOL_2D", 2, 2)


def means(layers: Layers) -> None:
    layers.conv(5)
    layers.pool("AVERAGE_POOL_2D", 2, 2)
    layers.conv(4)
    shape = layers.shape
    layers.add("MEAN", [layers.last], (1, shape[3]), axes=(1, 2), keepdims=False)


def depthwise(layers: Layers) -> None:
    layers.conv(2, depthwise=True)
    layers.conv(20, (1, 1))
    layers.conv(20, (3, 2), stride=(2, 1), depthwise=True)


def joined(layers: Layers) -> None:
    first = layers.conv(4)
    second = layers.conv(4, activation="NONE")
    third = layers.add("ADD", [first, second], layers.shape, activation="RELU")
    shape = (*layers.shape[:3], 8)
    layers.add("CONCATENATION", [first, third], shape, axis=3)
    layers.conv(3)


@pytest.mark.parametrize("core", ["edge", "edge,accumulator_depth=32"])
@pytest.mark.parametrize("build", [maxima, windows_beside, means, depthwise, joined])
def test_poolings_and_branches_run_on_the_core(build, core, seed) -> None:
    layers = Layers((8, 6, 2), seed)
    build(layers)
    layers.dense(4)
    # Only matrices of FULLY_CONNECTED are divided into blocks.
    program = require_equal(step_graph(layers.graph(), BATCH, shift_of, most=256), core, seed)
    assert not program.host


def test_the_host_runs_products_whose_rows_of_pixels_the_accumulators_do_not_hold(seed) -> None:
    layers = Layers((2, 40, 1), seed)
    layers.conv(1, (1, 3))
    layers.pool("MAX_POOL_2D", 1, 2)
    layers.dense(4)
    found = step_graph(layers.graph(), 2, shift_of)
    program = require_equal(found, "edge,accumulator_depth=32", seed)
    kinds = {step.kind for step in program.host}
    assert kinds == {"ShiftedConvolution", "MaximumErrors"}


def test_the_host_reshapes_what_a_product_reads_by_columns(seed: int) -> None:
    """The pixels of such a value do not lie side by side."""
    layers = Layers((10,), seed)
    first = layers.dense(24, "RELU")
    layers.add("RESHAPE", [first], (1, 2, 3, 4))
    layers.conv(4)
    second, layers.last = layers.flat(), first
    third = layers.dense(24, "RELU")
    layers.add("ADD", [second, third], (1, 24), activation="NONE")
    layers.dense(4)
    found = step_graph(layers.graph(), BATCH, shift_of)
    assert {step.kind for step in require_equal(found, "edge", seed).host} == {"RESHAPE"}


@pytest.mark.thorough
@pytest.mark.parametrize("build", [maxima, windows_beside, means, depthwise, joined])
def test_steps_on_the_rtl(build: Callable[[Layers], None], seed: int, verilator: None) -> None:
    layers = Layers((4, 6, 2), seed)
    build(layers)
    layers.dense(4)
    require_equal(step_graph(layers.graph(), 2, shift_of), "transformer", seed, "rtl")


def test_the_host_runs_operations_that_the_core_does_not(seed: int) -> None:
    """A depthwise layer has two channels of results for each of its inputs."""
    layers = Layers((7, 6, 2), seed)
    layers.conv(4, depthwise=True)
    layers.dense(4)
    assert require_equal(step_graph(layers.graph(), BATCH, shift_of), "edge", seed).host


def test_each_core_has_weights_of_its_own(seed: int) -> None:
    found = step((20, 9, 4), seed, 1 << 14)
    graph, rng = found.graph, np.random.default_rng(seed)
    program = compile_steps(graph, preset("edge,activation_weights=true")).program
    cores = [contents(found, rng) for _ in range(2)]
    with open_session(program, device="machine", cores=2) as session:
        for _ in range(2):
            parts = [images_of(program, graph, values) for values in cores]
            session.run([np.concatenate(pair) for pair in zip(*parts, strict=True)], by_core=True)
            for place, values in enumerate(cores):
                expected = reference.evaluate(graph, values)
                values |= {s.tensor: expected[s.successor] for s in graph.states}
                for name, array in session.variables().items():
                    np.testing.assert_array_equal(array[place], values[state_of(graph, name)][0])
        kept = session.variables()
        session.reset()
        session.assign({name: array[1] for name, array in kept.items()})
        for name, array in session.variables().items():
            np.testing.assert_array_equal(array, np.stack([kept[name][1]] * 2))


def test_a_step_takes_no_more_cycles_than_the_program_for_one_network() -> None:
    config = preset("edge,activation_weights=true")
    program = compile_steps(step((784, 128, 10), 0, 1 << 14, 32).graph, config).program
    (part,) = program.parts
    assert not program.host
    (section,) = part.mains
    assert estimate(section.instructions, config).total < MLP_CYCLES


def test_a_step_of_lenet_runs_on_the_core_alone() -> None:
    config = preset("edge,activation_weights=true")
    program = compile_steps(lenet(4).graph, config).program
    assert not program.host
    (section,) = program.parts[0].mains
    assert estimate(section.instructions, config).total < LENET_CYCLES
