"""Random small models.

``case(seed)`` is always the same model with the same inputs: one operator, or a few that read one
another's results, whose shapes, geometry and quantisation are drawn from the seed. A change here
gives other cases to the same seeds, those that stand for past bugs included.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from draw import Draw

from celosia.sw.frontend.operators import window_count
from celosia.sw.frontend.writer import (
    Activation,
    Convolution,
    FullyConnected,
    Layer,
    Mean,
    Pad,
    Pool,
    Quantize,
    Reshape,
    Softmax,
    serialize,
)
from celosia.sw.graph import Graph

#: Multiplications of one operator: the reference kernels take some 10 ms for these.
MACS = 1_000_000

ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")


@dataclass(frozen=True, eq=False)
class Case:
    """A model and what it is run on.

    Parameters
    ----------
    seed : int
        What it is drawn from.
    name : str
        Its operators.
    graph : Graph
        What the file says.
    inputs : int8 array of shape (invocations, ...)
        Contents of the model's input.
    batch : int
        Items of one run to compile for.
    """

    seed: int
    name: str
    graph: Graph
    inputs: np.ndarray
    batch: int

    @property
    def content(self) -> bytes:
        """The ``.tflite`` file."""
        return serialize(self.graph)


def _range(draw: Draw, name: str) -> tuple[float, int]:
    """Return a scale and zero point that leave an activation more than a few values."""
    zero_point = draw.zero_point()
    if draw.chance(0.1) or name == "NONE":
        return draw.scale(), zero_point
    zero_point = draw.integer(-60, 60) if name == "RELU_N1_TO_1" else min(zero_point, -zero_point)
    bounds = {"RELU": draw.scale() * 255, "RELU6": 6.0, "RELU_N1_TO_1": 2.0}
    return draw.near(bounds[name] / 100), max(zero_point, -128)


def _kernel(draw: Draw, weights: np.ndarray) -> dict[str, Any]:
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
    # The mean of what a layer reads is taken away, the mean of what it gives is near to 0.
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
    """Return a padding with which a window lies inside the image, and in how many places."""
    extents = draw.chain.last.shape[1:3]
    numbers = list(zip(extents, window, (1, 1), dilation, strict=True))
    fits = all(window_count(*each, "VALID") >= 1 for each in numbers)
    padding = draw.one_of("SAME", "VALID") if fits else "SAME"
    return padding, int(np.prod([window_count(*each, padding) for each in numbers]))


def convolution(draw: Draw) -> Layer:
    """Return a CONV_2D of 1 to 70 channels."""
    window, stride = draw.pair(7), draw.pair(3) if draw.chance(0.4) else (1, 1)
    dilation = draw.pair(3) if draw.chance(0.3 if stride == (1, 1) else 0.1) else (1, 1)
    padding, places = _geometry(draw, window, dilation)
    batch, _, _, inputs = draw.chain.last.shape
    places = places // (stride[0] * stride[1]) + 1
    if batch * places * window[0] * window[1] * inputs > MACS:
        window, dilation, padding = (1, 1), (1, 1), "SAME"
    most = max(1, MACS // (batch * places * window[0] * window[1] * inputs))
    weights = draw.int8((min(draw.few(70), most), *window, inputs))
    return Convolution(**_kernel(draw, weights), padding=padding, stride=stride, dilation=dilation)


def _pool(draw: Draw, kind: str) -> Layer:
    window = (2, 2) if draw.chance(0.4) else draw.pair(7)
    stride = window if draw.chance(0.4) else draw.pair(3)
    padding, _ = _geometry(draw, window, (1, 1))
    activation = draw.one_of(*ACTIVATIONS) if draw.chance(0.4) else "NONE"
    if kind == "MAX_POOL_2D":
        draw.mean += draw.spread
    else:
        draw.spread = draw.spread / np.sqrt(window[0] * window[1]) + 1
    return Pool(kind=kind, window=window, stride=stride, padding=padding, activation=activation)


def max_pool(draw: Draw) -> Layer:
    """Return a MAX_POOL_2D."""
    return _pool(draw, "MAX_POOL_2D")


def average_pool(draw: Draw) -> Layer:
    """Return an AVERAGE_POOL_2D."""
    return _pool(draw, "AVERAGE_POOL_2D")


def fully_connected(draw: Draw) -> Layer:
    """Return a FULLY_CONNECTED over all of one item."""
    shape = draw.chain.last.shape
    inputs = int(np.prod(shape[1:]))
    outputs = min(draw.few(70), max(1, MACS // (shape[0] * inputs)))
    operands = _kernel(draw, draw.int8((outputs, inputs)))
    if draw.chance(0.2):
        operands["bias"] = None
    return FullyConnected(**operands)


def _changed(draw: Draw, share: float) -> dict[str, Any]:
    """Return the quantisation of a result: the input's, or in a share of cases another one."""
    if not draw.chance(share):
        return {}
    scale = draw.near(draw.chain.scale) if draw.chance(0.8) else draw.chain.scale
    draw.mean *= draw.chain.scale / scale
    draw.spread *= draw.chain.scale / scale
    return {"output_scale": scale, "output_zero_point": draw.zero_point()}


def mean(draw: Draw) -> Layer:
    """Return a MEAN over height and width."""
    _, height, width, _ = draw.chain.last.shape
    draw.spread = draw.spread / np.sqrt(height * width) + 1
    return Mean(
        axes=(1, 2) if draw.chance(0.8) else (-2, 1),
        keep_dims=draw.chance(0.5),
        **_changed(draw, 0.5),
    )


def activation(draw: Draw) -> Layer:
    """Return a RELU, RELU6 or RELU_N1_TO_1."""
    return Activation(kind=draw.one_of(*ACTIVATIONS[1:]), **_changed(draw, 0.4))


def quantize(draw: Draw) -> Layer:
    """Return a QUANTIZE."""
    return Quantize(**_changed(draw, 1.0))


def pad(draw: Draw) -> Layer:
    """Return a PAD, or a PADV2 that most often writes zero."""
    margins = draw.rng.integers(0, 4, (2, 2)).tolist()
    before, after = ((0, *margin, 0) for margin in margins)
    value = draw.chain.zero_point if draw.chance(0.3) else None
    if draw.chance(0.05):
        value = draw.integer(-128, 127)
    return Pad(before=before, after=after, value=value, wide=draw.chance(0.2))


def softmax(draw: Draw) -> Layer:
    """Return a SOFTMAX."""
    return Softmax(beta=1.0 if draw.chance(0.6) else float(draw.rng.uniform(0.2, 2)))


def flatten(draw: Draw) -> Layer:
    """Return a RESHAPE to one row for each item."""
    shape = draw.chain.last.shape
    return Reshape(shape=(shape[0], -1 if draw.chance(0.5) else int(np.prod(shape[1:]))))


_Maker = Callable[[Draw], Layer]


def _single(*makers: _Maker, flat: bool = False) -> Callable[[Draw], None]:
    """Return what makes a graph of one operator."""

    def make(draw: Draw) -> None:
        if flat:
            draw.begin((draw.integer(1, 3), draw.few(300)))
        else:
            draw.begin_image()
        draw.rng.choice(np.array(makers))(draw).add(draw.chain)

    return make


#: What may follow an image, and how often; and a row.
_AFTER_IMAGE: tuple[tuple[_Maker, int], ...] = (
    *((convolution, 10), (max_pool, 4), (average_pool, 2), (activation, 3)),
    *((pad, 3), (quantize, 1), (mean, 1), (flatten, 1)),
)
_AFTER_ROW: tuple[tuple[_Maker, int], ...] = (
    *((fully_connected, 6), (activation, 2), (quantize, 1)),
)


def _weighted(draw: Draw, table: tuple[tuple[_Maker, int], ...]) -> _Maker:
    shares = np.array([share for _, share in table]) / sum(share for _, share in table)
    return table[int(draw.rng.choice(len(table), p=shares))][0]


def chain(draw: Draw) -> None:
    """Make a graph of some operators, in any order."""
    draw.begin_image(channels=24)
    for _ in range(draw.integer(2, 5)):
        table = _AFTER_IMAGE if len(draw.chain.last.shape) == 4 else _AFTER_ROW
        _weighted(draw, table)(draw).add(draw.chain)
    # The reference kernel aborts on rows of more than 511 equal values.
    if len(draw.chain.last.shape) == 2 and draw.chain.last.shape[1] < 512 and draw.chance(0.3):
        softmax(draw).add(draw.chain)


def network(draw: Draw) -> None:
    """Make a graph as people do: convolutions, pools, then rows."""
    draw.begin_image(channels=6)
    for _ in range(draw.integer(1, 2)):
        if draw.chance(0.2):
            pad(draw).add(draw.chain)
        convolution(draw).add(draw.chain)
        if draw.chance(0.3):
            Activation(kind=draw.one_of(*ACTIVATIONS[1:])).add(draw.chain)
        if draw.chance(0.7):
            _weighted(draw, ((max_pool, 3), (average_pool, 1)))(draw).add(draw.chain)
    if draw.chance(0.9):
        _weighted(draw, ((flatten, 3), (mean, 1)))(draw).add(draw.chain)
    for _ in range(draw.integer(1, 2)):
        fully_connected(draw).add(draw.chain)
    if draw.chance(0.5):
        softmax(draw).add(draw.chain)


def fork(draw: Draw) -> None:
    """Make a graph whose branches read the same image, each in its own way."""
    draw.begin_image(channels=24)
    if draw.chance(0.6):
        _weighted(draw, _AFTER_IMAGE[:4])(draw).add(draw.chain)
    root, mean, spread = draw.chain.number, draw.mean, draw.spread
    for _ in range(draw.integer(2, 3)):
        draw.chain.back_to(root)
        draw.mean, draw.spread = mean, spread
        for _ in range(draw.integer(1, 2)):
            table = _AFTER_IMAGE if len(draw.chain.last.shape) == 4 else _AFTER_ROW
            _weighted(draw, table)(draw).add(draw.chain)


_GRAPHS: tuple[tuple[Callable[[Draw], None], int], ...] = (
    (_single(convolution), 12),
    (_single(max_pool, average_pool), 5),
    (_single(fully_connected, flat=True), 2),
    (_single(mean, pad, flatten), 4),
    (_single(activation, quantize), 3),
    (_single(activation, quantize, softmax, flat=True), 1),
    (chain, 10),
    (network, 6),
    (fork, 3),
)


def case(seed: int) -> Case:
    """Return the case of a seed."""
    draw = Draw(seed)
    shares = np.array([share for _, share in _GRAPHS]) / sum(share for _, share in _GRAPHS)
    _GRAPHS[int(draw.rng.choice(len(_GRAPHS), p=shares))][0](draw)
    graph = draw.chain.graph()
    results = [operation.outputs[0] for operation in graph.operations]
    read = {operation.inputs[0] for operation in graph.operations}
    graph = replace(graph, outputs=tuple(number for number in results if number not in read))
    between = [number for number in results if number in read]
    if between and draw.chance(0.15):
        graph = replace(graph, outputs=(int(draw.rng.choice(between)), *graph.outputs))
    return Case(
        seed=seed,
        name=" ".join(operation.kind for operation in graph.operations),
        graph=graph,
        inputs=draw.inputs,
        batch=draw.integer(1, 4),
    )
