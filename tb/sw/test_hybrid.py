"""Float networks whose weights have fewer bits, as converters make them."""

from pathlib import Path
from typing import Any

import numpy as np
import prerequisites
import pytest
from networks import Graph, Operation, Quantization, Tensor, serialize

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.quantize.hybrid import float_weights
from celosia.sw.quantize.litert import run
from celosia.sw.quantize.model import QuantizeError
from celosia.sw.quantize.process import Converter

KINDS = ("dynamic_wi8_afp32", "dynamic_wi4_afp32", "weight_only_wi8_afp32", "weight_only_wi4_afp32")
INT8, HALF, FLOAT = np.dtype("int8"), np.dtype("float16"), np.dtype("float32")


@pytest.fixture
def content(plain: Path) -> bytes:
    return plain.read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_the_converters_default_becomes_int8(kind, content: bytes, tmp_path: Path, rng) -> None:
    tool: Any = prerequisites.package("ai_edge_quantizer.quantizer")
    recipe: Any = prerequisites.package("ai_edge_quantizer.recipe")
    worker = tool.Quantizer(bytearray(content), getattr(recipe, kind)())
    small = bytes(worker.quantize().quantized_model)
    assert len(small) < len(content) / 2
    path = tmp_path / "named_int8.tflite"
    path.write_bytes(small)
    x = rng.random((4, 24, 24, 3), np.float32)
    with Converter(path) as converter:
        (port,) = converter.ports
        # The hybrid kernels round the inputs of each layer, those of float do not.
        floats, hybrid = converter.outputs(None, [x]), run(small, {port.name: x}, range(4))
        assert np.abs(hybrid - floats).max() < 0.02 and np.ptp(floats) > 0.1
        quantised = converter.quantized([x])
        compile_graph(load(quantised), preset("edge"))
        int8 = (converter.outputs(quantised, [x]).astype(np.float32) + 128) / 256
    assert np.abs(int8 - floats).max() < 0.05


def dense(weights: Tensor) -> bytes:
    """Return a layer whose weights come through DEQUANTIZE."""
    ends = Tensor("x", (1, 4), FLOAT), Tensor("w", (2, 4), FLOAT), Tensor("y", (1, 2), FLOAT)
    operations = Operation("DEQUANTIZE", (3,), (1,)), Operation("FULLY_CONNECTED", (0, 1), (2,))
    return serialize(Graph((*ends, weights), operations, (0,), (2,)))


def embedding(table: Tensor) -> bytes:
    """Return a network that takes rows of a table, then brings them to float."""
    floats = [Tensor(name, (1, 1, 4), FLOAT) for name in ("real", "more", "y")]
    rows = Tensor("rows", (1, 1, 4), INT8, table.quantization)
    tensors = (Tensor("x", (1, 1), np.dtype("int32")), table, rows, *floats)
    gathered, real = Operation("GATHER", (1, 0), (2,)), Operation("DEQUANTIZE", (2,), (3,))
    operations = (gathered, real, Operation("ADD", (3, 4), (5,)))
    return serialize(Graph(tensors, operations, (0, 4), (5,)))


VALUES = np.arange(-4, 4).reshape(2, 4)
SCALES = Quantization(np.array([0.5, 0.25], np.float32), np.array([0, 0]), 0)
SHIFTED = Quantization(np.array([0.5], np.float32), np.array([3]))


#: Scales along the last dimension, as of a DEPTHWISE_CONV_2D, and a zero point for each.
ACROSS = Quantization(np.array([0.5, 0.25, 1, 2], np.float32), np.zeros(4, int), 1)
APART = Quantization(np.array([0.5, 0.25, 1, 2], np.float32), np.arange(4), 1)

CASES = (
    (Tensor("h", (2, 4), HALF, data=VALUES.astype(HALF)), VALUES),
    (Tensor("h", (2, 4), INT8, SHIFTED, VALUES.astype(INT8)), 0.5 * (VALUES - 3)),
    (Tensor("h", (2, 4), INT8, SCALES, VALUES.astype(INT8)), VALUES * [[0.5], [0.25]]),
    (Tensor("h", (2, 4), INT8, ACROSS, VALUES.astype(INT8)), VALUES * ACROSS.scales),
    (Tensor("h", (2, 4), INT8, APART, VALUES.astype(INT8)), (VALUES - np.arange(4)) * APART.scales),
)


@pytest.mark.parametrize(("tensor", "wanted"), CASES)
def test_weights_through_dequantize(tensor: Tensor, wanted: np.ndarray, tmp_path: Path) -> None:
    prerequisites.package("ai_edge_quantizer")
    (tmp_path / "net.tflite").write_bytes(dense(tensor))
    x = np.array([[1, 2, 3, 4]], np.float32)
    with Converter(tmp_path / "net.tflite") as converter:
        got = converter.outputs(None, [x])
        np.testing.assert_allclose(got, x @ wanted.astype(np.float32).T)
        compile_graph(load(converter.quantized([x])), preset("edge"))


def test_rows_of_a_table_through_dequantize(tmp_path: Path) -> None:
    prerequisites.package("ai_edge_quantizer")
    (tmp_path / "net.tflite").write_bytes(embedding(CASES[1][0]))
    x = np.array([[1], [0]], np.int32)
    with Converter(tmp_path / "net.tflite") as converter:
        more = np.ones((2, 1, 4), np.float32)
        wanted = 0.5 * (VALUES[[1, 0]] - 3) + 1
        np.testing.assert_allclose(converter.outputs(None, [x, more]), wanted)


def test_a_quantised_file_is_no_float_network(content: bytes) -> None:
    x, y = (Tensor(name, (1, 4), FLOAT) for name in "xy")
    tensors = (x, Tensor("q", (1, 4), INT8, SHIFTED), y)
    operations = (Operation("QUANTIZE", (0,), (1,)), Operation("DEQUANTIZE", (1,), (2,)))
    with pytest.raises(QuantizeError, match="it is quantised: celosia run"):
        float_weights(serialize(Graph(tensors, operations, (0,), (2,))))
    assert float_weights(content) == content


def test_variables_without_contents_are_refused() -> None:
    prerequisites.package("ai_edge_litert")
    x, w, y = (Tensor(name, (1, 4), FLOAT) for name in "xwy")
    tensors = (x, Tensor("handle", (1,), np.dtype("int32")), w, y)
    operations = (
        Operation("VAR_HANDLE", (), (1,)),
        Operation("READ_VARIABLE", (1,), (2,)),
        Operation("ADD", (0, 2), (3,)),
    )
    content = serialize(Graph(tensors, operations, (0,), (3,)))
    with pytest.raises(QuantizeError, match="variables without contents; convert the network aga"):
        float_weights(content)
