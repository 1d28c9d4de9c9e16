"""``celosia quantize``: its data, models that Celosia refuses, and files of other versions."""

import shlex
import sys
import zipfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from celosia.sw.cli import main, quantize
from celosia.sw.quantize import process, tensorflow
from celosia.sw.quantize.model import QuantizeError, port
from celosia.sw.quantize.process import Converter
from celosia.sw.runtime.arrays import InputError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> Path:
    """The folder that commands run in, with samples as an array and in folders of classes."""
    monkeypatch.chdir(tmp_path)
    x = rng.random((6, 24, 24, 3), np.float32)
    np.save("x.npy", x)
    for number, pixels in enumerate((255 * x).astype(np.uint8)):
        folder = Path("pictures", f"class {number % 5}")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return tmp_path


def test_a_model_that_celosia_refuses_has_another_name(here, plain, monkeypatch, capsys) -> None:
    with Converter(plain) as converter:
        # A float file, as a quantiser leaves layers that it does not know.
        monkeypatch.setattr(converter, "quantized", lambda samples: plain.read_bytes())
        monkeypatch.setattr(quantize, "Converter", lambda *_: nullcontext(converter))
        (here / "y.tflite").write_bytes(b"the one before")
        command = ["quantize", str(plain), "--calibration", "x.npy", "-o", "y.tflite"]
        assert main(command) == 1
    printed = capsys.readouterr()
    assert "y.refused.tflite, " in printed.out
    line = "celosia: y.refused.tflite: quantised, and Celosia cannot run it: "
    assert printed.err.startswith(line) and printed.err.count("\n") == 1
    assert (here / "y.refused.tflite").read_bytes() == plain.read_bytes()
    assert (here / "y.tflite").read_bytes() == b"the one before"


def test_a_folder_for_each_class_has_labels(here: Path, plain: Path, capsys) -> None:
    options = "--calibration pictures --pixels=0:1 -o y.tflite --limit 4"
    assert main(["quantize", str(plain), *options.split()]) == 0
    printed = capsys.readouterr().out
    assert "calibrated with          4 samples" in printed
    assert "% of 6 samples" in printed and "LiteRT's fast kernels" in printed
    assert main("eval y.tflite --data pictures --pixels=0:1 --preset nano".split()) == 0
    assert "of 6 samples" in capsys.readouterr().out


def test_the_names_of_the_float_network_are_those_of_the_quantised(here, plain, capsys) -> None:
    with Converter(plain) as converter:
        (name,) = (port.name for port in converter.ports)
    np.savez("cal.npz", **{name: np.load("x.npy")})
    assert main(["quantize", str(plain), "--calibration", "cal.npz", "-o", "y.tflite"]) == 0
    options = "--output y.npy --device machine --preset nano"
    assert main(f"run y.tflite --input cal.npz {options}".split()) == 0
    assert main(f"run y.tflite --input {name}=x.npy {options}".split()) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--calibration gone.npy", "gone.npy: no such file"),
        ("--calibration x=gone.npy", "gone.npy: no such file"),
        ("--calibration empty", "empty: wanted pictures"),
        ("--calibration classes", "cat: wanted pictures"),
        ("--calibration x.npy --labels gone.npy", "gone.npy: no such file"),
        ("--calibration x.npy --labels bad.npy", "bad.npy: not an .npy file"),
        ("--calibration x.npy --test x.npy", "--test: wanted --labels for it"),
    ],
)
def test_data_is_looked_for_before_the_conversion(
    options, message, here: Path, plain: Path, refused, monkeypatch
) -> None:
    monkeypatch.setattr(quantize, "Converter", lambda *_: pytest.fail("converted"))
    for folder in ("empty", "classes/cat"):
        (here / folder).mkdir(parents=True)
    (here / "bad.npy").touch()
    assert message in refused(f"quantize {shlex.quote(str(plain))} -o y.tflite {options}")


def _keras(message: str) -> Any:
    def load_model(*_: Any, **__: Any) -> None:
        raise TypeError(message)

    return SimpleNamespace(models=SimpleNamespace(load_model=load_model), __version__="3.15.0")


def test_files_of_keras_2_are_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "keras", _keras("Could not deserialize; config={...}"))
    for version, error in (("2.15.0", QuantizeError), ("3.4.0", TypeError)):
        with zipfile.ZipFile(tmp_path / "a.keras", "w") as archive:
            archive.writestr("metadata.json", f'{{"keras_version": "{version}"}}')
        with pytest.raises(error) as caught:
            tensorflow.open_keras(tmp_path / "a.keras")
        is_old = "saved by Keras 2.15.0, which Keras 3.15.0 does not read" in str(caught.value)
        assert is_old is (error is QuantizeError)
        assert ("tf-keras" in str(caught.value)) is is_old


def test_code_outside_a_keras_file_is_named(tmp_path: Path, monkeypatch) -> None:
    for message in ("Could not locate class 'P'. Make sure", "a `Lambda` layer whose `function`"):
        cause = TypeError(message)

        def load_model(*_: Any, cause: Exception = cause, **__: Any) -> None:
            raise TypeError("could not be deserialized") from cause

        loader = SimpleNamespace(models=SimpleNamespace(load_model=load_model))
        monkeypatch.setitem(sys.modules, "keras", loader)
        with pytest.raises(QuantizeError, match=r'model\.export\("folder"\)'):
            tensorflow.open_keras(tmp_path / "a.keras")


@pytest.mark.parametrize("name", ["out put", "ß", "-a", ""])
def test_names_that_tensorflow_does_not_take(name: str) -> None:
    layers = [SimpleNamespace(name=name) for name in ("dense_1", name)]
    with pytest.raises(QuantizeError, match=f"layer '{name}': wanted a name of letters"):
        tensorflow.of_keras(SimpleNamespace(layers=layers))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("failed to lower tensor list ops", "recurrent layers want unroll=True"),
        (
            "error: loc(fused): 'tf.MaxPool3D' op\nDetails:\n"
            "\ttf.Conv2D(tensor<?x8xf16>, tensor<8xf16>) -> (tensor<?xf16>) : {}\n"
            "\ttf.MaxPool3D(tensor<?x4xf32>) -> (tensor<?x2xf32>) : {}\n"
            "\ttf.MaxPool3D(tensor<?x9xf32>) -> (tensor<?x5xf32>) : {}\n",
            "TensorFlow Lite has no Conv2D of float16, MaxPool3D",
        ),
    ],
)
def test_reasons_of_the_converter(text: str, reason: str) -> None:
    def convert() -> None:
        raise RuntimeError(text)

    with pytest.raises(QuantizeError, match=f"converter refuses it: {reason}$"):
        tensorflow._converted(SimpleNamespace(convert=convert))


def test_errors_of_frameworks_are_short() -> None:
    def fail() -> None:
        raise TypeError(f"cannot read it: config={'x' * 9999}\nmore")

    found = process._plainly("open", fail, ())
    assert isinstance(found, QuantizeError)
    assert str(found).startswith("cannot open it: cannot read it: config=xxx")
    assert len(str(found)) < 300 and str(found).endswith("x ...")


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0, 0), (0, 4, 2), (1, 0, 0), (1, 4, 0)])
def test_all_samples_of_all_inputs_must_be_finite(place, number, monkeypatch) -> None:
    converter = Converter.__new__(Converter)
    converter.ports = [port(name, (1, 3), "float32") for name in ("one", "other")]
    monkeypatch.setattr(converter, "_call", lambda *_: b"quantised")
    arrays = np.zeros((2, 5, 3), np.float32)
    assert converter.quantized([*arrays]) == b"quantised"
    arrays[place] = number
    name = converter.ports[place[0]].name
    with pytest.raises(InputError, match=f"^input '{name}': wanted finite numbers, got others$"):
        converter.quantized([*arrays])
