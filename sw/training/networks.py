"""Networks with convolutions that ``celosia train`` trains, with their shifts."""

from collections.abc import Mapping
from typing import Any

from celosia.sw.shipped import ByName
from celosia.sw.training.scheme import Conv, Dense, TrainableNetwork


def _pooled(side: int, inputs: int, outputs: int, kernel: int, **fields: Any) -> Conv:
    """Return a convolution of square images, and windows of two by two."""
    return Conv(
        height=side,
        width=side,
        inputs=inputs,
        outputs=outputs,
        kernel=kernel,
        pool=2,
        **fields,
    )


#: Epochs before which updates of networks with convolutions are halved.
_HALVINGS = (1, 2)

#: Networks by name.
NETWORKS: Mapping[str, TrainableNetwork] = ByName(
    (network.name, network)
    for network in (
        TrainableNetwork(
            name="mnist_cnn_5x5",
            text="conv 5x5x32 same, pool, conv 5x5x64 same, pool, 128, 10, ReLU, no biases",
            dataset="mnist",
            layers=(
                _pooled(28, 1, 32, 5, same=True, shift=10, update_shift=12, spread=24.0),
                _pooled(
                    14, 32, 64, 5, same=True, shift=9, error_shift=8, update_shift=10, spread=10.0
                ),
                Dense(inputs=3136, outputs=128, shift=8, error_shift=6, update_shift=7, spread=6.0),
                Dense(inputs=128, outputs=10, shift=8, error_shift=6, update_shift=6, spread=24.0),
            ),
            halvings=_HALVINGS,
        ),
        TrainableNetwork(
            name="fashion_cnn",
            text="conv 3x3x64, pool, ReLU, 10, no biases",
            dataset="fashion-mnist",
            layers=(
                _pooled(28, 1, 64, 3, shift=9, update_shift=15, spread=32.0),
                Dense(
                    inputs=10816, outputs=10, shift=11, error_shift=5, update_shift=5, spread=8.0
                ),
            ),
            halvings=_HALVINGS,
        ),
        TrainableNetwork(
            name="mnist_cnn_3x3",
            text="conv 3x3x32, pool, conv 3x3x64, pool, 128, 10, ReLU, no biases",
            dataset="mnist",
            layers=(
                _pooled(28, 1, 32, 3, shift=9, update_shift=12, spread=32.0),
                _pooled(13, 32, 64, 3, shift=8, error_shift=7, update_shift=10, spread=16.0),
                Dense(inputs=1600, outputs=128, shift=8, error_shift=6, update_shift=7, spread=8.0),
                Dense(inputs=128, outputs=10, shift=8, error_shift=6, update_shift=6, spread=24.0),
            ),
            halvings=_HALVINGS,
        ),
    )
)
