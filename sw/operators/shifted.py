"""Operators of a training step: sums of int8 products, shifted and rounded to int8.

No file of a model has them; ``gradient`` of other records makes them. A matrix is a tensor of shape
``(1, rows, columns)``. See docs/design/training.md.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from celosia.hw.arch.config import PARAMETER_BYTES
from celosia.sw.ir.graph import Operation
from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.dense import DenseLayers, is_updated_in_parts
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.lowering import Lowering
from celosia.sw.layers.record import (
    INT8,
    Attributes,
    Lower,
    Operator,
    Shape,
    Shapes,
    each_sample,
    require,
)
from celosia.sw.layers.shifted import Matrix, ShiftedLayers, shift_scaling
from celosia.sw.layers.values import Scaling

_Arrays = Sequence[np.ndarray]
#: Returns sums of products, shape ``(images, pixels, channels)``, of operands of one sample.
Sums = Callable[[HostOperator, _Arrays], np.ndarray]

#: Roundings: halves up; halves away from zero; the last after a first bit that is rounded up.
ROUNDINGS = ("UP", "AWAY", "HALVED")
#: Greatest shifts, to the left and to the right, and greatest factor of an addend.
_LEFT, _RIGHT, _FACTOR = 7, 30, 1 << 14
#: Products of two int8 whose sums float32 holds.
_MOST_TERMS = (1 << 24) >> 14
#: Sums of products of each operator of shifted sums.
_SUMS: dict[str, Sums] = {}


def shifted(sums: np.ndarray, attributes: dict[str, Any]) -> np.ndarray:
    """Return int32 sums over two to the power of ``shift``, rounded and clamped to int8.

    With ``kept_bits`` the sums keep their lowest bits alone, as a signed number.
    """
    sums = sums.astype(np.int32).astype(np.int64)
    if bits := attributes["kept_bits"]:
        half = 1 << (bits - 1)
        sums = (sums + half) % (1 << bits) - half
    shift, rounding = attributes["shift"], attributes["rounding"]
    if rounding == "HALVED":
        sums, shift = (sums + 1) >> 1, shift - 1
    half = (1 << shift) >> 1 if shift > 0 else 0
    if shift <= 0:
        values = sums << -shift
    elif rounding == "UP":
        values = (sums + half) >> shift
    else:
        values = np.sign(sums) * ((np.abs(sums) + half) >> shift)
    return np.clip(values, attributes["low"], attributes["high"]).astype(np.int8)


def spread(addend: np.ndarray, images: int, pixels: int, channels: int) -> np.ndarray:
    """Return an addend for each sum, int64.

    Its rows are those of all pixels, or one for all, or overlapping ones: each image begins a row
    after the one before. Its columns are repeated up to the channels.
    """
    rows = addend.reshape(-1, addend.shape[-1]).astype(np.int64)
    rows = rows[:, np.arange(channels) % rows.shape[1]]
    if len(rows) == images * pixels:
        return rows.reshape(images, pixels, channels)
    if len(rows) > 1:
        return rows[np.arange(images)[:, None] + np.arange(pixels)]
    return np.broadcast_to(rows, (images, pixels, channels))


def stepped(sums: np.ndarray, records: np.ndarray) -> np.ndarray:
    """Return sums shifted by parameters of channels: noise as bias, and shifts to the right."""
    fields = np.ascontiguousarray(records.reshape(-1, PARAMETER_BYTES))
    bias = fields[:, :4].copy().view("<i4")[:, 0].astype(np.int64)
    right = fields[:, 9].astype(np.int64)
    return (sums + bias + ((1 << right) >> 1)) >> right


def check(operator: HostOperator, attributes: Attributes, shape: Shape) -> list[Shape]:
    """Check the attributes of shift and addends of a result, whose shape is returned."""
    attributes.integer("shift", -_LEFT, _RIGHT)
    attributes.name("rounding", ROUNDINGS)
    attributes.integer("kept_bits", 0, 8)
    attributes.integer("bias", -_FACTOR, _FACTOR)
    low = attributes.integer("low", -128, 127)
    attributes.integer("high", low, 127)
    factors = operator.attributes.get("factors")
    require(isinstance(factors, list | tuple), "factors of addends", factors)
    attributes.integers("factors", len(factors or ()), -_FACTOR, _FACTOR)
    pixels = int(np.prod(shape[1:-1], dtype=np.int64))
    last = len(operator.sources)
    if attributes.flag("stepped"):
        last -= 1
        records = operator.sources[last].shape
        require(records == (1, shape[-1], PARAMETER_BYTES), "parameters of each channel", records)
    for addend in operator.sources[last - len(factors or ()) : last]:
        rows = int(np.prod(addend.shape[:-1], dtype=np.int64))
        good = rows in (1, shape[0] * pixels, shape[0] + pixels - 1)
        good = good and 0 < addend.shape[-1] <= shape[-1]
        require(good, f"an addend of {shape[0] * pixels} rows or one", addend.shape)
    return [shape]


def in_pairs(attributes: dict[str, Any], operands: Sequence[Any]) -> list[Sequence[Any]]:
    """Return the operands of each of several products that are added: ``pairs``, one by default."""
    size = len(operands) // attributes.get("pairs", 1)
    return [operands[n : n + size] for n in range(0, len(operands), size)] if size else [operands]


def product_sums(operator: HostOperator, arrays: _Arrays) -> np.ndarray:
    """Return the sums of products of an operator of one sample: no shift, and no addends."""
    fields = operator.attributes
    operands = arrays[: len(arrays) - len(fields["factors"]) - fields["stepped"]]
    parts = in_pairs(operator.attributes, operands)
    total, *others = (_SUMS[operator.kind](operator, part) for part in parts)
    return sum(others, total)


def finished(operator: HostOperator, sums: np.ndarray, arrays: _Arrays) -> np.ndarray:
    """Return the result of an operator of one sample from its sums of products."""
    attributes, shape = operator.attributes, operator.results[0].shape
    factors = attributes["factors"]
    first = len(arrays) - len(factors) - attributes["stepped"]
    total = stepped(sums, arrays[-1]) if attributes["stepped"] else sums
    extents = (shape[0], int(np.prod(shape[1:-1])), shape[-1])
    for addend, factor in zip(arrays[first:], factors, strict=False):
        total = total + factor * spread(addend, *extents)
    return shifted(total + attributes["bias"], attributes).reshape(shape)


def _run(operator: HostOperator, arrays: _Arrays) -> list[np.ndarray]:
    return [finished(operator, product_sums(operator, arrays), arrays)]


def exact(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the product of matrices of int8, int64; the type of floats holds all sums."""
    kind = np.float32 if one.shape[-1] <= _MOST_TERMS else np.float64
    return (one.astype(kind) @ other.astype(kind)).astype(np.int64)


def _matrix(shape: Shape) -> Shape:
    require(len(shape) == 3 and shape[0] == 1, "a matrix of shape (1, rows, columns)", shape)
    return shape[1:]


def _second(shapes: Sequence[Shape]) -> Shape:
    """Return rows and columns of the second matrix, which is divided by columns into several."""
    rows = {shape[0] for shape in shapes}
    require(len(rows) == 1, "blocks of as many rows", shapes)
    return (rows.pop(), sum(shape[1] for shape in shapes))


def _product_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    factors = operator.attributes.get("factors", ())
    count = len(operator.sources) - len(factors) - bool(operator.attributes.get("stepped"))
    shapes = {
        _shape_of_product(attributes, [_matrix(operand.shape) for operand in operands])
        for operands in in_pairs(operator.attributes, operator.sources[:count])
    }
    require(len(shapes) == 1, "products of one shape", shapes)
    return check(operator, attributes, (1, *shapes.pop()))


def _shape_of_product(attributes: Attributes, matrices: Sequence[Shape]) -> Shape:
    """Return rows and columns of the product of a matrix and blocks of another."""
    first, *blocks = matrices
    second = _second(blocks)
    start = attributes.integer("column", 0, second[1] - 1)
    second = (second[0], attributes.integer("columns", 1, second[1] - start))
    first = first[::-1] if attributes.flag("adj_x") else first
    second = second[::-1] if attributes.flag("adj_y") else second
    require(first[1] == second[0], f"a second matrix of {first[1]} rows", second)
    return first[0], second[1]


def _product_sums(operator: HostOperator, arrays: _Arrays) -> np.ndarray:
    first, second = arrays[0][0], np.concatenate(arrays[1:], axis=2)[0]
    start = operator.attributes["column"]
    second = second[:, start : start + operator.attributes["columns"]]
    first = first.T if operator.attributes["adj_x"] else first
    return exact(first, second.T if operator.attributes["adj_y"] else second)[None]


def _sum_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    require(len(operator.attributes.get("factors", ())) == len(operator.sources), "factors")
    return check(operator, attributes, operator.results[0].shape)


def _nothing(operator: HostOperator, arrays: _Arrays) -> np.ndarray:
    return np.zeros((1, 1, 1), np.int64)


class Parts(NamedTuple):
    """Layers of an operation, and the parts of its sums besides products."""

    layers: ShiftedLayers
    scaling: Scaling
    operands: Sequence[int]
    addends: list[tuple[Matrix, int]]
    stepped: int  #: Value of parameters that shift the product; -1 for none.


def parts_of(lowering: Lowering, operation: Operation, overlap: int = 0) -> Parts:
    """Return the parts of an operation; ``overlap``: rows of an addend that images share."""
    attributes, layers = operation.attributes, ShiftedLayers(lowering, operation)
    names = ("bias", "rounding", "kept_bits", "low", "high")
    scaling = shift_scaling(attributes["shift"], **{name: attributes[name] for name in names})
    last = len(operation.inputs) - attributes["stepped"]
    count = last - len(attributes["factors"])
    addends = [layers.matrix(number) for number in operation.inputs[count:last]]
    rows = int(np.prod(lowering.graph.tensors[operation.outputs[0]].shape[:-1]))
    if any(matrix.rows not in (1, rows, overlap) for matrix in addends):
        raise CompileError("wanted addends of one row, or of all rows")
    records = layers.input(operation.inputs[-1]) if attributes["stepped"] else -1
    pairs = list(zip(addends, attributes["factors"], strict=True))
    return Parts(layers, scaling, operation.inputs[:count], pairs, records)


def _lower(lowering: Lowering, operation: Operation) -> None:
    """Lower a product of two matrices, or none, with addends."""
    attributes = operation.attributes
    layers, scaling, operands, addends, records = parts_of(lowering, operation)
    shape = lowering.graph.tensors[operation.outputs[0]].shape
    extents = (int(np.prod(shape[:-1])), shape[-1])
    turned = attributes.get("adj_x", False), attributes.get("adj_y", False)
    columns = None if turned[1] else (attributes.get("column", 0), attributes.get("columns", 0))
    ways = {"turned": turned, "columns": columns, "stepped": records}
    if attributes.get("pairs", 1) > 1:
        one, *others = (
            (layers.in_turn(layers.matrix(x), spread=turned[0]), layers.in_turn(layers.matrix(e)))
            for x, e in in_pairs(attributes, operands)
        )
        layers.sums(scaling, one, addends, pairs=others, **ways)
        return
    if not operands:
        layers.sums(scaling, None, addends, shape=extents)
        return
    dense = DenseLayers(layers, scaling, operands, addends)
    if turned == (False, True) and (len(operands) > 2 or dense.is_large):
        dense.errors()
    elif len(operands) > 2:
        if any(turned):
            raise CompileError("wanted one block of a second matrix")
        dense.results(extents)
    elif columns and turned[0] and records >= 0 and is_updated_in_parts(*extents):
        dense.update(extents, columns, records)
    elif turned == (False, False) and dense.is_large:
        dense.in_parts()
    else:
        first, second = (layers.matrix(number) for number in operands)
        layers.sums(scaling, (first, second), addends, **ways)


STEP = "a step of training"


def of_step(kind: str, shapes: Shapes, kernel: Any, lower: Lower | None) -> Operator:
    """Return the record of an operator of a step, which the core has if there is ``lower``."""
    return Operator(
        kind=kind,
        shapes=shapes,
        types=INT8,
        plain=True,
        kernel=each_sample(kernel),
        lower=lower,
        option=(lambda graph, operation: "activation_weights") if lower else None,
        core=STEP if lower else None,
        host=STEP,
    )


def record(kind: str, shapes: Shapes, sums: Sums, lower: Lower) -> Operator:
    """Return the record of an operator of shifted sums."""
    _SUMS[kind] = sums
    return of_step(kind, shapes, _run, lower)


OPERATORS = (
    record("ShiftedProduct", _product_shapes, _product_sums, _lower),
    record("ShiftedSum", _sum_shapes, _nothing, _lower),
)
