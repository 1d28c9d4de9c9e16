"""Refusals: the one line that a command prints, by model and command."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import prerequisites
import pytest
from PIL import Image

from celosia.hw.arch import commands, isa
from celosia.sw.cli import main
from celosia.sw.ir.program import MAGIC
from celosia.sw.shipped import shipped

#: Commands, and below each what it prints.
REFUSALS = f"""
# float models
report net.tflite
    net.tflite: float model; quantise it: celosia quantize net.tflite --calibration DATA -o
    net_int8.tflite
run net.keras --input x.npy --output y.npy
    net.keras: Keras model in float; quantise it: celosia quantize net.keras --calibration DATA
    -o net_int8.tflite
compile net.h5 -o p
    net.h5: Keras model in float; quantise it: celosia quantize net.h5 --calibration DATA -o
    net_int8.tflite
report renamed.bin
    renamed.bin: Keras model in float; quantise it: celosia quantize renamed.bin --calibration
    DATA -o renamed_int8.tflite
report net.onnx
    net.onnx: ONNX model in float; quantise it: celosia quantize net.onnx --calibration DATA -o
    net_int8.onnx
compile net.pt2 -o p
    net.pt2: exported PyTorch program in float; quantise it: celosia quantize net.pt2
    --calibration DATA -o net_int8.tflite
eval net.pth --dataset mnist
    net.pth: PyTorch weights without a program; save torch.export.export(...) as net.pt2, then
    celosia quantize net.pt2 --calibration DATA -o net_int8.tflite
report saved
    saved: TensorFlow SavedModel in float; quantise it: celosia quantize saved --calibration
    DATA -o saved_int8.tflite
report net.s
    net.s: assembly; translate it: celosia assemble net.s -o net.bin
eval mnist.prog --dataset mnist
    mnist.prog: a program; wanted the model that it was compiled from (celosia run takes
    programs)
report .
    .: wanted a model file, got a directory without a saved_model.pb
report mnist_b
    mnist_b: no such file, and no model of the package ({", ".join(shipped())})
# files
report sparse.tflite
    sparse.tflite: wanted at most 2048 MiB, the file is larger
report {"x" * 300}
    {"x" * 300}: File name too long
run sparse.prog --input x.npy --output y.npy
    sparse.prog: wanted at most 2048 MiB, the file is larger
report /dev/zero
    /dev/zero: wanted a file, got a device
run mnist_cnn_5x5 --input sparse.npy --output y.npy
    sparse.npy: wanted at most 2048 MiB, the file is larger
run mnist_cnn_5x5 --input bomb.npz --output y.npy
    bomb.npz: wanted at most 2048 MiB of arrays
run mnist_cnn_5x5 --input x.npy --output y.npy --batch 1000000
    run: argument --batch: wanted 1 to 4096 inputs of one run, got 1000000; more run one after
    another
# layouts
run mnist_cnn_5x5 --input nchw.npy --output y.npy
    nchw.npy: input 'image': wanted shape [N, 28, 28, 1], got [2, 1, 28, 28], the same axes in
    another order (numpy.transpose)
run mnist_cnn_5x5 --input flat.npy --output y.npy
    flat.npy: input 'image': wanted shape [N, 28, 28, 1], got [2, 784] (add --flat)
run mnist_mlp --input x.npy --output y.npy
    x.npy: input 'image': wanted shape [N, 784], got [2, 28, 28, 1] (add --flat)
run mnist_cnn_5x5 --input bytes.npy --output y.npy
    bytes.npy: input 'image': wanted int8 or float, got uint8 (add --pixels)
run mnist_cnn_5x5 --input bytes.npy --output y.npy --pixels=1
    run: argument --pixels: wanted LOW:HIGH, for instance -1:1, got '1'
run mnist_cnn_5x5 --input large.png --output y.npy
    large.png: wanted 28x28 pixels, got 40x30 (add --resize)
run mnist_cnn_5x5 --input deep.png --output y.npy
    deep.png: wanted 8 bits a channel, got I;16
run mnist_cnn_5x5 --input cut.png --output y.npy
    cut.png: not a picture, or a damaged one
run mnist_cnn_5x5 --input saved --output y.npy
    saved: wanted pictures (.bmp, .jpeg, .jpg, .png), found none
# names
run two.tflite --input x.npy --output y.npz
    two.tflite: --input x.npy: wanted NAME=FILE with NAME of 'left', 'right', or one .npz
run two.tflite --input left=x.npy --output y.npz
    two.tflite: --input: wanted 'left', 'right', got none for 'right'
run two.tflite --input right=x.npy --input right=x.npy --output y.npz
    two.tflite: --input right=x.npy: 'right' is given twice
run two.tflite --input other.npz --output y.npz
    other.npz: wanted arrays 'left', 'right', got 'left', 'up'
run two.tflite --input both.npz --output y.npy
    two.tflite: --output y.npy: wanted NAME=FILE with NAME of 'sum', 'model/b/top', or one .npz
run two.tflite --input both.npz --output up=y.npy
    two.tflite: --output up=y.npy: wanted NAME=FILE with NAME of 'sum', 'model/b/top', or one
    .npz
run mnist_cnn_5x5 --input x.npy --output x.npy
    x.npy: named twice, or an input
run mnist_cnn_5x5 --input x.npy --output y.csv
    y.csv: wanted a name with .npy, or one .npz for all outputs
run two.tflite --input both.npz --output sum=y.npz
    y.npz: wanted a name with .npy, or one .npz for all outputs
run two.tflite --input odd.npz --output y.npz
    wanted the same number of each input, got [2, 3]
# data
eval mnist_cnn_5x5 --data bytes.npy --labels labels.npy
    bytes.npy: input 'image': wanted int8 or float, got uint8 (add --pixels)
eval mnist_cnn_5x5 --data bytes.npy
    --data: wanted --labels, or a folder with a folder for each class
eval mnist_cnn_5x5 --data bytes.npy --labels x.npy
    --labels: x.npy: wanted whole numbers of shape [2], or one-hot rows, got float32 of shape [2, 28, 28, 1]
eval mnist_cnn_5x5 --data bytes.npy --labels many.npy
    mnist_cnn_5x5.tflite: bytes.npy: wanted labels of 0 to 9, got 3 to 10
eval mnist_cnn_5x5 --data classes
    mnist_cnn_5x5.tflite: output 'Identity': wanted 2 numbers, one for each class of classes, got 10
eval two.tflite --data both.npz --labels labels.npy
    two.tflite: wanted --output with one of sum, model/b/top
eval mnist_cnn_5x5 --dataset mnist --pixels
    --pixels: wanted --data for it, got --dataset
# bare instructions
run four.bin --input x.npy --output y.npy
    four.bin: bare instructions have no --input (--memory ADDRESS=FILE, --dump
    ADDRESS:BYTES=FILE)
run four.bin --memory x.npy
    --memory x.npy: wanted ADDRESS=FILE, for instance 0x100=x.npy
run four.bin --memory 0=x.npy --memory 8=x.npy
    --memory: x.npy and x.npy overlap at 0x8
run four.bin --dump 0xfffffff0:17=y.npy
    --dump 0xfffffff0:17=y.npy: wanted 1 or more bytes below 4 GiB, got 17
run four.bin --dump 0:4=gone/y.npy
    gone/y.npy: no such directory as gone
run gone.bin --dump 0:4=y.npy
    gone.bin: no such file
run odd.bin --dump 0:4=y.npy
    odd.bin: program: wanted a multiple of 4 bytes, got 5
run two.tflite --dump 0:4=y.npy
    two.tflite: --memory and --dump are for bare instructions
run two.tflite --input both.npz --output y.npz --workers 2 --device litex:sim
    --workers: wanted machine or rtl as device, got litex:sim
disassemble empty.celosia
    empty.celosia: wanted an instruction, got none
run empty.celosia --input x.npy --output y.npy
    empty.celosia: not a program, or a damaged one
fuzz --replay gone.fuzz
    gone.fuzz: no such file
fuzz --replay cut.png
    cut.png: not a text file
# options without effect
run mnist_cnn_5x5 --input x.npy --output y.npy --latency 3
    --latency: wanted the device rtl, got machine
eval mnist_mlp --dataset mnist --limit 1 --bandwidth 0.5
    --bandwidth: wanted the device rtl, got machine
run mnist_cnn_5x5 --input x.npy --output y.npy --pixels -1:1
    --pixels: wanted pictures or uint8, got neither
run mnist_cnn_5x5 --input x.npy --output y.npy --resize
    --resize: wanted pictures, got none
networks mnist_mlp --seed -1
    networks: argument --seed: wanted a whole number of at least 0, got '-1'
"""
ROWS = re.findall(r"^(\w.*)\n((?: .*\n)+)", REFUSALS, flags=re.M)


def _float_onnx() -> bytes:
    """Return an ONNX model in float."""
    onnx = prerequisites.package("onnx")
    ends = [onnx.helper.make_tensor_value_info(name, 1, [1]) for name in "xy"]
    nodes = [onnx.helper.make_node("Relu", ["x"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "net", ends[:1], ends[1:])
    return onnx.helper.make_model(graph).SerializeToString()


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_ended: Callable[..., bytes]) -> None:
    """A folder with models and data of every kind."""
    monkeypatch.chdir(tmp_path)
    Path("two.tflite").write_bytes(two_ended())
    Path("net.tflite").write_bytes(two_ended("float32"))
    for name in ("net.keras", "net.h5", "net.onnx", "net.pt2", "net.pth", "net.s"):
        Path(name).write_bytes(b"some float model, none of an int8 one")
    Path("net.onnx").write_bytes(_float_onnx())
    Path("renamed.bin").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    Path("saved").mkdir()
    Path("saved/saved_model.pb").touch()
    for name in ("sparse.tflite", "sparse.prog", "sparse.npy"):
        with Path(name).open("wb") as file:
            file.truncate(8 << 30)
    four = commands.encode(isa.assemble("HALT\n"))
    Path("mnist.prog").write_bytes(MAGIC + bytes(100))
    Path("four.bin").write_bytes(four)
    Path("odd.bin").write_bytes(four + b"\0")
    Path("empty.celosia").touch()
    arrays()
    pictures()


def arrays() -> None:
    x = np.zeros((2, 28, 28, 1), np.float32)
    np.save("x.npy", x)
    np.save("nchw.npy", x.transpose(0, 3, 1, 2))
    np.save("flat.npy", x.reshape(2, 784))
    np.save("bytes.npy", x[..., 0].astype(np.uint8))
    np.save("labels.npy", np.array([3, 1]))
    np.save("many.npy", np.array([3, 10]))
    small = np.zeros((2, 2, 3), np.int8)
    np.savez("both.npz", left=small, right=small)
    np.savez("other.npz", left=small, up=small)
    np.savez("odd.npz", left=small, right=np.zeros((3, 2, 3), np.int8))
    np.savez_compressed("bomb.npz", x=np.zeros(8, np.int8))
    content = bytearray(Path("bomb.npz").read_bytes())
    # The central directory claims four gigabytes.
    place = content.index(b"PK\1\2") + 24
    content[place : place + 4] = b"\xf0\xff\xff\xff"
    Path("bomb.npz").write_bytes(content)


def pictures() -> None:
    Image.fromarray(np.zeros((30, 40), np.uint8)).save("large.png")
    Image.fromarray(np.zeros((28, 28), np.uint16)).save("deep.png")
    Path("cut.png").write_bytes(Path("large.png").read_bytes()[:40])
    for name in ("ant", "bee"):
        Path(f"classes/{name}").mkdir(parents=True)
        Path(f"classes/{name}/1.png").write_bytes(Path("large.png").read_bytes())


@pytest.mark.parametrize(("command", "line"), ROWS, ids=[command for command, _ in ROWS])
def test_refusal(tmp_path, capsys, command, line) -> None:
    before = sorted(tmp_path.rglob("*"))
    runs = command.startswith(("run", "eval")) and "--device" not in command
    device = " --device machine" if runs else ""
    try:
        code = main([*command.split(), *device.split()])
    except SystemExit as stop:
        code = stop.code
    printed = capsys.readouterr()
    assert (code, printed.err, printed.out) == (2, f"celosia: {' '.join(line.split())}\n", "")
    assert sorted(tmp_path.rglob("*")) == before
