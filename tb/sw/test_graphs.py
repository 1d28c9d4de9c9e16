"""Graphs that are no chain, or whose rows are not items: reshapes, branches, several ends."""

import numpy as np
import pytest
from agreement import compare
from networks import Chain, Constant, Graph, serialize

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.compiler.lower import lower
from celosia.sw.frontend.tflite import load
from celosia.sw.ir import graph as ir
from celosia.sw.layers.errors import CompileError


class Builder(Chain):
    """A graph of products with random weights, and of reshapes."""

    def __init__(self, rng: np.random.Generator, *shape: int) -> None:
        super().__init__(shape, 0.1, int(rng.integers(-20, 20)))
        self.rng = rng

    def dense(self, source: int, channels: int, taps: int) -> int:
        weights = self.rng.integers(-90, 91, (channels, taps)).astype(np.int8)
        shape, read = (self.tensor(source).elements // taps, channels), [source]
        more = {"scale": 0.1, "zero_point": int(self.rng.integers(-20, 20))}
        self.operator("FULLY_CONNECTED", shape, inputs=[*read, Constant(weights, 0.01)], **more)
        return self.number

    def reshape(self, source: int, *shape: int) -> int:
        self.back_to(source)
        self.operator("RESHAPE", shape, [np.array(shape, np.int32)])
        return self.number


def check(graph: Graph, rng: np.random.Generator, batch: int, *names: str) -> None:
    ends = [graph.tensors[number] for number in graph.inputs]
    inputs = [rng.integers(-128, 128, (batch + 2, *end.shape)).astype(np.int8) for end in ends]
    for name in names:
        assert not compare(serialize(graph), *inputs, sizes=name, batch=batch).host


def test_images_are_flattened(rng: np.random.Generator) -> None:
    b = Builder(rng, 1, 5, 6)
    graph = b.graph(b.reshape(b.dense(b.reshape(0, 1, 30), 7, 30), 1, 7, 1))
    assert compile_graph(load(serialize(graph)), preset("nano"), 2).inputs[0].shape == (5, 6)
    check(graph, rng, 3, "nano", "edge")


def test_several_rows_for_each_item(rng: np.random.Generator) -> None:
    b = Builder(rng, 1, 9, 10)
    graph = b.graph(b.dense(b.reshape(b.dense(0, 6, 10), 1, 54), 20, 54))
    check(graph, rng, 30, "nano", "micro,accumulator_depth=16", "edge")


def test_branches_and_several_ends(rng: np.random.Generator) -> None:
    b = Builder(rng, 1, 20)
    second = b.input("second", (1, 33), 0.1, 7)
    left, right = b.dense(0, 40, 20), b.dense(second, 17, 33)
    graph = b.graph(b.dense(left, 5, 40), b.dense(left, 18, 40), right, b.dense(0, 3, 20))
    check(graph, rng, 9, "nano", "micro,unified_bytes=1024", "edge")


def test_models_own_batch(rng: np.random.Generator) -> None:
    b = Builder(rng, 4, 10)
    graph = b.graph(b.dense(0, 6, 10))
    assert compile_graph(load(serialize(graph)), preset("nano"), 3).inputs[0].items == 4
    check(graph, rng, 3, "nano")


def test_items_that_cannot_be_separate(rng: np.random.Generator) -> None:
    b = Builder(rng, 4, 10)
    graph = b.graph(b.dense(b.reshape(0, 2, 20), 6, 20))
    assert lower(load(serialize(graph))).items == 1
    check(graph, rng, 3, "nano")


def test_long_reduction(rng: np.random.Generator) -> None:
    b = Builder(rng, 1, 30000)
    check(b.graph(b.dense(0, 3, 30000)), rng, 2, "micro", "edge")


def test_output_that_is_an_input_stays_with_the_host(rng: np.random.Generator) -> None:
    b = Builder(rng, 1, 10)
    graph = load(serialize(b.graph(b.dense(0, 6, 10), 0)))
    (part,) = compile_graph(graph, preset("nano"), 1).parts
    assert len(part.outputs) == 1
    with pytest.raises(CompileError, match="input: wanted an output that an operator computes"):
        lower(graph)


def test_output_that_is_a_reshaped_input_is_copied(rng: np.random.Generator) -> None:
    b = Builder(rng, 1, 10)
    check(b.graph(b.dense(0, 6, 10), b.reshape(0, 1, 5, 2)), rng, 3, "nano", "edge")


def test_graph_refuses_what_is_not_there() -> None:
    x, y, z = (ir.Tensor(name, (1, 10), np.dtype(np.int8)) for name in "xyz")
    reshape = ir.Operation("RESHAPE", 0, (2,), (1,), {})
    with pytest.raises(ValueError, match="operator 0 RESHAPE: wanted inputs computed before"):
        ir.Graph("g", (x, y, z), (reshape,), (0,), (1,))
    with pytest.raises(ValueError, match="wanted inputs and outputs computed, got tensor 1"):
        ir.Graph("g", (x, y, z), (), (0,), (1,))
