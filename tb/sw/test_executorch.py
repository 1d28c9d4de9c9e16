"""ExecuTorch: quantised networks of PyTorch, lowered and run through its Python bindings."""

import operator
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import prerequisites
import pytest

from celosia.sw.executorch.operators import form_of

# Of PyTorch and ExecuTorch.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def test_operators_without_a_form_are_refused() -> None:
    def node(target: Any, *arguments: Any) -> Any:
        return SimpleNamespace(target=target, args=arguments, kwargs={})

    assert form_of(node("x"), lambda _: None) is None
    getitem = SimpleNamespace(__name__="getitem")
    assert form_of(node(getitem, "pool", 0), lambda _: None) == ("Identity", ["pool"], {})
    assert form_of(node(getitem, "pool", 1), lambda _: None) is None


@pytest.fixture(scope="module")
def torch() -> Any:
    """PyTorch, with ExecuTorch and its quantised kernels."""
    prerequisites.package("executorch.kernels.quantized")
    return prerequisites.package("torch")


def convolutions(torch: Any) -> Any:
    """Return a network with a depthwise layer, a residual sum, and pools."""
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
            self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
            self.pointwise, self.last = nn.Conv2d(16, 16, 1), nn.Linear(16, 10)

        def forward(self, x: Any) -> Any:
            x = torch.relu(self.norm(self.first(x)))
            y = nn.functional.relu6(self.depthwise(x))
            x = nn.functional.max_pool2d(torch.relu(x + self.pointwise(y)), 2)
            return self.last(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))

    return Net(), (1, 3, 12, 12)


def transformer(torch: Any) -> Any:
    """Return a block with attention of two heads; its matrix products have computed operands."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(16), nn.LayerNorm(16)])
            self.projections = nn.ModuleList([nn.Linear(16, 16) for _ in range(4)])
            self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

        def forward(self, x: Any) -> Any:
            y = self.norms[0](x)
            heads = (project(y).reshape(1, 8, 2, 8) for project in self.projections[:3])
            q, k, v = (head.transpose(1, 2) for head in heads)
            scores = torch.softmax(torch.matmul(q, k.transpose(2, 3)) * 0.25, -1)
            y = torch.matmul(scores, v).transpose(1, 2).reshape(1, 8, 16)
            x = x + self.projections[3](y)
            return x + self.down(torch.relu(self.up(self.norms[1](x))))

    return Block(), (1, 8, 16)


def whole_biases(model: Any) -> None:
    """Round biases to whole units of the sums, as the core and ONNX Runtime have them."""
    torch: Any = import_module("torch")
    for node in model.graph.nodes:
        if node.target in (torch.ops.aten.conv2d.default, torch.ops.aten.linear.default):
            source, weights, bias = node.args[:3]
            units = source.args[1] * operator.attrgetter(weights.args[1].target)(model)
            parameter = operator.attrgetter(bias.target)(model)
            parameter.data = torch.round(parameter / units) * units


def quantized(network: Any, shape: tuple[int, ...], *, whole: bool) -> Any:
    """Return a network quantised by PT2E, as a program of ``torch.export``."""
    torch: Any = import_module("torch")
    xnnpack: Any = import_module("executorch.backends.xnnpack.quantizer.xnnpack_quantizer")
    pt2e: Any = import_module("torchao.quantization.pt2e.quantize_pt2e")
    annotation: Any = import_module("torchao.quantization.pt2e.quantizer").QuantizationAnnotation

    chosen = xnnpack.get_symmetric_quantization_config(is_per_channel=True)

    class Quantizer(xnnpack.XNNPACKQuantizer):
        def annotate(self, model: Any) -> Any:
            for node in model.graph.nodes:
                if node.target in (torch.ops.aten.matmul.default, torch.ops.aten.softmax.int):
                    inputs = dict.fromkeys(node.all_input_nodes, chosen.input_activation)
                    quantization = annotation(inputs, chosen.output_activation, _annotated=True)
                    node.meta["quantization_annotation"] = quantization
            return super().annotate(model)

    torch.manual_seed(1)
    example = (torch.randn(shape),)
    model = torch.export.export(network.eval(), example).module()
    model = pt2e.prepare_pt2e(model, Quantizer().set_global(chosen))
    for _ in range(8):
        model(torch.randn(shape))
    model = pt2e.convert_pt2e(model)
    if whole:
        whole_biases(model)
    return torch.export.export(model, example)


def lowered(program: Any, config: str = "") -> Any:
    """Return a program lowered for a core, or for ExecuTorch's kernels alone."""
    from celosia.executorch import CelosiaPartitioner

    exir: Any = import_module("executorch.exir")
    partitioners = [CelosiaPartitioner(config)] if config else []
    return exir.to_edge_transform_and_lower(program, partitioner=partitioners)


def runner(manager: Any) -> Callable[[Any], np.ndarray]:
    """Return a function that runs a program, read from the contents of its ``.pte`` file."""
    runtime: Any = import_module("executorch.runtime")
    # A method is valid as long as its program.
    program = runtime.Runtime.get().load_program(manager.to_executorch().buffer)
    return lambda x: program.load_method("forward").execute([x])[0].numpy()


def operators(manager: Any) -> list[str]:
    """Return the operators that ExecuTorch runs."""
    nodes = manager.exported_program().graph.nodes
    return [str(node.target) for node in nodes if node.op == "call_function"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "config", "most"),
    [(convolutions, "edge", 0.002), (transformer, "transformer", 0.02)],
)
def test_a_network_has_the_bytes_of_executorch(torch, network, config, most) -> None:
    from celosia.executorch import Runtime

    runtime = Runtime.get()
    torch.manual_seed(0)
    program = quantized(*network(torch), whole=True)
    manager = lowered(program, config)
    results = []
    core, kernels = runner(manager), runner(lowered(program))
    for _ in range(40):
        x = torch.randn(program.example_inputs[0][0].shape)
        results.append((core(x), kernels(x)))
    first, second = (np.array(side) for side in zip(*results, strict=True))
    scale = [node for node in manager.exported_program().graph.nodes if node.op == "output"]
    step = scale[0].args[0][0].args[1]
    differing = first != second
    print(f"{differing.sum()} of {differing.size} results differ")
    # Sums in single precision may come to another side of a half; this may move later results.
    assert differing.mean() <= most
    assert np.abs(first - second).max() <= 1.01 * step
    assert runtime.statistics[-1].inputs == 40


@pytest.mark.slow
def test_a_program_runs_on_the_rtl_and_its_errors_are_those_of_executorch(torch: Any) -> None:
    from celosia.executorch import Runtime

    prerequisites.verilator()
    torch.manual_seed(0)
    program = quantized(torch.nn.Linear(16, 10), (1, 16), whole=True)
    manager = lowered(program, "nano")
    Runtime.get(device="rtl")
    core, kernels, x = runner(manager), runner(lowered(program)), torch.randn(1, 16)
    assert (core(x) == kernels(x)).all()
    Runtime.get(device="abacus")
    with pytest.raises(RuntimeError):
        runner(manager)(x)


@pytest.mark.slow
def test_executorch_runs_what_the_core_does_not(torch: Any) -> None:
    from celosia.executorch import CelosiaPartitioner

    manager = lowered(torch.export.export(torch.nn.ReLU(), (torch.randn(1, 4),)), "edge")
    assert not any("delegate" in name for name in operators(manager))
    with pytest.raises(ValueError, match="abacus"):
        CelosiaPartitioner("abacus")
