"""The package ``celosia`` itself: its names, what they cost, and how objects show themselves."""

import importlib
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from whole_networks.small import two_signatures

import celosia
from celosia.hw.arch.presets import PRESETS, preset
from celosia.hw.notebook import html_table
from celosia.sim.timing.cycles import estimate
from celosia.sw.cli import main
from celosia.sw.quantize.model import QuantizeError
from celosia.sw.runtime.arrays import InputError
from celosia.sw.shipped import ALIASES, model_path, shipped
from celosia.sw.training import state

_HEAVY = ("numpy", "amaranth", "tflite", "celosia.hw", "celosia.sim", "celosia.sw")


def test_import_alone_is_quick() -> None:
    text = f"import sys, celosia; print([name for name in {_HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_names() -> None:
    assert set(celosia.__all__) <= set(dir(celosia))
    for name in celosia.__all__:
        found = getattr(celosia, name)
        if name != "__version__":
            assert found is getattr(importlib.import_module(found.__module__), name)
    assert celosia.__version__[0].isdigit()
    with pytest.raises(AttributeError) as caught:
        getattr(celosia, "compi" + "el")
    assert str(caught.value) == "module 'celosia' has no attribute 'compiel'"
    # Of which Python makes "Did you mean: 'compile'?".
    assert (caught.value.name, caught.value.obj) == ("compiel", celosia)


def test_compile(mnist_model: Path) -> None:
    program = celosia.compile("mnist_mlp", config="nano", batch=3)
    assert (program.batch, program.config) == (3, PRESETS["nano"])
    for same in (str(mnist_model), mnist_model):
        assert celosia.compile(same, PRESETS["nano"], 3).to_bytes() == program.to_bytes()
    assert celosia.compile(mnist_model.read_bytes()).inputs[0].shape == (784,)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("mnist_z",), "mnist_z: no such file, and no model of the package (fashion_cnn, fashion"),
        (("gone.tflite",), "gone.tflite: no such file"),
        ((b"nonsense",), "not a .tflite file"),
        (("mnist_mlp", "tiny"), "wanted one of pico, nano, micro, edge, tpu_v1"),
        (("mnist_mlp", 3), "config: wanted a Config or the name of a preset, got 3"),
        (("mnist_mlp", None), "config: wanted a Config or the name of a preset, got None"),
        (("mnist_mlp", "edge", 5000), "wanted 1 to 4096, got 5000"),
        (("mnist_mlp", "edge", 1.5), "wanted 1 to 4096, got 1.5"),
    ],
)
def test_compile_refuses(arguments: tuple, says: str) -> None:
    with pytest.raises(ValueError) as caught:
        celosia.compile(*arguments)
    assert says in str(caught.value)


def test_models_by_name_in_sessions() -> None:
    x = np.zeros((2, 784), np.int8)
    with celosia.InferenceSession("mnist_mlp", config="nano") as session:
        (one,) = session.run(None, {session.get_inputs()[0].name: x})
    interpreter = celosia.Interpreter("mnist_mlp", config="nano")
    interpreter.resize_tensor_input(0, x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, x)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(1), one)
    for kind in (celosia.Interpreter, celosia.InferenceSession):
        with pytest.raises(ValueError, match="no model of the package .*mnist_mlp"):
            kind("mnist_z")


def test_programs_in_sessions(rng: np.random.Generator) -> None:
    """A program in memory runs as its file does."""
    program = celosia.compile("mnist_mlp", config="nano", batch=2)
    x = rng.integers(-128, 128, (3, 784)).astype(np.int8)
    results = []
    for source in (program, program.to_bytes()):
        with celosia.InferenceSession(source) as session:
            results.append(session.run(None, {session.get_inputs()[0].name: x})[0])
    np.testing.assert_array_equal(*results)
    interpreter = celosia.Interpreter(program)
    assert interpreter.get_signature_list() == {}
    interpreter.resize_tensor_input(0, x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, x)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(1), results[0])
    with pytest.raises(ValueError, match="program: wanted no signature for a program"):
        celosia.InferenceSession(program, signature="serving_default")


def test_quantize(plain: Path, tmp_path: Path, rng: np.random.Generator) -> None:
    x = rng.random((12, 24, 24, 3), np.float32)
    content = celosia.quantize(plain, x, tmp_path / "y.tflite")
    assert (tmp_path / "y.tflite").read_bytes() == content
    assert celosia.compile(content).inputs[0].dtype == "int8"


@pytest.mark.thorough
def test_quantize_from_a_script(plain: Path, tmp_path: Path) -> None:
    """A script without ``if __name__ == "__main__"`` is run once."""
    (tmp_path / "script.py").write_text(
        "import sys, celosia, numpy\nprint('started')\n"
        "x = numpy.random.default_rng(0).random((3, 24, 24, 3), numpy.float32)\n"
        "print(len(celosia.quantize(sys.argv[1], x)) > 1000)\n"
    )
    command = [sys.executable, str(tmp_path / "script.py"), str(plain)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("started\nTrue\n", 0)


@pytest.mark.parametrize(
    ("shape", "kind", "output", "says"),
    [
        ((3, 24, 24), "float32", None, r"wanted shape \[N, 24, 24, 3\], got \[3, 24, 24\]"),
        ((3, 24, 24, 3), "int32", None, "wanted float, got int32"),
        ((3, 24, 24, 3), "float32", "y.onnx", "wanted a name with .tflite, got 'y.onnx'"),
        ((3, 24, 24, 3), "float32", "gone/y.tflite", "no such directory as gone"),
    ],
)
def test_quantize_refuses(plain, shape, kind, output, says) -> None:
    with pytest.raises(ValueError, match=says):
        celosia.quantize(plain, np.zeros(shape, kind), output)


def test_quantize_refuses_samples_and_files(plain: Path) -> None:
    x = np.zeros((3, 24, 24, 3), np.float32)
    with pytest.raises(InputError, match=r"calibration: wanted \[.*\], got \['other'\]"):
        celosia.quantize(plain, {"other": x})
    with pytest.raises(InputError, match="wanted finite numbers"):
        celosia.quantize(plain, x + np.inf)
    with pytest.raises(QuantizeError, match="gone.keras: no such file"):
        celosia.quantize("gone.keras", x)


@pytest.mark.thorough
def test_page_for_python(root, plain, mnist_model, tmp_path, monkeypatch, capsys, rng) -> None:
    """The blocks of docs/how-to/python.md, in order."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(mnist_model, "net.tflite")
    shutil.copy(plain, "float.tflite")
    Path("two.tflite").write_bytes(two_signatures())
    np.save("x.npy", rng.integers(-128, 128, (6, 784), np.int8))
    np.save("samples.npy", rng.random((5, 24, 24, 3), np.float32))
    text = (root / "docs/how-to/python.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    exec(compile("".join(blocks), "python.md", "exec"), {})
    (output,) = re.findall(r"^```text\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert capsys.readouterr().out == output
    reference = (root / "docs/reference/python.md").read_text()
    assert all(f"`celosia.{name}" in reference for name in celosia.__all__)


class _Cells(HTMLParser):
    """Texts of the cells; every tag must be closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


def cells(shown: Any) -> list[str]:
    parser = _Cells()
    parser.feed(shown._repr_html_())
    parser.close()
    assert parser.open == []
    return parser.cells


def test_tables_are_escaped_and_short() -> None:
    shown = html_table("<b>", [["a & b", n] for n in range(1000, 1100)], ["<i>"])
    assert "<b>" not in shown and "<i>" not in shown and "a &amp; b" in shown
    assert shown.count("a &amp; b") == 24 and "… 76 more" in shown and "<td>1,023</td>" in shown


@pytest.mark.thorough
def test_objects_show_themselves() -> None:
    program = celosia.compile("mnist_mlp", config="nano", batch=3)
    assert repr(program) == (
        "<Program 'mnist_mlp.tflite' on nano, batch 3: 2 layers on the core, 0 operators on the "
        "host, 101,632 multiplications for each input>"
    )
    shown = cells(program)
    assert {"(N, 784)", "int8", "FULLY_CONNECTED", "100,352", "core"} <= set(shown)
    costs = estimate(program.main.code, program.config)
    assert repr(costs).startswith(f"<Estimate: {costs.total:,} cycles, ")
    assert f"{max(costs.busy.values()):,}" in cells(costs)
    assert {"rows", "4", "unified_bytes", "131,072"} <= set(cells(preset("nano")))
    interpreter = celosia.Interpreter("mnist_mlp", config="nano")
    named = "'mnist_mlp.tflite' on nano, device machine, batch"
    assert repr(interpreter) == f"<Interpreter {named} 1>"
    with celosia.InferenceSession("mnist_mlp", config="nano", batch=2) as session:
        assert repr(session) == f"<InferenceSession {named} 2>"
        assert cells(session)[1:] == cells(interpreter)[1:]
        session.run(None, {session.get_inputs()[0].name: np.zeros((3, 784), np.int8)})
        shown = "<Statistics of 'mnist_mlp.tflite': 3 inputs, cycles not counted>"
        assert repr(session.statistics) == shown
        assert {"inputs", "3", "304,896"} <= set(cells(session.statistics))


@pytest.mark.parametrize(("earlier", "name"), ALIASES.items())
def test_earlier_names_of_models(earlier: str, name: str, capsys) -> None:
    """Accepted wherever a name is, and listed nowhere."""
    assert earlier in shipped() and shipped()[earlier] is shipped()[name]
    assert earlier not in list(shipped()) and name in list(shipped())
    assert model_path(earlier) == model_path(name) == shipped()[name].path
    assert celosia.compile(earlier, "nano").to_bytes() == celosia.compile(name, "nano").to_bytes()
    assert shipped().get(earlier) == shipped().get(name)
    assert main(["models"]) == 0
    printed = capsys.readouterr().out.split()
    assert name in printed and earlier not in printed


def test_unknown_names_of_models() -> None:
    with pytest.raises(KeyError, match="mnist_z"):
        shipped()["mnist_z"]


def test_a_checkpoint_of_an_earlier_name(tmp_path: Path) -> None:
    settings = state.Settings(network="fashion_b", dataset="mnist", core="edge", batch=16)
    path = tmp_path / "x.npz"
    shapes = [(9, 64), (10816, 10)]
    initial = [np.zeros(shape, np.int32) for shape in shapes]
    state.save(path, state.State(weights=initial, step=3), settings)
    for name in ("fashion_b", "fashion_cnn"):
        current = replace(settings, network=model_path(name).stem)
        assert state.restore(path, current, shapes).step == 3
    with pytest.raises(InputError, match="wanted network fashion_cnn, got mnist_mlp"):
        state.restore(path, replace(settings, network="mnist_mlp"), shapes)
