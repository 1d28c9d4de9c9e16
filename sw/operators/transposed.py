"""TRANSPOSE_CONV: the image that a convolution would have mapped to its input."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tflite

from celosia.sw.ir.graph import Operation
from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.lowering import Lowering, View
from celosia.sw.layers.node import ModelError, Node, require_bias, require_weights
from celosia.sw.layers.products import product
from celosia.sw.layers.quantize import convolution_scaling
from celosia.sw.layers.record import EXTENT, Attributes, Lower, Operator, Shape, require
from celosia.sw.layers.values import Scaling
from celosia.sw.operators.fixed_point import weighted
from celosia.sw.operators.matrix import WEIGHTED, require_constants, scaled_sums
from celosia.sw.operators.windows import ACTIVATIONS, image, read_windows, window_counts


def _margins(
    extents: Sequence[int], window: Sequence[int], attributes: dict[str, Any]
) -> list[int]:
    """Return the rows and columns before a result that a TRANSPOSE_CONV leaves out."""
    before = []
    for extent, taps, stride in zip(extents, window, attributes["stride"], strict=True):
        same = attributes["padding"] == "SAME"
        count = -(-extent // stride) if same else (extent - taps) // stride + 1
        before.append(max(0, (count - 1) * stride + taps - extent) // 2)
    return before


def _read_transposed(node: Node) -> dict[str, Any]:
    node.require_inputs(3, 4)
    weights = node.tensor(1)
    require_weights(weights)
    require_bias(node.optional(3), weights.shape[0], node.tensor(2))
    attributes = read_windows(node, tflite.TransposeConvOptions, "stride")
    extents, window = node.outputs[0].shape[1:3], weights.shape[1:3]
    # A computed shape, for instance an input of the model, is the one that the file records.
    if node.tensor(0).data is not None and node.indices(0, "shape") != list(node.outputs[0].shape):
        got = node.outputs[0].shape
        raise ModelError(f"wanted a result of shape {node.indices(0, 'shape')}, got {got}")
    return attributes | {"margins": tuple(_margins(extents, window, attributes))}


def _infer(node: Node) -> list[Shape]:
    if node.tensor(0).data is None and node.outputs[0].shape:
        return [node.outputs[0].shape]
    return [tuple(node.indices(0, "shape"))]


def transposed_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    """Return the shape of the result, which the operator names: shape rule."""
    batch, *extents, depth = image(operator.sources[0].shape)
    channels, *taps, inputs = image(operator.sources[1].shape)
    attributes.name("activation", ACTIVATIONS)
    require_constants(operator, channels)
    require(inputs == depth, f"weights of {depth} channels", inputs)
    result = image(operator.results[0].shape)
    counts = window_counts(result[1:3], taps, attributes)
    require(counts == extents, f"{extents} pixels from a result of {result}", counts)
    margins = attributes.integers("margins", 2, 0, EXTENT)
    required = _margins(result[1:3], taps, operator.attributes)
    require(margins == required, f"margins of {required}", margins)
    return [(batch, *result[1:3], channels)]


def transposed_sums(operator: HostOperator, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return the image that a convolution of these weights would have mapped to this input."""
    source = operator.sources[0]
    (output,), attributes = operator.results, operator.attributes
    exact = np.float64 if source.dtype == "float32" else np.int64
    x = arrays[0].astype(exact) - source.zero_point
    kernel = arrays[1].astype(exact)
    samples, batch, high, wide, _ = x.shape
    (down, right), (top, left) = attributes["stride"], attributes["margins"]
    channels, tall, broad, _ = kernel.shape
    _, rows, columns, _ = output.shape
    around = (
        max(rows, (high - 1) * down + tall) + top,
        max(columns, (wide - 1) * right + broad) + left,
    )
    sums = np.zeros((samples, batch, *around, channels), exact)
    for row in range(tall):
        for column in range(broad):
            sums[
                :,
                :,
                row : row + (high - 1) * down + 1 : down,
                column : column + (wide - 1) * right + 1 : right,
            ] += x @ kernel[:, row, column].T
    return sums[:, :, top : top + rows, left : left + columns]


def _run_transposed(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [scaled_sums(operator, transposed_sums(operator, arrays), arrays[2:])]


def _apart(lowering: Lowering, operation: Operation, stride: tuple[int, int]) -> View:
    """Return the first input with zero points between its rows and columns."""
    number, view = operation.inputs[0], lowering.view(operation)
    if not lowering.covers(view):
        lowering.copy(operation, number, view)
    tensor, source = lowering.graph.tensors[number], lowering.views[number]
    if (
        tensor.quantization is None
        or lowering.values[source.value].fill != tensor.quantization.zero_point
    ):
        raise CompileError("wanted zero points around its input")
    origins = []
    for extent, step in zip((source.height, source.width), stride, strict=True):
        # Elements past the edge are the zero point.
        indices = [
            at // step if at % step == 0 else extent for at in range((extent - 1) * step + 1)
        ]
        origins.append(indices)
    return lowering.take(operation, source, origins)


def lower_transposed(scale: Callable[..., Scaling]) -> Lower:
    """Return the lowering of TRANSPOSE_CONV, whose parameters ``scale`` returns.

    It is a convolution of the input with zeros between its pixels.
    """

    def lower(lowering: Lowering, operation: Operation) -> None:
        _, kernel, source, *bias = operation.inputs
        operation = replace(operation, inputs=(source, kernel, *bias))
        data, attributes = lowering.graph.tensors[kernel].data, operation.attributes
        assert data is not None
        high, wide = lowering.view(operation).height, lowering.view(operation).width
        view = _apart(lowering, operation, attributes["stride"])
        taps, margins = data.shape[1:3], attributes["margins"]
        rows, columns, _ = lowering.shapes[operation.outputs[0]]
        product(
            lowering,
            operation,
            view,
            data[:, ::-1, ::-1],
            scale(lowering.graph, operation, data.reshape(len(data), -1)),
            macs=high * wide * data.size,
            origin=(view.top + margins[0] + 1 - taps[0], view.left + margins[1] + 1 - taps[1]),
            kernel=(taps[0], taps[1]),
            grid=(rows, columns),
        )

    return lower


OPERATORS = (
    Operator(
        kind="TRANSPOSE_CONV",
        read=_read_transposed,
        infer=_infer,
        shapes=transposed_shapes,
        operands=(2, 1, 3),
        kernel=_run_transposed,
        lower=lower_transposed(convolution_scaling),
        core="any kernel, stride and padding: a convolution of the input with zeros between its pixels",
        types=WEIGHTED,
        weighted=True,
        unsigned=True,
        factors=weighted(2, 1),
        host="any kernel, stride and padding; int8, int16 by int8",
    ),
)
