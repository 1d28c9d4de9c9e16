"""Trains and quantises the shipped networks on MNIST and Fashion-MNIST.

Needs the extra ``train`` of ``celosia-examples``; run with
``python -m celosia_examples.training.train [NAME ...]``. Writes ``NAME.tflite`` and ``NAME.json``.
An hour of one core in all.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from celosia.sw.shipped import ALIASES, ByName
from celosia_examples.training.recipe import Network, ship
from celosia_examples.training.transformer import vision_transformer

Layer = tuple[str, Mapping[str, Any]]

_POOL: Layer = ("MaxPooling2D", {"pool_size": 2})
_FLATTEN: Layer = ("Flatten", {})
_SOFTMAX: Layer = ("Softmax", {})


def _conv(filters: int, kernel: int, padding: str, activation: str | None = "relu") -> Layer:
    settings = {"filters": filters, "kernel_size": kernel, "padding": padding}
    return "Conv2D", {**settings, "activation": activation, "kernel_initializer": "he_normal"}


def _normalised(filters: int) -> list[Layer]:
    """Return a 3x3 convolution whose normalisation the converter folds into its weights."""
    settings = {"filters": filters, "kernel_size": 3, "padding": "same", "use_bias": False}
    return [("Conv2D", settings), ("BatchNormalization", {}), ("ReLU", {})]


def _dense(units: int, activation: str | None = None) -> Layer:
    return "Dense", {"units": units, "activation": activation}


def _dropout(rate: float) -> Layer:
    return "Dropout", {"rate": rate}


def _vision_transformer(dataset: str, **settings: Any) -> Network:
    return Network(
        text="vision transformer: patches 4x4, 3 blocks of 64 channels, 2 heads, 128 GELU, int8",
        dataset=dataset,
        layers=vision_transformer(patch=4, width=64, heads=2, hidden=128, blocks=3),
        settings=_settings(
            batch=64,
            learning_rate=3e-3,
            warmup_steps=500,
            weight_decay=0.05,
            shift_pixels=1,
            **settings,
        ),
    )


def _settings(**settings: Any) -> dict[str, Any]:
    return {
        "batch": 128,
        "learning_rate": 1e-3,
        "label_smoothing": 0.05,
        "weight_decay": 1e-4,
        "shift_pixels": 2,
        "shift_share": 0.5,
        "average_momentum": 0.999,
        "calibration_images": 1000,
        **settings,
    }


#: The networks by name, in the order of the time that they take.
NETWORKS: Mapping[str, Network] = ByName(
    {
        "mnist_mlp": Network(
            text="MLP 784-128-10, ReLU, int8",
            dataset="mnist",
            shape=(784,),
            layers=[_dense(128, "relu"), _dropout(0.1), _dense(10)],
            settings=_settings(
                seed=20, epochs=80, learning_rate=2e-3, hidden=128, dropout=0.1, shift_pixels=1
            ),
        ),
        "mnist_cnn_3x3": Network(
            text="conv 3x3x32 ReLU, pool, conv 3x3x64 ReLU, pool, 128 ReLU, 10, softmax, int8",
            dataset="mnist",
            layers=[
                _conv(32, 3, "valid"),
                _POOL,
                _conv(64, 3, "valid"),
                _POOL,
                _FLATTEN,
                _dense(128, "relu"),
                _dropout(0.5),
                _dense(10),
                _SOFTMAX,
            ],
            settings=_settings(seed=23, epochs=25),
        ),
        "fashion_cnn": Network(
            text="conv 3x3x64, pool, ReLU, 10, softmax, int8",
            dataset="fashion-mnist",
            layers=[
                _conv(64, 3, "valid", None),
                _POOL,
                ("ReLU", {}),
                _FLATTEN,
                _dense(10),
                _SOFTMAX,
            ],
            settings=_settings(seed=22, epochs=20, shift_pixels=1),
        ),
        "mnist_cnn_5x5": Network(
            text="conv 5x5x32 same ReLU, pool, conv 5x5x64 same ReLU, pool, 128 ReLU, 10, int8",
            dataset="mnist",
            layers=[
                _conv(32, 5, "same"),
                _POOL,
                _conv(64, 5, "same"),
                _POOL,
                _FLATTEN,
                _dense(128, "relu"),
                _dropout(0.4),
                _dense(10),
            ],
            settings=_settings(seed=21, epochs=18),
        ),
        "mnist_cnn_deep": Network(
            text="4 conv 3x3x16 same ReLU, pool, 4 conv 3x3x32 same ReLU, global average, 10, int8",
            dataset="mnist",
            layers=[
                *_normalised(16) * 4,
                _POOL,
                *[*_normalised(32), _dropout(0.1)] * 4,
                ("GlobalAveragePooling2D", {}),
                _dense(10),
            ],
            settings=_settings(seed=24, epochs=10, learning_rate=3e-3),
        ),
        "mnist_vit": _vision_transformer("mnist", seed=25, epochs=14),
        "fashion_vit": _vision_transformer("fashion-mnist", seed=26, epochs=10),
    }
)


def main() -> None:
    """Train, quantise, evaluate and write the networks named, or all."""
    parser = argparse.ArgumentParser(description="Train and quantise the shipped networks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETWORKS))
    parser.add_argument("--folder", type=Path, default=Path(), help="to write to (.)")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in NETWORKS:
            parser.error(f"wanted names of {', '.join(NETWORKS)}, got {name!r}")
    for name in arguments.names or NETWORKS:
        ship(ALIASES.get(name, name), NETWORKS[name], arguments.folder)


if __name__ == "__main__":
    main()
