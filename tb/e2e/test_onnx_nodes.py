"""Node tests of ``onnx.backend.test`` for the quantised operators that are supported."""

import warnings
from functools import cache
from typing import Any

import numpy as np
import prerequisites
import pytest

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.runtime.interpreter import open_session

onnx = prerequisites.package("onnx")

#: By test, the number of inputs that are computed; scales, zero points and weights are constants.
TESTS = {
    "test_dequantizelinear": 1,
    "test_maxpool_2d_uint8": 1,
    "test_qlinearconv": 1,
    **{
        f"test_qlinearmatmul_{rank}_{kind}_{scales}": 1
        for rank in ("2D", "3D")
        for kind in ("int8", "uint8")
        for scales in ("float16", "float32")
    },
    "test_quantizelinear": 1,
}


@cache
def cases() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        return {case.name: case for case in load_model_tests(kind="node")}


def closed(model: Any, arrays: list[np.ndarray], computed: int) -> Any:
    """Return a model whose inputs after the first ``computed`` are constants."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    names = [end.name for end in result.graph.input]
    for name, array in list(zip(names, arrays, strict=True))[computed:]:
        result.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    del result.graph.input[computed:]
    for opset in result.opset_import:
        opset.version = min(max(opset.version, 13), 21)
    return result


@pytest.mark.parametrize("name", TESTS)
def test_node(name):
    case = cases()[name]
    for inputs, wanted in case.data_sets:
        model = closed(case.model, inputs, TESTS[name])
        program = compile_graph(load(model.SerializeToString()), preset("edge"))
        with open_session(program) as session:
            ends = [port.shape for port in program.inputs]
            arrays = [x.reshape(-1, *shape) for x, shape in zip(inputs, ends, strict=False)]
            (got,) = session.run(arrays)
        np.testing.assert_array_equal(got.reshape(wanted[0].shape), wanted[0])
