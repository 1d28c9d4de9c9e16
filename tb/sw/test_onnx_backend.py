"""Backend of ONNX: ONNX's own tests with it, whole models and single nodes."""

import unittest
import warnings
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_graphs import reference
from whole_networks.onnx import inputs, quantised

from celosia.onnx import Backend


def suite(pattern: str) -> unittest.TestResult:
    """Return the result of ONNX's own tests whose names match a pattern."""
    from onnx.backend.test import BackendTest

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = BackendTest(Backend, __name__).include(pattern).test_suite
    result = unittest.TestResult()
    tests.run(result)
    return result


def test_tests_of_onnx() -> None:
    kinds = "qlinear|quantizelinear|dequantizelinear|relu|reshape|split_equal"
    result = suite(rf"^test_({kinds}).*cpu$")
    assert result.testsRun > 40 and not result.failures and not result.errors
    reasons = [reason for _, reason in result.skipped if reason != "no matched include pattern"]
    assert result.testsRun - len(result.skipped) >= 30 and all(reasons)


def test_quantised_model() -> None:
    content = quantised("cnn-qdq")
    session = reference(content)
    end = session.get_inputs()[0]
    x = inputs(tuple(end.shape[1:]), 3, 1)
    wanted = np.concatenate([session.run(None, {end.name: one[None]})[0] for one in x])
    model = onnx.load_from_string(content)
    (got,) = Backend.run_model(model, [x], config="micro")
    assert np.array_equal(got, wanted)
    with Backend.prepare(model, "machine") as prepared:
        (again,) = prepared.run({end.name: x})
    assert np.array_equal(again, wanted)


def node(kind: str, *arrays: Any, **attributes: Any) -> Any:
    one = helper.make_node(kind, [f"x{index}" for index in range(len(arrays))], ["y"], **attributes)
    (result,) = Backend.run_node(one, [np.asarray(array) for array in arrays])
    return result


def test_node() -> None:
    x = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)
    assert np.array_equal(node("Relu", x), np.maximum(x, 0))
    assert node("Concat", x, x, axis=1).shape == (3, 8)
    # The shape is a constant of the program.
    assert np.array_equal(node("Reshape", x, np.array([2, 6])), x.reshape(2, 6))


def test_constants_may_change() -> None:
    ends = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in [
            ("x", onnx.TensorProto.FLOAT, [3, 4]),
            ("shape", onnx.TensorProto.INT64, [2]),
            ("y", onnx.TensorProto.FLOAT, [None, None]),
        ]
    ]
    one = helper.make_node("Reshape", ["x", "shape"], ["y"])
    model = helper.make_model(helper.make_graph([one], "g", ends[:2], ends[2:]))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    with Backend.prepare(model) as prepared:
        for shape in ([2, 6], [2, 6], [12, 1]):
            (y,) = prepared.run([x, np.array(shape)])
            assert np.array_equal(y, x.reshape(shape))


def test_refusals() -> None:
    with pytest.raises(unittest.SkipTest, match="not supported"):
        node("Einsum", np.ones((2, 2), np.float32), equation="ij->ji")
    assert Backend.supports_device("CPU") and Backend.supports_device("rtl")
    assert not Backend.supports_device("CUDA")
    with pytest.raises(onnx.checker.ValidationError):
        Backend.prepare(onnx.ModelProto())
