"""Layers with weights: convolutions and matrix multiplications."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tflite

from celosia.sw.ir.graph import Graph, Operation, Tensor
from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.errors import CompileError, UndefinedError
from celosia.sw.layers.lowering import Lowering
from celosia.sw.layers.multiplier import quantize_multiplier
from celosia.sw.layers.node import (
    ModelError,
    Node,
    read_activation,
    require_bias,
    require_per_tensor,
    require_weights,
)
from celosia.sw.layers.products import dynamic_rows, product, row_product, weights_option
from celosia.sw.layers.quantize import bias_of, convolution_scaling, dense_scaling, ends_of_two
from celosia.sw.layers.record import SAME, Attributes, Lower, Operator, Shape, require
from celosia.sw.layers.shapes import padding
from celosia.sw.layers.values import Scaling
from celosia.sw.operators import gradients
from celosia.sw.operators.fixed_point import (
    factors,
    finished,
    shaped,
    times,
    times_wide,
    weighted,
)
from celosia.sw.operators.windows import ACTIVATIONS, image, patches, read_windows, window_counts

#: Returns the parameters of the requantiser for an operation and its weights by channel.
Scale = Callable[[Graph, Operation, np.ndarray], Scaling]

#: Types of activations: of int16 on the host alone.
WEIGHTED = (("int8", "int16"), SAME)

_ANY = "any kernel, stride, dilation and padding; constant weights, a scale for each channel or one"


def _read_weights(node: Node, axis: int = 0) -> Tensor:
    """Return checked weights, whose output channels are along ``axis``; check the bias, too."""
    node.require_inputs(2, 3)
    weights = node.tensor(1)
    require_weights(weights, axis)
    require_bias(node.optional(2), weights.shape[axis], node.tensor(0))
    return weights


def _read_convolution(node: Node) -> dict[str, Any]:
    _read_weights(node)
    return read_windows(node, tflite.Conv2DOptions, "stride", "dilation")


def _read_depthwise(node: Node) -> dict[str, Any]:
    weights = _read_weights(node, 3)
    attributes = read_windows(node, tflite.DepthwiseConv2DOptions, "stride", "dilation")
    inputs = node.tensor(0).shape[-1]
    return attributes | {"depth_multiplier": weights.shape[3] // inputs}


def require_constants(operator: HostOperator, channels: int) -> None:
    """Require constant weights and a constant bias in ``channels`` channels."""
    weights = operator.sources[1]
    # Less their zero points, weights may be of nine bits.
    good = weights.data is not None and weights.dtype in ("int8", "int16")
    require(good, "constant int8 weights", weights.dtype)
    require(len(weights.scales) in (0, channels), f"1 or {channels} scales of weights")
    _require_constant_bias(operator, channels)


def _require_constant_bias(operator: HostOperator, channels: int) -> None:
    wide = operator.sources[0].dtype == "int16"
    for operand in operator.sources[2:]:
        good = operand.data is not None and operand.dtype in ("int32", "int64")[: 1 + wide]
        require(good and math.prod(operand.shape) == channels, f"a constant bias of {channels}")


def convolution_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    """Return the shape of a convolution's result: shape rule."""
    batch, *extents, inputs = image(operator.sources[0].shape)
    shape = image(operator.sources[1].shape)
    attributes.name("activation", ACTIVATIONS)
    if "depth_multiplier" not in operator.attributes:
        channels, *kernel, depth = shape
        groups = max(1, inputs // depth)
        got = f"weights of shape {shape} on {inputs} channels"
        good = groups * depth == inputs and channels % groups == 0
        require(good, "weights of the input's channels, or whole groups of them", got)
    else:
        one, *kernel, channels = shape
        got = f"weights of shape {shape} on {inputs} channels"
        require(one == 1 and channels % inputs == 0, "whole channels for each of the input's", got)
    require_constants(operator, channels)
    return [(batch, *window_counts(extents, kernel, attributes, dilated=True), channels)]


def _ungrouped(weights: np.ndarray, inputs: int) -> np.ndarray:
    """Return the weights of a CONV_2D on all input channels, zero outside each group's own."""
    channels, depth = len(weights), weights.shape[3]
    if depth == inputs:
        return weights
    dense = np.zeros((*weights.shape[:3], inputs), weights.dtype)
    group = channels * depth // inputs
    for channel in range(channels):
        first = channel // group * depth
        dense[channel, :, :, first : first + depth] = weights[channel]
    return dense


def _weights(lowering: Lowering, operation: Operation) -> np.ndarray:
    """Return the weights of an operation less their zero point."""
    data = lowering.graph.tensors[operation.inputs[1]].data
    assert data is not None
    return data


def lower_convolution(scale: Scale) -> Lower:
    """Return the lowering of convolutions, also of depthwise ones."""

    def lower(lowering: Lowering, operation: Operation) -> None:
        view = lowering.view(operation)
        weights, repeats = _weights(lowering, operation), 0
        if "depth_multiplier" in operation.attributes:
            repeats = weights.shape[3] // lowering.values[view.value].channels
            weights = weights.transpose(3, 1, 2, 0)
        else:
            weights = _ungrouped(weights, lowering.values[view.value].channels)
        kernel = (weights.shape[1], weights.shape[2])
        attributes = operation.attributes
        rows, columns, _ = lowering.shapes[operation.outputs[0]]
        extents = zip(
            (view.height, view.width),
            kernel,
            attributes["dilation"],
            attributes["stride"],
            (rows, columns),
            strict=True,
        )
        before = [
            padding(attributes["padding"], extent, (taps - 1) * apart + 1, stride, count)
            for extent, taps, apart, stride, count in extents
        ]
        scaling = scale(lowering.graph, operation, weights.reshape(len(weights), -1))
        product(
            lowering,
            operation,
            view,
            weights,
            scaling,
            origin=(view.top - before[0], view.left - before[1]),
            kernel=kernel,
            stride=attributes["stride"],
            dilation=attributes["dilation"],
            grid=(rows, columns),
            depth_multiplier=repeats,
        )

    return lower


def _read_dense(node: Node) -> dict[str, Any]:
    node.require_inputs(2, 3)
    weights = node.tensor(1)
    if weights.data is None and weights.dtype == node.tensor(0).dtype == np.int8:
        if len(weights.shape) != 2:
            raise ModelError(f"wanted weights of 2 dimensions, got {weights.shape}")
        require_per_tensor(weights)
        require_bias(node.optional(2), weights.shape[0], node.tensor(0))
    else:
        _read_weights(node)
    options = node.options(tflite.FullyConnectedOptions)
    if options and options.WeightsFormat() != 0:
        raise ModelError("shuffled weights are not supported")
    return {
        "activation": read_activation(options.FusedActivationFunction() if options else 0),
        "keep_num_dims": bool(options.KeepNumDims()) if options else False,
    }


def _infer_dense(node: Node) -> list[Shape]:
    """Return rows of results: as many as the input has, or all dimensions of it but the last."""
    node.require_inputs(2, 3)
    shape, weights = node.tensor(0).shape, node.tensor(1).shape
    if len(weights) != 2:
        raise ModelError(f"wanted weights of 2 dimensions, got {weights}")
    channels, taps = weights
    options = node.options(tflite.FullyConnectedOptions)
    if options and options.KeepNumDims():
        return [(*shape[:-1], channels)]
    return [(math.prod(shape) // taps, channels)]


def dense_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    """Return the shape of a matrix product's result: shape rule for constant weights."""
    shapes = _row_shapes(operator, attributes)
    require_constants(operator, operator.sources[1].shape[0])
    return shapes


def _dense_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    """Return the shape of a matrix product's result: shape rule for any weights."""
    first, weights = operator.sources[:2]
    if weights.data is not None:
        return dense_shapes(operator, attributes)
    shapes = _row_shapes(operator, attributes)
    require(first.dtype == weights.dtype == "int8", "int8 times computed int8 weights")
    require(not weights.scales, "1 scale of computed weights")
    _require_constant_bias(operator, weights.shape[0])
    return shapes


def _row_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    source, shape = (operand.shape for operand in operator.sources[:2])
    require(len(shape) == 2, "weights of 2 dimensions", shape)
    channels, taps = shape
    attributes.name("activation", ACTIVATIONS)
    result = operator.results[0].shape
    rows = math.prod(source) // taps
    good = math.prod(source) % taps == 0 and rows * channels == math.prod(result)
    got = f"weights of shape {shape} from {source} to {result}"
    require(good, f"{rows} rows of {channels}", got)
    return [result]


def lower_dense(scale: Scale) -> Lower:
    """Return the lowering of matrix products: convolutions whose kernel covers one row of them."""

    def lower(lowering: Lowering, operation: Operation) -> None:
        weights = _weights(lowering, operation)
        row_product(lowering, operation, weights, scale(lowering.graph, operation, weights))

    return lower


def _lower_dense(lowering: Lowering, operation: Operation) -> None:
    """Lower a FULLY_CONNECTED; computed weights become tiles while the core runs."""
    source, weights = (lowering.graph.tensors[number] for number in operation.inputs[:2])
    if weights.data is not None:
        lower_dense(dense_scaling)(lowering, operation)
    elif source.data is not None:
        raise CompileError("wanted a first input that is not constant")
    else:
        dynamic_rows(lowering, operation)


def dense_sums(operator: HostOperator, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return sums of a matrix product, shape ``(samples, rows, channels)``; int64 of int16."""
    source, weights = operator.sources[:2]
    matrix = arrays[1].astype(np.int64)
    if weights.data is None:
        matrix = matrix - weights.zero_point
    samples = 1 if source.data is not None else len(arrays[0])
    rows = arrays[0].reshape(samples, -1, matrix.shape[-1]).astype(np.int64)
    sums = (rows - source.zero_point) @ matrix.swapaxes(-1, -2)
    sums = sums + arrays[2].reshape(-1) if len(arrays) > 2 else sums
    return sums if operator.sources[0].dtype == "int16" else sums.astype(np.int32)


def _dense_factors(graph: Graph, operation: Operation) -> list[float]:
    """Return the greatest factor.

    Raises UndefinedError if int16 gives results past 32 bits, to which the kernel casts its
    float64.
    """
    scaling = weighted(0, 1)(graph, operation)
    source, weights = (graph.tensors[number] for number in operation.inputs[:2])
    if not scaling or weights.data is None or source.dtype != np.int16:
        return scaling
    scale, kernel, output = ends_of_two(graph, operation)
    sums = np.abs(weights.data.astype(np.int64)).sum(axis=1) << 15
    sums += np.abs(bias_of(graph, operation, len(sums)))
    greatest = float((sums * kernel.scales).max()) * scale.scale / output.scale
    if greatest >= 1 << 31:
        raise UndefinedError(f"wanted results within 32 bits before the clamp, got {greatest:.9g}")
    return scaling


def _run_dense(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the product of rows with a matrix, which the kernel scales in double precision."""
    (output,) = operator.results
    exact = dense_sums(operator, arrays) * factors(operator)
    away = np.copysign(np.floor(np.abs(exact) + 0.5), exact)
    return shaped(away, output, operator.attributes["activation"])


def scaled_sums(operator: HostOperator, sums: np.ndarray, bias: Sequence[np.ndarray]) -> np.ndarray:
    """Return the results of sums of products: bias added, multiplied by channel, clamped."""
    (output,) = operator.results
    if bias:
        sums = sums + bias[0].reshape(-1).astype(np.int64)
    pairs = [quantize_multiplier(float(factor)) for factor in factors(operator)]
    multipliers, shifts = np.array(pairs, np.int64).T
    if operator.sources[0].dtype == "int16" and operator.sources[-1].dtype != "int32":
        values = times_wide(sums, multipliers, shifts)
    else:
        values = times(sums.astype(np.int32).astype(np.int64), multipliers, shifts)
    return finished(values, output, operator.attributes["activation"])[0]


def convolution_sums(operator: HostOperator, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return the sums of a convolution, int64, shape ``(samples, rows, columns, channels)``.

    They are added up in float64, which is exact far below 2^53.
    """
    sums = window_sums(operator, arrays).astype(np.int64)
    return sums + arrays[2].reshape(-1).astype(np.int64) if len(arrays) > 2 else sums


def window_sums(operator: HostOperator, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return the sums of a convolution without its bias, float64."""
    source, (output,), attributes = operator.sources[0], operator.results, operator.attributes
    x = arrays[0].reshape(-1, *arrays[0].shape[2:]).astype(np.float64) - source.zero_point
    kernel = arrays[1].astype(np.float64)
    if "depth_multiplier" not in attributes:
        kernel = _ungrouped(kernel, x.shape[3])
    views = patches(x, kernel.shape[1:3], output.shape[1:3], attributes)
    sums = np.zeros((len(x), *output.shape[1:]))
    for row, column in np.ndindex(*kernel.shape[1:3]):
        part = views[..., row, column]
        if "depth_multiplier" in attributes:
            repeats = output.shape[3] // part.shape[-1]
            sums += np.repeat(part, repeats, -1) * kernel[0, row, column]
        else:
            sums += part @ kernel[:, row, column].T
    return sums


def _run_convolution(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    (output,) = operator.results
    result = scaled_sums(operator, convolution_sums(operator, arrays), ())
    return [result.reshape(len(arrays[0]), *output.shape)]


OPERATORS = (
    *(
        Operator(
            kind=kind,
            read=read,
            shapes=convolution_shapes,
            lower=lower_convolution(convolution_scaling),
            gradient=gradients.convolution,
            kernel=_run_convolution,
            types=WEIGHTED,
            weighted=True,
            unsigned=True,
            factors=weighted(0, 1),
            core=f"{_ANY}; {more}",
            host="the same, of int8 and int16 by int8",
        )
        for kind, read, more in (
            ("CONV_2D", _read_convolution, "groups as weights of zero"),
            ("DEPTHWISE_CONV_2D", _read_depthwise, "any depth multiplier"),
        )
    ),
    Operator(
        kind="FULLY_CONNECTED",
        read=_read_dense,
        infer=_infer_dense,
        shapes=_dense_shapes,
        lower=_lower_dense,
        gradient=gradients.dense,
        option=weights_option,
        kernel=_run_dense,
        types=WEIGHTED,
        weighted=True,
        factors=_dense_factors,
        core="constant weights, a scale for each channel or one; with `activation_weights` computed "
        "ones, a constant bias; channels whose factors 31 bits round alike",
        host="other channels: any factor, with results within 32 bits before the clamp; int16 by constant int8",
    ),
)
