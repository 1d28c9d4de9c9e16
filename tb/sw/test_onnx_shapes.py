"""Free extents of ONNX inputs: ``--shape`` fixes them."""

import re
from pathlib import Path

import numpy as np
import pytest
from onnx_graphs import Net, reference

import celosia
from celosia.sw.cli import main
from celosia.sw.frontend.source import load
from celosia.sw.layers.node import ModelError
from celosia.sw.quantize.model import QuantizeError
from celosia.sw.quantize.onnx import open_model

FREE = ("N", 3, "H", "W")


def _network() -> bytes:
    net = Net(x=FREE)
    x = net.quantized("x")
    x = net.quantized(net.add("Conv", x, net.weights(4, 3, 3, 3), pads=[1] * 4), 0.0771)
    return net.content(net.add("Flatten", net.add("GlobalMaxPool", x)))


def test_extents_are_those_of_the_shape():
    graph = load(_network(), {"x": (1, 3, 6, 9)})
    assert graph.tensors[graph.inputs[0]].shape == (1, 3, 6, 9)
    assert load(_network(), {"": (1, 3, 6, 9)}).tensors[graph.inputs[0]].shape == (1, 3, 6, 9)


REFUSALS = {
    r"wanted fixed extents but the first; --shape .* got \[1, 3, H, W\]": {},
    r"wanted one of the inputs x, got y": {"y": (1, 3, 6, 6)},
    r"--shape of input 'x': wanted \[N, 3, H, W\], got \[1, 4, 6, 6\]": {"x": (1, 4, 6, 6)},
    r"--shape of input 'x': wanted \[N, 3, H, W\], got \[6, 6\]": {"": (6, 6)},
}


@pytest.mark.parametrize("message", REFUSALS)
def test_refusals(message):
    with pytest.raises(ModelError, match=message) as caught:
        load(_network(), REFUSALS[message])
    assert "\n" not in str(caught.value)


def test_free_extents_without_names_are_not_the_batch():
    net = Net(x=(None, 3, None, 4))
    with pytest.raises(ModelError, match=r"got \[1, 3, \?, 4\]"):
        load(net.content(net.quantized("x")))


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").write_bytes(_network())
    x = np.random.default_rng(1).normal(size=(3, 3, 6, 5)).astype(np.float32)
    np.save("x.npy", x)
    files = ["--input", "x.npy", "--output", "y.npy", "--device", "machine"]
    assert main(["run", "net.onnx", *files]) != 0
    assert "--shape NAME=1,3,224,224" in capsys.readouterr().err
    assert main(["run", "net.onnx", *files, "--shape", "1,3,6,5"]) == 0
    wanted = reference(_network()).run(None, {"x": x})[0]
    np.testing.assert_array_equal(np.load("y.npy"), wanted)
    assert main(["report", "net.onnx", "--shape", "x=1,3,6,5"]) == 0
    assert main(["profile", "net.onnx", "--json", "p.json", "--shape", "x=1,3,6,5"]) == 0
    assert main(["compile", "net.onnx", "-o", "net.bin", "--shape", "x=1,3,6,5"]) == 0
    assert main(["run", "net.bin", *files, "--shape", "1,3,6,5"]) != 0
    assert "wanted no shape for a program" in capsys.readouterr().err
    assert main(["report", "mnist_mlp", "--shape", "1,3,6,5"]) != 0
    assert "wanted an .onnx file for --shape" in capsys.readouterr().err


def test_samples_of_several_inputs(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """As many of each, before the quantiser has a part."""
    net = Net(x=(1, 3), z=(1, 4))
    (tmp_path / "net.onnx").write_bytes(net.content(net.add("Concat", "x", "z", axis=1)))
    x, z = np.zeros((6, 3), np.float32), np.zeros((2, 4), np.float32)
    np.savez(tmp_path / "x.npz", x=x, z=z)
    files = [f"--calibration={tmp_path}/x.npz", "-o", f"{tmp_path}/q.onnx"]
    assert main(["quantize", f"{tmp_path}/net.onnx", *files]) == 2
    message = "wanted as many samples of each input, got [6, 2]"
    assert capsys.readouterr().err.endswith(f"{message}\n")
    with pytest.raises(ValueError, match=re.escape(message)):
        celosia.quantize(tmp_path / "net.onnx", {"x": x, "z": z})


def test_python() -> None:
    """Of ``InferenceSession`` and ``Interpreter``, ``compile`` and ``profile``."""
    content, shapes = _network(), {"x": (1, 3, 6, 5)}
    x = np.random.default_rng(1).normal(size=(3, 3, 6, 5)).astype(np.float32)
    with celosia.InferenceSession(content, shapes=shapes, batch=2) as session:
        (y,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(y, reference(content).run(None, {"x": x})[0])
    interpreter = celosia.Interpreter(model_content=content, shapes={"": (1, 3, 6, 5)})
    interpreter.resize_tensor_input(0, (3, 3, 6, 5))
    interpreter.allocate_tensors()
    assert interpreter.get_output_details()[0]["shape"].tolist() == [3, 4]
    program = celosia.compile(content, shapes=shapes)
    assert celosia.profile(content, shapes=shapes).program.memory_bytes == program.memory_bytes
    with pytest.raises(ValueError, match="wanted no shape for a program"):
        celosia.InferenceSession(program.to_bytes(), shapes=shapes)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (("N", 3, 6, 5), ""),
        ((1, 3, 6, 5), ""),
        ((None, 3, 6, 5), ""),
        (FREE, r"or a free first axis alone, got \[0, 3, 0, 0\]; .* with --shape"),
        ((1, 3, None, 5), r"or a free first axis alone, got \[1, 3, 0, 5\]; .* with --shape"),
        ((2, 3, 6, 5), r"got \[2, 3, 6, 5\]; export it again with a batch of 1"),
    ],
)
def test_extents_of_networks_to_quantise(shape, message, tmp_path: Path):
    net = Net(x=shape)
    path = tmp_path / "net.onnx"
    path.write_bytes(net.content(net.add("Relu", "x")))
    if not message:
        (port,) = open_model(path).ports
        assert port.shape == (3, 6, 5)
        return
    with pytest.raises(QuantizeError, match=f"^input 'x': wanted .*{message}"):
        open_model(path)


def test_quantize(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    net = Net(x=FREE)
    weights = net.constant(np.random.default_rng(1).normal(size=(4, 3, 3, 3)).astype(np.float32))
    Path("net.onnx").write_bytes(net.content(net.add("Conv", "x", weights)))
    np.save("x.npy", np.random.default_rng(1).normal(size=(3, 3, 6, 5)).astype(np.float32))
    arguments = ["quantize", "net.onnx", "--calibration", "x.npy", "-o", "y.onnx"]
    assert main(arguments) != 0
    assert main([*arguments, "--shape", "1,3,6,5"]) == 0
    load("y.onnx")
