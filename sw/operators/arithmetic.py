"""Quotients, remainders, powers and squared differences of two operands that broadcast."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tflite

from celosia.hw.arch.isa import Mode, Rounding
from celosia.sw.ir.graph import Operation
from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.lowering import Lowering, add_sum
from celosia.sw.layers.multiplier import quantize_multiplier
from celosia.sw.layers.node import Node, read_activation
from celosia.sw.layers.quantize import ends_of_two, shifted_scaling
from celosia.sw.layers.record import SAME, Attributes, Operator, Shape, by_type, require
from celosia.sw.layers.values import uniform_scaling
from celosia.sw.operators.elementwise import REPEATED, activated, addends, two
from celosia.sw.operators.exponentials import digits, high_product, reciprocal
from celosia.sw.operators.fixed_point import (
    centred,
    finished,
    halved,
    single,
    times,
)
from celosia.sw.operators.plain import (
    clamped,
    floor_quotient,
    floor_rest,
    of_two,
    powers,
    quotient,
    squared_difference,
)

#: Bits by which SQUARED_DIFFERENCE shifts its inputs.
_SHIFT = 7

#: Factors of quotients for which the kernel's shifts are defined.
_MOST_QUOTIENT = 1 << 23


def _read_quotient(node: Node) -> dict[str, Any]:
    node.require_inputs(2)
    options = node.options(tflite.DivOptions)
    return {"activation": read_activation(options.FusedActivationFunction() if options else 0)}


def _scales(operator: HostOperator) -> list[np.float32]:
    """Return the scales of the inputs and of the result."""
    return [single(operand) for operand in (*operator.sources, operator.results[0])]


def _quotient_factor(operator: HostOperator) -> float:
    first, second, output = _scales(operator)
    with np.errstate(all="ignore"):
        return float(first / (second * output))


def _quotient_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    shapes = activated(operator, attributes)
    if operator.sources[0].dtype in ("int8", "int16"):
        factor = _quotient_factor(operator)
        require(factor < _MOST_QUOTIENT, "a factor below 2^23", f"{factor:.6g}")
    return shapes


def _run_quotient(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return quotients of integers by the reciprocal of the divisor."""
    a, b = np.broadcast_arrays(*centred(operator, arrays))
    require(bool(b.all()), "numbers other than the zero point to divide by", "it")
    a, b = np.where(b < 0, -a, a), np.abs(b)
    bits = digits(b)
    inverse = reciprocal((b << (32 - bits)) - (1 << 31))
    # Leading bits that repeat the sign.
    spare = np.where(a < 0, 32 - digits(-2 * a - 1), 31 - digits(a))
    multiplier, shift = quantize_multiplier(_quotient_factor(operator))
    right = spare + bits - 1 - shift
    x = high_product(high_product(a << spare, inverse), multiplier)
    # Past 31 bits, for small quotients, the kernel shifts as processors of the x86 family do.
    far = (x >> np.maximum(right - 32, 0)) + (x >= 0)
    values = np.where(right < 32, halved(x, np.minimum(right, 31)), far)
    return finished(values, operator.results[0], operator.attributes["activation"])


def _squared_factors(scales: Sequence[np.float32]) -> tuple[float, float, float]:
    """Return the factors of both inputs and of their squared difference, with all scales."""
    first, second, output = map(float, scales)
    twice = 2 * max(first, second)
    return first / twice, second / twice, twice * twice / ((1 << 2 * _SHIFT) * output)


def _squared_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    shapes = two(operator, attributes)
    if operator.sources[0].dtype == "int8":
        factor = _squared_factors(_scales(operator))[2]
        require(factor < 1, "a result of more than (scale of the inputs)^2 / 4096", f"{factor:.6g}")
    return shapes


def _run_squared(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    factors = _squared_factors(_scales(operator))
    first, second, output = map(quantize_multiplier, factors)
    left, right = (x << _SHIFT for x in centred(operator, arrays))
    difference = times(left, *first) - times(right, *second)
    return finished(times(difference * difference, *output), operator.results[0])


def _lower_squared(lowering: Lowering, operation: Operation) -> None:
    """Lower SQUARED_DIFFERENCE of two values."""
    first, second, output = ends_of_two(lowering.graph, operation)
    *factors, square = _squared_factors([operand.scales[0] for operand in (first, second, output)])
    one, other = map(shifted_scaling, (first, second), factors, (_SHIFT, _SHIFT))
    ends = output.zero_point, -128, 127
    last = uniform_scaling(0, quantize_multiplier(square), Rounding.DOUBLE, ends)
    sources = [view.value for view in addends(lowering, operation)]
    add_sum(lowering, operation, sources, (one, other, last), mode=Mode.SQUARED_DIFFERENCE)


_BROADCAST = "shapes that broadcast"

OPERATORS = (
    Operator(
        kind="DIV",
        read=_read_quotient,
        shapes=_quotient_shapes,
        types=(("int8", "int16", "int32", "float32"), SAME),
        broadcasts=True,
        kernel=by_type(int8=_run_quotient, int16=_run_quotient, plain=clamped(quotient)),
        host=_BROADCAST,
    ),
    Operator(
        kind="SQUARED_DIFFERENCE",
        shapes=_squared_shapes,
        types=(("int8", "int32", "float32"), SAME),
        broadcasts=True,
        kernel=by_type(int8=_run_squared, plain=of_two(squared_difference)),
        lower=_lower_squared,
        option=lambda _, __: "elementwise_products",
        core=f"with `elementwise_products` two values, or a value and a constant; {REPEATED}",
        host=f"{_BROADCAST}; int8 with a result of more than 1/4096 of the inputs' scale squared",
    ),
    *(
        Operator(
            kind=kind,
            shapes=two,
            types=(types, SAME),
            broadcasts=True,
            kernel=kernel,
            host=_BROADCAST,
        )
        for kind, types, kernel in (
            ("FLOOR_DIV", ("int32", "float32"), of_two(floor_quotient)),
            ("FLOOR_MOD", ("int32", "int64", "float32"), of_two(floor_rest)),
            ("POW", ("int32", "float32"), powers),
        )
    ),
)
