"""Operators that choose elements: by a condition, or the greatest ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.node import ModelError, Node
from celosia.sw.layers.record import (
    ANY,
    WHOLE,
    Attributes,
    Mismatch,
    Operator,
    Shape,
    each_sample,
    mover,
    require,
)

_NUMBERS = ("int8", "uint8", "int16", "int32", "int64", "float32")


def _condition(operator: HostOperator) -> Shape:
    require(len(operator.sources) == 3, "3 inputs", len(operator.sources))
    condition = operator.sources[0]
    require(condition.dtype == "bool", "a condition of bool", condition.dtype)
    return condition.shape


def _select_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    """Return the shape of two operands, which must agree; a condition may be one for each row."""
    condition, (first, second) = _condition(operator), (x.shape for x in operator.sources[1:])
    require(first == second, "operands of one shape", f"{first} and {second}")
    good = condition in (first, (), first[:1])
    require(good, f"a condition of shape {first}, {first[:1]} or ()", condition)
    return [first]


def _run_select(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    condition, first, second = arrays
    return [
        np.where(
            condition.reshape(*condition.shape, *[1] * (first.ndim - condition.ndim)), first, second
        )
    ]


def _select_v2_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    shapes = _condition(operator), *(operand.shape for operand in operator.sources[1:])
    try:
        return [np.broadcast_shapes(*shapes)]
    except ValueError:
        raise Mismatch(f"inputs that broadcast, got {' and '.join(map(str, shapes))}") from None


def _read_where(node: Node) -> dict[str, Any]:
    """Read WHERE, whose result has as many rows as its condition has true elements."""
    node.require_inputs(1)
    types = (np.bool_, np.int8, np.uint8, np.int32, np.int64, np.float32)
    condition = node.constant(0, types, "condition")
    return {"rows": int(np.count_nonzero(condition))}


def _where_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    return [(attributes.integer("rows", 0, 1 << 31), len(operator.sources[0].shape))]


def _run_where(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [np.argwhere(arrays[0]).astype(operator.results[0].dtype)]


def _read_top(node: Node) -> dict[str, Any]:
    node.require_inputs(2, results=2)
    kinds = (np.int16, np.int32)
    (count,) = node.constant(1, kinds, "k").reshape(-1).tolist()[:1] or [0]
    if count < 1:
        raise ModelError(f"wanted a k of at least 1, got {count}")
    return {"k": count}


def _top_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    (source,), (values, indices) = operator.sources, operator.results
    require(bool(source.shape), "at least one dimension", source.shape)
    ends = [(operand.dtype, operand.scale, operand.zero_point) for operand in (source, values)]
    require(ends[0] == ends[1], "values of the type, scale and zero point of the input")
    require(indices.dtype in ("int16", "int32"), "int16 or int32 indices", indices.dtype)
    return [(*source.shape[:-1], attributes.integer("k", 1, source.shape[-1]))] * 2


def _run_top(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the greatest of each row, the first of equals first, and their indices."""
    (array,), count = arrays, operator.attributes["k"]
    # Sorted from the end, so that of equals the last one of that order comes first.
    order = array.shape[-1] - 1 - np.argsort(array[..., ::-1], axis=-1, kind="stable")
    best = order[..., ::-1][..., :count]
    return [np.take_along_axis(array, best, -1), best.astype(operator.results[1].dtype)]


_SELECTS: dict[str, Any] = {"aside": (0,), "takes_batch": True}

OPERATORS = (
    mover(
        "SELECT",
        _select_shapes,
        each_sample(_run_select),
        "a condition of one shape with the operands, of rows, or one",
        **_SELECTS,
    ),
    mover(
        "SELECT_V2",
        _select_v2_shapes,
        each_sample(lambda _, arrays: [np.where(*arrays)]),
        "shapes that broadcast",
        **_SELECTS,
    ),
    Operator(
        kind="WHERE",
        read=_read_where,
        shapes=_where_shapes,
        types=(ANY[0], WHOLE[1]),
        plain=True,
        kernel=each_sample(_run_where),
        takes_batch=True,
        host="a constant condition",
    ),
    Operator(
        kind="TOPK_V2",
        read=_read_top,
        shapes=_top_shapes,
        operands=(0,),
        types=(_NUMBERS, _NUMBERS),
        kernel=_run_top,
        host="a constant k",
    ),
)
