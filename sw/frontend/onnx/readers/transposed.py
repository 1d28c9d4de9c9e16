"""Readers of ConvTranspose, on integers and in float."""

from collections.abc import Sequence

import numpy as np

from celosia.sw.frontend.onnx.builder import IMAGE, Builder, Value
from celosia.sw.frontend.onnx.constants import real_array
from celosia.sw.frontend.onnx.operand import Operand, Unit
from celosia.sw.frontend.onnx.readers.layers import kernel_constants, weights_of
from celosia.sw.frontend.onnx.readers.steps import two, value_of
from celosia.sw.frontend.onnx.readers.windows import numbers_of, pads_of
from celosia.sw.layers.node import ModelError


def _spread(weights: np.ndarray, dilation: Sequence[int]) -> np.ndarray:
    """Return weights with zeros between their rows and columns, the second and third axis."""
    shape = [(n - 1) * d + 1 for n, d in zip(weights.shape[1:3], dilation, strict=True)]
    wide = np.zeros((len(weights), *shape, weights.shape[3]), weights.dtype)
    wide[:, :: dilation[0], :: dilation[1]] = weights
    return wide


def _outer(
    unit: Unit, extents: Sequence[int], spans: Sequence[int], stride: Sequence[int], rank: int
):
    """Return the pixels of a ConvTranspose, with those that are cut off, and the pads."""
    attributes, pads = unit.attributes, []
    extra = list(attributes.get("output_padding", [0] * rank))
    sizes = attributes.get("output_shape")
    if len(extra) != rank or min(extra) < 0 or (sizes and len(sizes) != rank):
        raise ModelError(f"wanted {rank} numbers as output_padding and output_shape")
    extra, totals = [0] * (2 - rank) + extra, []
    for extent, span, step, more in zip(extents, spans, stride, extra, strict=True):
        totals.append((extent - 1) * step + span + more)
    automatic, origin = attributes.get("auto_pad", "NOTSET"), "an output_shape"
    if automatic.startswith("SAME") and not sizes:
        origin = f"a result of auto_pad {automatic}"
        sizes = [n * step for n, step in zip(extents, stride, strict=True)][2 - rank :]
    attributes.get("pads")  # Without effect beside sizes.
    if not sizes:
        return totals, pads_of(attributes, extents, spans, stride, rank)
    for total, size in zip(totals, [1] * (2 - rank) + list(sizes), strict=True):
        less = total - size
        if less < 0:
            raise ModelError(f"wanted {origin} of at most {totals}, got {sizes}")
        first = less // 2 if automatic == "SAME_UPPER" else less - less // 2
        pads.append((first, less - first))
    return totals, (pads[0], pads[1])


class _Image:
    """The image that a ConvTranspose makes, with the pads that are cut off.

    - ``value``: its input, of one or two dimensions of pixels.
    - ``weights``: as the model has them.
    - ``several``: whether channels have several scales.
    """

    def __init__(
        self, unit: Unit, value: Value, weights: np.ndarray, *, several: bool = False
    ) -> None:
        attributes, groups = unit.attributes, unit.attributes.get("group", 1)
        self.rank = rank = len(value.shape) - 2
        if rank not in (1, 2) or weights.ndim != rank + 2:
            raise ModelError(f"wanted windows of 1 or 2 dimensions, got shape {value.shape}")
        if list(attributes.get("kernel_shape", weights.shape[2:])) != [*weights.shape[2:]]:
            raise ModelError(f"wanted a kernel_shape of {weights.shape[2:]}")
        items, inputs, *extents = value.shape
        extents = [1] * (2 - rank) + extents
        if groups < 1 or weights.shape[0] != inputs or inputs % groups:
            raise ModelError(f"wanted weights of {inputs} channels, got {weights.shape[0]}")
        if groups > 1 and several:
            raise ModelError("groups with a scale for each channel are not supported")
        depth, outputs = inputs // groups, weights.shape[1]
        kernel = weights.reshape(inputs, outputs, *[1] * (2 - rank), *weights.shape[2:])
        dense = np.zeros((groups * outputs, *kernel.shape[2:], inputs), weights.dtype)
        for group in range(groups):
            part = slice(group * depth, (group + 1) * depth)
            channels = slice(group * outputs, (group + 1) * outputs)
            dense[channels, :, :, part] = kernel[part].transpose(1, 2, 3, 0)
        self.stride, dilation = (
            numbers_of(attributes, name, rank) for name in ("strides", "dilations")
        )
        #: Weights by channel, row, column and input.
        self.weights = _spread(dense, dilation)
        spans = self.weights.shape[1:3]
        totals, self.pads = _outer(unit, extents, spans, self.stride, rank)
        ways = zip(totals, extents, self.stride, spans, strict=True)
        if any(n - (m - 1) * step - span >= step for n, m, step, span in ways):
            raise ModelError("wanted an output_padding below the strides")
        #: Samples, channels, rows and columns of the input.
        self.source = (items, inputs, *extents)
        #: Stored shape, with the pads.
        self.stored = (items, *totals, len(dense))

    def define(self, builder: Builder, of: Operand, number: int) -> None:
        """Name the result without its pads."""
        stored = self.stored
        if any(map(any, self.pads)):
            counts = [n - sum(pad) for n, pad in zip(stored[1:3], self.pads, strict=True)]
            if min(counts) < 1:
                raise ModelError(f"wanted pixels between the pads {self.pads}, got none")
            stored = (stored[0], *counts, stored[3])
            begin = (0, self.pads[0][0], self.pads[1][0], 0)
            more = {"stride": (1, 1, 1, 1), "dropped": (), "added": ()}
            number = builder.operate(
                "STRIDED_SLICE", [number], stored, of, begin=begin, count=stored, **more
            )
        source = (stored[0], stored[3], *stored[1:3])
        builder.define(of, number, (*source[:2], *source[4 - self.rank :]), source, IMAGE)


def transposed(builder: Builder, unit: Unit) -> None:
    """Read ConvTranspose: the whole image, of which the pads are cut off."""
    value, (of,) = builder.value(unit.inputs[0]), unit.outputs
    weights, scales = weights_of(unit.inputs[1], 1)
    image = _Image(unit, value, weights, several=len(scales) > 1)
    kernel, *bias = kernel_constants(builder, unit, image.weights, scales, 0)
    shape = builder.constant("shape", np.array(image.stored, np.int32))
    number = builder.operate(
        "QLinearConvTranspose",
        [shape, kernel, builder.image(value, image.source).number, *bias],
        image.stored,
        of,
        padding="VALID",
        activation="NONE",
        stride=image.stride,
        margins=(0, 0),
    )
    image.define(builder, of, number)


def real_transposed(builder: Builder, unit: Unit) -> None:
    """Read ConvTranspose in float."""
    value, (of,) = value_of(builder, unit.inputs[0]), unit.outputs
    image = _Image(unit, value, real_array(unit.inputs[1]))
    ends = builder.image(value, image.source).number, builder.constant("weights", image.weights)
    more = {"stride": image.stride, "margins": (0, 0)}
    image.define(builder, of, builder.operate("ConvTranspose", [*ends], image.stored, of, **more))
    if len(unit.inputs) > 2 and unit.inputs[2] is not None:
        bias = real_array(unit.inputs[2]).reshape(-1, *[1] * image.rank)
        two(builder, "ADD", [builder.values[of.name], bias], of)
