"""Windows that slide over images: their options, their number and their elements."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from celosia.sw.layers.node import Node, read_activation, read_padding, read_pair
from celosia.sw.layers.record import EXTENT, Attributes, require
from celosia.sw.layers.shapes import padding

#: Fused activations.
ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6")


def image(shape: Sequence[int]) -> tuple[int, int, int, int]:
    """Return the extents of an image: batch, rows, columns, channels.

    Raises Mismatch if there are not 4 dimensions.
    """
    require(len(shape) == 4, "4 dimensions", tuple(shape))
    batch, height, width, channels = shape
    return batch, height, width, channels


def read_windows(node: Node, table: type, *pairs: str) -> dict[str, Any]:
    """Return padding, activation and the named pairs of an operator's options."""
    options = node.require_options(table)
    return {
        "padding": read_padding(options),
        "activation": read_activation(options.FusedActivationFunction()),
        **{name: read_pair(name, options) for name in pairs},
    }


def window_counts(
    extents: Sequence[int], window: Sequence[int], attributes: Attributes, *, dilated: bool = False
) -> list[int]:
    """Return the number of windows along rows and columns.

    - ``extents``, ``window``: rows and columns of the image, and of the window.
    - ``attributes``: with ``padding``, ``stride``, and ``dilation`` if ``dilated``.
    - ``dilated``: whether there is an attribute ``dilation``.

    Raises Mismatch if not one window lies inside the image.
    """
    kind = attributes.name("padding", ("SAME", "VALID"))
    strides = attributes.integers("stride", 2, 1, EXTENT)
    dilations = attributes.integers("dilation", 2, 1, EXTENT) if dilated else [1, 1]
    counts = [
        -(-extent // stride) if kind == "SAME" else (extent - (size - 1) * apart - 1) // stride + 1
        for extent, size, stride, apart in zip(extents, window, strides, dilations, strict=True)
    ]
    got = f"{window[0]} x {window[1]} on {extents[0]} x {extents[1]} pixels"
    require(min(counts) >= 1, "a window inside the image", got)
    return counts


def patches(
    x: np.ndarray,
    kernel: Sequence[int],
    counts: Sequence[int],
    attributes: dict[str, Any],
    fill: int = 0,
) -> np.ndarray:
    """Return the elements under each window: ``(images, rows, columns, channels, *kernel)``.

    - ``x``: images, shape ``(images, rows, columns, channels)``.
    - ``kernel``, ``counts``: rows and columns of a window, and of windows.
    - ``attributes``: with ``padding``, ``stride``, and ``dilation`` unless it is 1.
    - ``fill``: stands for elements past the edge.
    """
    (down, right), (tall, broad) = attributes["stride"], attributes.get("dilation", (1, 1))
    size = (kernel[0] - 1) * tall + 1, (kernel[1] - 1) * broad + 1
    around = [(0, 0)]
    for extent, span, stride, count in zip(x.shape[1:3], size, (down, right), counts, strict=True):
        before = padding(attributes["padding"], extent, span, stride, count)
        around.append((before, max(0, (count - 1) * stride + span - before - extent)))
    x = np.pad(x, [*around, (0, 0)], constant_values=fill)
    views = np.lib.stride_tricks.sliding_window_view(x, size, (1, 2))
    return views[:, ::down, ::right, :, ::tall, ::broad][:, : counts[0], : counts[1]]
