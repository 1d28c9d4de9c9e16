"""Readers of operators that make images of another size."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tflite

from celosia.sw.frontend.checks import (
    ModelError,
    Node,
    want_activation,
    want_bias,
    want_equal_quantization,
    want_image,
    want_int8,
    want_padding,
    want_pair,
    want_shape,
    want_weights,
    window_count,
)

__all__ = ["IMAGES", "transposed_margins"]


def _resize(table: type) -> Callable[[Node], dict[str, Any]]:
    def read(node: Node) -> dict[str, Any]:
        node.want_places(least=2, most=2)
        source, result = node.activations()
        batch, _, _, channels = want_image(source)
        want_equal_quantization(source, result)
        size = node.constant(1, (np.int32,), "size").reshape(-1).tolist()
        if len(size) != 2 or min(size) < 1:
            raise ModelError(f"wanted a size of rows and columns, got {size}")
        want_shape(result, (batch, *size, channels))
        options = node.want_options(table)
        attributes = {
            "align_corners": bool(options.AlignCorners()),
            "half_pixel_centers": bool(options.HalfPixelCenters()),
        }
        if all(attributes.values()):
            raise ModelError("wanted align_corners or half_pixel_centers, got both")
        return attributes

    return read


def transposed_margins(
    extents: tuple[int, ...], window: tuple[int, ...], stride: tuple[int, ...], padding: str
) -> tuple[int, int]:
    """Return the rows and columns in front of a result that a TRANSPOSE_CONV leaves out.

    Parameters
    ----------
    extents, window, stride : tuple of int
        Rows and columns of the result, of the weights, and from one pixel to the next.
    padding : str
        ``SAME`` or ``VALID``.
    """
    rows, columns = (
        max(0, (window_count(n, taps, step, 1, padding) - 1) * step + taps - n) // 2
        for n, taps, step in zip(extents, window, stride, strict=True)
    )
    return rows, columns


def _transposed(node: Node) -> dict[str, Any]:
    node.want_places(least=3, most=4)
    source, result = want_int8(node.tensor(2)), want_int8(node.outputs[0])
    weights = node.tensor(1)
    want_weights(weights, dimensions=4)
    channels, high, wide, depth = weights.shape
    batch, *extents, inputs = want_image(source)
    if depth != inputs:
        raise ModelError(f"wanted weights of {inputs} channels, got {depth}")
    want_bias(node.optional(3), channels)
    want_shape(result, node.constant(0, (np.int32,), "shape").reshape(-1).tolist())
    options = node.want_options(tflite.TransposeConvOptions)
    padding, stride = want_padding(options), want_pair("stride", options)
    _, *wanted, last = want_image(result)
    counts = [
        window_count(n, taps, step, 1, padding)
        for n, taps, step in zip(wanted, (high, wide), stride, strict=True)
    ]
    if counts != extents or last != channels or result.shape[0] != batch:
        raise ModelError(f"weights do not lead from {source.shape} to {result.shape}")
    return {
        "padding": padding,
        "stride": stride,
        "activation": want_activation(options.FusedActivationFunction()),
        "margins": transposed_margins(tuple(wanted), (high, wide), stride, padding),
    }


#: Operator to the function that checks it and returns its attributes.
IMAGES: dict[str, Callable[[Node], dict[str, Any]]] = {
    "RESIZE_BILINEAR": _resize(tflite.ResizeBilinearOptions),
    "RESIZE_NEAREST_NEIGHBOR": _resize(tflite.ResizeNearestNeighborOptions),
    "TRANSPOSE_CONV": _transposed,
}
