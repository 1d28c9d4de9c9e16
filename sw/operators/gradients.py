"""Backward passes of operators, in operations of a training step: see docs/design/training.md."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from celosia.sw.ir.graph import Operation
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.shapes import padding
from celosia.sw.layers.step import Backward, Step
from celosia.sw.layers.sums import Sums, Weights
from celosia.sw.layers.weight_bytes import MOST

#: Greatest real values of activations that train; none for an activation without one.
_TOPS = {"NONE": None, "RELU": None, "RELU6": 6.0}


def _activated(step: Step, operation: Operation, sums: Sums, activation: str, **fields) -> int:
    """Add the result of sums with an activation; raises CompileError if it does not train."""
    if activation not in _TOPS:
        raise CompileError(f"wanted RELU, RELU6 or no activation, got {activation}")
    low = -128 if activation == "NONE" else 0
    number = step.shifted(sums, low=low, top=_TOPS[activation], **fields)
    step.result(operation, number)
    return number


def _masked(step: Step, operation: Operation, errors: int, activation: str) -> int:
    """Return errors where an activation lets its inputs through."""
    maker = next((o for o in step.operations if errors in o.outputs), None)
    if activation == "NONE" or (
        maker and maker.kind == "MaximumErrors" and "low" in maker.attributes
    ):
        return errors
    values = step.values[operation.outputs[0]]
    shape, name = step.shape(errors), f"{step.name(operation)}/masked"
    inputs = errors, step.reshaped(values, shape)
    return step.operate("MaskedErrors", inputs, shape, name, low=0, high=_top(step, values))


def _top(step: Step, values: int) -> int:
    """Return the least value from which an activation passes no errors on."""
    maker = next(o for o in step.operations if values in o.outputs)
    # Values that saturate pass errors on.
    return maker.attributes["high"] + (maker.attributes["high"] == MOST)


def _is_activated(step: Step, number: int) -> bool:
    """Return whether an activation makes a tensor of the network that one operation reads."""
    operations = step.network.operations
    makers = [operation for operation in operations if number in operation.outputs]
    readers = [operation for operation in operations if number in operation.inputs]
    kinds = {maker.attributes.get("activation", maker.kind) for maker in makers}
    return len(readers) == 1 and bool(kinds) and kinds <= {"RELU", "RELU6"}


def _update_bias(step: Step, bias: Weights | None, errors: int) -> None:
    """Add the update of a bias: the sums of errors over all pixels."""
    if bias is None:
        return
    matrix = step.pixels(errors)
    ones = step.constant(f"{bias.name}/ones", np.ones((1, 1, step.shape(matrix)[1]), np.int8))
    step.update(bias, step.product(f"{bias.name}/step", ones, matrix))


def _drop(step: Step, operation: Operation, activation: str) -> None:
    """Leave out half of the results that dense layers alone read; the others count twice.

    The host adds -128 to those left out, and 0 to others.
    """
    result = operation.outputs[0]
    readers = [reader for reader in step.network.operations if result in reader.inputs]
    is_hidden = readers and all(reader.kind == "FULLY_CONNECTED" for reader in readers)
    if not step.has_dropout or activation == "NONE" or not is_hidden:
        return
    values, name = step.values[result], f"{step.name(operation)}/dropped"
    addends = ((values, 1), (step.input(name, step.shape(values)), 1))
    sums = step.sum_of(name, addends, step.exponents[values] + 1)
    high = step.operations[-1].attributes["high"]
    step.values[result] = step.shifted(sums, shift=0, low=0, high=high)
    step.dropouts[step.values[result]] = name


def dense(step: Step, operation: Operation) -> Backward:
    """Add a FULLY_CONNECTED."""
    name, activation = step.name(operation), operation.attributes["activation"]
    halved = step.value(operation) in step.dropouts
    x = step.matrix(step.value(operation))
    first = step.contents(operation, 1).T
    if first.shape[0] != step.shape(x)[2]:
        raise CompileError(f"wanted {first.shape[0]} values of an image, got {step.shape(x)[2]}")
    attributes = {"adj_x": False, "adj_y": False, "column": 0, "columns": first.shape[1]}
    shape = (1, step.batch, first.shape[1])
    raw = Sums(name, "ShiftedProduct", (x,), shape, step.exponents[x], attributes)
    first = step.balance(operation, first, raw)
    weights = step.first_weights(operation, first, step.exponents[x], divided=True)
    sums = step.product(f"{name}/sum", x, weights.highs, halved=halved)
    bias = step.bias(operation, sums.exponent - halved)
    sums = step.with_bias(sums, bias)
    _activated(step, operation, sums, activation, rounding="AWAY")
    _drop(step, operation, activation)

    def backward(errors: int) -> None:
        errors = _masked(step, operation, errors, activation)
        step.exponents[errors] += step.values[operation.outputs[0]] in step.dropouts
        if step.needs(operation):
            noise = (1, step.batch, min(step.width, weights.shape[1]))
            turned = step.product(
                f"{name}/error", errors, weights.highs, (False, True), noise=noise
            )
            before = step.shifted(turned, low=-MOST)
            step.add_error(operation, step.reshaped(before, step.extents(operation.inputs[0])))
        step.update(weights, step.product(f"{name}/step", x, errors, (True, False)))
        _update_bias(step, bias, errors)

    return backward


def convolution(step: Step, operation: Operation) -> Backward:
    """Add a CONV_2D or DEPTHWISE_CONV_2D."""
    name, attributes = step.name(operation), operation.attributes
    x, first = step.value(operation), step.contents(operation, 1)
    batch, *extents, inputs = step.shape(x)
    counts = step.extents(operation.outputs[0])[1:3]
    depthwise = "depth_multiplier" in attributes
    if attributes["dilation"] != (1, 1) or (not depthwise and first.shape[3] != inputs):
        raise CompileError("wanted a convolution without dilation and groups")
    kernel, stride = first.shape[1:3], attributes["stride"]
    before = attributes.get("before") or tuple(
        padding(attributes["padding"], extents[n], kernel[n], stride[n], counts[n]) for n in (0, 1)
    )
    geometry = {"kernel": kernel, "stride": stride, "before": before, "depthwise": depthwise}
    outputs = first.shape[3] if depthwise else first.shape[0]
    matrix = first if depthwise else first.transpose(1, 2, 3, 0)
    shape, windows = (batch, *counts, outputs), geometry | {"extents": counts}
    sums = Sums(f"{name}/sum", "ShiftedConvolution", (x,), shape, step.exponents[x], windows)
    matrix = step.balance(operation, matrix.reshape(-1, outputs), sums)
    weights = step.first_weights(operation, matrix, step.exponents[x])
    exponent = step.exponents[x] + step.exponents[weights.high]
    sums = replace(sums, operands=(x, weights.high), exponent=exponent)
    bias = step.bias(operation, exponent)
    sums = step.with_bias(sums, bias)
    _activated(step, operation, sums, attributes["activation"], rounding="HALVED")

    def backward(errors: int) -> None:
        errors = _masked(step, operation, errors, attributes["activation"])
        exponent = step.exponents[errors]
        if step.needs(operation):
            turned = Sums(
                f"{name}/error",
                "TurnedConvolution",
                (errors, weights.high),
                (batch, *extents, inputs),
                exponent + step.exponents[weights.high],
                geometry | {"extents": tuple(extents), "inputs": inputs},
                noise=(1, batch + math.prod(extents) - 1, min(step.width, inputs)),
            )
            step.add_error(operation, step.shifted(turned, low=-MOST))
        gradient = Sums(
            f"{name}/step",
            "ShiftedCorrelation",
            (x, errors),
            weights.shape,
            exponent + step.exponents[x],
            geometry,
        )
        step.update(weights, gradient)
        _update_bias(step, bias, errors)

    return backward


def _overlaps(step: Step, operation: Operation) -> bool:
    """Return whether windows do not lie side by side in the image."""
    window, stride = (operation.attributes[name] for name in ("window", "stride"))
    extents = step.extents(operation.inputs[0])[1:3]
    counts = step.extents(operation.outputs[0])[1:3]
    inside = all(n * size <= all for n, size, all in zip(counts, window, extents, strict=True))
    return stride != window or not inside


def _parts(step: Step, operation: Operation) -> Iterator[dict[str, Any]]:
    """Yield attributes of errors for parts of windows, none of whose windows overlap."""
    attributes = operation.attributes
    ways = [
        (*way, padding(attributes["padding"], *way))
        for way in zip(
            step.extents(operation.inputs[0])[1:3],
            attributes["window"],
            attributes["stride"],
            step.extents(operation.outputs[0])[1:3],
            strict=True,
        )
    ]
    before = tuple(way[4] for way in ways)
    counts = [min(-(-size // stride), count) for _, size, stride, count, _ in ways]
    for part in np.ndindex(*counts):
        yield {"stride": attributes["stride"], "before": before, "part": part}


def pooling(step: Step, operation: Operation) -> Backward:
    """Add a MAX_POOL_2D or AVERAGE_POOL_2D."""
    attributes, x = operation.attributes, step.value(operation)
    overlaps = _overlaps(step, operation)
    if overlaps and step.needs(operation) and operation.kind == "AVERAGE_POOL_2D":
        raise CompileError("wanted windows that lie side by side in the image")
    if attributes["activation"] != "NONE":
        raise CompileError("wanted a pooling without activation")
    shape = step.extents(operation.outputs[0])
    y = step.operate(operation.kind, (x,), shape, step.name(operation), **attributes)
    step.result(operation, y)
    if operation.kind == "AVERAGE_POOL_2D":
        return lambda errors: _average_errors(step, operation, errors, attributes["window"])

    def backward(errors: int) -> None:
        grown = {"window": attributes["window"], "extents": step.shape(x)[1:3]}
        if _is_activated(step, operation.inputs[0]):
            # The errors pass the activation, too.
            grown |= {"low": 0, "high": _top(step, x)}
        name = f"{step.name(operation)}/error"
        for fields in _parts(step, operation) if overlaps else ({},):
            before = step.operate(
                "MaximumErrors", (errors, x, y), step.shape(x), name, **grown, **fields
            )
            step.add_error(operation, before)

    return backward


def _average_errors(step: Step, operation: Operation, errors: int, window: tuple[int, ...]) -> None:
    """Add the errors of the inputs of means: equal parts of the errors of the means."""
    name, shape = f"{step.name(operation)}/error", step.extents(operation.inputs[0])
    count = math.prod(window)
    exponent = step.exponents[errors] - math.floor(math.log2(count))
    if count & (count - 1):
        # 64 to 127 times two to the power of a shift is about 1 / count.
        shift = math.floor(math.log2(count)) + 1
        sums = step.sum_of(name, ((errors, round((64 << shift) / count)),))
        exponent = step.exponents[errors] - shift
        errors = step.shifted(sums, shift=6, low=-MOST, rounding="AWAY")
    grown = {"window": window, "extents": shape[1:3]}
    before = step.operate("RepeatedErrors", (errors,), shape, f"{name}/repeated", **grown)
    step.exponents[before] = exponent
    step.add_error(operation, before)


def mean(step: Step, operation: Operation) -> Backward:
    """Add a MEAN over all rows and columns: an average of one window."""
    x, shape = step.value(operation), step.shape(step.value(operation))
    if len(shape) != 4 or operation.attributes["axes"] not in ((1, 2), [1, 2]):
        raise CompileError("wanted a mean over rows and columns of images")
    window = shape[1:3]
    fields = {"window": window, "stride": window, "padding": "VALID", "activation": "NONE"}
    pooled = (shape[0], 1, 1, shape[3])
    y = step.operate("AVERAGE_POOL_2D", (x,), pooled, step.name(operation), **fields)
    step.result(operation, step.reshaped(y, step.extents(operation.outputs[0])))
    return lambda errors: _average_errors(step, operation, step.reshaped(errors, pooled), window)


def activation(step: Step, operation: Operation) -> Backward:
    """Add a RELU or RELU6."""
    x = step.value(operation)
    sums = step.sum_of(step.name(operation), ((x, 1),), step.exponents[x])
    _activated(step, operation, sums, operation.kind, shift=0)
    return lambda errors: step.add_error(
        operation, _masked(step, operation, errors, operation.kind)
    )


def reshape(step: Step, operation: Operation) -> Backward:
    """Add a RESHAPE, EXPAND_DIMS or SQUEEZE that keeps images apart."""
    source, result = operation.inputs[0], operation.outputs[0]
    step.result(operation, step.reshaped(step.value(operation), step.extents(result)))
    return lambda errors: step.add_error(operation, step.reshaped(errors, step.extents(source)))


def padded(step: Step, operation: Operation) -> Backward:
    """Add a PAD of zeros: its errors are those of the pixels inside."""
    x, attributes, name = step.value(operation), operation.attributes, step.name(operation)
    if len(step.shape(x)) != 4 or attributes["value"]:
        raise CompileError("wanted a padding of images with zeros")
    shape = step.extents(operation.outputs[0])
    step.result(operation, step.operate("PAD", (x,), shape, name, **attributes | {"value": 0}))

    def backward(errors: int) -> None:
        inside = step.part(errors, attributes["before"], step.shape(x), f"{name}/error")
        step.add_error(operation, inside)

    return backward


def addition(step: Step, operation: Operation) -> Backward:
    """Add an ADD of two values of one shape."""
    numbers = [step.values.get(number, -1) for number in operation.inputs]
    if -1 in numbers or step.shape(numbers[0]) != step.shape(numbers[1]):
        raise CompileError("wanted a sum of two computed values of one shape")
    chosen = operation.attributes["activation"]
    sums = step.aligned(f"{step.name(operation)}/sum", numbers)
    _activated(step, operation, sums, chosen, rounding="AWAY")

    def backward(errors: int) -> None:
        errors = _masked(step, operation, errors, chosen)
        for position in (0, 1):
            step.add_error(operation, errors, position)

    return backward


def concatenation(step: Step, operation: Operation) -> Backward:
    """Add a CONCATENATION along channels; all inputs are brought to the greatest exponent."""
    numbers = [step.values.get(number, -1) for number in operation.inputs]
    shape, name = step.extents(operation.outputs[0]), step.name(operation)
    rank = len(step.network.tensors[operation.outputs[0]].shape)
    if -1 in numbers or operation.attributes["axis"] != rank - 1:
        raise CompileError("wanted computed values joined along channels")
    greatest = max(step.exponents[number] for number in numbers)
    alike = []
    for place, number in enumerate(numbers):
        if less := greatest - step.exponents[number]:
            sums = step.sum_of(f"{name}/{place}", ((number, 1),), step.exponents[number])
            number = step.shifted(sums, shift=less, rounding="HALVED")
        alike.append(step.pixels(number))
    pixels = (1, math.prod(shape[:-1]), shape[-1])
    joined = step.operate("CONCATENATION", alike, pixels, name, axis=2)
    step.result(operation, step.reshaped(joined, shape))

    def backward(errors: int) -> None:
        first, errors = 0, step.pixels(errors)
        for position, number in enumerate(alike):
            part = step.shape(number)
            name = f"{step.name(operation)}/error_{position}"
            own = step.part(errors, (0, 0, first), part, name)
            step.add_error(operation, step.reshaped(own, step.shape(numbers[position])), position)
            first += part[-1]

    return backward
