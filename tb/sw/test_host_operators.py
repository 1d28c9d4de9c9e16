"""Operators that the core leaves to the host, against LiteRT's reference kernels."""

import networks as w
import numpy as np
import prerequisites
import pytest

from celosia.hw.arch.config import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.runtime.interpreter import open_session


def outputs(content: bytes, x: np.ndarray, sizes: str, host: list[str]) -> list[np.ndarray]:
    """Return the outputs of a model, of which the host must run these operators."""
    program = compile_graph(load(content), preset(sizes))
    assert [operator.kind for operator in program.host] == host
    with open_session(program) as session:
        return session.run([x])


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("kind", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
@pytest.mark.parametrize(
    ("window", "stride"), [((3, 3), (2, 2)), ((2, 4), (1, 3)), ((5, 5), (1, 2))]
)
def test_pooling_of_rows_that_are_too_large_for_the_core(
    kind: str,
    padding: str,
    window: tuple[int, int],
    stride: tuple[int, int],
    rng: np.random.Generator,
) -> None:
    """The rows that one row of results reads do not fit into the unified buffer."""
    shape = 1, 6, 40, 40
    layer = w.Pool(kind=kind, window=window, stride=stride, padding=padding, activation="RELU")
    content = w.write_sequential([layer], input_shape=shape, input_scale=0.1, input_zero_point=-30)
    # All of one sign, far from zero: whoever divides by the wrong number is far off.
    for low, high in ((-128, 128), (60, 128), (-128, -20)):
        x = rng.integers(low, high, shape).astype(np.int8)
        (y,) = outputs(content, x, "micro,unified_bytes=2048", [kind])
        np.testing.assert_array_equal(y, prerequisites.litert_outputs(content, x)[0])


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("values", [(-3, -1), (-128, 127), (5, 6)])
@pytest.mark.parametrize("output_type", ["int32", "int64"])
def test_of_equal_numbers_the_first_is_the_greatest(axis, values, output_type, rng) -> None:
    layer: w.Layer = w.ArgMax(axis=axis, output_type=output_type)
    shape = 1, 7, 8, 9
    content = w.write_sequential([layer], input_shape=shape, input_scale=0.1)
    x = rng.choice(values, shape).astype(np.int8)
    greatest = x == x.max(axis=axis, keepdims=True)
    assert (greatest.sum(axis=axis) > 1).mean() > 0.5
    (y,) = outputs(content, x, "micro", ["ARG_MAX"])
    np.testing.assert_array_equal(y, greatest.argmax(axis=axis))
    np.testing.assert_array_equal(y, prerequisites.litert_outputs(content, x)[0])
