"""Models of one ONNX operator between DequantizeLinear and QuantizeLinear, and ONNX Runtime."""

from typing import Any, NamedTuple

import numpy as np
import prerequisites

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.runtime.interpreter import open_session

onnx = prerequisites.package("onnx")
ort = prerequisites.package("onnxruntime")

helper, numpy_helper = onnx.helper, onnx.numpy_helper

#: Shape of an input unless another one is given.
IMAGE = (1, 4, 6, 5)
#: Samples that are compared.
COUNT = 60
#: Scale and zero point of the first input.
SAME = (0.04, 2)


class Weights(NamedTuple):
    """A constant that a DequantizeLinear follows."""

    data: np.ndarray
    scales: Any
    axis: int = 0


class Case(NamedTuple):
    """An operator of inputs that are computed, and of constants at some positions."""

    kind: str
    shapes: tuple[tuple[int, ...], ...]
    constants: dict[int, Any]
    result: tuple[float, int]
    opset: int
    attributes: dict[str, Any]


def weights(*shape: int, axis: int | None = None, bits: int = 8) -> Weights:
    """Return random weights, of a scale for each index along an axis, or of one."""
    random, scale = np.random.default_rng(1), 0.0123
    kind = np.int8 if bits == 8 else helper.tensor_dtype_to_np_dtype(onnx.TensorProto.INT4)
    data = random.integers(1 - 2 ** (bits - 1), 2 ** (bits - 1), shape).astype(kind)
    scales = np.float32(scale)
    if axis is not None:
        scales = (random.uniform(0.5, 2, shape[axis]) * scale).astype(np.float32)
    return Weights(data, scales, axis or 0)


def bias(channels: int, scales: Any) -> Weights:
    """Return a random bias in units of sums."""
    data = np.random.default_rng(2).integers(-2000, 2000, channels).astype(np.int32)
    return Weights(data, np.float32(0.04) * scales)


def case(
    kind: str,
    *shapes: tuple[int, ...],
    constants: Any = None,
    result: Any = (0.0513, 3),
    opset: Any = 17,
    **attributes: Any,
) -> Case:
    return Case(kind, shapes or (IMAGE,), constants or {}, result, opset, attributes)


def model(given: Case, dtype: Any) -> Any:
    """Return the model of an operator: its inputs ``x0`` on are quantised, so is its result."""
    offset = 128 if dtype == np.uint8 else 0
    nodes, constants, ends, names = [], [], [], []
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def constant(name: str, data: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(data), name))
        return name

    def scale(name: str, scale: float, zero_point: int) -> tuple[str, str]:
        zero = np.array(zero_point + offset, dtype)
        return constant(f"{name}_s", np.float32(scale)), constant(f"{name}_z", zero)

    scales = iter([SAME, (0.03, -5), (0.05, 1)])
    computed = iter(enumerate(given.shapes))
    for position in range(len(given.shapes) + len(given.constants)):
        if position in given.constants:
            data = given.constants[position]
            if isinstance(data, Weights):
                name, zeros = f"c{position}", np.zeros_like(data.scales, data.data.dtype)
                inputs = [constant(name, data.data), constant(f"{name}_s", data.scales)]
                inputs.append(constant(f"{name}_z", zeros))
                results = [f"{name}_d"]
                nodes.append(helper.make_node("DequantizeLinear", inputs, results, axis=data.axis))
                names += results
                continue
            names.append("" if data is None else constant(f"c{position}", data))
            continue
        number, shape = next(computed)
        ends.append(helper.make_tensor_value_info(f"x{number}", kind, shape))
        inputs = [f"x{number}", *scale(f"x{number}", *next(scales))]
        nodes.append(helper.make_node("DequantizeLinear", inputs, [f"d{number}"]))
        names.append(f"d{number}")
    nodes.append(helper.make_node(given.kind, names, ["f"], **given.attributes))
    nodes.append(helper.make_node("QuantizeLinear", ["f", *scale("y", *given.result)], ["y"]))
    result = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph(nodes, "g", ends, [result], constants)
    opsets = [helper.make_opsetid("", given.opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def results(content: bytes, arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the results of samples here, and those of ONNX Runtime."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    reference = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    count = len(next(iter(arrays.values())))
    wanted = np.stack(
        [
            np.asarray(reference.run(None, {name: x[n] for name, x in arrays.items()})[0])
            for n in range(count)
        ]
    )
    program = compile_graph(load(content), preset("edge"), 4)
    with open_session(program) as session:
        ends = [port.shape for port in program.inputs]
        inputs = [x.reshape(-1, *shape) for x, shape in zip(arrays.values(), ends, strict=True)]
        (got,) = session.run(inputs)
    assert got.dtype == wanted.dtype
    return got.reshape(wanted.shape), wanted


def differences(given: Case, dtype: Any, count: int = COUNT) -> tuple[int, int]:
    """Return the number of values that differ from ONNX Runtime, and of all values."""
    limits, random = np.iinfo(dtype), np.random.default_rng(3)
    arrays = {
        f"x{number}": random.integers(limits.min, limits.max + 1, (count, *shape)).astype(dtype)
        for number, shape in enumerate(given.shapes)
    }
    got, wanted = results(model(given, dtype).SerializeToString(), arrays)
    return int((got != wanted).sum()), wanted.size
