"""Steps of training in groups of images: the same bytes as steps of all images at once."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import step_reference as reference
from float_networks import NETWORKS, Layers, network
from step_inputs import contents, shift_of
from step_sessions import CNNS, CORES, cnn, lenet, require_equal

from celosia.hw.arch.presets import preset
from celosia.sim.timing.cycles import estimate
from celosia.sw.layers import dense
from celosia.sw.runtime.opening import open_session
from celosia.sw.training.carriers import CoreSteps, HostSteps
from celosia.sw.training.graph import StepGraph, step_graph
from celosia.sw.training.groups import Groups, compile_step, in_groups

#: Images of a step, groups of images, those of dense layers, and those of their gradients.
BATCH = 6
GROUPS = ((2, 1, 1), (3, 3, 3), (6, 1, 2), (6, 6, 6))

#: Cycles of steps with a batch of 32, about.
LENET_CYCLES = 830_000
CNN_CYCLES = {"mnist_cnn_5x5": 5_400_000, "mnist_cnn_3x3": 1_930_000, "fashion_cnn": 1_370_000}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("groups", GROUPS)
def test_groups_make_the_same_bytes(name: str, groups: Groups, seed: int) -> None:
    step = step_graph(network(name, seed), BATCH, shift_of, width=3, most=64)
    graph, values = step.graph, contents(step, np.random.default_rng(seed))
    parts = in_groups(graph, BATCH, *groups)
    assert parts.inputs == graph.inputs
    assert (len(parts.operations) > len(graph.operations)) or (name, groups[2]) == ("dense", 1)
    host = HostSteps(replace(step, graph=parts))
    host.assign({graph.tensors[s.tensor].name: values[s.tensor] for s in graph.states})
    inputs = {graph.tensors[n].name: values[n].astype(np.int8) for n in graph.inputs}
    logits = host.one(inputs)
    expected = reference.evaluate(graph, values)
    np.testing.assert_array_equal(logits, expected[graph.outputs[0]][0])
    for state in graph.states:
        np.testing.assert_array_equal(host.values[state.successor], expected[state.successor])


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("name", sorted({*NETWORKS} - {"depthwise", "margins", "overlapping"}))
def test_groups_run_on_the_core(name: str, core: str, seed: int) -> None:
    step = step_graph(network(name, seed), BATCH, shift_of, most=64)
    for groups in GROUPS[:3]:
        program = require_equal(step, core, seed, parts=in_groups(step.graph, BATCH, *groups))
        assert not program.host
        assert program.in_place == program.variables


def depthwise(layers: Layers) -> None:
    layers.conv(2, depthwise=True)
    layers.conv(20, (1, 1))
    layers.conv(20, (3, 2), stride=(2, 1), depthwise=True)
    layers.dense(4)


def joined_twice(layers: Layers) -> None:
    """Two dense layers read the results of a convolution."""
    first = layers.conv(5)
    second = layers.dense(6, "RELU")
    layers.last = first
    third = layers.dense(6, "RELU")
    layers.add("ADD", [second, third], (1, 6), activation="NONE")
    layers.dense(4)


def wide(layers: Layers) -> None:
    """Sums of several jobs, which share the matrices that are loaded in turn."""
    layers.conv(18)
    layers.conv(40)
    layers.dense(4)


def maxima(layers: Layers) -> None:
    layers.conv(5)
    layers.pool("MAX_POOL_2D", 2, 3)
    layers.conv(6)
    layers.dense(4)


def unbiased(layers: Layers) -> None:
    """Errors that convolutions alone read; maxima of all results, and of all but the last ones."""
    layers.conv(18, bias=False)
    layers.pool("MAX_POOL_2D", 1, 2)
    layers.conv(20, (2, 2), bias=False, padding="VALID")
    layers.pool("MAX_POOL_2D", 2, 2)
    layers.dense(4, bias=False)


def linear(layers: Layers) -> None:
    """Errors that a dense layer stores are loaded to grids."""
    layers.conv(4, activation="NONE", bias=False)
    layers.conv(20, activation="NONE")
    layers.dense(4)


def built(build: Callable[[Layers], None], seed: int, batch: int = BATCH) -> StepGraph:
    layers = Layers((7, 6, 2), seed)
    build(layers)
    return step_graph(layers.graph(), batch, shift_of, most=512)


@pytest.mark.parametrize("build", [depthwise, joined_twice, wide, unbiased, linear])
@pytest.mark.parametrize("groups", GROUPS)
def test_more_groups_run_on_the_core(build: Callable[[Layers], None], groups: Groups, seed) -> None:
    step = built(build, seed)
    assert not require_equal(step, "edge", seed, parts=in_groups(step.graph, BATCH, *groups)).host


@pytest.mark.parametrize("core", CORES)
def test_results_are_written_to_grids(core: str, seed: int) -> None:
    for groups in ((1, 1, 1), *GROUPS):
        step = built(unbiased, seed)
        require_equal(step, core, seed, parts=in_groups(step.graph, BATCH, *groups))
    for narrow in (1, 4):
        layers = Layers((9, 8, narrow), seed)
        layers.conv(5, (5, 3), bias=False)
        layers.conv(5, (3, 3), (2, 2), bias=False)
        layers.dense(4)
        require_equal(step_graph(layers.graph(), BATCH, shift_of, most=512), core, seed)


@pytest.mark.thorough
@pytest.mark.parametrize("build", [depthwise, joined_twice, wide, unbiased, linear])
def test_groups_on_the_rtl(build: Callable[[Layers], None], seed: int, verilator: None) -> None:
    step = built(build, seed, 4)
    require_equal(step, "transformer", seed, "rtl", parts=in_groups(step.graph, 4, 2, 2, 2))


@pytest.mark.thorough
def test_small_parts_on_the_rtl(seed: int, monkeypatch, verilator: None) -> None:
    monkeypatch.setattr(dense, "_LOADED", 256)
    monkeypatch.setattr(dense, "_UPDATED", 128)
    step = built(wide, seed, 4)
    require_equal(step, "transformer", seed, "rtl", parts=in_groups(step.graph, 4, 2))


def residual(layers: Layers) -> None:
    for stride in ((1, 1), (2, 2)):
        first = layers.conv(8, stride=stride)
        layers.conv(8)
        last = layers.conv(8, activation="NONE")
        layers.add("ADD", [first, last], layers.shape, activation="RELU")
    layers.add("MEAN", [layers.last], (1, 8), axes=(1, 2), keepdims=False)
    layers.dense(10)


def averages(layers: Layers) -> None:
    for channels in (6, 16):
        layers.conv(channels, (5, 5))
        layers.pool("AVERAGE_POOL_2D", 2, 2)
    layers.dense(32, "RELU")
    layers.dense(10)


def strides(layers: Layers) -> None:
    for channels in (8, 16):
        layers.conv(channels, stride=(2, 2))
    layers.dense(10)


@pytest.mark.slow
@pytest.mark.parametrize("build", [None, residual, averages, strides])
def test_twenty_steps_on_the_rtl(build, seed: int, verilator: None) -> None:
    """Of LeNet-5, and of networks of images of 14x14, in two groups."""
    step, groups = lenet(4), (1, 1, 1)
    if build:
        layers = Layers((14, 14, 1), seed)
        build(layers)
        step, groups = step_graph(layers.graph(), 8, shift_of, most=512), (2, 1, 1)
    parts = in_groups(step.graph, 8 if build else 4, *groups)
    require_equal(step, "edge", seed, "rtl", parts=parts, steps=20)


def test_a_step_of_lenet_with_32_images_runs_on_the_core_alone() -> None:
    config = preset("edge,activation_weights=true")
    program, _ = compile_step(lenet(32).graph, 32, config)
    assert not program.host
    (section,) = program.parts[0].mains
    assert estimate(section.instructions, config).total < LENET_CYCLES


@pytest.mark.parametrize("name", CNNS)
def test_large_matrices_of_weights_are_there_in_parts(name: str, seed: int) -> None:
    step = cnn(name, 4)
    program = require_equal(step, "edge", seed, parts=in_groups(step.graph, 4, 4))
    assert not program.host
    assert program.in_place == program.variables


@pytest.mark.parametrize("name", CNNS)
def test_a_step_of_a_cnn_with_32_images_runs_on_the_core_alone(name: str) -> None:
    config = preset("edge,activation_weights=true")
    program, groups = compile_step(cnn(name, 32).graph, 32, config)
    assert groups == (32, 1, 1)
    assert not program.host
    (section,) = program.parts[0].mains
    assert estimate(section.instructions, config).total < CNN_CYCLES[name]


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("groups", ((1, 1, 1), (2, 1, 1), (6, 1, 1)))
def test_small_parts(groups: Groups, core: str, seed: int, monkeypatch) -> None:
    monkeypatch.setattr(dense, "_LOADED", 256)
    monkeypatch.setattr(dense, "_UPDATED", 128)
    step = built(wide, seed)
    program = require_equal(step, core, seed, parts=in_groups(step.graph, BATCH, *groups))
    assert program.in_place == program.variables


def test_as_few_groups_as_fit() -> None:
    """With a smaller buffer more groups are needed."""
    step, groups = built(maxima, 0, 12), []
    for size in (1 << 17, 12288, 10240):
        config = preset(f"edge,activation_weights=true,unified_bytes={size}")
        program, chosen = compile_step(step.graph, 12, config)
        assert not program.host
        groups.append(chosen)
    assert groups == [(1, 1, 1), (3, 1, 1), (4, 1, 1)]


def test_the_host_runs_what_no_group_makes_smaller() -> None:
    """A depthwise layer has two channels of results for each of its inputs."""
    step = step_graph(network("depthwise", 0), BATCH, shift_of)
    program, _ = compile_step(step.graph, BATCH, preset("edge,activation_weights=true"))
    assert program.host


def test_groups_are_those_of_steps_with_other_shifts(seed: int) -> None:
    """Carriers of steps on the host and in groups on a core have the same weights."""
    config = preset("edge,activation_weights=true,unified_bytes=12288")
    groups: Groups | None = None
    for more in (0, 1):
        layers = Layers((7, 6, 2), seed)
        maxima(layers)
        step = step_graph(layers.graph(), 12, lambda role, *_, add=more: shift_of(role) + add)
        opened = partial(open_session, device="machine")
        host, core = HostSteps(step), CoreSteps(step, config, opened, groups)
        groups = core.groups
        assert groups == (3, 1, 1) and not core.program.host
        values = contents(step, np.random.default_rng(seed))
        inputs = {step.graph.tensors[n].name: values[n].astype(np.int8) for n in step.graph.inputs}
        np.testing.assert_array_equal(host.one(inputs), core.one(inputs))
        for one, other in zip(host.weights, core.weights, strict=True):
            np.testing.assert_array_equal(one, other)
        core.close()
