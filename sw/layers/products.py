"""Matrix layers and products of two computed matrices, with the operators fused into them.

With zero points a of the first computed matrix and b of the second, and K taps, a result is the sum
of x·y − a·y − b·x + K·a·b over the taps. The last term is a constant. The array adds the others:
rows of the constant −a times the tiles, and the rows times a tile of the constant −b.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from celosia.hw.arch.isa import Rounding
from celosia.sw.ir.graph import Graph, Operation
from celosia.sw.ir.labels import layer_name
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.lowering import Lowering, View
from celosia.sw.layers.multiplier import quantize_multiplier
from celosia.sw.layers.quantize import (
    clamped,
    computed_dense_scaling,
    ends_of_two,
    identity_scaling,
    keeps_order,
    matrix_factor,
)
from celosia.sw.layers.spec import DynamicProduct, MatrixLayer, Pool
from celosia.sw.layers.terms import Correction, extents_of
from celosia.sw.layers.values import Scaling, uniform_scaling

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
    depth_multiplier: int = 0,
    macs: int = 0,
    **geometry: Any,
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
            depth_multiplier=depth_multiplier,
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
    weights = weights.reshape(channels, *kernel, depth)
    product(lowering, operation, view, weights, scaling, kernel=kernel, grid=grid)


def _pool(lowering: Lowering, last: int, grid: tuple[int, int]) -> Operation | None:
    """Return the MAX_POOL_2D that can be fused into the matrix layer that ends in a tensor."""
    after = lowering.follower(last)
    if after is None or after.kind != "MAX_POOL_2D":
        return None
    if not lowering.same_scale(last, after.outputs[0]):
        return None
    window, stride = after.attributes["window"], after.attributes["stride"]
    apart = window[0] <= stride[0] and window[1] <= stride[1]
    inside = all(axis.inside for axis in lowering.windows(after, grid))
    return after if apart and inside and max(window) <= 255 else None


#: Heads, and rows and columns of each matrix.
_Extents = tuple[int, int, int]

#: Greatest sum of 255 × 255 for each tap that int32 holds.
_MOST_TAPS = ((1 << 31) - 1) // 255**2

_INPUTS = "wanted two inputs that the core computes, or a constant second one"


class _Matrices(NamedTuple):
    """Matrices of a product; the fields are those of ``DynamicProduct``."""

    matrices: tuple[tuple[int, ...], tuple[int, ...]]
    rows: int
    taps: int
    channels: int
    turned: tuple[bool, bool]


def weights_option(graph: Graph, operation: Operation) -> str:
    """Return the option of cores that multiply by a computed second input."""
    return "activation_weights" if graph.tensors[operation.inputs[1]].data is None else ""


def dynamic_product(
    lowering: Lowering,
    operation: Operation,
    scaling_of: Callable[[Graph, Operation, int], Scaling] | None = None,
) -> None:
    """Add the BATCH_MATMUL of two computed tensors, with the operators after it that can be fused.

    ``scaling_of`` returns the parameters of sums of so many products, else those of LiteRT. Raises
    CompileError if samples share matrices, or if the core does not compute both tensors.
    """
    turned = operation.attributes["adj_x"], operation.attributes["adj_y"]
    matrices = _matrices(lowering, operation)
    rows, taps, channels = _extents(lowering, operation)
    scaling = (scaling_of or _scaling)(lowering.graph, operation, taps)
    _add(lowering, operation, _Matrices(matrices, rows, taps, channels, turned), scaling)


def dynamic_rows(lowering: Lowering, operation: Operation) -> None:
    """Add the FULLY_CONNECTED of computed weights, as ``dynamic_product`` adds a BATCH_MATMUL.

    The rows of an image are heads that share the weights.
    """
    first, second, *_ = operation.inputs
    channels, taps = lowering.graph.tensors[second].shape
    _require_taps(taps)
    scaling = computed_dense_scaling(lowering.graph, operation, taps)
    height, width, _ = lowering.shapes[operation.outputs[0]]
    if first not in lowering.views:
        raise CompileError(_INPUTS)
    *extents, depth = lowering.extents(first)
    if height == 1 and depth == taps and math.prod(extents) == width:
        height, width = extents[0], extents[1]
    matrices = tuple(range(height)), (0,) * height
    _add(lowering, operation, _Matrices(matrices, width, taps, channels, (False, True)), scaling)


def _add(lowering: Lowering, operation: Operation, product: _Matrices, scaling: Scaling) -> None:
    """Add a product, with the operators after it that can be fused.

    Raises CompileError if the core does not compute both tensors.
    """
    first, second = (
        _operand(lowering, operation, product, side, (max(product.matrices[side]) + 1, *extents))
        for side, extents in enumerate(extents_of(*product[1:]))
    )
    ends = ends_of_two(lowering.graph, operation)
    factors = -ends[0].zero_point, -ends[1].zero_point
    columns = _correction(lowering, operation, factors[0], product.taps)
    lines = _correction(lowering, operation, factors[1], product.channels)
    number = operation.outputs[0]
    shape = lowering.shapes[number]
    tail = lowering.tail(number, scaling)
    lowering.layers.append(
        DynamicProduct(
            name=layer_name(lowering.graph.tensors, operation),
            kind="+".join([operation.kind, *tail.kinds]),
            place=operation.place,
            source=first,
            second=second,
            result=lowering.add(tail.last, shape),
            output=shape[:2],
            scalings=(tail.scaling, _copied(columns)),
            columns=columns,
            lines=lines,
            table=tail.table,
            **product._asdict(),
        )
    )


def _copied(columns: Correction | None) -> Scaling:
    """Return the parameters of sums of columns that are copied, ``times`` times as large."""
    same = identity_scaling()
    return replace(same, left=same.left + (columns.times - 1 if columns else 0))


def _require_taps(taps: int) -> None:
    """Raise CompileError if sums could exceed int32."""
    if taps > _MOST_TAPS:
        raise CompileError(f"wanted sums of at most {_MOST_TAPS} products, got {taps}")


def _extents(lowering: Lowering, operation: Operation) -> tuple[int, int, int]:
    """Return rows, taps and channels.

    Raises CompileError if sums could exceed int32.
    """
    first, second = (lowering.graph.tensors[n].shape[-2:] for n in operation.inputs[:2])
    rows, taps = first[::-1] if operation.attributes["adj_x"] else first
    _require_taps(taps)
    return rows, taps, second[0] if operation.attributes["adj_y"] else second[1]


def _matrices(lowering: Lowering, operation: Operation) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the matrix of each input for each head of a sample.

    Raises CompileError if samples share matrices.
    """
    first, second = (lowering.graph.tensors[n].shape[:-2] for n in operation.inputs[:2])
    items, batches = lowering.items, np.broadcast_shapes(first, second)
    shared = any(
        len(batch) != len(batches) or not batch or batch[0] % items for batch in (first, second)
    )
    if items > 1 and shared:
        raise CompileError(f"wanted matrices of {items} samples, got {first} and {second}")
    if items > 1:
        # Heads of a sample: the first dimension counts them for each sample.
        first, second = ((batch[0] // items, *batch[1:]) for batch in (first, second))
        batches = np.broadcast_shapes(first, second)
    numbers = (np.arange(math.prod(batch)).reshape(batch) for batch in (first, second))
    one, other = (np.broadcast_to(indices, batches).reshape(-1).tolist() for indices in numbers)
    return tuple(one), tuple(other)


def _operand(
    lowering: Lowering, operation: Operation, product: _Matrices, side: int, extents: _Extents
) -> int:
    """Return the value of an input: matrices of ``extents``, copied unless they lie so already.

    Those whose columns are read lie spread. Raises CompileError if the core does not compute the
    input, or its view has other extents.
    """
    number, spread = operation.inputs[side], product.turned[side]
    if number not in lowering.views:
        raise CompileError(_INPUTS)
    view = lowering.views[number]
    value = lowering.values[view.value]
    shape, covered = (value.height, value.width, value.channels), lowering.covers(view)
    flat = covered and value.height == 1
    if not spread and (flat or (covered and shape == extents)):
        return view.value
    if spread and covered and shape == extents and _alone(lowering, operation, view.value):
        lowering.values[view.value] = replace(value, spread=True)
        return view.value
    if not flat and (view.height, view.width, value.channels) != extents:
        got = f"{view.height} x {view.width} x {value.channels}"
        raise CompileError(f"wanted an input of {' x '.join(map(str, extents))}, got {got}")
    views = lowering.views.copy()
    seen = extents if flat else None
    view = View(view.value, 0, 0, *extents[:2]) if flat else view
    copied = lowering.vector(operation, view, number=number, kind="COPY", seen=seen)
    lowering.views = views
    lowering.values[copied] = replace(lowering.values[copied], spread=spread)
    return copied


def _alone(lowering: Lowering, operation: Operation, value: int) -> bool:
    """Return whether an operator is the only one that reads a value, which a layer makes."""
    if lowering.values[value].is_input:
        return False
    names = {number for number, view in lowering.views.items() if view.value == value}
    readers = [reader for number in names for reader in lowering.readers.get(number, [])]
    if names & set(lowering.graph.outputs):
        return False
    return all(r.place == operation.place or r.outputs[0] in names for r in readers)


def _correction(
    lowering: Lowering, operation: Operation, factor: int, count: int
) -> Correction | None:
    """Return the term of a zero point: a constant of ``count`` bytes; None without one.

    128, which is no int8, is twice 64.
    """
    if not factor:
        return None
    times = 2 if factor == 128 else 1
    contents = np.full((1, 1, count), factor // times, np.int8)
    return Correction(lowering.constant(operation.outputs[0], contents).value, times)


def _scaling(graph: Graph, operation: Operation, taps: int) -> Scaling:
    """Return the parameters of all results.

    Raises CompileError if the factor is past the kernel's range.
    """
    first, second, output = ends_of_two(graph, operation)
    factor = matrix_factor(first.scales[0], second.scales[0], over=output.scales[0])
    if factor >= 1 << 30:
        raise CompileError(f"wanted a factor below 2^30, got {factor:.9g}")
    bias = taps * first.zero_point * second.zero_point
    ends = output.zero_point, -128, 127
    return uniform_scaling(bias, quantize_multiplier(factor), Rounding.DOUBLE, ends)
