"""Writes ``.tflite`` files: small networks with known numbers, to compare executors with."""

from collections.abc import Sequence
from typing import Any

from celosia.sw.export import tflite
from celosia.sw.export.tflite import *
from networks import chain, changes, layers, moves, weights
from networks.chain import *
from networks.changes import *
from networks.layers import *
from networks.moves import *
from networks.weights import *

__all__ = ["sequential", "write_fully_connected", "write_sequential"]
__all__ += chain.__all__
__all__ += changes.__all__
__all__ += tflite.__all__
__all__ += layers.__all__
__all__ += moves.__all__
__all__ += weights.__all__


def sequential(
    layers: Sequence[Layer],
    *,
    input_shape: Sequence[int],
    input_scale: float,
    input_zero_point: int = 0,
    input_type: str = "int8",
) -> Graph:
    """Return the graph of consecutive operators; after ``Back`` the input is an earlier result.

    The graph's outputs are the results that no operator reads. Names of tensors are those of
    ``Chain``.
    """
    chain = Chain(input_shape, input_scale, input_zero_point, input_type)
    for layer in layers:
        layer.add(chain)
    return chain.graph()


def write_sequential(layers: Sequence[Layer], **ends: Any) -> bytes:
    """Return the ``.tflite`` file of consecutive operators: see ``sequential``."""
    return serialize(sequential(layers, **ends))


def write_fully_connected(
    layers: Sequence[FullyConnected],
    *,
    input_scale: float,
    input_zero_point: int = 0,
    batch: int = 1,
) -> bytes:
    """Return the ``.tflite`` file of consecutive FULLY_CONNECTED operators."""
    shape = (batch, layers[0].weights.shape[1])
    given = {"input_scale": input_scale, "input_zero_point": input_zero_point}
    return write_sequential(layers, input_shape=shape, **given)
