"""The wheels: installed into an empty folder, they work outside the tree."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[1]


def pip(options: str, *places: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    made = [*command, *options.split(), "--no-index", *places]
    subprocess.run(made, check=True, capture_output=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the tree: setuptools writes into its sources."""
    pytest.importorskip("setuptools", minversion="77")
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("constraints", "hw", "sim", "sw"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    pip("wheel --no-deps --no-build-isolation", "-w", str(folder), str(folder))
    (found,) = folder.glob("celosia-*.whl")
    return found


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the examples."""
    pytest.importorskip("setuptools", minversion="77")
    folder = tmp_path_factory.mktemp("examples")
    ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=ignored)
    pip("wheel --no-deps --no-build-isolation", "-w", str(folder), str(folder / "examples"))
    (found,) = folder.glob("celosia_examples-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the wheel is installed into, beside none of the tree's packages."""
    folder = tmp_path_factory.mktemp("installed")
    pip("install --no-deps --no-compile", "--target", str(folder), str(wheel))
    return folder


def run(installed: Path | str, here: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the installed package in a folder."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )


def test_the_wheel_holds_the_package(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "celosia/__init__.py" in names and "celosia/py.typed" in names
    assert "celosia/sw/models/mnist_cnn_5x5.tflite" in names
    assert {"celosia/constraints/core.sdc", "celosia/constraints/ulx3s-85f.toml"} <= set(names)
    assert not [name for name in names if name.startswith(("celosia/sw/package", "tb/", "sw/"))]


def test_examples(
    installed: Path, examples: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    names = zipfile.ZipFile(examples).namelist()
    data = {"digits/static/index.html", "mlperf/page.html", "mlperf/published.toml"}
    assert {f"celosia_examples/{name}" for name in data} <= set(names)
    folder = tmp_path_factory.mktemp("with_examples")
    pip("install --no-deps --no-compile", "--target", str(folder), str(examples))
    where = f"{installed}{os.pathsep}{folder}"
    text = "import celosia_examples.language as found; print(found.__file__)"
    assert run(where, tmp_path, "-c", text).stdout.startswith(str(folder))
    program = str(installed / "bin" / "celosia")
    options = ("--prompt", "And God said, ", "--tokens", "2", "--temperature", "0")
    done = run(where, tmp_path, program, "generate", *options)
    assert done.returncode == 0 and done.stdout == "And God said, an\n", done.stderr


def test_python(installed: Path, tmp_path: Path) -> None:
    text = """
import celosia, numpy
print(celosia.__file__, celosia.__version__)
interpreter = celosia.Interpreter("mnist_mlp", config="nano")
interpreter.allocate_tensors()
interpreter.set_tensor(0, numpy.zeros((1, 784), numpy.int8))
interpreter.invoke()
print(interpreter.get_tensor(1).shape, celosia.compile("mnist_cnn_5x5").name)
"""
    done = run(installed, tmp_path, "-c", text)
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert first.split()[0] == str(installed / "celosia" / "__init__.py")
    assert second == "(1, 10) mnist_cnn_5x5.tflite"


def test_commands(installed: Path, tmp_path: Path) -> None:
    program = str(installed / "bin" / "celosia")
    np.save(tmp_path / "x.npy", np.zeros((2, 28, 28, 1), np.int8))
    options = ("--input", "x.npy", "--output", "y.npy", "--device", "machine")
    done = run(installed, tmp_path, program, "run", "mnist_cnn_5x5", *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert np.load(tmp_path / "y.npy").shape == (2, 10)
    done = run(installed, tmp_path, program, "run", "mnist_z", *options)
    assert done.returncode == 2
    assert "fashion_cnn, fashion_vit, kjv_text, mnist_cnn_3x3, mnist_cnn_5x5, " in done.stderr


def test_missing_packages_are_named(installed: Path, tmp_path: Path) -> None:
    """A wheel knows no folder to install extras from: their packages are named."""
    text = (
        "from celosia.hw.environment.extras import install_command; print(install_command('torch'))"
    )
    printed = run(installed, tmp_path, "-c", text).stdout
    assert (
        "celosia[" not in printed
        and "'torch>=2.6'" in printed
        and "'ai-edge-quantizer>=0.5'" in printed
    )
