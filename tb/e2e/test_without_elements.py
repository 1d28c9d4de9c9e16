"""Tensors with an extent of 0: they are known when the model is read."""

from collections.abc import Callable

import litert
import numpy as np
import prerequisites
import pytest
from networks import Chain, FullyConnected, serialize

import celosia
from celosia.sw.frontend.tflite import ModelError, load
from celosia.sw.ir.program import Program

SHAPE = (1, 6, 5, 4)


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def cut(axis: int = 1) -> Chain:
    """Return a slice without elements."""
    shape = [0 if n == axis else extent for n, extent in enumerate(SHAPE)]
    chain = Chain(SHAPE, 0.1, 3)
    chain.operator("SLICE", shape, [numbers(0, 0, 0, 0), numbers(*shape)])
    return chain


def after(kind: str, shape: tuple[int, ...], *constants: np.ndarray, **options) -> Chain:
    """Return an operator that reads such a slice."""
    chain = cut()
    chain.operator(kind, shape, [*constants], **options)
    return chain


def rows() -> Chain:
    chain = after("RESHAPE", (0, 20), numbers(0, 20))
    FullyConnected(weights=np.ones((3, 20), np.int8), weight_scale=0.1, output_scale=0.1).add(chain)
    return chain


def joined(before_and_after: bool) -> Chain:
    """Return a concatenation of the input, such a slice and the input, or without the first."""
    chain = cut()
    source, empty = chain.graph().inputs[0], chain.number
    inputs = [source, empty, source] if before_and_after else [empty, source]
    chain.operator("CONCATENATION", (1, 6 * len(inputs) - 6, 5, 4), inputs=inputs, axis=1)
    chain.operator("RELU", scale=0.1, zero_point=3)
    return chain


def beside() -> Chain:
    """Return a model whose second output alone has elements."""
    chain = cut()
    chain.operator("RELU", SHAPE, inputs=[chain.graph().inputs[0]], scale=0.1, zero_point=3)
    return chain


CASES: dict[str, Callable[[], Chain]] = {
    **{f"slice along {axis}": lambda axis=axis: cut(axis) for axis in range(4)},
    "strided": lambda: after(
        "STRIDED_SLICE", (1, 0, 5, 4), numbers(0, 0, 0, 0), numbers(1, 0, 5, 4), numbers(1, 1, 1, 1)
    ),
    "relu": lambda: after("RELU", (1, 0, 5, 4)),
    "softmax": lambda: after("SOFTMAX", (1, 0, 5, 4), scale=1 / 256, zero_point=-128, beta=1.0),
    "dequantize": lambda: after("DEQUANTIZE", (1, 0, 5, 4), dtype="float32"),
    "transpose": lambda: after("TRANSPOSE", (0, 1, 5, 4), numbers(1, 0, 2, 3)),
    "shape": lambda: after("SHAPE", (4,), dtype="int32", outType=2),
    "pad": lambda: after("PAD", (1, 2, 5, 4), numbers(0, 0, 1, 1, 0, 0, 0, 0).reshape(4, 2)),
    "rows": rows,
    "joined": lambda: joined(False),
    "joined between": lambda: joined(True),
    "beside": beside,
}


@pytest.mark.parametrize("name", CASES)
def test_equals_litert(name: str, rng: np.random.Generator) -> None:
    content = serialize(CASES[name]().graph())
    x = rng.integers(-128, 128, (1, *SHAPE)).astype(np.int8)
    wanted = litert.invoked(prerequisites.litert(content), x)
    program = celosia.compile(content)
    assert bool(program.layers) == (name in ("joined", "joined between", "beside"))
    with celosia.InferenceSession(Program.from_bytes(program.to_bytes()).to_bytes()) as session:
        results = session.run(None, {"input": x[0]})
    for got, known in zip(results, wanted, strict=True):
        assert got.dtype == known.dtype and got.size == known.size
        np.testing.assert_array_equal(got.reshape(known.shape), known)


@pytest.mark.parametrize(
    ("chain", "message"),
    [
        (lambda: after("MEAN", (1, 1, 1, 4), numbers(1, 2), keepDims=True), "1 MEAN .*'output_0'"),
        (lambda: Chain((1, 0, 4), 0.1, 3), "'input'"),
    ],
)
def test_refusals(chain: Callable[[], Chain], message: str) -> None:
    """Means of nothing, and nothing as input."""
    made = chain()
    if made.last.name == "input":
        made.operator("RELU")
    with pytest.raises(ModelError, match=f"{message}: wanted extents of at least 1, got"):
        load(serialize(made.graph()))
