"""Readers of operators on two inputs, and of those between integers and floating point."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tflite

from celosia.sw.frontend.checks import (
    ModelError,
    Node,
    want_activation,
    want_equal_quantization,
    want_int8,
    want_quantized,
    want_shape,
)
from celosia.sw.ir.graph import Tensor

__all__ = ["ARITHMETIC", "uniform"]


def _pair(node: Node) -> tuple[Tensor, Tensor]:
    """Return two inputs that broadcast to the result."""
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
    return source, second


def _binary(table: type) -> Callable[[Node], dict[str, Any]]:
    def read(node: Node) -> dict[str, Any]:
        source, second = _pair(node)
        options = node.options(table)
        activation = want_activation(options.FusedActivationFunction() if options else 0)
        return {"activation": activation, **uniform(source, second)}

    return read


def _chosen(node: Node) -> dict[str, Any]:
    """Read MAXIMUM or MINIMUM, whose kernels compare integers."""
    for source in _pair(node):
        want_equal_quantization(source, node.outputs[0])
    return {}


def _arg_max(node: Node) -> dict[str, Any]:
    node.want_places(least=2, most=2)
    source, (result,) = want_int8(node.tensor(0)), node.outputs
    given = node.constant(1, (np.int32, np.int64), "axis").reshape(-1).tolist()
    rank = len(source.shape)
    if len(given) != 1 or not -rank <= given[0] < rank:
        raise ModelError(f"wanted an axis from {-rank} to {rank - 1}, got {given}")
    axis = given[0] % rank
    if result.dtype not in (np.int32, np.int64):
        raise ModelError(f"wanted an int32 or int64 result, got {result.dtype.name}")
    want_shape(result, [*source.shape[:axis], *source.shape[axis + 1 :]])
    return {"axis": axis}


def uniform(first: Tensor, second: Tensor) -> dict[str, Any]:
    """Return the attributes of an operator whose second input is one number for all elements.

    Returns
    -------
    dict
        ``constant``, less its zero point, and ``constant_scale``; nothing where the second input is
        no such constant, or would make the result larger than the first one.
    """
    if second.data is None or first.data is not None or second.quantization is None:
        return {}
    values = np.unique(second.data)
    larger = np.broadcast_shapes(first.shape, second.shape) != first.shape
    if values.size != 1 or larger:
        return {}
    constant = int(values[0]) - second.quantization.zero_point
    return {"constant": constant, "constant_scale": second.quantization.scale}


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
    "ARG_MAX": _arg_max,
    "DEQUANTIZE": _dequantize,
    "MAXIMUM": _chosen,
    "MINIMUM": _chosen,
    "MUL": _binary(tflite.MulOptions),
    "QUANTIZE": _quantize,
    "SUB": _binary(tflite.SubOptions),
}
