"""Reader of operators that move, choose and resize, and their refusals."""

from dataclasses import replace
from typing import Any

import networks as w
import numpy as np
import pytest
from read_operators import assert_read, assert_refused, contents

from celosia.sw.frontend.tflite import ModelError, load

SHAPE = (2, 4, 6, 8)

CONVOLUTION = w.TransposedConvolution(
    weights=np.ones((3, 3, 2, 8), np.int8),
    weight_scale=np.array([0.5, 0.25, 1.0]),
    bias=np.arange(3, dtype=np.int32),
    output_scale=2.0,
    stride=(2, 1),
)
SLOPES = w.Prelu(alpha=np.arange(8, dtype=np.int8), alpha_scale=0.1)
SLICE = w.StridedSlice(begin=(0, 1, 5, 7), end=(2, 4, 0, -9), stride=(1, 2, -2, -1))
TRANSPOSE, UNPACK = w.Transpose(permutation=(0, 3, 1, 2)), w.Unpack(axis=1)
SPLIT, SPLIT_SIZES = w.Split(axis=2, parts=3), w.SplitSizes(axis=2, first=5)
BILINEAR, BLOCKS = w.Resize(kind="RESIZE_BILINEAR", size=(3, 9)), w.BatchToSpace(blocks=(2, 1))


def graph(*layers: w.Layer) -> w.Graph:
    return w.sequential(layers, input_shape=SHAPE, input_scale=0.5, input_zero_point=7)


def binary(kind: str, second: np.ndarray | str, **more: Any) -> w.Binary:
    return w.Binary(kind=kind, second=second, output_scale=0.5, output_zero_point=7, **more)


LAYERS = [
    (binary("MUL", "input"), SHAPE, {"activation": "NONE"}),
    (binary("SUB", np.zeros((1, 8), np.int8)), SHAPE, {"constant": 0, "constant_scale": 1.0}),
    (binary("SUB", np.zeros(8, np.int8), swapped=True), SHAPE, {"activation": "NONE"}),
    (binary("MAXIMUM", "input"), SHAPE, {}),
    (w.Prelu(alpha=np.arange(8, dtype=np.int8), alpha_scale=0.1), SHAPE, {}),
    (w.Prelu(alpha=np.full(8, 5, np.int8), alpha_scale=0.5), SHAPE, {"alpha": 5}),
    (w.ArgMax(axis=-1), (2, 4, 6), {"axis": 3}),
    (w.ArgMax(axis=1, output_type="int64"), (2, 6, 8), {"axis": 1}),
    (w.BatchToSpace(blocks=(2, 1), margins=((0, 1), (0, 0))), (1, 7, 6, 8), {"blocks": (2, 1)}),
    (w.SpaceToBatch(blocks=(2, 3)), (12, 2, 2, 8), {"margins": ((0, 0), (0, 0))}),
    (w.DepthToSpace(block=2), (2, 8, 12, 2), {"block": 2}),
    (w.SpaceToDepth(block=2), (2, 2, 3, 32), {"block": 2}),
    (w.Concatenate(others=["input"], axis=-1), (2, 4, 6, 16), {"axis": 3}),
    (w.Pack(others=["input", "input"], axis=1), (2, 3, 4, 6, 8), {"axis": 1}),
    (UNPACK, (2, 6, 8), {"axis": 1}),
    (SPLIT, (2, 4, 2, 8), {"axis": 2}),
    (SPLIT_SIZES, (2, 4, 5, 8), {"axis": 2}),
    (TRANSPOSE, (2, 8, 4, 6), {"permutation": (0, 3, 1, 2)}),
    (w.ExpandDims(axis=1), (2, 1, 4, 6, 8), {}),
    (SLICE, (2, 2, 3, 8), {"begin": (0, 1, 5, 7), "count": (2, 2, 3, 8), "stride": (1, 2, -2, -1)}),
    (
        w.StridedSlice(begin=(0, 2, 0, 0), end=(2, 0, 6, 8), stride=(1,) * 4, dropped=(1,)),
        (2, 6, 8),
        {"count": (2, 1, 6, 8), "dropped": (1,)},
    ),
    (
        w.StridedSlice(begin=(0, 2, 1, 0), end=(2, 4, 6, 8), stride=(1,) * 4, plain=True),
        (2, 2, 5, 8),
        {"begin": (0, 2, 1, 0), "count": (2, 2, 5, 8)},
    ),
    (
        replace(BILINEAR, align_corners=True),
        (2, 3, 9, 8),
        {"align_corners": True, "half_pixel_centers": False},
    ),
    (CONVOLUTION, (2, 8, 6, 3), {"padding": "SAME", "stride": (2, 1), "margins": (0, 0)}),
    (replace(CONVOLUTION, padding="VALID"), (2, 9, 7, 3), {"margins": (0, 0)}),
    (w.Dequantize(), SHAPE, {}),
]


@pytest.mark.parametrize(("layer", "shape", "attributes"), LAYERS)
def test_attributes(layer: w.Layer, shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    assert_read(graph(layer), shape, attributes)


def test_uint8_is_read_as_int8() -> None:
    layer = w.Quantize(output_scale=0.1, output_zero_point=200, output_type="uint8")
    result = load(w.serialize(graph(layer))).tensors[1]
    assert (result.shape, result.dtype) == (SHAPE, np.int8)
    assert result.quantization is not None and result.quantization.zero_point == 72


def test_squeeze() -> None:
    written = w.sequential([w.Squeeze()], input_shape=(3, 1, 5, 1), input_scale=0.5)
    assert load(w.serialize(written)).tensors[1].shape == (3, 5)


OTHER = {"quantization": w.Quantization(np.array([0.25], np.float32), np.array([7]))}


@pytest.mark.parametrize(
    ("layer", "name", "changes", "message"),
    [
        (TRANSPOSE, "permutation_0", contents([0, 1, 1, 2]), "permutation"),
        (TRANSPOSE, "output_0", {"shape": SHAPE}, "result of shape"),
        (TRANSPOSE, "output_0", OTHER, "same scale and zero point"),
        (w.Concatenate(others=["input"], axis=3), "output_0", OTHER, "same scale and zero point"),
        (w.Pack(others=["input"], axis=1), "output_0", {"shape": SHAPE}, "result of shape"),
        (UNPACK, "output_0_1", {"shape": (2, 8, 6)}, "wanted a result of shape (2, 6, 8)"),
        (SPLIT, "axis_0", contents([4]), "wanted an axis from -4 to 3, got 4"),
        (SPLIT, "axis_0", contents([1]), "wanted parts that make up 4, got [1, 1, 1]"),
        (SPLIT_SIZES, "sizes_0", contents([4, 2]), "wanted results of [4, 2] along"),
        (SLICE, "strides_0", contents([1, 2, 0, 1]), "wanted strides other than 0"),
        (SLICE, "begin_0", contents([0, 1, 5]), "wanted begin, end and strides of 4 dimensions"),
        (SLICE, "end_0", contents([0, 4, 0, 0]), "wanted a result of shape (0, 2, 3, 8)"),
        (BILINEAR, "size_0", contents([3]), "rows and columns"),
        (
            # The kernel casts the results from float32 to int32.
            w.Mean(kind="SUM", output_scale=0.5 / 360_000, output_zero_point=0),
            "output_0",
            {},
            "wanted sums within 32 bits in steps of the result, got 2.2032e+09",
        ),
        (CONVOLUTION, "shape_0", contents([2, 8, 6, 4]), "wanted a result of shape [2, 8, 6, 4]"),
        (CONVOLUTION, "bias_0", contents([1, 2]), "wanted a constant bias of 3 int32"),
        (w.ArgMax(axis=-1), "axis_0", contents([4]), "wanted an axis from -4 to 3, got 4"),
        (w.SpaceToBatch(blocks=(2, 3)), "blocks_0", contents([2, 4]), "wanted whole blocks"),
        (BLOCKS, "blocks_0", contents([3, 1]), "wanted whole blocks of images"),
        (binary("MAXIMUM", "input"), "output_0", OTHER, "wanted the same scale and zero point"),
        (w.Dequantize(), "output_0", {"dtype": np.dtype(np.int32)}, "wanted float32, got int32"),
        (SLOPES, "alpha_0", contents([1] * 3, np.int8), "wanted alpha to broadcast"),
    ],
)
def test_refusals(layer: w.Layer, name: str, changes: dict[str, Any], message: str) -> None:
    assert_refused(w.retensored(graph(layer), name, **changes), message)


def test_both_ways_to_align_are_refused() -> None:
    layer = replace(BILINEAR, align_corners=True, half_pixel_centers=True)
    with pytest.raises(ModelError, match="align_corners or half_pixel_centers, got both"):
        load(w.serialize(graph(layer)))
