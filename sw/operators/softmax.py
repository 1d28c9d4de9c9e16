"""SOFTMAX in the integer arithmetic of LiteRT's reference kernel, and in that of float32.

Fixed-point numbers are those of ``exponentials``, of 32 bits.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tflite

from celosia.hw.arch.config import SOFTMAX_ELEMENTS
from celosia.sw.ir.graph import Operation
from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.lowering import Lowering
from celosia.sw.layers.multiplier import quantize_multiplier
from celosia.sw.layers.node import ModelError, Node
from celosia.sw.layers.record import SAME, Attributes, Operator, Shape, by_type, require
from celosia.sw.layers.spec import Windows
from celosia.sw.operators import wide
from celosia.sw.operators.exponentials import decayed, digits, high_product, reciprocal
from celosia.sw.operators.fixed_point import halved
from celosia.sw.operators.real import exponential

#: The only scale and zero point that a result of SOFTMAX can have.
_OUTPUT = (1 / 256, -128)

#: Part by which the scale of int16 may differ from 1/32768, which the kernel takes for it.
_NEAR = 0.001

_ONE = (1 << 31) - 1

#: Integer bits of the differences that are exponentiated, and of their sums.
_DIFFERENCE_BITS = 5
_SUM_BITS = 12

#: Lower bound of a scale times a factor, excluded.
_LEAST = 2.0 ** (_DIFFERENCE_BITS - 31)


def _factor(scale: float, beta: float) -> float:
    """Return the factor of differences, from two numbers as float32 holds them."""
    return float(np.float32(scale)) * float(np.float32(beta))


def exponentials(scale: float, beta: float) -> np.ndarray:
    """Return exponentials of the differences 0 to −255, int64, with 31 bits after the point.

    - ``scale``, ``beta``: as in ``softmax``; it raises ValueError in the same case.
    """
    step = _factor(scale, beta)
    if not step > _LEAST:
        raise ValueError(f"scale * beta: wanted more than 2^-26, got {step:.6g}")
    real = min(step * (1 << (31 - _DIFFERENCE_BITS)), float(_ONE))
    multiplier, shift = quantize_multiplier(real)
    # Differences past the radius would leave 32 bits; their exponentials count as nothing.
    radius = (((1 << _DIFFERENCE_BITS) - 1) << (31 - _DIFFERENCE_BITS)) >> shift
    below = np.arange(256)
    table = decayed(high_product(-np.minimum(below, radius) << shift, multiplier))
    return np.where(below <= radius, table, 0)


def softmax(values: np.ndarray, scale: float, beta: float = 1.0) -> np.ndarray:
    """Return softmax over the last dimension, with scale 1/256 and zero point -128.

    - ``values``: of any zero point.
    - ``scale``: of ``values``, as float32 holds it.
    - ``beta``: factor on the values, as float32 holds it.

    The result is that of LiteRT's reference kernel. Where that aborts, because a row's exponentials
    sum to 512 times the greatest or more, all -128. Raises ValueError if ``values`` are not int8,
    or scale · beta is not more than 2^-26.
    """
    if values.dtype != np.int8:
        raise ValueError(f"values: wanted int8, got {values.dtype}")
    table = exponentials(scale, beta)
    wide = values.astype(np.int64)
    index = wide.max(axis=-1, keepdims=True) - wide
    sums = halved(table, _SUM_BITS)[index].sum(axis=-1, keepdims=True)
    bits = digits(sums) - (31 - _SUM_BITS) - 1
    fits = bits <= 8
    shares = reciprocal((sums << np.where(fits, _SUM_BITS - bits, 0)) - (1 << 31))
    result = halved(high_product(table[index], shares), np.where(fits, bits + 31 - 8, 32))
    return np.where(fits & (table[index] > 0), np.minimum(result - 128, 127), -128).astype(np.int8)


def _read(node: Node) -> dict[str, Any]:
    node.require_inputs(1)
    beta = float(node.require_options(tflite.SoftmaxOptions).Beta())
    if not math.isfinite(beta):
        raise ModelError(f"wanted a finite beta, got {beta}")
    return {"beta": beta}


def _shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    (source,), (result,) = operator.sources, operator.results
    require(bool(source.shape), "at least 1 dimension")
    beta = attributes.real("beta")
    if source.dtype == "float32":
        return [source.shape]
    got = (result.scale, result.zero_point)
    if source.dtype == "int16":
        good = abs(result.scale / wide.ONE - 1) < _NEAR and result.zero_point == 0
        require(good, "a result of scale 1/32768 and zero point 0", got)
        return [source.shape]
    require(got == _OUTPUT, "a result of scale 1/256 and zero point -128", got)
    good = _factor(source.scale, beta) > 0
    require(good, "scale * beta of more than 0", f"{source.scale:.6g} * {beta:.6g}")
    return [source.shape]


def _lower(lowering: Lowering, operation: Operation) -> None:
    """Lower SOFTMAX of the channels of each pixel, or of rows in one pixel."""
    view = lowering.view(operation)
    source, value = lowering.graph.tensors[operation.inputs[0]], lowering.values[view.value]
    elements = source.shape[-1]
    if elements > SOFTMAX_ELEMENTS:
        raise CompileError(f"wanted rows of at most {SOFTMAX_ELEMENTS} elements, got {elements}")
    seen, windows = None, ()
    if value.channels != elements:
        if not lowering.covers(view) or (value.height, value.width) != (1, 1):
            raise CompileError(f"wanted rows of {value.channels} elements, got {elements}")
        seen = 1, value.channels // elements, elements
        windows = (Windows(result=(0, 0), count=seen[:2], source=(0, 0), size=(1, 1)),)
    assert source.quantization
    try:
        table = exponentials(source.quantization.scale, operation.attributes["beta"])
    except ValueError as error:
        raise CompileError(str(error)) from None
    lowering.vector(operation, view, windows=windows, seen=seen, exponentials=table.astype("<u4"))


def _flat(values: np.ndarray, scale: float, beta: float) -> np.ndarray:
    """Return softmax as ``softmax`` does, in single precision, for a scale · beta up to 2^-26.

    LiteRT's reference kernel ends the process there; its built-in kernel computes this.
    """
    below = np.arange(256, dtype=np.float32)
    table = exponential(below * np.float32(-scale) * np.float32(beta))
    wide = values.astype(np.int64)
    powers = table[wide.max(axis=-1, keepdims=True) - wide]
    total = np.add.accumulate(powers, axis=-1)[..., -1:]
    shares = powers * (np.float32(1) / (total * np.float32(_OUTPUT[0]))) + np.float32(0.5)
    return np.clip(shares.astype(np.int64) + _OUTPUT[1], -128, 127).astype(np.int8)


def _run(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    (source,) = operator.sources
    beta = operator.attributes["beta"]
    small = _factor(source.scale, beta) <= _LEAST
    return [(_flat if small else softmax)(arrays[0], source.scale, beta)]


def _run_real(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    x, beta = arrays[0], np.float32(operator.attributes["beta"])
    powers = exponential((x - x.max(axis=-1, keepdims=True)) * beta)
    return [powers / np.add.accumulate(powers, axis=-1)[..., -1:]]


OPERATORS = (
    Operator(
        kind="SOFTMAX",
        read=_read,
        shapes=_shapes,
        types=(("int8", "int16", "float32"), SAME),
        kernel=by_type(int8=_run, int16=wide.softmax, plain=_run_real),
        lower=_lower,
        option=lambda _graph, _operation: "softmax",
        core=f"int8: rows of at most {SOFTMAX_ELEMENTS} elements; only with `softmax`",
        host="over the last dimension, any beta: int8, int16, float32",
    ),
)
