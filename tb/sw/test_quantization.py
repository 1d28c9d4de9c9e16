"""``celosia quantize``: messages, and the formats whose tools are small."""

import os
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import prerequisites
import pytest

from celosia.hw.arch.presets import preset
from celosia.hw.environment.extras import install_command
from celosia.sw import data
from celosia.sw.cli import main, quantize
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.quantize import sources, tensorflow
from celosia.sw.quantize.model import QuantizeError, port
from celosia.sw.quantize.process import Converter
from celosia.sw.runtime.interpreter import open_session

SHAPE = (24, 24, 3)


@pytest.fixture(scope="module")
def opened(plain: Path) -> Iterator[Converter]:
    """The converter of the float network, open for all tests that only have it refuse."""
    with Converter(plain) as converter:
        yield converter


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that commands run in, with arrays."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    x = rng.random((12, *SHAPE), np.float32)
    arrays = {
        "x": x,
        "first": x.transpose(0, 3, 1, 2),
        "flat": x.reshape(12, -1),
        "nan": np.where(x > 0.99, np.nan, x),
        "bytes": (255 * x).astype(np.uint8),
        "empty": x[:0],
        "labels": rng.integers(0, 5, 12),
        "many": np.full(12, 5),
        "short": np.zeros(11, np.int64),
    }
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    return tmp_path


def figures(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    return {line[:24].strip(): line[25:] for line in capsys.readouterr().out.splitlines()}


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no.keras", "no.keras: no such file"),
        ("n.pt", "n.pt: wanted a program of torch.export, got another file of PyTorch; torch.ex"),
        ("x.npy", "x.npy: wanted a folder with a saved_model.pb, or one of .keras"),
        (".", "wanted a folder with a saved_model.pb"),
        ("bad.tflite", "bad.tflite: not a .tflite file"),
        ("{} -o y.onnx", "y.onnx: wanted a name with .tflite"),
        ("{} -o no/y.tflite", "no such directory as no"),
        ("{} --calibration .", ".: wanted pictures"),
        ("{} --calibration first.npy", "wanted shape [N, 24, 24, 3], got [12, 3, 24, 24]"),
        ("{} --calibration flat.npy", "got [12, 1728]"),
        ("{} --calibration empty.npy", "empty.npy: wanted one or more samples, got none"),
        ("{} --calibration nan.npy", "wanted finite numbers"),
        ("{} --calibration bytes.npy", "--pixels=LOW:HIGH"),
        ("{} --calibration mnist", "wanted 28x28 pixels, got [24, 24, 3]"),
        ("{} --calibration mnist --labels labels.npy", "no --labels"),
        ("{} --labels short.npy", "shape [12], or one-hot rows, got int64 of shape [11]"),
        ("{} --test first.npy --labels labels.npy", "wanted shape [N, 24, 24, 3]"),
        ("{} --test no.npy --labels labels.npy", "no.npy: no such file"),
        (
            "{} --test short.npy --labels labels.npy",
            "shape [11], or one-hot rows, got int64 of shape [12]",
        ),
        ("{} --labels many.npy", "wanted 0 to 4, as the network gives 5 scores, got 5 to 5"),
    ],
)
def test_refused(command, message, here, plain, opened, refused, monkeypatch) -> None:
    def converter(path: Path, *shapes: Any) -> AbstractContextManager[Converter]:
        return nullcontext(opened) if path == plain else Converter(path, *shapes)

    monkeypatch.setattr(quantize, "Converter", converter)
    images = np.zeros((3, 28, 28), np.uint8)
    monkeypatch.setattr(data, "find", lambda *_: data.Half(images, images[:, 0, 0]))
    (here / "n.pt").touch()
    (here / "bad.tflite").write_bytes(b"nothing of the kind")
    words = [word.format(plain) for word in command.split()]
    for option, usual in (("--calibration", "x.npy"), ("-o", "y.tflite")):
        if option not in words:
            words += [option, usual]
    assert message in refused(shlex.join(["quantize", *words]))


@pytest.mark.parametrize("source", sources.SOURCES, ids=lambda source: source.kind)
def test_missing_tools_are_named_with_a_command(source, here, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sources, "find_spec", lambda name: None)
    model = here / f"model{(*source.endings, '')[0]}"
    if source.endings:
        model.touch()
    else:
        model.mkdir()
        (model / "saved_model.pb").touch()
    assert main(["quantize", str(model), "--calibration", "x.npy", "-o", "y"]) == 1
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1 and source.modules[-1] in printed
    assert install_command(source.extra) in printed


def test_every_extra_exists(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert {source.extra for source in sources.SOURCES} <= set(project["optional-dependencies"])


@pytest.mark.thorough
def test_float_tflite_becomes_int8(here, plain, capsys) -> None:
    command = ["quantize", str(plain), "--calibration", "x.npy", "--labels", "labels.npy"]
    assert main([*command, "-o", "y.tflite"]) == 0
    found = figures(capsys)
    assert found["calibrated with"] == "12 samples" and "note" in found
    assert found["float accuracy"].endswith("% of 12 samples")
    assert found["int8 accuracy"].endswith("points lost")
    assert "not for Celosia" not in found
    x = np.load("x.npy")
    with open_session(compile_graph(load(here / "y.tflite"), preset("edge"))) as session:
        (y,) = session.run([(x * 255 - 128).round().astype(np.int8)])
    with Converter(plain) as converter:
        floats = converter.outputs(None, [x])
        content = (here / "y.tflite").read_bytes()
        assert np.mean(converter.outputs(content, [x]).argmax(1) == y.argmax(1)) >= 0.9
    assert np.abs((y + 128.0) / 256 - floats).max() < 0.05


def test_accuracy_on_a_test_set(here: Path, plain: Path, capsys) -> None:
    x = np.load("x.npy")
    with Converter(plain) as converter:
        right = converter.outputs(None, [x[4:]]).argmax(1)
    np.save("test.npy", x[4:])
    np.save("right.npy", right)
    command = ["quantize", str(plain), "--calibration", "x.npy", "--limit", "4", "-o", "y.tflite"]
    assert main([*command, "--test", "test.npy", "--labels", "right.npy"]) == 0
    found = figures(capsys)
    assert found["calibrated with"] == "4 samples" and "note" not in found
    assert found["float accuracy"] == "100.00 % of 8 samples"


def test_a_change_of_the_accuracy_is_a_gain_or_a_loss() -> None:
    changes = {0.5: "0.50 points gained", -0.5: "0.50 points lost", 0.001: "0.00 points lost"}
    assert {points: quantize._change(points) for points in changes} == changes


@pytest.mark.thorough
def test_pixels_and_folders_give_the_same_ranges(here, plain, monkeypatch) -> None:
    from PIL import Image

    (here / "pictures").mkdir()
    for place, pixels in enumerate(np.load("bytes.npy")):
        Image.fromarray(pixels).save(here / "pictures" / f"{place:02}.png")
    for name in ("bytes.npy", "pictures"):
        words = ["--calibration", name, "--pixels=0:1", "-o", f"{name}.tflite", "--limit", "10"]
        assert main(["quantize", str(plain), *words]) == 0
    one, other = ((here / f"{name}.tflite").read_bytes() for name in ("bytes.npy", "pictures"))
    assert one == other


def test_a_file_without_a_signature(here: Path, plain: Path) -> None:
    schema: Any = prerequisites.package("ai_edge_litert.schema_py_generated")
    flatbuffers: Any = prerequisites.package("flatbuffers")
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(plain.read_bytes(), 0))
    model.signatureDefs = []
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), b"TFL3")
    (here / "old.tflite").write_bytes(bytes(builder.Output()))
    x = np.load("x.npy")
    with Converter(here / "old.tflite") as old, Converter(plain) as new:
        assert [each.name for each in old.ports] == ["input_0"]
        np.testing.assert_array_equal(old.outputs(None, [x]), new.outputs(None, [x]))
        compile_graph(load(old.quantized([x])), preset("edge"))


def test_an_int8_file_is_refused(here: Path, plain: Path, mnist_model: Path) -> None:
    with pytest.raises(QuantizeError, match="wanted a float network, got inputs of int8"):
        Converter(mnist_model)


def test_files_of_the_folder_are_no_modules(here: Path, plain: Path) -> None:
    """A file ``numpy.py`` beside the network does not get into the converter."""
    (here / "numpy.py").write_text("raise SystemExit(7)\n")
    with Converter(plain) as converter:
        assert converter.ports[0].shape == SHAPE


def test_a_converter_that_crashes_is_one_line(here: Path, plain: Path) -> None:
    with Converter(plain) as converter, pytest.raises(QuantizeError) as caught:
        converter._call("quantise", os._exit, 3)
    assert str(caught.value) == f"{plain}: cannot quantise it: the converter crashed (exit code 3)"


@pytest.mark.thorough
def test_children_end_with_their_parent(here: Path, plain: Path) -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\n"
        "from celosia.sw.quantize.process import Converter\n"
        "converter = Converter(Path(sys.argv[1]))\n"
        "print(converter._call('run', os.getpid), flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    (here / "parent.py").write_text(code)
    command = [sys.executable, "parent.py", str(plain)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    child = int(ended.stdout)
    for _ in range(100):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("the child is still there")


@pytest.mark.parametrize(
    ("shape", "message"),
    [((2, 4), "with a batch of 1"), ((1, 0, 3), "with fixed extents"), ((-1, -1), "fixed extents")],
)
def test_batches_are_one_and_extents_fixed(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(QuantizeError, match=message):
        port("x", shape, "float32")
    assert port("x", (-1, 3, 4), "float32").shape == (3, 4)


def test_inputs_of_keras_are_checked_before_the_conversion(monkeypatch) -> None:
    """A network whose images have any size, as in ``keras.applications`` without a shape."""
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    part = SimpleNamespace(name="x", shape=(None, None, None, 3), dtype="float32")
    with pytest.raises(QuantizeError, match=r"got \[-1, -1, -1, 3\]; .* fixed extents$"):
        tensorflow.of_keras(SimpleNamespace(inputs=[part]))
    part.shape = (None, 8, 8, 3)
    with pytest.raises(ModuleNotFoundError):
        tensorflow.of_keras(SimpleNamespace(inputs=[part]))


@pytest.mark.thorough
def test_float_onnx_becomes_int8(here: Path) -> None:
    onnx: Any = prerequisites.package("onnx")
    prerequisites.package("onnxruntime")
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    rng = np.random.default_rng(2)
    weights = {"w": (4, 3, 3, 3), "v": (5, 4)}
    constants = [
        numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(np.float32), name)
        for name, shape in weights.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("GlobalAveragePool", ["b"], ["c"]),
        helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("Gemm", ["d", "v"], ["y"], transB=1),
    ]
    kind = onnx.TensorProto.FLOAT
    ends = (
        [helper.make_tensor_value_info("x", kind, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("y", kind, ["n", 5])],
    )
    graph = helper.make_graph(nodes, "net", *ends, constants)
    # The older file has its constants among the inputs, too.
    ends = [helper.make_tensor_value_info(w.name, w.data_type, w.dims) for w in constants]
    for opset, version, more in ((8, 3, ends), (17, 8, [])):
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        made.ir_version = version
        made.graph.input.extend(more)
        onnx.save(made, here / f"net{opset}.onnx")
    (here / "apart").mkdir()
    apart = here / "apart" / "net.onnx"
    onnx.save(made, apart, save_as_external_data=True, location="net.onnx.data", size_threshold=0)
    x = rng.random((20, 3, 8, 8), np.float32)
    np.save("x.npy", x)
    assert main(["quantize", "net8.onnx", "--calibration", "x.npy", "-o", "old.onnx"]) == 0
    assert main(["quantize", "net17.onnx", "--calibration", "x.npy", "-o", "y.onnx"]) == 0
    content = (here / "y.onnx").read_bytes()
    with Converter(here / "net17.onnx") as converter:
        floats, wanted = converter.outputs(None, [x]), converter.outputs(content, [x])
    with open_session(compile_graph(load(here / "y.onnx"), preset("edge"))) as session:
        (got,) = session.run([x])
    np.testing.assert_array_equal(got, wanted)
    assert np.abs(floats - wanted).max() < 0.05
    with Converter(apart) as converter:
        np.testing.assert_array_equal(converter.outputs(None, [x]), floats)
        assert len(converter.quantized([x])) == len(content)
    Path("apart/net.onnx.data").unlink()
    with pytest.raises(QuantizeError, match="net.onnx.data"):
        Converter(apart)
