"""Products of two batches of matrices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tflite

from celosia.sw.compiler.quantize import single_factor
from celosia.sw.ir.parts import HostOperator
from celosia.sw.operators.attributes import Attributes, Mismatch, require
from celosia.sw.operators.fixed_point import (
    aligned,
    centred,
    finished,
    products,
    rescaled,
    single,
)
from celosia.sw.operators.node import Node
from celosia.sw.operators.record import SAME, Operator, Shape, by_type

__all__ = ["OPERATORS"]


def _read(node: Node) -> dict[str, Any]:
    node.require_inputs(2)
    options = node.options(tflite.BatchMatMulOptions)
    flags = (options.AdjX(), options.AdjY()) if options else (False, False)
    return {"adj_x": bool(flags[0]), "adj_y": bool(flags[1])}


def _shapes(operator: HostOperator, said: Attributes) -> list[Shape]:
    require(len(operator.sources) == 2, "2 inputs", len(operator.sources))
    first, second = (operand.shape for operand in operator.sources)
    got = f"{first} and {second}"
    require(all(2 <= len(shape) <= 5 for shape in (first, second)), "2 to 5 dimensions", got)
    rows, depth = first[-2:][::-1] if said.flag("adj_x") else first[-2:]
    height, columns = second[-2:][::-1] if said.flag("adj_y") else second[-2:]
    require(depth == height, "as many columns as rows", got)
    try:
        return [(*np.broadcast_shapes(first[:-2], second[:-2]), rows, columns)]
    except ValueError:
        raise Mismatch(f"batches that broadcast, got {got}") from None


def _turned(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    flags = operator.attributes["adj_x"], operator.attributes["adj_y"]
    return [x.swapaxes(-1, -2) if turn else x for x, turn in zip(arrays, flags, strict=True)]


def _run_bytes(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    # Sums are whole numbers below 2^53, which float64 holds.
    first, second = (x.astype(np.float64) for x in _turned(operator, centred(operator, arrays)))
    left, right, output = (single(x) for x in (*operator.sources, operator.results[0]))
    sums = np.matmul(first, second).astype(np.int64)
    return finished(rescaled(sums, single_factor(left, right, over=output)), operator.results[0])


def _run_real(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return products whose terms are added in order."""
    first, second = _turned(operator, aligned(operator, arrays))
    sums = np.float32(0)
    for k in range(first.shape[-1]):
        sums = sums + first[..., k : k + 1] * second[..., k : k + 1, :]
    return [np.asarray(sums, np.float32)]


OPERATORS = (
    Operator(
        kind="BATCH_MATMUL",
        read=_read,
        shapes=_shapes,
        types=(("int8", "float32"), SAME),
        whole=True,
        kernel=by_type(int8=_run_bytes, plain=_run_real),
        factors=products,
        host="int8, float32: two inputs that are computed, or a constant one; batches broadcast",
    ),
)
