"""``celosia train`` with the file of a model: accuracy, resumed runs, refusals."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import prerequisites
import pytest
from float_networks import learner, network, samples

from celosia.sw.cli import main, train
from celosia.sw.frontend.source import load
from celosia.sw.training.graph_trainer import GraphTrainer
from celosia.sw.training.state import State

DATA = "train net.tflite --data x.npy --labels"
TRAIN = f"{DATA} y.npy --batch 8"
COMMAND = TRAIN.split()


def test_a_float_file_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prerequisites.package("ai_edge_quantizer")
    source = Path(__file__).parents[1] / "e2e" / "fixtures" / "cnn.float.tflite"
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(0).random((40, 28, 28, 1), np.float32))
    np.save("y.npy", np.arange(40) % 10)
    command = ["train", str(source), *COMMAND[2:], "--epochs", "1", "--train-last", "1"]
    assert main([*command, "-o", "a.tflite"]) == 0
    assert load("a.tflite").operations[-1].kind in ("FULLY_CONNECTED", "SOFTMAX")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An int8 file, samples of four classes and their labels, in the present folder."""
    monkeypatch.chdir(tmp_path)
    graph = network("conv", 3)
    images, labels = samples(graph, 120, 3)
    trainer, state = learner(graph, 3), State(weights=[])
    trainer.start(state, images, labels)
    path = Path("net.tflite")
    path.write_bytes(trainer.file(state.weights, trainer.calibration.shifts))
    np.save("x.npy", images / np.float32(128))
    np.save("y.npy", labels)
    np.save("t.npy", 300 * np.eye(4)[labels] - 150)
    return path


def test_a_file_trains(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """LiteRT has the accuracy that the command prints."""
    more = ["--validation-data", "x.npy", "--validation-labels", "y.npy"]
    assert main([*COMMAND, *more, "--epochs", "2", "-o", "a.tflite"]) == 0
    printed = capsys.readouterr().out
    images = (np.load("x.npy") * 128).astype(np.int8)
    (scores,) = prerequisites.litert_outputs(Path("a.tflite").read_bytes(), images)
    share = (scores.reshape(120, -1).argmax(1) == np.load("y.npy")).mean()
    assert share > 0.8 and f"validation               {share:.2%}" in printed


def test_targets_train(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """LiteRT explains as much of them as the command prints."""
    images, targets = (np.load("x.npy") * 128).astype(np.int8), np.load("t.npy")
    command = [*COMMAND[:4], "--labels", "t.npy", "--loss", "squares", "--epochs", "4"]
    more = ["--validation-data", "x.npy", "--validation-labels", "t.npy", "--stats", "s.json"]
    assert main([*command, *more, "-o", "a.tflite"]) == 0
    assert "epoch 4/4                explained " in capsys.readouterr().out
    (scores,) = prerequisites.litert_outputs(Path("a.tflite").read_bytes(), images)
    file = load("a.tflite")
    quantization = file.tensors[file.outputs[0]].quantization
    assert quantization
    errors = scores.reshape(120, 4) * float(quantization.scale) - targets
    explained = 1 - np.square(errors).mean() / targets.var(axis=0).mean()
    accuracy = json.loads(Path("s.json").read_text("utf-8"))["validation_accuracy"]
    assert accuracy == pytest.approx(explained, abs=1e-5) and explained > 0.5


@pytest.mark.parametrize(
    "option",
    [
        ["--augment", "shift,flip"],
        ["--random-weights", "--loss", "squares"],
        ["--labels", "t.npy", "--loss", "squares"],
    ],
)
def test_a_resumed_run_gives_the_same_bits(option: list[str], model, monkeypatch) -> None:
    """It goes on from a checkpoint between two looks at the shifts."""
    monkeypatch.setattr(train, "_CHECKPOINT_STEPS", 5)
    command = [*COMMAND, *option, "--epochs", "2", "-o", "a.tflite"]
    assert main(command) == 0
    names = ("a.tflite", "a.checkpoint.npz")
    expected = [Path(name).read_bytes() for name in names]
    for name in names:
        Path(name).unlink()
    run, passed = GraphTrainer._step, iter(range(100))

    def stopped(*arguments: Any) -> None:
        if next(passed) == 18:
            raise KeyboardInterrupt
        run(*arguments)

    monkeypatch.setattr(GraphTrainer, "_step", stopped)
    assert main(command) == 130
    monkeypatch.setattr(GraphTrainer, "_step", run)
    assert main([*command, "--resume"]) == 0
    assert [Path(name).read_bytes() for name in names] == expected


REFUSALS = [
    ("train net.tflite", "train: wanted either --dataset or --data"),
    ("train net.tflite --data x.npy", "--data: wanted --labels, or a folder"),
    (f"{DATA} w.npy", "labels: wanted 0 to 3, got 0 to 4"),
    ("train none.tflite --data x.npy --labels y.npy", "none.tflite: no such file"),
    (f"{TRAIN} --preset edge", "wanted a core with activation_weights=true"),
    (f"{TRAIN} --limit 9", "--limit: wanted at least 16 images, got 9"),
    (f"{TRAIN} --batch 999", "--data: wanted at least 1998 images, got 120 (a"),
    (f"{TRAIN} --train-last 99", "wanted 1 to 3 last layers, got 99"),
    (f"{DATA} one.npy", "wanted 2 classes or more, got 1"),
    (f"{DATA} t.npy", "wanted whole numbers of shape [120], or"),
    (
        f"{DATA} nan.npy --loss squares",
        "or finite targets of shape [120, ...], got NaN or infinity",
    ),
    (f"{DATA} x.npy --loss squares", "labels: wanted 4 targets a sample, got 84"),
    (
        f"{DATA} far.npy --loss squares",
        "wanted targets with a deviation of 17.4 at least, got 10.9 around 2194 (subtract",
    ),
    ("train net.tflite --dataset mnist --labels y.npy", "--labels: wanted --data, too"),
    ("train mnist_mlp --labels y.npy", "--labels: wanted --data, too"),
    ("train mnist_mlp --validation-data x.npy", "--validation-data: wanted --data, too"),
    (f"{TRAIN} --validation-labels y.npy", "--validation-labels: wanted --validation-data, too"),
    (f"{TRAIN} --dropout", "dropout: wanted a dense layer with ReLU before"),
    (f"{TRAIN} -o net.tflite", "net.tflite"),
    (f"{TRAIN} --augment turn", "wanted shift or flip or shift,flip, got 'turn'"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSALS)
def test_refusals(arguments: str, message: str, model: Path, refused: Callable[[str], str]) -> None:
    np.save("one.npy", np.zeros(120, np.int64))
    np.save("nan.npy", np.where(np.load("t.npy") > 0, np.nan, 0))
    np.save("far.npy", 2200 + np.load("t.npy") / 12.5)
    np.save("w.npy", np.where(np.arange(120) == 5, 4, np.load("y.npy")))
    assert message in refused(arguments)
