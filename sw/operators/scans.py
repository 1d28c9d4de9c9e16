"""Operators along one dimension: indices of extremes, cumulative sums."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tflite

from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.node import Node
from celosia.sw.layers.record import NUMBERS, SAME, Attributes, Kernel, Operator, Shape, require
from celosia.sw.operators.functions import same_shape


def _read_axis(node: Node) -> dict[str, Any]:
    node.require_inputs(2)
    (number,) = node.indices(1, "axis")[:1] or [0]
    return {"axis": node.axis(number)}


def _extreme_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    require(len(operator.sources) == 1, "1 input", len(operator.sources))
    shape = operator.sources[0].shape
    axis = attributes.integer("axis", 0, len(shape) - 1)
    attributes.flag("last")
    return [shape[:axis] + shape[axis + 1 :]]


def _extreme(find: Callable[..., np.ndarray]) -> Kernel:
    """Return the kernel of the index of an extreme along an axis, first or last of equals."""

    def run(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        (x,), axis = arrays, operator.attributes["axis"] + 1
        if operator.attributes["last"]:
            indices = x.shape[axis] - 1 - find(np.flip(x, axis), axis=axis)
        else:
            indices = find(x, axis=axis)
        return [indices.astype(operator.results[0].dtype)]

    return run


def _read_extreme(node: Node) -> dict[str, Any]:
    return {**_read_axis(node), "last": False}


def _read_running(node: Node) -> dict[str, Any]:
    options = node.options(tflite.CumsumOptions)
    flags = (options.Exclusive(), options.Reverse()) if options else (False, False)
    names = ("exclusive", "reverse")
    return {**_read_axis(node), **{name: bool(f) for name, f in zip(names, flags, strict=True)}}


def _running_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    for name in ("exclusive", "reverse"):
        attributes.flag(name)
    attributes.integer("axis", 0, len(operator.sources[0].shape) - 1)
    return same_shape(operator, attributes)


def _run_running(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return cumulative sums along an axis, from either end."""
    attributes = operator.attributes
    x = np.moveaxis(arrays[0], attributes["axis"] + 1, -1)
    x = x[..., ::-1] if attributes["reverse"] else x
    sums = np.add.accumulate(x, axis=-1, dtype=x.dtype)
    if attributes["exclusive"]:
        sums = np.concatenate([np.zeros_like(sums[..., :1]), sums[..., :-1]], axis=-1)
    sums = sums[..., ::-1] if attributes["reverse"] else sums
    return [np.moveaxis(sums, -1, attributes["axis"] + 1)]


OPERATORS = (
    *(
        Operator(
            kind=kind,
            read=_read_extreme,
            shapes=_extreme_shapes,
            operands=(0,),
            types=(("int8", "uint8", "int32", "float32", "bool"), ("int32", "int64")),
            kernel=_extreme(find),
            host="any axis, to int32 or int64",
        )
        for kind, find in (("ARG_MAX", np.argmax), ("ARG_MIN", np.argmin))
    ),
    Operator(
        kind="CUMSUM",
        read=_read_running,
        shapes=_running_shapes,
        operands=(0,),
        types=(NUMBERS, SAME),
        kernel=_run_running,
        host="any axis: int32, int64, float32",
    ),
)
