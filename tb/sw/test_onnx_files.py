"""ONNX files with their weights in other files, and those in float16 and bfloat16."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_graphs import Net, helper, numbers, onnx, onnxruntime

from celosia.sw.cli import main
from celosia.sw.frontend.source import load
from celosia.sw.layers.node import ModelError
from celosia.sw.quantize.process import Converter
from celosia.sw.quantize.widened import widened

SHAPE = (1, 3, 6, 6)
BESIDE = {"save_as_external_data": True, "location": "net.data", "size_threshold": 0}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def quantised() -> Any:
    net = Net(x=SHAPE)
    y = net.add("Conv", net.quantized("x"), net.weights(4, 3, 3, 3))
    return net.proto(net.quantized(net.add("Relu", y), 0.03))


def test_weights_beside_a_quantised_file(here: Path) -> None:
    onnx.save(quantised(), here / "inside.onnx")
    onnx.save(quantised(), here / "net.onnx", **BESIDE)
    assert (here / "net.data").stat().st_size >= 4 * 3 * 9
    for name in ("inside", "net"):
        assert main(["compile", f"{name}.onnx", "-o", f"{name}.bin"]) == 0
    pairs = zip(load(here / "inside.onnx").tensors, load(here / "net.onnx").tensors, strict=True)
    for inside, beside in pairs:
        np.testing.assert_array_equal(inside.data, beside.data)


@pytest.mark.parametrize(
    "line",
    [
        "compile net.onnx -o net.data",
        "eval net.onnx --dataset mnist --stats net.data",
        "explore net.onnx --json net.data",
        "profile net.onnx -o net.data",
        "report net.onnx --json net.data",
        "run net.onnx --input x.npy --output y.npy --stats net.data",
        "train net.onnx --data x.npy --labels y.npy -o t.tflite --stats net.data",
    ],
    ids=lambda line: line.split()[0],
)
def test_weights_are_not_written_over(line: str, here: Path, capsys: Any) -> None:
    onnx.save(quantised(), here / "net.onnx", **BESIDE)
    before = Path("net.data").read_bytes()
    np.save("x.npy", np.zeros(SHAPE, np.float32))
    assert main(line.split()) != 0
    assert "net.data: named twice, or an input" in capsys.readouterr().err
    assert Path("net.data").read_bytes() == before


@pytest.mark.parametrize("fault", ["missing", "short", "outside", "contents"])
def test_weights_that_cannot_be_read(fault: str, here: Path) -> None:
    onnx.save(quantised(), here / "net.onnx", **BESIDE)
    source, text = here / "net.onnx", "^net.onnx: wanted its files of weights beside it: .*net.data"
    if fault == "missing":
        Path("net.data").unlink()
    elif fault == "short":
        Path("net.data").write_bytes(b"\1" * 8)
        text = "^net.onnx: wanted its files of weights beside it: "
    elif fault == "outside":
        (here / "inner").mkdir()
        content = source.read_bytes().replace(b"net.data", b"../n.dat")
        source = here / "inner" / "net.onnx"
        source.write_bytes(content)
        (here / "net.data").rename(here / "n.dat")
        text = r"^net.onnx: wanted its files of weights beside it: .*\.\./n\.dat"
    else:
        source, text = source.read_bytes(), "external data; give the path of the file$"
    with pytest.raises(ModelError, match=text):
        load(source)


def half(dtype: int) -> Any:
    """A network in a narrow type, with a constant of each kind, a cast, and a branch."""
    net = Net(x=SHAPE)
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    cast = net.add("Cast", "x", to=dtype)
    y = net.add("Conv", cast, net.constant(numbers(4, 3, 3, 3).astype(kind)))
    value = helper.make_tensor("value", dtype, [1], [0.25])
    y = net.add("Add", y, net.add("Constant", value=value))
    branches = []
    for name in ("Relu", "Neg"):
        ends = [helper.make_tensor_value_info(name, dtype, None)]
        branches.append(helper.make_graph([helper.make_node(name, [y], [name])], name, [], ends))
    yes = net.constant(np.array(True), bool)
    y = net.add("If", yes, then_branch=branches[0], else_branch=branches[1])
    return net.proto(net.add("Cast", y, to=onnx.TensorProto.FLOAT))


@pytest.mark.parametrize("name", ["FLOAT16", "BFLOAT16"])
def test_narrow_floats_become_float32(name: str) -> None:
    dtype = onnx.TensorProto.DataType.Value(name)
    model = widened(half(dtype))
    assert name.encode() not in onnx.printer.to_text(model).upper().encode()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    x, kind = numbers(*SHAPE), helper.tensor_dtype_to_np_dtype(dtype)
    net = Net(x=SHAPE)
    weights = numbers(4, 3, 3, 3).astype(kind).astype(np.float32)
    y = net.add("Conv", "x", net.constant(weights))
    content = net.content(net.add("Relu", net.add("Add", y, net.constant([0.25]))))
    (expected,) = onnxruntime.InferenceSession(content).run(None, {"x": x})
    np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-6, atol=1e-6)


def test_a_network_of_half_precision_is_quantised(here: Path) -> None:
    model = half(onnx.TensorProto.FLOAT16)
    for end in (*model.graph.input, *model.graph.output):
        end.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    onnx.save(model, here / "half.onnx")
    x = numbers(8, *SHAPE[1:])
    np.save("x.npy", x)
    assert main(["quantize", "half.onnx", "--calibration", "x.npy", "-o", "int8.onnx"]) == 0
    content = (here / "int8.onnx").read_bytes()
    with Converter(here / "half.onnx") as converter:
        floats, quantised = (converter.outputs(c, [x]) for c in (None, content))
    assert 0 < np.abs(floats - quantised).max() < 0.05 * np.abs(floats).max()
