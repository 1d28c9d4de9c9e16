"""Operators that the core leaves to the host, against LiteRT's reference kernels."""

import networks as w
import numpy as np
import pytest
from agreement import compare


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("kind", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
@pytest.mark.parametrize("window, stride", [((3, 3), (2, 2)), ((2, 4), (1, 3)), ((5, 5), (1, 2))])
def test_pooling_of_rows_too_large_for_the_core(kind, padding, window, stride, rng) -> None:
    """The rows that one row of results reads do not fit into the unified buffer."""
    shape = 1, 6, 40, 40
    layer = w.Pool(kind=kind, window=window, stride=stride, padding=padding, activation="RELU")
    content = w.write_sequential([layer], input_shape=shape, input_scale=0.1, input_zero_point=-30)
    # All of one sign, far from zero: whoever divides by the wrong number is far off.
    for low, high in ((-128, 128), (60, 128), (-128, -20)):
        x = rng.integers(low, high, shape).astype(np.int8)
        program = compare(content, x[None], sizes="micro,unified_bytes=2048")
        assert [operator.kind for operator in program.host] == [kind]


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
    program = compare(content, x[None], sizes="micro")
    assert [operator.kind for operator in program.host] == ["ARG_MAX"]


@pytest.mark.parametrize("flag", ["", "align_corners", "half_pixel_centers"])
@pytest.mark.parametrize("kind", w.Resize.KINDS)
def test_pixels_between_pixels(kind: str, flag: str, rng: np.random.Generator) -> None:
    """Sizes whose pixels lie halfway between those of the input, or at quarters of them."""
    for source, result in (((4, 6), (8, 12)), ((2, 3), (3, 5)), ((5, 4), (3, 9)), ((6, 8), (4, 2))):
        given = {flag: True} if flag else {}
        layer = w.Resize(kind=kind, size=result, **given)
        shape = 1, *source, 7
        content = w.write_sequential([layer], input_shape=shape, input_scale=0.1)
        compare(content, rng.integers(-128, 128, (20, *shape)).astype(np.int8), sizes="micro")


@pytest.mark.parametrize("axis", [1, 2])
def test_the_greatest_of_three_dimensions(axis: int, rng: np.random.Generator) -> None:
    layer = w.Mean(kind="REDUCE_MAX", axes=(axis,))
    content = w.write_sequential([layer], input_shape=(1, 6, 8), input_scale=0.1)
    compare(content, rng.integers(-128, 128, (4, 1, 6, 8)).astype(np.int8), sizes="micro")


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_means_of_whole_numbers_go_towards_zero(dtype: str) -> None:
    chain = w.Chain((1, 2, 6), dtype=dtype)
    chain.operator("MEAN", (1, 2), [np.array([2], np.int32)], keepDims=False, dtype=dtype)
    x = np.array([[-7, 0, 0, 0, 0, 0], [9, 1, 1, 0, 0, 0]], dtype)[None, None]
    compare(w.serialize(chain.graph()), np.concatenate([x, -x, x - 3]), sizes="micro")
