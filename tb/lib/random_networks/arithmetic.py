"""Random operators of arithmetic: all types, computed and constant inputs that broadcast."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from networks import Chain, Constant

from random_networks.core_layers import ACTIVATIONS
from random_networks.draw import Draw

_Maker = Callable[[Draw, str], None]

_REAL = ("float32",)
_NUMBERS = ("int32", "int64", "float32")
_BYTES = ("int8", "uint8")
_SCALED = (*_BYTES, "int16")


def _shape(draw: Draw, least: int = 1, most: int = 4) -> tuple[int, ...]:
    """Return a shape, most often of batch 1."""
    first = 1 if draw.chance(0.6) else draw.integer(1, 3)
    return (first, *(draw.few(9) for _ in range(draw.integer(least, most) - 1)))


def _part(draw: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape that broadcasts to another one."""
    some = tuple(1 if draw.chance(0.4) else extent for extent in shape)
    ways = (shape, shape, some, some[1:], (), shape[-1:])
    return ways[draw.integer(0, len(ways) - 1)]


def _values(draw: Draw, dtype: str, shape: Sequence[int]) -> np.ndarray:
    """Return contents of a type: small numbers mostly, so that some are equal."""
    if dtype in _BYTES:
        return draw.int8(shape).view(dtype)
    if dtype == "bool":
        return np.asarray(draw.rng.random(tuple(shape)) < float(draw.rng.choice([0.1, 0.5, 0.9])))
    if dtype == "float32":
        reach = float(draw.rng.choice([0.5, 3.0, 3.0, 30.0]))
        values = np.asarray(draw.rng.normal(0, reach, tuple(shape)), np.float32)
        return np.asarray(np.round(values * 2) / np.float32(2)) if draw.chance(0.2) else values
    reach = draw.integer(2, 1000) if draw.chance(0.9) else 1 << (15 if dtype == "int16" else 30)
    return np.asarray(draw.rng.integers(-reach, reach, tuple(shape)), dtype)


def _quantization(draw: Draw, dtype: str) -> dict[str, Any]:
    """Return a scale and zero point for bytes, an empty result for other types."""
    if dtype == "int16":
        return {"scale": draw.scale() / 256, "zero_point": 0}
    if dtype not in _BYTES:
        return {}
    return {"scale": draw.scale(), "zero_point": draw.zero_point() + 128 * (dtype == "uint8")}


def _positive(x: np.ndarray, zero: int) -> np.ndarray:
    """Return numbers that are not negative."""
    return np.maximum(x, np.array(zero, x.dtype)) if x.dtype == np.int8 else np.abs(x)


def _divisors(x: np.ndarray, zero: int) -> np.ndarray:
    """Return numbers without zeros."""
    return np.where(x == zero, np.array(zero - 1 if zero > 0 else zero + 1, x.dtype), x)


def _exponents(x: np.ndarray, zero: int) -> np.ndarray:
    """Return small numbers that are not negative."""
    return np.asarray(np.abs(x) % x.dtype.type(4))


def _small(x: np.ndarray, zero: int) -> np.ndarray:
    """Return numbers whose exponentials int8 can still hold."""
    return np.minimum(x, np.float32(4))


def _above(x: np.ndarray, zero: int) -> np.ndarray:
    """Return numbers whose logarithms int8 can hold."""
    return np.maximum(np.abs(x), np.float32(0.01))


def _given(x: np.ndarray, zero: int) -> np.ndarray:
    return x


_Change = Callable[[np.ndarray, int], np.ndarray]


def _begin(
    draw: Draw, dtype: str, shape: Sequence[int], change: _Change = _given, **about: Any
) -> None:
    """Begin a graph with an input of a type."""
    quantization = about or _quantization(draw, dtype)
    draw.chain = Chain(shape, dtype=dtype, **quantization)
    zero = quantization.get("zero_point", 0)
    count = draw.integer(1, 3)
    draw.inputs = np.stack([change(_values(draw, dtype, shape), zero) for _ in range(count)])


def _other(
    draw: Draw, dtype: str, shape: Sequence[int], change: _Change = _given, **about: Any
) -> Any:
    """Return a further operand, which is computed or constant."""
    quantization = about or _quantization(draw, dtype)
    zero = quantization.get("zero_point", 0)
    if not draw.chance(0.5):
        return Constant(change(_values(draw, dtype, shape), zero), **quantization)
    values = [change(_values(draw, dtype, shape), zero) for _ in draw.inputs]
    draw.more.append(np.stack(values))
    return draw.chain.input("second", shape, dtype=dtype, **quantization)


def _fused(draw: Draw) -> dict[str, Any]:
    name = draw.one_of(*ACTIVATIONS) if draw.chance(0.3) else "NONE"
    return {"fusedActivationFunction": name}


def _rounded(draw: Draw, scale: float = 0.0) -> None:
    """Quantise results of float32 whose last bits depend on the C library."""
    scale = scale or float(2.0 ** draw.rng.uniform(-8, -2))
    draw.chain.operator("QUANTIZE", dtype="int8", scale=scale, zero_point=draw.integer(-99, 99))


def _binary(
    *types: str,
    change: _Change = _given,
    result: str = "",
    fused: bool = False,
    alike: bool = False,
    least: float = 0.0,
    base: _Change = _given,
    library: bool = False,
) -> _Maker:
    """Return the maker of operators of two inputs.

    ``change`` makes second inputs of any contents, ``base`` first ones. ``alike``: all of one
    scale. ``least``: of the scale of results over the square of the greater of the inputs'.
    ``library``: float32 is computed by the C library.
    """

    def make(draw: Draw, kind: str) -> None:
        dtype = draw.one_of(*types)
        shape = _shape(draw)
        first, second = shape, _part(draw, shape)
        if draw.chance(0.2) and second:
            first, second = second, first
        quantization = _quantization(draw, dtype)
        _begin(draw, dtype, first, base, **quantization)
        again = quantization if alike else _quantization(draw, dtype)
        number = draw.chain.number
        read = [number, _other(draw, dtype, second, change, **again)]
        if draw.chance(0.3) and change is base is _given:
            read = read[::-1]
        output = quantization if alike else _quantization(draw, dtype)
        if least and output:
            bound = least * max(quantization["scale"], again["scale"]) ** 2
            output["scale"] = max(output["scale"], bound * float(draw.rng.uniform(1.01, 3)))
        if result:
            output = {}
        extents = np.broadcast_shapes(first, second)
        options = _fused(draw) if fused else {}
        chain = draw.chain
        chain.operator(kind, extents, inputs=read, dtype=result or dtype, **output, **options)
        if library and dtype == "float32":
            _rounded(draw)

    return make


def _unary(
    *types: str,
    change: _Change = _given,
    library: bool = False,
    least: int = 1,
    output: dict[str, Any] | None = None,
    options: Callable[[Draw], dict[str, Any]] = lambda draw: {},
) -> _Maker:
    """Return the maker of operators of one input."""

    def make(draw: Draw, kind: str) -> None:
        dtype = draw.one_of(*types)
        _begin(draw, dtype, _shape(draw, least), change)
        quantization = {} if dtype not in _SCALED else dict(output or _quantization(draw, dtype))
        if output and dtype == "uint8":
            quantization["zero_point"] += 128
        draw.chain.operator(kind, **quantization, **options(draw))
        if library and dtype == "float32":
            _rounded(draw)

    return make


def _reduced(*types: str, alike: bool = False, product: bool = False) -> _Maker:
    """Return the maker of reductions."""

    def make(draw: Draw, kind: str) -> None:
        dtype = draw.one_of(*types)
        shape = _shape(draw)
        _begin(draw, dtype, shape)
        rank = len(shape)
        axes = [axis for axis in range(rank) if draw.chance(0.5)] or [rank - 1]
        keep = draw.chance(0.5)
        left = [1 if n in axes else extent for n, extent in enumerate(shape)]
        left = left if keep else [extent for n, extent in enumerate(shape) if n not in axes]
        count = math.prod(shape[axis] for axis in axes)
        quantization: dict[str, Any] = {}
        if dtype in _SCALED and not alike:
            quantization = _quantization(draw, dtype)
            if product:
                size = 64.0 if dtype == "int8" else 400.0
                about = count * math.log(draw.chain.scale) + (count - 1) * math.log(size)
                quantization["scale"] = math.exp(float(np.clip(about, -12, 12)))
            elif kind == "SUM":
                quantization["scale"] *= math.sqrt(count)
        given = [axis - rank if draw.chance(0.3) else axis for axis in axes]
        draw.chain.operator(kind, left, [Constant(given)], keepDims=keep, **quantization)

    return make


def _place(draw: Draw, kind: str) -> None:
    dtype = draw.one_of("int8", "uint8", "int32", "float32", "bool")
    shape = _shape(draw)
    _begin(draw, dtype, shape)
    axis = draw.integer(0, len(shape) - 1)
    left = [extent for n, extent in enumerate(shape) if n != axis]
    given = axis - len(shape) if draw.chance(0.3) else axis
    name = draw.one_of("int32", "int64")
    draw.chain.operator(kind, left, [Constant(given)], dtype=name, outputType=name)


def _running(draw: Draw, kind: str) -> None:
    shape = _shape(draw)
    _begin(draw, draw.one_of(*_NUMBERS), shape)
    axis = Constant(draw.integer(-len(shape), len(shape) - 1))
    flags: dict[str, Any] = {"exclusive": draw.chance(0.5), "reverse": draw.chance(0.5)}
    draw.chain.operator(kind, None, [axis], **flags)


def _slope(draw: Draw, kind: str) -> None:
    dtype = draw.one_of(*_BYTES, "float32")
    shape = _shape(draw, 2)
    _begin(draw, dtype, shape)
    alpha = tuple(1 if draw.chance(0.5) else extent for extent in shape[1:])
    given = _values(draw, dtype, alpha)
    quantization = _quantization(draw, dtype)
    if quantization:
        quantization["scale"] = 0.01
    draw.chain.operator(kind, None, [Constant(given, **quantization)], **_quantization(draw, dtype))


def _matrices(draw: Draw, kind: str) -> None:
    dtype = draw.one_of("int8", "int16", "float32")
    rows, depth, columns = (draw.few(12) for _ in range(3))
    batch = _shape(draw, 1, 3)[1:] if draw.chance(0.3) else _shape(draw, 1, 2)
    others = _part(draw, batch) if batch else ()
    turns = draw.chance(0.5), draw.chance(0.5)
    first = (*batch, *((depth, rows) if turns[0] else (rows, depth)))
    second = (*others, *((columns, depth) if turns[1] else (depth, columns)))
    _begin(draw, dtype, first)
    read = [draw.chain.number, _other(draw, dtype, second)]
    shape = (*np.broadcast_shapes(batch, others), rows, columns)
    quantization = _quantization(draw, dtype)
    if quantization:
        quantization["scale"] *= 20 * math.sqrt(depth)
    draw.chain.operator(kind, shape, inputs=read, adjX=turns[0], adjY=turns[1], **quantization)


def _near(draw: Draw) -> dict[str, Any]:
    scale = float(draw.rng.uniform(0.01, 1))
    return {"radius": draw.integer(1, 4), "bias": 1.0, "alpha": scale, "beta": 0.5}


def _pool(draw: Draw, kind: str) -> None:
    batch, high, wide, channels = (draw.integer(1, 2), *draw.pair(9), draw.few(6))
    _begin(draw, "float32", (batch, high, wide, channels))
    window, stride = draw.pair(3), draw.pair(2)
    padding = draw.one_of("SAME", "VALID")
    if window[0] > high or window[1] > wide:
        padding = "SAME"
    counts = draw.chain.positions(window, stride, (1, 1), padding)
    names = ("filterHeight", "filterWidth", "strideH", "strideW")
    options: dict[str, Any] = dict(zip(names, (*window, *stride), strict=True))
    shape = (batch, *counts, channels)
    draw.chain.operator(kind, shape, padding=padding, **options, **_fused(draw))


def _alpha(draw: Draw) -> dict[str, Any]:
    return {"alpha": float(draw.rng.uniform(-0.5, 1))}


def _beta(draw: Draw) -> dict[str, Any]:
    return {"beta": float(draw.rng.uniform(0.2, 2))}


_QUOTIENT = _binary(*_BYTES, "int32", "float32", change=_divisors, fused=True)
_ORDER = _binary(*_SCALED, *_NUMBERS, result="bool")
_EQUALITY = _binary(*_SCALED, *_NUMBERS, "bool", result="bool")
_EXTREME = _binary(*_SCALED, *_NUMBERS, alike=True)
_LOGIC = _binary("bool")
_SUMS = _reduced(*_SCALED, *_NUMBERS)
_EXTREMES = _reduced(*_SCALED, *_NUMBERS, alike=True)

#: Makers of graphs of one operator, by kind.
KINDS: dict[str, _Maker] = {
    "ADD": _binary("int32", "int64", "float32", fused=True),
    "SUB": _binary("int32", "int64", "float32", fused=True),
    "MUL": _binary("int32", "int64", "float32", fused=True),
    "DIV": _QUOTIENT,
    "FLOOR_DIV": _binary("int32", "float32", change=_divisors),
    "FLOOR_MOD": _binary(*_NUMBERS, change=_divisors),
    "POW": _binary("int32", "float32", base=_positive, change=_exponents, library=True),
    "SQUARED_DIFFERENCE": _binary("int8", "int32", "float32", least=2.0**-12),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), _EXTREME),
    **dict.fromkeys(("EQUAL", "NOT_EQUAL"), _EQUALITY),
    **dict.fromkeys(("GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"), _ORDER),
    **dict.fromkeys(("LOGICAL_AND", "LOGICAL_OR"), _LOGIC),
    "LOGICAL_NOT": _unary("bool"),
    "ABS": _unary("int8", "int32", "float32"),
    "NEG": _unary(*_NUMBERS),
    "SIGN": _unary("int32", "float32"),
    **dict.fromkeys(("CEIL", "FLOOR", "ROUND", "SQUARE", "RELU", "RELU6"), _unary(*_REAL)),
    **dict.fromkeys(("RELU_0_TO_1", "RELU_N1_TO_1", "HARD_SWISH"), _unary(*_REAL)),
    **dict.fromkeys(("SQRT", "RSQRT"), _unary(*_REAL, change=_positive)),
    **dict.fromkeys(("COS", "SIN", "TANH", "LOGISTIC", "ELU"), _unary(*_REAL, library=True)),
    "EXP": _unary(*_REAL, change=_small, library=True),
    "LOG": _unary(*_REAL, change=_above, library=True),
    "GELU": _unary(*_REAL, library=True, options=lambda draw: {"approximate": draw.chance(0.5)}),
    "LEAKY_RELU": _unary(*_REAL, options=_alpha),
    "PRELU": _slope,
    "SOFTMAX": _unary(*_REAL, library=True, options=_beta),
    "LOG_SOFTMAX": _unary(
        *_BYTES, "float32", library=True, output={"scale": 1 / 16, "zero_point": 127}
    ),
    "L2_NORMALIZATION": _unary(*_BYTES, "float32", output={"scale": 1 / 128, "zero_point": 0}),
    "LOCAL_RESPONSE_NORMALIZATION": _unary(*_REAL, library=True, least=4, options=_near),
    "L2_POOL_2D": _pool,
    **dict.fromkeys(("MEAN", "SUM"), _SUMS),
    "REDUCE_PROD": _reduced("int8", "int16", *_NUMBERS, product=True),
    **dict.fromkeys(("REDUCE_MAX", "REDUCE_MIN"), _EXTREMES),
    **dict.fromkeys(("REDUCE_ALL", "REDUCE_ANY"), _reduced("bool")),
    "CUMSUM": _running,
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), _place),
    "BATCH_MATMUL": _matrices,
}


def operator(draw: Draw, kind: str) -> None:
    """Make a graph of an operator of a kind."""
    KINDS[kind](draw, kind)


def arithmetic(draw: Draw) -> None:
    """Make a graph of one operator of arithmetic."""
    operator(draw, draw.one_of(*KINDS))
