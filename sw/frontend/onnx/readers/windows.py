"""Windows of convolutions and poolings: their geometry, and the padding in the graph."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from celosia.sw.frontend.onnx.builder import IMAGE, Builder, Value
from celosia.sw.frontend.onnx.operand import Operand, Unit
from celosia.sw.layers.node import ModelError

_Pair = tuple[int, int]

#: Rows and columns before and after an image.
_Pads = tuple[_Pair, _Pair]


def pair(attributes: dict[str, Any], name: str, rank: int) -> _Pair:
    """Return two numbers of an attribute; missing ones are 1, a single number is the second."""
    found = list(attributes.get(name, [1] * rank))
    if len(found) != rank or min(found) < 1:
        raise ModelError(f"wanted {rank} {name} of at least 1, got {found}")
    return (1, found[0]) if rank == 1 else (found[0], found[1])


def pads_of(
    attributes: dict[str, Any],
    extents: Sequence[int],
    spans: Sequence[int],
    strides: Sequence[int],
    rank: int,
) -> _Pads:
    """Return the padding of rows and columns, before and after."""
    kind, given = attributes.get("auto_pad", "NOTSET"), attributes.get("pads", [0] * 2 * rank)
    if kind not in ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"):
        raise ModelError(f"auto_pad {kind!r} is not supported")
    if kind != "NOTSET" and any(given):
        raise ModelError(f"wanted no pads beside auto_pad {kind}, got {given}")
    if kind in ("SAME_UPPER", "SAME_LOWER"):
        pads = []
        for extent, span, stride in zip(extents, spans, strides, strict=True):
            total = max((-(-extent // stride) - 1) * stride + span - extent, 0)
            less, more = total // 2, total - total // 2
            pads.append((less, more) if kind == "SAME_UPPER" else (more, less))
        return pads[0], pads[1]
    if len(given) != 2 * rank or min(given) < 0:
        raise ModelError(f"wanted {2 * rank} pads of at least 0, got {given}")
    columns = given[rank - 1], given[-1]
    return (((given[0], given[2]) if rank == 2 else (0, 0)), columns)


class Windows:
    """Windows over an image: their geometry, and the padding in the graph.

    - ``value``: its input, of one or two dimensions of pixels.
    - ``kernel``: extents of the window along these.
    """

    def __init__(self, unit: Unit, value: Value, kernel: Sequence[int]) -> None:
        rank = len(value.shape) - 2
        if rank not in (1, 2) or len(kernel) != rank:
            raise ModelError(f"wanted windows of 1 or 2 dimensions, got shape {value.shape}")
        attributes = unit.attributes
        items, channels, *extents = value.shape
        #: Samples, channels, rows and columns of the input.
        self.shape = (items, channels, *([1] * (2 - rank)), *extents)
        self.rank = rank
        self.kernel: _Pair = (1, kernel[0]) if rank == 1 else (kernel[0], kernel[1])
        self.stride = pair(attributes, "strides", rank)
        self.dilation = pair(attributes, "dilations", rank)
        self.spans = tuple(
            (taps - 1) * apart + 1 for taps, apart in zip(self.kernel, self.dilation, strict=True)
        )
        extents = self.shape[2:]
        self.pads = pads_of(attributes, extents, self.spans, self.stride, rank)
        whole = [n + sum(pad) for n, pad in zip(extents, self.pads, strict=True)]
        ways = list(zip(whole, self.spans, self.stride, strict=True))
        self.past = False
        self.counts = tuple((n - span) // step + 1 for n, span, step in ways)
        if min(self.counts) < 1:
            raise ModelError(f"wanted a window inside the image, got {self.spans} on {extents}")
        if attributes.get("ceil_mode"):
            self._round_up(whole)

    def _round_up(self, whole: Sequence[int]) -> None:
        """Add windows that begin inside and end past the edge, and the pads that they need."""
        counts, pads = [], []
        for extent, (before, after), length, span, step in zip(
            self.shape[2:], self.pads, whole, self.spans, self.stride, strict=True
        ):
            count = -(-(length - span) // step) + 1
            # A window begins inside the image, or its pads before it.
            count -= (count - 1) * step >= extent + before
            counts.append(count)
            pads.append((before, after + max(0, (count - 1) * step + span - length)))
        #: Whether windows end past the edge and its pads.
        self.past = tuple(pads) != self.pads
        self.counts, self.pads = (counts[0], counts[1]), (pads[0], pads[1])

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
        """Return the pixels of each window that lie inside the image, along rows or columns."""
        extent, (before, _), step = self.shape[2 + axis], self.pads[axis], self.stride[axis]
        starts = [number * step - before for number in range(self.counts[axis])]
        return [min(n + self.kernel[axis], extent) - max(n, 0) for n in starts]

    def image(self, builder: Builder, value: Value, fill: float | None) -> tuple[int, str]:
        """Return the padded input and the kind of padding that is left.

        ``fill`` is the value of the padding; None for windows that count only elements inside.
        """
        image = builder.image(value, self.shape)
        if not any(map(any, self.pads)):
            return image.number, "VALID"
        if self.same:
            return image.number, "SAME"
        if fill is None:
            raise ModelError(f"pads {self.pads} that are not counted are not supported")
        before, after = ((0, pad[0], pad[1], 0) for pad in zip(*self.pads, strict=True))
        tensor = builder.tensors[image.number]
        of = Operand(tensor.name, tensor.dtype, tensor.quantization)
        return builder.padded(image, (before, after), of, fill)[0], "VALID"

    def define(self, builder: Builder, of: Operand, number: int, channels: int) -> None:
        """Name the result, one pixel for each window."""
        source = (self.shape[0], channels, *self.counts)
        shape = (*source[:2], *self.counts[2 - self.rank :])
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
        return weights.reshape(outputs, depth, *self.kernel).transpose(0, 2, 3, 1)

    def result(self, channels: int) -> tuple[int, ...]:
        """Return the stored shape of the result."""
        return (self.shape[0], *self.counts, channels)

    def pooled(
        self,
        builder: Builder,
        value: Value,
        of: Operand,
        kind: str,
        fill: float | None,
        **more: Any,
    ) -> int:
        """Add a pooling; return its result. ``fill``: as for ``image``."""
        source, padding = self.image(builder, value, fill)
        about = {"stride": self.stride, "window": self.kernel, "activation": "NONE", **more}
        shape = self.result(self.shape[1])
        return builder.operate(kind, [source], shape, of, padding=padding, **about)


def pooling(unit: Unit, value: Value, kernel: Sequence[int]) -> Windows:
    """Return the windows of a pooling; ``kernel``: without an attribute."""
    windows = Windows(unit, value, unit.attributes.get("kernel_shape", kernel))
    if windows.dilation != (1, 1):
        raise ModelError(f"dilation {windows.dilation} is not supported")
    if unit.attributes.get("count_include_pad") and windows.past:
        raise ModelError("ceil_mode with windows past pads that are counted is not supported")
    return windows
