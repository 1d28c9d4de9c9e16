"""Float training of a network of ``celosia train``, as many epochs, to compare accuracy.

``python tb/e2e/float_training.py NETWORK [--rate R]`` trains with plain stochastic gradient descent
in float32, on the same images, batches and epochs with halved updates, and without biases, too.
"""

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from celosia.sw import data
from celosia.sw.layers.step import IMAGE_EXPONENT
from celosia.sw.layers.weight_bytes import MOST
from celosia.sw.training import batches
from celosia.sw.training.epochs import Images, split
from celosia.sw.training.origin import integers

#: Images of a step.
BATCH = 32
#: Images of one forward pass.
_AT_ONCE = 200


class Dense(NamedTuple):
    """A matrix product; ReLU follows but for the last layer."""

    rows: int
    outputs: int


class Conv(NamedTuple):
    """A convolution of square images, ReLU, and the maxima of windows of two by two."""

    side: int
    inputs: int
    outputs: int
    kernel: int
    padding: int = 0
    pool: int = 2

    @property
    def pooled(self) -> int:
        """Rows and columns of the results."""
        return (self.side - self.kernel + 1 + 2 * self.padding) // self.pool

    @property
    def rows(self) -> int:
        """Rows of the matrix of weights."""
        return self.kernel**2 * self.inputs


Layer = Dense | Conv


class Network(NamedTuple):
    """Layers; updates are halved before some epochs, counted from 0."""

    dataset: str
    layers: tuple[Layer, ...]
    halvings: tuple[int, ...] = (1, 2)


NETWORKS = {
    "mnist_mlp": Network("mnist", (Dense(784, 128), Dense(128, 10)), (5, 7)),
    "mnist_cnn_5x5": Network(
        "mnist",
        (Conv(28, 1, 32, 5, 2), Conv(14, 32, 64, 5, 2), Dense(3136, 128), Dense(128, 10)),
    ),
    "mnist_cnn_3x3": Network(
        "mnist", (Conv(28, 1, 32, 3), Conv(13, 32, 64, 3), Dense(1600, 128), Dense(128, 10))
    ),
    "fashion_cnn": Network("fashion-mnist", (Conv(28, 1, 64, 3), Dense(10816, 10))),
}


def patches(images: np.ndarray, kernel: int, padding: int) -> np.ndarray:
    """Return the pixels under the kernel: ``(batch, height, width, kernel, kernel, channels)``."""
    padded = np.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (1, 2))
    return windows.transpose(0, 1, 2, 4, 5, 3)


def convolved(layer: Conv, matrix: np.ndarray, images: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return what the weights multiply, results by window, and their maxima.

    Shapes ``(batch * pixels, rows)``, ``(batch, height, pool, width, pool, outputs)``, ``(batch,
    height, width, outputs)``.
    """
    height = width = layer.pooled
    pool = layer.pool
    images = images.reshape(-1, layer.side, layer.side, layer.inputs)
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
    height = width = layer.pooled * layer.pool
    error = error.reshape(-1, height, width, layer.outputs)
    side = layer.side + kernel - 1
    padded = np.zeros((len(error), side, side, layer.outputs), np.float32)
    padded[:, least : least + height, least : least + width] = error
    turned = matrix.reshape(kernel, kernel, layer.inputs, layer.outputs)[::-1, ::-1]
    turned = turned.transpose(0, 1, 3, 2).reshape(-1, layer.inputs)
    around = patches(padded, kernel, 0).reshape(-1, kernel**2 * layer.outputs)
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


def pixels(images: np.ndarray) -> np.ndarray:
    """Return images of bytes as a step takes them: int8 of 0 to 127, shape ``(N, pixels)``."""
    return integers(images.reshape(len(images), -1) / np.float32(255), IMAGE_EXPONENT)


def scaled(images: np.ndarray) -> np.ndarray:
    return images.astype(np.float32) / MOST


def train(network: Network, dataset: str, epochs: int, rate: float, seed: int) -> float:
    """Train, print the accuracy of each epoch, and return that on the test images."""
    layers = network.layers
    images, labels = data.load(dataset, "train")
    training, validation = split(pixels(images), labels, seed)
    images, labels = data.load(dataset, "test")
    test = Images(pixels(images), labels)
    source = batches.generator(seed, batches.WEIGHTS)
    weights = [
        source.normal(0, (2 / x.rows) ** 0.5, (x.rows, x.outputs)).astype(np.float32)
        for x in network.layers
    ]
    best, found = 0.0, 0.0
    for epoch in range(epochs):
        now = rate / 2 ** sum(epoch >= first for first in network.halvings)
        shuffled = batches.order(seed, epoch, len(training))
        for first in range(0, len(training) - BATCH + 1, BATCH):
            chosen = shuffled[first : first + BATCH]
            some = scaled(training.images[chosen]), training.labels[chosen]
            step(layers, weights, *some, now)
        accuracy = share(layers, weights, validation)
        if accuracy > best:
            best, found = accuracy, share(layers, weights, test)
        print(f"epoch {epoch + 1}/{epochs}  validation {accuracy:.2%}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--dataset", choices=data.DATASETS)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    network = NETWORKS[given.network]
    dataset = given.dataset or network.dataset
    accuracy = train(network, dataset, given.epochs, given.rate, given.seed)
    print(f"rate {given.rate}: {accuracy:.2%} of the test images")


if __name__ == "__main__":
    main()
