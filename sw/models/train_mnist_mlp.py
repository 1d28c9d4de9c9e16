"""Trains and quantises the shipped MLP 784-128-10 on MNIST.

Needs the extra ``train``; run with ``python -m celosia.sw.models.train_mnist_mlp``. Writes
``mnist_mlp.tflite`` and ``mnist_mlp.json`` in the folder of this file.
"""

import argparse
from pathlib import Path
from typing import Any

from celosia.sw.models.training import Network, ship

_SETTINGS: dict[str, Any] = {
    "seed": 20,
    "epochs": 80,
    "batch": 128,
    "learning_rate": 2e-3,
    "hidden": 128,
    "dropout": 0.1,
    "label_smoothing": 0.05,
    "weight_decay": 1e-4,
    "shift_pixels": 1,
    "shift_share": 0.5,
    "average_momentum": 0.999,
    "calibration_images": 1000,
}

#: The network and the settings of its training.
NETWORK = Network(
    text="MLP 784-128-10, ReLU, int8",
    dataset="mnist",
    shape=(784,),
    layers=[
        ("Dense", {"units": _SETTINGS["hidden"], "activation": "relu"}),
        ("Dropout", {"rate": _SETTINGS["dropout"]}),
        ("Dense", {"units": 10}),
    ],
    settings=_SETTINGS,
)


def main() -> None:
    """Train, quantise, evaluate and write the model and its figures."""
    parser = argparse.ArgumentParser(description="Train and quantise the MNIST MLP 784-128-10.")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent)
    ship("mnist_mlp", NETWORK, parser.parse_args().folder)


if __name__ == "__main__":
    main()
