"""Fully connected networks: LiteRT's reference kernels and the machine model give the same bytes."""

import numpy as np
import pytest
from networks import FullyConnected, write_fully_connected

from celosia.hw.arch.config import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.runtime.interpreter import open_session


def on_machine(content: bytes, x: np.ndarray, sizes: str, batch: int) -> np.ndarray:
    program = compile_graph(load(content), preset(sizes), batch)
    with open_session(program) as session:
        return session.run([x])[0]


@pytest.mark.parametrize("real", [0.5, 0.25, 0.375, 1.5, 2.0**-5, 1.0, 7 / 64])
@pytest.mark.parametrize("zero_point", [-128, -1, 0, 37])
def test_every_sum_from_exact_halves(real: float, zero_point: int, litert) -> None:
    """One channel for each bias, one input that sweeps: every sum around every result."""
    bias = np.arange(-60, 60, dtype=np.int32) * round(2 / real)
    layer = FullyConnected(
        weights=np.ones((bias.size, 1), np.int8),
        weight_scale=real,
        bias=bias,
        output_scale=1.0,
        output_zero_point=zero_point,
    )
    content = write_fully_connected([layer], input_scale=1.0)
    x = np.arange(-128, 128).astype(np.int8)[:, None]
    np.testing.assert_array_equal(on_machine(content, x, "edge", 64), litert(content, x))


def test_one_scale_is_multiplied_in_double_precision(litert) -> None:
    """A product of scales in single precision makes one half of each result here."""
    input_scale = float(np.float32(1 - 2.0**-20))
    weight_scale = float(np.float32(0.5 * (1 + 2.0**-20)))
    layer = FullyConnected(
        weights=np.array([[1], [-1], [3]], np.int8), weight_scale=weight_scale, output_scale=1.0
    )
    content = write_fully_connected([layer], input_scale=input_scale)
    x = np.arange(-128, 128).astype(np.int8)[:, None]
    want = litert(content, x)
    np.testing.assert_array_equal(on_machine(content, x, "nano", 16), want)
    assert want[129].tolist() == [0, 0, 1]


@pytest.mark.parametrize("scale", [2.0**-31, 2.0**-33, 0.3 * 2.0**-30])
def test_sums_that_wrap_and_factors_that_vanish(scale: float, litert) -> None:
    ends = [(1 << 31) - 1, -(1 << 31), (1 << 30) - 1, -(1 << 30), 0]
    layer = FullyConnected(
        weights=np.array([[127], [-128], [5], [0], [1]], np.int8),
        weight_scale=scale,
        bias=np.array(ends, np.int32),
        output_scale=1.0,
        output_zero_point=3,
    )
    content = write_fully_connected([layer], input_scale=1.0, input_zero_point=-7)
    x = np.arange(-128, 128).astype(np.int8)[:, None]
    np.testing.assert_array_equal(on_machine(content, x, "nano", 16), litert(content, x))
