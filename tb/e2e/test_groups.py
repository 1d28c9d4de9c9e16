"""Grouped convolutions: LiteRT's reference kernels, the core and the host give the same bytes."""

from collections.abc import Callable

import numpy as np
import pytest
from networks import Constant, Operator, write_sequential

from celosia.sw.frontend.tflite import load
from celosia.sw.operators import host
from celosia.sw.runtime.interpreter import InferenceSession

Reference = Callable[[bytes, np.ndarray], np.ndarray]


def grouped(rng: np.random.Generator, groups: int, depth: int, each: int) -> bytes:
    """Return a CONV_2D of ``groups``, each of ``depth`` channels to ``each``."""
    channels = groups * each
    weights = rng.integers(-127, 128, (channels, 3, 3, depth)).astype(np.int8)
    scales = rng.uniform(0.004, 0.009, channels).astype(np.float32)
    bias = rng.integers(-3000, 3000, channels).astype(np.int32)
    layer = Operator(
        kind="CONV_2D",
        shape=(1, 4, 3, channels),
        operands=[Constant(weights, scales, axis=0), Constant(bias, scales * np.float32(0.05))],
        output_scale=0.3,
        output_zero_point=-7,
        options={
            "padding": "SAME",
            "strideH": 2,
            "strideW": 2,
            "dilationHFactor": 1,
            "dilationWFactor": 1,
        },
    )
    shape = (1, 7, 6, groups * depth)
    return write_sequential([layer], input_shape=shape, input_scale=0.05, input_zero_point=3)


@pytest.mark.parametrize(("groups", "depth", "each"), [(2, 8, 8), (3, 5, 2), (4, 2, 9), (6, 1, 2)])
def test_groups(litert, rng, groups, depth, each) -> None:
    content = grouped(rng, groups, depth, each)
    x = rng.integers(-128, 128, (1, 7, 6, groups * depth)).astype(np.int8)
    wanted = litert(content, x)
    with InferenceSession(content, config="micro") as session:
        (found,) = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)
    graph = load(content)
    operator = host.host_operator(graph.tensors, graph.operations[0])
    (on_host,) = host.run(operator, {graph.inputs[0]: x[None]}).values()
    np.testing.assert_array_equal(on_host[0], wanted)
    assert np.std(wanted) > 5
