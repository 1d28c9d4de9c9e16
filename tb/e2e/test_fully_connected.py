"""Fully connected networks: LiteRT's reference kernels and the model give the same bytes."""

import numpy as np
import pytest
from agreement import compare
from networks import FullyConnected, write_fully_connected


@pytest.mark.parametrize("real", [0.5, 0.25, 0.375, 1.5, 2.0**-5, 1.0, 7 / 64])
@pytest.mark.parametrize("zero_point", [-128, -1, 0, 37])
def test_every_sum_from_exact_halves(real: float, zero_point: int) -> None:
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
    compare(content, x[:, None], sizes="edge", batch=64)


@pytest.mark.parametrize("scale", [2.0**-31, 2.0**-33, 0.3 * 2.0**-30])
def test_sums_that_wrap_and_factors_that_vanish(scale: float) -> None:
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
    compare(content, x[:, None], sizes="nano", batch=16)
