"""Readers of operators on two inputs, and of those between integers and floating point."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tflite

from celosia.sw.frontend.checks import (
    ModelError,
    Node,
    want_activation,
    want_int8,
    want_quantized,
    want_shape,
)

__all__ = ["ARITHMETIC"]


def _binary(table: type) -> Callable[[Node], dict[str, Any]]:
    def read(node: Node) -> dict[str, Any]:
        node.want_places(least=2, most=2)
        source, result = node.activations()
        second = want_int8(node.tensor(1))
        if source.data is not None and second.data is not None:
            raise ModelError("wanted an input that is computed, got two constants")
        try:
            shape = np.broadcast_shapes(source.shape, second.shape)
        except ValueError:
            got = f"{source.shape} and {second.shape}"
            raise ModelError(f"wanted two inputs of one shape, got {got}") from None
        want_shape(result, shape)
        options = node.options(table)
        activation = want_activation(options.FusedActivationFunction() if options else 0)
        return {"activation": activation}

    return read


def _quantize(node: Node) -> dict[str, Any]:
    node.want_places(least=1, most=1)
    source, result = node.tensor(0), want_quantized(node.outputs[0])
    if source.dtype != np.float32:
        want_quantized(source)
    want_shape(result, source.shape)
    return {}


def _dequantize(node: Node) -> dict[str, Any]:
    node.want_places(least=1, most=1)
    source, (result,) = want_quantized(node.tensor(0)), node.outputs
    if result.dtype != np.float32:
        raise ModelError(f"wanted a float32 result, got {result.dtype.name}")
    want_shape(result, source.shape)
    return {}


#: Operator to the function that checks it and returns its attributes.
ARITHMETIC: dict[str, Callable[[Node], dict[str, Any]]] = {
    "ADD": _binary(tflite.AddOptions),
    "DEQUANTIZE": _dequantize,
    "MUL": _binary(tflite.MulOptions),
    "QUANTIZE": _quantize,
    "SUB": _binary(tflite.SubOptions),
}
