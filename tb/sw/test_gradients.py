"""Graphs of training steps: gradients against finite differences, integers against a reference."""

import zlib
from collections.abc import Callable

import numpy as np
import pytest
import step_reference as reference
from float_networks import Layers

from celosia.sw.ir.graph import Graph
from celosia.sw.layers.errors import CompileError
from celosia.sw.operators.host import host_operator
from celosia.sw.operators.registry import OPERATORS
from celosia.sw.training.graph import StepGraph, step_graph

BATCH = 3


def _dense(layers: Layers) -> None:
    layers.dense(7, "RELU")
    layers.dense(9, "RELU6", bias=False)


def _conv(kernel: tuple[int, int], stride: tuple[int, int], padding: str) -> Callable:
    def add(layers: Layers) -> None:
        layers.conv(4, kernel, stride, padding)
        layers.conv(5, kernel, (1, 1), padding, "NONE", bias=False)

    return add


def _depthwise(layers: Layers) -> None:
    layers.conv(6, depthwise=True, padding="VALID")
    layers.conv(6, (1, 1), activation="RELU6")
    layers.conv(12, (3, 2), (2, 2), depthwise=True)


def _pools(kind: str) -> Callable:
    def add(layers: Layers) -> None:
        layers.conv(3, activation="NONE")
        layers.pool(kind, 2, 2)
        layers.conv(3)
        layers.pool(kind, 1, 3)

    return add


def _mean(layers: Layers) -> None:
    layers.conv(5)
    layers.add("MEAN", [layers.last], (1, 5), axes=(1, 2), keepdims=False)


def _branches(layers: Layers) -> None:
    first = layers.conv(4)
    second = layers.conv(4, (1, 1), activation="NONE")
    shape = layers.shape
    third = layers.add("ADD", [first, second], shape, activation="RELU")
    layers.add("RELU6", [layers.conv(4, activation="NONE")], shape)
    layers.add("CONCATENATION", [layers.last, third, first], (*shape[:3], 12), axis=3)
    layers.conv(2, activation="NONE")


NETWORKS: dict[str, Callable[[Layers], None]] = {
    "dense": _dense,
    "conv": _conv((3, 3), (1, 1), "SAME"),
    "conv-valid": _conv((2, 3), (1, 1), "VALID"),
    "conv-stride": _conv((3, 3), (2, 2), "SAME"),
    "conv-stride-valid": _conv((1, 2), (2, 1), "VALID"),
    "depthwise": _depthwise,
    "maximum": _pools("MAX_POOL_2D"),
    "average": _pools("AVERAGE_POOL_2D"),
    "mean": _mean,
    "branches": _branches,
}


def network(name: str, seed: int) -> Graph:
    layers = Layers((7, 6, 2), seed)
    NETWORKS[name](layers)
    if len(layers.shape) > 2:
        layers.flat()
    layers.dense(4)
    return layers.graph()


def shift_of(role: str, _: object) -> int:
    """Return some shift of 0 to 9 for each role, always the same."""
    return zlib.crc32(role.encode()) % 10 if "step" in role else 5 + zlib.crc32(role.encode()) % 3


def contents(found: StepGraph, rng: np.random.Generator) -> dict[int, np.ndarray]:
    """Return random inputs, and the first states."""
    values = {}
    for number in found.graph.inputs:
        tensor = found.graph.tensors[number]
        bits = found.noises.get(tensor.name)
        half = 128 if bits is None else (1 << bits) >> 1
        low = 0 if bits is None else -half
        values[number] = rng.integers(low, max(half, 1), tensor.shape, np.int8)
    labels = next(n for n in found.graph.inputs if found.graph.tensors[n].name == "labels")
    values[labels] = np.where(np.arange(4) == rng.integers(0, 4, (1, BATCH, 1)), 127, 0)
    return values | {state.tensor: state.initial for state in found.graph.states}


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_finite_differences(name: str, seed: int) -> None:
    found = step_graph(network(name, seed), BATCH, shift_of, loss="squares", width=3)
    graph, exponents = found.graph, found.exponents
    values = contents(found, np.random.default_rng(seed))
    for number in graph.inputs:
        if graph.tensors[number].name in found.noises:
            values[number] = np.zeros(graph.tensors[number].shape)
    (logits,) = graph.outputs
    labels = next(n for n in graph.inputs if graph.tensors[n].name == "labels")

    def loss(changed: dict[int, np.ndarray]) -> float:
        made = reference.evaluate(graph, values | changed, real=True)
        error = (made[labels] - made[logits]) * 2.0 ** exponents[logits]
        return float(np.square(error).sum() / 2)

    made, rng = reference.evaluate(graph, values, real=True), np.random.default_rng(seed)
    # 1 / count has seven bits.
    rtol, checked = 0.01 if name in ("average", "mean") else 1e-4, 0
    for operation in graph.operations:
        role = graph.tensors[operation.outputs[0]].name
        if not role.endswith("/step"):
            continue
        weights = next(s for s in graph.states if graph.tensors[s.tensor].name == f"{role[:-5]}/high")
        gradient = made[operation.outputs[0]] * 2.0 ** exponents[operation.outputs[0]]
        start = values[weights.tensor].astype(float)
        for _ in range(4):
            way = rng.normal(size=start.shape) * 1e-5
            more, less = (loss({weights.tensor: start + sign * way}) for sign in (1, -1))
            expected = (less - more) / 2 / 2.0 ** exponents[weights.tensor]
            np.testing.assert_allclose((gradient * way).sum(), expected, rtol, atol=1e-12)
        checked += 1
    assert checked == len(graph.states) // 2


@pytest.mark.parametrize("loss", ["softmax", "squares"])
@pytest.mark.parametrize("name", NETWORKS)
def test_host_kernels_are_exact(name: str, loss: str, seed: int) -> None:
    found = step_graph(network(name, seed), BATCH, shift_of, loss=loss, width=3)
    values = contents(found, np.random.default_rng(seed))
    expected = reference.evaluate(found.graph, values)
    changed = 0
    for operation in found.graph.operations:
        record = OPERATORS[operation.kind]
        operator = host_operator(found.graph.tensors, operation)
        record.check(operator)
        arrays = [
            np.frombuffer(x.data, x.dtype).reshape(x.shape)
            if x.data is not None
            else expected[x.tensor].astype(np.int8)[None]
            for x in operator.sources
        ]
        (made,) = record.compute(operator, arrays)
        wanted = expected[operation.outputs[0]]
        np.testing.assert_array_equal(made[0], wanted, err_msg=operation.kind)
        changed += bool(wanted.any())
    assert changed > len(found.graph.operations) // 2


def test_all_layers_that_do_not_train_are_named() -> None:
    layers = Layers((4, 4, 2))
    layers.add("TANH", [layers.last], layers.shape)
    layers.conv(2)
    layers.add("SIN", [layers.last], layers.shape)
    with pytest.raises(CompileError, match=r"operator 0 TANH .*; operator 2 SIN"):
        step_graph(layers.graph(), BATCH, shift_of)
