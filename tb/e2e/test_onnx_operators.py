"""Operators between DequantizeLinear and QuantizeLinear, against ONNX Runtime."""

from typing import Any

import numpy as np
import pytest
from onnx_graphs import Net, helper, onnx, results
from onnx_operator import IMAGE, SAME, Case, bias, case, differences, model, weights


def whole(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def real(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


def pads(*numbers: int, value: Any = None, **attributes: Any) -> Case:
    constants = {1: whole(*numbers)} | ({} if value is None else {2: np.float32(value)})
    return case("Pad", constants=constants, **attributes)


def resized(size: tuple[int, int], **attributes: Any) -> Case:
    constants = {1: real(), 2: real(), 3: whole(1, 4, *size)}
    return case("Resize", constants=constants, **attributes)


COORDINATES = ("align_corners", "asymmetric", "half_pixel", "half_pixel_symmetric")

CASES = {
    "crd": case("DepthToSpace", blocksize=2, mode="CRD"),
    "dcr": case("DepthToSpace", blocksize=2),
    "expand": case("Expand", (4, 1, 5), constants={1: whole(2, 1, 6, 5)}),
    "expand-same": case("Expand", (1, 4, 1, 5), constants={1: whole(6, 1)}, result=SAME),
    "gather": case("Gather", constants={1: whole(3, -1, 0)}, axis=2),
    "gather-channel": case("Gather", constants={1: np.array(2)}, axis=1),
    "gather-elements": case(
        "GatherElements", constants={1: whole(1, -1, 0, 3).reshape(1, 4, 1, 1)}, axis=2
    ),
    "gather-nd": case("GatherND", constants={1: np.array([[[0, -1, 2], [0, 1, 5]]])}),
    "gather-nd-batch": case("GatherND", constants={1: np.array([[[2], [-4], [0]]])}, batch_dims=1),
    "gather-matrix": case("Gather", constants={1: np.array([[1, 0], [3, 3]])}, axis=1),
    "tile": case("Tile", constants={1: whole(1, 2, 1, 3)}),
    "max": case("ReduceMax", axes=[2, 3]),
    "max-channels": case("ReduceMax", axes=[1], keepdims=0),
    "max-rows": case("ReduceMax", axes=[-2], keepdims=0),
    "max-18": case("ReduceMax", constants={1: whole(1, 3)}, opset=18),
    "min": case("ReduceMin", axes=[2], keepdims=0),
    "min-all": case("ReduceMin"),
    "pad": pads(0, 0, 1, 2, 0, 0, 3, 0),
    "pad-value": pads(0, 0, 1, 2, 0, 0, 0, 0, value=np.float32(0.04) * np.float32(11)),
    "pad-negative": pads(0, 0, 1, -1, 0, -2, -3, 2),
    "pad-reflect": pads(0, 0, 2, 1, 0, 0, 1, 3, mode="reflect"),
    "pad-edge": pads(0, 1, 2, 1, 0, 0, 1, 9, mode="edge"),
    "pad-axes": case("Pad", constants={1: whole(1, 2), 2: None, 3: whole(-1)}, opset=18),
    "where": case("Where", IMAGE, (4, 1, 5), constants={0: np.arange(30).reshape(6, 5) % 3 == 0}),
    "where-constant": case("Where", constants={0: np.arange(6)[:, None] > 2, 2: np.float32(-1.3)}),
    **{
        f"nearest-{way}-{mode}-{size[0]}": resized(
            size, coordinate_transformation_mode=way, nearest_mode=mode, result=SAME
        )
        for way in (*COORDINATES, "pytorch_half_pixel")
        for mode in ("ceil", "floor", "round_prefer_ceil", "round_prefer_floor")
        for size in ((12, 10), (3, 4), (9, 1))
        if way != "half_pixel_symmetric"
    },
    "nearest-scales": case(
        "Resize", constants={1: real(), 2: real(1, 1, 1.7, 0.61)}, mode="nearest"
    ),
    "nearest-axes": case(
        "Resize", constants={1: None, 2: real(2, 2.5)}, axes=[2, 3], opset=18, result=SAME
    ),
    "nearest-symmetric": case(
        "Resize",
        constants={1: None, 2: real(1, 1, 1.7, 2.3)},
        coordinate_transformation_mode="half_pixel_symmetric",
        opset=19,
    ),
    "nearest-rows": case("Resize", (1, 4, 7), constants={1: None, 2: real(1, 1, 2)}),
    **{
        f"linear-{way}-{size[0]}": resized(size, coordinate_transformation_mode=way, mode="linear")
        for way in ("align_corners", "asymmetric", "half_pixel", "pytorch_half_pixel")
        for size in ((12, 10), (3, 4), (11, 1))
    },
}

#: Attributes and inputs that have no effect in the form in which they stand.
CASES |= {
    "average-counted": case("AveragePool", kernel_shape=[2, 2], count_include_pad=1),
    "dropout": case("Dropout", constants={1: np.float32(0.3), 2: np.array(False)}, result=SAME),
    "linear-18": resized(
        (12, 10),
        mode="linear",
        nearest_mode="floor",
        keep_aspect_ratio_policy="stretch",
        antialias=0,
        opset=18,
    ),
    "linear-region": case(
        "Resize", constants={1: real(0, 0, 0, 0, 1, 1, 1, 1), 2: real(1, 1, 2, 2)}, mode="linear"
    ),
    "nearest-18": resized((12, 10), keep_aspect_ratio_policy="stretch", antialias=0, opset=18),
    "max-of-axes": case("ReduceMax", constants={1: whole(1, 3)}, noop_with_empty_axes=1, opset=18),
    "mean-of-axes": case(
        "ReduceMean", constants={1: whole(2, 3)}, noop_with_empty_axes=1, opset=18
    ),
    "sum-of-axes": case(
        "ReduceSum", constants={1: whole(1)}, noop_with_empty_axes=1, result=(0.21, 3)
    ),
    "pad-reflect-value": pads(0, 0, 2, 1, 0, 0, 1, 3, value=np.float32(0.3), mode="reflect"),
    "transposed-sized-pads": case(
        "ConvTranspose",
        constants={1: weights(4, 6, 3, 3)},
        result=(0.37, 3),
        strides=[2, 2],
        output_shape=[12, 10],
        pads=[1, 1, 1, 1],
    ),
}

CASES |= {
    "sub": case("Sub", IMAGE, IMAGE),
    "sub-broadcast": case("Sub", IMAGE, (4, 1, 1)),
    "sub-constant": case("Sub", constants={1: real(0.5, -1, 2, 0.1).reshape(4, 1, 1)}),
    "div": case("Div", IMAGE, IMAGE),
    "div-constant": case("Div", constants={1: real(0.5, -1, 2, 0.1).reshape(4, 1, 1)}),
    "max-two": case("Max", IMAGE, IMAGE),
    "min-two": case("Min", IMAGE, (1, 1, 6, 5)),
    "pow": case("Pow", constants={1: real(2)}, result=(0.1, -100)),
    "matmul": case("MatMul", (2, 3, 4, 5), (2, 3, 5, 6), result=(0.0913, 4)),
    "matmul-ties": case("MatMul", (4, 16), (16, 6), result=(0.1, 4)),
    "gemm-ties": case("Gemm", (16, 4), (6, 16), transA=1, transB=1, result=(0.1, 4)),
    "matmul-rows": case("MatMul", (1, 4, 5), (5, 6), result=(0.0913, 4)),
    "matmul-broadcast": case("MatMul", (1, 3, 4, 5), (1, 1, 5, 7), result=(0.0913, 4)),
    "mean-channels": case("ReduceMean", axes=[1], keepdims=0),
    "mean-rows": case("ReduceMean", axes=[2]),
    "mean-all": case("ReduceMean"),
    "mean-last": case("ReduceMean", (1, 7, 12), constants={1: whole(-1)}, opset=18),
    "sum": case("ReduceSum", constants={1: whole(1)}, result=(0.21, 3)),
    "sum-all": case("ReduceSum", result=(0.8137, 3)),
    "softmax": case("Softmax", result=(1 / 256, -128)),
    "softmax-channels": case("Softmax", axis=1, result=(1 / 256, -128)),
    "softmax-rows": case("Softmax", axis=2, result=(1 / 256, -128)),
    "softmax-batch": case("Softmax", (1, 5, 7), axis=1, result=(1 / 200, -128)),
    "average": case("AveragePool", kernel_shape=[3, 3], strides=[2, 1]),
    "average-pads": case("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "average-pads-odd": case("AveragePool", kernel_shape=[3, 2], pads=[2, 0, 1, 1]),
    "average-pads-counted": case(
        "AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1
    ),
    "average-ceil": case("AveragePool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "max-ceil": case("MaxPool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, result=SAME),
    "max-ceil-pads": case(
        "MaxPool",
        (1, 3, 7, 8),
        kernel_shape=[3, 2],
        strides=[3, 3],
        pads=[1, 1, 0, 1],
        ceil_mode=1,
        result=SAME,
    ),
    "average-of-all": case("AveragePool", kernel_shape=[6, 5], result=SAME),
    "average-of-all-solid": case(
        "AveragePool", (1, 4, 2, 5, 3), kernel_shape=[2, 5, 3], result=SAME
    ),
    "global": case("GlobalAveragePool"),
    "concat-constant": case("Concat", constants={1: real(*range(60)).reshape(1, 2, 6, 5)}, axis=1),
    "prelu": case("PRelu", constants={1: real(0.1, 0.25, -0.3, 2).reshape(4, 1, 1)}),
    "prelu-one": case("PRelu", constants={1: real(0.17)}),
    "normalisation": case(
        "BatchNormalization",
        constants={1: real(1, 2, 0.4, 1.1), 2: real(0.3, 0, -1, 0.2), 3: real(0.2, 0.1, -1, 0.5)}
        | {4: real(0.5, 1.2, 2, 0.7)},
    ),
    "slice-back": case(
        "Slice", constants={1: whole(5), 2: whole(-100), 3: whole(2), 4: whole(-2)}, result=SAME
    ),
    **{
        f"function-{kind}": case(kind, **attributes)
        for kind, attributes in {
            "Ceil": {},
            "Celu": {"alpha": 0.7},
            "Cos": {},
            "Elu": {"alpha": 0.7},
            "Erf": {},
            "Exp": {"result": (0.9, -100)},
            "Floor": {},
            "HardSigmoid": {"alpha": 0.3},
            "HardSwish": {},
            "LeakyRelu": {"alpha": 0.2},
            "Reciprocal": {},
            "Round": {},
            "Selu": {},
            "Sigmoid": {"result": (1 / 256, -128)},
            "Sign": {},
            "Sin": {},
            "Softplus": {},
            "Softsign": {},
            "Sqrt": {},
            "Tan": {},
            "Tanh": {"result": (1 / 128, 0)},
            "ThresholdedRelu": {"alpha": 0.6},
            "Atan": {},
        }.items()
    },
    "function-Mish": case("Mish", opset=18),
    "cumsum": case("CumSum", constants={1: np.array(2)}, result=(0.4, 0)),
    **{
        f"transposed-{number}": case(
            "ConvTranspose",
            shape,
            constants={1: kernel} | ({2: bias(6, kernel.scales)} if number % 2 else {}),
            result=(0.37, 3),
            **attributes,
        )
        for number, (shape, kernel, attributes) in enumerate(
            [
                (IMAGE, weights(4, 6, 2, 2, axis=1), {"strides": [2, 2]}),
                (IMAGE, weights(4, 6, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
                (IMAGE, weights(4, 6, 3, 3), {"strides": [2, 3], "output_padding": [1, 2]}),
                (IMAGE, weights(4, 6, 3, 2, axis=1), {"dilations": [2, 3], "pads": [0, 1, 2, 1]}),
                (IMAGE, weights(4, 3, 4, 4), {"group": 2, "strides": [2, 2], "pads": [1] * 4}),
                (IMAGE, weights(4, 6, 3, 3), {"strides": [2, 2], "output_shape": [12, 10]}),
                (IMAGE, weights(4, 6, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
                ((1, 4, 7), weights(4, 6, 4), {"strides": [2], "pads": [1, 1]}),
            ]
        )
    },
    "layer-normalisation": case(
        "LayerNormalization",
        (2, 5, 12),
        constants={1: real(*np.linspace(0.5, 1.7, 12)), 2: real(*np.linspace(-1, 1, 12))},
        result=(0.0373, 3),
    ),
    "layer-normalisation-plain": case(
        "LayerNormalization",
        (2, 5, 12),
        constants={1: np.ones((5, 12), np.float32)},
        result=(0.0373, 3),
        axis=1,
    ),
    "instance-normalisation": case(
        "InstanceNormalization",
        constants={1: real(1, 2, 0.4, 1.1), 2: real(0.3, 0, -1, 0.2)},
        result=(0.0373, 3),
    ),
    "mean-two": case("Mean", IMAGE, (4, 1, 1), IMAGE),
    "sum-two": case("Sum", IMAGE, IMAGE, result=(0.0613, 3)),
    "gemm": case(
        "Gemm",
        (3, 8),
        constants={1: weights(8, 6, axis=1), 2: bias(6, weights(8, 6, axis=1).scales)},
    ),
    "gemm-a": case("Gemm", (8, 3), constants={1: weights(6, 8)}, transA=1, transB=1),
    "gemm-factors": case(
        "Gemm", (3, 8), constants={1: weights(8, 6), 2: real(*range(6))}, alpha=0.7, beta=1.3
    ),
    "gemm-two": case("Gemm", (3, 8), (8, 6), result=(0.0913, 3)),
    "conv-float-bias": case(
        "Conv",
        constants={1: weights(6, 4, 3, 3), 2: real(*np.linspace(-3, 3, 6))},
        result=(0.37, 3),
    ),
    "conv-int4": case(
        "Conv", constants={1: weights(6, 4, 3, 3, axis=0, bits=4)}, result=(0.0373, 3), opset=21
    ),
    "matmul-int4": case(
        "MatMul", (2, 3, 8), constants={1: weights(8, 6, bits=4)}, result=(0.0173, 3), opset=21
    ),
    "matmul-constant": case("MatMul", (2, 3, 8), constants={1: weights(8, 6)}),
    "add-constant": case("Add", constants={1: weights(4, 1, 1)}, result=(0.0613, 3)),
    "mul-constant": case("Mul", constants={1: weights(4, 1, 1)}, result=(0.0613, 3)),
    "sub-weights": case("Sub", constants={1: weights(4, 1, 1)}, result=(0.0613, 3)),
    "concat-weights": case("Concat", constants={1: weights(1, 3, 6, 5)}, axis=1),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_equals_onnx_runtime(name, dtype):
    count, total = differences(CASES[name], dtype)
    assert count == 0, f"{count} of {total}"


@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize(("axis", "keepdims"), [(1, 0), (-1, 1)])
def test_indices_are_an_output(kind, axis, keepdims):
    """The last operator of a network that labels pixels; equal values are frequent."""
    given = model(case(kind, (1, 40, 6, 5), axis=axis, keepdims=keepdims), np.int8)
    del given.graph.node[-1]
    name = given.graph.node[-1].output[0]
    given.graph.output[0].CopyFrom(
        helper.make_tensor_value_info(name, onnx.TensorProto.INT64, None)
    )
    x = np.random.default_rng(1).integers(-128, 128, (20, 1, 40, 6, 5)).astype(np.int8)
    (got,), (wanted,) = results(given.SerializeToString(), {"x0": x})
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("kind", ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
def test_condition_is_computed(kind):
    """One input where it compares with the other one, else that; many are equal."""
    net = Net(dtype=np.int8, a=IMAGE, b=IMAGE)
    ends = net.scale(*SAME)
    a, b = (net.add("DequantizeLinear", x, *ends) for x in "ab")
    y = net.add("Where", net.add(kind, a, b), a, b)
    content = net.content(net.add("QuantizeLinear", y, *ends))
    first, second = np.random.default_rng(1).integers(-3, 4, (2, 20, *IMAGE)).astype(np.int8)
    (got,), (wanted,) = results(content, {"a": first, "b": second})
    np.testing.assert_array_equal(got, wanted)
