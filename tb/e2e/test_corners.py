"""Corners of operators against LiteRT: precision of factors, 16-bit multipliers, ends of ranges."""

from typing import Any

import agreement
import networks as w
import numpy as np
import prerequisites
import pytest
import tflite

from celosia.sw.frontend.tflite import load
from celosia.sw.runtime.interpreter import InferenceSession

#: Every int8.
EVERY = np.arange(-128, 128).astype(np.int8)


def _function(kind: str, *constants: Any, scales: tuple[float, float], **options: Any) -> bytes:
    chain = w.Chain((1, 256), scales[0], 3)
    chain.operator(kind, constants=constants, scale=scales[1], zero_point=-5, **options)
    return w.serialize(chain.graph())


#: Decimal fractions whose quotient in single precision is a multiple of 1/8, so that results lie on
#: halves; in double precision it is slightly above that, then slightly below.
APART = [(0.05, 0.02), (0.05, 0.08), (0.07, 0.04), (0.13, 0.02), (0.21, 0.14), (0.25, 0.1)]

#: Operators with their constants and options.
SCALED: dict[str, tuple[Any, ...]] = {
    "ABS": (),
    "ADD": (w.Constant(np.array([7], np.int8), 0.03, 2),),
    "LEAKY_RELU": (),
    "MUL": (w.Constant(np.array([7], np.int8), 1.0, 6),),
    "PRELU": (w.Constant(np.full((1,), 2, np.int8), 0.5, 1),),
    "QUANTIZE": (),
    "RELU": (),
    "RELU6": (),
    "SUB": (w.Constant(np.array([7], np.int8), 0.03, 2),),
}


def _product(kind: str, dtype: str, scales: tuple[float, float, float]) -> bytes:
    """Return a product of every input with 1; those of uint8 have zero points."""
    offset, point = (128, 7) if dtype == "uint8" else (0, 0)
    image = (256, 1) if kind == "FULLY_CONNECTED" else (1, 16, 16, 1)
    chain = w.Chain(image, scales[0], 3 + offset, dtype)
    shape = (1, 1) if kind == "FULLY_CONNECTED" else (1, 1, 1, 1)
    weights = w.Constant(np.full(shape, 1 + point, dtype), scales[1], point)
    meaning: dict[str, Any] = {"scale": scales[2], "zero_point": offset - 5}
    windows: dict[str, Any] = {"strideH": 1, "strideW": 1, "padding": "VALID"}
    constants = [weights, w.Constant(np.zeros(1, np.int32), scales[0] * scales[1])]
    if kind == "FULLY_CONNECTED":
        windows = {}
    elif kind == "DEPTHWISE_CONV_2D":
        windows["depthMultiplier"] = 1
    if kind == "TRANSPOSE_CONV":
        inputs = [np.array(image, np.int32), weights, 0, constants[1]]
        chain.operator(kind, image, inputs=inputs, **meaning, **windows)
    else:
        chain.operator(kind, image, constants, **meaning, **windows)
    return w.serialize(chain.graph())


@pytest.mark.parametrize("scales", [(0.02, 2.5, 0.06), (0.01, 2.5, 0.03), (0.01, 2.5, 0.02)])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    "kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"]
)
def test_scales_are_multiplied_as_the_kernel_does(
    kind: str, dtype: str, scales: tuple[float, float, float]
) -> None:
    """Results lie on halves, or next to them if products are rounded to single precision."""
    content = _product(kind, dtype, scales)
    shape = load(content).tensors[0].shape if kind != "TRANSPOSE_CONV" else (1, 16, 16, 1)
    x = EVERY if dtype == "int8" else EVERY.view(np.uint8)
    agreement.compare(content, x.reshape(1, *shape), sizes="micro")


#: Operators of int16, of which the host runs all.
WIDE = {
    "ADD": (w.Constant(np.array([700], np.int16), 0.03),),
    "LEAKY_RELU": (),
    "MUL": (w.Constant(np.array([3], np.int16), 0.5),),
    "QUANTIZE": (),
    "RELU": (),
    "RELU6": (),
    "SUB": (w.Constant(np.array([700], np.int16), 0.03),),
}


@pytest.mark.parametrize("scales", APART)
@pytest.mark.parametrize("kind", WIDE)
def test_scales_of_int16_are_divided_as_the_kernel_does(
    kind: str, scales: tuple[float, float]
) -> None:
    chain = w.Chain((1, 4096), scales[0], 0, "int16")
    options: dict[str, Any] = {"alpha": 0.5} if kind == "LEAKY_RELU" else {}
    chain.operator(kind, constants=WIDE[kind], scale=scales[1], zero_point=0, **options)
    x = np.arange(-2048, 2048).astype(np.int16)
    agreement.compare(w.serialize(chain.graph()), x.reshape(1, 1, 4096), sizes="micro")


@pytest.mark.parametrize("scales", APART)
def test_means_divide_scales_as_the_kernel_does(scales: tuple[float, float]) -> None:
    """Of one row, so that results lie on halves."""
    chain = w.Chain((1, 1, 16, 16), scales[0], 3)
    axes = [np.array([1], np.int32)]
    chain.operator("MEAN", (1, 16, 16), axes, scale=scales[1], zero_point=-5)
    agreement.compare(w.serialize(chain.graph()), EVERY.reshape(1, 1, 1, 16, 16), sizes="micro")


@pytest.mark.parametrize("scales", APART)
@pytest.mark.parametrize("kind", SCALED)
def test_scales_are_divided_as_the_kernel_does(kind: str, scales: tuple[float, float]) -> None:
    options: dict[str, Any] = {"alpha": 0.5} if kind == "LEAKY_RELU" else {}
    content = _function(kind, *SCALED[kind], scales=scales, **options)
    program = agreement.compare(content, EVERY.reshape(1, 1, 256), sizes="micro")
    assert not program.host


def _convolution(factor: float, bias: str) -> bytes:
    """Return a convolution of int16 whose result is its input times a factor."""
    chain = w.Chain((1, 4, 64, 1), 1.0, dtype="int16")
    constants = [w.Constant(np.ones((1, 1, 1, 1), np.int8), factor), np.zeros(1, bias)]
    named = {"int32": tflite.TensorType.INT32, "int64": tflite.TensorType.INT64}[bias]
    options = {"padding": "VALID", "strideH": 1, "strideW": 1, "quantizedBiasType": named}
    chain.operator("CONV_2D", (1, 4, 64, 1), constants, scale=1.0, **options)
    return w.serialize(chain.graph())


@pytest.mark.parametrize("bias", ["int32", "int64"])
@pytest.mark.parametrize("factor", [0.99999, 0.9999, 0.499999, 0.75, 0.5])
def test_multipliers_next_to_a_power_of_two(factor: float, bias: str) -> None:
    """Cut to 16 bits they would be that power of two, which 16 bits do not hold."""
    x = np.linspace(-32768, 32767, 256).astype(np.int16).reshape(1, 1, 4, 64, 1)
    agreement.compare(_convolution(factor, bias), x, sizes="micro")


@pytest.mark.parametrize("ratio", [1.00001, 1.001, 1.5])
def test_hard_swish_of_scales_next_to_each_other(ratio: float) -> None:
    content = _function("HARD_SWISH", scales=(0.05, 0.05 / 128 * ratio))
    agreement.compare(content, EVERY.reshape(1, 1, 256), sizes="micro")


@pytest.mark.parametrize(
    ("start", "limit", "delta"),
    [(0, 7, 3), (1, 7, 3), (10, 0, -3), (10, 1, -3), (0, 1, 9), (-5, 6, 2), (0.0, 1.0, 0.3)],
)
def test_the_last_number_of_a_range(start: float, limit: float, delta: float) -> None:
    """Also where the span is no multiple of the step."""
    dtype = np.dtype(np.float32 if isinstance(start, float) else np.int32)
    numbers = [np.array(n, dtype) for n in (start, limit, delta)]
    count = len(np.arange(start, limit, delta))
    chain = w.Chain((1, count), dtype=dtype.name)
    chain.operator("RANGE", (count,), inputs=numbers)
    chain.operator("ADD", (1, count), inputs=[0, chain.number])
    content = w.serialize(chain.graph())
    agreement.compare(content, np.ones((1, 1, count), dtype), sizes="micro")


@pytest.mark.parametrize(
    ("begin", "end", "strides", "options", "shape"),
    [
        ((0, -2, 0), (1, 2, 5), (1, 1, 1), {"offset": True}, (1, 2, 5)),
        ((0, -4, -5), (1, 3, 2), (1, 1, 1), {"offset": True}, (1, 3, 2)),
        ((0, 1, 2), (1, 2, 3), (1, 1, 1), {"offset": True}, (1, 2, 3)),
        ((0, -1, 0), (1, 0, 5), (1, 1, 1), {"shrinkAxisMask": 2}, (1, 5)),
        ((0, -3, 0), (1, -1, 5), (1, 1, 1), {}, (1, 2, 5)),
        ((0, 3, 4), (1, 0, 0), (1, -1, -2), {}, (1, 3, 2)),
        ((0, 3, 4), (1, 0, 0), (1, -1, -2), {"endMask": 6}, (1, 4, 3)),
    ],
)
def test_slices_from_the_end(
    begin: tuple[int, ...],
    end: tuple[int, ...],
    strides: tuple[int, ...],
    options: dict[str, Any],
    shape: tuple[int, ...],
) -> None:
    """Ends may be offsets from a begin that counts from the end; strides may go backwards."""
    chain = w.Chain((1, 4, 5), 0.1)
    constants = [np.array(numbers, np.int32) for numbers in (begin, end, strides)]
    chain.operator("STRIDED_SLICE", shape, constants, **options)
    content = w.serialize(chain.graph())
    assert load(content).tensors[-1].shape == shape
    agreement.compare(content, EVERY[:20].reshape(1, 1, 4, 5), sizes="micro")


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_means_of_numbers_without_a_scale(dtype: str) -> None:
    """They are cut towards zero."""
    chain = w.Chain((1, 9, 3), dtype=dtype)
    chain.operator("MEAN", (1, 9), [np.array([2], np.int32)])
    x = np.stack([np.arange(-4, 5)] * 3, axis=-1)
    x[:, 0] += np.array([0, 1, 2] * 3)
    content = w.serialize(chain.graph())
    agreement.compare(content, x.astype(dtype).reshape(1, 1, 9, 3), sizes="micro")


@pytest.mark.parametrize("window", [(1, 2), (2, 3), (1, 300), (2, 300), (1, 257)])
@pytest.mark.parametrize("kind", ["int8", "uint8", "int16"])
def test_halves_of_means(kind: str, window: tuple[int, int]) -> None:
    """The kernel of uint8 rounds them up, the others away from zero; so does the host."""
    zero_point, count = {"uint8": 120}.get(kind, 0), window[0] * window[1]
    chain = w.Chain((1, *window, 5), 0.1, zero_point, kind)
    options = {"filterHeight": window[0], "filterWidth": window[1], "padding": "VALID"}
    chain.operator("AVERAGE_POOL_2D", (1, 1, 1, 5), strideH=1, strideW=1, **options)
    # Sums next to halves of the count, above and below zero.
    above = [n % count for n in (0, count // 2 - 1, count // 2, count // 2 + 1, count - 1)]
    x = (np.arange(count)[:, None] < above).reshape(1, 1, *window, 5)
    middle = np.array([-7, -2, -1, 0, 1, 5]).reshape(-1, 1, 1, 1, 1) + zero_point
    content = w.serialize(chain.graph())
    program = agreement.compare(content, (x + middle[:, None]).astype(kind), sizes="micro")
    assert bool(program.host) == (kind == "int16" or window[1] > 255)


def _moved(kind: str, source: Any, shape: Any, constants: Any, dtype: str, **options: Any) -> bytes:
    chain = w.Chain(source, 0.1, 3 if dtype == "int8" else 0, dtype)
    chain.operator(kind, shape, [np.array(each, np.int32) for each in constants], **options)
    return w.serialize(chain.graph())


#: Operators that read an input of 24 elements, by name: type, kind, shapes, constants, options.
MOVES: dict[str, tuple[Any, ...]] = {
    "crops": ("int8", "BATCH_TO_SPACE_ND", (4, 3, 2, 1), (1, 3, 3, 1), ([2, 2], [[1, 2], [1, 0]])),
    "crops of the end": ("int8", "BATCH_TO_SPACE_ND", (4, 6, 1), (2, 10, 1), ([2], [[0, 2]])),
    "crops of the start": ("int8", "BATCH_TO_SPACE_ND", (4, 6, 1), (2, 9, 1), ([2], [[3, 0]])),
    "paddings": ("int8", "SPACE_TO_BATCH_ND", (1, 6, 4), (2, 4, 4), ([2], [[1, 1]])),
    **{
        f"sums {exclusive}{reverse}": (
            *("int32", "CUMSUM", (2, 3, 4), (2, 3, 4), (1,)),
            {"exclusive": bool(exclusive), "reverse": bool(reverse)},
        )
        for exclusive in (0, 1)
        for reverse in (0, 1)
    },
}


@pytest.mark.parametrize("name", MOVES)
def test_ends_of_dimensions(name: str) -> None:
    dtype, kind, source, shape, constants, *more = MOVES[name]
    content = _moved(kind, source, shape, constants, dtype, **(more[0] if more else {}))
    x = (np.arange(24) * 5 % 17 - 7).astype(dtype).reshape(1, *source)
    agreement.compare(content, x, sizes="micro")


@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "int32", "int64"])
def test_casts_of_what_no_integer_holds(target: str) -> None:
    """Infinities, no number, and numbers at both ends of the type."""
    limits = np.iinfo(target)
    ends = [limits.min, limits.min - 1, limits.max, limits.max + 1, -0.9, 0.9, -1.5, 2.5]
    x = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, *ends], np.float32)
    chain = w.Chain((1, x.size), dtype="float32")
    chain.operator("CAST", dtype=target, scale=0, inDataType="float32", outDataType=target)
    agreement.compare(w.serialize(chain.graph()), x.reshape(1, 1, -1), sizes="micro")


@pytest.mark.parametrize("radius", [0, 1, 2, 7, 9])
def test_channels_that_are_near(radius: int) -> None:
    """As many after a channel as its radius, less one; powers may differ in the last bit."""
    chain = w.Chain((1, 1, 3, 8), dtype="float32")
    options = {"radius": radius, "alpha": 0.7, "beta": 1.0, "bias": 0.5}
    chain.operator("LOCAL_RESPONSE_NORMALIZATION", **options)
    x = np.random.default_rng(2).normal(size=(1, 1, 3, 8)).astype(np.float32)
    with InferenceSession(w.serialize(chain.graph()), config="micro") as session:
        (got,) = session.run(None, {"input": x})
    (wanted,) = prerequisites.litert_outputs(w.serialize(chain.graph()), x)
    np.testing.assert_allclose(got, wanted, rtol=2e-7)


@pytest.mark.parametrize("shape", [(2, 1, 1, 6), (2, 3, 4, 6), (2, 1, 1, 1), (1, 3, 4, 6)])
@pytest.mark.parametrize("kind", ["ADD", "MUL", "MAXIMUM"])
def test_constants_for_each_sample_of_a_file(kind: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(6)
    chain = w.Chain((2, 3, 4, 6), 0.1, 3)
    constant = w.Constant(rng.integers(-128, 128, shape).astype(np.int8), 0.1, 3)
    ends: dict[str, Any] = {} if kind == "MAXIMUM" else {"scale": 0.3, "zero_point": -5}
    chain.operator("RELU")
    chain.operator(kind, (2, 3, 4, 6), [constant], **ends)
    x = rng.integers(-128, 128, (3, 2, 3, 4, 6)).astype(np.int8)
    for sizes in ("micro", "micro,elementwise_products=true"):
        agreement.compare(w.serialize(chain.graph()), x, sizes=sizes)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_constant_outputs(dtype: str) -> None:
    """For each invocation again."""
    zero_point = {"uint8": 200}.get(dtype, 0)
    chain = w.Chain((1, 2), 0.1, zero_point, dtype)
    data = w.Constant(np.array([[1, 100, 120]], dtype), 0.5, zero_point)
    chain.operator("RESHAPE", (2, 1), [np.array([2, 1], np.int32)])
    first, ends = chain.number, dict[str, Any](scale=0.5, zero_point=zero_point)
    chain.operator("RESHAPE", (3, 1), inputs=[data, np.array([3, 1], np.int32)], **ends)
    content = w.serialize(chain.graph(first, chain.number))
    x = np.arange(6).astype(dtype).reshape(3, 1, 2)
    agreement.compare(content, x, sizes="micro")


@pytest.mark.parametrize("read_as", ["image", "output"])
def test_a_part_of_a_concatenation_that_others_read(read_as: str, rng: np.random.Generator) -> None:
    """By another name: a reshape is no work."""
    chain, parts = w.Chain((1, 1, 1, 6), 0.1, 3), []

    def product(channels: int) -> None:
        weights = rng.integers(-99, 100, (channels, 1, 1, chain.last.shape[3])).astype(np.int8)
        w.Convolution(
            weights=weights,
            weight_scale=0.01,
            bias=np.arange(channels, dtype=np.int32),
            output_scale=0.2,
        ).add(chain)

    for channels in (8, 5):
        chain.back_to(0)
        product(channels)
        image = chain.number
        chain.operator("RESHAPE", (1, channels), [np.array([1, channels], np.int32)])
        parts.append((image, chain.number))
    chain.operator("CONCATENATION", (1, 13), inputs=[row for _, row in parts], axis=1)
    ends = [chain.number, parts[0][0]]
    if read_as == "image":
        chain.back_to(parts[0][0])
        product(7)
        ends[1] = chain.number
    x = rng.integers(-128, 128, (4, 1, 1, 1, 6)).astype(np.int8)
    agreement.compare(w.serialize(chain.graph(*ends)), x, sizes="micro")
