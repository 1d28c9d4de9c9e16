"""Reader of ONNX models: refusals, and where elements lie."""

from typing import Any

import numpy as np
import prerequisites
import pytest

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.layers.node import ModelError
from celosia.sw.runtime.interpreter import open_session

onnx = prerequisites.package("onnx")
ort = prerequisites.package("onnxruntime")

TensorProto, helper, numpy_helper = onnx.TensorProto, onnx.helper, onnx.numpy_helper

NODE = helper.make_node


class Model:
    """A model of quantised operators, one after the other, from an int8 tensor ``x``."""

    def __init__(self, *shape: Any, dtype: Any = np.int8, opset: int = 17) -> None:
        self.nodes, self.constants = [], []
        self.shape, self.opset = shape, opset
        self.dtype: np.dtype = np.dtype(dtype)
        self.random = np.random.default_rng(7)
        self.last = "x"
        self.ends = {"x": self.shape}

    def constant(self, data) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(data), name))
        return name

    def scale(self, scale=0.05, zero_point=3, dtype=None):
        dtype = dtype or self.dtype
        return self.constant(np.float32(scale)), self.constant(np.array(zero_point, dtype))

    def add(self, kind, *inputs, domain="", **printed):
        name = f"t{len(self.nodes)}"
        self.nodes.append(NODE(kind, inputs, [name], domain=domain, **printed))
        self.last = name
        return self

    def conv(self, inputs, outputs, size=1, **printed):
        low, high = (1, 256) if self.dtype == np.uint8 else (-127, 128)
        weights = self.random.integers(
            low, high, (outputs, inputs // printed.get("group", 1), size, size)
        )
        zero = 128 if self.dtype == np.uint8 else 0
        source = self.scale(0.4 if self.nodes else 0.05)
        ends = [self.last, *source, self.constant(weights.astype(self.dtype))]
        ends += [*self.scale(0.004, zero), *self.scale(0.4)]
        return self.add("QLinearConv", *ends, **printed)

    def move(self, kind, *constants, **printed):
        return self.add(kind, self.last, *map(self.constant, constants), **printed)

    def proto(self, *results):
        kind = helper.np_dtype_to_tensor_dtype(self.dtype)
        ends = [helper.make_tensor_value_info(n, kind, shape) for n, shape in self.ends.items()]
        given = [
            helper.make_tensor_value_info(name, kind, None) for name in results or (self.last,)
        ]
        graph = helper.make_graph(self.nodes, "g", ends, given, self.constants)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def content(self, *results) -> bytes:
        return self.proto(*results).SerializeToString()


def check(model: Model, count: int = 30, core: str = "edge") -> list[str]:
    """Compare a model with ONNX Runtime; return the kinds of its operations."""
    content = model.content()
    graph = load(content)
    program = compile_graph(graph, preset(core), 4)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(content, options)
    limits = np.iinfo(model.dtype)
    random = np.random.default_rng(1)
    x = random.integers(limits.min, limits.max + 1, (count, *model.shape[1:])).astype(model.dtype)
    wanted = np.concatenate([np.asarray(session.run(None, {"x": each[None]})[0]) for each in x])
    with open_session(program) as session:
        (got,) = session.run([x])
    np.testing.assert_array_equal(got.reshape(wanted.shape), wanted)
    return [operation.kind for operation in graph.operations]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_nothing_moves_between_convolutions(dtype):
    kinds = check(Model(1, 3, 6, 6, dtype=dtype).conv(3, 8, 3).conv(8, 4))
    assert kinds.count("TRANSPOSE") == 2 and kinds.count("QLinearConv") == 2


def test_flatten_permutes_the_weights_of_the_next_layer():
    model = Model(1, 3, 6, 5).conv(3, 8).move("Flatten")
    weights = model.random.integers(-127, 128, (240, 7)).astype(np.int8)
    ends = [model.last, *model.scale(0.4), model.constant(weights), *model.scale(0.004, 0)]
    kinds = check(model.add("QLinearMatMul", *ends, *model.scale(2.0)))
    assert kinds == ["TRANSPOSE", "QLinearConv", "QLinearMatMul"]


def test_transposes_and_reshapes_that_cancel_move_nothing():
    model = Model(1, 4, 6, 6).conv(4, 8).move("Transpose", perm=[0, 2, 3, 1])
    kinds = check(model.move("Reshape", np.array([1, -1, 4])))
    assert kinds == ["TRANSPOSE", "QLinearConv", "RESHAPE"]


def test_one_channel_moves_nothing():
    assert "TRANSPOSE" not in check(Model(1, 1, 6, 6).conv(1, 1))


@pytest.mark.parametrize(
    "printed",
    [
        {"pads": [1, 1, 1, 1]},
        {"pads": [0, 1, 2, 0], "strides": [2, 1]},
        {"pads": [1, 1, 1, 1], "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
        {"pads": [1, 2, 3, 0], "dilations": [2, 1]},
        {"auto_pad": "VALID"},
        {"group": 4, "pads": [1, 1, 1, 1]},
        {"group": 2},
    ],
    ids=str,
)
def test_windows(printed):
    check(Model(1, 4, 8, 7).conv(4, 8, 3, **printed))


def test_rows_of_one_dimension():
    model = Model(1, 4, 9)
    weights = model.random.integers(-127, 128, (6, 4, 3)).astype(np.int8)
    ends = ["x", *model.scale(), model.constant(weights), *model.scale(0.004, 0)]
    check(model.add("QLinearConv", *ends, *model.scale(0.4), pads=[1, 1], strides=[2]))


def test_weights_of_nine_bits_are_multiplied_on_the_core():
    for inputs, outputs, size in ((3, 8, 3), (24, 40, 3), (1, 6, 5), (16, 20, 1)):
        model = Model(1, inputs, 6, 6, dtype=np.uint8)
        shape = outputs, inputs, size, size
        weights = np.clip(model.random.normal(120, 60, shape), 0, 255).astype(np.uint8)
        assert weights.max() > 230, shape
        ends = ["x", *model.scale(), model.constant(weights), *model.scale(0.0417, 100)]
        model.add("QLinearConv", *ends, *model.scale(0.47))
        for core in ("edge", "nano"):
            check(model, 8, core)
            program = compile_graph(load(model.content()), preset(core))
            assert "QLinearConv" in [layer.kind for layer in program.layers]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("kind", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("first", [False, True])
def test_constants_of_channels(dtype, kind, first):
    model = Model(1, 4, 5, 5, dtype=dtype).conv(4, 12)
    limits = np.iinfo(dtype)
    data = model.random.integers(limits.min, limits.max + 1, (1, 12, 1, 1)).astype(dtype)
    operands = [model.last, *model.scale(0.4)], [model.constant(data), *model.scale(0.3119, 9)]
    given = [*operands[first], *operands[not first]]
    result = model.scale(0.5137 if kind == "QLinearAdd" else 14.37, 5)
    check(model.add(kind, *given, *result, domain="com.microsoft"))
    program = compile_graph(load(model.content()), preset("edge"))
    assert kind in [layer.kind for layer in program.layers]


@pytest.mark.parametrize("kind", ["Max", "Min"])
@pytest.mark.parametrize("bounds", [[], [0.5], [0.5, -0.3], [0.2, 0.1, 0.4]])
def test_extremes_of_any_number(kind, bounds):
    model = Model(1, 4, 6, 6).conv(4, 8)
    model.add("DequantizeLinear", model.last, *model.scale(0.4))
    model.add(kind, model.last, *(model.constant(np.float32(bound)) for bound in bounds))
    check(model.add("QuantizeLinear", model.last, *model.scale(0.3)))


def test_moves():
    model = Model(1, 4, 6, 6).conv(4, 8)
    model.move("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    model.move("Resize", np.array([], np.float32), np.array([1, 1, 2, 2], np.float32))
    model.move("Pad", np.array([0, 0, 1, 0, 0, 0, 0, 2]))
    model.move("Slice", *map(np.array, ([1], [-1], [2])))
    check(model.move("SpaceToDepth", blocksize=1))


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        ({"mode": "bicubic"}, "wanted mode cubic, linear, nearest, got 'bicubic'"),
        (
            {"coordinate_transformation_mode": "tf_crop_and_resize"},
            "wanted coordinate_transformation_mode align_corners, asymmetric, half_pixel, .*"
            "got 'tf_crop_and_resize'",
        ),
        ({"nearest_mode": "up"}, "wanted nearest_mode ceil, floor, round_prefer_ceil, "),
    ],
)
def test_modes_of_resize(printed, message):
    model = Model(1, 4, 6, 6).conv(4, 8)
    factors = np.array([1, 1, 1.7, 2], np.float32)
    model.move("Resize", np.array([], np.float32), factors, **printed)
    with pytest.raises(ModelError, match=message):
        load(model.content())


def unsupported() -> bytes:
    model = Model(1, 4, 6, 6)
    model.add("DequantizeLinear", "x", *model.scale())
    for kind in ("LpNormalization", "Cos", "Hardmax", "Hardmax"):
        model.add(kind, model.last)
    model.dtype = np.dtype(np.float32)
    proto = model.proto()
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.INT8
    return proto.SerializeToString()


def floating() -> bytes:
    model = Model(1, 4, dtype=np.float32)
    return model.add("Relu", "x").content()


def two_scales() -> bytes:
    model = Model(1, 4, 6, 6).conv(4, 8)
    ends = [model.last, *model.scale(0.7), *model.scale(0.4)]
    return model.add("QLinearSigmoid", *ends, domain="com.microsoft").content()


def no_extent() -> bytes:
    model = Model("N", 4, "H", 6)
    return model.move("MaxPool", kernel_shape=[1, 1]).content()


REFUSALS = {
    "3 operators are not supported: 2 Hardmax, 1 LpNormalization": unsupported,
    "float model": floating,
    "wanted the scale and zero point of 't0'": two_scales,
    "wanted fixed extents but the first": no_extent,
    "wanted opset 6 or newer, got 5": lambda: Model(1, 4, opset=5).move("Flatten").content(),
    "not an .onnx file, or a damaged one": lambda: floating()[:-9],
    "wanted at least one operator": lambda: Model(1, 4).content("x"),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_refusals(message):
    with pytest.raises(ModelError, match=message) as caught:
        load(REFUSALS[message]())
    assert "\n" not in str(caught.value)


def test_dynamic_first_axis_is_one():
    graph = load(Model("N", 4, 6, 6).conv(4, 8).content())
    assert graph.tensors[graph.inputs[0]].shape == (1, 4, 6, 6)


def test_outputs_of_several_types():
    model = Model(1, 4, 6, 6).conv(4, 8)
    convolved = model.last
    model.add("DequantizeLinear", convolved, *model.scale(0.4))
    proto = model.proto(convolved, model.last)
    proto.graph.output[1].type.tensor_type.elem_type = TensorProto.FLOAT
    graph = load(proto.SerializeToString())
    assert [graph.tensors[n].dtype.name for n in graph.outputs] == ["int8", "float32"]
    assert [graph.tensors[n].name for n in graph.outputs] == [convolved, model.last]
    assert {graph.tensors[n].shape for n in graph.outputs} == {(1, 8, 6, 6)}


def test_damaged_files_are_refused(rng):
    """Other bytes here and there: a graph, or one line."""
    model = Model(1, 4, 6, 6).conv(4, 8).move("Flatten").move("Reshape", np.array([-1, 4]))
    content, graphs = model.content(), 0
    for _ in range(400):
        damaged = bytearray(content)
        for place in rng.integers(1, len(damaged), rng.integers(1, 4)).tolist():
            damaged[place] = rng.integers(256)
        try:
            load(bytes(damaged))
            graphs += 1
        except ModelError as error:
            assert "\n" not in str(error)
    assert 0 < graphs < 300
