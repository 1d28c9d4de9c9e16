"""Random operators of the core for the last result of a graph."""

import math
from collections.abc import Callable
from typing import Any

import networks as w
import numpy as np

from random_networks.draw import Draw

#: Multiplications of one operator: the reference kernels take some 10 ms for these.
MACS = 1_000_000

ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")

Maker = Callable[[Draw], w.Layer]

#: A window and a stride, along one dimension.
_Way = tuple[int, int]


def _range(draw: Draw, name: str) -> tuple[float, int]:
    """Return a scale and zero point that leave an activation more than a few values."""
    zero_point = draw.zero_point()
    if draw.chance(0.1) or name == "NONE":
        return draw.scale(), zero_point
    zero_point = draw.integer(-60, 60) if name == "RELU_N1_TO_1" else min(zero_point, -zero_point)
    bounds = {"RELU": draw.scale() * 255, "RELU6": 6.0, "RELU_N1_TO_1": 2.0}
    return draw.near(bounds[name] / 100), max(zero_point, -128)


def kernel(draw: Draw, weights: np.ndarray) -> dict[str, Any]:
    """Return the operands of a layer with weights whose results spread over all of int8."""
    channels, taps = weights.shape[0], weights[0].size
    name = draw.one_of(*ACTIVATIONS, "NONE", "NONE")
    output_scale, zero_point = _range(draw, name)
    spread = draw.spread * np.sqrt(taps * np.mean(weights.astype(float) ** 2) + 1)
    unit = output_scale * float(draw.rng.uniform(20, 60)) / spread / draw.chain.scale
    count = channels if draw.chance(0.7) else 1
    scales = np.array([draw.about(unit) for _ in range(count)], np.float32)
    if draw.chance(0.05):
        scales = scales * np.float32(2.0) ** draw.integer(-12, 12)
    # The mean of the input is subtracted, so that the mean of the result is near 0.
    centre = draw.rng.integers(-50, 51, channels) - zero_point
    offset = draw.mean * weights.reshape(channels, -1).sum(axis=1, dtype=np.int64)
    bias = centre * output_scale / draw.chain.scale / scales - offset
    if draw.chance(0.03):
        bias = draw.rng.uniform(-1, 1, channels) * 2.0**31
    draw.mean, draw.spread = float(np.mean(centre)), 45.0
    return {
        "weights": weights,
        "weight_scale": scales if count > 1 else float(scales[0]),
        "bias": np.clip(np.round(bias), -(1 << 31), (1 << 31) - 1).astype(np.int32),
        "output_scale": output_scale,
        "output_zero_point": zero_point,
        "activation": name,
    }


def _geometry(draw: Draw, window: tuple[int, int], dilation: tuple[int, int]) -> tuple[str, int]:
    """Return a padding with which a window fits into the image, and the number of its positions."""
    extents = draw.chain.last.shape[1:3]
    numbers = list(zip(extents, window, (1, 1), dilation, strict=True))
    fits = all(w.window_count(*each, "VALID") >= 1 for each in numbers)
    padding = draw.one_of("SAME", "VALID") if fits else "SAME"
    return padding, int(np.prod([w.window_count(*each, padding) for each in numbers]))


def convolution(draw: Draw) -> w.Layer:
    """Return a CONV_2D of 1 to 70 channels."""
    window, stride = draw.pair(7), draw.pair(3) if draw.chance(0.4) else (1, 1)
    dilation = draw.pair(3) if draw.chance(0.3 if stride == (1, 1) else 0.1) else (1, 1)
    padding, positions = _geometry(draw, window, dilation)
    batch, _, _, inputs = draw.chain.last.shape
    positions = positions // (stride[0] * stride[1]) + 1
    if batch * positions * window[0] * window[1] * inputs > MACS:
        window, dilation, padding = (1, 1), (1, 1), "SAME"
    most = max(1, MACS // (batch * positions * window[0] * window[1] * inputs))
    weights = draw.int8((min(draw.few(70), most), *window, inputs))
    return w.Convolution(**kernel(draw, weights), padding=padding, stride=stride, dilation=dilation)


def pointwise(draw: Draw) -> w.Layer:
    """Return a CONV_2D of single pixels, of 1 to 48 channels, often a multiple of 2, 4 or 8."""
    batch, rows, columns, inputs = draw.chain.last.shape
    most = max(1, MACS // (batch * rows * columns * inputs))
    channels = draw.integer(1, 6) * 2 ** draw.integer(0, 3)
    return w.Convolution(**kernel(draw, draw.int8((min(channels, most), 1, 1, inputs))))


def _apart(draw: Draw, outputs: int, window: tuple[int, int]) -> dict[str, Any]:
    """Return the operands of a DEPTHWISE_CONV_2D; LiteRT accepts it without bias."""
    operands = kernel(draw, draw.int8((outputs, *window, 1)))
    operands["weights"] = np.ascontiguousarray(operands["weights"].transpose(3, 1, 2, 0))
    if draw.chance(0.1):
        operands["bias"] = None
    return operands


def depthwise(draw: Draw) -> w.Layer:
    """Return a DEPTHWISE_CONV_2D of 1 to 4 outputs for each channel."""
    window = (3, 3) if draw.chance(0.3) else draw.pair(7)
    stride = draw.pair(3) if draw.chance(0.4) else (1, 1)
    dilation = draw.pair(3) if draw.chance(0.3 if stride == (1, 1) else 0.1) else (1, 1)
    padding, positions = _geometry(draw, window, dilation)
    batch, _, _, inputs = draw.chain.last.shape
    each = draw.integer(2, 4) if inputs <= 70 and draw.chance(0.4) else 1
    if batch * positions * window[0] * window[1] * inputs * each > MACS:
        window, dilation, padding, each = (1, 1), (1, 1), "SAME", 1
    operands = _apart(draw, inputs * each, window)
    return w.Depthwise(**operands, padding=padding, stride=stride, dilation=dilation)


def _pool(draw: Draw, kind: str) -> w.Layer:
    window = (2, 2) if draw.chance(0.4) else draw.pair(7)
    stride = window if draw.chance(0.4) else draw.pair(3)
    padding, _ = _geometry(draw, window, (1, 1))
    activation = draw.one_of(*ACTIVATIONS) if draw.chance(0.4) else "NONE"
    if kind == "MAX_POOL_2D":
        draw.mean += draw.spread
    else:
        draw.spread = draw.spread / np.sqrt(window[0] * window[1]) + 1
    return w.Pool(kind=kind, window=window, stride=stride, padding=padding, activation=activation)


def max_pool(draw: Draw) -> w.Layer:
    """Return a MAX_POOL_2D."""
    return _pool(draw, "MAX_POOL_2D")


def average_pool(draw: Draw) -> w.Layer:
    """Return an AVERAGE_POOL_2D."""
    return _pool(draw, "AVERAGE_POOL_2D")


def fully_connected(draw: Draw) -> w.Layer:
    """Return a FULLY_CONNECTED over all of one sample."""
    shape = draw.chain.last.shape
    inputs = int(np.prod(shape[1:]))
    outputs = min(draw.few(70), max(1, MACS // (shape[0] * inputs)))
    operands = kernel(draw, draw.int8((outputs, inputs)))
    if draw.chance(0.2):
        operands["bias"] = None
    return w.FullyConnected(**operands)


def changed(draw: Draw, share: float) -> dict[str, Any]:
    """Return the quantisation of a result: the input's, or in a share of cases another one."""
    if not draw.chance(share):
        return {}
    scale = draw.near(draw.chain.scale) if draw.chance(0.8) else draw.chain.scale
    draw.mean *= draw.chain.scale / scale
    draw.spread *= draw.chain.scale / scale
    return {"output_scale": scale, "output_zero_point": draw.zero_point()}


def mean(draw: Draw) -> w.Layer:
    """Return a MEAN over height and width."""
    _, height, width, _ = draw.chain.last.shape
    draw.spread = draw.spread / np.sqrt(height * width) + 1
    return w.Mean(
        axes=(1, 2) if draw.chance(0.8) else (-2, 1),
        keep_dims=draw.chance(0.5),
        **changed(draw, 0.5),
    )


def activation(draw: Draw) -> w.Layer:
    """Return a RELU, RELU6 or RELU_N1_TO_1."""
    return w.Activation(kind=draw.one_of(*ACTIVATIONS[1:]), **changed(draw, 0.4))


def quantize(draw: Draw) -> w.Layer:
    """Return a QUANTIZE."""
    return w.Quantize(**changed(draw, 1.0))


def pad(draw: Draw) -> w.Layer:
    """Return a PAD, or a PADV2 that most often writes zero."""
    margins = draw.rng.integers(0, 4, (2, 2)).tolist()
    before, after = ((0, *margin, 0) for margin in margins)
    value = draw.chain.zero_point if draw.chance(0.3) else None
    if draw.chance(0.05):
        value = draw.integer(-128, 127)
    return w.Pad(before=before, after=after, value=value, wide=draw.chance(0.2))


def softmax(draw: Draw) -> w.Layer:
    """Return a SOFTMAX."""
    return w.Softmax(beta=1.0 if draw.chance(0.6) else float(draw.rng.uniform(0.2, 2)))


def flatten(draw: Draw) -> w.Layer:
    """Return a RESHAPE to one row for each sample."""
    shape = draw.chain.last.shape
    return w.Reshape(shape=(shape[0], -1 if draw.chance(0.5) else int(np.prod(shape[1:]))))


#: Limits of the sums after activations.
_BOUNDS = {"RELU": (0.0, np.inf), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}


def addition(draw: Draw, other: int) -> w.Layer:
    """Return an ADD of the last result and another one, whose sums spread over all of int8."""
    name = draw.one_of(*ACTIVATIONS, "NONE", "NONE")
    numbers = (draw.chain.number, other)
    scales = [draw.chain.quantization(number).scale for number in numbers]
    moments = [draw.moments[number] for number in numbers]
    mean = sum(scale * mean for scale, (mean, _) in zip(scales, moments, strict=True))
    spread = math.hypot(*(s * width for s, (_, width) in zip(scales, moments, strict=True)))
    scale = draw.about((spread + abs(mean) / 4) / float(draw.rng.uniform(20, 60)))
    if draw.chance(0.2):
        scale = scales[draw.integer(0, 1)]
    # The reference kernel aborts from 2^-19 of the greater scale on.
    scale = max(scale, max(scales) * 2.0**-12)
    low, high = _BOUNDS.get(name, (-np.inf, np.inf))
    outside = mean + spread < low or mean - spread > high or high - low < 8 * scale
    if outside and draw.chance(0.9):
        name = "NONE"
    zero_point = int(np.clip(draw.integer(-50, 50) - mean / scale, -128, 127))
    if name == "NONE" and draw.chance(0.2):
        zero_point = draw.zero_point()
    draw.mean, draw.spread = mean / scale, min(spread / scale, 100.0)
    return w.Add(
        second=draw.chain.tensor(other).name,
        output_scale=scale,
        output_zero_point=zero_point,
        activation=name,
    )


def _ways(extents: tuple[int, int], wanted: tuple[int, int], padding: str) -> list[list[_Way]]:
    """Return the windows and strides along both axes that lead from extents to those wanted."""
    return [
        [
            (window, stride)
            for window in range(1, 8)
            for stride in range(1, 4)
            if w.window_count(extent, window, stride, 1, padding) == count
        ]
        for extent, count in zip(extents, wanted, strict=True)
    ]


def matching(draw: Draw, shape: tuple[int, ...]) -> w.Layer | None:
    """Return an operator that leads from the last result to one of a shape, if one does."""
    source = draw.chain.last.shape
    if len(source) != len(shape):
        return None
    if len(shape) == 2:
        return w.FullyConnected(**kernel(draw, draw.int8((shape[1], source[1]))))
    padding = draw.one_of("SAME", "VALID")
    extents, wanted = (source[1], source[2]), (shape[1], shape[2])
    ways = _ways(extents, wanted, padding)
    if not all(ways):
        padding = "VALID" if padding == "SAME" else "SAME"
        ways = _ways(extents, wanted, padding)
    if not all(ways):
        return None
    (high, down), (wide, right) = (axis[draw.integer(0, len(axis) - 1)] for axis in ways)
    inputs, outputs = source[3], shape[3]
    way = {"padding": padding, "stride": (down, right)}
    if inputs == outputs and draw.chance(0.3):
        kind = draw.one_of(*w.Pool.KINDS)
        return w.Pool(kind=kind, window=(high, wide), **way)
    if outputs % inputs == 0 and draw.chance(0.4):
        return w.Depthwise(**_apart(draw, outputs, (high, wide)), **way)
    if np.prod(shape[:3]) * high * wide * inputs * outputs > MACS:
        (high, down), (wide, right) = (min(axis) for axis in ways)
        way["stride"] = (down, right)
    return w.Convolution(**kernel(draw, draw.int8((outputs, high, wide, inputs))), **way)
