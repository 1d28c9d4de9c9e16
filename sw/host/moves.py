"""Operators of the host that move bytes and change none."""

from collections.abc import Sequence

import numpy as np

from celosia.sw.ir.program import HostOperator

__all__ = [
    "concatenation",
    "pack",
    "pad",
    "reshape",
    "split",
    "strided_slice",
    "transpose",
    "unpack",
]


def _whole(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the inputs with the units in front, constants for each unit."""
    units = max([1, *(len(a) for a, x in zip(arrays, operator.sources, strict=True) if not x.data)])
    return [
        array if operand.data is None else np.broadcast_to(array, (units, *operand.shape))
        for array, operand in zip(arrays, operator.sources, strict=True)
    ]


def concatenation(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the inputs one behind the other along an axis."""
    return [np.concatenate(_whole(operator, arrays), axis=operator.attributes["axis"] + 1)]


def pack(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the inputs along an axis of their own."""
    return [np.stack(_whole(operator, arrays), axis=operator.attributes["axis"] + 1)]


def pad(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the input with a constant around it."""
    attributes = operator.attributes
    margins = [(0, 0), *zip(attributes["before"], attributes["after"], strict=True)]
    return [np.pad(arrays[0], margins, constant_values=attributes["value"])]


def reshape(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the same bytes in another shape."""
    return [arrays[0].reshape(len(arrays[0]), *operator.results[0].shape)]


def split(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the input cut along an axis."""
    axis = operator.attributes["axis"]
    ends = np.cumsum([result.shape[axis] for result in operator.results])[:-1]
    return np.split(arrays[0], ends.tolist(), axis=axis + 1)


def strided_slice(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return some of the input's rows, columns and so on, dimensions dropped."""
    said = operator.attributes
    ways = zip(said["begin"], said["count"], said["stride"], strict=True)
    stops = [(begin, begin + count * stride, stride) for begin, count, stride in ways]
    slices = [slice(begin, stop if stop >= 0 else None, step) for begin, stop, step in stops]
    taken = arrays[0][(slice(None), *slices)]
    return [taken.reshape(len(taken), *operator.results[0].shape)]


def transpose(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the input with its dimensions in another order."""
    order = [axis + 1 for axis in operator.attributes["permutation"]]
    return [arrays[0].transpose(0, *order)]


def unpack(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the input's slices along an axis, which goes."""
    return list(np.moveaxis(arrays[0], operator.attributes["axis"] + 1, 0))
