"""Operators of a training step: shifted sums of windows of images, and of their backward passes.

The core copies images to grids with zeros around them. A product then reads windows of a grid: see
``Reads``. No file of a model has these operators. See docs/design/training.md.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from celosia.hw.arch.config import PARAMETER_BYTES
from celosia.sw.ir.graph import Operation
from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.dense import is_large, update_in_parts
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.grids import Grid, Group, Reads
from celosia.sw.layers.lowering import Lowering, View
from celosia.sw.layers.record import EXTENT, Attributes, Shape, require
from celosia.sw.layers.shifted import Matrix, ShiftedLayers
from celosia.sw.layers.spec import Range, Windows
from celosia.sw.operators.shifted import check, exact, in_pairs, parts_of, record
from celosia.sw.operators.windows import image

_Arrays = Sequence[np.ndarray]

#: Columns of a large matrix of weights that are updated at once.
_COLUMNS = 16
#: Taps of a row of a kernel, at most, of which one pass takes several; banks, or a part of them.
_FEW, _BANKS = 8, 16


def _windows_of(
    operator: HostOperator, attributes: Attributes, extents: Sequence[int], counts: Sequence[int]
) -> Sequence[int]:
    """Return rows and columns of the kernel; check that windows cover images of some extents."""
    kernel = attributes.integers("kernel", 2, 1, EXTENT)
    stride = attributes.integers("stride", 2, 1, EXTENT)
    before = attributes.integers("before", 2, 0, EXTENT)
    for n in (0, 1):
        last = (counts[n] - 1) * stride[n] - before[n]
        good = before[n] < kernel[n] and last < extents[n]
        require(good, "windows that reach the image", (tuple(extents), tuple(counts)))
    return kernel


def _weights_of(
    operator: HostOperator, attributes: Attributes, kernel: Sequence[int], inputs: int, outputs: int
) -> Shape:
    """Return the shape of the matrix of weights between so many channels."""
    taps = kernel[0] * kernel[1]
    if attributes.flag("depthwise"):
        require(outputs % inputs == 0, f"a multiple of {inputs} channels", outputs)
        return (1, taps, outputs)
    return (1, taps * inputs, outputs)


def _convolution_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    batch, *extents, inputs = image(operator.sources[0].shape)
    counts = attributes.integers("extents", 2, 1, EXTENT)
    kernel = _windows_of(operator, attributes, extents, counts)
    weights = operator.sources[1].shape
    require(len(weights) == 3, "a matrix of weights", weights)
    expected = _weights_of(operator, attributes, kernel, inputs, weights[2])
    require(weights == expected, f"weights of shape {expected}", weights)
    return check(operator, attributes, (batch, *counts, weights[2]))


def _turned_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    batch, *counts, outputs = image(operator.sources[0].shape)
    extents = attributes.integers("extents", 2, 1, EXTENT)
    inputs = attributes.integer("inputs", 1, EXTENT)
    kernel = _windows_of(operator, attributes, extents, counts)
    expected = _weights_of(operator, attributes, kernel, inputs, outputs)
    require(operator.sources[1].shape == expected, f"weights of shape {expected}")
    return check(operator, attributes, (batch, *extents, inputs))


def _correlation_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    count, shapes = 2 * operator.attributes.get("pairs", 1), set()
    for x, e in in_pairs(operator.attributes, operator.sources[:count]):
        batch, *extents, inputs = image(x.shape)
        errors = image(e.shape)
        require(errors[0] == batch, f"errors of {batch} images", errors[0])
        kernel = _windows_of(operator, attributes, extents, errors[1:3])
        shapes.add(_weights_of(operator, attributes, kernel, inputs, errors[3]))
    require(len(shapes) == 1, "gradients of one shape", shapes)
    return check(operator, attributes, shapes.pop())


def _patches(x: np.ndarray, attributes: dict[str, Any], counts: Sequence[int]) -> np.ndarray:
    """Return the pixels under the kernel: ``(images, pixels, taps, channels)``, int8."""
    kernel, stride, before = (attributes[name] for name in ("kernel", "stride", "before"))
    after = [
        max(0, (counts[n] - 1) * stride[n] + kernel[n] - before[n] - x.shape[1 + n]) for n in (0, 1)
    ]
    around = [(0, 0), *zip(before, after, strict=True), (0, 0)]
    views = np.lib.stride_tricks.sliding_window_view(np.pad(x, around), tuple(kernel), (1, 2))
    views = views[:, :: stride[0], :: stride[1]][:, : counts[0], : counts[1]]
    taps = views.transpose(0, 1, 2, 4, 5, 3)
    return taps.reshape(len(x), counts[0] * counts[1], kernel[0] * kernel[1], x.shape[3])


def _convolution_sums(operator: HostOperator, arrays: _Arrays) -> np.ndarray:
    (x, weights), attributes = arrays, operator.attributes
    taps = _patches(x, attributes, attributes["extents"])
    if not attributes["depthwise"]:
        return exact(taps.reshape(*taps.shape[:2], -1), weights[0])
    multiplier = weights.shape[2] // x.shape[3]
    products = np.repeat(taps.astype(np.int64), multiplier, axis=3) * weights[0]
    return products.sum(axis=2)


def _turned_sums(operator: HostOperator, arrays: _Arrays) -> np.ndarray:
    (errors, weights), attributes = arrays, operator.attributes
    (rows, columns), inputs = attributes["extents"], attributes["inputs"]
    kernel, stride, before = (attributes[name] for name in ("kernel", "stride", "before"))
    batch, high, wide, outputs = errors.shape
    padded = np.zeros(
        (batch, *(kernel[n] + max((high, wide)[n] * stride[n], (rows, columns)[n]) for n in (0, 1)))
        + (inputs,),
        np.int64,
    )
    matrices = weights[0].reshape(kernel[0], kernel[1], -1, outputs)
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            if attributes["depthwise"]:
                part = errors.astype(np.int64) * matrices[row, column]
                part = part.reshape(batch, high, wide, inputs, -1).sum(axis=4)
            else:
                part = exact(errors, matrices[row, column].T)
            bottom, right = row + high * stride[0], column + wide * stride[1]
            padded[:, row : bottom : stride[0], column : right : stride[1]] += part
    inside = padded[:, before[0] : before[0] + rows, before[1] : before[1] + columns]
    return inside.reshape(batch, rows * columns, inputs)


def _correlation_sums(operator: HostOperator, arrays: _Arrays) -> np.ndarray:
    (x, errors), attributes = arrays, operator.attributes
    taps = _patches(x, attributes, errors.shape[1:3])
    flat = errors.reshape(-1, errors.shape[3])
    taps = taps.reshape(len(flat), taps.shape[2], x.shape[3])
    if not attributes["depthwise"]:
        return exact(taps.reshape(len(flat), -1).T, flat)[None]
    multiplier = errors.shape[3] // x.shape[3]
    wide = np.repeat(taps.astype(np.int64), multiplier, axis=2)
    return (wide * flat[:, None]).sum(axis=0)[None]


class _Grids(NamedTuple):
    """Grids of the images of a convolution, and of the errors of its results."""

    images: Grid
    errors: Grid
    kernel: tuple[int, int]
    before: tuple[int, int]

    @property
    def taps(self) -> list[tuple[int, int]]:
        """Rows and columns of the kernel, in order."""
        return [(y, x) for y in range(self.kernel[0]) for x in range(self.kernel[1])]


def _grids(operation: Operation, x: Sequence[int], results: Sequence[int]) -> _Grids:
    """Return the grids of a convolution of images ``x``: both have the same rows and columns.

    The zeros after a row, and after an image, are also those before the next one.
    """
    attributes = operation.attributes
    if attributes["depthwise"] and x[3] != results[3]:
        raise CompileError(f"wanted {x[3]} channels of results, got {results[3]}")
    kernel, stride, before = (attributes[name] for name in ("kernel", "stride", "before"))
    high, wide = (
        max(x[n + 1] + before[n], (results[n + 1] - 1) * stride[n] + kernel[n] - before[n])
        for n in (0, 1)
    )
    origin = kernel[0] - 1 - before[0], kernel[1] - 1 - before[1]
    images = _grid(x[0], high, wide, tuple(before), (1, 1))
    return _Grids(images, _grid(x[0], high, wide, origin, tuple(stride)), tuple(kernel), before)


def _grid(
    images: int, height: int, width: int, origin: tuple[int, int], stride: tuple[int, int]
) -> Grid:
    """Return a grid with zeros after the last image, as many as before the first one."""
    return Grid(images, height, width, origin, stride, origin[0] * width + origin[1])


def _weights(
    layers: ShiftedLayers, operation: Operation, number: int, spread: bool = False
) -> Matrix:
    """Return the matrix between all channels; that of a depthwise layer is diagonal."""
    matrix = layers.matrix(number)
    return layers.diagonals(matrix, spread) if operation.attributes["depthwise"] else matrix


def _lower_convolution(lowering: Lowering, operation: Operation) -> None:
    """Lower windows of images times weights: a row of the kernel at a time."""
    layers, scaling, operands, addends, _ = parts_of(lowering, operation)
    x, results = (lowering.graph.tensors[n].shape for n in (operands[0], operation.outputs[0]))
    grids, (down, right) = _grids(operation, x, results), operation.attributes["stride"]
    grid, taps = grids.images, grids.kernel[1] * x[3]
    if taps <= _FEW and grids.kernel[0] > 1:
        # So one pass takes several rows of the kernel: they are in different banks.
        wide = grid.width + (grids.kernel[1] - grid.width) % _BANKS
        grid = _grid(grid.images, grid.height, wide, grid.origin, grid.stride)
    groups = tuple(Group(y * grid.width, row=y * taps) for y in range(grids.kernel[0]))
    strides = grid.height * grid.width, down * grid.width, right
    reads = Reads((x[0], results[1], results[2]), strides, taps, groups)
    source = layers.padded(layers.matrix(operands[0]), x[:3], grid, spread=False)
    layers.sums(scaling, (source, _weights(layers, operation, operands[1])), addends, reads=reads)


def _lower_turned(lowering: Lowering, operation: Operation) -> None:
    """Lower the errors of the pixels of windows: a convolution with the kernel turned."""
    errors, x = (
        lowering.graph.tensors[n].shape for n in (operation.inputs[0], operation.outputs[0])
    )
    overlap = x[0] + x[1] * x[2] - 1
    layers, scaling, operands, addends, _ = parts_of(lowering, operation, overlap)
    grids = _grids(operation, x, errors)
    grid, (top, left) = grids.errors, grids.before
    down, right = top + grid.origin[0], left + grid.origin[1]
    groups = tuple(
        Group((down - high) * grid.width + right - wide, row=number * x[3])
        for number, (high, wide) in enumerate(grids.taps)
    )
    strides = grid.height * grid.width, grid.width, 1
    reads = Reads((x[0], x[1], x[2]), strides, errors[3], groups)
    source = layers.padded(layers.matrix(operands[0]), errors[:3], grid, spread=False)
    weights = _weights(layers, operation, operands[1], spread=True)
    ways = {"turned": (False, True), "columns": (0, x[3]), "reads": reads}
    layers.sums(scaling, (source, weights), addends, **ways)


def _lower_correlation(lowering: Lowering, operation: Operation) -> None:
    """Lower gradients of weights: columns of images times the errors of all pixels.

    Those of a depthwise layer are the diagonals of the ones between all channels.
    """
    layers, scaling, operands, addends, records = parts_of(lowering, operation)
    x, errors = (lowering.graph.tensors[n].shape for n in operands[:2])
    grids = _grids(operation, x, errors)
    if x[0] == 1 and not layers.copies(layers.matrix(operands[1]), grids.errors):
        # Of one image, only the rows with errors are read.
        high = (errors[1] - 1) * grids.errors.stride[0] + 1
        grids = grids._replace(errors=replace(grids.errors, height=high, origin=(0, 0), spare=0))
    pairs_of = in_pairs(operation.attributes, operands)
    _, rows, columns, _ = errors
    filled = [layers.filled(layers.matrix(number), (rows, columns)) for _, number in pairs_of]
    start, end = grids.errors.inside(*(max(counts) for counts in zip(*filled, strict=True)))
    taps = end - start
    reads = Reads((*grids.kernel, x[3]), (grids.images.width, 1, 0), taps, (Group(row=start),))
    (images, pixels), *pairs = _pairs(layers, pairs_of, grids)
    ways: dict[str, Any] = {"turned": (True, False), "reads": reads, "pairs": pairs}
    depthwise = operation.attributes["depthwise"]
    if depthwise:
        addends = [(layers.diagonals(matrix, spread=False), factor) for matrix, factor in addends]
    extents = len(grids.taps) * x[3], errors[3]
    if records >= 0 and not depthwise and is_large(*extents):
        noise = Matrix(records, errors[3], PARAMETER_BYTES)

        def add(some: Range, result: Matrix) -> None:
            parts = [(layers.part(matrix, columns=some), factor) for matrix, factor in addends]
            layers.sums(
                scaling,
                (images, pixels),
                parts,
                **ways,
                stepped=layers.part(noise, rows=some).value,
                columns=(some[0], some[1] - some[0]),
                result=result,
            )

        cut = [(n, min(n + _COLUMNS, errors[3])) for n in range(0, errors[3], _COLUMNS)]
        update_in_parts(layers, scaling, extents, cut, add, by_columns=True)
        return
    result = layers.sums(scaling, (images, pixels), addends, **ways, stepped=records)
    if depthwise:
        _take_diagonals(layers, result, reads.counts)


def _pairs(
    layers: ShiftedLayers, operands: Sequence[Sequence[int]], grids: _Grids
) -> list[tuple[Matrix, Matrix]]:
    """Return grids of images and of errors; those of several pairs are loaded in turn."""
    pairs, several = [], len(operands) > 1
    for numbers in operands:
        grids_of = zip(numbers, (grids.images, grids.errors), (not several, False), strict=True)
        one, other = (_on_grid(layers, number, grid, way) for number, grid, way in grids_of)
        if several:
            one, other = layers.in_turn(one, spread=True), layers.in_turn(other)
        pairs.append((one, other))
    return pairs


def _on_grid(layers: ShiftedLayers, number: int, grid: Grid, spread: bool) -> Matrix:
    """Return images on a grid."""
    shape = layers.lowering.graph.tensors[number].shape
    return layers.padded(layers.matrix(number), shape[:3], grid, spread)


def _take_diagonals(layers: ShiftedLayers, matrix: Matrix, counts: Sequence[int]) -> None:
    """Make the result of the diagonals of square matrices."""
    taps, channels = counts[0] * counts[1], counts[2]
    windows = tuple(
        Windows(result=(0, tap * channels), count=(1, channels), source=(tap, 0), size=(1, 1))
        for tap in range(taps)
    )
    shape, seen = (1, taps * channels, 1), (taps, channels * channels, 1)
    view = View(matrix.value, 0, 0, 1, matrix.rows)
    fields = {"windows": windows, "shape": shape, "seen": seen, "stride": (1, channels + 1)}
    layers.lowering.vector(layers.operation, view, **fields)


OPERATORS = (
    record("ShiftedConvolution", _convolution_shapes, _convolution_sums, _lower_convolution),
    record("TurnedConvolution", _turned_shapes, _turned_sums, _lower_turned),
    record("ShiftedCorrelation", _correlation_shapes, _correlation_sums, _lower_correlation),
)
