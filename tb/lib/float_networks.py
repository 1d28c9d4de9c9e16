"""Small float networks to train: graphs with random weights, and images of four classes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from celosia.sw.ir.graph import Graph, Operation, Tensor
from celosia.sw.training import batches
from celosia.sw.training.learner import Learner
from celosia.sw.training.state import State

#: Images of a step.
BATCH = 4


class Layers:
    """A float network under construction, layer by layer, on a batch of 1."""

    def __init__(self, shape: tuple[int, ...], seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.tensors = [Tensor("images", (1, *shape), np.dtype(np.float32))]
        self.operations: list[Operation] = []
        self.last = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensors[self.last].shape

    def constant(self, *shape: int) -> int:
        data = self.rng.normal(0, 0.2, shape).astype(np.float32)
        self.tensors.append(Tensor("weights", shape, data.dtype, data=data))
        return len(self.tensors) - 1

    def add(self, kind: str, inputs: list[int], shape: tuple[int, ...], **fields: Any) -> int:
        self.tensors.append(Tensor(f"{kind}_{len(self.operations)}", shape, np.dtype(np.float32)))
        self.last = len(self.tensors) - 1
        place = len(self.operations)
        self.operations.append(Operation(kind, place, tuple(inputs), (self.last,), fields))
        return self.last

    def dense(self, outputs: int, activation: str = "NONE", *, bias: bool = True) -> int:
        inputs = [self.last, self.constant(outputs, int(np.prod(self.shape[1:])))]
        inputs += [self.constant(outputs)] if bias else []
        return self.add("FULLY_CONNECTED", inputs, (1, outputs), activation=activation)

    def conv(
        self,
        outputs: int,
        kernel: tuple[int, int] = (3, 3),
        stride: tuple[int, int] = (1, 1),
        padding: str = "SAME",
        activation: str = "RELU",
        *,
        bias: bool = True,
        depthwise: bool = False,
    ) -> int:
        _, height, width, channels = self.shape
        spans = [
            -(-n // s) if padding == "SAME" else (n - k) // s + 1
            for n, s, k in zip((height, width), stride, kernel, strict=True)
        ]
        fields: dict[str, Any] = {"dilation": (1, 1), "stride": stride, "padding": padding}
        kind, weights = "CONV_2D", (outputs, *kernel, channels)
        if depthwise:
            kind, weights = "DEPTHWISE_CONV_2D", (1, *kernel, outputs)
            fields["depth_multiplier"] = outputs // channels
        inputs = [self.last, self.constant(*weights)] + ([self.constant(outputs)] if bias else [])
        return self.add(kind, inputs, (1, *spans, outputs), activation=activation, **fields)

    def pool(self, kind: str, *window: int) -> int:
        _, height, width, channels = self.shape
        shape = (1, height // window[0], width // window[1], channels)
        fields = {"window": window, "stride": window, "padding": "VALID", "activation": "NONE"}
        return self.add(kind, [self.last], shape, **fields)

    def flat(self) -> int:
        return self.add("RESHAPE", [self.last], (1, int(np.prod(self.shape))))

    def graph(self) -> Graph:
        return Graph("small", tuple(self.tensors), tuple(self.operations), (0,), (self.last,))


def _dense(layers: Layers) -> None:
    layers.dense(7, "RELU")
    layers.dense(9, "RELU6", bias=False)


def _conv(kernel: tuple[int, int], stride: tuple[int, int], padding: str) -> Callable:
    def add(layers: Layers) -> None:
        layers.conv(4, kernel, stride, padding)
        layers.conv(5, kernel, (1, 1), padding, "NONE", bias=False)

    return add


def _depthwise(layers: Layers) -> None:
    layers.conv(6, depthwise=True, padding="VALID")
    layers.conv(6, (1, 1), activation="RELU6")
    layers.conv(12, (3, 2), (2, 2), depthwise=True)


def _pools(kind: str) -> Callable:
    def add(layers: Layers) -> None:
        layers.conv(3, activation="NONE")
        layers.pool(kind, 2, 2)
        layers.conv(3)
        layers.pool(kind, 1, 3)

    return add


def _mean(layers: Layers) -> None:
    layers.conv(5)
    layers.add("MEAN", [layers.last], (1, 5), axes=(1, 2), keepdims=False)


def _padded(layers: Layers) -> None:
    """Add zeros before the first pixel that do not follow the stride, as PyTorch does."""
    layers.conv(4)
    layers.conv(5, stride=(2, 2), activation="NONE")
    fields = {"padding": "VALID", "before": (1, 1), "after": (1, 0)}
    layers.operations[-1].attributes.update(fields)


def _margins(layers: Layers) -> None:
    layers.conv(4)
    shape, fields = layers.shape, {"before": (0, 1, 2, 0), "after": (0, 0, 1, 0), "value": 0.0}
    layers.add("PAD", [layers.last], (1, shape[1] + 1, shape[2] + 3, 4), **fields)
    layers.pool("MAX_POOL_2D", 2, 2)


def _overlapping(layers: Layers) -> None:
    layers.conv(4)
    fields = {"window": (3, 3), "stride": (2, 2), "padding": "SAME", "activation": "NONE"}
    layers.add("MAX_POOL_2D", [layers.last], (1, 4, 3, 4), **fields)
    layers.conv(5, activation="NONE")
    fields = {"window": (2, 3), "stride": (1, 2), "padding": "VALID", "activation": "NONE"}
    layers.add("MAX_POOL_2D", [layers.last], (1, 3, 1, 5), **fields)


def _branches(layers: Layers) -> None:
    first = layers.conv(4)
    second = layers.conv(4, (1, 1), activation="NONE")
    shape = layers.shape
    third = layers.add("ADD", [first, second], shape, activation="RELU")
    layers.add("RELU6", [layers.conv(4, activation="NONE")], shape)
    layers.add("CONCATENATION", [layers.last, third, first], (*shape[:3], 12), axis=3)
    layers.conv(2, activation="NONE")


NETWORKS: dict[str, Callable[[Layers], None]] = {
    "dense": _dense,
    "conv": _conv((3, 3), (1, 1), "SAME"),
    "conv-valid": _conv((2, 3), (1, 1), "VALID"),
    "conv-stride": _conv((3, 3), (2, 2), "SAME"),
    "conv-stride-valid": _conv((1, 2), (2, 1), "VALID"),
    "depthwise": _depthwise,
    "maximum": _pools("MAX_POOL_2D"),
    "average": _pools("AVERAGE_POOL_2D"),
    "mean": _mean,
    "branches": _branches,
    "padded": _padded,
    "margins": _margins,
    "overlapping": _overlapping,
}


def network(name: str, seed: int) -> Graph:
    layers = Layers((7, 6, 2), seed)
    NETWORKS[name](layers)
    if len(layers.shape) > 2:
        layers.flat()
    layers.dense(4)
    return layers.graph()


def with_large_logits(graph: Graph) -> Graph:
    """Return a network whose logits are 16 times as large."""
    last = graph.operations[-1].inputs[1:]
    tensors = (
        replace(tensor, data=16 * tensor.data)
        if number in last and tensor.data is not None
        else tensor
        for number, tensor in enumerate(graph.tensors)
    )
    return replace(graph, tensors=tuple(tensors))


def samples(graph: Graph, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images of four classes, which a pattern and noise make, and their classes."""
    rng = np.random.default_rng(seed)
    shape = graph.tensors[graph.inputs[0]].shape[1:]
    patterns, labels = rng.integers(0, 128, (4, *shape)), rng.integers(0, 4, count)
    noisy = patterns[labels] + rng.normal(0, 24, (count, *shape))
    return np.clip(noisy, 0, 127).astype(np.int8), labels


def learner(graph: Graph, seed: int, **options: Any) -> Learner:
    """Return what trains a network."""
    return Learner(graph, batch=BATCH, seed=seed, exponent=-7, **options)


def train(trainer: Learner, images: np.ndarray, labels: np.ndarray, steps: int = 60) -> None:
    """Train a network from its first weights; the host has the last ones."""
    trainer.start(State(weights=[]), images, labels)
    for step in range(steps):
        chosen = batches.order(1, step, len(labels))[:16]
        trainer.train(step, images[chosen], labels[chosen], steps, [(0, step)])
    assert trainer.carrier
    trainer.host.weights = trainer.carrier.weights
