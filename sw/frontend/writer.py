"""Writes ``.tflite`` files: small networks with known numbers, to hold executors against."""

from collections.abc import Sequence

from celosia.sw.frontend.binary import Add, Binary
from celosia.sw.frontend.blockers import (
    ArgMax,
    BatchToSpace,
    DepthToSpace,
    SpaceToBatch,
    SpaceToDepth,
    SplitSizes,
)
from celosia.sw.frontend.chain import Chain
from celosia.sw.frontend.elementwise import Prelu
from celosia.sw.frontend.kernels import Convolution, Depthwise, FullyConnected
from celosia.sw.frontend.layers import (
    Activation,
    Back,
    Dequantize,
    Layer,
    Mean,
    Pad,
    Pool,
    Quantize,
    Reshape,
    Softmax,
)
from celosia.sw.frontend.movers import (
    Concatenate,
    ExpandDims,
    Pack,
    Split,
    Squeeze,
    StridedSlice,
    Transpose,
    Unpack,
)
from celosia.sw.frontend.resizers import Resize, TransposedConvolution
from celosia.sw.frontend.serialize import serialize
from celosia.sw.ir.graph import Graph

__all__ = [
    "Activation",
    "Add",
    "ArgMax",
    "Back",
    "BatchToSpace",
    "Binary",
    "Concatenate",
    "Convolution",
    "DepthToSpace",
    "Depthwise",
    "Dequantize",
    "ExpandDims",
    "FullyConnected",
    "Layer",
    "Mean",
    "Pack",
    "Pad",
    "Pool",
    "Prelu",
    "Quantize",
    "Reshape",
    "Resize",
    "Softmax",
    "SpaceToBatch",
    "SpaceToDepth",
    "Split",
    "SplitSizes",
    "Squeeze",
    "StridedSlice",
    "Transpose",
    "TransposedConvolution",
    "Unpack",
    "sequential",
    "serialize",
    "write_fully_connected",
    "write_sequential",
]


def sequential(
    layers: Sequence[Layer],
    *,
    input_shape: Sequence[int],
    input_scale: float,
    input_zero_point: int = 0,
    input_type: str = "int8",
) -> Graph:
    """Return the graph of operators that follow one another, or an earlier one after ``Back``.

    The graph's outputs are the results that no operator reads. Tensors are named ``input``, then
    for instance ``weights_0``, ``bias_0``, ``output_0``, by the number of the operator.

    Parameters
    ----------
    layers : sequence of Layer
        At least one.
    input_shape : sequence of int
        Of the model's input, batch first.
    input_scale, input_zero_point : float, int
        Its quantisation.
    input_type : str
        ``int8``, ``uint8``, or ``float32``, which has no quantisation.

    Raises
    ------
    ValueError
        If there is no layer, or one that cannot take the result before it.
    """
    if not layers:
        raise ValueError("layers: wanted at least one, got none")
    chain = Chain(input_shape, input_scale, input_zero_point, input_type)
    for number, layer in enumerate(layers):
        try:
            layer.add(chain)
        except ValueError as error:
            raise ValueError(f"layer {number}: {error}") from None
    return chain.graph()


def write_sequential(
    layers: Sequence[Layer],
    *,
    input_shape: Sequence[int],
    input_scale: float,
    input_zero_point: int = 0,
    input_type: str = "int8",
) -> bytes:
    """Return the ``.tflite`` file of operators that follow one another: see ``sequential``."""
    return serialize(
        sequential(
            layers,
            input_shape=input_shape,
            input_scale=input_scale,
            input_zero_point=input_zero_point,
            input_type=input_type,
        )
    )


def write_fully_connected(
    layers: Sequence[FullyConnected],
    *,
    input_scale: float,
    input_zero_point: int = 0,
    batch: int = 1,
) -> bytes:
    """Return a ``.tflite`` file of int8 FULLY_CONNECTED operators, one after the other.

    The model takes int8 of shape (batch, inputs) and gives int8 of shape (batch, outputs).

    Parameters
    ----------
    layers : sequence of FullyConnected
        At least one; each takes as many inputs as the one before has outputs.
    input_scale, input_zero_point : float, int
        Quantisation of the model's input.
    batch : int
        Rows of input, at least 1.

    Raises
    ------
    ValueError
        If there is no layer, or two that follow one another do not fit.
    """
    inputs = layers[0].weights.shape[1] if layers else 0
    for number, layer in enumerate(layers):
        if layer.weights.shape[1] != inputs:
            raise ValueError(
                f"layer {number}: wanted {inputs} inputs, got {layer.weights.shape[1]}"
            )
        inputs = layer.weights.shape[0]
    return write_sequential(
        layers,
        input_shape=(batch, layers[0].weights.shape[1] if layers else 0),
        input_scale=input_scale,
        input_zero_point=input_zero_point,
    )
