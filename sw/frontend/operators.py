"""Readers of operators: what each must look like, and what it says besides its tensors.

Shapes are computed anew and compared with those in the file. ``READERS`` names all operators that
can be read; an operator's ``attributes`` are

==================================  ===========================================================
operator                            attributes
==================================  ===========================================================
CONV_2D, DEPTHWISE_CONV_2D          padding, stride, dilation, activation; the latter also
                                    depth_multiplier
MAX_POOL_2D, AVERAGE_POOL_2D        padding, stride, window, activation
FULLY_CONNECTED                     activation, keep_num_dims
ADD, MUL, SUB                       activation; where the second input is one number for all,
                                    constant (an integer, less its zero point), constant_scale
MEAN                                axes (sorted, not negative), keep_dims
PAD, PADV2                          before, after (one number for each dimension), value
SOFTMAX                             beta
GELU                                approximate
LEAKY_RELU                          alpha
PRELU                               alpha (an integer, less its zero point), alpha_scale; neither
                                    where there are several slopes
TRANSPOSE_CONV                      padding, stride, activation, margins (rows and columns of the
                                    result left out)
RESIZE_BILINEAR,                    align_corners, half_pixel_centers
RESIZE_NEAREST_NEIGHBOR
ARG_MAX, CONCATENATION, PACK,       axis (not negative)
SPLIT, SPLIT_V, UNPACK
DEPTH_TO_SPACE, SPACE_TO_DEPTH      block
BATCH_TO_SPACE_ND,                  blocks (rows and columns), margins (before and behind rows,
SPACE_TO_BATCH_ND                   before and behind columns)
TRANSPOSE                           permutation
SLICE, STRIDED_SLICE                begin, count, stride (by dimension), dropped (dimensions)
ABS, DEQUANTIZE, ELU, EXP,          none
EXPAND_DIMS, HARD_SWISH, LOG,
LOGISTIC, MAXIMUM, MINIMUM, NEG,
QUANTIZE, RELU,
RELU6, RELU_0_TO_1, RELU_N1_TO_1,
RESHAPE, RSQRT, SQRT, SQUEEZE, TANH
==================================  ===========================================================

Padding is ``SAME`` or ``VALID``; stride, dilation and window are (y, x); value is the int8 written.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tflite

from celosia.sw.frontend.arithmetic import ARITHMETIC
from celosia.sw.frontend.blocks import BLOCKS
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
from celosia.sw.frontend.functions import FUNCTIONS
from celosia.sw.frontend.images import IMAGES
from celosia.sw.frontend.moves import MOVES
from celosia.sw.ir.graph import Tensor

__all__ = ["READERS", "window_count"]

#: The only scale and zero point a result of SOFTMAX can have.
_SOFTMAX_OUTPUT = (1 / 256, -128)

#: Up to this, scale times beta leaves no factor above 1 for LiteRT's kernel, which then aborts.
_SOFTMAX_LEAST = 2.0**-26

_Pair = tuple[int, int]


def _want_windows(
    source: Tensor,
    result: Tensor,
    window: _Pair,
    channels: int,
    attributes: dict[str, Any],
) -> None:
    """Refuse a result that is not one pixel for each place of the window."""
    extents = source.shape[1:3]
    stride, dilation = attributes["stride"], attributes.get("dilation", (1, 1))
    counts = [
        window_count(extents[n], window[n], stride[n], dilation[n], attributes["padding"])
        for n in (0, 1)
    ]
    if min(counts) < 1:
        got = f"{window[0]} x {window[1]} on {extents[0]} x {extents[1]} pixels"
        raise ModelError(f"wanted a window inside the image, got {got}")
    want_shape(result, (source.shape[0], *counts, channels))


def _convolution(node: Node) -> dict[str, Any]:
    node.want_places(least=2, most=3)
    source, result = node.activations()
    weights = node.tensor(1)
    want_weights(weights, dimensions=4)
    channels, height, width, depth = weights.shape
    inputs = want_image(source)[3]
    if depth != inputs:
        raise ModelError(
            f"grouped convolution is not supported: weights of {depth} channels on {inputs}"
        )
    want_bias(node.optional(2), channels)
    options = node.want_options(tflite.Conv2DOptions)
    attributes = {
        "padding": want_padding(options),
        "stride": want_pair("stride", options),
        "dilation": want_pair("dilation", options),
        "activation": want_activation(options.FusedActivationFunction()),
    }
    _want_windows(source, result, (height, width), channels, attributes)
    return attributes


def _depthwise(node: Node) -> dict[str, Any]:
    node.want_places(least=2, most=3)
    source, result = node.activations()
    weights = node.tensor(1)
    want_weights(weights, dimensions=4, axis=3)
    one, height, width, channels = weights.shape
    inputs = want_image(source)[3]
    if one != 1 or channels % inputs:
        got = f"weights of shape {weights.shape} on {inputs} channels"
        raise ModelError(f"wanted whole channels for each of the input's, got {got}")
    want_bias(node.optional(2), channels)
    options = node.want_options(tflite.DepthwiseConv2DOptions)
    attributes = {
        "padding": want_padding(options),
        "stride": want_pair("stride", options),
        "dilation": want_pair("dilation", options),
        "activation": want_activation(options.FusedActivationFunction()),
        "depth_multiplier": channels // inputs,
    }
    _want_windows(source, result, (height, width), channels, attributes)
    return attributes


def _pool(node: Node) -> dict[str, Any]:
    node.want_places(least=1, most=1)
    source, result = node.activations()
    channels = want_image(source)[3]
    want_equal_quantization(source, result)
    options = node.want_options(tflite.Pool2DOptions)
    attributes = {
        "padding": want_padding(options),
        "stride": want_pair("stride", options),
        "window": want_pair("window", options),
        "activation": want_activation(options.FusedActivationFunction()),
    }
    _want_windows(source, result, attributes["window"], channels, attributes)
    return attributes


def _fully_connected(node: Node) -> dict[str, Any]:
    node.want_places(least=2, most=3)
    source, result = node.activations()
    weights = node.tensor(1)
    want_weights(weights, dimensions=2)
    channels, taps = weights.shape
    if source.elements % taps or result.elements != source.elements // taps * channels:
        raise ModelError(
            f"weights of shape {weights.shape} do not lead from {source.shape} to {result.shape}"
        )
    want_bias(node.optional(2), channels)
    options = node.options(tflite.FullyConnectedOptions)
    activation = want_activation(options.FusedActivationFunction() if options else 0)
    if options and options.WeightsFormat() != 0:
        raise ModelError("shuffled weights are not supported")
    return {
        "activation": activation,
        "keep_num_dims": bool(options.KeepNumDims()) if options else False,
    }


def _mean(node: Node) -> dict[str, Any]:
    node.want_places(least=2, most=2)
    source, result = node.activations()
    given = node.constant(1, (np.int32,), "axes").reshape(-1).tolist()
    rank = len(source.shape)
    if not all(-rank <= axis < rank for axis in given):
        raise ModelError(f"wanted axes from {-rank} to {rank - 1}, got {given}")
    axes = tuple(sorted({axis % rank for axis in given}))
    options = node.options(tflite.ReducerOptions)
    keep_dims = bool(options.KeepDims()) if options else False
    shape = list(source.shape)
    for axis in reversed(axes):
        shape[axis : axis + 1] = [1] if keep_dims else []
    want_shape(result, shape)
    return {"axes": axes, "keep_dims": keep_dims}


def _pad(node: Node) -> dict[str, Any]:
    """Read PAD, which writes the zero point, or PADV2, which writes a constant."""
    node.want_places(least=2, most=3)
    source, result = node.activations()
    want_equal_quantization(source, result)
    margins = node.constant(1, (np.int32, np.int64), "paddings")
    rank = len(source.shape)
    if margins.shape != (rank, 2) or margins.min() < 0:
        raise ModelError(
            f"wanted paddings of shape ({rank}, 2) of at least 0, got {margins.tolist()}"
        )
    before, after = tuple(margins[:, 0].tolist()), tuple(margins[:, 1].tolist())
    shape = [a + extent + b for a, extent, b in zip(before, source.shape, after, strict=True)]
    want_shape(result, shape)
    assert result.quantization is not None
    value = result.quantization.zero_point
    if node.optional(2) is not None:
        constant = node.constant(2, (np.int8,), "value")
        if constant.size != 1:
            raise ModelError(f"wanted one value, got {constant.size}")
        want_equal_quantization(want_int8(node.tensor(2)), result)
        value = int(constant.reshape(-1)[0])
    return {"before": before, "after": after, "value": value}


def _softmax(node: Node) -> dict[str, Any]:
    node.want_places(least=1, most=1)
    source, result = node.activations()
    want_shape(result, source.shape)
    assert source.quantization is not None and result.quantization is not None
    got = (result.quantization.scale, result.quantization.zero_point)
    if got != _SOFTMAX_OUTPUT:
        raise ModelError(f"wanted a result of scale 1/256 and zero point -128, got {got}")
    beta = float(node.want_options(tflite.SoftmaxOptions).Beta())
    if not (math.isfinite(beta) and source.quantization.scale * beta > _SOFTMAX_LEAST):
        scale = source.quantization.scale
        raise ModelError(f"wanted scale * beta of more than 2^-26, got {scale:.6g} * {beta:.6g}")
    return {"beta": beta}


def _reshape(node: Node) -> dict[str, Any]:
    node.want_places(least=1, most=2)
    source, result = node.activations()
    if source.elements != result.elements:
        raise ModelError(f"wanted as many elements, got {source.shape} to {result.shape}")
    want_equal_quantization(source, result)
    if node.optional(1) is not None:
        shape = node.constant(1, (np.int32,), "shape").reshape(-1).tolist()
        known = len(shape) == len(result.shape) and all(
            extent in (-1, found) for extent, found in zip(shape, result.shape, strict=True)
        )
        if not known:
            raise ModelError(f"wanted a result of shape {tuple(shape)}, got {result.shape}")
    return {}


#: Operator to the function that checks it and returns its attributes.
READERS: dict[str, Callable[[Node], dict[str, Any]]] = {
    **ARITHMETIC,
    **BLOCKS,
    **FUNCTIONS,
    **IMAGES,
    **MOVES,
    "AVERAGE_POOL_2D": _pool,
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _fully_connected,
    "MAX_POOL_2D": _pool,
    "MEAN": _mean,
    "PAD": _pad,
    "PADV2": _pad,
    "RESHAPE": _reshape,
    "SOFTMAX": _softmax,
}
