"""Operators that put elements in another order: transposes, and blocks of pixels."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tflite

from celosia.sw.ir.graph import Operation
from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.lowering import Lowering
from celosia.sw.layers.node import ModelError, Node
from celosia.sw.layers.record import EXTENT, Attributes, Shape, mover, require
from celosia.sw.layers.shapes import OF_BYTES
from celosia.sw.operators.windows import image


def _read_transpose(node: Node) -> dict[str, Any]:
    node.require_inputs(2)
    order = tuple(node.axis(axis) for axis in node.indices(1, "permutation"))
    if sorted(order) != list(range(node.rank)):
        raise ModelError(f"wanted a permutation of {node.rank} dimensions, got {order}")
    return {"permutation": order}


def _transpose_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    shape = operator.sources[0].shape
    order = attributes.axes("permutation", len(shape))
    require(len(order) == len(shape), "all dimensions permuted", order)
    return [tuple(shape[axis] for axis in order)]


def _run_transpose(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    order = [axis + 1 for axis in operator.attributes["permutation"]]
    return [arrays[0].transpose(0, *order)]


def _swapped(shape: Sequence[int], order: Sequence[int]) -> tuple[int, int, int] | None:
    """Return rows, columns and channels of a transpose that swaps rows and columns; else None.

    Neighbouring dimensions that stay neighbours count as one; those of 1 do not count, but for the
    last one.
    """
    axes = [axis for axis, extent in enumerate(shape) if extent != 1 or axis == len(shape) - 1]
    moved = [axes.index(axis) for axis in order if axis in axes]
    starts = [n for n, axis in enumerate(moved) if not n or axis != moved[n - 1] + 1]
    ends = [*starts[1:], len(moved)]
    groups = [moved[a:b] for a, b in zip(starts, ends, strict=True)]
    if len(groups) != 3 or not groups[1][0] < groups[0][0] < groups[2][0]:
        return None
    columns, rows, channels = (math.prod(shape[axes[n]] for n in group) for group in groups)
    return rows, columns, channels


def _lower_transpose(lowering: Lowering, operation: Operation) -> None:
    """Lower TRANSPOSE: a copy of pixels, if it swaps two neighbours before the last dimension.

    Raises CompileError for other orders, or an input whose pixels do not lie so.
    """
    shape, order = (
        lowering.graph.tensors[operation.inputs[0]].shape,
        operation.attributes["permutation"],
    )
    apart = order[0] == 0 and shape[0] == lowering.items
    if apart:
        shape, order = shape[1:], [axis - 1 for axis in order[1:]]
    seen = _swapped(shape, order) if apart or lowering.items == 1 else None
    if seen is None:
        got = operation.attributes["permutation"]
        raise CompileError(f"wanted an order that swaps rows and columns of pixels, got {got}")
    view, (rows, columns, channels) = lowering.view(operation), seen
    value = lowering.values[view.value]
    extents = value.height, value.width, value.channels
    if not lowering.covers(view) or (value.height > 1 and extents != seen):
        got = " x ".join(map(str, extents))
        raise CompileError(f"wanted an input of {rows} x {columns} x {channels}, got {got}")
    number = operation.outputs[0]
    flat = {reader.kind for reader in lowering.readers.get(number, [])} <= OF_BYTES
    if lowering.shapes[number] == (columns, rows, channels) and not flat:
        lowering.transpose(operation, view.value, seen, lowering.shapes[number])
    elif flat or len(lowering.graph.tensors[number].shape) != 4:
        lowering.transpose(operation, view.value, seen, (1, columns * rows, channels))
    else:
        got = lowering.shapes[number]
        raise CompileError(f"wanted an image of {columns} x {rows} x {channels}, got {got}")


def _read_block(table: type):
    def read(node: Node) -> dict[str, Any]:
        node.require_inputs(1)
        return {"block": node.require_options(table).BlockSize()}

    return read


def _depth_to_space_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    batch, high, wide, channels = image(operator.sources[0].shape)
    block = attributes.integer("block", 1, EXTENT)
    got = f"{channels} for {block} x {block}"
    require(channels % block**2 == 0, "whole blocks of channels", got)
    return [(batch, high * block, wide * block, channels // block**2)]


def _space_to_depth_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    batch, high, wide, channels = image(operator.sources[0].shape)
    block = attributes.integer("block", 1, EXTENT)
    got = f"{high} x {wide} for {block} x {block}"
    require(high % block == 0 and wide % block == 0, "whole blocks", got)
    return [(batch, high // block, wide // block, channels * block**2)]


def _run_depth_and_space(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Swap the columns of blocks with the rows in a block, or the reverse."""
    x, block = arrays[0], operator.attributes["block"]
    samples, batch, high, wide, _ = x.shape
    split = (high, wide, block, block)
    if operator.kind == "SPACE_TO_DEPTH":
        split = (high // block, block, wide // block, block)
    parts = x.reshape(samples, batch, *split, -1)
    return [parts.transpose(0, 1, 2, 4, 3, 5, 6).reshape(samples, *operator.results[0].shape)]


def _read_blocks(role: str):
    def read(node: Node) -> dict[str, Any]:
        node.require_inputs(3)
        blocks = node.indices(1, "blocks")
        margins = node.constant(2, (np.int32, np.int64), role)
        good = margins.shape == (len(blocks), 2) and min((*blocks, 1)) == 1
        if not good or not 1 <= len(blocks) < node.rank or margins.min() < 0:
            raise ModelError(f"wanted blocks and {role} of 1 to {node.rank - 1}, got {blocks}")
        return {"blocks": tuple(blocks), "margins": tuple(map(tuple, margins.tolist()))}

    return read


def _blocks(operator: HostOperator, attributes: Attributes) -> tuple[list[int], list[list[int]]]:
    """Return blocks and margins: of the dimensions after the batch, at least one of them."""
    blocks, rank = operator.attributes.get("blocks"), len(operator.sources[0].shape)
    count = len(blocks) if isinstance(blocks, list | tuple) else 0
    require(1 <= count < rank, f"blocks of 1 to {rank - 1} dimensions", blocks)
    return attributes.integers("blocks", count, 1, EXTENT), attributes.pairs("margins", count)


def _space_to_batch_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    batch, *extents = operator.sources[0].shape
    blocks, margins = _blocks(operator, attributes)
    padded = [n + sum(margin) for n, margin in zip(extents, margins, strict=False)]
    good = all(n % b == 0 for n, b in zip(padded, blocks, strict=True))
    require(good, "whole blocks", f"{padded} for {blocks}")
    counts = (n // b for n, b in zip(padded, blocks, strict=True))
    return [(batch * math.prod(blocks), *counts, *extents[len(blocks) :])]


def _batch_to_space_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    batch, *extents = operator.sources[0].shape
    blocks, margins = _blocks(operator, attributes)
    require(batch % math.prod(blocks) == 0, "whole blocks of images", f"{batch} for {blocks}")
    ways = list(zip(extents, blocks, margins, strict=False))
    counts = [n * block - sum(margin) for n, block, margin in ways]
    return [(batch // math.prod(blocks), *counts, *extents[len(blocks) :])]


def _run_space_to_batch(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    blocks, margins = operator.attributes["blocks"], operator.attributes["margins"]
    zero_point, inner = operator.sources[0].zero_point, arrays[0].ndim - 2 - len(blocks)
    around = [(0, 0), (0, 0), *margins, *[(0, 0)] * inner]
    x = np.pad(arrays[0], around, constant_values=zero_point)
    split = [n for e, b in zip(x.shape[2:], blocks, strict=False) for n in (e // b, b)]
    parts = x.reshape(*x.shape[:2], *split, *x.shape[2 + len(blocks) :])
    counts, within = ([2 + 2 * n + side for n in range(len(blocks))] for side in (0, 1))
    order = (0, *within, 1, *counts, *range(2 + 2 * len(blocks), parts.ndim))
    return [parts.transpose(order).reshape(len(x), *operator.results[0].shape)]


def _run_batch_to_space(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    blocks, margins = operator.attributes["blocks"], operator.attributes["margins"]
    (x,), shape, count = arrays, operator.results[0].shape, len(blocks)
    parts = x.reshape(len(x), *blocks, -1, *x.shape[2:])
    pairs = [axis for n in range(count) for axis in (2 + count + n, 1 + n)]
    merged = parts.transpose(0, 1 + count, *pairs, *range(2 + 2 * count, parts.ndim))
    extents = [n * block for n, block in zip(x.shape[2:], blocks, strict=False)]
    merged = merged.reshape(len(x), shape[0], *extents, *x.shape[2 + count :])
    starts = [slice(m[0], m[0] + n) for m, n in zip(margins, shape[1:], strict=False)]
    return [merged[(slice(None), slice(None), *starts)]]


OPERATORS = (
    mover(
        "TRANSPOSE",
        _transpose_shapes,
        _run_transpose,
        "any order",
        read=_read_transpose,
        operands=(0,),
        lower=_lower_transpose,
        core="int8: rows and columns of pixels swapped, as of heads",
    ),
    *(
        mover(kind, shapes, kernel, host, read=read, operands=(0,))
        for kind, read, shapes, kernel, host in (
            (
                "DEPTH_TO_SPACE",
                _read_block(tflite.DepthToSpaceOptions),
                _depth_to_space_shapes,
                _run_depth_and_space,
                "any block",
            ),
            (
                "SPACE_TO_DEPTH",
                _read_block(tflite.SpaceToDepthOptions),
                _space_to_depth_shapes,
                _run_depth_and_space,
                "any block",
            ),
            (
                "SPACE_TO_BATCH_ND",
                _read_blocks("paddings"),
                _space_to_batch_shapes,
                _run_space_to_batch,
                "any dimensions after the batch",
            ),
            (
                "BATCH_TO_SPACE_ND",
                _read_blocks("crops"),
                _batch_to_space_shapes,
                _run_batch_to_space,
                "any dimensions after the batch",
            ),
        )
    ),
)
