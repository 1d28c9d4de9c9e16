"""Readers of operators that move pixels between blocks, channels and items."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tflite

from celosia.sw.frontend.checks import (
    ModelError,
    Node,
    want_equal_quantization,
    want_image,
    want_shape,
)

__all__ = ["BLOCKS"]


def _depth_to_space(node: Node) -> dict[str, Any]:
    node.want_places(least=1, most=1)
    source, result = node.activations()
    want_equal_quantization(source, result)
    batch, high, wide, channels = want_image(source)
    block = node.want_options(tflite.DepthToSpaceOptions).BlockSize()
    if block < 1 or channels % block**2:
        raise ModelError(f"wanted whole blocks of channels, got {channels} for {block} x {block}")
    want_shape(result, (batch, high * block, wide * block, channels // block**2))
    return {"block": block}


def _space_to_depth(node: Node) -> dict[str, Any]:
    node.want_places(least=1, most=1)
    source, result = node.activations()
    want_equal_quantization(source, result)
    batch, high, wide, channels = want_image(source)
    block = node.want_options(tflite.SpaceToDepthOptions).BlockSize()
    if block < 1 or high % block or wide % block:
        raise ModelError(f"wanted whole blocks, got {high} x {wide} for {block} x {block}")
    want_shape(result, (batch, high // block, wide // block, channels * block**2))
    return {"block": block}


def _numbers(node: Node, role: str) -> tuple[list[int], list[list[int]]]:
    """Return the blocks and the margins of an operator between space and batch."""
    node.want_places(least=3, most=3)
    want_equal_quantization(*node.activations())
    block = node.constant(1, (np.int32,), "blocks").reshape(-1).tolist()
    margins = node.constant(2, (np.int32,), role)
    if len(block) != 2 or min(block) < 1 or margins.shape != (2, 2) or margins.min() < 0:
        raise ModelError(f"wanted blocks and {role} of 2 dimensions, got {block}")
    return block, margins.tolist()


def _space_to_batch(node: Node) -> dict[str, Any]:
    (down, right), margins = _numbers(node, "paddings")
    source, result = node.activations()
    batch, high, wide, channels = want_image(source)
    high, wide = high + sum(margins[0]), wide + sum(margins[1])
    if high % down or wide % right:
        raise ModelError(f"wanted whole blocks, got {high} x {wide} for {down} x {right}")
    want_shape(result, (batch * down * right, high // down, wide // right, channels))
    return {"blocks": (down, right), "margins": tuple(map(tuple, margins))}


def _batch_to_space(node: Node) -> dict[str, Any]:
    (down, right), margins = _numbers(node, "crops")
    source, result = node.activations()
    batch, high, wide, channels = want_image(source)
    if batch % (down * right):
        raise ModelError(f"wanted whole blocks of items, got {batch} for {down} x {right}")
    extents = high * down - sum(margins[0]), wide * right - sum(margins[1])
    want_shape(result, (batch // (down * right), *extents, channels))
    return {"blocks": (down, right), "margins": tuple(map(tuple, margins))}


#: Operator to the function that checks it and returns its attributes.
BLOCKS: dict[str, Callable[[Node], dict[str, Any]]] = {
    "BATCH_TO_SPACE_ND": _batch_to_space,
    "DEPTH_TO_SPACE": _depth_to_space,
    "SPACE_TO_BATCH_ND": _space_to_batch,
    "SPACE_TO_DEPTH": _space_to_depth,
}
