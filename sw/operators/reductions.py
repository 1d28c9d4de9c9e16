"""Operators that reduce some dimensions to one element each."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tflite

from celosia.hw.arch.isa import Rounding, Window
from celosia.sw.ir.graph import Operation, Quantization
from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.lowering import Lowering, View
from celosia.sw.layers.multiplier import quantize_multiplier, stepped_multiplier
from celosia.sw.layers.node import Node
from celosia.sw.layers.products import add_product
from celosia.sw.layers.quantize import (
    ends,
    exact_scaling,
    identity_scaling,
    mean_scaling,
    rescaling,
    single_factor,
)
from celosia.sw.layers.record import (
    NUMBERS,
    SAME,
    Attributes,
    Kernel,
    Operator,
    Shape,
    by_type,
    require,
)
from celosia.sw.layers.shapes import Axis, rectangles
from celosia.sw.layers.values import Scaling
from celosia.sw.operators import gradients
from celosia.sw.operators.fixed_point import (
    MOST_FACTOR,
    meaning,
    quotients,
    rescaled,
    shaped,
    single,
    times,
    times_wide,
)

#: Types with scales.
_SCALED = ("int8", "int16")

#: Past this sums saturate with any zero point.
_FAR = np.float32(1 << 20)


def read_axes(node: Node) -> dict[str, Any]:
    """Return axes, sorted and counted from the first, and whether they are kept as 1."""
    node.require_inputs(1 if len(node.inputs) == 2 else 2, 2)
    options = node.options(tflite.ReducerOptions)
    # Readers take a constant without elements for an input left out.
    axes = node.axes(1) if node.optional(1) else ()
    return {"axes": axes, "keep_dims": bool(options.KeepDims()) if options else False}


def reduced(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    """Return the shape of a result without the dimensions ``axes``: shape rule."""
    require(len(operator.sources) == 1, "1 input", len(operator.sources))
    shape = operator.sources[0].shape
    axes = attributes.axes("axes", len(shape))
    if attributes.flag("keep_dims"):
        return [tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))]
    return [tuple(extent for axis, extent in enumerate(shape) if axis not in axes)]


def _laid_out(lowering: Lowering, operation: Operation) -> View:
    """Return the input as an image whose channels are its last dimension.

    A vector that stands for rows of elements is copied to pixels. Raises CompileError if it has
    another layout.
    """
    number = operation.inputs[0]
    if not operation.attributes["axes"]:
        raise CompileError("wanted axes, got none")
    view, shape = lowering.view(operation), lowering.graph.tensors[number].shape
    height, width, channels = lowering.extents(number)
    if len(shape) > 1 and channels == shape[-1]:
        return view
    rows = height * width * channels // max(shape[-1] if shape else 1, 1)
    if len(shape) != 3 or (height, width) != (1, 1) or not lowering.covers(view):
        got = f"{shape} as {(height, width, channels)}"
        raise CompileError(f"wanted an input whose channels are its last dimension, got {got}")
    target = rows, 1, shape[-1]
    seen = View(view.value, 0, 0, rows, 1)
    lowering.vector(operation, seen, number=number, kind="RESHAPE", seen=target)
    lowering.views[number], view = view, lowering.views[number]
    return view


def _windows(lowering: Lowering, operation: Operation, view: View) -> tuple[int, int]:
    """Return rows and columns of the windows that a reduction of pixels takes.

    Raises CompileError if it reduces other dimensions.
    """
    axes = operation.attributes["axes"]
    rank = len(lowering.graph.tensors[operation.inputs[0]].shape)
    if rank == 3 and axes == (1,):
        return view.height, view.width
    if rank != 4 or not axes or not set(axes) <= {1, 2}:
        got = f"{axes} of {rank} dimensions"
        raise CompileError(f"wanted axes of rows and columns, got {got}")
    return (view.height if 1 in axes else 1, view.width if 2 in axes else 1)


def lower_windows(
    lowering: Lowering,
    operation: Operation,
    view: View,
    size: tuple[int, int],
    scaling: Scaling,
    combine: Window,
) -> None:
    """Lower a reduction of rows or columns or both to windows of ``size`` side by side."""
    extents = view.height, view.width
    ways = zip(size, extents, strict=True)
    axes = [Axis(0, 1, extent // length, length, extent) for length, extent in ways]
    windows = rectangles(axes, view.top, view.left)
    shape = axes[0].count, axes[1].count, lowering.values[view.value].channels
    lowering.vector(
        operation, view, windows=windows, scalings=[scaling], shape=shape, combine=combine
    )


def _lower_sum(lowering: Lowering, operation: Operation) -> None:
    """Lower MEAN and SUM: windows over rows and columns, a matrix layer of ones over channels."""
    graph = lowering.graph
    shape, axes = graph.tensors[operation.inputs[0]].shape, operation.attributes["axes"]
    count = math.prod(shape[axis] for axis in axes)
    meanings = ends(graph, operation)
    if operation.kind == "MEAN":
        scaling = mean_scaling(*meanings, count)
    elif operation.attributes.get("unsigned"):
        bias = np.array([-meanings[0].zero_point * count], np.int64)
        scaling = replace(rescaling(*meanings), bias=bias)
    else:
        scaling = _sum_scaling(*meanings, count)
    view = _laid_out(lowering, operation)
    if axes != (len(shape) - 1,):
        size = _windows(lowering, operation, view)
        lower_windows(lowering, operation, view, size, scaling, Window.SUM)
        return
    grid = view.height, view.width
    add_product(
        lowering,
        operation,
        view,
        np.ones((1, 1, 1, count), np.int8),
        scaling,
        result=lowering.add(operation.outputs[0], (*grid, 1)),
        grid=grid,
    )


def _lower_extreme(lowering: Lowering, operation: Operation) -> None:
    """Lower REDUCE_MAX over rows, columns or both."""
    view = _laid_out(lowering, operation)
    size = _windows(lowering, operation, view)
    lower_windows(lowering, operation, view, size, identity_scaling(), Window.MAX)


def _rows(operator: HostOperator, array: np.ndarray) -> np.ndarray:
    """Return an array with the reduced dimensions as one last dimension, in their order."""
    axes = [axis + 1 for axis in operator.attributes["axes"]]
    moved = np.moveaxis(array, axes, range(-len(axes), 0)) if axes else array[..., None]
    extents = moved.shape[: moved.ndim - max(1, len(axes))]
    return moved.reshape(*extents, -1)


def _by_steps(combine: np.ufunc) -> Kernel:
    """Return the kernel that reduces element by element, in order."""

    def run(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        rows, output = _rows(operator, arrays[0]), operator.results[0]
        last = combine.accumulate(rows, axis=-1, dtype=rows.dtype)[..., -1]
        return [last.reshape(len(last), *output.shape)]

    return run


def _run_plain_mean(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return sums in order divided by their number, whole numbers rounded towards zero."""
    rows, output = _rows(operator, arrays[0]), operator.results[0]
    count = rows.shape[-1]
    if output.dtype == "float32":
        means = np.add.accumulate(rows, axis=-1)[..., -1] / np.float32(count)
    else:
        sums = rows.sum(axis=-1, dtype=np.int64)
        means = np.sign(sums) * (np.abs(sums) // count)
    return [means.astype(output.dtype).reshape(len(rows), *output.shape)]


def _sum_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    shapes = reduced(operator, attributes)
    (source,), (output,) = operator.sources, operator.results
    if source.dtype in _SCALED:
        factor = single_factor(single(source), over=single(output))
        require(factor < MOST_FACTOR, "a factor below 2^30", f"{factor:.6g}")
        if not operator.attributes.get("unsigned"):
            # The kernel casts results from float32 to int32.
            count = math.prod(source.shape) // max(1, math.prod(shapes[0]))
            limit = factor * count * (2 * abs(np.iinfo(source.dtype).min) - 1)
            require(limit < 1 << 31, "sums within 32 bits in steps of the result", f"{limit:.6g}")
    return shapes


def _real_sums(
    sums: np.ndarray, count: int, source: Quantization, output: Quantization
) -> np.ndarray:
    """Return sums of ``count`` integers in the result's steps, scaled in single precision."""
    scale = np.float32(single_factor(source.scales[0], over=output.scales[0]))
    bias = np.float32(-source.zero_point) * scale * np.float32(count)
    scaled = np.clip(sums.astype(np.float32) * scale + bias, -_FAR, _FAR).astype(np.float64)
    return np.copysign(np.floor(np.abs(scaled) + 0.5), scaled).astype(np.int64)


def _sum_scaling(source: Quantization, output: Quantization, count: int) -> Scaling:
    """Return the parameters of SUM over ``count`` elements.

    Raises CompileError if no multiplier gives the kernel's result for all sums.
    """
    bias = -source.zero_point * count
    pair = stepped_multiplier(
        lambda sums: _real_sums(sums - bias, count, source, output),
        source.scale / output.scale,
        zero_point=output.zero_point,
        sums=(-128 * count + bias, 127 * count + bias),
    )
    if pair is None:
        got = f"{source.scale / output.scale:.9g} on {count} elements"
        raise CompileError(f"wanted a factor that 31 bits round like the kernel, got {got}")
    multiplier, shift = pair
    return replace(
        exact_scaling(bias, output.zero_point),
        multiplier=np.array([multiplier], np.int64),
        left=np.array([max(shift, 0)], np.int64),
        right=np.array([max(-shift, 0)], np.int64),
        rounding=Rounding.SINGLE,
    )


def _run_sum(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return sums of int8 and int16, as LiteRT's built-in kernel computes them.

    Its reference kernel takes them for uint8, which it computes in integers.
    """
    (source,), (output,) = operator.sources, operator.results
    rows = _rows(operator, arrays[0])
    if operator.attributes.get("unsigned"):
        sums = (rows.astype(np.int64) - source.zero_point).sum(axis=-1)
        return shaped(rescaled(sums, source.scale / output.scale), output)
    sums = rows.sum(axis=-1, dtype=np.int64)
    values = _real_sums(sums, rows.shape[-1], meaning(source), meaning(output))
    return shaped(values, output)


def _run_product(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return products of int8, brought to scale after each factor."""
    (source,), (output,) = operator.sources, operator.results
    rows = _rows(operator, arrays[0]).astype(np.int64) - source.zero_point
    factor = quantize_multiplier(_product_factor(operator))
    product = rows[..., 0]
    for step in range(1, rows.shape[-1]):
        product = times_wide(product * rows[..., step], *factor)
    return shaped(times_wide(product, *factor), output)


def _product_factor(operator: HostOperator) -> float:
    """Return the factor of each step of REDUCE_PROD of int8."""
    (source,), (output,) = operator.sources, operator.results
    count = math.prod(source.shape[axis] for axis in operator.attributes["axes"])
    return source.scale / output.scale ** (1 / count)


def _product_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    shapes = reduced(operator, attributes)
    if operator.sources[0].dtype in _SCALED:
        _, shift = quantize_multiplier(_product_factor(operator))
        require(shift < 8, "a factor of each step below 2^7", f"{_product_factor(operator):.6g}")
    return shapes


def _run_mean(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    (source,), (output,), axes = operator.sources, operator.results, operator.attributes["axes"]
    count = int(np.prod([source.shape[axis] for axis in axes], dtype=np.int64))
    scaling = mean_scaling(meaning(source), meaning(output), count)
    sums = arrays[0].sum(axis=tuple(axis + 1 for axis in axes), dtype=np.int64) + scaling.bias[0]
    values = times(sums, scaling.multiplier[0], scaling.left[0] - scaling.right[0])
    return shaped(values, output)


_REDUCED: dict[str, Any] = {"read": read_axes, "operands": (0,)}
_AXES = "any axes"
_NUMERIC = _REDUCED | {
    "types": ((*_SCALED, *NUMBERS), SAME),
    "host": f"{_AXES}: int8, int16, int32, int64, float32",
}
_PIXELS = "over rows, columns or both of an image, over rows of 3 dimensions"

OPERATORS = (
    Operator(
        kind="MEAN",
        shapes=reduced,
        kernel=by_type(int8=_run_mean, int16=_run_mean, plain=_run_plain_mean),
        lower=_lower_sum,
        gradient=gradients.mean,
        factors=quotients,
        core=f"{_PIXELS}, over channels",
        **_NUMERIC,
    ),
    Operator(
        kind="SUM",
        shapes=_sum_shapes,
        kernel=by_type(int8=_run_sum, int16=_run_sum, plain=_by_steps(np.add)),
        unsigned=True,
        lower=_lower_sum,
        factors=quotients,
        core=f"{_PIXELS}, over channels; factors whose rounding 31 bits can reproduce",
        **_NUMERIC,
    ),
    Operator(
        kind="REDUCE_PROD",
        shapes=_product_shapes,
        kernel=by_type(**dict.fromkeys(_SCALED, _run_product), plain=_by_steps(np.multiply)),
        **_NUMERIC,
    ),
    *(
        Operator(
            kind=kind,
            shapes=reduced,
            types=(("int8", "uint8", "int16", *NUMBERS), SAME),
            keeps_scale=True,
            kernel=_by_steps(choose),
            lower=_lower_extreme if kind == "REDUCE_MAX" else None,
            core=_PIXELS if kind == "REDUCE_MAX" else None,
            host=f"{_AXES}, of one scale and zero point",
            **_REDUCED,
        )
        for kind, choose in (("REDUCE_MAX", np.maximum), ("REDUCE_MIN", np.minimum))
    ),
    *(
        Operator(
            kind=kind,
            shapes=reduced,
            types=(("bool",), SAME),
            kernel=_by_steps(combine),
            host=_AXES,
            **_REDUCED,
        )
        for kind, combine in (("REDUCE_ALL", np.logical_and), ("REDUCE_ANY", np.logical_or))
    ),
)
