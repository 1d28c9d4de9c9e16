"""Operators that read or write elements at indices, constant or computed."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tflite

from celosia.sw.ir.parts import HostOperator, Operand
from celosia.sw.layers.node import ModelError, Node
from celosia.sw.layers.record import ANY, Attributes, Operator, Shape, each_sample, require

_INDICES = ("int16", "int32", "int64")


def _indices(operand: Operand, types: Sequence[str] = _INDICES) -> Shape:
    """Return the shape of indices, of some types."""
    got = f"{operand.dtype} {operand.name!r}"
    require(operand.dtype in types, f"{' or '.join(types)} indices", got)
    return operand.shape


def _require_inside(indices: np.ndarray, extents: np.ndarray | int) -> None:
    """Refuse indices that are not from 0 to ``extents`` - 1."""
    good = (indices >= 0) & (indices < extents)
    if not good.all():
        last = np.broadcast_to(extents, indices.shape)[~good][0] - 1
        require(False, f"indices from 0 to {last}", indices[~good][0])


def _read_gather(node: Node) -> dict[str, Any]:
    node.require_inputs(2)
    options = node.options(tflite.GatherOptions)
    axis, batch = (options.Axis(), options.BatchDims()) if options else (0, 0)
    indices = len(node.tensor(1).shape)
    if not -indices <= batch <= indices:
        raise ModelError(f"wanted {-indices} to {indices} batch dimensions, got {batch}")
    return {"axis": node.axis(axis), "batch_dims": batch + indices * (batch < 0)}


def _gather_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    shape, indices = operator.sources[0].shape, _indices(operator.sources[1])
    axis = attributes.integer("axis", 0, len(shape) - 1)
    batch = attributes.integer("batch_dims", 0, min(axis, len(indices)))
    same = shape[:batch] == indices[:batch]
    require(same, f"indices of {shape[:batch]} batches", indices)
    return [(*shape[:axis], *indices[batch:], *shape[axis + 1 :])]


def _run_gather(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    (array, indices), attributes = arrays, operator.attributes
    axis, batch, shape = attributes["axis"], attributes["batch_dims"], array.shape
    if attributes.get("wraps"):
        # ONNX counts negative indices from the end.
        indices = indices + shape[axis] * (indices < 0)
    _require_inside(indices, shape[axis])
    batches = math.prod(shape[:batch])
    outer, inner = math.prod(shape[batch:axis]), math.prod(shape[axis + 1 :])
    rows = indices.reshape(batches, -1)
    elements = array.reshape(batches, outer, shape[axis], inner)[
        np.arange(batches)[:, None], :, rows
    ]
    return [elements.transpose(0, 2, 1, 3).reshape(operator.results[0].shape)]


def _gather_nd_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    shape, indices = operator.sources[0].shape, _indices(operator.sources[1])
    good = bool(indices) and indices[-1] <= len(shape)
    require(good, f"indices of up to {len(shape)} dimensions", indices)
    return [(*indices[:-1], *shape[indices[-1] :])]


def _run_gather_nd(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    array, indices = arrays
    depth = indices.shape[-1]
    _require_inside(indices, np.array(array.shape[:depth]))
    return [array[tuple(np.moveaxis(indices, -1, 0))]]


def _read_scatter(node: Node) -> dict[str, Any]:
    node.require_inputs(3)
    return {"shape": tuple(node.indices(2, "shape"))}


def _scatter_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    updates, indices = operator.sources[0].shape, _indices(operator.sources[1], ("int32",))
    shape = tuple(attributes.integers("shape", len(operator.results[0].shape), 1, 1 << 31))
    good = bool(indices) and 1 <= indices[-1] <= len(shape)
    require(good, f"indices of up to {len(shape)} dimensions", indices)
    result = (*indices[:-1], *shape[indices[-1] :])
    require(updates == result, f"updates of shape {result}", updates)
    return [shape]


def _run_scatter(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return zeros to which updates are added; of uint8, these are 128 more than its int8 here."""
    updates, indices = arrays
    unsigned = operator.attributes.get("unsigned")
    updates = updates ^ np.int8(-128) if unsigned else updates
    result = np.zeros(operator.results[0].shape, operator.results[0].dtype)
    depth = indices.shape[-1]
    _require_inside(indices, np.array(result.shape[:depth]))
    np.add.at(result, tuple(np.moveaxis(indices, -1, 0)), updates)
    return [result ^ np.int8(-128) if unsigned else result]


def _lookup_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    indices, shape = _indices(operator.sources[0], ("int32",)), operator.sources[1].shape
    require(len(indices) == 1, "a row of indices", indices)
    require(len(shape) >= 2, "a table of rows", shape)
    return [(*indices, *shape[1:])]


def _run_lookup(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    indices, table = arrays
    _require_inside(indices, len(table))
    return [table[indices]]


def _read_one_hot(node: Node) -> dict[str, Any]:
    node.require_inputs(4)
    options, rank = node.require_options(tflite.OneHotOptions), node.rank
    depth = node.constant(1, (np.int32,), "depth").reshape(-1).tolist()
    if len(depth) != 1 or depth[0] < 1:
        raise ModelError(f"wanted one depth of at least 1, got {depth}")
    return {"axis": node.axis(options.Axis(), rank + 1), "depth": depth[0]}


def _one_hot_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    indices, *values = operator.sources
    shape = _indices(indices, ("int32", "int64"))
    good = [value.shape for value in values] in ([()] * 2, [(1,)] * 2)
    require(good, "one on and one off value", [value.shape for value in values])
    axis = attributes.integer("axis", 0, len(shape))
    return [(*shape[:axis], attributes.integer("depth", 1, 1 << 31), *shape[axis:])]


def _run_one_hot(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return ``on`` where the new dimension's index is the one given, else ``off``."""
    (indices, on, off), axis = arrays, operator.attributes["axis"]
    numbers = np.arange(operator.attributes["depth"])
    hot = np.expand_dims(indices, axis) == numbers.reshape(-1, *[1] * (indices.ndim - axis))
    return [np.where(hot, on.reshape(()), off.reshape(()))]


_LOOKS: dict[str, Any] = {"types": ANY, "moves": True, "takes_batch": True}
_RANGE = "constant or computed indices"

OPERATORS = (
    Operator(
        kind="GATHER",
        read=_read_gather,
        shapes=_gather_shapes,
        aside=(1,),
        kernel=each_sample(_run_gather),
        host=f"any axis and batch dimensions, {_RANGE}",
        **_LOOKS,
    ),
    Operator(
        kind="GATHER_ND",
        shapes=_gather_nd_shapes,
        aside=(1,),
        kernel=each_sample(_run_gather_nd),
        host=_RANGE,
        **_LOOKS,
    ),
    Operator(
        kind="SCATTER_ND",
        read=_read_scatter,
        infer=lambda node: [_read_scatter(node)["shape"]],
        shapes=_scatter_shapes,
        operands=(1, 0),
        aside=(1,),
        unsigned=True,
        kernel=each_sample(_run_scatter),
        host=f"{_RANGE}, a constant shape",
        **_LOOKS,
    ),
    Operator(
        kind="EMBEDDING_LOOKUP",
        shapes=_lookup_shapes,
        aside=(0,),
        kernel=each_sample(_run_lookup),
        host=f"{_RANGE}, a table of the result's type",
        **_LOOKS,
    ),
    Operator(
        kind="ONE_HOT",
        read=_read_one_hot,
        shapes=_one_hot_shapes,
        operands=(0, 2, 3),
        aside=(0,),
        kernel=each_sample(_run_one_hot),
        host="any axis, a constant depth",
        **_LOOKS,
    ),
)
