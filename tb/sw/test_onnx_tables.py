"""Gather at computed indices, from constant tables and from values, beside ONNX Runtime."""

import numpy as np
import pytest
from onnx_graphs import Net, helper, numbers, require_equal

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.layers.node import ModelError
from celosia.sw.runtime.interpreter import open_session

#: Rows of the table, numbers of a row, and indices of a sample.
ROWS, WIDTH, COUNT = 20, 16, 6


class Tables(Net):
    """A graph whose inputs are indices."""

    def proto(self, *names, **more):
        model = super().proto(*names, dtype=np.float32, **more)
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(np.int64))
        model.graph.input[0].type.tensor_type.elem_type = kind
        return model


def table(net: Tables, kind: str) -> str:
    """Add a table of integers or float numbers."""
    values = numbers(ROWS, WIDTH)
    if kind == "float":
        return net.constant(values)
    dtype, point = np.dtype(kind), 128 if kind == "uint8" else 3
    limits = np.iinfo(dtype)
    data = np.clip(np.rint(values / 0.02) + point, limits.min, limits.max).astype(dtype)
    return net.add("DequantizeLinear", net.constant(data), *net.scale(0.02, point, dtype))


def graph(kind: str, scale: float, *, offset: bool = False, axis: int = 0) -> bytes:
    """Return a network with an embedding; ``offset``: the indices are sums."""
    net = Tables(ids=(1, COUNT))
    of, ids = table(net, kind), "ids"
    if offset:
        ids = net.add("Add", ids, net.constant(np.array(-2, np.int64)))
    chosen = net.add("Gather", of, ids, axis=axis)
    if axis:
        return net.content(net.quantized(chosen, scale))
    rows = net.quantized(chosen, scale)
    return net.content(net.quantized(net.add("MatMul", rows, net.weights(WIDTH, 12)), 0.1))


@pytest.mark.parametrize(
    ("kind", "scale", "options"),
    [
        ("int8", 0.02, {}),
        ("int8", 0.03, {}),
        ("uint8", 0.02, {}),
        ("float", 0.02, {}),
        ("int8", 0.02, {"offset": True}),
        ("int8", 0.02, {"axis": 1}),
    ],
)
def test_computed_indices(kind, scale, options) -> None:
    # Negative ones count from the end.
    limit = WIDTH if options.get("axis") else ROWS - 2
    ids = np.random.default_rng(1).integers(-limit, limit, (8, 1, COUNT))
    assert ids.min() < 0 < ids.max()
    require_equal(graph(kind, scale, **options), {"ids": ids})


def test_indices_of_a_value() -> None:
    """Both the elements and the indices are inputs."""
    net = Tables(ids=(3,), x=(5, 8))
    model = net.proto(net.quantized(net.add("Gather", net.quantized("x"), "ids")))
    model.graph.input[1].type.tensor_type.elem_type = 1
    ids = np.array([[0, 4, -1], [2, 2, -5]])
    x = np.random.default_rng(2).normal(size=(2, 5, 8)).astype(np.float32)
    require_equal(model.SerializeToString(), {"ids": ids, "x": x})


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_a_table_of_integers(kind: str) -> None:
    """Its scale is that of the operator that reads the rows."""
    net, dtype = Tables(ids=(1, COUNT)), np.dtype(kind)
    limits = np.iinfo(dtype)
    data = np.random.default_rng(3).integers(limits.min, limits.max, (ROWS, WIDTH), dtype)
    scale, weight = net.scale(0.02, 5, dtype), net.scale(0.01, 0)
    weights = net.constant(np.rint(numbers(12, WIDTH, 3) * 40).astype(np.int8))
    rows = net.add("Gather", net.constant(data, dtype), "ids")
    rows = net.add("Transpose", rows, perm=[0, 2, 1])
    ends = (rows, *scale, weights, *weight, *scale)
    result = net.add("QLinearConv", *ends, pads=[1, 1])
    ids = np.random.default_rng(1).integers(0, ROWS, (8, 1, COUNT))
    require_equal(net.content(net.add("DequantizeLinear", result, *scale)), {"ids": ids})


def test_a_table_of_several_scales_is_refused() -> None:
    net = Tables(ids=(1, COUNT))
    chosen = net.add("Gather", net.weights(ROWS, WIDTH, scale=[0.01] * ROWS, axis=0), "ids")
    content = net.content(net.quantized(chosen))
    message = "wanted a table of int8 or uint8 of one scale, got int8 of 20"
    with pytest.raises(ModelError, match=message):
        load(content)


def test_an_index_past_the_table_is_refused() -> None:
    with open_session(compile_graph(load(graph("int8", 0.02)), preset("nano"))) as session:
        with pytest.raises(ValueError, match=f"indices from 0 to {ROWS - 1}, got {ROWS}"):
            session.run([np.full((1, COUNT), ROWS)])
