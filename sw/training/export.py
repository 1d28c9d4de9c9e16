"""Trained networks as int8 ``.tflite`` files."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from celosia.sw.export.tflite import Graph, Operation, Quantization, Tensor, serialize
from celosia.sw.layers.weight_bytes import MOST, high_bytes
from celosia.sw.training.scheme import Conv, Dense, TrainableNetwork

#: Scale of the first weights: a power of two, as those of all others then are, too.
_WEIGHT_SCALE = 2.0**-8


def tflite_of(network: TrainableNetwork, weights: Sequence[np.ndarray]) -> bytes:
    """Return the file of a network: int8 images of 0 to MOST in, logits out.

    All scales are that of the images times powers of two, so that the kernels of LiteRT divide sums
    by the same powers of two as the training did.
    """
    layers = _Layers(image_shape(network), float(np.float32(1 / MOST)))
    for number, (layer, values) in enumerate(zip(network.layers, weights, strict=True)):
        highs = high_bytes(values).astype(np.int8)
        if isinstance(layer, Conv):
            layers.conv(f"conv_{number}", layer, highs)
        else:
            final = number == len(network.layers) - 1
            layers.dense(f"dense_{number}", layer, highs, relu=not final)
    return layers.finish(network.name)


def image_shape(network: TrainableNetwork) -> tuple[int, ...]:
    """Return the shape of an image."""
    first = network.convs[0]
    return first.height, first.width, first.inputs


class _Layers:
    """A network under construction, layer by layer.

    ``shape``, ``scale``: of the images, without the batch; then of the last result.
    """

    def __init__(self, shape: tuple[int, ...], scale: float) -> None:
        self.shape, self.scale = shape, scale
        self.tensors: list[Tensor] = []
        self.operations: list[Operation] = []
        self.last = self._tensor("images", (1, *shape), scale)

    def _tensor(
        self, name: str, shape: tuple[int, ...], scale: float, data: np.ndarray | None = None
    ) -> int:
        """Add a tensor with zero point 0, int8 unless it has contents; return its number.

        ``scale``: 0 if it has none.
        """
        dtype = np.dtype(np.int8) if data is None else data.dtype
        quantization = Quantization(np.array([scale]), np.array([0])) if scale else None
        self.tensors.append(Tensor(name, shape, dtype, quantization, data))
        return len(self.tensors) - 1

    def _operator(
        self, kind: str, inputs: list[int], shape: tuple[int, ...], name: str, **options: Any
    ) -> None:
        """Add an operator of the last result and other tensors; ``shape``: of its result."""
        source, self.shape = self.last, shape
        self.last = self._tensor(name, (1, *shape), self.scale)
        self.operations.append(Operation(kind, (source, *inputs), (self.last,), options))

    def conv(self, name: str, layer: Conv, values: np.ndarray) -> None:
        """Add CONV_2D with ReLU, and MAX_POOL_2D; ``values``: int8, as in the training."""
        kernel, pool = layer.kernel, layer.pool
        filters = values.reshape(kernel, kernel, layer.inputs, -1).transpose(3, 0, 1, 2)
        # The kernel of LiteRT wants a bias.
        nothing = np.zeros(layer.outputs, np.int32)
        bias = self._tensor(f"{name}/bias", nothing.shape, self.scale * _WEIGHT_SCALE, nothing)
        self.scale *= _WEIGHT_SCALE * 2.0**layer.shift
        weights = self._tensor(f"{name}/weights", filters.shape, _WEIGHT_SCALE, filters)
        less = kernel - 1 - 2 * layer.padding
        shape = (layer.height - less, layer.width - less, layer.outputs)
        padding = "SAME" if layer.same else "VALID"
        options = {
            "strideH": 1,
            "strideW": 1,
            "padding": padding,
            "fusedActivationFunction": "RELU",
        }
        self._operator("CONV_2D", [weights, bias], shape, name, **options)
        if pool > 1:
            steps = {"strideH": pool, "strideW": pool, "padding": "VALID"}
            window = {"filterHeight": pool, "filterWidth": pool}
            shape = (*layer.pooled, layer.outputs)
            self._operator("MAX_POOL_2D", [], shape, f"{name}/pool", **steps, **window)

    def dense(self, name: str, layer: Dense, values: np.ndarray, *, relu: bool) -> None:
        """Add FULLY_CONNECTED without bias; ``values``: int8, as in the training."""
        if len(self.shape) > 1:
            flat = np.array([-1, layer.inputs], np.int32)
            shape = self._tensor(f"{name}/shape", (2,), 0, flat)
            self._operator("RESHAPE", [shape], (layer.inputs,), f"{name}/flat")
        self.scale *= _WEIGHT_SCALE * 2.0**layer.shift
        weights = self._tensor(f"{name}/weights", values.T.shape, _WEIGHT_SCALE, values.T)
        options = {"fusedActivationFunction": "RELU" if relu else "NONE"}
        self._operator("FULLY_CONNECTED", [weights, -1], (layer.outputs,), name, **options)

    def finish(self, name: str) -> bytes:
        """Return the file."""
        ends = (0,), (self.last,)
        return serialize(Graph(tuple(self.tensors), tuple(self.operations), *ends, name))
