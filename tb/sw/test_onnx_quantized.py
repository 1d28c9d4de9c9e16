"""Float networks as ``celosia quantize`` writes them: what it leaves in float runs, too."""

import numpy as np
import onnx
import pytest
from onnx_graphs import Net, results

from celosia.sw.quantize.fused import with_hard_swish
from celosia.sw.quantize.model import QuantizeError
from celosia.sw.quantize.onnx import open_model

_COUNT = 8


class Float(Net):
    """A float network with random weights, of pictures of 16 × 16 pixels."""

    def __init__(self) -> None:
        super().__init__(x=(1, 3, 16, 16))

    def numbers(self, *shape: int, offset: float = 0) -> str:
        """Add random numbers that keep the spread."""
        spread = np.sqrt(np.prod(shape[1:]))
        data = np.random.default_rng(len(self.constants)).normal(size=shape) / spread + offset
        return self.constant(data.astype(np.float32))

    def reshape(self, x: str, *shape: int) -> str:
        return self.add("Reshape", x, self.constant(np.array(shape)))


def _transformer() -> tuple[Net, str]:
    """Attention, LayerNormalization and GELU by Erf: in float in part."""
    net = Float()
    x = net.add("Conv", "x", net.numbers(16, 3, 4, 4), strides=[4, 4])
    x = net.add("Transpose", net.reshape(x, 1, 16, 16), perm=[0, 2, 1])
    y = net.add("LayerNormalization", x, net.numbers(16, offset=1), net.numbers(16))
    q, k, v = (net.reshape(net.add("MatMul", y, net.numbers(16, 16)), 1, 16, 2, 8) for _ in "qkv")
    q, v = (net.add("Transpose", each, perm=[0, 2, 1, 3]) for each in (q, v))
    y = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 2, 3, 1]))
    y = net.add("MatMul", net.add("Softmax", net.add("Mul", y, net.constant(0.35))), v)
    x = net.add("Add", x, net.reshape(net.add("Transpose", y, perm=[0, 2, 1, 3]), 1, 16, 16))
    y = net.add("Add", net.add("MatMul", x, net.numbers(16, 32)), net.numbers(32))
    erf = net.add("Erf", net.add("Div", y, net.constant(np.sqrt(2))))
    y = net.add("Mul", net.add("Mul", y, net.add("Add", erf, net.constant(1))), net.constant(0.5))
    x = net.add("Add", x, net.add("MatMul", y, net.numbers(32, 16)))
    x = net.add("ReduceMean", x, axes=[1], keepdims=0)
    return net, net.add("Softmax", net.add("Gemm", x, net.numbers(5, 16), transB=1))


def _mobile() -> tuple[Net, str]:
    """BatchNormalization, HardSwish, squeeze-and-excite, and a mean without scales."""
    net = Float()
    x = net.add("Conv", "x", net.numbers(8, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    ends = [net.constant(np.linspace(0.5, 1.5, 8, dtype=np.float32)) for _ in range(4)]
    x = net.add("HardSwish", net.add("BatchNormalization", x, *ends))
    y = net.add("Relu", net.add("Conv", net.add("GlobalAveragePool", x), net.numbers(4, 8, 1, 1)))
    y = net.add("HardSigmoid", net.add("Conv", y, net.numbers(8, 4, 1, 1)), alpha=1 / 6)
    x = net.add("Conv", net.add("Mul", x, y), net.numbers(8, 1, 3, 3), group=8, pads=[1] * 4)
    x = net.add("ReduceMean", x, axes=[2, 3], keepdims=1)
    return net, net.add("Gemm", net.add("Flatten", x), net.numbers(5, 8), transB=1)


def _pooled() -> tuple[Net, str]:
    """PRelu, pads that do not count, InstanceNormalization and LogSoftmax."""
    net = Float()
    x = net.add("Conv", "x", net.numbers(8, 3, 3, 3), pads=[1] * 4)
    x = net.add("PRelu", x, net.numbers(8, 1, 1, offset=0.3))
    x = net.add("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    x = net.add("InstanceNormalization", x, net.numbers(8, offset=1), net.numbers(8))
    x = net.add("Clip", x, net.constant(0), net.constant(6))
    x = net.add("Flatten", net.add("GlobalMaxPool", x))
    return net, net.add("LogSoftmax", net.add("Gemm", x, net.numbers(8, 5)))


NETWORKS = {"transformer": _transformer, "mobile": _mobile, "pooled": _pooled}


@pytest.mark.parametrize("name", NETWORKS)
def test_quantized(name, tmp_path):
    """Equal but for the rounding of float, and for ties: by one step of an integer."""
    net, last = NETWORKS[name]()
    path = tmp_path / "net.onnx"
    path.write_bytes(net.content(last))
    x = np.random.default_rng(4).normal(size=(_COUNT, 3, 16, 16)).astype(np.float32)
    content = open_model(path).quantize({"x": each[None]} for each in x)
    (got,), (wanted,) = results(content, {"x": x})
    far = np.abs(got - wanted) > 1e-5 * np.abs(wanted).max()
    assert far.mean() <= 0.05 and np.abs(got - wanted).max() <= 0.02 * np.abs(wanted).max()


def _kinds(path, net, *ends):
    """Return the operators of a quantised network, and write it to ``path``."""
    path.write_bytes(net.content(*ends))
    x = np.random.default_rng(4).normal(size=(2, 1, 3, 16, 16)).astype(np.float32)
    path.write_bytes(open_model(path).quantize({"x": sample} for sample in x))
    return [node.op_type for node in onnx.load(path).graph.node]


def test_a_hard_swish_is_one_operator(tmp_path):
    """The runtime makes a product of each: alone, beside another gate, or written so."""
    path = tmp_path / "net.onnx"
    net, last = _mobile()
    kinds = _kinds(path, net, last)
    assert kinds.count("HardSwish") == 1 and kinds.count("HardSigmoid") == 1
    for alpha, ends, wanted in ((1 / 6, 1, 1), (0.2, 1, 0), (1 / 6, 2, 0)):
        net = Float()
        x = net.add("Conv", "x", net.numbers(8, 3, 3, 3))
        gate = net.add("HardSigmoid", x, alpha=alpha)
        names = (net.add("Mul", gate, x), gate)[:ends]
        assert _kinds(path, net, *names).count("HardSwish") == wanted


def test_a_gate_that_an_inner_graph_reads_stays():
    """HardSwish does not take away what a branch of If needs."""
    node = onnx.helper.make_node
    branch = onnx.helper.make_graph([node("Identity", ["g"], ["b"])], "branch", [], [])
    nodes = [
        node("HardSigmoid", ["x"], ["g"], alpha=1 / 6),
        node("Mul", ["x", "g"], ["y"]),
        node("If", ["c"], ["z"], then_branch=branch, else_branch=branch),
    ]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "net", [], []))
    kinds = [each.op_type for each in with_hard_swish(model).graph.node]
    assert kinds == ["HardSigmoid", "Mul", "If"]


def test_a_quantised_network_is_refused(tmp_path):
    path = tmp_path / "net.onnx"
    _kinds(path, *_pooled())
    with pytest.raises(QuantizeError, match="it is quantised: celosia run"):
        open_model(path)
