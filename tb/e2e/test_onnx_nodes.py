"""Node tests of ``onnx.backend.test`` for all operators that are read."""

import onnx_nodes
import prerequisites

onnx = prerequisites.package("onnx")

#: Version whose tests the page counts.
_VERSION = "1.23"


def test_nodes():
    outcomes = [onnx_nodes.outcome(case) for case in onnx_nodes.cases()]
    assert not [each.name for each in outcomes if each.state == "different"]
    assert all("\n" not in each.reason and "damaged" not in each.reason for each in outcomes)
    assert {each.state for each in outcomes} >= {"equal", "onnxruntime", "refused"}
    if onnx.__version__.startswith(_VERSION):
        wanted = onnx_nodes.page(outcomes)
        assert onnx_nodes.PAGE.read_text() == wanted, "python tb/e2e/onnx_nodes.py --write"
