"""Products of two batches of matrices."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tflite

from celosia.sw.ir.graph import Operation
from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.lowering import Lowering
from celosia.sw.layers.multiplier import quantize_multiplier
from celosia.sw.layers.node import Node
from celosia.sw.layers.products import dynamic_product, row_product, weights_option, without_zero
from celosia.sw.layers.quantize import ends_of_two, matrix_factor, multiplication_scaling
from celosia.sw.layers.record import SAME, Attributes, Mismatch, Operator, Shape, by_type, require
from celosia.sw.operators.fixed_point import (
    aligned,
    centred,
    finished,
    products,
    single,
    times,
    times_wide,
)


def _read(node: Node) -> dict[str, Any]:
    node.require_inputs(2)
    options = node.options(tflite.BatchMatMulOptions)
    flags = (options.AdjX(), options.AdjY()) if options else (False, False)
    return {"adj_x": bool(flags[0]), "adj_y": bool(flags[1])}


def _factor(operator: HostOperator) -> tuple[int, int]:
    """Return Q31 multiplier and shift of sums of integers."""
    left, right, output = (single(x) for x in (*operator.sources, operator.results[0]))
    return quantize_multiplier(matrix_factor(left, right, over=output))


def batch_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    """Return the shape of products of two batches: shape rule."""
    require(len(operator.sources) == 2, "2 inputs", len(operator.sources))
    first, second = (operand.shape for operand in operator.sources)
    got = f"{first} and {second}"
    require(all(2 <= len(shape) <= 5 for shape in (first, second)), "2 to 5 dimensions", got)
    rows, depth = first[-2:][::-1] if attributes.flag("adj_x") else first[-2:]
    height, columns = second[-2:][::-1] if attributes.flag("adj_y") else second[-2:]
    require(depth == height, "as many columns as rows", got)
    if operator.sources[0].dtype == "int16":
        require(_factor(operator)[1] < 8, "a factor below 2^7")
    try:
        return [(*np.broadcast_shapes(first[:-2], second[:-2]), rows, columns)]
    except ValueError:
        raise Mismatch(f"batches that broadcast, got {got}") from None


def _turned(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    flags = operator.attributes["adj_x"], operator.attributes["adj_y"]
    return [x.swapaxes(-1, -2) if turn else x for x, turn in zip(arrays, flags, strict=True)]


def batch_sums(operator: HostOperator, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return the sums of products of two batches, int64."""
    # Sums are whole numbers below 2^53, which float64 holds.
    first, second = (x.astype(np.float64) for x in _turned(operator, centred(operator, arrays)))
    return np.matmul(first, second).astype(np.int64)


def _run_integers(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    sums = batch_sums(operator, arrays)
    multiply = times if operator.sources[0].dtype == "int8" else times_wide
    return finished(multiply(sums, *_factor(operator)), operator.results[0])


def _run_real(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return products whose terms are added in order."""
    first, second = _turned(operator, aligned(operator, arrays))
    sums = np.float32(0)
    for k in range(first.shape[-1]):
        sums = sums + first[..., k : k + 1] * second[..., k : k + 1, :]
    return [np.asarray(sums, np.float32)]


def _lower(lowering: Lowering, operation: Operation) -> None:
    """Lower a product with one constant matrix: of each row, as FULLY_CONNECTED.

    Matrices that are computed become tiles while the core runs.
    """
    first, matrix = (lowering.graph.tensors[number] for number in operation.inputs[:2])
    if first.data is not None:
        raise CompileError("wanted a first input that is not constant")
    if matrix.data is None:
        dynamic_product(lowering, operation)
        return
    if operation.attributes["adj_x"] or matrix.elements != math.prod(matrix.shape[-2:]):
        raise CompileError(f"wanted rows times one matrix, got {first.shape} and {matrix.shape}")
    if len(first.shape) == 4 and first.shape[0] != lowering.items:
        raise CompileError(f"wanted a batch of {lowering.items}, got shape {first.shape}")
    data = matrix.data.reshape(matrix.shape[-2:])
    turned = data if operation.attributes["adj_y"] else data.T
    source, second, output = ends_of_two(lowering.graph, operation)
    weights = without_zero(turned, second.zero_point)
    scales = (source.scales[0], second.scales[0])
    factor = matrix_factor(*scales, over=output.scales[0])
    row_product(
        lowering, operation, weights, multiplication_scaling(factor, source, output, weights)
    )


OPERATORS = (
    Operator(
        kind="BATCH_MATMUL",
        read=_read,
        shapes=batch_shapes,
        types=(("int8", "int16", "float32"), SAME),
        takes_batch=True,
        kernel=by_type(int8=_run_integers, int16=_run_integers, plain=_run_real),
        lower=_lower,
        option=weights_option,
        factors=products,
        core="int8: rows times one constant matrix; with `activation_weights` two computed inputs",
        host="int8, int16, float32: two inputs that are computed, or a constant one, of one scale "
        "each, because the kernel takes several for 0; batches broadcast",
    ),
)
