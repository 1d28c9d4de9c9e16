"""Draws graphs of depthwise and ordinary convolutions with residual additions."""

import numpy as np

from celosia.sw.frontend.operators import window_count
from celosia.sw.graph import Graph, Operation, Quantization, Tensor

__all__ = ["draw"]

_ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")

#: Elements of a tensor behind which nothing more is added.
_MOST = 40_000


def _quantization(scales: float | np.ndarray, zero_point: int, axis: int = 0) -> Quantization:
    values = np.atleast_1d(np.asarray(scales, np.float32))
    return Quantization(values, np.full(values.shape, zero_point, np.int64), axis)


class _Drawing:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.tensors: list[Tensor] = []
        self.operations: list[Operation] = []

    def tensor(
        self,
        shape: tuple[int, ...],
        scales: float | np.ndarray,
        data: np.ndarray | None = None,
        axis: int = 0,
    ) -> int:
        zero_point = 0 if data is not None else int(self.rng.integers(-128, 128))
        quantization = _quantization(scales, zero_point, axis)
        dtype = np.dtype(np.int8) if data is None else data.dtype
        name = f"t{len(self.tensors)}"
        self.tensors.append(Tensor(name, shape, dtype, quantization, data))
        return len(self.tensors) - 1

    def scale(self, number: int) -> float:
        quantization = self.tensors[number].quantization
        assert quantization
        return quantization.scale

    def add(self, kind: str, inputs: tuple[int, ...], result: int, **attributes: object) -> int:
        activation = str(self.rng.choice(_ACTIVATIONS))
        said = {"activation": activation, **attributes}
        place = len(self.operations)
        self.operations.append(Operation(kind, place, inputs, (result,), said))
        return result

    def convolution(
        self, source: int, channels: int, kernel: tuple[int, int], *, alone: bool, **way: object
    ) -> int:
        """Add a convolution; ``alone`` if channels keep to themselves."""
        rng = self.rng
        _, height, width, depth = self.tensors[source].shape
        stride, dilation, padding = way["stride"], way["dilation"], way["padding"]
        counts = [
            window_count(n, k, s, d, str(padding))
            for n, k, s, d in zip((height, width), kernel, stride, dilation, strict=True)  # pyright: ignore[reportArgumentType]
        ]
        if min(counts) < 1:
            return self.convolution(
                source, channels, kernel, alone=alone, **{**way, "padding": "SAME"}
            )
        scales = rng.uniform(0.002, 0.02, channels).astype(np.float32)
        shape = (1, *kernel, channels) if alone else (channels, *kernel, depth)
        taps = kernel[0] * kernel[1] * (1 if alone else depth)
        weights = rng.integers(-127, 128, shape).astype(np.int8)
        bias = rng.integers(-2000, 2000, channels).astype(np.int32)
        unit = self.scale(source)
        spread = unit * 0.012 * np.sqrt(taps) * rng.uniform(0.3, 2)
        operands = (
            source,
            self.tensor(shape, scales, weights, 3 if alone else 0),
            self.tensor((channels,), scales * np.float32(unit), bias),
        )
        result = self.tensor((1, *counts, channels), float(spread))
        if alone:
            way["depth_multiplier"] = channels // depth
        return self.add("DEPTHWISE_CONV_2D" if alone else "CONV_2D", operands, result, **way)

    def depthwise(self, source: int, *, same: bool = False) -> int:
        rng = self.rng
        _, height, width, depth = self.tensors[source].shape
        kernel = tuple(int(rng.integers(1, min(8, extent + 1))) for extent in (height, width))
        stride = (1, 1) if same else (int(rng.integers(1, 4)),) * 2
        dilation = (
            (int(rng.integers(1, 4)), int(rng.integers(1, 4))) if stride == (1, 1) else (1, 1)
        )
        padding = "SAME" if same else str(rng.choice(["SAME", "VALID"]))
        each = 1 if same else int(rng.choice([1, 1, 1, 2, 3]))
        return self.convolution(
            source,
            depth * each,
            (kernel[0], kernel[1]),
            alone=True,
            stride=stride,
            dilation=dilation,
            padding=padding,
        )

    def ordinary(self, source: int, channels: int, stride: int = 1) -> int:
        size = int(self.rng.choice([1, 1, 3]))
        return self.convolution(
            source,
            channels,
            (size, size),
            alone=False,
            stride=(stride, stride),
            dilation=(1, 1),
            padding="SAME",
        )

    def block(self, source: int) -> int:
        """Add two branches from one tensor, and their sum."""
        rng = self.rng
        depth = self.tensors[source].shape[3]
        left = source
        for _ in range(int(rng.integers(0, 3))):
            plain = rng.random() < 0.6
            left = self.ordinary(left, depth) if plain else self.depthwise(left, same=True)
        right = source if rng.random() < 0.5 else self.ordinary(source, depth)
        scale = max(self.scale(left), self.scale(right)) * rng.uniform(0.3, 3)
        result = self.tensor(self.tensors[source].shape, float(scale))
        ends = (left, right) if rng.random() < 0.5 else (right, left)
        return self.add("ADD", ends, result)


def draw(seed: int) -> Graph:
    """Return a graph with one int8 image as input, and one output.

    Parameters
    ----------
    seed : int
        The same seed gives the same graph.
    """
    rng = np.random.default_rng(seed)
    drawing = _Drawing(rng)
    shape = int(rng.integers(3, 20)), int(rng.integers(3, 20)), int(rng.integers(1, 40))
    last = source = drawing.tensor((1, *shape), float(rng.uniform(0.01, 0.1)))
    for _ in range(int(rng.integers(1, 5))):
        which = rng.random()
        if which < 0.35:
            last = drawing.depthwise(last)
        elif which < 0.5:
            channels, stride = int(rng.integers(1, 40)), int(rng.integers(1, 3))
            last = drawing.ordinary(last, channels, stride)
        else:
            last = drawing.block(last)
        if drawing.tensors[last].elements > _MOST:
            break
    return Graph(
        f"residual {seed}", tuple(drawing.tensors), tuple(drawing.operations), (source,), (last,)
    )
