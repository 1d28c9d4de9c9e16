import numpy as np
import prerequisites
import pytest
from conformance import assert_equal
from networks import Chain, serialize

from celosia.sw.frontend.tflite import ModelError, load


def one_hot(shape: tuple[int, ...], axis: int, kind: str, dtype: str = "int32", ones: int = 1):
    """Return a model of one operator, with values of a type."""
    chain = Chain(shape, dtype=dtype)
    wanted = [*shape]
    wanted.insert(axis % (len(shape) + 1), 4)
    constants = [np.array(4, np.int32), np.ones(ones, kind), np.zeros(1, kind)]
    chain.operator("ONE_HOT", wanted, constants, dtype=kind, scale=0, axis=axis)
    return chain.graph()


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64", "float32", "bool"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(("shape", "axis"), [((1,), -1), ((2, 3), 0), ((2, 3), 1), ((1, 2, 3), -1)])
def test_bytes(shape: tuple[int, ...], axis: int, dtype: str, kind: str, rng) -> None:
    """Indices past either end have no one."""
    prerequisites.package("ai_edge_litert.interpreter")
    graph = one_hot(shape, axis, kind, dtype)
    inputs = rng.integers(-1, 6, (5, *shape)).astype(dtype)
    assert_equal(graph, inputs, sizes="nano", batch=2)


@pytest.mark.parametrize(
    ("axis", "ones", "wanted"),
    [(3, 1, "wanted an axis from -3 to 2, got 3"), (-1, 2, "wanted one on and one off value, got")],
)
def test_refusals(axis: int, ones: int, wanted: str) -> None:
    graph = one_hot((2, 3), axis, "int8", ones=ones)
    with pytest.raises(ModelError, match=f"operator 0 ONE_HOT .*: {wanted}"):
        load(serialize(graph))
