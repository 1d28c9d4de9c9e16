"""Float training of a network of ``celosia train``, for as many epochs: the accuracy to compare with.

``python tb/e2e/float_training.py NETWORK [--rate R]`` trains with plain stochastic gradient descent
in float32, on the same images, batches and epochs with halved updates, and without biases, too.
"""

import argparse

import numpy as np

from celosia.sw import data
from celosia.sw.training import batches
from celosia.sw.training.scheme import NETWORKS, ONE, Network
from celosia.sw.training.trainer import Images, split


def forward(weights: list[np.ndarray], images: np.ndarray) -> list[np.ndarray]:
    """Return images, activations, logits."""
    found = [images]
    for number, matrix in enumerate(weights):
        sums = found[-1] @ matrix
        found.append(sums if number == len(weights) - 1 else np.maximum(sums, 0))
    return found


def step(weights: list[np.ndarray], images: np.ndarray, labels: np.ndarray, rate: float) -> None:
    """Change the weights by one step of gradient descent."""
    found = forward(weights, images)
    powers = np.exp(found[-1] - found[-1].max(1, keepdims=True))
    error = powers / powers.sum(1, keepdims=True)
    error[np.arange(len(labels)), labels] -= 1
    for number in reversed(range(len(weights))):
        gradient = found[number].T @ error / len(labels)
        error = (error @ weights[number].T) * (found[number] > 0)
        weights[number] -= np.float32(rate) * gradient


def share(weights: list[np.ndarray], images: Images) -> float:
    """Return the share of images that are right."""
    logits = forward(weights, scaled(images.images))[-1]
    return float((logits.argmax(1) == images.labels).mean())


def scaled(images: np.ndarray) -> np.ndarray:
    return images.astype(np.float32) / ONE


def train(network: Network, dataset: str, epochs: int, rate: float, seed: int) -> float:
    """Train, print the accuracy of each epoch, and return that on the test images."""
    training, validation = split(*data.load(dataset, "train"), seed)
    images, labels = data.load(dataset, "test")
    test = Images(batches.pixels(images), labels)
    source = batches.generator(seed, batches.WEIGHTS)
    weights = [
        source.normal(0, (2 / x.inputs) ** 0.5, (x.inputs, x.outputs)).astype(np.float32)
        for x in network.layers
    ]
    best, found = 0.0, 0.0
    for epoch in range(epochs):
        now = rate / 2 ** sum(epoch >= first for first in network.halvings)
        shuffled = batches.order(seed, epoch, len(training))
        for first in range(0, len(training) - network.batch + 1, network.batch):
            chosen = shuffled[first : first + network.batch]
            step(weights, scaled(training.images[chosen]), training.labels[chosen], now)
        accuracy = share(weights, validation)
        if accuracy > best:
            best, found = accuracy, share(weights, test)
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
