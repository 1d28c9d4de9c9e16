"""Operators that repeat elements: larger shapes, margins that mirror, constants, reversed order."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tflite

from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.node import ModelError, Node
from celosia.sw.layers.record import EXTENT, Attributes, Shape, mover, require
from celosia.sw.operators.functions import same_shape

#: Extents that attributes name, at most.
_MOST = 1 << 31

_MODES = {tflite.MirrorPadMode.REFLECT: "reflect", tflite.MirrorPadMode.SYMMETRIC: "symmetric"}

_NUMBERS = ("int8", "uint8", "int16", "int32", "int64", "float32")


def _extents(node: Node, position: int, role: str) -> tuple[int, ...]:
    """Return the numbers of a constant input, each of at least 1."""
    extents = tuple(node.indices(position, role))
    if min(extents, default=1) < 1:
        raise ModelError(f"wanted {role} of at least 1, got {extents}")
    return extents


def _read_broadcast(node: Node) -> dict[str, Any]:
    node.require_inputs(2)
    return {"shape": _extents(node, 1, "shape")}


def _shape(attributes: Attributes, rank: int) -> Shape:
    return tuple(attributes.integers("shape", rank, 1, _MOST))


def _broadcast_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    source = operator.sources[0].shape
    shape = _shape(attributes, len(operator.results[0].shape))
    longer = len(shape) >= len(source)
    pairs = zip(reversed(source), reversed(shape), strict=False)
    fits = longer and all(extent in (1, other) for extent, other in pairs)
    require(fits, f"a shape that broadcasts to {shape}", source)
    return [shape]


def _run_broadcast(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    (array,), shape = arrays, operator.results[0].shape
    missing = (1,) * (len(shape) - len(operator.sources[0].shape))
    aligned = array.reshape(len(array), *missing, *operator.sources[0].shape)
    return [np.broadcast_to(aligned, (len(array), *shape))]


def _read_tile(node: Node) -> dict[str, Any]:
    node.require_inputs(2)
    times = _extents(node, 1, "multiples")
    if len(times) != node.rank:
        raise ModelError(f"wanted multiples of {node.rank} dimensions, got {times}")
    return {"multiples": times}


def _tile_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    shape = operator.sources[0].shape
    times = attributes.integers("multiples", len(shape), 1, _MOST)
    return [tuple(extent * count for extent, count in zip(shape, times, strict=True))]


def _run_tile(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [np.tile(arrays[0], (1, *operator.attributes["multiples"]))]


def _read_fill(node: Node) -> dict[str, Any]:
    node.require_inputs(2)
    return {"shape": _extents(node, 0, "dims")}


def _fill_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    source = operator.sources[0].shape
    require(math.prod(source) == 1, "one value", source)
    return [_shape(attributes, len(operator.results[0].shape))]


def _run_fill(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    (array,), shape = arrays, operator.results[0].shape
    return [np.broadcast_to(array.reshape(len(array), *(1 for _ in shape)), (len(array), *shape))]


def _read_range(node: Node) -> dict[str, Any]:
    """Read RANGE, whose length follows from its constants."""
    node.require_inputs(3)
    kinds = (np.int32, np.int64, np.float32)
    roles = ((0, "start"), (1, "limit"), (2, "delta"))
    scalars = [node.constant(position, kinds, role).reshape(-1) for position, role in roles]
    if {len(scalar) for scalar in scalars} != {1} or len({scalar.dtype for scalar in scalars}) != 1:
        raise ModelError("wanted one start, limit and delta of one type")
    start, limit, delta = (scalar[0].item() for scalar in scalars)
    if not all(map(math.isfinite, (start, limit, delta))) or not delta:
        raise ModelError(f"wanted numbers, and a delta other than 0, got {start, limit, delta}")
    span = (limit - start) / delta
    if isinstance(start, int):
        count = -((start - limit) // delta)
    else:
        count = math.ceil(abs(np.float32(np.float32(limit - start) / delta))) if span > 0 else 0
    if not 1 <= count <= _MOST:
        raise ModelError(f"wanted at least one number, got {count}")
    return {"start": start, "delta": delta, "length": count}


def _range_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    return [(attributes.integer("length", 1, _MOST),)]


def _run_range(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return numbers, each the one before plus delta."""
    attributes, kind = operator.attributes, np.dtype(operator.results[0].dtype)
    steps = np.full(attributes["length"], attributes["delta"], kind)
    steps[0] = attributes["start"]
    return [np.add.accumulate(steps, dtype=kind)[None]]


def _run_zeros(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    (result,) = operator.results
    return [np.zeros((1, *result.shape), result.dtype)]


def _read_mirror(node: Node) -> dict[str, Any]:
    node.require_inputs(2)
    margins = node.margins()
    mode = node.require_options(tflite.MirrorPadOptions).Mode()
    if mode not in _MODES:
        raise ModelError(f"wanted mode REFLECT or SYMMETRIC, got {mode}")
    return margins | {"mode": _MODES[mode]}


def _mirror_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    shape = operator.sources[0].shape
    before, after = (
        attributes.integers(name, len(shape), 0, EXTENT) for name in ("before", "after")
    )
    mode = attributes.name("mode", (*_MODES.values(), "edge"))
    less = int(mode == "reflect")
    for margins in (before, after):
        good = mode == "edge" or all(
            n <= extent - less for n, extent in zip(margins, shape, strict=True)
        )
        require(good, f"margins that {shape} can mirror", margins)
    return [tuple(a + n + b for a, n, b in zip(before, shape, after, strict=True))]


def _run_mirror(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    attributes = operator.attributes
    margins = [(0, 0), *zip(attributes["before"], attributes["after"], strict=True)]
    return [np.pad(arrays[0], margins, mode=attributes["mode"])]


def _read_reverse(node: Node) -> dict[str, Any]:
    node.require_inputs(2)
    return {"axes": node.axes(1)}


def _reverse_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    attributes.axes("axes", len(operator.sources[0].shape))
    return [operator.sources[0].shape]


def _run_reverse(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [np.flip(arrays[0], tuple(axis + 1 for axis in operator.attributes["axes"]))]


def _constant_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    _, constant = operator.sources
    require(constant.data is not None, "a constant as second input")
    return [constant.shape]


def _run_constant(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the constant for each sample of the first input."""
    samples, constant = len(arrays[0]), arrays[1]
    return [np.broadcast_to(constant, (samples, *constant.shape))]


_FIRST: dict[str, Any] = {"operands": (0,)}
_FIXED: dict[str, Any] = {"types": (_NUMBERS[3:], _NUMBERS[3:]), "static": True}
_SHAPE = "a constant shape"

OPERATORS = (
    # The compiler makes it, for an output that is constant.
    mover(
        "CONSTANT",
        _constant_shapes,
        _run_constant,
        "an output that is constant",
        aside=(0,),
        takes_batch=True,
    ),
    mover(
        "BROADCAST_TO",
        _broadcast_shapes,
        _run_broadcast,
        _SHAPE,
        read=_read_broadcast,
        infer=lambda node: [_read_broadcast(node)["shape"]],
        takes_batch=True,
        **_FIRST,
    ),
    mover("TILE", _tile_shapes, _run_tile, "constant multiples", read=_read_tile, **_FIRST),
    mover(
        "FILL",
        _fill_shapes,
        _run_fill,
        _SHAPE,
        read=_read_fill,
        infer=lambda node: [_read_fill(node)["shape"]],
        operands=(1,),
        takes_batch=True,
    ),
    mover("RANGE", _range_shapes, _run_range, "constant numbers", read=_read_range, **_FIXED),
    mover("ZEROS_LIKE", same_shape, _run_zeros, "a constant", **_FIXED),
    mover(
        "MIRROR_PAD",
        _mirror_shapes,
        _run_mirror,
        "constant margins, REFLECT and SYMMETRIC; also repeated edges for ONNX",
        read=_read_mirror,
        types=(_NUMBERS, _NUMBERS),
        **_FIRST,
    ),
    mover("REVERSE_V2", _reverse_shapes, _run_reverse, "any axes", read=_read_reverse, **_FIRST),
)
