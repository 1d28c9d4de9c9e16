"""Operators of the host that move pixels between blocks, channels and items."""

from collections.abc import Sequence

import numpy as np

from celosia.sw.ir.program import HostOperator

__all__ = ["batch_to_space", "depth_to_space", "space_to_batch", "space_to_depth"]


def depth_to_space(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return each pixel's channels as a block of pixels."""
    x, block = arrays[0], operator.attributes["block"]
    units, batch, high, wide, _ = x.shape
    parts = x.reshape(units, batch, high, wide, block, block, -1)
    return [parts.transpose(0, 1, 2, 4, 3, 5, 6).reshape(units, *operator.results[0].shape)]


def space_to_depth(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return each block of pixels as the channels of one."""
    x, block = arrays[0], operator.attributes["block"]
    units, batch, high, wide, channels = x.shape
    parts = x.reshape(units, batch, high // block, block, wide // block, block, channels)
    return [parts.transpose(0, 1, 2, 4, 3, 5, 6).reshape(units, *operator.results[0].shape)]


def space_to_batch(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the pixels of each place in a block as items of their own."""
    (down, right), margins = operator.attributes["blocks"], operator.attributes["margins"]
    zero_point = operator.sources[0].zero_point
    x = np.pad(arrays[0], [(0, 0), (0, 0), *margins, (0, 0)], constant_values=zero_point)
    units, batch, high, wide, channels = x.shape
    parts = x.reshape(units, batch, high // down, down, wide // right, right, channels)
    return [parts.transpose(0, 3, 5, 1, 2, 4, 6).reshape(units, *operator.results[0].shape)]


def batch_to_space(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return items as the pixels of the places in a block, less some at the edges."""
    (down, right), margins = operator.attributes["blocks"], operator.attributes["margins"]
    units, batch, high, wide, channels = arrays[0].shape
    parts = arrays[0].reshape(units, down, right, -1, high, wide, channels)
    whole = parts.transpose(0, 3, 4, 1, 5, 2, 6)
    whole = whole.reshape(units, -1, high * down, wide * right, channels)
    (top, _), (left, _) = margins
    _, rows, columns, _ = operator.results[0].shape
    return [whole[:, :, top : top + rows, left : left + columns]]
