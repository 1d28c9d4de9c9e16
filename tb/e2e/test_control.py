"""IF and WHILE: bytes of LiteRT's reference kernels, and refusals."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agreement import compare
from networks import Chain, Constant
from random_networks.control import Model, branching, looping

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import ModelError, load

INVOCATIONS = 4


def check(maker: Callable[[np.random.Generator], bytes], seed: int) -> None:
    rng = np.random.default_rng(seed)
    content = maker(rng)
    inputs = [
        rng.integers(0, 2 if port.dtype == "bool" else 256, (INVOCATIONS, *port.shape))
        .astype(np.uint8)
        .view(port.dtype)
        for port in compile_graph(load(content), preset("edge")).inputs
    ]
    compare(content, *inputs, sizes="edge")


@pytest.mark.parametrize(
    "seeds", [range(30), pytest.param(range(1000, 1500), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("maker", [looping, branching])
def test_models(maker: Callable[[np.random.Generator], bytes], seeds: range) -> None:
    for seed in seeds:
        check(maker, seed)


def counted(model: Model, bound: Any, step: int = 1, *, grows: bool = False) -> bytes:
    """Return a model that counts to ``bound``, and may double its state in each round."""
    width, numbers, condition, body = model.width, list[int](), Chain(None), Chain(None)
    for inner in (condition, body):
        numbers = [inner.input(name, (), dtype="int32") for name in ("count", "bound")]
        numbers.append(inner.input("state", (1, width), 1 / 128))
    condition.operator("LESS", (), inputs=numbers[:2], dtype="bool", scale=0)
    count, limit, state = numbers
    if grows:
        body.operator("CONCATENATION", (1, 2 * width), inputs=[state] * 2, axis=1)
        state = body.number
    body.operator("ADD", (), inputs=[count, np.array(step, np.int32)], dtype="int32", scale=0)
    called = {
        "condSubgraphIndex": model.subgraph(condition, condition.number),
        "bodySubgraphIndex": model.subgraph(body, body.number, limit, state),
    }
    shapes = [("count", (), "int32"), ("bound", (), "int32"), ("state", (1, width), "int8")]
    inputs = [Constant(np.array(0, np.int32)), bound, model.state]
    return model.bytes(model.called(model.main, "WHILE", inputs, shapes, **called)[2])


def test_states_that_grow() -> None:
    """LiteRT resizes them as it goes."""
    model = Model(np.random.default_rng(1))
    content = counted(model, Constant(np.array(3, np.int32)), grows=True)
    graph = load(content)
    assert graph.tensors[graph.outputs[0]].shape == (1, model.width * 8)
    check(lambda rng: content, 0)


def test_rounds_that_the_input_counts_are_refused() -> None:
    model = Model(np.random.default_rng(1))
    content = counted(model, model.main.input("bound", (), dtype="int32"))
    message = "operator 0 WHILE: wanted one condition that follows from constants, got computed"
    with pytest.raises(ModelError, match=f"{message} bool .*: give the model a fixed number"):
        load(content)


def test_endless_loops_are_refused() -> None:
    content = counted(Model(np.random.default_rng(1)), Constant(np.array(3, np.int32)), 0)
    with pytest.raises(ModelError, match="operator 0 WHILE: wanted loops of at most"):
        load(content)


def branch(model: Model, inner: Chain, result: int, second: int | None = None) -> bytes:
    """Return a model whose IF has ``inner`` as one of its branches, and a copy as the other."""
    number = model.subgraph(inner, result)
    other = number if second is None else second
    condition = model.main.input("flag", (1,), dtype="bool")
    called = {"thenSubgraphIndex": number, "elseSubgraphIndex": other}
    ends = [("state", (1, model.width), "int8")]
    return model.bytes(*model.called(model.main, "IF", [condition, model.state], ends, **called))


def test_branches_of_uint8() -> None:
    model = Model(np.random.default_rng(1))
    chain = model.main = Chain((1, 6), 0.1, 100, "uint8")
    numbers = []
    for kind in ("RELU", "TANH"):
        inner = Chain((1, 6), 0.1, 100, "uint8")
        scale, zero = (0.1, 100) if kind == "RELU" else (1 / 128, 128)
        inner.operator(kind, scale=scale, zero_point=zero)
        inner.operator("QUANTIZE", scale=1 / 64, zero_point=90)
        numbers.append(model.subgraph(inner, inner.number))
    flag = chain.input("flag", (1,), dtype="bool")
    called = {"thenSubgraphIndex": numbers[0], "elseSubgraphIndex": numbers[1]}
    ends: dict[str, Any] = {"dtype": "uint8", "scale": 1 / 64, "zero_point": 90}
    chain.operator("IF", (1, 6), inputs=[flag, 0], **ends, **called)
    check(lambda rng: model.bytes(chain.number), 0)


def test_subgraphs_that_call_themselves_are_refused() -> None:
    model = Model(np.random.default_rng(1))
    inner = Chain((1, model.width), 1 / 128)
    options: dict[str, Any] = {"thenSubgraphIndex": 1, "elseSubgraphIndex": 1}
    inner.operator("IF", inputs=[Constant(np.array(True)), inner.number], **options)
    message = (
        "operator 0 IF: subgraph 1: operator 0 IF: wanted no subgraph that calls itself, got 1"
    )
    with pytest.raises(ModelError, match=message):
        load(branch(model, inner, inner.number))


def test_other_scales_and_operators_are_refused() -> None:
    model = Model(np.random.default_rng(1))
    inner = Chain((1, model.width), 1 / 64)
    inner.operator("RELU")
    message = (
        "inputs of subgraph 1: wanted int8 of scale 0.015625, .*, got int8 of scale 0.0078125,"
    )
    with pytest.raises(ModelError, match=message):
        load(branch(model, inner, inner.number))
    model = Model(np.random.default_rng(1))
    inner = Chain((1, model.width), 1 / 128)
    inner.operator("HASHTABLE_LOOKUP")
    message = "operator 0 IF: subgraph 1: operator 0 HASHTABLE_LOOKUP .*: operator is not supported"
    with pytest.raises(ModelError, match=message):
        load(branch(model, inner, inner.number))


def test_variables_in_branches_are_refused() -> None:
    """Both would be assigned."""
    model = Model(np.random.default_rng(1))
    inner = Chain((1, model.width), 1 / 128)
    state = inner.number
    inner.operator("VAR_HANDLE", (), inputs=(), dtype="resource", sharedName="kept")
    inner.operator("ASSIGN_VARIABLE", inputs=(inner.number, state), shapes=())
    with pytest.raises(ModelError, match="operator 0 IF: wanted branches without variables"):
        load(branch(model, inner, state))


@pytest.mark.parametrize("rounds", [0, 3])
def test_variables_in_loops(rounds: int) -> None:
    """Rounds and invocations take them from one another."""
    model = Model(np.random.default_rng(1))
    shape, scale = (1, model.width), 1 / 128
    first, body = Chain(None), Chain(None)
    first.operator("VAR_HANDLE", (), inputs=(), dtype="resource", sharedName="kept")
    contents = Constant(np.full(shape, 5, np.int8), scale)
    first.operator("ASSIGN_VARIABLE", inputs=(first.number, contents), shapes=())
    initial = model.subgraph(first)
    condition = Chain(None)
    for inner in (condition, body):
        count, state = inner.input("count", (), dtype="int32"), inner.input("state", shape, scale)
    condition.operator(
        "LESS", (), inputs=[count, np.array(rounds, np.int32)], dtype="bool", scale=0
    )
    body.operator("VAR_HANDLE", (), inputs=(), dtype="resource", sharedName="kept")
    handle = body.number
    body.operator("READ_VARIABLE", shape, inputs=(handle,), dtype="int8", scale=scale)
    body.operator("ADD", shape, inputs=(body.number, state), dtype="int8", scale=scale)
    total = body.number
    body.operator("ASSIGN_VARIABLE", inputs=(handle, total), shapes=())
    body.operator("ADD", (), inputs=[count, np.array(1, np.int32)], dtype="int32", scale=0)
    called = {
        "condSubgraphIndex": model.subgraph(condition, condition.number),
        "bodySubgraphIndex": model.subgraph(body, body.number, total),
    }
    model.main.operator("CALL_ONCE", inputs=(), shapes=(), initSubgraphIndex=initial)
    ends = [("count", (), "int32"), ("state", shape, "int8")]
    inputs = [Constant(np.array(0, np.int32)), model.state]
    results = model.called(model.main, "WHILE", inputs, ends, **called)
    content = model.bytes(results[1])
    check(lambda rng: content, 0)
