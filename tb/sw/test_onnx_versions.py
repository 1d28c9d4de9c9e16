"""Older and newer ONNX files are converted when they are read; other files are refused by name."""

import numpy as np
import pytest
from onnx_graphs import Net, helper, require_equal

from celosia.sw.frontend.source import load
from celosia.sw.layers.node import ModelError


def _older(opset: int, ir_version: int):
    """Quantised Clip and Squeeze, whose parameters were attributes."""
    net = Net(opset, x=(1, 3, 4, 4))
    x = net.quantized("x")
    x = net.add("Clip", x, min=-1.0, max=1.5) if opset < 11 else net.add("Relu", x)
    if opset > 13:
        return net.proto(net.add("Flatten", net.quantized(x, 0.07)), ir_version=ir_version)
    x = net.quantized(net.add("Unsqueeze", net.quantized(x, 0.07), axes=[1]), 0.07)
    proto = net.proto(net.add("Squeeze", x, axes=[1]), ir_version=ir_version)
    if ir_version < 4:
        for each in proto.graph.initializer:
            end = helper.make_tensor_value_info(each.name, each.data_type, each.dims)
            proto.graph.input.append(end)
    return proto


@pytest.mark.parametrize(("opset", "ir_version"), [(10, 3), (10, 5), (11, 6), (12, 7), (22, 10)])
def test_other_opsets(opset, ir_version):
    content = _older(opset, ir_version).SerializeToString()
    x = np.random.default_rng(1).normal(size=(4, 3, 4, 4)).astype(np.float32) * 2
    require_equal(content, {"x": x})


def test_unused_operators_are_left_out():
    net = Net(x=(1, 4))
    x = net.quantized("x")
    net.add("Cos", x)
    load(net.content(x))


def _foreign(kind: str, domain: str) -> bytes:
    net = Net(x=(1, 4))
    return net.content(net.add(kind, "x", domain=domain))


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"
REFUSALS = {
    "net.onnx: a pointer of Git LFS, not the model itself; `git lfs pull`": LFS,
    "net.onnx: not an .onnx file, or a damaged one": b"hello",
    r"quantised by QONNX \(Brevitas, FINN\) \(1 Quant\)": _foreign("Quant", "qonnx.custom_op"),
    r"quantised by Deeploy \(1 RequantShift\)": _foreign("RequantShift", ""),
    "operators of 'other' are not supported": _foreign("Thing", "other"),
    "net.onnx: ONNX model in float; quantise it: celosia quantize": _foreign("Relu", ""),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_refusals(message, tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(REFUSALS[message])
    with pytest.raises(ModelError, match=message) as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_a_pointer_of_git_lfs_is_no_tflite_file(tmp_path):
    path = tmp_path / "net.tflite"
    path.write_bytes(LFS)
    with pytest.raises(ModelError, match="a pointer of Git LFS"):
        load(path)


def test_what_the_converter_cannot_read_is_one_line():
    net = Net(7, x=(1, 3, 4, 4))
    ends = [net.constant(np.ones(3, np.float32)) for _ in range(4)]
    content = net.content(net.add("BatchNormalization", "x", *ends, spatial=0))
    with pytest.raises(ModelError, match=r"opset 7: .* \(Attribute spatial must have") as caught:
        load(content)
    assert "\n" not in str(caught.value)


def _branch(operator: str, *, constant: bool) -> bytes:
    """If, whose branches read a tensor outside; the other branch is not supported."""
    net = Net(x=(1, 4))
    x = net.quantized("x")
    end = helper.make_tensor_value_info("inner", 1, (1, 4))
    kinds = {"then_branch": operator, "else_branch": "Hardmax"}
    graphs = {
        name: helper.make_graph([helper.make_node(kind, [x], ["inner"])], name, [], [end])
        for name, kind in kinds.items()
    }
    condition = net.constant(np.array(True))
    if not constant:
        condition = net.add("Greater", net.add("ReduceMax", "x", keepdims=0), net.constant(0.0))
    return net.content(net.quantized(net.add("If", condition, **graphs)))


def test_a_constant_condition_chooses_a_branch():
    x = np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32)
    require_equal(_branch("Relu", constant=True), {"x": x})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (_branch("Relu", constant=False), r"If .*: operator is not supported"),
        (_branch("Hardmax", constant=True), r"Hardmax .*: operator is not supported"),
    ],
)
def test_branches_that_are_refused(content, message):
    with pytest.raises(ModelError, match=message) as caught:
        load(content)
    assert "constants" not in str(caught.value)


def test_a_float_operator_that_is_not_supported_is_named_once():
    """It, not the operators before or after it."""
    net = Net(x=(2, 2, 4, 4))
    x = net.quantized("x")
    y = net.add("ConvTranspose", x, x)
    content = net.content(net.add("Sigmoid", y), net.quantized(net.add("Exp", y)))
    with pytest.raises(ModelError, match=r"^model: operator 2 ConvTranspose \('t2_0'\): "):
        load(content)
