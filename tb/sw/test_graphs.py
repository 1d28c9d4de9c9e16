"""Graphs that are no chain, or whose rows are not items: reshapes, branches, several ends."""

import numpy as np
import pytest

from celosia.hw.arch.config import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.compiler.errors import CompileError
from celosia.sw.compiler.lower import lower
from celosia.sw.compiler.spec import Product
from celosia.sw.ir.graph import Graph, Operation, Quantization, Tensor
from celosia.sw.ir.program import Program
from celosia.sw.runtime.interpreter import open_session

INT8 = np.dtype(np.int8)


class Builder:
    """Collects tensors and operations."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.tensors: list[Tensor] = []
        self.operations: list[Operation] = []

    def tensor(self, *shape: int, data: np.ndarray | None = None, like: int | None = None) -> int:
        zero_point = 0 if data is not None else int(self.rng.integers(-20, 20))
        scale = 0.01 if data is not None else 0.1
        quantization = Quantization(np.array([scale], np.float32), np.array([zero_point]))
        if like is not None:
            quantization = self.tensors[like].quantization
        name = f"t{len(self.tensors)}"
        self.tensors.append(Tensor(name, shape, INT8, quantization, data))
        return len(self.tensors) - 1

    def dense(self, source: int, channels: int, taps: int) -> int:
        weights = self.rng.integers(-90, 91, (channels, taps)).astype(np.int8)
        kernel = self.tensor(channels, taps, data=weights)
        rows = self.tensors[source].elements // taps
        result = self.tensor(rows, channels)
        self.add("FULLY_CONNECTED", (source, kernel), result, activation="NONE")
        return result

    def reshape(self, source: int, *shape: int) -> int:
        result = self.tensor(*shape, like=source)
        self.add("RESHAPE", (source,), result)
        return result

    def add(self, kind: str, inputs: tuple[int, ...], result: int, **attributes: object) -> None:
        place = len(self.operations)
        self.operations.append(Operation(kind, place, inputs, (result,), attributes))

    def graph(self, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Graph:
        return Graph("built", tuple(self.tensors), tuple(self.operations), inputs, outputs)


def reference(graph: Graph, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Return what the layers make of inputs, item by item, in exact integers."""
    network = lower(graph)
    count = len(inputs[0])
    values = dict(zip(network.inputs.values(), inputs, strict=True))
    for layer in network.layers:
        if not isinstance(layer, Product):
            values[layer.result] = values[layer.source]
            continue
        x = values[layer.source].reshape(-1, layer.taps).astype(object)
        scaling = layer.scaling
        sums = x @ layer.weights.reshape(-1, layer.taps).astype(object).T + scaling.bias
        shift = 31 - (scaling.left - scaling.right)
        half = np.array([1 << int(n) - 1 for n in shift], object)
        y = (sums * scaling.multiplier + half) // (half * 2) + scaling.zero_point
        values[layer.result] = np.clip(y, scaling.low, scaling.high).astype(np.int8)
    return [values[place].reshape(count, -1) for place in network.outputs.values()]


def run(program: Program, inputs: list[np.ndarray]) -> list[np.ndarray]:
    with open_session(program) as session:
        return [y.reshape(len(y), -1) for y in session.run(inputs)]


def check(graph: Graph, rng: np.random.Generator, batch: int, *names: str) -> None:
    for name in names:
        program = compile_graph(graph, preset(name), batch)
        inputs = [
            rng.integers(-128, 128, (batch + 2, *port.shape)).astype(np.int8)
            for port in program.inputs
        ]
        wanted = reference(graph, inputs)
        for y, expected in zip(run(program, inputs), wanted, strict=True):
            assert np.array_equal(y, expected), name


def test_images_are_flattened(rng: np.random.Generator) -> None:
    b = Builder(rng)
    image = b.tensor(1, 5, 6)
    out = b.dense(b.reshape(image, 1, 30), 7, 30)
    graph = b.graph((image,), (b.reshape(out, 1, 7, 1),))
    assert compile_graph(graph, preset("nano"), 2).inputs[0].shape == (5, 6)
    check(graph, rng, 3, "nano", "edge")


def test_several_rows_for_each_item(rng: np.random.Generator) -> None:
    b = Builder(rng)
    x = b.tensor(1, 9, 10)
    hidden = b.dense(x, 6, 10)
    graph = b.graph((x,), (b.dense(b.reshape(hidden, 1, 54), 20, 54),))
    check(graph, rng, 30, "nano", "micro,accumulator_depth=16", "edge")


def test_branches_and_several_ends(rng: np.random.Generator) -> None:
    b = Builder(rng)
    first, second = b.tensor(1, 20), b.tensor(1, 33)
    left = b.dense(first, 40, 20)
    right = b.dense(second, 17, 33)
    outputs = (b.dense(left, 5, 40), b.dense(left, 18, 40), right, b.dense(first, 3, 20))
    graph = b.graph((first, second), outputs)
    check(graph, rng, 9, "nano", "micro,unified_bytes=1024", "edge")


def test_models_own_batch(rng: np.random.Generator) -> None:
    b = Builder(rng)
    x = b.tensor(4, 10)
    graph = b.graph((x,), (b.dense(x, 6, 10),))
    assert compile_graph(graph, preset("nano"), 3).inputs[0].items == 4
    check(graph, rng, 3, "nano")


def test_items_that_cannot_be_told_apart(rng: np.random.Generator) -> None:
    b = Builder(rng)
    x = b.tensor(4, 10)
    graph = b.graph((x,), (b.dense(b.reshape(x, 2, 20), 6, 20),))
    assert lower(graph).items == 1
    check(graph, rng, 3, "nano")


def test_long_reduction(rng: np.random.Generator) -> None:
    b = Builder(rng)
    x = b.tensor(1, 30000)
    check(b.graph((x,), (b.dense(x, 3, 30000),)), rng, 2, "micro", "edge")


def test_output_that_is_an_input_stays_with_the_host(rng: np.random.Generator) -> None:
    b = Builder(rng)
    x = b.tensor(1, 10)
    graph = b.graph((x,), (b.dense(x, 6, 10), x))
    (part,) = compile_graph(graph, preset("nano"), 1).parts
    assert len(part.outputs) == 1
    with pytest.raises(CompileError, match="t0: wanted an output that an operator computes"):
        lower(graph)


def test_output_that_is_a_reshaped_input_is_copied(rng: np.random.Generator) -> None:
    b = Builder(rng)
    x = b.tensor(1, 10)
    check(b.graph((x,), (b.dense(x, 6, 10), b.reshape(x, 1, 5, 2))), rng, 3, "nano", "edge")


def test_unknown_operator_is_refused(rng: np.random.Generator) -> None:
    b = Builder(rng)
    x, y = b.tensor(1, 10), b.tensor(1, 10)
    b.add("HASHTABLE_LOOKUP", (x,), y)
    with pytest.raises(
        CompileError, match=r"operator 0 HASHTABLE_LOOKUP \('t1'\): .* not supported"
    ):
        compile_graph(b.graph((x,), (y,)), preset("nano"), 1)


def test_graph_refuses_what_is_not_there(rng: np.random.Generator) -> None:
    b = Builder(rng)
    x, y, z = (b.tensor(1, 10) for _ in range(3))
    b.add("RESHAPE", (z,), y)
    with pytest.raises(ValueError, match="operator 0 RESHAPE: wanted inputs computed before"):
        b.graph((x,), (y,))
    with pytest.raises(ValueError, match="wanted inputs and outputs computed, got tensor 1"):
        Graph("g", tuple(b.tensors), (), (x,), (y,))
