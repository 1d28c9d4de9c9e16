"""Operators that are products of matrices, with what follows them and can be part of them."""

import numpy as np

from celosia.sw.compiler.errors import CompileError
from celosia.sw.compiler.lowering import Lowering, View
from celosia.sw.compiler.operators.tables import function
from celosia.sw.compiler.quantize import (
    clamped,
    convolution_scaling,
    dense_scaling,
    keeps_order,
    multiplication_scaling,
)
from celosia.sw.compiler.spec import Pool, Product
from celosia.sw.compiler.tables import tabulated
from celosia.sw.compiler.values import Scaling
from celosia.sw.compiler.windows import padding
from celosia.sw.ir.graph import Operation

__all__ = ["MOST_MOVED", "add_product", "convolution", "dense", "multiply"]

#: Most bytes of weights that only move channels.
MOST_MOVED = 1 << 14

_ONE = Pool(window=(1, 1), stride=(1, 1))


def convolution(lowering: Lowering, operation: Operation, label: str) -> None:
    """Lower CONV_2D, and DEPTHWISE_CONV_2D, whose channels keep to themselves."""
    view = lowering.view(operation)
    data = lowering.graph.tensors[operation.inputs[1]].data
    assert data is not None
    weights, each = data.astype(np.int8), 0
    if operation.kind == "DEPTHWISE_CONV_2D":
        each = weights.shape[3] // lowering.values[view.value].channels
        weights = weights.transpose(3, 1, 2, 0)
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
    scaling = convolution_scaling(lowering.graph, operation, weights.reshape(len(weights), -1))
    _product(
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
        each=each,
    )


def dense(lowering: Lowering, operation: Operation, label: str) -> None:
    """Lower FULLY_CONNECTED: a convolution whose kernel covers what one row of it reads."""
    view = lowering.view(operation)
    data = lowering.graph.tensors[operation.inputs[1]].data
    assert data is not None
    weights = data.astype(np.int8)
    channels, taps = weights.shape
    scaling = dense_scaling(lowering.graph, operation, weights)
    value = lowering.values[view.value]
    if value.height == 1 and view == View(view.value, 0, 0, 1, value.width):
        kernel, depth, grid = (1, 1), taps, (1, value.bytes_per_item // taps)
    elif view.height * view.width * value.channels == taps:
        kernel, depth, grid = (view.height, view.width), value.channels, (1, 1)
    elif value.channels == taps:
        kernel, depth, grid = (1, 1), taps, (view.height, view.width)
    else:
        got = f"{view.height} x {view.width} x {value.channels}"
        raise CompileError(f"wanted rows of {taps} of its input, got {got}")
    _product(
        lowering,
        operation,
        view,
        weights.reshape(channels, *kernel, depth),
        scaling,
        origin=(view.top, view.left),
        kernel=kernel,
        stride=(1, 1),
        dilation=(1, 1),
        grid=grid,
    )


def multiply(lowering: Lowering, operation: Operation, label: str) -> None:
    """Lower MUL by a number, or by a constant for each channel: one that keeps to itself."""
    if tabulated(operation):
        function(lowering, operation, label)
        return
    graph, output = lowering.graph, lowering.graph.tensors[operation.outputs[0]]
    known = sorted(operation.inputs[:2], key=lambda n: graph.tensors[n].data is not None)
    (number, source), (_, constant) = ((n, graph.tensors[n]) for n in known)
    if constant.data is None or number not in lowering.views or source.shape != output.shape:
        raise CompileError("wanted an input that is computed, and a constant")
    view = lowering.views[number]
    channels = lowering.values[view.value].channels
    if (constant.shape or (1,))[-1] != channels or constant.elements != channels:
        got = f"{constant.shape} on {channels} channels"
        raise CompileError(f"wanted a constant for each channel, got {got}")
    assert source.quantization and constant.quantization and output.quantization
    wide = constant.data.astype(np.int64).reshape(-1, 1) - constant.quantization.zero_point
    weights = wide.astype(np.int8)
    if (weights != wide).any():
        got = f"{wide.min()} to {wide.max()}"
        raise CompileError(f"wanted constants less their zero point in int8, got {got}")
    scaling = multiplication_scaling(
        source.quantization,
        constant.quantization,
        output.quantization,
        weights,
        operation.attributes["activation"],
    )
    _product(
        lowering,
        operation,
        view,
        weights.reshape(channels, 1, 1, 1),
        scaling,
        each=1,
        origin=(view.top, view.left),
        kernel=(1, 1),
        stride=(1, 1),
        dilation=(1, 1),
        grid=(view.height, view.width),
    )


def add_product(
    lowering: Lowering,
    operation: Operation,
    view: View,
    weights: np.ndarray,
    scaling: Scaling,
    *,
    result: int,
    grid: tuple[int, int],
) -> int:
    """Add a product over single pixels for which the model asks no multiplications.

    Returns
    -------
    int
        ``result``.
    """
    lowering.layers.append(
        Product(
            name=lowering.graph.tensors[operation.outputs[0]].name,
            kind=operation.kind,
            place=operation.place,
            source=view.value,
            result=result,
            origin=(view.top, view.left),
            kernel=(1, 1),
            stride=(1, 1),
            dilation=(1, 1),
            grid=grid,
            pool=_ONE,
            weights=weights,
            scaling=scaling,
            macs=0,
        )
    )
    return result


def _product(
    lowering: Lowering,
    operation: Operation,
    view: View,
    weights: np.ndarray,
    scaling: Scaling,
    *,
    each: int = 0,
    **geometry: tuple[int, int],
) -> None:
    """Add a product, together with what follows it and can be part of it."""
    last, kinds = operation.outputs[0], [operation.kind]
    name = lowering.graph.tensors[last].name or f"{operation.kind.lower()}_{operation.place}"
    macs = geometry["grid"][0] * geometry["grid"][1] * weights.size
    tail = lowering.tail(last, scaling)
    kinds += tail.kinds
    pool = _ONE
    after = None
    if tail.table is None and keeps_order(weights, tail.scaling):
        after = _pool(lowering, tail.last, geometry["grid"])
    if after is not None:
        lowering.fused.add(after.place)
        last = after.outputs[0]
        output = lowering.graph.tensors[last].quantization
        assert output
        scaling = clamped(tail.scaling, after.attributes["activation"], output)
        pool = Pool(window=after.attributes["window"], stride=after.attributes["stride"])
        tail = lowering.tail(last, scaling)
        kinds += ["MAX_POOL_2D", *tail.kinds]
        rows, columns, _ = lowering.shapes[after.outputs[0]]
        # Sums that no window reads are not computed.
        geometry["grid"] = (
            (rows - 1) * pool.stride[0] + pool.window[0],
            (columns - 1) * pool.stride[1] + pool.window[1],
        )
    (grid_rows, grid_columns), (high, wide) = geometry["grid"], pool.window
    shape = (
        (grid_rows - high) // pool.stride[0] + 1,
        (grid_columns - wide) // pool.stride[1] + 1,
        len(weights),
    )
    lowering.layers.append(
        Product(
            name=name,
            kind="+".join(kinds),
            place=operation.place,
            source=view.value,
            result=lowering.add(tail.last, shape),
            pool=pool,
            weights=weights,
            scaling=tail.scaling,
            macs=macs,
            each=each,
            table=tail.table,
            **geometry,
        )
    )


def _pool(lowering: Lowering, last: int, grid: tuple[int, int]) -> Operation | None:
    """Return the MAX_POOL_2D that may become part of the product that ends in a tensor."""
    after = lowering.follower(last)
    if after is None or after.kind != "MAX_POOL_2D":
        return None
    if not lowering.same_scale(last, after.outputs[0]):
        return None
    window, stride = after.attributes["window"], after.attributes["stride"]
    apart = window[0] <= stride[0] and window[1] <= stride[1]
    whole = all(axis.whole for axis in lowering.windows(after, grid))
    return after if apart and whole and max(window) <= 255 else None
