"""Weights of a network: whole numbers on the host, two bytes in external memory."""

import numpy as np

from celosia.sw.driver.device import ExternalMemory
from celosia.sw.layers.weight_bytes import LOW_BITS, MOST, MOST_WEIGHT, high_bytes
from celosia.sw.training.batches import WEIGHTS, generator
from celosia.sw.training.scheme import TrainableNetwork
from celosia.sw.training.step.layout import Layout


def limited(weights: np.ndarray) -> np.ndarray:
    """Return whole numbers as weights, int32: those beyond the limits become the limits."""
    return np.clip(weights, -MOST_WEIGHT, MOST_WEIGHT - 1).astype(np.int32)


def random(network: TrainableNetwork, seed: int) -> list[np.ndarray]:
    """Return first weights: int32, shape ``(rows, outputs)`` for each layer."""
    source, limit = generator(seed, WEIGHTS), MOST << LOW_BITS
    matrices = []
    for layer in network.layers:
        drawn = source.normal(0, layer.spread, (layer.rows, layer.outputs))
        limited = np.clip(np.round(drawn * (1 << LOW_BITS)), -limit, limit)
        matrices.append(limited.astype(np.int32))
    return matrices


def _channels(layout: Layout, number: int) -> tuple[int, int]:
    """Return the channels whose rows follow one another in a layer's weights.

    Those of the network, and those in memory.
    """
    layers, first = layout.network.layers, layout.first
    if number < first:
        return layers[number].inputs, layout.convolutions[number].geometry.channels
    if number == first:
        return layers[number - 1].outputs, layout.outputs[number - 1]
    return layers[number].inputs, layout.inputs[number]


def write(layout: Layout, weights: list[np.ndarray], *devices: ExternalMemory) -> None:
    """Write the weights to the external memory of each device."""
    for number, values in enumerate(weights):
        channels, wide = _channels(layout, number)
        groups, columns = len(values) // channels, values.shape[1]
        padded = np.zeros((layout.inputs[number], layout.outputs[number]), np.int32)
        split = padded[: groups * wide].reshape(groups, wide, -1)
        split[:, :channels, :columns] = values.reshape(groups, channels, -1)
        high = high_bytes(padded).astype(np.int8)
        low = (padded - (high.astype(np.int32) << LOW_BITS)).astype(np.int8)
        for address, half in zip(layout.weights[number], (high, low), strict=True):
            blocks = half.reshape(len(half), -1, layout.size).transpose(1, 0, 2)
            packed = blocks.tobytes()
            for device in devices:
                device.write(address, packed)


def read(layout: Layout, device: ExternalMemory) -> list[np.ndarray]:
    """Return the weights in external memory, as ``random`` does."""
    matrices = []
    for number, layer in enumerate(layout.network.layers):
        shape = layout.outputs[number] // layout.size, layout.inputs[number], layout.size
        channels, wide = _channels(layout, number)
        groups = layer.rows // channels
        high, low = (
            np.frombuffer(device.read(address, int(np.prod(shape))), np.int8)
            .reshape(shape)
            .transpose(1, 0, 2)
            .reshape(shape[1], -1)[: groups * wide, : layer.outputs]
            .reshape(groups, wide, -1)[:, :channels]
            .reshape(layer.rows, -1)
            .astype(np.int32)
            for address in layout.weights[number]
        )
        matrices.append((high << LOW_BITS) + low)
    return matrices
