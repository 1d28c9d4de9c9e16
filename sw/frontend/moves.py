"""Readers of operators that move bytes and change none."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tflite

from celosia.sw.frontend.checks import (
    ModelError,
    Node,
    want_equal_quantization,
    want_int8,
    want_shape,
)
from celosia.sw.ir.graph import Tensor

__all__ = ["MOVES", "sliced"]

_INDICES = (np.int32, np.int64)


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ModelError(f"wanted an axis from {-rank} to {rank - 1}, got {axis}")
    return axis % rank


def _alike(sources: list[Tensor], results: list[Tensor]) -> None:
    """Refuse tensors that are not int8 of one scale and zero point."""
    for tensor in (*sources, *results):
        want_equal_quantization(want_int8(sources[0]), want_int8(tensor))


def _sources(node: Node) -> list[Tensor]:
    """Return all inputs of an operator that has any number of them, and one result."""
    node.want_places(least=len(node.inputs) or 1, most=len(node.inputs) or 1)
    return [node.tensor(number) for number in range(len(node.inputs))]


def _concatenation(node: Node) -> dict[str, Any]:
    sources, result = _sources(node), node.outputs[0]
    _alike(sources, [result])
    options = node.want_options(tflite.ConcatenationOptions)
    if options.FusedActivationFunction():
        raise ModelError("fused activations are not supported")
    shape = list(sources[0].shape)
    axis = _axis(options.Axis(), len(shape))
    for source in sources:
        others = [*source.shape]
        if len(others) != len(shape) or [*others[:axis], *others[axis + 1 :]] != [
            *shape[:axis],
            *shape[axis + 1 :],
        ]:
            got = f"{sources[0].shape} and {source.shape}"
            raise ModelError(f"wanted inputs that differ along axis {axis} alone, got {got}")
    shape[axis] = sum(source.shape[axis] for source in sources)
    want_shape(result, shape)
    return {"axis": axis}


def _pack(node: Node) -> dict[str, Any]:
    sources, result = _sources(node), node.outputs[0]
    _alike(sources, [result])
    shape = list(sources[0].shape)
    axis = _axis(node.want_options(tflite.PackOptions).Axis(), len(shape) + 1)
    if any(source.shape != sources[0].shape for source in sources):
        got = " and ".join(str(source.shape) for source in sources)
        raise ModelError(f"wanted inputs of one shape, got {got}")
    want_shape(result, [*shape[:axis], len(sources), *shape[axis:]])
    return {"axis": axis}


def _unpack(node: Node) -> dict[str, Any]:
    node.want_places(least=1, most=1, results=None)
    source, results = node.tensor(0), list(node.outputs)
    _alike([source], results)
    axis = _axis(node.want_options(tflite.UnpackOptions).Axis(), len(source.shape))
    if source.shape[axis] != len(results):
        raise ModelError(f"wanted {source.shape[axis]} results, got {len(results)}")
    for result in results:
        want_shape(result, [*source.shape[:axis], *source.shape[axis + 1 :]])
    return {"axis": axis}


def _split(node: Node) -> dict[str, Any]:
    node.want_places(least=2, most=2, results=None)
    source, results = node.tensor(1), list(node.outputs)
    _alike([source], results)
    given = node.constant(0, (np.int32,), "axis")
    if given.size != 1:
        raise ModelError(f"wanted one axis, got {given.size}")
    shape = list(source.shape)
    axis = _axis(int(given.reshape(-1)[0]), len(shape))
    if shape[axis] % len(results):
        raise ModelError(f"wanted {shape[axis]} rows in equal parts, got {len(results)} results")
    shape[axis] //= len(results)
    for result in results:
        want_shape(result, shape)
    return {"axis": axis}


def _transpose(node: Node) -> dict[str, Any]:
    node.want_places(least=2, most=2)
    source, result = node.activations()
    want_equal_quantization(source, result)
    order = tuple(node.constant(1, (np.int32,), "permutation").reshape(-1).tolist())
    if sorted(order) != list(range(len(source.shape))):
        raise ModelError(f"wanted a permutation of {len(source.shape)} dimensions, got {order}")
    want_shape(result, [source.shape[axis] for axis in order])
    return {"permutation": order}


def sliced(
    shape: tuple[int, ...], numbers: Sequence[Sequence[int]], masks: Sequence[int]
) -> dict[str, Any]:
    """Return what a STRIDED_SLICE takes of each dimension.

    Parameters
    ----------
    shape : tuple of int
        Of its input.
    numbers : sequence of sequences of int
        Begin, end and stride as the operator says them, one for each dimension.
    masks : sequence of int
        By dimension: bits of those whose begin counts as left out, whose end does, and that go.

    Returns
    -------
    dict
        ``begin``, ``count`` and ``stride`` for each dimension, and ``dropped`` ones.
    """
    firsts, counts = [], []
    begin, end, stride = numbers
    for axis, extent in enumerate(shape):
        first, last, step = begin[axis], end[axis], stride[axis]
        open_first, open_last, drops = (bool(mask >> axis & 1) for mask in masks)
        if drops:
            last = first + 1 if first != -1 else extent
            open_last = False
        taken = range(extent)[
            slice(None if open_first else first, None if open_last else last, step)
        ]
        firsts.append(taken.start)
        counts.append(len(taken))
    dropped = tuple(axis for axis in range(len(shape)) if masks[2] >> axis & 1)
    return {
        "begin": tuple(firsts),
        "count": tuple(counts),
        "stride": tuple(stride),
        "dropped": dropped,
    }


def _strided_slice(node: Node) -> dict[str, Any]:
    node.want_places(least=4, most=4)
    source, result = node.activations()
    want_equal_quantization(source, result)
    numbers = [
        node.constant(place, (np.int32,), role).reshape(-1).tolist()
        for place, role in ((1, "begin"), (2, "end"), (3, "strides"))
    ]
    options = node.want_options(tflite.StridedSliceOptions)
    if options.EllipsisMask() or options.NewAxisMask() or options.Offset():
        raise ModelError("ellipsis, new axes and offsets are not supported")
    rank = len(source.shape)
    if any(len(given) != rank for given in numbers) or 0 in numbers[2]:
        raise ModelError(f"wanted begin, end and strides of {rank} dimensions, got {numbers}")
    masks = [options.BeginMask(), options.EndMask(), options.ShrinkAxisMask()]
    attributes = sliced(source.shape, numbers, masks)
    kept = [n for axis, n in enumerate(attributes["count"]) if axis not in attributes["dropped"]]
    if 0 in attributes["count"]:
        raise ModelError(f"wanted at least one element, got a slice of {attributes['count']}")
    want_shape(result, kept)
    return attributes


def _slice(node: Node) -> dict[str, Any]:
    """Read SLICE: a STRIDED_SLICE of stride 1."""
    node.want_places(least=3, most=3)
    source, result = node.activations()
    want_equal_quantization(source, result)
    first, count = (
        node.constant(place, _INDICES, role).reshape(-1).tolist()
        for place, role in ((1, "begin"), (2, "size"))
    )
    rank = len(source.shape)
    if len(first) != rank or len(count) != rank or min(first, default=0) < 0:
        raise ModelError(f"wanted begin and size of {rank} dimensions, got {first} and {count}")
    zipped = zip(source.shape, first, count, strict=True)
    taken = [extent - start if n == -1 else n for extent, start, n in zipped]
    ends = [start + n for start, n in zip(first, taken, strict=True)]
    if any(n < 1 or end > e for n, end, e in zip(taken, ends, source.shape, strict=True)):
        raise ModelError(f"wanted a slice inside {source.shape}, got {first} and {count}")
    want_shape(result, taken)
    return sliced(source.shape, (first, ends, [1] * rank), [0, 0, 0])


def _split_sizes(node: Node) -> dict[str, Any]:
    """Read SPLIT_V, whose parts are of any sizes."""
    node.want_places(least=3, most=3, results=None)
    source, results = node.tensor(0), list(node.outputs)
    _alike([source], results)
    given = node.constant(2, (np.int32,), "axis").reshape(-1).tolist()
    if len(given) != 1:
        raise ModelError(f"wanted one axis, got {len(given)}")
    axis, sizes = _axis(given[0], len(source.shape)), [0] * len(results)
    for place, result in enumerate(results):
        sizes[place] = result.shape[axis] if len(result.shape) == len(source.shape) else 0
        want_shape(result, [*source.shape[:axis], sizes[place], *source.shape[axis + 1 :]])
    wanted = node.constant(1, _INDICES, "sizes").reshape(-1).tolist()
    pairs = zip(wanted, sizes, strict=False)
    if len(wanted) != len(sizes) or any(a not in (-1, b) for a, b in pairs):
        raise ModelError(f"wanted results of {wanted} along axis {axis}, got {sizes}")
    if sum(sizes) != source.shape[axis]:
        raise ModelError(f"wanted all of {source.shape[axis]}, got results of {sizes}")
    return {"axis": axis}


def _reshaped(node: Node) -> dict[str, Any]:
    """Read SQUEEZE or EXPAND_DIMS; where the dimensions of 1 are, the shapes say."""
    node.want_places(least=1, most=2)
    source, result = node.activations()
    want_equal_quantization(source, result)
    extents = [[extent for extent in t.shape if extent != 1] for t in (source, result)]
    if extents[0] != extents[1]:
        raise ModelError(f"wanted the same extents but for 1, got {source.shape}, {result.shape}")
    return {}


#: Operator to the function that checks it and returns its attributes.
MOVES: dict[str, Callable[[Node], dict[str, Any]]] = {
    "CONCATENATION": _concatenation,
    "EXPAND_DIMS": _reshaped,
    "PACK": _pack,
    "SLICE": _slice,
    "SPLIT": _split,
    "SPLIT_V": _split_sizes,
    "SQUEEZE": _reshaped,
    "STRIDED_SLICE": _strided_slice,
    "TRANSPOSE": _transpose,
    "UNPACK": _unpack,
}
