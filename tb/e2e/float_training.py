"""Float training of a network of ``celosia train``, as many epochs, to compare accuracy.

``python tb/e2e/float_training.py NETWORK [--rate R]`` trains with plain stochastic gradient descent
in float32, on the same images, batches and epochs with halved updates, and without biases, too.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from training_reference import patches

from celosia.sw import data
from celosia.sw.layers.weight_bytes import MOST
from celosia.sw.training import batches
from celosia.sw.training.epochs import Images, split
from celosia.sw.training.networks import NETWORKS
from celosia.sw.training.scheme import Conv, Dense, Layer, TrainableNetwork

#: Images of one forward pass.
_AT_ONCE = 200


class Mlp(NamedTuple):
    """Network without convolutions, with the fields of ``TrainableNetwork`` that are read here."""

    name: str = "mnist_mlp"
    dataset: str = "mnist"
    layers: tuple[Layer, ...] = tuple(
        Dense(inputs=inputs, outputs=outputs, shift=0, update_shift=0, spread=0.0)
        for inputs, outputs in ((784, 128), (128, 10))
    )
    batch: int = 32
    halvings: tuple[int, ...] = (5, 7)


MLP = Mlp()
Network = Mlp | TrainableNetwork


def convolved(layer: Conv, matrix: np.ndarray, images: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return what the weights multiply, results by window, and their maxima.

    Shapes ``(batch * pixels, rows)``, ``(batch, height, pool, width, pool, outputs)``, ``(batch,
    height, width, outputs)``.
    """
    (height, width), pool = layer.pooled, layer.pool
    images = images.reshape(-1, layer.height, layer.width, layer.inputs)
    found = patches(images, layer.kernel, layer.padding)[:, : height * pool, : width * pool]
    taps = found.reshape(-1, layer.rows)
    results = np.maximum(taps @ matrix, 0)
    results = results.reshape(len(images), height, pool, width, pool, layer.outputs)
    return taps, results, results.max((2, 4))


def forward(
    layers: Sequence[Layer], weights: list[np.ndarray], images: np.ndarray
) -> list[tuple[np.ndarray, ...]]:
    """Return, for each layer, what its weights multiply, and its results (by window, too)."""
    found, values = [], images
    for number, (layer, matrix) in enumerate(zip(layers, weights, strict=True)):
        if isinstance(layer, Conv):
            found.append(convolved(layer, matrix, values))
        else:
            source = values.reshape(len(images), -1)
            sums = source @ matrix
            found.append((source, sums if number == len(weights) - 1 else np.maximum(sums, 0)))
        values = found[-1][-1]
    return found


def before_maxima(error: np.ndarray, results: np.ndarray, maxima: np.ndarray) -> np.ndarray:
    """Return the errors of the results of a convolution, shape ``(batch * pixels, outputs)``."""
    batch, height, pool, width, _, outputs = results.shape
    chosen = (results == maxima[:, :, None, :, None]) & (results > 0)
    error = error.reshape(batch, height, 1, width, 1, outputs)
    return (error * chosen).reshape(-1, outputs)


def before_conv(layer: Conv, matrix: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return the errors of the inputs of a convolution, shape ``(batch, values)``."""
    kernel, least = layer.kernel, layer.kernel - 1 - layer.padding
    height, width = (each * layer.pool for each in layer.pooled)
    error = error.reshape(-1, height, width, layer.outputs)
    sides = layer.height + kernel - 1, layer.width + kernel - 1
    whole = np.zeros((len(error), *sides, layer.outputs), np.float32)
    whole[:, least : least + height, least : least + width] = error
    turned = matrix.reshape(kernel, kernel, layer.inputs, layer.outputs)[::-1, ::-1]
    turned = turned.transpose(0, 1, 3, 2).reshape(-1, layer.inputs)
    around = patches(whole, kernel, 0).reshape(-1, kernel**2 * layer.outputs)
    return (around @ turned).reshape(len(error), -1)


def step(
    layers: Sequence[Layer],
    weights: list[np.ndarray],
    images: np.ndarray,
    labels: np.ndarray,
    rate: float,
) -> None:
    """Change the weights by one step of gradient descent."""
    found = forward(layers, weights, images)
    logits = found[-1][-1]
    powers = np.exp(logits - logits.max(1, keepdims=True))
    error = powers / powers.sum(1, keepdims=True)
    error[np.arange(len(labels)), labels] -= 1
    for number in reversed(range(len(weights))):
        layer, (source, *results) = layers[number], found[number]
        if isinstance(layer, Conv):
            error = before_maxima(error, *results)
        elif number < len(weights) - 1:
            error = error * (results[0] > 0)
        gradient = source.T @ error / len(labels)
        if isinstance(layer, Conv):
            error = before_conv(layer, weights[number], error) if number else error
        else:
            error = error @ weights[number].T
        weights[number] -= np.float32(rate) * gradient


def share(layers: Sequence[Layer], weights: list[np.ndarray], images: Images) -> float:
    """Return the share of images that are right."""
    right = 0
    for first in range(0, len(images), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        logits = forward(layers, weights, scaled(images.images[some]))[-1][-1]
        right += int((logits.argmax(1) == images.labels[some]).sum())
    return right / len(images)


def scaled(images: np.ndarray) -> np.ndarray:
    return images.astype(np.float32) / MOST


def train(network: Network, dataset: str, epochs: int, rate: float, seed: int) -> float:
    """Train, print the accuracy of each epoch, and return that on the test images."""
    layers = network.layers
    images, labels = data.load(dataset, "train")
    training, validation = split(batches.pixels(images), labels, seed)
    images, labels = data.load(dataset, "test")
    test = Images(batches.pixels(images), labels)
    source = batches.generator(seed, batches.WEIGHTS)
    weights = [
        source.normal(0, (2 / x.rows) ** 0.5, (x.rows, x.outputs)).astype(np.float32)
        for x in network.layers
    ]
    best, found = 0.0, 0.0
    for epoch in range(epochs):
        now = rate / 2 ** sum(epoch >= first for first in network.halvings)
        shuffled = batches.order(seed, epoch, len(training))
        for first in range(0, len(training) - network.batch + 1, network.batch):
            chosen = shuffled[first : first + network.batch]
            some = scaled(training.images[chosen]), training.labels[chosen]
            step(layers, weights, *some, now)
        accuracy = share(layers, weights, validation)
        if accuracy > best:
            best, found = accuracy, share(layers, weights, test)
        print(f"epoch {epoch + 1}/{epochs}  validation {accuracy:.2%}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=[MLP.name, *NETWORKS])
    parser.add_argument("--dataset", choices=data.DATASETS)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    network = MLP if given.network == MLP.name else NETWORKS[given.network]
    dataset = given.dataset or network.dataset
    accuracy = train(network, dataset, given.epochs, given.rate, given.seed)
    print(f"rate {given.rate}: {accuracy:.2%} of the test images")


if __name__ == "__main__":
    main()
