"""Small ONNX graphs, run by the driver and by ONNX Runtime."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import prerequisites

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.runtime.interpreter import open_session

onnx = prerequisites.package("onnx")
onnxruntime = prerequisites.package("onnxruntime")
_errors = prerequisites.package("onnxruntime.capi.onnxruntime_pybind11_state")

helper, numpy_helper = onnx.helper, onnx.numpy_helper


def numbers(*shape: int, seed: int = 8) -> np.ndarray:
    """Return random numbers around 0, float32."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


class Net:
    """A graph under construction, from inputs named in ``ends``.

    - ``dtype``: of its inputs, and of its outputs.
    - ``ends``: shapes of the inputs, by name.
    """

    def __init__(self, opset: int = 17, dtype: Any = np.float32, **ends: tuple[Any, ...]) -> None:
        self.ends, self.opset, self.dtype = ends, opset, np.dtype(dtype)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.random = np.random.default_rng(5)

    def constant(self, data: Any, dtype: Any = np.float32) -> str:
        """Add a constant."""
        name = f"c{len(self.constants)}"
        data = data if isinstance(data, np.ndarray) else np.array(data, dtype)
        self.constants.append(numpy_helper.from_array(data, name))
        return name

    def add(self, kind: str, *inputs: str, results: int = 1, domain: str = "", **more: Any) -> str:
        """Add a node; return its first result."""
        names = [f"t{len(self.nodes)}_{number}" for number in range(results)]
        self.nodes.append(helper.make_node(kind, inputs, names, domain=domain, **more))
        return names[0]

    def scale(self, scale: Any = 0.05, point: Any = 3, dtype: Any = np.int8) -> tuple[str, str]:
        """Add a scale and a zero point."""
        return self.constant(scale), self.constant(point, dtype)

    def quantized(self, x: str, scale: Any = 0.05, point: Any = 3, dtype: Any = np.int8) -> str:
        """Add QuantizeLinear and DequantizeLinear."""
        ends = self.scale(scale, point, dtype)
        return self.add("DequantizeLinear", self.add("QuantizeLinear", x, *ends), *ends)

    def weights(self, *shape: int, scale: Any = 0.01, **more: Any) -> str:
        """Add int8 weights and their DequantizeLinear."""
        data = self.random.integers(-64, 64, shape).astype(np.int8)
        points = np.zeros(np.shape(scale), np.int8)
        ends = self.constant(scale), self.constant(points, np.int8)
        return self.add("DequantizeLinear", self.constant(data), *ends, **more)

    def proto(self, *results: str, ir_version: int = 9, dtype: Any = None) -> Any:
        """Return the model; ``dtype``: of the outputs, that of the inputs unless given."""
        kinds = [helper.np_dtype_to_tensor_dtype(np.dtype(d or self.dtype)) for d in (None, dtype)]
        ends = [helper.make_tensor_value_info(n, kinds[0], shape) for n, shape in self.ends.items()]
        outputs = [helper.make_tensor_value_info(name, kinds[1], None) for name in results]
        graph = helper.make_graph(self.nodes, "g", ends, outputs, self.constants)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)

    def content(self, *results: str, **more: Any) -> bytes:
        """Return the file; options as those of ``proto``."""
        return self.proto(*results, **more).SerializeToString()


def reference(content: bytes, *, signed: bool = True, fused: bool = True) -> Any:
    """Return ONNX Runtime's CPU provider with its default optimisations, or without ``fused``.

    With ``signed`` it fuses int8 as it does uint8, which is its default only on Arm.

    Processors without VNNI let sums of two products of uint8 saturate at 16 bits, unless the
    session is a precise one. Products of int8 are exact; no kernel of them knows that option.
    """
    options = {"session.qdqisint8allowed": "1"} if signed else {}
    try:
        return _session(content, options | {"session.x64quantprecision": "1"}, fused)
    except _errors.NotImplemented:
        return _session(content, options, fused)


def _session(content: bytes, entries: Mapping[str, str], fused: bool) -> Any:
    options = onnxruntime.SessionOptions()
    if not fused:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def results(
    content: bytes, inputs: Mapping[str, np.ndarray], core: str = "edge", **options: Any
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the outputs of both, of samples along the first axis.

    Arrays have the dimensions of the model, where it has a first axis of 1, or one more.
    """
    session = reference(content)
    ranks = {end.name: len(end.shape) for end in session.get_inputs()}
    count = len(next(iter(inputs.values())))
    samples = (
        {name: x[n] if x.ndim > ranks[name] else x[n : n + 1] for name, x in inputs.items()}
        for n in range(count)
    )
    runs = [session.run(None, sample) for sample in samples]
    wanted = [np.stack(arrays) for arrays in zip(*runs, strict=True)]
    program = compile_graph(load(content, **options), preset(core), 4)
    with open_session(program) as driver:
        got = driver.run([inputs[port.name].reshape(-1, *port.shape) for port in program.inputs])
    assert [a.dtype for a in got] == [b.dtype for b in wanted]
    return [a.reshape(b.shape) for a, b in zip(got, wanted, strict=True)], wanted


def require_equal(content: bytes, inputs: Mapping[str, np.ndarray], core: str = "edge") -> None:
    """Check that all outputs of both are equal; see ``results``."""
    for got, wanted in zip(*results(content, inputs, core), strict=True):
        np.testing.assert_array_equal(got, wanted)
