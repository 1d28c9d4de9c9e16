"""Matrix layers, with the operators after them that are fused into them."""

from typing import Any

import numpy as np

from celosia.sw.ir.graph import Operation
from celosia.sw.ir.labels import layer_name
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.lowering import Lowering, View
from celosia.sw.layers.quantize import clamped, keeps_order
from celosia.sw.layers.spec import MatrixLayer, Pool
from celosia.sw.layers.values import Scaling

#: Most bytes of weights that only move channels.
MOST_MOVED = 1 << 14

_ONE = Pool(window=(1, 1), stride=(1, 1))


def _single_pixels(view: View) -> dict[str, Any]:
    """Return the geometry of windows of one pixel over a view."""
    return {
        "origin": (view.top, view.left),
        "kernel": (1, 1),
        "stride": (1, 1),
        "dilation": (1, 1),
        "grid": (view.height, view.width),
    }


def without_zero(numbers: np.ndarray, zero_point: int) -> np.ndarray:
    """Return int8 less their zero point: int8, or int16 where some need nine bits."""
    wide = numbers.astype(np.int16) - np.int16(zero_point)
    narrow = wide.astype(np.int8)
    return narrow if (narrow == wide).all() else wide


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
    """Add a matrix layer over single pixels for an operator without multiplications.

    Returns ``result``.
    """
    geometry: dict[str, Any] = {**_single_pixels(view), "grid": grid}
    lowering.layers.append(
        MatrixLayer(
            name=layer_name(lowering.graph.tensors, operation),
            kind=operation.kind,
            place=operation.place,
            source=view.value,
            result=result,
            pool=_ONE,
            weights=weights,
            scaling=scaling,
            macs=0,
            **geometry,
        )
    )
    return result


def product(
    lowering: Lowering,
    operation: Operation,
    view: View,
    weights: np.ndarray,
    scaling: Scaling,
    *,
    each: int = 0,
    macs: int = 0,
    **geometry: tuple[int, int],
) -> None:
    """Add a matrix layer, with the operators after it that can be fused.

    Windows are single pixels of the view unless ``geometry`` has other fields of the layer. Its
    multiplications in the model are ``macs``, or all that it does.
    """
    geometry = _single_pixels(view) | geometry
    last, kinds = operation.outputs[0], [operation.kind]
    name = layer_name(lowering.graph.tensors, operation)
    macs = macs or geometry["grid"][0] * geometry["grid"][1] * weights.size
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
        MatrixLayer(
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
            first=0,
            table=tail.table,
            **geometry,
        )
    )


def row_product(
    lowering: Lowering, operation: Operation, weights: np.ndarray, scaling: Scaling
) -> None:
    """Add the product of rows with a matrix: a convolution whose kernel covers one row.

    Weights are int8 or int16, shape ``(channels, taps)``. Raises CompileError if the input has no
    rows of ``taps``.
    """
    view = lowering.view(operation)
    channels, taps = weights.shape
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
    product(
        lowering,
        operation,
        view,
        weights.reshape(channels, *kernel, depth),
        scaling,
        kernel=kernel,
        grid=grid,
    )


def _pool(lowering: Lowering, last: int, grid: tuple[int, int]) -> Operation | None:
    """Return the MAX_POOL_2D that can be fused into the matrix layer that ends in a tensor."""
    after = lowering.follower(last)
    if after is None or after.kind != "MAX_POOL_2D":
        return None
    if not lowering.same_scale(last, after.outputs[0]):
        return None
    window, stride = after.attributes["window"], after.attributes["stride"]
    apart = window[0] <= stride[0] and window[1] <= stride[1]
    whole = all(axis.whole for axis in lowering.windows(after, grid))
    return after if apart and whole and max(window) <= 255 else None
