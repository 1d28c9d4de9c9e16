"""Operators between DequantizeLinear and QuantizeLinear, against ONNX Runtime."""

from typing import Any, NamedTuple

import numpy as np
import prerequisites
import pytest

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.runtime.interpreter import open_session

onnx = prerequisites.package("onnx")
ort = prerequisites.package("onnxruntime")

helper, numpy_helper = onnx.helper, onnx.numpy_helper

IMAGE = (1, 4, 6, 5)
COUNT = 60
SAME = (0.04, 2)


class Case(NamedTuple):
    """An operator of inputs that are computed, and of constants at some positions."""

    kind: str
    shapes: tuple[tuple[int, ...], ...]
    constants: dict[int, Any]
    result: tuple[float, int]
    opset: int
    attributes: dict[str, Any]


def case(
    kind: str, *shapes, constants: Any = None, result=(0.0513, 3), opset=17, **attributes: Any
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

    scales = iter([SAME, (0.0313, -5), (0.05, 1)])
    computed = iter(enumerate(given.shapes))
    for position in range(len(given.shapes) + len(given.constants)):
        if position in given.constants:
            data = given.constants[position]
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
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def differences(given: Case, dtype: Any, count: int = COUNT) -> tuple[int, int]:
    """Return the number of values that differ from ONNX Runtime, and of all values."""
    content = model(given, dtype).SerializeToString()
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    reference = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    program = compile_graph(load(content), preset("edge"), 4)
    limits, random = np.iinfo(dtype), np.random.default_rng(3)
    arrays = [
        random.integers(limits.min, limits.max + 1, (count, *shape)).astype(dtype)
        for shape in given.shapes
    ]
    wanted = np.stack(
        [
            np.asarray(reference.run(None, {f"x{k}": x[n] for k, x in enumerate(arrays)})[0])
            for n in range(count)
        ]
    )
    with open_session(program) as session:
        ends = [port.shape for port in program.inputs]
        inputs = [x.reshape(-1, *shape) for x, shape in zip(arrays, ends, strict=True)]
        (got,) = session.run(inputs)
    return int((got.reshape(wanted.shape) != wanted).sum()), wanted.size


def whole(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def real(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


def pads(*numbers: int, value: Any = None, **attributes: Any) -> Case:
    constants = {1: whole(*numbers)} | ({} if value is None else {2: np.float32(value)})
    return case("Pad", constants=constants, **attributes)


def resized(size: tuple[int, int], **attributes: Any) -> Case:
    constants = {1: real(), 2: real(), 3: whole(1, 4, *size)}
    return case("Resize", constants=constants, **attributes)


COORDINATES = ("align_corners", "asymmetric", "half_pixel", "half_pixel_symmetric")

CASES = {
    "crd": case("DepthToSpace", blocksize=2, mode="CRD"),
    "dcr": case("DepthToSpace", blocksize=2),
    "expand": case("Expand", (4, 1, 5), constants={1: whole(2, 1, 6, 5)}),
    "expand-same": case("Expand", (1, 4, 1, 5), constants={1: whole(6, 1)}, result=SAME),
    "gather": case("Gather", constants={1: whole(3, -1, 0)}, axis=2),
    "gather-channel": case("Gather", constants={1: np.array(2)}, axis=1),
    "gather-matrix": case("Gather", constants={1: np.array([[1, 0], [3, 3]])}, axis=1),
    "tile": case("Tile", constants={1: whole(1, 2, 1, 3)}),
    "max": case("ReduceMax", axes=[2, 3]),
    "max-channels": case("ReduceMax", axes=[1], keepdims=0),
    "max-rows": case("ReduceMax", axes=[-2], keepdims=0),
    "max-18": case("ReduceMax", constants={1: whole(1, 3)}, opset=18),
    "min": case("ReduceMin", axes=[2], keepdims=0),
    "min-all": case("ReduceMin"),
    "pad": pads(0, 0, 1, 2, 0, 0, 3, 0),
    "pad-value": pads(0, 0, 1, 2, 0, 0, 0, 0, value=np.float32(0.04) * np.float32(11)),
    "pad-negative": pads(0, 0, 1, -1, 0, -2, -3, 2),
    "pad-reflect": pads(0, 0, 2, 1, 0, 0, 1, 3, mode="reflect"),
    "pad-edge": pads(0, 1, 2, 1, 0, 0, 1, 9, mode="edge"),
    "pad-axes": case("Pad", constants={1: whole(1, 2), 2: None, 3: whole(-1)}, opset=18),
    "where": case("Where", IMAGE, (4, 1, 5), constants={0: np.arange(30).reshape(6, 5) % 3 == 0}),
    "where-constant": case("Where", constants={0: np.arange(6)[:, None] > 2, 2: np.float32(-1.3)}),
    **{
        f"nearest-{way}-{mode}-{size[0]}": resized(
            size, coordinate_transformation_mode=way, nearest_mode=mode, result=SAME
        )
        for way in (*COORDINATES, "pytorch_half_pixel")
        for mode in ("ceil", "floor", "round_prefer_ceil", "round_prefer_floor")
        for size in ((12, 10), (3, 4), (9, 1))
        if way != "half_pixel_symmetric"
    },
    "nearest-scales": case(
        "Resize", constants={1: real(), 2: real(1, 1, 1.7, 0.61)}, mode="nearest"
    ),
    "nearest-axes": case(
        "Resize", constants={1: None, 2: real(2, 2.5)}, axes=[2, 3], opset=18, result=SAME
    ),
    "nearest-symmetric": case(
        "Resize",
        constants={1: None, 2: real(1, 1, 1.7, 2.3)},
        coordinate_transformation_mode="half_pixel_symmetric",
        opset=19,
    ),
    "nearest-rows": case("Resize", (1, 4, 7), constants={1: None, 2: real(1, 1, 2)}),
    **{
        f"linear-{way}-{size[0]}": resized(size, coordinate_transformation_mode=way, mode="linear")
        for way in ("align_corners", "asymmetric", "half_pixel", "pytorch_half_pixel")
        for size in ((12, 10), (3, 4), (11, 1))
    },
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_equals_onnx_runtime(name, dtype):
    count, total = differences(CASES[name], dtype)
    assert count == 0, f"{count} of {total}"
