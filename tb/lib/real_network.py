"""Outputs of float networks in NumPy: what a network of integers is compared with."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from celosia.sw.ir.graph import Graph, Operation

_ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "NONE": lambda x: x,
    "RELU": lambda x: np.maximum(x, 0),
    "RELU6": lambda x: np.clip(x, 0, 6),
}


def _windows(x: np.ndarray, kernel: tuple[int, ...], fields: dict[str, Any]) -> np.ndarray:
    """Return the windows of images, shape ``(batch, rows, columns, channels, *kernel)``."""
    if fields["padding"] == "SAME":
        extents = zip(x.shape[1:3], kernel, fields["stride"], strict=True)
        missing = [max((math.ceil(n / s) - 1) * s + k - n, 0) for n, k, s in extents]
        x = np.pad(x, [(0, 0), *((n // 2, n - n // 2) for n in missing), (0, 0)])
    if "before" in fields:
        x = np.pad(x, [(0, 0), *zip(fields["before"], fields["after"], strict=True), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel, (1, 2))
    return windows[:, :: fields["stride"][0], :: fields["stride"][1]]


def _result(operation: Operation, arrays: list[np.ndarray]) -> np.ndarray:
    """Return the result of an operation without its activation."""
    fields, x = operation.attributes, arrays[0]
    match operation.kind:
        case "FULLY_CONNECTED":
            return x.reshape(len(x), -1) @ arrays[1].T + sum(arrays[2:])
        case "CONV_2D":
            windows = _windows(x, arrays[1].shape[1:3], fields)
            return np.einsum("nyxcij,oijc->nyxo", windows, arrays[1]) + sum(arrays[2:])
        case "DEPTHWISE_CONV_2D":
            windows = _windows(x, arrays[1].shape[1:3], fields)
            windows = windows.repeat(fields["depth_multiplier"], axis=3)
            return np.einsum("nyxoij,ijo->nyxo", windows, arrays[1][0]) + sum(arrays[2:])
        case "MAX_POOL_2D":
            return _windows(x, fields["window"], fields).max((4, 5))
        case "AVERAGE_POOL_2D":
            return _windows(x, fields["window"], fields).mean((4, 5))
        case "MEAN":
            return x.mean((1, 2))
        case "PAD":
            return np.pad(x, [*zip(fields["before"], fields["after"], strict=True)])
        case "ADD":
            return arrays[0] + arrays[1]
        case "CONCATENATION":
            return np.concatenate(arrays, fields["axis"])
        case "RESHAPE":
            return x.reshape(len(x), -1)
    return _ACTIVATIONS[operation.kind](x)


def real_outputs(graph: Graph, images: np.ndarray) -> np.ndarray:
    """Return the outputs of a network; ``images``: real numbers, batch first."""
    values = {n: tensor.data for n, tensor in enumerate(graph.tensors)}
    values[graph.inputs[0]] = images
    for operation in graph.operations:
        arrays = [values[n] for n in operation.inputs if n != -1]
        y = _result(operation, [array.astype(np.float64) for array in arrays if array is not None])
        values[operation.outputs[0]] = _ACTIVATIONS[operation.attributes.get("activation", "NONE")](
            y
        )
    outputs = values[graph.outputs[0]]
    assert outputs is not None
    return outputs
