"""Windows of convolutions and poolings: their geometry, and the padding in the graph."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from celosia.sw.frontend.onnx.builder import IMAGE, Builder, Value
from celosia.sw.frontend.onnx.file.nodes import OnnxAttributes
from celosia.sw.frontend.onnx.operand import Operand, Operands, Unit
from celosia.sw.frontend.onnx.readers.moves import cut, turned
from celosia.sw.layers.node import ModelError

_Pair = tuple[int, int]

#: Pixels before and after an image, by axis.
_Pads = tuple[_Pair, ...]


def numbers_of(attributes: dict[str, Any], name: str, rank: int) -> tuple[int, ...]:
    """Return the numbers of an attribute, 1 where they are missing: of at least two axes."""
    entries = list(attributes.get(name, [1] * rank))
    if len(entries) != rank or min(entries) < 1:
        raise ModelError(f"wanted {rank} {name} of at least 1, got {entries}")
    return (*[1] * (2 - rank), *entries)


def pads_of(
    attributes: dict[str, Any],
    extents: Sequence[int],
    spans: Sequence[int],
    strides: Sequence[int],
    rank: int,
) -> _Pads:
    """Return the padding before and after each axis."""
    kind, entries = attributes.get("auto_pad", "NOTSET"), attributes.get("pads", [0] * 2 * rank)
    if kind not in ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"):
        raise ModelError(f"auto_pad {kind!r} is not supported")
    if kind != "NOTSET" and any(entries):
        raise ModelError(f"wanted no pads beside auto_pad {kind}, got {entries}")
    if kind in ("SAME_UPPER", "SAME_LOWER"):
        pads = []
        for extent, span, stride in zip(extents, spans, strides, strict=True):
            total = max((-(-extent // stride) - 1) * stride + span - extent, 0)
            less, more = total // 2, total - total // 2
            pads.append((less, more) if kind == "SAME_UPPER" else (more, less))
        return tuple(pads)
    if len(entries) != 2 * rank or min(entries) < 0:
        raise ModelError(f"wanted {2 * rank} pads of at least 0, got {entries}")
    missing = [(0, 0)] * (2 - rank)
    return (*missing, *zip(entries[:rank], entries[rank:], strict=True))


#: Order of axes that brings planes before channels, and back.
_BY_PLANE = (0, 2, 1, 3, 4)


class Windows:
    """Windows over an image: their geometry, and the padding in the graph.

    - ``value``: its input, of one to three dimensions of pixels.
    - ``kernel``: extents of the window along these.
    """

    def __init__(self, unit: Unit, value: Value, kernel: Sequence[int]) -> None:
        rank = len(value.shape) - 2
        if rank not in (1, 2, 3) or len(kernel) != rank:
            raise ModelError(f"wanted windows of 1 to 3 dimensions, got shape {value.shape}")
        attributes = unit.attributes
        items, channels, *extents = value.shape
        #: Samples, channels and at least two extents of the input.
        self.shape = (items, channels, *([1] * (2 - rank)), *extents)
        self.rank = rank
        self.kernel = (*[1] * (2 - rank), *kernel)
        self.stride = numbers_of(attributes, "strides", rank)
        self.dilation = numbers_of(attributes, "dilations", rank)
        self.spans = tuple(
            (taps - 1) * apart + 1 for taps, apart in zip(self.kernel, self.dilation, strict=True)
        )
        extents = self.shape[2:]
        self.pads = pads_of(attributes, extents, self.spans, self.stride, rank)
        lengths = [n + sum(pad) for n, pad in zip(extents, self.pads, strict=True)]
        ways = list(zip(lengths, self.spans, self.stride, strict=True))
        self.past = False
        self.counts = tuple((n - span) // step + 1 for n, span, step in ways)
        if min(self.counts) < 1:
            raise ModelError(f"wanted a window inside the image, got {self.spans} on {extents}")
        if attributes.get("ceil_mode"):
            self._round_up(lengths)

    def _round_up(self, lengths: Sequence[int]) -> None:
        """Add windows that begin inside and end past the edge, and the pads that they need."""
        counts, pads = [], []
        for extent, (before, after), length, span, step in zip(
            self.shape[2:], self.pads, lengths, self.spans, self.stride, strict=True
        ):
            count = -(-(length - span) // step) + 1
            # A window begins inside the image, or its pads before it.
            count -= (count - 1) * step >= extent + before
            counts.append(count)
            pads.append((before, after + max(0, (count - 1) * step + span - length)))
        #: Whether windows end past the edge and its pads.
        self.past = tuple(pads) != self.pads
        self.counts, self.pads = tuple(counts), tuple(pads)

    @property
    def same(self) -> bool:
        """True where the padding is that of SAME."""
        for extent, span, step, count, pad in zip(
            self.shape[2:], self.spans, self.stride, self.counts, self.pads, strict=True
        ):
            total = max((count - 1) * step + span - extent, 0)
            if count != -(-extent // step) or pad != (total // 2, total - total // 2):
                return False
        return True

    def inside(self, axis: int) -> list[int]:
        """Return the pixels of each window that lie inside the image, along an axis."""
        extent, (before, _), step = self.shape[2:][axis], self.pads[axis], self.stride[axis]
        taps = np.arange(self.kernel[axis]) * self.dilation[axis] - before
        pixels = np.arange(self.counts[axis])[:, None] * step + taps
        return ((pixels >= 0) & (pixels < extent)).sum(axis=1).tolist()

    def image(
        self, builder: Builder, value: Value, fill: float, *, counted: bool = False
    ) -> tuple[int, str]:
        """Return the padded input and the kind of padding that is left.

        - ``fill``: value of the padding.
        - ``counted``: whether a window counts its padding.
        """
        image = builder.image(value, self.shape)
        if not any(map(any, self.pads)):
            return image.number, "VALID"
        if self.same and not counted:
            return image.number, "SAME"
        before, after = ((0, pad[0], pad[1], 0) for pad in zip(*self.pads, strict=True))
        tensor = builder.tensors[image.number]
        of = Operand(tensor.name, tensor.dtype, tensor.quantization)
        return builder.padded(image, (before, after), of, fill)[0], "VALID"

    def define(self, builder: Builder, of: Operand, number: int, channels: int) -> None:
        """Name the result, one pixel for each window."""
        source = (self.shape[0], channels, *self.counts)
        shape = (*source[:2], *self.counts[-self.rank :])
        builder.define(of, number, shape, source, IMAGE)

    def kernels(self, unit: Unit, weights: np.ndarray) -> np.ndarray:
        """Return weights of a convolution, as stored: results, rows, columns, channels of a group.

        Raises ModelError if they do not fit the input, the groups or ``kernel_shape``.
        """
        outputs, depth, *kernel = weights.shape
        groups, channels = unit.attributes.get("group", 1), self.shape[1]
        if groups < 1 or depth * groups != channels or outputs % groups:
            raise ModelError(f"wanted weights of {channels} channels, got {groups} x {depth}")
        if list(unit.attributes.get("kernel_shape", kernel)) != kernel:
            raise ModelError(f"wanted a kernel_shape of {kernel}")
        return np.moveaxis(weights.reshape(outputs, depth, *self.kernel), 1, -1)

    @property
    def apart(self) -> bool:
        """True for windows over three dimensions, or dilated: combined axis by axis."""
        return self.rank > 2 or max(self.dilation) > 1

    def combined(
        self, builder: Builder, value: Value, of: Operand, kind: str, fill: float
    ) -> Value:
        """Return windows whose elements are combined by an operator, one axis after the other."""
        value, more = builder.plain(value), {"activation": "NONE"} if kind == "ADD" else {}
        for number in range(self.rank):
            axis, way = number + 2, number - self.rank
            before, after = ([0] * len(value.shape) for _ in range(2))
            before[axis], after[axis] = self.pads[way]
            if before[axis] or after[axis]:
                padded, shape = builder.padded(value, (tuple(before), tuple(after)), of, fill)
                value = Value(padded, shape, shape, value.order, value.unsigned)
            ways = [(0, extent, 1) for extent in value.shape]
            total = None
            for tap in range(self.kernel[way]):
                first = tap * self.dilation[way]
                ways[axis] = (first, self.counts[way], self.stride[way])
                part = cut(builder, value, ways, of)
                if total is not None:
                    ends = [total.number, part.number]
                    combined = builder.operate(kind, ends, part.shape, of, **more)
                    part = replace(part, number=combined)
                total = part
            assert total
            value = total
        return builder.define(of, value.number, value.shape)

    def result(self, channels: int) -> tuple[int, ...]:
        """Return the stored shape of the result."""
        return (self.shape[0], *self.counts, channels)

    def pooled(
        self,
        builder: Builder,
        value: Value,
        of: Operand,
        kind: str,
        fill: float,
        *,
        counted: bool = False,
        **more: Any,
    ) -> int:
        """Add a pooling; return its result. ``fill``, ``counted``: as for ``image``."""
        source, padding = self.image(builder, value, fill, counted=counted)
        attributes = {"stride": self.stride, "window": self.kernel, "activation": "NONE", **more}
        shape = self.result(self.shape[1])
        return builder.operate(kind, [source], shape, of, padding=padding, **attributes)


def _require_covered(windows: Windows, automatic: str) -> None:
    """Raise ModelError for a pooling that ONNX Runtime pads by another rule than ONNX.

    It ignores dilation, and its pads are negative where the last pixels are in no window.
    """
    ways = zip(windows.shape[2:], windows.kernel, windows.stride, strict=True)
    cause = ""
    if windows.spans != windows.kernel:
        cause = "dilations"
    elif any((-(-extent // step) - 1) * step + span < extent for extent, span, step in ways):
        cause = "windows that leave out pixels"
    if cause:
        raise ModelError(f"auto_pad {automatic} with {cause} is not supported; give pads")


def pooling(unit: Unit, value: Value, kernel: Sequence[int]) -> Windows:
    """Return the windows of a pooling; ``kernel``: without an attribute."""
    windows = Windows(unit, value, unit.attributes.get("kernel_shape", kernel))
    automatic = unit.attributes.get("auto_pad", "NOTSET")
    if automatic.startswith("SAME"):
        _require_covered(windows, automatic)
    pads = unit.attributes.get("pads", [])
    if any(
        pad >= span for pad, span in zip(pads, windows.kernel[-windows.rank :] * 2, strict=False)
    ):
        raise ModelError(f"wanted pads below the window {windows.kernel}, got {pads}")
    if unit.attributes.get("count_include_pad") and windows.past:
        raise ModelError("ceil_mode with windows past pads that are counted is not supported")
    return windows


def deep(
    builder: Builder, unit: Unit, windows: Windows, flat: Callable[[Builder, Unit], None]
) -> None:
    """Read a convolution over three dimensions: planes of a window become channels of an image.

    ``flat``: reader of convolutions over two dimensions.
    """
    source, weights, *bias = unit.inputs
    (of,), value = unit.outputs, builder.plain(builder.value(source))
    if source is None or weights is None or weights.data is None:
        raise ModelError("wanted an input that is computed, and constant weights")
    windows.kernels(unit, weights.data)
    if unit.attributes.get("group", 1) != 1:
        raise ModelError("groups of a convolution over 3 dimensions are not supported")
    planes = replace(source, name=f"{of.name} (planes)")
    if any(windows.pads[0]):
        before, after = ((0, 0, margin, 0, 0) for margin in windows.pads[0])
        fill = 0.0 if source.quantization is None else builder.meaning(value).zero_point
        number, shape = builder.padded(value, (before, after), planes, fill)
        value = replace(value, number=number, shape=shape, source=shape)
    parts, ways = [], [(0, extent, 1) for extent in value.shape]
    for tap in range(windows.kernel[0]):
        ways[2] = (tap * windows.dilation[0], windows.counts[0], windows.stride[0])
        parts.append(cut(builder, value, ways, planes))
    items, channels, count, *extents = parts[0].shape
    shape = (items, channels * len(parts), count, *extents)
    numbers = [part.number for part in parts]
    number = builder.operate("CONCATENATION", numbers, shape, planes, axis=1)
    value = turned(builder, planes, builder.define(planes, number, shape), _BY_PLANE)
    value = builder.reshaped(value, (items * count, shape[1], *extents))
    builder.alike(planes, value.number, value)
    data = weights.data.swapaxes(1, 2)
    kernel = replace(weights, data=data.reshape(len(data), -1, *data.shape[3:]))
    attributes = OnnxAttributes().extended(
        strides=windows.stride[1:],
        dilations=windows.dilation[1:],
        pads=[side[n] for n in (0, 1) for side in windows.pads[1:]],
    )
    result, inputs = replace(of, name=f"{of.name} (planes)"), Operands([planes, kernel, *bias])
    flat(builder, replace(unit, inputs=inputs, outputs=(result,), attributes=attributes))
    value = builder.values[result.name]
    value = builder.plain(builder.reshaped(value, (items, count, *value.shape[1:])))
    turned(builder, of, value, _BY_PLANE)
