"""Models of uint8, of int16 activations and of int4 weights: LiteRT's bytes."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import networks as w
import numpy as np
import pytest
import tflite
from conformance import assert_equal, differences, reference
from random_networks.cases import Case
from random_networks.other_types import TYPES, converted, of_type
from whole_networks.golden import Stack

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import ModelError, load
from celosia.sw.layers.errors import CompileError
from celosia.sw.runtime.interpreter import open_session

pytestmark = pytest.mark.usefixtures("litert")

CONFIGS = [preset(name) for name in ("nano", "micro", "edge", "edge,weight_rows=4")]
EDGE = preset("edge")

#: Least share of cases that LiteRT and the compiler both take.
TAKEN = 0.85


def checked(dtype: str, seeds: range, device: str = "machine") -> str:
    """Return what became of some cases; fails if a byte differs or too few are run."""
    refused, wrong = Counter[str](), list[str]()
    configs = CONFIGS if device == "machine" else [EDGE]
    for seed in seeds:
        one, config = of_type(dtype, seed), configs[seed % len(configs)]
        try:
            known = reference(one)
        except RuntimeError:
            refused["LiteRT"] += 1
            continue
        assert known
        try:
            found = differences(one, config, device)
        except (ModelError, CompileError) as error:
            refused[str(error)[-80:]] += 1
            continue
        wrong += [f"seed {seed}, {one.name}: {found}"] if found else []
    assert not wrong, "\n".join(wrong)
    assert refused.total() <= (1 - TAKEN) * len(seeds), refused
    return f"{len(seeds) - refused.total()} cases, all bytes equal; refused: {dict(refused)}"


@pytest.mark.parametrize("dtype", TYPES)
def test_some_cases(dtype: str) -> None:
    checked(dtype, range(30))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES)
def test_many_cases(dtype: str, figure: Callable[[str], None]) -> None:
    figure(f"{dtype}: {checked(dtype, range(600))}")


@pytest.mark.slow
def test_cases_on_the_rtl(verilator: None, figure: Callable[[str], None]) -> None:
    figure(f"uint8 on the RTL: {checked('uint8', range(100), 'rtl')}")


def numbers(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def mobilenet(blocks: tuple[tuple[int, int], ...], extent: int, linear: bool) -> w.Graph:
    """Return a MobileNet with random weights; ``linear`` has the bottlenecks of the second."""
    stack = Stack(3)
    relu = {"activation": "RELU6", "output_scale": 6 / 255, "output_zero_point": -128}
    stack.convolution(8, 3, stride=(2, 2), **relu)
    for channels, stride in blocks:
        if linear:
            stack.bottleneck(channels, stride, 4)
        else:
            stack.depthwise(stride, **relu)
            stack.convolution(channels, **relu)
    if linear:
        stack.layers.append(w.Mean())
    else:
        last = -(-extent // 2)
        for _, stride in blocks:
            last = -(-last // stride)
        stack.layers.append(w.Pool(kind="AVERAGE_POOL_2D", window=(last, last), padding="VALID"))
        stack.convolution(10)
        stack.layers.append(w.Reshape(shape=(1, 10)))
    stack.layers.append(w.Softmax())
    shape = (1, extent, extent, 3)
    return w.sequential(stack.layers, input_shape=shape, input_scale=1 / 128)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("linear", [False, True], ids=["v1", "v2"])
@pytest.mark.parametrize("seed", range(3))
def test_mobilenets(dtype: str, linear: bool, seed: int) -> None:
    """Networks of public architecture: random weights, scales and zero points of weights."""
    rng = np.random.default_rng(seed)
    blocks = ((16, 1), (24, 2), (24, 1), (32, 2), (32, 1), (48, 2))
    graph = converted(mobilenet(blocks, 32 + 16 * seed, linear), dtype, rng)
    assert_equal(graph, numbers(rng, dtype, 3, *graph.tensors[graph.inputs[0]].shape))


def test_ends_cost_nothing() -> None:
    """A model whose inputs and outputs are uint8 runs on the core alone."""
    chain = w.Chain((1, 8, 8, 4), 0.05, 120, "uint8")
    rng = np.random.default_rng(1)
    kernel = w.Constant(numbers(rng, "int8", 6, 3, 3, 4), 0.01)
    chain.operator("QUANTIZE", dtype="int8", scale=0.05, zero_point=-8)
    bias = w.Constant(np.zeros(6, np.int32), 0.05 * 0.01)
    way = {"strideH": 1, "strideW": 1, "padding": "SAME"}
    chain.operator("CONV_2D", (1, 8, 8, 6), [kernel, bias], scale=0.3, zero_point=-3, **way)
    chain.operator("QUANTIZE", dtype="uint8", scale=0.3, zero_point=125)
    graph = chain.graph()
    program = compile_graph(load(w.serialize(graph)), EDGE)
    assert not program.host and len(program.parts) == 1
    assert [port.dtype for port in (*program.inputs, *program.outputs)] == ["uint8", "uint8"]
    assert [port.zero_point for port in (*program.inputs, *program.outputs)] == [120, 125]
    assert {layer.kind for layer in program.layers} == {"CONV_2D"}
    loaded = type(program).from_bytes(program.to_bytes())
    x = numbers(rng, "uint8", 2, 8, 8, 4)
    with open_session(loaded, device="machine") as session:
        (got,) = session.run([x])
    known = reference(Case(0, "", graph, (x[:, None],), 1))[graph.outputs[0]]
    np.testing.assert_array_equal(got.reshape(known.shape), known)


@pytest.mark.parametrize("zero_point", [0, 1, 127, 128, 200, 255])
def test_weights_of_any_zero_point(zero_point: int) -> None:
    """255 less 0 is the sum of three int8: they all run on the core."""
    rng = np.random.default_rng(zero_point)
    weights = numbers(rng, "uint8", 5, 12)
    weights[0, :2] = 0, 255
    chain = w.Chain((1, 12), 0.05, 7, "uint8")
    bias = w.Constant(rng.integers(-500, 500, 5).astype(np.int32), 0.05 * 0.02)
    read = [w.Constant(weights, 0.02, zero_point), bias]
    chain.operator("FULLY_CONNECTED", (1, 5), read, scale=0.9, zero_point=99)
    graph = chain.graph()
    program = compile_graph(load(w.serialize(graph)), EDGE)
    assert not program.host
    assert_equal(graph, numbers(rng, "uint8", 20, 1, 12))


def test_concatenation_rescales() -> None:
    """uint8 alone: inputs of other scales, constants among them, are brought to the result's."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        chain = w.Chain((1, 3, 3, 4), rng.uniform(0.01, 0.2), int(rng.integers(0, 256)), "uint8")
        first = chain.number
        meanings = [(float(rng.uniform(0.01, 0.2)), int(rng.integers(0, 256))) for _ in range(3)]
        second = chain.input("second", (1, 3, 3, 5), *meanings[0], "uint8")
        read = [first, second, w.Constant(numbers(rng, "uint8", 1, 3, 3, 2), *meanings[1])]
        about = {"scale": meanings[2][0], "zero_point": meanings[2][1], "axis": 3}
        chain.operator("CONCATENATION", (1, 3, 3, 11), inputs=read, **about)
        inputs = numbers(rng, "uint8", 4, 1, 3, 3, 4), numbers(rng, "uint8", 4, 1, 3, 3, 5)
        assert_equal(chain.graph(), *inputs)


@pytest.mark.parametrize("printed", [{}, {"alignCorners": True}, {"halfPixelCenters": True}])
@pytest.mark.parametrize("dtype", TYPES)
def test_resize(dtype: str, printed: dict[str, Any]) -> None:
    """Bilinear interpolation of uint8 is single precision."""
    rng = np.random.default_rng(5)
    zero = 9 * (dtype == "uint8")
    for rows, columns in ((7, 9), (10, 6), (3, 13)):
        chain = w.Chain((1, 5, 6, 3), 0.1, zero, dtype)
        size = [w.Constant([rows, columns])]
        chain.operator("RESIZE_BILINEAR", (1, rows, columns, 3), size, **printed)
        assert_equal(chain.graph(), numbers(rng, dtype, 5, 1, 5, 6, 3))


@pytest.mark.parametrize("kind", ["LOGISTIC", "TANH"])
@pytest.mark.parametrize("scale", [2**-12, 2**-11, 2**-15, 1 / 5000, 1 / 3000, 0.0017, 1e-5])
def test_every_int16(kind: str, scale: float) -> None:
    chain = w.Chain((1, 1 << 16), scale, 0, "int16")
    chain.operator(kind, scale=1 / 32768, zero_point=0)
    assert_equal(chain.graph(), np.arange(-32768, 32768).astype(np.int16)[None, None])


@pytest.mark.parametrize("kind", ["ABS", "EXP", "GELU", "LOG", "NEG", "RSQRT", "SQRT"])
def test_functions_of_int16(kind: str) -> None:
    """Kernels stop at roots of numbers below zero."""
    rng = np.random.default_rng(7)
    first = 0 if kind in ("RSQRT", "SQRT") else -32768
    x = np.arange(first, 32768).astype(np.int16)[None, None]
    for number in range(8):
        scale, result = np.exp(rng.uniform(-12, 1, 2))
        chain = w.Chain(x.shape[1:], scale, 0, "int16")
        options: dict[str, Any] = {"approximate": bool(number % 2)} if kind == "GELU" else {}
        chain.operator(kind, scale=scale if kind == "NEG" else result, **options)
        assert_equal(chain.graph(), x)


@pytest.mark.parametrize("kind", ["DIV", "PRELU"])
@pytest.mark.parametrize("scale", [0.0003, 0.002, 0.03, 1.7])
def test_pairs_of_int16(kind: str, scale: float) -> None:
    """Slopes are int8; of int16 the kernel reads single bytes."""
    rng = np.random.default_rng(8)
    chain = w.Chain((1000, 5), 0.001, 0, "int16")
    data = rng.choice([-32768, -999, -3, 1, 2, 17, 400, 32767], 5, replace=False)
    data = rng.integers(-128, 128, 5).astype(np.int8) if kind == "PRELU" else data.astype(np.int16)
    second = w.Constant(data, 0.01, 3 if kind == "PRELU" else 0)
    chain.operator(kind, (1000, 5), [second], scale=scale)
    assert_equal(chain.graph(), numbers(rng, "int16", 3, 1000, 5))


@pytest.mark.parametrize(
    ("scale", "result"), [(1e-5, 1 / 32768), (1 / 4096, 1 / 32767), (0.0021, 1.0009 / 32768)]
)
def test_softmax_of_int16(scale: float, result: float) -> None:
    rng = np.random.default_rng(6)
    chain = w.Chain((64, 9), scale, 0, "int16")
    chain.operator("SOFTMAX", scale=result, zero_point=0, beta=1.0)
    reach = rng.integers(1, 32768, (8, 64, 1))
    assert_equal(chain.graph(), (rng.uniform(-1, 1, (8, 64, 9)) * reach).astype(np.int16))


@pytest.mark.parametrize("kind", ["ADD", "SUB"])
@pytest.mark.parametrize("shift", [0, 1, 3])
def test_sums_of_powers_of_two(kind: str, shift: int) -> None:
    """int16 of scales that are powers of two is shifted, nothing else."""
    rng = np.random.default_rng(7)
    chain = w.Chain((1, 300), 2.0**-9, 0, "int16")
    first = chain.number
    second = chain.input("second", (1, 300), 2.0 ** (-9 - shift), 0, "int16")
    chain.operator(kind, inputs=[first, second], scale=2.0**-9, potScaleInt16=True)
    assert_equal(chain.graph(), numbers(rng, "int16", 3, 1, 300), numbers(rng, "int16", 3, 1, 300))


@pytest.mark.parametrize("bias", ["int32", "int64"])
@pytest.mark.parametrize("kind", ["CONV_2D", "FULLY_CONNECTED"])
def test_biases_of_int16(kind: str, bias: str) -> None:
    """The kernels round otherwise after a bias of int32, which the options name."""
    rng = np.random.default_rng(8)
    image = kind == "CONV_2D"
    chain = w.Chain((1, 10, 10, 8) if image else (100, 8), 0.001, 0, "int16")
    scales = rng.uniform(0.005, 0.02, 6).astype(np.float32)
    weights = numbers(rng, "int8", 6, 1, 1, 8).reshape((6, 1, 1, 8) if image else (6, 8))
    added = w.Constant(rng.integers(-9000, 9000, 6).astype(bias), scales * np.float32(0.001))
    way = {"strideH": 1, "strideW": 1, "padding": "VALID"} if image else {}
    kinds = {"int32": tflite.TensorType.INT32, "int64": tflite.TensorType.INT64}
    read = [w.Constant(weights, scales), added]
    shape = (1, 10, 10, 6) if image else (100, 6)
    about = {"scale": 0.004, "zero_point": 0, "quantizedBiasType": kinds[bias]}
    chain.operator(kind, shape, read, **about, **way)
    graph = chain.graph()
    assert_equal(graph, numbers(rng, "int16", 5, *graph.tensors[0].shape))


@pytest.mark.parametrize("bias", [1 << 40, -(1 << 40)])
def test_results_past_32_bits(bias: int) -> None:
    """The kernel casts them from float64 to int32, which C++ leaves undefined."""
    chain = w.Chain((1, 4), 0.001, 0, "int16")
    read = [w.Constant(np.ones((2, 4), np.int8), 0.01), w.Constant(np.array([0, bias]), 1e-5)]
    chain.operator("FULLY_CONNECTED", (1, 2), read, scale=0.001)
    wanted = "FULLY_CONNECTED.*wanted results within 32 bits before the clamp, got 1.0995"
    with pytest.raises(CompileError, match=wanted):
        compile_graph(load(w.serialize(chain.graph())), EDGE)


@pytest.mark.parametrize(
    ("kind", "shape", "operands", "options"),
    [
        ("CONCATENATION", (1, 4, 4, 16), ["input"], {"axis": 3}),
        ("CONCATENATION", (1, 8, 4, 8), ["input"], {"axis": 1}),
        (
            "SLICE",
            (1, 2, 4, 8),
            [np.array([0, 1, 0, 0], np.int32), np.array([1, 2, 4, 8], np.int32)],
            {},
        ),
        ("PAD", (1, 6, 6, 8), [np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)], {}),
        ("RESHAPE", (1, 128), [np.array([1, 128], np.int32)], {}),
    ],
)
def test_moves_without_scale(kind: str, shape: Any, operands: Any, options: Any) -> None:
    """Operators that only move int8 values run on the core without a scale."""
    chain = w.Chain((1, 4, 4, 8), dtype="int8")
    chain.operator(kind, shape, operands, **options)
    graph = chain.graph()
    if kind != "RESHAPE":
        assert not compile_graph(load(w.serialize(graph)), EDGE).host
    assert_equal(graph, numbers(np.random.default_rng(9), "int8", 3, 1, 4, 4, 8))


def halved(content: bytes, name: str) -> bytes:
    """Return a file whose constant of that name is int4: two elements in each byte."""
    packed = bytearray(content)
    model: Any = tflite.Model.GetRootAs(packed, 0)
    tensors = [model.Subgraphs(0).Tensors(n) for n in range(model.Subgraphs(0).TensorsLength())]
    (tensor,) = (one for one in tensors if one.Name().decode() == name)
    table = model.Buffers(tensor.Buffer())._tab
    start, count = table.Vector(table.Offset(4)), table.VectorLen(table.Offset(4))
    data = np.array([*packed[start : start + count], 0], np.uint8)[: count + count % 2] & 15
    halves = (data[::2] | data[1::2] << 4).tobytes()
    packed[start : start + len(halves)] = halves
    packed[start - 4 : start] = len(halves).to_bytes(4, "little")
    packed[tensor._tab.Pos + tensor._tab.Offset(6)] = tflite.TensorType.INT4
    return bytes(packed)


@pytest.mark.parametrize("inputs", [7, 8])
def test_weights_of_int4(inputs: int, rng: np.random.Generator) -> None:
    """They are the same numbers as int8."""
    weights = rng.integers(-7, 8, (5, inputs)).astype(np.int8)
    dense = w.FullyConnected(weights=weights, weight_scale=0.02, output_scale=0.4)
    kernel = rng.integers(-7, 8, (3, 3, 3, 5)).astype(np.int8)
    bias = np.zeros(3, np.int32)
    image = w.Convolution(weights=kernel, weight_scale=0.02, output_scale=0.4, bias=bias)
    for layer, shape in ((dense, (1, inputs)), (image, (1, 6, 6, 5))):
        graph = w.sequential([layer], input_shape=shape, input_scale=0.05)
        content = w.serialize(graph)
        packed = halved(content, "weights_0")
        assert packed != content
        programs = [compile_graph(load(each), EDGE) for each in (content, packed)]
        assert programs[0].to_bytes() == programs[1].to_bytes()
