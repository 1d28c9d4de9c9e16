import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from celosia.hw.arch.presets import preset
from celosia.sw import data, evaluate
from celosia.sw.cli import main
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.driver.core import RunResult
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.program import Program
from celosia.sw.runtime.session import InputError, Statistics

BLUE, RED = (0x1F, 0x6F, 0x8B), (0xC0, 0x39, 0x2B)


@pytest.fixture(scope="module")
def program(mnist_model: Path) -> Program:
    return compile_graph(load(mnist_model), preset("edge"), 4)


@pytest.fixture
def digits(tmp_path, mnist, monkeypatch) -> tuple[np.ndarray, np.ndarray]:
    """The only data set at hand, in an empty folder: 40 digits, under both names."""
    images, labels = mnist[0][:40], mnist[1][:40]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(data, "find", lambda name: data.Half(images, labels))
    return images, labels


def evaluation(
    program: Program, confusion: np.ndarray, *, cycles: int | None = None, dataset: str = "mnist"
) -> evaluate.Evaluation:
    statistics = Statistics(program)
    statistics.add(RunResult(cycles, None), int(confusion.sum()), 0.5)
    return evaluate.Evaluation(
        dataset=dataset,
        device="machine",
        classes=data.DATASETS[dataset].classes,
        confusion=confusion,
        statistics=statistics,
    )


def test_confusion_matrix(rng: np.random.Generator) -> None:
    labels, guesses = rng.integers(0, 10, (2, 500))
    counted = evaluate.confusion_matrix(labels.astype(np.uint8), guesses, 10)
    assert counted.shape == (10, 10) and counted.sum() == 500
    for label, guess in ((0, 0), (3, 7), (9, 9)):
        assert counted[label, guess] == np.sum((labels == label) & (guesses == guess))


def test_inputs_are_pixels_from_0_to_1(program: Program, rng: np.random.Generator) -> None:
    images = rng.integers(0, 256, (3, 28, 28), np.uint8)
    x = evaluate.inputs_of(program.name, program.inputs, "mnist", images)
    assert x.dtype == np.int8 and x.shape == (3, 784)
    assert np.array_equal(x, (images.reshape(3, 784) ^ 0x80).view(np.int8))


def test_other_images_are_refused(program: Program) -> None:
    with pytest.raises(InputError, match="wanted 729 numbers in, as mnist has, got 784"):
        evaluate.inputs_of(program.name, program.inputs, "mnist", np.zeros((3, 27, 27), np.uint8))


def test_figures(program: Program) -> None:
    confusion = np.eye(10, dtype=np.int64) * 9
    confusion[4, 9], confusion[9, 4] = 3, 1
    found = evaluation(program, confusion, cycles=94_000)
    assert (found.images, found.right) == (94, 90)
    assert found.accuracy == 90 / 94 and found.images_per_second == 188
    lines = evaluate.summary(found)
    assert lines["accuracy"] == "95.74% of 94 samples, 4 wrong"
    assert lines["most frequent mistake"] == "4 taken for 9, 3 of 12"
    assert lines["speed"] == "188.0 samples/s, batch 4, 2 in the last one"
    assert lines["cycles per sample"] == "1,000.0"
    assert lines["multipliers in use"] == f"{101_632 / 256_000:.1%}"
    written = json.loads(json.dumps(found.as_dict()))
    assert written["confusion"] == confusion.tolist() and written["accuracy"] == 90 / 94
    assert written["cycles_per_input"] == 1000 and written["classes"] == list("0123456789")


def test_without_mistakes_and_without_cycles(program: Program) -> None:
    found = evaluation(program, np.eye(10, dtype=np.int64))
    assert list(evaluate.summary(found)) == ["core", "accuracy", "speed"]
    assert evaluate.draw(found).startswith(b"\x89PNG")


@pytest.mark.parametrize("dataset", data.DATASETS)
def test_picture(program: Program, dataset: str) -> None:
    confusion = np.eye(10, dtype=np.int64) * 900
    confusion[2, 7] = 40
    confusion[3] = 0
    found = evaluation(program, confusion, cycles=1000, dataset=dataset)
    picture = evaluate.draw(replace(found, note="a remark as long as that of mlxtend " * 5))
    pixels = imread(io.BytesIO(picture))[..., :3]
    cells = {}
    for colour in (BLUE, RED):
        where = np.argwhere(np.abs(pixels * 255 - colour).max(axis=-1) < 2)
        cells[colour] = len(where) / pixels[..., 0].size
    # Eight cells are all blue and one is all red, less the counts within.
    assert 7 < cells[BLUE] / cells[RED] < 9 and cells[RED] > 0.003
    edges = (pixels[:8], pixels[-8:], pixels[:, :8], pixels[:, -8:])
    assert all((edge == 1).all() for edge in edges), "something is cut off"


def test_command(digits, mnist_model, capsys) -> None:
    options = "--dataset mnist --preset nano --limit 30 --batch 8 --stats s.json"
    assert main(["eval", str(mnist_model), *options.split()]) == 0
    printed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    stats = json.loads(Path("s.json").read_text())
    assert printed["core"] == "nano, 4 x 4 multipliers"
    assert f"{stats['accuracy']:.2%} of 30 samples" in printed["accuracy"]
    # Nothing is written unasked.
    assert [path.name for path in Path().iterdir() if path.is_file()] == ["s.json"]
    assert stats["images"] == stats["inputs"] == 30 and stats["batch"] == 8
    counts = np.array(stats["confusion"])
    assert np.array_equal(counts.sum(axis=1), np.bincount(digits[1][:30], minlength=10))
    assert stats["right"] == counts.trace() >= 25 and stats["device"] == "machine"


def test_a_batch_is_no_larger_than_the_images(digits, mnist_model) -> None:
    options = "--dataset mnist --preset nano --limit 3 --batch 8 --stats s.json --png c.png"
    assert main(["eval", str(mnist_model), *options.split()]) == 0
    assert json.loads(Path("s.json").read_text())["batch"] == 3
    assert Path("c.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("m.tflite", "eval: wanted either --dataset or --data"),
        ("m.tflite --dataset cifar", "invalid choice: 'cifar'"),
        ("m.tflite --dataset mnist --limit 0", "--limit: wanted a whole number of at least 1"),
        ("m.tflite --dataset mnist --png gone/c.png", "no such directory as gone"),
        ("m.tflite --dataset mnist --stats m.tflite", "named twice, or an input"),
        ("m.tflite --dataset mnist --png s --stats s", "named twice"),
        ("gone.tflite --dataset mnist", "gone.tflite: no such file"),
        ("small.tflite --dataset mnist", "wanted 10 numbers, one for each class of mnist, got 4"),
    ],
)
def test_bad_input(digits, mnist_model, refused, command, says) -> None:
    from networks import FullyConnected, write_fully_connected

    layer = FullyConnected(weights=np.ones((4, 9), np.int8), weight_scale=0.01, output_scale=0.2)
    Path("small.tflite").write_bytes(write_fully_connected([layer], input_scale=0.1))
    Path("m.tflite").write_bytes(mnist_model.read_bytes())
    assert says in refused(f"eval {command}")


def test_no_data_set(tmp_path, mnist_model, capsys, monkeypatch) -> None:
    def missing(name: str) -> None:
        raise FileNotFoundError(f"no {name} test images: install something")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(data, "find", missing)
    assert main(["eval", str(mnist_model), "--dataset", "fashion-mnist"]) == 2
    assert capsys.readouterr().err == ("celosia: no fashion-mnist test images: install something\n")
