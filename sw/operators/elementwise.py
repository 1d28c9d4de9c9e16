"""Arithmetic on two operands that broadcast."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tflite

from celosia.hw.arch.isa import Mode
from celosia.sw.compiler.errors import CompileError
from celosia.sw.compiler.lowering import Lowering, View, add_sum, lookup
from celosia.sw.compiler.multiplier import quantize_multiplier
from celosia.sw.compiler.products import add_product, product, without_zero
from celosia.sw.compiler.quantize import (
    activation_range,
    addition_scalings,
    ends_of_two,
    exact_scaling,
    meanings,
    multiplication_scaling,
    product_scalings,
    single_factor,
)
from celosia.sw.compiler.tables import BYTES
from celosia.sw.ir.graph import Graph, Operation, Quantization, Tensor
from celosia.sw.ir.parts import HostOperator
from celosia.sw.operators.attributes import Attributes, Mismatch, require
from celosia.sw.operators.fixed_point import (
    centred,
    finished,
    halved,
    multiplied,
    products,
    quotients,
    rescaled,
    single,
    times,
)
from celosia.sw.operators.node import ModelError, Node, read_activation
from celosia.sw.operators.plain import clamped
from celosia.sw.operators.record import NUMBERS, SAME, Kernel, Operator, Shape, Table, by_type
from celosia.sw.operators.windows import ACTIVATIONS

#: Bits by which ADD and SUB shift their inputs.
_SHIFT = 20
#: The same of int16.
_WIDE_SHIFT = 15

#: Each int8 to -1 - x, by its bits: defined for -128, too.
COMPLEMENT = ~np.arange(256, dtype=np.uint8).view(np.int8)


def broadcast(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    """Return the shape that all operands broadcast to: shape rule."""
    shapes = [operand.shape for operand in operator.sources]
    if "activation" in operator.attributes:
        attributes.name("activation", ACTIVATIONS)
    try:
        return [np.broadcast_shapes(*shapes)]
    except ValueError:
        raise Mismatch(f"inputs of one shape, got {' and '.join(map(str, shapes))}") from None


def two(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    """Return the shape that two operands broadcast to: shape rule."""
    require(len(operator.sources) == 2, "2 inputs", len(operator.sources))
    return broadcast(operator, attributes)


def activated(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    """Return the shape that two operands broadcast to, with a fused activation: shape rule."""
    attributes.name("activation", ACTIVATIONS)
    return two(operator, attributes)


def single_constant(first: Tensor, second: Tensor) -> dict[str, Any]:
    """Return the attributes of an operator whose second input is one number for all elements.

    Returns ``constant``, less its zero point, and ``constant_scale``; nothing where the second
    input is no such constant, or would make the result larger than the first one.
    """
    if second.data is None or first.data is not None or second.quantization is None:
        return {}
    values = np.unique(second.data)
    try:
        larger = np.broadcast_shapes(first.shape, second.shape) != first.shape
    except ValueError:
        return {}
    if values.size != 1 or larger:
        return {}
    constant = int(values[0]) - second.quantization.zero_point
    return {"constant": constant, "constant_scale": second.quantization.scale}


def _is_power(tensor: Tensor) -> bool:
    """Return True for int16 whose scale is a power of two."""
    if tensor.dtype != np.int16 or tensor.quantization is None:
        return False
    exponent = math.log2(tensor.quantization.scale)
    return abs(exponent - round(exponent)) < 1e-3


def _require_shifts(tensors: Sequence[Tensor]) -> None:
    """Refuse a result of a smaller scale than those before it."""
    *given, most = (tensor.quantization.scale for tensor in tensors if tensor.quantization)
    if max(given) > most * 1.01:
        raise ModelError(f"wanted a scale of at least the inputs', got {most:.6g}")


def _read_binary(table: type) -> Callable[[Node], dict[str, Any]]:
    def read(node: Node) -> dict[str, Any]:
        node.require_inputs(2)
        options = node.options(table)
        activation = read_activation(options.FusedActivationFunction() if options else 0)
        attributes = {"activation": activation, **single_constant(node.tensor(0), node.tensor(1))}
        tensors = (node.tensor(0), node.tensor(1), node.outputs[0])
        if options and table is not tflite.MulOptions and options.PotScaleInt16():
            if all(map(_is_power, tensors)):
                _require_shifts(tensors)
                attributes["powers"] = True
        return attributes

    return read


def _shifted_sum(
    operator: HostOperator, arrays: Sequence[np.ndarray], sign: int
) -> list[np.ndarray]:
    """Return sums of int16 whose scales are powers of two."""
    (output,) = operator.results
    terms = [
        halved(x, round(math.log2(output.scale)) - round(math.log2(operand.scale)))
        for operand, x in zip(operator.sources, centred(operator, arrays), strict=True)
    ]
    return finished(terms[0] + sign * terms[1], output, operator.attributes["activation"])


def _run_sum(sign: int) -> Kernel:
    """Return the kernel of ADD, or of SUB for -1."""

    def run(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        (first, second), (output,) = operator.sources, operator.results
        if operator.attributes.get("powers"):
            return _shifted_sum(operator, arrays, sign)
        left = _SHIFT if output.dtype == "int8" else _WIDE_SHIFT
        twice = 2 * max(first.scale, second.scale)
        terms = []
        pairs = zip(operator.sources, centred(operator, arrays), (1, sign), strict=True)
        for operand, x, factor in pairs:
            multiplier, shift = quantize_multiplier(operand.scale / twice)
            terms.append(times(x << left, factor * multiplier, shift))
        total = rescaled(terms[0] + terms[1], twice / ((1 << left) * output.scale))
        return finished(total, output, operator.attributes["activation"])

    return run


def _run_product(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    (first, second), (output,) = operator.sources, operator.results
    left, right = centred(operator, arrays)
    factor = single_factor(single(first), single(second), over=single(output))
    return finished(rescaled(left * right, factor), output, operator.attributes["activation"])


def _activated(y: np.ndarray, output: Quantization, attributes: dict[str, Any]) -> np.ndarray:
    return np.clip(y + output.zero_point, *activation_range(attributes["activation"], output))


def _sum_table(sign: int) -> Table:
    """Return the table of ADD, or of SUB for -1, of a constant."""

    def fill(source: Quantization, output: Quantization, attributes: dict[str, Any]) -> np.ndarray:
        scale, constant = attributes["constant_scale"], np.array([attributes["constant"]])
        twice = 2 * max(source.scale, scale)
        multiplier, shift = quantize_multiplier(scale / twice)
        other = times(constant << _SHIFT, sign * multiplier, shift)
        x = (BYTES - source.zero_point) << _SHIFT
        total = times(x, *quantize_multiplier(source.scale / twice)) + other
        total = multiplied(total, twice / ((1 << _SHIFT) * output.scale))
        return _activated(total, output, attributes)

    return fill


def _product_table(
    source: Quantization, output: Quantization, attributes: dict[str, Any]
) -> np.ndarray:
    x = (BYTES - source.zero_point) * attributes["constant"]
    factor = source.scales[0] * np.float32(attributes["constant_scale"]) / output.scales[0]
    return _activated(multiplied(x, float(factor)), output, attributes)


def addends(lowering: Lowering, operation: Operation, whole: int = 2) -> list[View]:
    """Return views of two inputs, rows and columns of the smaller one repeated.

    The first ``whole`` must cover a whole value. Raises CompileError if the core does not compute
    one, or their layouts differ.
    """
    graph, numbers, views = lowering.graph, operation.inputs[:2], list[View]()
    if not all(number in lowering.views for number in numbers):
        raise CompileError("wanted two inputs that are computed")
    shapes = [lowering.extents(number) for number in numbers]
    rows, columns, channels = (max(extents) for extents in zip(*shapes, strict=True))
    fits = {(h, w, channels) for h in (1, rows) for w in (1, columns)}.issuperset(shapes)
    ranks = {len(graph.tensors[number].shape) for number in numbers}
    size = rows * columns * channels * lowering.items
    alike = shapes[0] == shapes[1] or (fits and len(ranks) == 1)
    if not alike or graph.tensors[operation.outputs[0]].elements != size:
        raise CompileError(f"wanted inputs laid out alike, got {shapes[0]}, {shapes[1]}")
    for position, (number, shape) in enumerate(zip(numbers, shapes, strict=True)):
        view = lowering.views[number]
        if shape != (rows, columns, channels):
            ends = zip(shape[:2], (rows, columns), strict=True)
            positions = [range(n) if n == m else [0] * m for n, m in ends]
            view = lowering.take(operation, view, positions)
        elif position < whole and not lowering.covers(view):
            lowering.copy(operation, number, view)
            view = lowering.views[number]
        views.append(view)
    return views


def _by_channel(lowering: Lowering, operation: Operation) -> tuple[int, int, np.ndarray] | None:
    """Return the computed and the constant input of two, and the constant of each channel.

    Returns int8, shape ``(channels,)``; None if both inputs are computed. Raises CompileError if
    the constant differs between pixels, or makes the result larger than the other input.
    """
    graph = lowering.graph
    numbers = sorted(operation.inputs[:2], key=lambda n: graph.tensors[n].data is not None)
    source, constant = (graph.tensors[n] for n in numbers)
    if constant.data is None:
        return None
    if numbers[0] not in lowering.views:
        raise CompileError("wanted an input that is computed, and a constant")
    if source.shape != graph.tensors[operation.outputs[0]].shape:
        raise CompileError("wanted a constant that is no larger than the other input")
    channels = lowering.extents(numbers[0])[2]
    pixels = np.broadcast_to(constant.data, source.shape).reshape(-1, channels)
    if (pixels != pixels[0]).any():
        got = f"{constant.shape} on {channels} channels"
        raise CompileError(f"wanted a constant for each channel, got {got}")
    return numbers[0], numbers[1], pixels[0]


def _spread(lowering: Lowering, operation: Operation) -> int | None:
    """Make the constant of each channel a value as large as the other input; return its tensor.

    A matrix layer of zero weights makes it from its biases.
    """
    found = _by_channel(lowering, operation)
    if found is None:
        return None
    number, constant, numbers = found
    view, shape = lowering.views[number], lowering.extents(number)
    add_product(
        lowering,
        operation,
        view,
        np.zeros((len(numbers), 1, 1, 1), np.int8),
        exact_scaling(numbers.astype(np.int64), 0),
        result=lowering.add(constant, shape),
        grid=shape[:2],
        each=1,
    )
    return constant


def _lower_sum(lowering: Lowering, operation: Operation) -> None:
    """Lower ADD and SUB of two values of one shape, or of a value and a constant.

    SUB adds the complement, which is less than the negative by one.
    """
    if "constant" in operation.attributes:
        lookup(lowering, operation)
        return
    constant = _spread(lowering, operation)
    views = addends(lowering, operation, 1 if operation.kind == "SUB" else 2)
    sources = [view.value for view in views]
    first, second, output = ends_of_two(lowering.graph, operation)
    scalings = addition_scalings(first, second, output, operation.attributes["activation"])
    if operation.kind == "SUB":
        sources[1] = complement(lowering, operation, views[1])
        bias = np.array([1 + second.zero_point], np.int64)
        scalings = scalings[0], replace(scalings[1], bias=bias), scalings[2]
    add_sum(lowering, operation, sources, scalings)
    if constant is not None:
        # Other operators may need it in another size.
        del lowering.views[constant]


def complement(lowering: Lowering, operation: Operation, view: View) -> int:
    """Return a new value with the complement of a view."""
    return lowering.vector(operation, view, kind="COMPLEMENT", table=COMPLEMENT)


def _lower_product(lowering: Lowering, operation: Operation) -> None:
    """Lower MUL by a number, by a constant for each channel as a depthwise layer, or of two values."""
    if "constant" in operation.attributes:
        lookup(lowering, operation)
        return
    found = _by_channel(lowering, operation)
    if found is None:
        _multiply(lowering, operation)
        return
    number, constant, numbers = found
    view, channels = lowering.views[number], len(numbers)
    source, second, output = meanings(lowering.graph, number, constant, operation.outputs[0])
    weights = without_zero(numbers, second.zero_point).reshape(-1, 1)
    # The kernel multiplies and divides in single precision.
    factor = single_factor(source.scales[0], second.scales[0], over=output.scales[0])
    activation = operation.attributes["activation"]
    scaling = multiplication_scaling(factor, source, output, weights, activation)
    product(
        lowering,
        operation,
        view,
        weights.reshape(channels, 1, 1, 1),
        scaling,
        each=1,
    )


def _multiply(lowering: Lowering, operation: Operation) -> None:
    """Lower MUL of two values."""
    sources = [view.value for view in addends(lowering, operation)]
    first, second, output = ends_of_two(lowering.graph, operation)
    factor = single_factor(first.scales[0], second.scales[0], over=output.scales[0])
    activation = operation.attributes["activation"]
    scalings = product_scalings(first, second, output, factor, activation)
    add_sum(lowering, operation, sources, scalings, mode=Mode.MULTIPLY)


def product_option(graph: Graph, operation: Operation) -> str:
    """Return the option of cores that multiply two values."""
    computed = all(graph.tensors[number].data is None for number in operation.inputs[:2])
    return "elementwise_products" if computed else ""


_SCALED = ("int8", "int16")
BROADCAST = "shapes that broadcast: int8, int16, int32, int64, float32"
PAIRS: dict[str, Any] = {
    "types": ((*_SCALED, *NUMBERS), SAME),
    "single": "constant",
    "broadcasts": True,
}
_ARITHMETIC = PAIRS | {"shapes": activated, "host": BROADCAST}

OPERATORS = (
    *(
        Operator(
            kind=kind,
            read=_read_binary(options),
            kernel=by_type(**dict.fromkeys(_SCALED, _run_sum(sign)), plain=clamped(of_reals)),
            lower=_lower_sum,
            table=_sum_table(sign),
            factors=quotients,
            core="two values of one shape, or rows or columns of one repeated; a value and a "
            "constant: one number or one per channel",
            **_ARITHMETIC,
        )
        for kind, sign, options, of_reals in (
            ("ADD", 1, tflite.AddOptions, np.add),
            ("SUB", -1, tflite.SubOptions, np.subtract),
        )
    ),
    Operator(
        kind="MUL",
        read=_read_binary(tflite.MulOptions),
        kernel=by_type(int8=_run_product, int16=_run_product, plain=clamped(np.multiply)),
        lower=_lower_product,
        table=_product_table,
        factors=products,
        option=product_option,
        core="a value and one number, or one per channel; with `elementwise_products` two values of "
        "one shape, or rows or columns of one repeated",
        **_ARITHMETIC,
    ),
)
