"""Operators of arithmetic on the host: corners against LiteRT, and what is refused."""

from functools import partial
from typing import Any

import numpy as np
import prerequisites
import pytest
from agreement import compare
from networks import Chain, Constant, serialize

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.layers.node import ModelError
from celosia.sw.runtime.interpreter import open_session
from celosia.sw.runtime.session import InputError

_INT32, _FLOAT = np.iinfo(np.int32), np.finfo(np.float32)


def run(content: bytes, *inputs: np.ndarray) -> np.ndarray:
    """Return the only output of a model on the machine model."""
    program = compile_graph(load(content), preset("micro"))
    with open_session(program) as session:
        arrays = zip(inputs, program.inputs, strict=True)
        (result,) = session.run([x.reshape(1, *port.shape) for x, port in arrays])
    return result


def of_two(kind: str, a: Any, b: Any, result: str = "", **options: Any) -> tuple[bytes, np.ndarray]:
    """Return a model of two operands, the second one constant, and what it is run on."""
    first, second = np.asarray(a), np.asarray(b)
    chain = Chain(first.shape, dtype=first.dtype.name)
    shape = np.broadcast_shapes(first.shape, second.shape)
    chain.operator(kind, shape, [second], dtype=result or None, **options)
    return serialize(chain.graph()), first


_I, _F, _L, _B = (partial(np.array, dtype=k) for k in (np.int32, np.float32, np.int64, np.int8))

CORNERS = [
    ("ADD", _I([_INT32.max, -5]), _I([1, 3]), {}),
    ("SUB", _I([_INT32.min, -5]), _I([1, 3]), {}),
    ("MUL", _I([1 << 20, -7]), _I([1 << 15, 3]), {}),
    ("MUL", _L([1 << 40, -7]), _L([3, -3]), {}),
    ("ADD", _F([_FLOAT.max, -_FLOAT.max]), _F([_FLOAT.max, -_FLOAT.max]), {}),
    ("ADD", _F([-3, 0.5, 9]), _F([0, 0, 0]), {"fusedActivationFunction": "RELU6"}),
    ("SUB", _I([-3, 5, 9]), _I([0, 1, 0]), {"fusedActivationFunction": "RELU_N1_TO_1"}),
    ("DIV", _F([1, -1, 0.5]), _F([0, 0, 3]), {}),
    ("DIV", _I([-7, 7, -7, 7]), _I([2, 2, -2, -2]), {}),
    ("FLOOR_DIV", _I([-7, 7, -7, 7]), _I([2, 2, -2, -2]), {}),
    ("FLOOR_DIV", _F([-7, 7, -7.5, 7]), _F([2, 2.5, -2, -2]), {}),
    ("FLOOR_MOD", _I([-7, 7, -7, 8]), _I([2, -3, -2, -2]), {}),
    ("FLOOR_MOD", _F([-7, 7, -7.5, 8]), _F([2, -3, -2, -2]), {}),
    ("POW", _I([3, -3, 0, 50]), _I([4, 3, 0, 5]), {}),
    ("POW", _I([3, -3, 2, 50]), _I([7]), {}),
    ("POW", _F([1.1, -3, 2, 50]), _F([7]), {}),
    ("MAXIMUM", _F([np.nan, 1, -0.0]), _F([1, np.nan, 0.0]), {}),
    ("MINIMUM", _F([np.nan, 1, -0.0]), _F([1, np.nan, 0.0]), {}),
    ("SQUARED_DIFFERENCE", _I([1 << 17, -3]), _I([0, 4]), {}),
    ("EQUAL", _F([np.nan, 0.0, 1]), _F([np.nan, -0.0, 2]), {"result": "bool"}),
    ("LESS", _F([np.nan, 0.0, 1]), _F([np.nan, -0.0, 2]), {"result": "bool"}),
]


@pytest.mark.parametrize(("kind", "a", "b", "options"), CORNERS)
def test_corners_are_those_of_litert(kind, a, b, options) -> None:
    content, x = of_two(kind, a, b, **options)
    compare(content, x[None], sizes="micro")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("SIGN", [-2.5, 0, -0.0, 3]),
        ("FLOOR", [-2.5, 2.5, -0.5]),
        ("ABS", [-2.5, -0.0]),
        ("SQRT", [2, 0, 1e-40]),
        ("RSQRT", [2, 0, 3e38]),
        ("NEG", [0, -0.0, 1]),
        ("LOGISTIC", [-100, -9, -9.001, 16.62, 17, 0]),
        ("HARD_SWISH", [-4, -3, -1, 3, 4, 1e30]),
    ],
)
def test_functions_of_float(kind: str, values: list[float]) -> None:
    x = np.array(values, np.float32)
    chain = Chain(x.shape, dtype="float32")
    chain.operator(kind)
    compare(serialize(chain.graph()), x[None], sizes="micro")


def test_halves_are_rounded_to_even_numbers() -> None:
    chain = Chain((5,), dtype="float32")
    chain.operator("ROUND")
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5], np.float32)
    np.testing.assert_array_equal(run(serialize(chain.graph()), x)[0], [0, 2, 2, 0, -2])


def test_sums_of_bytes_saturate() -> None:
    """LiteRT's reference kernel does not saturate: it takes int8 for uint8."""
    chain = Chain((3, 4), 0.1, 3)
    chain.operator("SUM", (3,), [Constant([1])], scale=0.2, zero_point=5)
    x = np.array([[-128] * 4, [-1, 2, 3, 4], [127] * 4], np.int8)
    np.testing.assert_array_equal(run(serialize(chain.graph()), x)[0], [-128, 3, 127])


def _normalised(width: int) -> Chain:
    """Return LayerNormalization as Keras has it converted, its negation in floating point."""
    chain = Chain((1, width), 0.04, 7)
    axis, shape = Constant([1]), (1, 1)
    source = chain.number
    chain.operator("MEAN", shape, [axis], keepDims=True, scale=0.01, zero_point=-3)
    mean = chain.number
    chain.operator("DEQUANTIZE", dtype="float32")
    chain.operator("NEG")
    chain.operator("QUANTIZE", dtype="int8", scale=0.01, zero_point=3)
    negative = chain.number
    read: list[Any] = [source, mean]
    chain.operator("SQUARED_DIFFERENCE", (1, width), inputs=read, scale=0.05, zero_point=-128)
    chain.operator("MEAN", shape, [axis], keepDims=True, scale=0.02, zero_point=-128)
    chain.operator("ADD", shape, [Constant(_B([1]), 1e-3)], scale=0.02, zero_point=-128)
    chain.operator("RSQRT", shape, scale=0.05, zero_point=-128)
    root = chain.number
    chain.operator("MUL", (1, width), inputs=[source, root], scale=0.06, zero_point=2)
    scaled = chain.number
    chain.operator("MUL", shape, inputs=[negative, root], scale=0.06, zero_point=0)
    chain.operator("ADD", (1, width), inputs=[scaled, chain.number], scale=0.05, zero_point=1)
    return chain


def test_layer_normalisation(rng: np.random.Generator) -> None:
    content = serialize(_normalised(24).graph())
    for _ in range(5):
        x = rng.integers(-128, 128, (1, 24)).astype(np.int8)
        (known,) = prerequisites.litert_outputs(content, x)
        np.testing.assert_array_equal(run(content, x), known)
        assert np.std(known) > 10


def _bytes(kind: str, scales: tuple[float, ...], result: str = "int8", **about: Any) -> Chain:
    """Return a chain of an operator whose operands and result have these scales."""
    chain = Chain((1, 4), scales[0])
    constants = [Constant(_B([[1, 2, 3, 4]]), scale) for scale in scales[1:-1]]
    chain.operator(kind, None, constants, dtype=result, scale=scales[-1], **about)
    return chain


def _matrices(first: tuple[int, ...], second: tuple[int, ...]) -> Chain:
    chain = Chain(first, dtype="float32")
    chain.operator("BATCH_MATMUL", (2, 2), [np.zeros(second, np.float32)])
    return chain


#: Scales of an input and of a result, and how a message shows the second.
_SAME, _GOT = (0.1, 0.1), "got (0.10000000149011612, 0)"

REFUSED = [
    (_bytes("LESS", (1.5, 0.1, 0), "bool"), "wanted scales below 1, got 1.5"),
    (
        _bytes("SQUARED_DIFFERENCE", (1.0, 0.1, 1e-4)),
        "wanted a result of more than (scale of the inputs)^2 / 4096, got 2.44141",
    ),
    (_bytes("DIV", (1.0, 1e-4, 1e-4)), "wanted a factor below 2^23, got 1e+08"),
    (_bytes("LOG_SOFTMAX", _SAME), f"wanted a result of scale 1/16 and zero point 127, {_GOT}"),
    (_bytes("L2_NORMALIZATION", _SAME), f"wanted a result of scale 1/128 and zero point 0, {_GOT}"),
    (
        _bytes("REDUCE_MAX", (0.1, 0.1), inputs=[0, Constant([1])], keepDims=False),
        "wanted a result of shape (1,), got (1, 4)",
    ),
    (_bytes("MAXIMUM", (0.1, 0.1, 0.2)), "wanted the same scale and zero point on both sides"),
    (_bytes("LOGICAL_NOT", (0.1, 0.1)), "wanted bool, got int8 'input'"),
    (_matrices((2, 3), (4, 2)), "wanted as many columns as rows, got (2, 3) and (4, 2)"),
    (_matrices((2,), (4, 2)), "wanted 2 to 5 dimensions, got (2,) and (4, 2)"),
    (_matrices((2, 2, 2), (3, 2, 2)), "wanted batches that broadcast, got (2, 2, 2) and (3, 2, 2)"),
]


@pytest.mark.parametrize(("chain", "message"), REFUSED)
def test_what_is_refused(chain: Chain, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        load(serialize(chain.graph()))
    assert message in str(caught.value)


@pytest.mark.parametrize("kind", ["DIV", "FLOOR_DIV", "FLOOR_MOD"])
def test_a_zero_to_divide_by(kind: str) -> None:
    chain = Chain((3,), dtype="int32")
    second = chain.input("second", (3,), dtype="int32")
    chain.operator(kind, inputs=["input", second], dtype="int32")
    ones, some = np.ones(3, np.int32), np.array([1, 0, 2], np.int32)
    with pytest.raises(InputError, match="wanted numbers other than 0 to divide by, got 0"):
        run(serialize(chain.graph()), ones, some)
    np.testing.assert_array_equal(run(serialize(chain.graph()), some, ones).size, 3)


def test_a_negative_exponent_of_whole_numbers() -> None:
    content, x = of_two("POW", _I([3, 4]), _I([-1, 2]))
    with pytest.raises(InputError, match="wanted exponents of at least 0"):
        run(content, x)
