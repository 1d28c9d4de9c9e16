"""Synthetic int8 networks with the layers, weights and batches of the paper's workloads.

The paper gives numbers of layers and weights, not shapes. Those here are assumptions, stated with
each network. Weights are random.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from celosia.sw.ir.graph import Graph, Operation, Quantization, Tensor

_SCALE = 1 / 64
_GATE, _TANH = (1 / 256, -128), (1 / 128, 0)


class Builder:
    """A graph under construction. Methods return the number of the tensor they add."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tensors: list[Tensor] = []
        self.operations: list[Operation] = []
        self.inputs: list[int] = []
        self.layers: Counter[str] = Counter()  #: As the paper counts them.
        self.rng = np.random.default_rng(0)

    def _tensor(self, shape: Sequence[int], meaning: tuple[float, int], data: Any = None) -> int:
        quantization = Quantization(np.array([meaning[0]], np.float32), np.array([meaning[1]]))
        name = f"{self.name}_{len(self.tensors)}"
        self.tensors.append(Tensor(name, tuple(shape), np.dtype(np.int8), quantization, data))
        return len(self.tensors) - 1

    def input(self, *shape: int) -> int:
        """Add an input of one sample."""
        self.inputs.append(self._tensor((1, *shape), (_SCALE, 0)))
        return self.inputs[-1]

    def add(
        self, kind: str, sources: Sequence[int], shape: Sequence[int], **attributes: Any
    ) -> int:
        """Add an operator with a result of ``shape``."""
        meaning = {"LOGISTIC": _GATE, "TANH": _TANH}.get(kind, (_SCALE, 0))
        result = self._tensor(shape, meaning)
        operation = Operation(kind, len(self.operations), tuple(sources), (result,), attributes)
        self.operations.append(operation)
        return result

    def shape(self, tensor: int) -> tuple[int, ...]:
        """Return the shape of a tensor, with one sample."""
        return self.tensors[tensor].shape

    def _weights(self, *shape: int) -> int:
        taps = int(np.prod(shape[1:]))
        data = self.rng.integers(-127, 127, shape, np.int8, endpoint=True)
        return self._tensor(shape, (1 / (64 * taps**0.5), 0), data)

    def dense(self, source: int, width: int, activation: str = "RELU") -> int:
        """Add a matrix product of a row."""
        weights = self._weights(width, self.shape(source)[1])
        inputs = (source, weights, -1)
        return self.add("FULLY_CONNECTED", inputs, (1, width), activation=activation)

    def convolution(self, source: int, width: int, kernel: int = 1, stride: int = 1) -> int:
        """Add a convolution with margins."""
        _, rows, columns, depth = self.shape(source)
        weights = self._weights(width, kernel, kernel, depth)
        shape = (1, -(-rows // stride), -(-columns // stride), width)
        self.layers["convolutions"] += 1
        return self.add("CONV_2D", (source, weights, -1), shape, **_window(stride), dilation=(1, 1))

    def pool(
        self, source: int, kind: str, size: int = 3, stride: int = 1, **attributes: Any
    ) -> int:
        """Add a pooling, with margins unless ``padding`` is given."""
        _, rows, columns, depth = self.shape(source)
        shape = (1, -(-rows // stride), -(-columns // stride), depth)
        self.layers["pools"] += 1
        attributes = {**_window(stride), "activation": "NONE", **attributes}
        return self.add(f"{kind}_POOL_2D", (source,), shape, window=(size, size), **attributes)

    def join(self, sources: Sequence[int]) -> int:
        """Add a concatenation of channels."""
        *shape, _ = self.shape(sources[0])
        width = sum(self.shape(source)[-1] for source in sources)
        return self.add("CONCATENATION", sources, (*shape, width), axis=len(shape))

    def function(self, source: int, kind: str) -> int:
        """Add LOGISTIC or TANH."""
        return self.add(kind, (source,), self.shape(source))

    def pair(self, kind: str, first: int, second: int) -> int:
        """Add ADD or MUL."""
        return self.add(kind, (first, second), self.shape(first), activation="NONE")

    def cell(self, source: int, width: int) -> tuple[int, int]:
        """Add an LSTM cell: one layer of four products, one layer of vectors.

        Returns the numbers of its result and its new state; the old one is an input.
        """
        gates = [self.dense(source, width, "NONE") for _ in range(4)]
        self.layers["fully_connected"] += 1
        take, keep, give = (self.function(gate, "LOGISTIC") for gate in gates[:3])
        new = self.pair("MUL", take, self.function(gates[3], "TANH"))
        state = self.pair("ADD", self.pair("MUL", keep, self.input(width)), new)
        self.layers["vectors"] += 1
        return self.pair("MUL", give, self.function(state, "TANH")), state

    def graph(self, *outputs: int) -> Graph:
        """Return the graph."""
        tensors, operations = tuple(self.tensors), tuple(self.operations)
        return Graph(self.name, tensors, operations, tuple(self.inputs), outputs)

    @property
    def weights(self) -> int:
        """Number of weights."""
        return sum(t.elements for t in self.tensors if t.data is not None)


def _window(stride: int) -> dict[str, Any]:
    return {"stride": (stride, stride), "padding": "SAME", "activation": "RELU"}


class Made(NamedTuple):
    """A network, its layers as the paper counts them, and its number of weights."""

    graph: Graph
    layers: Counter[str]
    weights: int


def _perceptron(net: Builder, widths: Sequence[int]) -> Graph:
    at = net.input(widths[0])
    for width in widths[1:]:
        at = net.dense(at, width)
        net.layers["fully_connected"] += 1
    return net.graph(at)


def _lstm0(net: Builder) -> Graph:
    at, states = net.input(1280), []
    for number in range(24):
        below = at
        at, state = net.cell(net.join([at, net.input(512)]), 512)
        states.append(state)
        if 0 < number <= 10:
            at = net.pair("ADD", at, below)
            net.layers["vectors"] += 1
    return net.graph(at, *states)


def _lstm1(net: Builder) -> Graph:
    at, states = net.input(600), []
    for number in range(19):
        if number:
            at = net.dense(at, 600, "NONE")
            net.layers["fully_connected"] += 1
        at, state = net.cell(at, 600)
        states.append(state)
    return net.graph(at, *states)


def _cnn0(net: Builder) -> Graph:
    at = net.convolution(net.input(19, 19, 48), 256, 5)
    for _ in range(13):
        at = net.convolution(at, 256, 3)
    at = net.convolution(at, 256)
    return net.graph(net.convolution(at, 1))


#: Inception modules: 1 × 1; then 1 × 1 and 3 × 3; then 1 × 1, 3 × 3, 3 × 3; then pool and 1 × 1.
#: Modules without the first and the last halve the image.
_MODULES = (
    (64, (64, 64), (64, 96, 96), 32),
    (64, (64, 96), (64, 96, 96), 64),
    (0, (128, 160), (64, 96, 96), 0),
    (224, (64, 96), (96, 128, 128), 128),
    (192, (96, 128), (96, 128, 128), 128),
    (160, (128, 160), (128, 160, 160), 96),
    (96, (128, 192), (160, 192, 192), 96),
    (0, (128, 192), (192, 256, 256), 0),
    (352, (192, 320), (160, 224, 224), 128),
    (352, (192, 320), (192, 224, 224), 128),
)


def _module(net: Builder, at: int, widths: tuple[int, Sequence[int], Sequence[int], int]) -> int:
    alone, short, long, pooled = widths
    stride = 1 if alone else 2
    ends = [net.convolution(at, alone)] if alone else []
    for first, *sizes in (short, long):
        branch = net.convolution(at, first)
        for number, width in enumerate(sizes, 1):
            branch = net.convolution(branch, width, 3, stride if number == len(sizes) else 1)
        ends.append(branch)
    pool = net.pool(at, "AVERAGE" if alone else "MAX", 3, stride)
    ends.append(net.convolution(pool, pooled) if pooled else pool)
    return net.join(ends)


def _cnn1(net: Builder) -> Graph:
    at = net.pool(net.convolution(net.input(224, 224, 3), 64, 7, 2), "MAX", 3, 2)
    at = net.convolution(net.convolution(at, 64), 192, 3)
    at = net.pool(at, "MAX", 3, 2)
    for widths in _MODULES:
        at = _module(net, at, widths)
    for _ in range(3):
        at = net.convolution(at, 1024)
    at = net.pool(at, "AVERAGE", 7, 7, padding="VALID")
    at = net.add("RESHAPE", (at,), (1, 1024))
    for width in (6144, 6144, 6144, 1000):
        at = net.dense(at, width)
        net.layers["fully_connected"] += 1
    return net.graph(at)


#: Networks by name: the graph, and the assumptions about its shape.
NETWORKS: dict[str, tuple[Callable[[Builder], Graph], str]] = {
    "MLP0": (lambda net: _perceptron(net, [2000] * 6), "five layers of 2000 × 2000"),
    "MLP1": (
        lambda net: _perceptron(net, [1200, 1200, 1200, 1200, 512]),
        "widths 1200, 1200, 1200, 512: 89 % of the multipliers useful, as in table 3",
    ),
    "LSTM0": (
        _lstm0,
        "24 cells of 512, ten with a residual sum, in whole tiles: table 3 has no unused ones",
    ),
    "LSTM1": (
        _lstm1,
        "19 cells of 600 with 18 products of 600 × 600 between them: the paper names this size; "
        "no two gates share a tile, so that 61 % of the multipliers are useful, as in table 3",
    ),
    "CNN0": (
        _cnn0,
        "19 × 19 positions (2888 = 8 × 361), 256 channels: one 5 × 5, thirteen 3 × 3, two 1 × 1",
    ),
    "CNN1": (
        _cnn1,
        "Inception V2 on 224 × 224 pixels, three 1 × 1 convolutions more, and four fully connected "
        "layers with the remaining weights: 1024, 6144, 6144, 6144, 1000",
    ),
}


def build(name: str) -> Made:
    """Return a network by name; takes up to a second."""
    net = Builder(name)
    graph = NETWORKS[name][0](net)
    return Made(graph, net.layers, net.weights)
