"""Random models with IF and WHILE, nested or not."""

from collections.abc import Callable
from typing import Any

import numpy as np
from networks import Chain, Constant, serialize

from celosia.sw.export.tflite import Graph

#: All states have one meaning, that of results of TANH.
_SCALE = 1 / 128

#: Adds operators that make a state of another; returns its number.
Body = Callable[[Chain, int, int], int]


class Model:
    """A model under construction: its main chain, and the subgraphs that it calls.

    A state is int8 of shape ``(1, width)``; ``rows`` are ``(steps, 1, width)`` that loops read.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.width, self.steps = (int(rng.integers(1, most)) for most in (7, 6))
        self.main = Chain((1, self.width), _SCALE)
        self.state = self.main.number
        self.rows = self.main.input("rows", (self.steps, 1, self.width), _SCALE)
        self.subgraphs: list[Graph | None] = [None]

    def bytes(self, *outputs: int) -> bytes:
        """Return the file."""
        return serialize(self.main.graph(*outputs), *(each for each in self.subgraphs if each))

    def subgraph(self, chain: Chain, *outputs: int) -> int:
        """Add a subgraph; return its number."""
        self.subgraphs.append(chain.graph(*outputs))
        return len(self.subgraphs) - 1

    def layer(self, chain: Chain, state: int, rows: int) -> int:
        """Add one operator that makes a state of another."""
        rng, width, more = self.rng, self.width, dict[str, Any](scale=_SCALE, zero_point=0)
        data = rng.integers(-100, 100, (1, width)).astype(np.int8)
        kind = rng.choice(["ADD", "MUL", "SUB", "TANH", "RELU", "FULLY_CONNECTED"])
        if kind in ("TANH", "RELU"):
            chain.operator(kind, inputs=[state], shape=(1, width), dtype="int8", **more)
            return chain.number
        inputs: list[Any] = [state, Constant(data, 0.01)]
        if kind == "FULLY_CONNECTED":
            weights = rng.integers(-127, 128, (width, width)).astype(np.int8)
            inputs = [state, Constant(weights, 0.003), -1]
        chain.operator(kind, (1, width), inputs=inputs, dtype="int8", **more)
        return chain.number

    def layers(self, chain: Chain, state: int, rows: int) -> int:
        """Add one to three operators."""
        for _ in range(int(self.rng.integers(1, 4))):
            state = self.layer(chain, state, rows)
        return state

    def loop(self, chain: Chain, state: int, rows: int, body: Body) -> int:
        """Add a WHILE of a fixed number of rounds that gathers a row in each; return its result."""
        first, last = sorted(int(n) for n in self.rng.integers(0, self.steps + 1, 2))
        ends = (("count", (), "int32"), ("state", (1, self.width), "int8"))
        shapes = (*ends, ("rows", (self.steps, 1, self.width), "int8"))

        def fresh() -> tuple[Chain, list[int]]:
            made = Chain(None)
            return made, [
                made.input(name, s, _SCALE * (t == "int8"), 0, t) for name, s, t in shapes
            ]

        condition, (count, _, _) = fresh()
        bound = Constant(np.array(last, np.int32))
        condition.operator("LESS", (), inputs=[count, bound], dtype="bool", scale=0)
        test = self.subgraph(condition, condition.number)
        inner, (count, before, kept) = fresh()
        inner.operator(
            "GATHER", (1, self.width), inputs=[kept, count], dtype="int8", scale=_SCALE, axis=0
        )
        pair = [before, inner.number]
        inner.operator("ADD", (1, self.width), inputs=pair, dtype="int8", scale=_SCALE)
        after = body(inner, inner.number, kept)
        one = Constant(np.array(1, np.int32))
        inner.operator("ADD", (), inputs=[count, one], dtype="int32", scale=0)
        number = self.subgraph(inner, inner.number, after, kept)
        start = Constant(np.array(first, np.int32))
        results = self.called(
            chain,
            "WHILE",
            [start, state, rows],
            shapes,
            condSubgraphIndex=test,
            bodySubgraphIndex=number,
        )
        return results[1]

    def branches(
        self, chain: Chain, condition: Any, state: int, rows: int, bodies: tuple[Body, Body]
    ) -> int:
        """Add an IF; return its result."""
        numbers = []
        for body in bodies:
            inner = Chain((1, self.width), _SCALE)
            given = inner.number
            kept = inner.input("rows", (self.steps, 1, self.width), _SCALE)
            numbers.append(self.subgraph(inner, body(inner, given, kept)))
        ends = (("state", (1, self.width), "int8"),)
        options: dict[str, Any] = {"thenSubgraphIndex": numbers[0], "elseSubgraphIndex": numbers[1]}
        return self.called(chain, "IF", [condition, state, rows], ends, **options)[0]

    @staticmethod
    def called(chain: Chain, kind: str, inputs: list[Any], ends: Any, **options: Any) -> list[int]:
        """Add a call; return its results, of different types."""
        shapes = [shape for _, shape, _ in ends]
        chain.operator(kind, inputs=inputs, shapes=shapes, dtype="int8", scale=_SCALE, **options)
        results = chain.results
        for number, (_, _, dtype) in zip(results, ends, strict=True):
            chain.retype(number, dtype)
        return list(results)


def looping(rng: np.random.Generator) -> bytes:
    """Return a model of one or two loops; one may be within the other."""
    model = Model(rng)

    def nested(chain: Chain, state: int, rows: int) -> int:
        return model.loop(chain, model.layers(chain, state, rows), rows, model.layers)

    state = model.loop(
        model.main, model.state, model.rows, nested if rng.random() < 0.5 else model.layers
    )
    state = model.layer(model.main, state, model.rows)
    if rng.random() < 0.3:
        state = model.loop(model.main, state, model.rows, model.layers)
    return model.bytes(state)


def branching(rng: np.random.Generator) -> bytes:
    """Return a model of an IF with a constant or computed condition; branches may be calls."""
    model = Model(rng)
    chain = model.main
    if rng.random() < 0.7:
        chain.operator(
            "REDUCE_MAX",
            (1,),
            inputs=[model.state, np.array([1], np.int32)],
            dtype="int8",
            scale=_SCALE,
        )
        least = Constant(np.array(int(rng.integers(-20, 100)), np.int8), _SCALE)
        chain.operator("GREATER", (1,), inputs=[chain.number, least], dtype="bool", scale=0)
        condition: Any = chain.number
    else:
        condition = np.array(rng.random() < 0.5)

    def nested(inner: Chain, state: int, rows: int) -> int:
        if rng.random() < 0.5:
            return model.loop(inner, state, rows, model.layers)
        chosen = Constant(np.array(rng.random() < 0.5))
        return model.branches(inner, chosen, state, rows, (model.layers, model.layers))

    def same(inner: Chain, state: int, rows: int) -> int:
        return state

    bodies = [model.layers, nested, same]
    first, second = (bodies[int(n)] for n in rng.permutation(3)[:2])
    state = model.branches(chain, condition, model.state, model.rows, (first, second))
    return model.bytes(model.layer(chain, state, model.rows))
