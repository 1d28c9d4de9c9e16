"""Operators of the host changed at random, as a damaged program may have them."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from networks import serialize
from random_networks.cases import case
from random_networks.recurrent import RNN, lstm, rnn, svdf
from test_channel_scales import drawn

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.parts import HostOperator, Operand
from celosia.sw.ir.program import Program, ProgramError
from celosia.sw.operators.host import OperandError, check, run

CASES, RECURRENT, CHANGES = 60, 8, 12

TYPES = ("int8", "uint8", "int16", "int32", "int64", "float32", "bool")
SCALES = (1e-45, 1e-30, 1 / 256, 1 / 128, 1 / 16, 0.1, 1.0, 100.0, 1e30, 3e38)
ATTRIBUTES = (0, 1, -1, 7, 1 << 40, None, "RELU", "x", [], [0], [5], [[1]], True, False, 1.5, -2.0)


def picked(rng: np.random.Generator, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def changed_operand(rng: np.random.Generator, operand: Operand) -> Operand:
    way = rng.integers(4)
    if way == 0:
        return replace(operand, dtype=picked(rng, TYPES), data=None)
    if way == 1:
        shape = [*operand.shape, int(rng.integers(1, 4))]
        shape = shape[:-2] if rng.random() < 0.3 else shape
        return replace(operand, shape=tuple(shape), data=None)
    if way == 2:
        return replace(operand, scale=float(np.float32(picked(rng, SCALES))))
    return replace(operand, zero_point=picked(rng, (-128, 127, 0, 5)))


def changed(rng: np.random.Generator, operator: HostOperator) -> HostOperator:
    """Return an operator with another attribute, operand, or number of operands."""
    way, attributes = rng.integers(4), dict(operator.attributes)
    if way == 0 and attributes:
        name = picked(rng, list(attributes))
        attributes[name] = picked(rng, ATTRIBUTES)
        if rng.random() < 0.2:
            del attributes[name]
        return replace(operator, attributes=attributes)
    if way == 1:
        place = int(rng.integers(len(operator.sources)))
        sources = list(operator.sources)
        sources[place] = changed_operand(rng, sources[place])
        return replace(operator, sources=tuple(sources))
    if way == 2:
        result = changed_operand(rng, operator.results[0])
        return replace(operator, results=(result, *operator.results[1:]))
    more = (*operator.sources, replace(operator.sources[0], tensor=-2))
    return replace(operator, sources=more if rng.random() < 0.5 else operator.sources[:-1])


def contents(rng: np.random.Generator, operand: Operand) -> np.ndarray:
    count, kind = 2 * math.prod(operand.shape), np.dtype(operand.dtype)
    values = rng.integers(0, 256, count * kind.itemsize, np.uint8)
    values = values & 1 if operand.dtype == "bool" else values
    return values.view(kind).reshape(2, *operand.shape)


def programs() -> Iterator[Program]:
    """Yield programs of single operators of the host."""
    for seed in range(70_000, 70_000 + CASES):
        yield compile_graph(load(case(seed).content), preset("micro"))
    for seed in range(RECURRENT):
        rng = np.random.default_rng(seed)
        models = [lstm(rng), svdf(rng), svdf(rng, "float32"), *(rnn(rng, kind) for kind in RNN)]
        graph, _ = drawn(rng)
        for content in (*models, serialize(graph)):
            yield compile_graph(load(content), preset("micro"))


def test_what_is_changed_is_refused_or_runs(rng: np.random.Generator) -> None:
    """Nothing but the two refusals is raised, no warning either."""
    refused = ran = 0
    for program in programs():
        for operator in (one for one in program.host for _ in range(CHANGES)):
            one = changed(rng, operator)
            try:
                check(one)
                values = {x.tensor: contents(rng, x) for x in one.sources if x.data is None}
                run(one, values)
            except (ProgramError, OperandError):
                refused += 1
            else:
                ran += 1
    assert refused > 300 and ran > 100, (refused, ran)
