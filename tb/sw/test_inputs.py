"""Inputs and outputs of the commands: any number of them, by name, in every kind of file."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from celosia.hw.arch.presets import preset
from celosia.sw.cli import main
from celosia.sw.cli.inputs import read_labels
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.images import read_image
from celosia.sw.ir.parts import Port
from celosia.sw.runtime.arrays import InputError, quantized
from celosia.sw.runtime.backends import open_device
from celosia.sw.runtime.interpreter import InferenceSession, Interpreter
from celosia.sw.runtime.session import Session
from celosia.sw.runtime.shards import run_on_workers
from celosia.sw.shipped import shipped
from celosia.sw.workers.spread import Workers

MACHINE = "--device machine --preset nano"


def celosia(command: str) -> None:
    assert main(command.split()) == 0


@pytest.mark.parametrize("form", ["columns", "floats", "ones", "truths"])
def test_labels_are_whole_numbers_or_one_hot_rows(form: str, tmp_path: Path) -> None:
    labels = np.array([3, 0, 2, 2])
    ones = np.eye(4)[labels]
    forms = {"columns": labels[:, None], "floats": labels * 1.0, "ones": ones, "truths": ones == 1}
    np.save(tmp_path / "y.npy", forms[form])
    np.testing.assert_array_equal(read_labels(tmp_path / "y.npy", 4), labels)


@pytest.mark.parametrize(
    "array", [[0.5, 1, 0, 0], [np.nan, 1, 0, 0], np.eye(4)[:3], np.ones((4, 4)), np.zeros((4, 4))]
)
def test_other_labels_are_refused(array: object, tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", np.array(array))
    with pytest.raises(InputError, match="--labels: .*wanted whole numbers of shape .4., or one-h"):
        read_labels(tmp_path / "y.npy", 4)


@pytest.fixture
def folder(tmp_path, monkeypatch, rng, two_ended) -> Path:
    """A folder to work in, with a model of two inputs and two outputs, and inputs for it."""
    monkeypatch.chdir(tmp_path)
    Path("two.tflite").write_bytes(two_ended())
    left, right = rng.integers(-60, 60, (2, 5, 2, 3)).astype(np.int8)
    np.save("left.npy", left)
    np.save("right.npy", right)
    np.savez("both.npz", left=left, right=right)
    celosia("compile two.tflite -o two.prog --preset nano --batch 2")
    return tmp_path


@pytest.mark.parametrize("model", ["two.tflite", "two.prog"])
@pytest.mark.parametrize(
    "given", ["--input right=right.npy --input left=left.npy", "--input both.npz"]
)
def test_several_inputs_and_outputs(folder: Path, model: str, given: str) -> None:
    celosia(f"run {model} {given} --output all.npz {MACHINE}")
    celosia(f"run {model} {given} --output sum=s.npy --output model/b/top=t.npy {MACHINE}")
    celosia(f"run {model} {given} --output model/a/Relu;model/b/top=u.npy {MACHINE}")
    left, right = np.load("left.npy"), np.load("right.npy")
    outputs = np.load("all.npz")
    assert list(outputs) == ["sum", "model/a/Relu;model/b/top"]
    assert np.array_equal(outputs["sum"], np.clip(left.astype(int) + right, -128, 127))
    assert np.array_equal(np.load("s.npy"), outputs["sum"])
    for name in ("t", "u"):
        assert np.array_equal(np.load(f"{name}.npy"), np.maximum(right, 0))


def test_a_single_array_needs_no_name(folder: Path, rng: np.random.Generator) -> None:
    x = rng.integers(-128, 128, (3, 784)).astype(np.int8)
    np.save("x=1.npy", x)
    np.savez("x.npz", anything=x)
    celosia(f"run mnist_mlp --input x=1.npy --output y=1.npy {MACHINE}")
    celosia(f"run mnist_mlp --input x.npz --output y.npz {MACHINE}")
    (y,) = np.load("y.npz").values()
    assert y.shape == (3, 10) and np.array_equal(np.load("y=1.npy"), y)


def test_an_unknown_name_of_an_input(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("x.npy", np.zeros((1, 784), np.int8))
    command = f"run mnist_mlp --input other=x.npy --output y.npy {MACHINE}"
    assert main(command.split()) != 0
    assert "--input other=x.npy: wanted NAME=FILE with NAME of " in capsys.readouterr().err


@pytest.mark.parametrize(("most", "noted"), [(1, False), (255, True)])
def test_values_out_of_range_are_noted(folder, rng, capsys, most, noted) -> None:
    np.save("x.npy", rng.uniform(0, most, (2, 784)).astype(np.float32))
    celosia(f"run mnist_mlp --input x.npy --output y.npy {MACHINE}")
    note = "% of the values are outside the input's range 0 to 1, and are clamped"
    assert (note in capsys.readouterr().err) == noted


def picture(seed: int, size: tuple[int, int] = (28, 28)) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size).astype(np.uint8)


def test_pictures_are_pixels(folder: Path) -> None:
    Path("shots").mkdir()
    images = np.stack([picture(n) for n in range(3)])
    for n, image in enumerate(images):
        Image.fromarray(image).save(f"shots/{n}.png")
    np.save("bytes.npy", images)
    np.save("real.npy", (images / np.float32(255))[..., None])
    for name in ("shots", "bytes.npy --pixels", "bytes.npy --pixels=0:1", "real.npy"):
        celosia(f"run mnist_cnn_3x3 --input {name} --output y.npy --device machine")
        Path(f"y {name[:13]}").write_bytes(Path("y.npy").read_bytes())
    celosia("run mnist_cnn_3x3 --input shots/1.png --output y.npy --device machine")
    assert len({path.read_bytes() for path in folder.glob("y *")}) == 1
    assert np.array_equal(np.load("y.npy")[0], np.load("y shots")[1])


def test_pixels_of_a_range_for_an_input_of_uint8() -> None:
    port = Port("x", (3,), 1, 1 / 128, 128, 0, dtype="uint8")
    pixels = np.array([[0, 64, 255]], np.uint8)
    assert np.array_equal(quantized(pixels, port), pixels)
    assert np.array_equal(quantized(pixels, port, pixels="own"), pixels)
    assert np.array_equal(quantized(pixels, port, pixels=(0, 1)), [[128, 160, 255]])
    assert np.array_equal(quantized(pixels, port, pixels=(1, -1)), [[255, 192, 0]])


@pytest.mark.parametrize("kind", ["GIF", "PPM", "TIFF", "EPS"])
def test_other_formats_are_not_read_under_the_name_of_one(kind: str, tmp_path: Path) -> None:
    """Pillow starts Ghostscript for PostScript, whatever the name of the file."""
    Image.fromarray(picture(1)).save(tmp_path / "a.png", format=kind)
    with pytest.raises(ValueError, match=r"a\.png: not a picture, or a damaged one"):
        read_image(tmp_path / "a.png", (28, 28, 1))
    Image.fromarray(picture(1)).save(tmp_path / "a.png", format="BMP")
    assert read_image(tmp_path / "a.png", (28, 28, 1)).any()


def test_pictures_take_the_layout_of_the_model(tmp_path: Path) -> None:
    colours = np.random.default_rng(1).integers(0, 256, (4, 6, 3)).astype(np.uint8)
    path = tmp_path / "a.png"
    Image.fromarray(colours).save(path)
    assert np.array_equal(read_image(path, (4, 6, 3)), colours)
    assert np.array_equal(read_image(path, (3, 4, 6)), colours.transpose(2, 0, 1))
    gray = np.array(Image.fromarray(colours).convert("L"))
    assert np.array_equal(read_image(path, (4, 6)), gray)
    assert np.array_equal(read_image(path, (24,)), gray[..., None])
    assert read_image(path, (4, 6, 4)).shape == (4, 6, 4)
    assert read_image(path, (8, 9, 1), resize=True).shape == (8, 9, 1)


@pytest.fixture
def digits(folder: Path, mnist: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Two of each digit as arrays, and as pictures in a folder for each class."""
    chosen = [n for digit in range(10) for n in np.flatnonzero(mnist[1] == digit)[:2]]
    images, labels = mnist[0][chosen], mnist[1][chosen]
    np.save("x.npy", images)
    np.save("y.npy", labels[:, None].astype(np.int64))
    for n, (image, label) in enumerate(zip(images, labels, strict=True)):
        Path(f"pictures/{label}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(f"pictures/{label}/{n}.png")
    return images, labels


@pytest.mark.thorough
def test_own_data(digits: tuple[np.ndarray, np.ndarray], capsys: pytest.CaptureFixture) -> None:
    seen = []
    for data in ("x.npy --labels y.npy --pixels", "pictures"):
        celosia(f"eval mnist_cnn_3x3 --data {data} --batch 20 --stats s.json")
        seen.append(json.loads(Path("s.json").read_text()))
    assert seen[0]["confusion"] == seen[1]["confusion"] and seen[0]["right"] >= 19
    assert seen[0]["classes"] == seen[1]["classes"] == list("0123456789")
    assert [one["dataset"] for one in seen] == ["x.npy", "pictures"]
    assert np.array(seen[0]["confusion"]).sum(axis=1).tolist() == np.bincount(digits[1]).tolist()
    celosia("eval mnist_mlp --data x.npy --labels y.npy --pixels --flat --limit 18 --stats s.json")
    assert json.loads(Path("s.json").read_text())["right"] >= 16


def test_the_output_with_the_scores_is_named(folder: Path) -> None:
    np.save("labels.npy", np.array([0, 1, 2, 3, 5]))
    celosia("eval two.tflite --data both.npz --labels labels.npy --output sum --stats s.json")
    total = np.load("left.npy").astype(int) + np.load("right.npy")
    guesses = total.reshape(5, -1).argmax(axis=1)
    found = json.loads(Path("s.json").read_text())
    assert found["right"] == np.sum(guesses == [0, 1, 2, 3, 5]) and len(found["classes"]) == 6


def test_training_images_are_named_in_the_result(folder, monkeypatch, capsys) -> None:
    from celosia.sw import data

    images, labels = np.zeros((4, 28, 28), np.uint8), np.zeros(4, np.uint8)
    monkeypatch.setattr(data, "find", lambda name: data.Half(images, labels, "training images"))
    celosia("eval mnist_mlp --dataset mnist --preset nano --stats s.json")
    assert "training images" in capsys.readouterr().out
    assert json.loads(Path("s.json").read_text())["note"] == "training images"


@pytest.mark.thorough
def test_several_processes_give_the_same(folder: Path, rng: np.random.Generator) -> None:
    program = compile_graph(load(shipped()["mnist_mlp"].path), preset("nano"), 2)
    x = rng.integers(-128, 128, (13, 784)).astype(np.int8)
    with Session(program, open_device("rtl", program.config, program.memory_bytes)) as session:
        wanted = session.run([x])
        costs = session.statistics
    outputs, total = run_on_workers(program, "rtl", {}, [x], Workers(2))
    assert np.array_equal(outputs[0], wanted[0])
    one, other = costs.as_dict(), total.as_dict()
    assert one.pop("seconds") > 0 and other.pop("seconds") > 0
    assert one == other


def test_models_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    celosia("models")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(shipped())
    assert "99.34%" in lines[list(shipped()).index("mnist_cnn_5x5")]


def test_a_file_goes_before_a_model_of_the_package(folder: Path) -> None:
    Path("mnist_cnn_5x5").write_bytes(Path("two.prog").read_bytes())
    celosia(f"run mnist_cnn_5x5 --input both.npz --output y.npz {MACHINE}")


FOUR = """
LOAD external=256 length=16 rows=1 post=1
STORE external=512 length=16 rows=1 wait=1
HALT
"""


@pytest.mark.parametrize("device", ["machine", pytest.param("rtl", marks=pytest.mark.thorough)])
def test_bare_instructions(folder: Path, device: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("four.s").write_text(FOUR)
    celosia("assemble four.s -o four.bin")
    numbers = np.arange(4, dtype=">i4")
    np.save("x.npy", numbers)
    Path("x.bin").write_bytes(bytes(range(100, 108)))
    capsys.readouterr()
    memory = "--memory 0x100=x.npy --memory 272=x.bin --dump 512:16=y.npy --dump 0x200:4=y.bin"
    celosia(f"run four.bin --preset nano {memory} --stats s.json --device {device}")
    assert np.load("y.npy").dtype == np.int8
    assert np.load("y.npy").tobytes() == numbers.astype("<i4").tobytes()
    assert Path("y.bin").read_bytes() == numbers.astype("<i4").tobytes()[:4]
    stats = json.loads(Path("s.json").read_text())
    assert stats["instructions"] == 3 and (stats["cycles"] is None) == (device == "machine")
    assert capsys.readouterr().out.startswith("3 instructions")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "LOAD unified=4194303 length=64 rows=1\nHALT",
            "FIELD in SEQUENCER: instruction 0: LOAD unified: wanted 0 to 131071, got 4194303",
        ),
        ("NOP\nNOP", "PROGRAM in SEQUENCER: no HALT in 2 instructions"),
        (
            "FILL wait=3 post=4\nSTORE wait=4\nHALT",
            "WATCHDOG in STORE: instruction 1 (STORE wait=4); DEADLOCK: instruction 0 "
            "(FILL wait=3 post=4) waits for ever for semaphore 3; no instruction posts 3",
        ),
        (
            "STORE unified=131071 length=4\nHALT",
            "RANGE in STORE: instruction 0 (STORE unified=131071 length=4): "
            "wanted up to unified buffer byte 131071, got 131074",
        ),
    ],
)
@pytest.mark.parametrize("device", ["machine", pytest.param("rtl", marks=pytest.mark.thorough)])
def test_bare_instructions_that_err(folder, text: str, reason: str, device: str, capsys) -> None:
    Path("bad.s").write_text(text)
    celosia("assemble bad.s -o bad.bin")
    assert main(f"run bad.bin --preset nano --device {device}".split()) == 1
    printed = capsys.readouterr().err.splitlines()[-1]
    assert printed == f"celosia: bad.bin: {reason} (preset nano)"


def test_the_interfaces_check_layouts(two_ended: Callable[[], bytes]) -> None:
    session = InferenceSession(two_ended(), config="nano")
    x = np.zeros((4, 2, 3), np.int8)
    right = "model/b;right"
    assert session.run(None, {"left": x, right: x})[0].shape == (4, 2, 3)
    for wrong in (x.reshape(4, 6), x.transpose(0, 2, 1)):
        with pytest.raises(InputError, match=r"input 'right': wanted shape \[N, 2, 3\], got"):
            session.run(None, {"left": x, right: wrong})
    interpreter = Interpreter(model_content=two_ended(), config="nano")
    interpreter.allocate_tensors()
    with pytest.raises(InputError, match=r"input 'right': wanted int8 of shape \(1, 2, 3\)"):
        interpreter.set_tensor(1, x)
    interpreter.resize_tensor_input(0, [4, 2, 3])
    interpreter.allocate_tensors()
    interpreter.set_tensor(1, x)
    with pytest.raises(InputError, match="got int8 of shape"):
        interpreter.set_tensor(1, x.reshape(4, 3, 2))


def test_a_batch_larger_than_a_program_runs_in_several(two_ended: Callable[[], bytes]) -> None:
    interpreter = Interpreter(model_content=two_ended(), config="nano")
    interpreter.resize_tensor_input(0, [5000, 2, 3])
    interpreter.allocate_tensors()
    interpreter.set_tensor(1, np.full((5000, 2, 3), 7, np.int8))
    interpreter.invoke()
    assert (interpreter.get_tensor(2) == 7).all() and len(interpreter.get_tensor(2)) == 5000
