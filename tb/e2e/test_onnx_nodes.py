"""Node tests of ``onnx.backend.test`` for all operators that are read."""

import onnx_nodes
import prerequisites
import pytest

onnx = prerequisites.package("onnx")

#: Version whose tests the page counts.
_VERSION = "1.23"


@pytest.mark.parametrize("spacing", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_nodes(spacing: int):
    outcomes = [onnx_nodes.outcome(case) for case in list(onnx_nodes.cases())[::spacing]]
    assert not [each.name for each in outcomes if each.state == "different"]
    assert all("\n" not in each.reason and "damaged" not in each.reason for each in outcomes)
    some = {"equal", "refused"} if spacing > 1 else {"equal", "onnxruntime", "refused"}
    assert {each.state for each in outcomes} >= some
    if spacing == 1 and onnx.__version__.startswith(_VERSION):
        wanted = onnx_nodes.page(outcomes)
        assert onnx_nodes.PAGE.read_text() == wanted, "python tb/e2e/onnx_nodes.py --write"
