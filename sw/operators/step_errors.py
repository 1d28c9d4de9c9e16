"""Operators of a training step that make errors of errors: masks, windows, and the softmax.

No file of a model has them; ``gradient`` of other records makes them. See docs/design/training.md.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from celosia.sw.ir.graph import Operation
from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.grids import Grid, Repeats
from celosia.sw.layers.lowering import Lowering
from celosia.sw.layers.record import EXTENT, Attributes, Shape, require
from celosia.sw.layers.shifted import ShiftedLayers, shift_scaling
from celosia.sw.layers.spec import Windows
from celosia.sw.layers.tables import BYTES
from celosia.sw.operators.shifted import of_step
from celosia.sw.operators.windows import image

_Arrays = Sequence[np.ndarray]

#: Greatest error, and value of the right class: probabilities are in steps of 1 / ONE.
ONE = 127
#: Classes at most: the matrix that takes the mean from their errors is of int8.
MOST_CLASSES = 128
#: Shift from a product of two probabilities to one: ``ONE²`` to ``ONE``.
ERROR_SHIFT = 7
#: Shift of the sum of exponentials, above ONE, to the index of its reciprocal.
RECIPROCAL_SHIFT = 2


def _masked_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    errors, values = (operand.shape for operand in operator.sources)
    require(errors == values, f"values of shape {errors}", values)
    low = attributes.integer("low", -129, 127)
    attributes.integer("high", low + 1, 128)
    return [errors]


def _run_masked(operator: HostOperator, arrays: _Arrays) -> list[np.ndarray]:
    """Return errors where values lie between the ends of an activation, else 0."""
    (errors, values), attributes = arrays, operator.attributes
    inside = (values > attributes["low"]) & (values < attributes["high"])
    return [np.where(inside, errors, 0).astype(np.int8)]


def _grown_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    """Return the shape of errors repeated in windows; rows and columns of no window are 0.

    With a ``stride`` windows may overlap: see ``_placed``.
    """
    batch, *counts, channels = image(operator.sources[0].shape)
    window = attributes.integers("window", 2, 1, EXTENT)
    extents = attributes.integers("extents", 2, 1, EXTENT)
    good = all(n * size <= extent for n, size, extent in zip(counts, window, extents, strict=True))
    if "stride" in operator.attributes:
        stride = attributes.integers("stride", 2, 1, EXTENT)
        before = attributes.integers("before", 2, 0, EXTENT)
        part = attributes.integers("part", 2, 0, EXTENT)
        good = all(
            first < size and each * step < size and each < count and (count - 1) * step < after
            for first, size, each, step, count, after in zip(
                before, window, part, stride, counts, np.add(extents, before), strict=True
            )
        )
    require(good, f"windows inside {tuple(extents)} pixels", (tuple(counts), tuple(window)))
    shape = (batch, *extents, channels)
    others = [operand.shape for operand in operator.sources[1:]]
    require(others in ([], [shape, operator.sources[0].shape]), "results and maxima", others)
    if "low" in operator.attributes:
        low = attributes.integer("low", -129, 127)
        attributes.integer("high", low + 1, 128)
    return [shape]


def _grown(operator: HostOperator, errors: np.ndarray) -> np.ndarray:
    """Return errors repeated in their windows, zeros beside them."""
    if "stride" in operator.attributes:
        return _placed(errors, operator.attributes)
    rows, columns = operator.attributes["window"]
    wide = errors.repeat(rows, axis=1).repeat(columns, axis=2)
    missing = [n - m for n, m in zip(operator.attributes["extents"], wide.shape[1:3], strict=True)]
    return np.pad(wide, [(0, 0), *((0, n) for n in missing), (0, 0)])


def _placed(errors: np.ndarray, fields: dict[str, Any]) -> np.ndarray:
    """Return the errors of one of several parts of windows, repeated in these, zeros beside them.

    Of as many windows in a row as overlap, the ``part`` has one: its windows lie side by side, or
    apart. ``before``: pixels of the first window before the edge.
    """
    ways = [*zip(fields["window"], fields["stride"], fields["part"], strict=True)]
    (rows, columns), before = fields["extents"], fields["before"]
    parts = [-(-size // step) for size, step, _ in ways]
    errors = errors[:, ways[0][2] :: parts[0], ways[1][2] :: parts[1]]
    ends = [
        part * step + count * number * step + size
        for (size, step, part), number, count in zip(ways, parts, errors.shape[1:3], strict=True)
    ]
    high, wide = max(ends[0], before[0] + rows), max(ends[1], before[1] + columns)
    result = np.zeros((len(errors), high, wide, errors.shape[3]), errors.dtype)
    for taps in np.ndindex(*fields["window"]):
        y, x = (
            slice(part * step + tap, part * step + tap + count * number * step, number * step)
            for tap, (_, step, part), number, count in zip(
                taps, ways, parts, errors.shape[1:3], strict=True
            )
        )
        result[:, y, x] = errors
    return result[:, before[0] : before[0] + rows, before[1] : before[1] + columns]


def _run_repeated(operator: HostOperator, arrays: _Arrays) -> list[np.ndarray]:
    return [_grown(operator, arrays[0])]


def _run_maxima(operator: HostOperator, arrays: _Arrays) -> list[np.ndarray]:
    """Return the errors of maxima for all results that equal them, else 0.

    Results are the values of an activation if its ends are attributes: at them there are no errors.
    """
    (errors, results, maxima), attributes = arrays, operator.attributes
    chosen = results == _grown(operator, maxima)
    chosen &= (results > attributes.get("low", -129)) & (results < attributes.get("high", 128))
    return [np.where(chosen, _grown(operator, errors), 0)]


def exponentials(steps: float) -> np.ndarray:
    """Return ``ONE · e^(d / steps)`` of differences d from -128 to 0, by d + 128."""
    return np.round(ONE * np.exp(np.arange(-128, 1) / steps)).astype(np.int64)


def reciprocals() -> np.ndarray:
    """Return ``ONE² / sum`` by the index of the sum, 0 to 255."""
    return np.round(ONE * ONE / (ONE + (np.arange(256) << RECIPROCAL_SHIFT))).astype(np.int64)


def projection(classes: int) -> np.ndarray:
    """Return the matrix that takes the mean from errors, times about ``2^ERROR_SHIFT``."""
    part = min(round((1 << ERROR_SHIFT) / classes), 127 // (classes - 1))
    return classes * part * np.eye(classes, dtype=np.int64) - part


def _softmax_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    logits, labels, *noises = (operand.shape for operand in operator.sources)
    require(len(logits) == 3 and labels == logits, f"labels of shape {logits}", labels)
    require(2 <= logits[2] <= MOST_CLASSES, f"2 to {MOST_CLASSES} classes", logits[2])
    rows = [shape[:2] == logits[:2] and shape[2] <= logits[2] for shape in noises]
    require(len(noises) == 2 and all(rows), "noise for two products", noises)
    require(attributes.real("steps") > 0, "steps above 0")
    return [logits]


def _run_softmax(operator: HostOperator, arrays: _Arrays) -> list[np.ndarray]:
    """Return labels less the softmax of logits, without their mean, in steps of 1 / ONE."""
    logits, labels, *noises = (array.astype(np.int64) for array in arrays)
    classes = logits.shape[-1]
    below = np.maximum(logits - logits.max(axis=-1, keepdims=True), -128)
    powers = exponentials(operator.attributes["steps"])[below + 128]
    excess = powers.sum(axis=-1, keepdims=True) - ONE
    half = 1 << (RECIPROCAL_SHIFT - 1)
    index = np.minimum((excess + half) >> RECIPROCAL_SHIFT, 255)
    error = ONE * labels - reciprocals()[index] * powers
    for number, noise in enumerate(noises):
        error = error @ projection(classes) if number else error
        error = error + noise[..., np.arange(classes) % noise.shape[-1]]
        half = 1 << (ERROR_SHIFT - 1)
        error = np.clip((error + half) >> ERROR_SHIFT, -ONE, ONE)
    return [error.astype(np.int8)]


#: Masks: the least int8 where errors do not pass. Twice that, added to an error, is less still;
#: the clamp makes -128 of it, and a table 0 of that.
_MASK, _TWICE = -128, 2


def _lower_masked(lowering: Lowering, operation: Operation) -> None:
    layers, attributes = ShiftedLayers(lowering, operation), operation.attributes
    errors, values = (layers.matrix(number) for number in operation.inputs)
    inside = (BYTES > attributes["low"]) & (BYTES < attributes["high"])
    shape = values.rows, values.columns
    masks = layers.vector(values, shape, table=np.where(inside, 0, _MASK).astype(np.int8))
    table = np.where(BYTES == _MASK, 0, BYTES).astype(np.int8)
    addends = ((errors, 1), (masks, _TWICE))
    layers.sums(shift_scaling(0), None, addends, shape=shape, table=table)


class _Pixels(NamedTuple):
    """Pixels of results that lie in windows side by side; the rest are zeros."""

    #: How the pixels of the windows repeat, and which they are of the results if not all.
    repeats: Repeats
    part: Repeats | None
    extents: tuple[int, int]  #: Rows and columns of the matrix of pixels in windows.
    #: Grid on which they lie if they are not all, and the rows and columns of its images.
    grid: Grid | None
    image: tuple[int, int]


def _pixels(layers: ShiftedLayers) -> _Pixels:
    """Return the pixels of the result of an operation that lie in windows."""
    tensors, operation = layers.lowering.graph.tensors, layers.operation
    images, height, width, channels = tensors[operation.outputs[0]].shape
    down, along = tensors[operation.inputs[0]].shape[1:3]
    high, wide = operation.attributes["window"]
    image = down * high, along * wide
    repeats = Repeats((high, wide), (down, along), (down * along, along))
    rows = images * math.prod(image), channels
    if image == (height, width):
        return _Pixels(repeats, None, rows, None, image)
    part = Repeats((1, 1), image, (height * width, width))
    return _Pixels(repeats, part, rows, Grid(images, height, width, (0, 0)), image)


def _lower_repeated(lowering: Lowering, operation: Operation) -> None:
    layers = ShiftedLayers(lowering, operation)
    pixels = _pixels(layers)
    errors = replace(layers.matrix(operation.inputs[0]), repeats=pixels.repeats)
    ways = {"shape": pixels.extents, "grid": pixels.grid, "image": pixels.image}
    layers.sums(shift_scaling(0), None, ((errors, 1),), **ways)


def _lower_maxima(lowering: Lowering, operation: Operation) -> None:
    """Lower the errors of maxima.

    Results less their maxima are 0 where they are equal. Of an activation with ends, of which the
    lower one is 0 at least, a maximum is the sum where both are equal, and no other sum is above 0:
    127 times the result, less 126 times the maximum.
    """
    if "stride" in operation.attributes:
        raise CompileError("wanted windows that lie side by side")
    errors, results, maxima = operation.inputs
    layers, attributes = ShiftedLayers(lowering, operation), operation.attributes
    ends, factors, passing = layers.matrix(maxima), (1, -1), BYTES == 0
    low, high = (attributes.get(name, end) for name, end in (("low", -129), ("high", 128)))
    if low >= 0:
        factors, passing = (127, -126), (BYTES > low) & (BYTES < high)
    elif "low" in attributes:
        # A maximum at an end counts as one more: no result of its windows equals it.
        table = np.where((BYTES <= low) | (BYTES >= high), np.minimum(BYTES, 126) + 1, BYTES)
        ends = layers.vector(ends, (ends.rows, ends.columns), table=table.astype(np.int8))
    first, values = len(lowering.layers), layers.matrix(results)
    pixels = _pixels(layers)
    inside, repeated = replace(values, repeats=pixels.part), replace(ends, repeats=pixels.repeats)
    table = np.where(passing, 0, _MASK).astype(np.int8)
    addends = [*zip((inside, repeated), factors, strict=True)]
    masks = layers.sums(shift_scaling(0), None, addends, shape=pixels.extents, table=table)
    layers.hasten(first, (values, ends))
    repeated = replace(layers.matrix(errors), repeats=pixels.repeats)
    table = np.where(BYTES == _MASK, 0, BYTES).astype(np.int8)
    ways = {"shape": pixels.extents, "grid": pixels.grid, "image": pixels.image}
    addends = ((repeated, 1), (masks, _TWICE))
    layers.sums(shift_scaling(0), None, addends, table=table, **ways)


def _lower_softmax(lowering: Lowering, operation: Operation) -> None:
    """Lower the errors of logits.

    The reciprocals of the sums are brought to the diagonal of a matrix, which scales the rows of
    exponentials: off the diagonal an addend takes them past the clamp at 0.
    """
    layers = ShiftedLayers(lowering, operation)
    logits, labels, first, second = (layers.matrix(number) for number in operation.inputs)
    rows, classes = logits.rows, logits.columns
    windows = (Windows(result=(0, 0), count=(1, rows), source=(0, 0), size=(1, classes)),)
    seen, stride = (1, rows * classes, 1), (1, classes)
    greatest = layers.vector(logits, (rows, 1), windows=windows, seen=seen, stride=stride)
    ones = np.ones((1, max(rows, classes)), np.int8)
    table = np.zeros(256, np.int8)
    table[:129] = exponentials(operation.attributes["steps"])
    minus = layers.constant(-ones[:, :classes])
    powers = layers.sums(
        shift_scaling(0), (greatest, minus), ((logits, 1),), table=np.roll(table, -128)
    )
    index = shift_scaling(RECIPROCAL_SHIFT, bias=-ONE, zero_point=-128)
    column = layers.constant(ones[:, :classes].T)
    table = np.roll(-reciprocals(), -128).astype(np.int8)
    parts = layers.sums(index, (powers, column), table=table)
    off = layers.constant(ONE * (1 - np.eye(rows, dtype=np.int8)))
    row = layers.constant(ones[:, :rows])
    diagonal = layers.sums(shift_scaling(0, high=0), (parts, row), ((off, 1),))
    ends = shift_scaling(ERROR_SHIFT, low=-ONE)
    errors = layers.sums(ends, (diagonal, powers), ((labels, ONE), (first, 1)))
    layers.sums(ends, (errors, layers.constant(projection(classes))), ((second, 1),))


OPERATORS = tuple(
    of_step(kind, shapes, kernel, lower)
    for kind, shapes, kernel, lower in (
        ("MaskedErrors", _masked_shapes, _run_masked, _lower_masked),
        ("MaximumErrors", _grown_shapes, _run_maxima, _lower_maxima),
        ("RepeatedErrors", _grown_shapes, _run_repeated, _lower_repeated),
        ("SoftmaxErrors", _softmax_shapes, _run_softmax, _lower_softmax),
    )
)
