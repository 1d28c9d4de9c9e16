"""Reader of ConvTranspose."""

from collections.abc import Sequence

import numpy as np

from celosia.sw.frontend.onnx.builder import IMAGE, Builder
from celosia.sw.frontend.onnx.layers import kernel_constants, pads_of, pair, weights_of
from celosia.sw.frontend.onnx.operand import Unit
from celosia.sw.operators.node import ModelError

_Pair = tuple[int, int]


def _spread(weights: np.ndarray, dilation: _Pair) -> np.ndarray:
    """Return weights with zeros between their rows and columns, the second and third axis."""
    shape = [(n - 1) * d + 1 for n, d in zip(weights.shape[1:3], dilation, strict=True)]
    wide = np.zeros((len(weights), *shape, weights.shape[3]), weights.dtype)
    wide[:, :: dilation[0], :: dilation[1]] = weights
    return wide


def _outer(unit: Unit, extents: Sequence[int], spans: Sequence[int], stride: _Pair, rank: int):
    """Return the pixels of a ConvTranspose, with those that are cut off, and the pads."""
    attributes, pads = unit.attributes, []
    extra = list(attributes.get("output_padding", [0] * rank))
    sizes = attributes.get("output_shape")
    if len(extra) != rank or min(extra) < 0 or (sizes and len(sizes) != rank):
        raise ModelError(f"wanted {rank} numbers as output_padding and output_shape")
    extra, totals = [0] * (2 - rank) + extra, []
    for extent, span, step, more in zip(extents, spans, stride, extra, strict=True):
        totals.append((extent - 1) * step + span + more)
    automatic = attributes.get("auto_pad", "NOTSET")
    if automatic.startswith("SAME") and not sizes:
        sizes = [n * step for n, step in zip(extents, stride, strict=True)][2 - rank :]
    if not sizes:
        return totals, pads_of(attributes, extents, spans, stride, rank)
    for total, size in zip(totals, [1] * (2 - rank) + list(sizes), strict=True):
        less = total - size
        if less < 0:
            raise ModelError(f"wanted an output_shape of at most {totals}, got {sizes}")
        first = less // 2 if automatic == "SAME_UPPER" else less - less // 2
        pads.append((first, less - first))
    return totals, (pads[0], pads[1])


def transposed(builder: Builder, unit: Unit) -> None:
    """Read ConvTranspose: the whole image, of which the pads are cut off."""
    value, (of,) = builder.value(unit.inputs[0]), unit.outputs
    rank, groups = len(value.shape) - 2, unit.attributes.get("group", 1)
    weights, scales = weights_of(unit.inputs[1], 1)
    if rank not in (1, 2) or weights.ndim != rank + 2:
        raise ModelError(f"wanted windows of 1 or 2 dimensions, got shape {value.shape}")
    if list(unit.attributes.get("kernel_shape", weights.shape[2:])) != [*weights.shape[2:]]:
        raise ModelError(f"wanted a kernel_shape of {weights.shape[2:]}")
    items, inputs, *extents = value.shape
    extents = [1] * (2 - rank) + extents
    if groups < 1 or weights.shape[0] != inputs or inputs % groups:
        raise ModelError(f"wanted weights of {inputs} channels, got {weights.shape[0]}")
    if groups > 1 and len(scales) > 1:
        raise ModelError("groups with a scale for each channel are not supported")
    depth, each = inputs // groups, weights.shape[1]
    kernel = weights.reshape(inputs, each, *[1] * (2 - rank), *weights.shape[2:])
    whole = np.zeros((groups * each, *kernel.shape[2:], inputs), np.int64)
    for group in range(groups):
        part = slice(group * depth, (group + 1) * depth)
        whole[group * each : (group + 1) * each, :, :, part] = kernel[part].transpose(1, 2, 3, 0)
    stride, dilation = (pair(unit.attributes, name, rank) for name in ("strides", "dilations"))
    whole = _spread(whole, dilation)
    totals, pads = _outer(unit, extents, whole.shape[1:3], stride, rank)
    if any(
        n - (m - 1) * s - k >= s
        for n, m, s, k in zip(totals, extents, stride, whole.shape[1:3], strict=True)
    ):
        raise ModelError("wanted an output_padding below the strides")
    image = builder.image(value, (items, inputs, *extents))
    channels = len(whole)
    weights, *bias = kernel_constants(builder, unit, whole, scales, 0)
    stored = (items, *totals, channels)
    number = builder.operate(
        "QLinearConvTranspose",
        [builder.constant("shape", np.array(stored, np.int32)), weights, image.number, *bias],
        stored,
        of,
        padding="VALID",
        activation="NONE",
        stride=stride,
        margins=(0, 0),
    )
    if any(map(any, pads)):
        counts = tuple(n - sum(pad) for n, pad in zip(totals, pads, strict=True))
        if min(counts) < 1:
            raise ModelError(f"wanted pixels between the pads {pads}, got none")
        stored = (items, *counts, channels)
        begin = (0, pads[0][0], pads[1][0], 0)
        more = {"stride": (1, 1, 1, 1), "dropped": (), "added": ()}
        number = builder.operate(
            "STRIDED_SLICE", [number], stored, of, begin=begin, count=stored, **more
        )
    source = (items, channels, *stored[1:3])
    builder.define(of, number, (*source[:2], *source[4 - rank :]), source, IMAGE)
