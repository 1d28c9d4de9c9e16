"""Reader of ONNX models: refusals, and where elements lie."""

from typing import Any

import numpy as np
import pytest
from onnx_graphs import Net, onnx, require_equal

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.layers.node import ModelError

TensorProto = onnx.TensorProto


class Model(Net):
    """A model of quantised operators, one after the other, from an int8 tensor ``x``."""

    def __init__(self, *shape: Any, dtype: Any = np.int8, opset: int = 17) -> None:
        super().__init__(opset, dtype, x=shape)
        self.random = np.random.default_rng(7)
        self.last = "x"

    def scale(self, scale: Any = 0.05, point: Any = 3, dtype: Any = None) -> tuple[str, str]:
        return super().scale(scale, point, dtype or self.dtype)

    def then(self, kind, *inputs, **options):
        self.last = self.add(kind, *inputs, **options)
        return self

    def conv(self, inputs, outputs, size=1, **options):
        low, high = (1, 256) if self.dtype == np.uint8 else (-127, 128)
        shape = outputs, inputs // options.get("group", 1), size, size
        weights = self.random.integers(low, high, shape)
        zero = 128 if self.dtype == np.uint8 else 0
        source = self.scale(0.4 if self.nodes else 0.05)
        ends = [self.last, *source, self.constant(weights.astype(self.dtype))]
        ends += [*self.scale(0.004, zero), *self.scale(0.4)]
        return self.then("QLinearConv", *ends, **options)

    def move(self, kind, *constants, **options):
        return self.then(kind, self.last, *map(self.constant, constants), **options)

    def proto(self, *results: str, **more: Any) -> Any:
        return super().proto(*results or (self.last,), **more)


def check(model: Model, count: int = 30, core: str = "edge") -> list[str]:
    """Compare a model with ONNX Runtime; return the kinds of its operations."""
    content, limits = model.content(), np.iinfo(model.dtype)
    random, shape = np.random.default_rng(1), (count, *model.ends["x"][1:])
    x = random.integers(limits.min, limits.max + 1, shape).astype(model.dtype)
    require_equal(content, {"x": x}, core)
    return [operation.kind for operation in load(content).operations]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_nothing_moves_between_convolutions(dtype):
    kinds = check(Model(1, 3, 6, 6, dtype=dtype).conv(3, 8, 3).conv(8, 4))
    assert kinds.count("TRANSPOSE") == 2 and kinds.count("QLinearConv") == 2


def test_flatten_permutes_the_weights_of_the_next_layer():
    model = Model(1, 3, 6, 5).conv(3, 8).move("Flatten")
    weights = model.random.integers(-127, 128, (240, 7)).astype(np.int8)
    ends = [model.last, *model.scale(0.4), model.constant(weights), *model.scale(0.004, 0)]
    kinds = check(model.then("QLinearMatMul", *ends, *model.scale(2.0)))
    assert kinds == ["TRANSPOSE", "QLinearConv", "QLinearMatMul"]


def test_transposes_and_reshapes_that_cancel_move_nothing():
    model = Model(1, 4, 6, 6).conv(4, 8).move("Transpose", perm=[0, 2, 3, 1])
    kinds = check(model.move("Reshape", np.array([1, -1, 4])))
    assert kinds == ["TRANSPOSE", "QLinearConv", "RESHAPE"]


def test_one_channel_moves_nothing():
    assert "TRANSPOSE" not in check(Model(1, 1, 6, 6).conv(1, 1))


@pytest.mark.parametrize(
    "options",
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
def test_windows(options):
    check(Model(1, 4, 8, 7).conv(4, 8, 3, **options))


def test_rows_of_one_dimension():
    model = Model(1, 4, 9)
    weights = model.random.integers(-127, 128, (6, 4, 3)).astype(np.int8)
    ends = ["x", *model.scale(), model.constant(weights), *model.scale(0.004, 0)]
    check(model.then("QLinearConv", *ends, *model.scale(0.4), pads=[1, 1], strides=[2]))


def test_weights_of_nine_bits_are_multiplied_on_the_core():
    for inputs, outputs, size in ((3, 8, 3), (24, 40, 3), (1, 6, 5), (16, 20, 1)):
        model = Model(1, inputs, 6, 6, dtype=np.uint8)
        shape = outputs, inputs, size, size
        weights = np.clip(model.random.normal(120, 60, shape), 0, 255).astype(np.uint8)
        assert weights.max() > 230, shape
        ends = ["x", *model.scale(), model.constant(weights), *model.scale(0.0417, 100)]
        model.then("QLinearConv", *ends, *model.scale(0.47))
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
    check(model.then(kind, *given, *result, domain="com.microsoft"))
    program = compile_graph(load(model.content()), preset("edge"))
    assert kind in [layer.kind for layer in program.layers]


@pytest.mark.parametrize("kind", ["Max", "Min"])
@pytest.mark.parametrize("bounds", [[], [0.5], [0.5, -0.3], [0.2, 0.1, 0.4]])
def test_extremes_of_any_number(kind, bounds):
    model = Model(1, 4, 6, 6).conv(4, 8)
    model.then("DequantizeLinear", model.last, *model.scale(0.4))
    model.then(kind, model.last, *(model.constant(np.float32(bound)) for bound in bounds))
    check(model.then("QuantizeLinear", model.last, *model.scale(0.3)))


def test_moves():
    model = Model(1, 4, 6, 6).conv(4, 8)
    model.move("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    model.move("Resize", np.array([], np.float32), np.array([1, 1, 2, 2], np.float32))
    model.move("Pad", np.array([0, 0, 1, 0, 0, 0, 0, 2]))
    model.move("Slice", *map(np.array, ([1], [-1], [2])))
    check(model.move("SpaceToDepth", blocksize=1))


@pytest.mark.parametrize(
    ("options", "message"),
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
def test_modes_of_resize(options, message):
    model = Model(1, 4, 6, 6).conv(4, 8)
    factors = np.array([1, 1, 1.7, 2], np.float32)
    model.move("Resize", np.array([], np.float32), factors, **options)
    with pytest.raises(ModelError, match=message):
        load(model.content())


def unsupported() -> bytes:
    model = Model(1, 4, 6, 6)
    model.then("DequantizeLinear", "x", *model.scale())
    for kind in ("LpNormalization", "Cos", "Hardmax", "Hardmax"):
        model.then(kind, model.last)
    model.dtype = np.dtype(np.float32)
    proto = model.proto()
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.INT8
    return proto.SerializeToString()


def floating() -> bytes:
    model = Model(1, 4, dtype=np.float32)
    return model.then("Relu", "x").content()


def two_scales() -> bytes:
    model = Model(1, 4, 6, 6).conv(4, 8)
    ends = [model.last, *model.scale(0.7), *model.scale(0.4)]
    return model.then("QLinearSigmoid", *ends, domain="com.microsoft").content()


def no_extent() -> bytes:
    model = Model("N", 4, "H", 6)
    return model.move("MaxPool", kernel_shape=[1, 1]).content()


def no_output() -> bytes:
    proto = Model(1, 4).move("Flatten").proto("x")
    del proto.graph.output[:]
    return proto.SerializeToString()


def no_step() -> bytes:
    return Model(1, 4, 6, 6).move("Slice", *map(np.array, ([0], [4], [2], [0]))).content()


REFUSALS = {
    "3 operators are not supported: 2 Hardmax, 1 LpNormalization": unsupported,
    "float model": floating,
    "wanted the scale and zero point of 't0_0'": two_scales,
    "wanted fixed extents but the first": no_extent,
    "wanted opset 6 or newer, got 5": lambda: Model(1, 4, opset=5).move("Flatten").content(),
    "not an .onnx file, or a damaged one": lambda: floating()[:-9],
    "wanted at least one operator": lambda: Model(1, 4).content("x"),
    "wanted at least one output": no_output,
    "not a valid model .* 'step' cannot be 0 for Slice": no_step,
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
    model.then("DequantizeLinear", convolved, *model.scale(0.4))
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
