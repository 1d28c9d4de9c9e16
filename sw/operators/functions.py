"""Functions of one element: of int8 by a table of 256 entries, of int16, float32 on the host.

A table holds the result of LiteRT's kernel for every int8. Most kernels fill such a table,
in single precision; where the C library's functions are not rounded correctly, one table in about
15,000 of TANH, GELU and ELU differs, by one entry. RSQRT and SQRT of integers are defined below
zero, too, where the kernels stop.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tflite

from celosia.sw.ir.graph import Quantization
from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.lowering import lookup
from celosia.sw.layers.multiplier import quantize_multiplier
from celosia.sw.layers.node import ModelError, Node, require_per_tensor
from celosia.sw.layers.quantize import single_factor
from celosia.sw.layers.record import (
    NUMBERS,
    SAME,
    Attributes,
    Kernel,
    Operator,
    Shape,
    Table,
    by_type,
    require,
)
from celosia.sw.layers.tables import BYTES, ENTRIES, of_kernel, table
from celosia.sw.operators import real, wide
from celosia.sw.operators.exponentials import saturated
from celosia.sw.operators.fixed_point import (
    MOST_FACTOR,
    centred,
    finished,
    halved,
    inverse_root,
    meaning,
    multiplied,
    products,
    quotients,
    rescaled,
    single,
    times,
)
from celosia.sw.operators.plain import of_two
from celosia.sw.operators.real import of_each

_REAL = "float32"

#: The only scale that LiteRT's kernel of LOGISTIC takes for its result.
_LOGISTIC_SCALE = 1 / 256


def _populated(function: Callable[[np.ndarray], np.ndarray]) -> Table:
    """Return the table of a function on float32: ``LUTPopulate`` of TensorFlow Lite's kernels."""

    def fill(source: Quantization, output: Quantization, _: dict[str, Any]) -> np.ndarray:
        inputs = source.scales[0] * (BYTES - source.zero_point).astype(np.float32)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            scaled = function(inputs) * (real.ONE / output.scales[0])
        # Past this they saturate with any zero point.
        scaled = np.clip(scaled, -ENTRIES, ENTRIES)
        integers = np.trunc(scaled)
        away = np.abs(scaled - integers) >= np.float32(0.5)
        return integers + np.copysign(away.astype(np.float32), scaled) + output.zero_point

    return fill


def _gelu(attributes: dict[str, Any]) -> real.Function:
    return real.gelu_by_tanh if attributes["approximate"] else real.gelu


def _either_gelu(
    source: Quantization, output: Quantization, attributes: dict[str, Any]
) -> np.ndarray:
    return _populated(_gelu(attributes))(source, output, attributes)


def _leaky_relu(
    source: Quantization, output: Quantization, attributes: dict[str, Any]
) -> np.ndarray:
    x = BYTES - source.zero_point
    factor = source.scales[0] * np.float32(attributes["alpha"]) / output.scales[0]
    above = multiplied(x, float(source.scales[0] / output.scales[0]))
    return output.zero_point + np.where(x >= 0, above, multiplied(x, float(factor)))


def _absolute(source: Quantization, output: Quantization, _: dict[str, Any]) -> np.ndarray:
    x = np.abs(BYTES - source.zero_point)
    if source.scale != output.scale:
        x = multiplied(x, float(source.scales[0] / output.scales[0]))
    return output.zero_point + x


def _negative(source: Quantization, output: Quantization, _: dict[str, Any]) -> np.ndarray:
    """Return the negated integers; the least one is its own negative."""
    return np.where(BYTES == -128, BYTES, -BYTES)


def _square_root(source: Quantization, output: Quantization, _: dict[str, Any]) -> np.ndarray:
    """Return square roots, rounded down; those of numbers below zero are zero."""
    x = np.maximum(BYTES - source.zero_point, 0).astype(np.float32)
    return np.trunc(np.sqrt(source.scales[0] * x) / output.scales[0]) + output.zero_point


def _reciprocal_root(source: Quantization, output: Quantization, _: dict[str, Any]) -> np.ndarray:
    """Return 1 / √x; the greatest result stands for numbers not above zero."""
    factor = 1 / float(np.sqrt(source.scales[0]) * output.scales[0])
    multiplier, shift = quantize_multiplier(factor)
    if not -12 < shift <= 30 or factor >= MOST_FACTOR:
        raise ValueError(f"wanted factors from 2^-12 to 2^30, got {factor:.9g}")
    values = np.full(ENTRIES, 127, np.int64)
    for entry, x in enumerate((BYTES - source.zero_point).tolist()):
        if x > 0:
            root, up = inverse_root(x)
            fine = times(np.array([1]), root, up + 20)
            values[entry] = times(fine, multiplier, shift - 20)[0] + output.zero_point
    return values


def _short(multiplier: int) -> int:
    """Return a Q31 multiplier as Q15."""
    return min((multiplier + (1 << 15)) >> 16, (1 << 15) - 1)


def _shorthalved(x: np.ndarray, times: int) -> np.ndarray:
    """Return x / 2^times of 16 bits; from 16 on the kernel's mask is all ones, or -1."""
    return halved(x, times) if times < 16 else np.where(x < 0, -1, 1)


def _hard_swish(source: Quantization, output: Quantization, _: dict[str, Any]) -> np.ndarray:
    """Return x · relu6(x + 3) / 6 in the 16-bit integers of the kernel."""
    fine = source.scales[0] / np.float32(128)
    ratio = float(fine / output.scales[0])
    if not ratio < 1:
        raise ValueError(f"wanted an output scale above 1/128 of the input's, got 1/{128 * ratio}")
    multiplier, shift = quantize_multiplier(ratio)
    slope, up = quantize_multiplier(float(fine / (np.float32(3) / np.float32(1 << 15))))
    x = (BYTES - source.zero_point) << 7
    scaled = (x * _short(multiplier) + (1 << 14)) >> 15
    # 3 becomes 2^15; the last bit of a left shift comes after the multiplication.
    gate = saturated(x << max(up - 1, 0), 16)
    gate = (gate * _short(slope) + (1 << 14)) >> 15
    gate = saturated(gate << int(up > 0), 16)
    gate = (_shorthalved(gate, max(-up, 0)) + (1 << 15)) >> 1
    product = np.trunc(gate * scaled / (1 << 15)).astype(np.int64)
    return _shorthalved(product, -shift) + output.zero_point


def same_shape(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    """Return the shape of the only operand: shape rule of functions of one element."""
    require(len(operator.sources) == 1, "1 input", len(operator.sources))
    return [operator.sources[0].shape]


def _read_gelu(node: Node) -> dict[str, Any]:
    options = node.options(tflite.GeluOptions)
    return {"approximate": bool(options.Approximate()) if options else False}


def _gelu_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    attributes.flag("approximate")
    return same_shape(operator, attributes)


def _leaky_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    attributes.real("alpha")
    return same_shape(operator, attributes)


def _read_leaky_relu(node: Node) -> dict[str, Any]:
    alpha = float(node.require_options(tflite.LeakyReluOptions).Alpha())
    if not math.isfinite(alpha):
        raise ModelError(f"wanted a finite alpha, got {alpha}")
    return {"alpha": alpha}


def _hard_swish_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    (source,), (result,) = operator.sources, operator.results
    if source.dtype == "float32":
        return same_shape(operator, attributes)
    ratio = single_factor(single(source), np.float32(1 / 128), over=single(result))
    got = f"{source.scale:.6g} and {result.scale:.6g}"
    require(ratio < 1, "a result of more than 1/128 of the input's scale", got)
    return same_shape(operator, attributes)


def _logistic_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    scale = operator.results[0].scale
    good = operator.sources[0].dtype != "int8" or scale == _LOGISTIC_SCALE
    require(good, "a result of scale 1/256", f"{scale:.6g}")
    return _tanh_shapes(operator, attributes)


def _tanh_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    scale = operator.results[0].scale
    good = operator.sources[0].dtype != "int16" or scale == wide.ONE
    require(good, "a result of scale 1/32768", f"{scale:.6g}")
    return same_shape(operator, attributes)


def _read_prelu(node: Node) -> dict[str, Any]:
    node.require_inputs(2)
    constants, slope = node.constant(1, (np.int8, np.float32), "alpha"), node.tensor(1)
    if slope.dtype == np.float32:
        return {}
    require_per_tensor(slope)
    values = np.unique(constants)
    assert slope.quantization is not None
    if values.size != 1:
        return {}
    alpha = int(values[0]) - slope.quantization.zero_point
    return {"alpha": alpha, "alpha_scale": slope.quantization.scale}


def _prelu_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    require(len(operator.sources) == 2, "2 inputs", len(operator.sources))
    source, alpha = operator.sources
    shape, slope = source.shape, alpha.shape
    real_alpha = alpha.dtype == _REAL
    good = alpha.dtype in ("int8", _REAL) and real_alpha == (source.dtype == _REAL)
    require(good, "int8 alpha, or float32 of float32", alpha.dtype)
    pairs = zip(reversed(slope), reversed(shape), strict=False)
    good = len(slope) <= len(shape) and all(n in (1, extent) for n, extent in pairs)
    require(good, "alpha to broadcast", f"{slope} on {shape}")
    return [shape]


def _run_prelu(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the first input, where below zero times the second, which may broadcast."""
    (source, alpha), (output,) = operator.sources, operator.results
    x, slope = centred(operator, arrays)
    above = rescaled(x, single_factor(single(source), over=single(output)))
    factor = single_factor(single(source), single(alpha), over=single(output))
    return finished(np.where(x >= 0, above, rescaled(x * slope, factor)), output)


ALONE = "a table of 256 entries, part of the previous layer if nothing else reads its result"


def by_table(fill: Table) -> Kernel:
    """Return the kernel for the host of a function that ``fill`` tabulates."""

    def run(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        (source,), (output,) = operator.sources[:1], operator.results
        ends = meaning(source), meaning(output)
        return [table(fill, *ends, operator.attributes)[arrays[0].view(np.uint8)]]

    return run


def _run_gelu(operator: HostOperator, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    way = wide.tabulated if operator.sources[0].dtype == "int16" else of_each
    return way(_gelu(operator.attributes))(operator, arrays)


def _function(kind: str, fill: Table, *others: str, **fields: Any) -> Operator:
    """Return the record of a function that a table does for int8, and ``real`` for other types."""
    kernels = {"plain": fields.pop("kernel", None) or of_each(fields.pop("real"))}
    if "int16" in fields:
        kernels["int16"] = fields.pop("int16")
    return Operator(
        kind=kind,
        types=(("int8", *others), SAME),
        kernel=by_type(int8=by_table(fill), **kernels),
        table=fill,
        lower=lookup,
        core=f"int8: {ALONE}",
        host=", ".join(("int8", *others)),
        **{"shapes": same_shape, **fields},
    )


def _plain(kind: str, function: real.Function, *types: str) -> Operator:
    """Return the record of a function that has no int8."""
    return Operator(
        kind=kind,
        shapes=same_shape,
        types=(types, SAME),
        kernel=of_each(function),
        host=", ".join(types),
    )


OPERATORS = (
    _function("ABS", _absolute, "int16", _REAL, "int32", real=np.abs, int16=wide.absolute),
    _function("ELU", _populated(real.elu), _REAL, real=real.elu),
    _function(
        "EXP",
        _populated(real.exponential),
        *("int16", _REAL),
        real=real.exponential,
        int16=wide.tabulated(real.exponential),
    ),
    _function(
        "GELU",
        _either_gelu,
        *("int16", _REAL),
        kernel=_run_gelu,
        read=_read_gelu,
        shapes=_gelu_shapes,
    ),
    _function("HARD_SWISH", _hard_swish, _REAL, real=real.hard_swish, shapes=_hard_swish_shapes),
    _function(
        "LEAKY_RELU",
        _leaky_relu,
        *("int16", _REAL),
        kernel=lambda operator, arrays: [real.leaky(arrays[0], operator.attributes["alpha"])],
        int16=wide.leaky,
        read=_read_leaky_relu,
        shapes=_leaky_shapes,
    ),
    _function(
        "LOG",
        _populated(lambda x: np.where(x > 0, real.logarithm(x), -np.inf)),
        *("int16", _REAL),
        real=real.logarithm,
        int16=wide.tabulated(real.logarithm, -(1 << 15)),
    ),
    _function(
        "LOGISTIC",
        _populated(lambda x: real.ONE / (real.ONE + real.exponential(-x))),
        *("int16", _REAL),
        real=real.logistic,
        int16=wide.logistic,
        shapes=_logistic_shapes,
    ),
    _function("NEG", _negative, "int16", *NUMBERS, real=np.negative, keeps_scale=True),
    _function(
        "RSQRT",
        _reciprocal_root,
        *("int16", _REAL),
        real=real.reciprocal_root,
        int16=wide.tabulated(real.reciprocal_root, (1 << 15) - 1),
    ),
    _function("SQRT", _square_root, "int16", _REAL, real=np.sqrt, int16=wide.square_root),
    _function(
        "TANH",
        _populated(real.tanh),
        *("int16", _REAL),
        real=real.tanh,
        int16=wide.tanh,
        shapes=_tanh_shapes,
    ),
    _plain("CEIL", np.ceil, _REAL),
    _plain("COS", real.cosine, _REAL),
    _plain("FLOOR", np.floor, _REAL),
    _plain("ROUND", np.rint, _REAL),
    _plain("SIGN", np.sign, _REAL, "int32"),
    _plain("SIN", real.sine, _REAL),
    _plain("SQUARE", np.square, _REAL),
    Operator(
        kind="PRELU",
        read=_read_prelu,
        shapes=_prelu_shapes,
        types=(("int8", "int16", _REAL), SAME),
        aside=(1,),
        kernel=by_type(
            int8=_run_prelu,
            int16=_run_prelu,
            plain=of_two(lambda x, slope: np.where(x >= 0, x, x * slope)),
        ),
        lower=lookup,
        table=of_kernel(_run_prelu, "alpha"),
        single="alpha",
        factors=lambda graph, o: [*quotients(graph, o), *products(graph, o)],
        broadcasts=True,
        core=f"int8, one slope: {ALONE}",
        host="int8, int16 by int8, float32; a slope for each channel or element",
    ),
)
