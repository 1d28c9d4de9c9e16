"""Quant of QONNX of eight bits is a QDQ pair; other numbers of bits are refused by name."""

from typing import Any

import numpy as np
import pytest
from onnx_graphs import Net, helper, reference

import celosia
from celosia.sw.frontend.source import load
from celosia.sw.layers.node import ModelError

_DOMAIN = "qonnx.custom_op.general"

_SCALES = np.array([0.011, 0.02, 0.013, 0.017], np.float32)
_WEIGHTS = np.random.default_rng(2).normal(size=(4, 3, 3, 3)).astype(np.float32) / 2


class _Quants:
    """A convolution of quantised operands, as Quant or as QDQ pairs."""

    def __init__(self, *, quant: bool, opset: int = 17, domain: str = _DOMAIN) -> None:
        self.net, self.quant, self.domain = Net(opset, x=(1, 3, 6, 6)), quant, domain

    def add(self, x: str, scale: Any, point: Any = 0.0, bits: float = 8, **more: Any) -> str:
        """Add a Quant, or the pair that has its results."""
        net = self.net
        if self.quant:
            ends = [net.constant(each) for each in (scale, point, bits)]
            return net.add("Quant", x, *ends, domain=self.domain, **more)
        dtype = np.int8 if more.get("signed", 1) else np.uint8
        if more.get("narrow"):
            least = np.asarray(scale, np.float32) * np.float32(-127)
            x = net.add("Max", x, net.constant(least))
        flat = np.asarray(scale, np.float32).reshape(-1 if np.size(scale) > 1 else ())
        points = np.full(flat.shape, point, dtype)
        axis: Any = {"axis": 0} if flat.ndim else {}
        ends = net.constant(flat), net.constant(points)
        x = net.add("QuantizeLinear", x, *ends, **axis)
        return net.add("DequantizeLinear", x, *ends, **axis)

    def content(self, *, signed: int = 1, **more: Any) -> bytes:
        """Return a network whose activations have a zero point, and its weights scales."""
        net, x = self.net, "x"
        x = self.add(x, 0.031, 3.0 if signed else 128.0, signed=signed)
        weights = self.add(net.constant(_WEIGHTS), _SCALES.reshape(4, 1, 1, 1), signed=1, narrow=1)
        y = net.add("Relu", net.add("Conv", x, weights, net.constant(_SCALES)))
        proto = net.proto(self.add(y, 0.0413, 0.0, signed=signed, **more))
        if self.quant:
            proto.opset_import.append(helper.make_opsetid(self.domain, 1))
        return proto.SerializeToString()


@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize(("opset", "domain"), [(11, "onnx.brevitas"), (17, _DOMAIN)])
def test_quant(signed, opset, domain):
    x = np.random.default_rng(1).normal(size=(1, 3, 6, 6)).astype(np.float32) * 2
    (wanted,) = reference(_Quants(quant=False).content(signed=signed)).run(None, {"x": x})
    content = _Quants(quant=True, opset=opset, domain=domain).content(signed=signed)
    with celosia.InferenceSession(content) as session:
        (got,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"bits": 4}, r"Quant \('t.*'\): wanted 8 bits, rounded with ROUND, got 4 bits and ROUND"),
        ({"rounding_mode": "FLOOR"}, r"Quant \('t.*'\): .* got 8 bits and FLOOR"),
    ],
)
def test_refusals(more, message):
    with pytest.raises(ModelError, match=message) as caught:
        load(_Quants(quant=True).content(**more))
    assert "\n" not in str(caught.value)
