"""Arithmetic on two operands that broadcast."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tflite

from celosia.hw.arch.isa import Mode
from celosia.sw.ir.graph import Graph, Operation, Tensor
from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.lowering import Lowering, View, add_sum, lookup
from celosia.sw.layers.multiplier import quantize_multiplier
from celosia.sw.layers.node import ModelError, Node, read_activation
from celosia.sw.layers.products import add_product, product, without_zero
from celosia.sw.layers.quantize import (
    addition_scalings,
    ends_of_two,
    exact_scaling,
    meanings,
    multiplication_scaling,
    product_scalings,
    single_factor,
)
from celosia.sw.layers.record import (
    NUMBERS,
    SAME,
    Attributes,
    Kernel,
    Mismatch,
    Operator,
    Shape,
    by_type,
    require,
)
from celosia.sw.layers.tables import of_kernel
from celosia.sw.operators import gradients
from celosia.sw.operators.fixed_point import (
    centred,
    finished,
    halved,
    products,
    quotients,
    rescaled,
    single,
    times,
)
from celosia.sw.operators.plain import clamped
from celosia.sw.operators.windows import ACTIVATIONS

#: Bits by which ADD and SUB shift their inputs, and those of int16.
_SHIFT, _WIDE_SHIFT = 20, 15

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
    *inputs, output = (tensor.quantization.scale for tensor in tensors if tensor.quantization)
    if max(inputs) > output * 1.01:
        raise ModelError(f"wanted a scale of at least the inputs', got {output:.6g}")


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


def addends(lowering: Lowering, operation: Operation, whole: int = 2) -> list[View]:
    """Return views of two inputs: one repeats rows, columns or channels of which it has one.

    The first ``whole`` cover a whole value. Raises CompileError if the core computes neither, or
    their layouts differ.
    """
    numbers = operation.inputs[:2]
    views = [lowering.views.get(number) for number in numbers]
    for position, (view, other) in enumerate(zip(views, views[::-1], strict=True)):
        if view is None:
            views[position] = _constant(lowering, operation, numbers[position], other)
    present = [view for view in views if view is not None]
    shapes = [lowering.extents_of(view) for view in present]
    extents = tuple(max(extent) for extent in zip(*shapes, strict=True))
    fits = all(n in (1, m) for shape in shapes for n, m in zip(shape, extents, strict=True))
    ranks = {len(lowering.graph.tensors[n].shape) for n in numbers if n in lowering.views}
    alike = shapes[0] == shapes[1] or (fits and len(ranks) == 1)
    size = math.prod(extents) * lowering.items
    if not alike or lowering.graph.tensors[operation.outputs[0]].elements != size:
        raise CompileError(f"wanted inputs laid out alike, got {shapes[0]}, {shapes[1]}")
    for position, view in enumerate(present):
        channels = shapes[position][2]
        if channels != extents[2]:
            present[position] = _spread(lowering, operation, numbers[position], extents[2])
        elif position < whole and not lowering.covers(view):
            lowering.copy(operation, numbers[position], view)
            present[position] = lowering.views[numbers[position]]
    return present


def _constant(lowering: Lowering, operation: Operation, number: int, other: View | None) -> View:
    """Return a constant input as a value, of one row or column if all are equal.

    Raises CompileError if it is none, or its pixels do not lie as those of the other input.
    """
    tensor = lowering.graph.tensors[number]
    if tensor.data is None or other is None:
        raise CompileError("wanted two inputs that are computed, or one and a constant")
    return lowering.constant(number, _pixels(lowering, operation, tensor, other))


def _pixels(lowering: Lowering, operation: Operation, constant: Tensor, other: View) -> np.ndarray:
    """Return a constant input, shape ``(rows, columns, channels)``; axes of equal values are 1.

    Raises CompileError if it differs between samples, or its pixels do not lie as those of the
    other input.
    """
    assert constant.data is not None
    shape = lowering.graph.tensors[operation.outputs[0]].shape
    rows, columns, channels = lowering.extents_of(other)
    repeated = np.broadcast_to(constant.data, shape)
    size = rows * columns * channels * lowering.items
    if repeated.size == size:
        samples = repeated.reshape(lowering.items, rows, columns, channels)
    elif channels == 1 and repeated.size == size * shape[-1]:
        samples = repeated.reshape(lowering.items, rows, columns, shape[-1])
    else:
        got = f"{constant.shape} on {rows} x {columns} x {channels}"
        raise CompileError(f"wanted a constant that is no larger than the other input, got {got}")
    pixels = samples[0]
    if (samples != pixels).any():
        raise CompileError("wanted a constant for all samples, got one for each")
    if (pixels == pixels[:1]).all():
        pixels = pixels[:1]
    return pixels[:, :1] if (pixels == pixels[:, :1]).all() else pixels


def _spread(lowering: Lowering, operation: Operation, number: int, channels: int) -> View:
    """Return an input of one channel repeated in all: a matrix layer of ones makes it."""
    views = lowering.views.copy()
    view = lowering.views[number]
    shape = view.height, view.width, channels
    value = add_product(
        lowering,
        operation,
        view,
        np.ones((channels, 1, 1, 1), np.int8),
        exact_scaling(np.zeros(channels, np.int64), 0),
        result=lowering.add(number, shape),
        grid=shape[:2],
    )
    lowering.views = views
    return View(value, 0, 0, *shape[:2])


def _lower_sum(lowering: Lowering, operation: Operation) -> None:
    """Lower ADD and SUB of two values, or of a value and a constant.

    SUB adds the complement, which is less than the negative by one.
    """
    if "constant" in operation.attributes:
        lookup(lowering, operation)
        return
    views = addends(lowering, operation, 1 if operation.kind == "SUB" else 2)
    sources = [view.value for view in views]
    first, second, output = ends_of_two(lowering.graph, operation)
    scalings = addition_scalings(first, second, output, operation.attributes["activation"])
    if operation.kind == "SUB":
        sources[1] = complement(lowering, operation, views[1])
        bias = np.array([1 + second.zero_point], np.int64)
        scalings = scalings[0], replace(scalings[1], bias=bias), scalings[2]
    add_sum(lowering, operation, sources, scalings)


def complement(lowering: Lowering, operation: Operation, view: View) -> int:
    """Return a new value with the complement of a view."""
    contents = lowering.values[view.value].contents
    if contents is not None:
        return lowering.constant(operation.inputs[1], ~contents).value
    return lowering.vector(operation, view, kind="COMPLEMENT", table=COMPLEMENT)


def _lower_product(lowering: Lowering, operation: Operation) -> None:
    """Lower MUL by a number, by a constant for each channel as a matrix layer, or of two values."""
    if "constant" in operation.attributes:
        lookup(lowering, operation)
        return
    graph = lowering.graph
    number, constant = sorted(operation.inputs[:2], key=lambda n: graph.tensors[n].data is not None)
    if number not in lowering.views or graph.tensors[constant].data is None:
        return _multiply(lowering, operation)
    view = lowering.views[number]
    pixels = _pixels(lowering, operation, graph.tensors[constant], view)
    if pixels.shape[:2] != (1, 1):
        return _multiply(lowering, operation)
    source, second, output = meanings(graph, number, constant, operation.outputs[0])
    weights = without_zero(pixels[0, 0], second.zero_point).reshape(-1, 1, 1, 1)
    # The kernel multiplies and divides in single precision.
    factor = single_factor(source.scales[0], second.scales[0], over=output.scales[0])
    activation = operation.attributes["activation"]
    scaling = multiplication_scaling(factor, source, output, weights.reshape(-1, 1), activation)
    # A single channel is multiplied by all constants.
    repeats = int(lowering.extents_of(view)[2] == len(weights))
    product(lowering, operation, view, weights, scaling, depth_multiplier=repeats)


def _multiply(lowering: Lowering, operation: Operation) -> None:
    """Lower MUL of two values."""
    sources = [view.value for view in addends(lowering, operation)]
    first, second, output = ends_of_two(lowering.graph, operation)
    factor = single_factor(first.scales[0], second.scales[0], over=output.scales[0])
    activation = operation.attributes["activation"]
    scalings = product_scalings(first, second, output, factor, activation)
    add_sum(lowering, operation, sources, scalings, mode=Mode.MULTIPLY)


def _product_option(graph: Graph, operation: Operation) -> str:
    """Return the option of cores that multiply two values, unless a matrix layer does it."""
    constants = (graph.tensors[number].data for number in operation.inputs[:2])
    data = next((constant for constant in constants if constant is not None), None)
    if data is None:
        return "elementwise_products"
    rows = data.reshape(-1, data.shape[-1] if data.shape else 1)
    return "elementwise_products" if (rows != rows[0]).any() else ""


_SCALED = ("int8", "int16")
REPEATED = "one may repeat rows, columns or channels"
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
            gradient=gradients.addition if kind == "ADD" else None,
            table=of_kernel(_run_sum(sign), "constant"),
            factors=quotients,
            core=f"two values, or a value and a constant; {REPEATED}",
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
        table=of_kernel(_run_product, "constant"),
        factors=products,
        option=_product_option,
        core="a value and one number, or one per channel; with `elementwise_products` as ADD",
        **_ARITHMETIC,
    ),
)
