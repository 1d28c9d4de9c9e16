"""Outputs that no operator makes: inputs, constants, a tensor twice; graphs of these alone."""

import numpy as np
import pytest
from agreement import compare
from networks import Chain, Constant, FullyConnected, Graph, serialize

from celosia.sw.frontend.tflite import load


def _dense(chain: Chain) -> Chain:
    weights = np.arange(-17, 18, dtype=np.int8).reshape(5, 7)
    FullyConnected(weights=weights, weight_scale=0.1, output_scale=0.5).add(chain)
    return chain


def _constants(chain: Chain) -> Graph:
    one = chain.constant("one", np.array([1.5, -2.5], np.float32))
    two = chain.constant("two", np.array([[1, -2, 3]], np.int8), 0.5)
    return chain.graph(two, chain.number, one)


@pytest.mark.parametrize(
    "make",
    [
        lambda chain: chain.graph(chain.number),
        _constants,
        lambda chain: _constants(_dense(chain)),
        lambda chain: _dense(chain).graph(chain.number, 0, chain.number),
    ],
    ids=["input", "input and constants", "result and constants", "result twice and input"],
)
@pytest.mark.parametrize("batch", [1, 2])
def test_outputs_that_no_operator_makes(make, batch, rng) -> None:
    graph = make(Chain((batch, 7), 0.1, 3))
    x = rng.integers(-128, 128, (3, batch, 7)).astype(np.int8)
    compare(serialize(graph), x, sizes="nano", batch=2)


def _shifted(kind: str) -> np.ndarray:
    return np.array([[0, 3, 0], [1, 0, 2]], kind)


#: Operators whose results are constant: inputs, shape and type of the result.
CONSTANT = {
    "RANGE int32": ("RANGE", [np.int32(20), np.int32(3), np.int32(-4)], (5,), "int32"),
    "RANGE int64": ("RANGE", [np.int64(-2), np.int64(9), np.int64(3)], (4,), "int64"),
    "RANGE float": ("RANGE", [np.float32(0), np.float32(1), np.float32(0.1)], (10,), "float32"),
    "ZEROS_LIKE": ("ZEROS_LIKE", [_shifted("float32")], (2, 3), "float32"),
    "WHERE bool": ("WHERE", [_shifted("bool")], (3, 2), "int64"),
    "WHERE int8": ("WHERE", [Constant(_shifted("int8"))], (3, 2), "int64"),
    "WHERE float": ("WHERE", [_shifted("float32")], (3, 2), "int64"),
    "FILL": ("FILL", [np.array([2, 3], np.int64), np.float32(2.5)], (2, 3), "float32"),
    "CAST": ("CAST", [_shifted("int64")], (2, 3), "float32"),
    "GATHER": ("GATHER", [_shifted("int32"), np.array([1, 1, 0], np.int32)], (3, 3), "int32"),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_constant_results(name: str) -> None:
    kind, inputs, shape, dtype = CONSTANT[name]
    chain = Chain((1, 2), 0.1)
    given = [np.array(x) if isinstance(x, np.generic) else x for x in inputs]
    chain.operator(kind, shape, inputs=given, dtype=dtype, scale=0)
    graph = chain.graph(chain.number)
    assert not any(one.kind == kind for one in load(serialize(graph)).operations)
    compare(serialize(graph), np.zeros((2, 1, 2), np.int8), sizes="nano", batch=2)
