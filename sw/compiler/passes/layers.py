"""Layers that converters write as several operators."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from celosia.sw.compiler.passes.rewriting import Rewriting, reshape
from celosia.sw.ir.graph import Operation
from celosia.sw.layers.errors import ChannelError, CompileError
from celosia.sw.layers.quantize import dense_scaling
from celosia.sw.layers.shapes import RESHAPES
from celosia.sw.layers.single_scaling import product_scaling

_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")

#: Parameters of layers, by kind, of which the core may refuse some channels.
_SCALINGS = {
    "FULLY_CONNECTED": dense_scaling,
    **dict.fromkeys(("QLinearConv", "QLinearMatMul"), product_scaling),
}

#: Layers, at most, in place of one.
_MOST_LAYERS = 9


def by_channels(state: Rewriting, last: Operation) -> list[Operation] | None:
    """Rewrite a layer of which the core refuses some channels as layers of neighbouring ones.

    The host then runs those channels alone.
    """
    scale, output = _SCALINGS.get(last.kind), last.outputs[0]
    if scale is None:
        return None
    source, shape = state.tensors[last.inputs[0]], state.shape(output)
    constants = [state.tensors[number].data for number in last.inputs[1:] if number != -1]
    weights = constants[0]
    if weights is None or any(data is None for data in constants):
        return None
    grouped = weights.ndim == 4 and weights.shape[-1] != source.shape[-1]
    if grouped or "depth_multiplier" in last.attributes or source.data is not None:
        return None
    if source.dtype != np.int8:
        return None
    try:
        scale(state.finished(), last, weights.reshape(len(weights), -1))
        return None
    except CompileError as error:
        runs = _runs(error.channels if isinstance(error, ChannelError) else [], len(weights))
    if len(runs) == 1:
        return None
    new, results, place = list[Operation](), list[int](), state.place()
    for number, (first, end) in enumerate(runs):
        constant = (n if n == -1 else state.channels(n, first, end) for n in last.inputs[1:])
        results.append(state.fresh(output, (*shape[:-1], end - first), name=f"channel {first}"))
        inputs, outputs = (last.inputs[0], *constant), (results[-1],)
        new.append(replace(last, place=place + number, inputs=inputs, outputs=outputs))
    axis = {"axis": len(shape) - 1}
    return [*new, Operation("CONCATENATION", last.place, tuple(results), last.outputs, axis)]


def _runs(refused: Sequence[int], count: int) -> list[tuple[int, int]]:
    """Return runs of channels, first and end, that are refused and that are not, in turns.

    The shortest of the latter count as refused where there are too many.
    """
    marks = np.isin(np.arange(count), refused)
    while True:
        runs = list(pairwise([0, *(np.flatnonzero(np.diff(marks)) + 1).tolist(), count]))
        if len(runs) <= _MOST_LAYERS:
            return runs
        kept = [run for run in runs if not marks[run[0]]]
        first, end = min(kept, key=lambda run: run[1] - run[0])
        marks[first:end] = True


def transposed_rows(state: Rewriting, last: Operation) -> list[Operation] | None:
    """Rewrite TRANSPOSE, reshape, FULLY_CONNECTED: the weights are permuted instead."""
    shaped = state.maker(last.inputs[0], *RESHAPES)
    transpose = shaped and state.maker(shaped.inputs[0], "TRANSPOSE")
    weights = state.tensors[last.inputs[1]]
    if shaped is None or transpose is None or weights.data is None:
        return None
    order, shape = transpose.attributes["permutation"], state.shape(transpose.outputs[0])
    rows = shape[0], math.prod(shape[1:])
    if order[0] != 0 or state.shape(shaped.outputs[0]) != rows or weights.shape[1] != rows[1]:
        return None
    inverse = [order.index(axis) for axis in range(len(order))]
    data = weights.data.reshape(-1, *shape[1:]).transpose(inverse)
    number = state.fresh(last.inputs[1], weights.shape, data.reshape(weights.shape))
    source = state.fresh(shaped.outputs[0], rows)
    return [
        reshape(shaped.place, transpose.inputs[0], source),
        replace(last, inputs=(source, number, *last.inputs[2:])),
    ]


def parted(state: Rewriting, last: Operation) -> list[Operation] | None:
    """Rewrite a slice of channels of FULLY_CONNECTED: the layer has fewer of them.

    All readers of the layer's result must be such slices.
    """
    layer = state.maker(last.inputs[0], "FULLY_CONNECTED")
    if layer is None or last.inputs[0] in state.graph.outputs:
        return None
    readers = [o for o in state.operations if last.inputs[0] in o.inputs]
    if any(reader.kind != "SLICE" or not _of_channels(state, reader) for reader in readers):
        return None
    start, count = (last.attributes[name][-1] for name in ("begin", "count"))
    constants = [number for number in layer.inputs[1:] if number != -1]
    if any(state.tensors[number].data is None for number in constants):
        return None
    inputs = [n if n == -1 else state.channels(n, start, start + count) for n in layer.inputs[1:]]
    inputs = (layer.inputs[0], *inputs)
    return [replace(layer, place=last.place, inputs=inputs, outputs=last.outputs)]


def _of_channels(state: Rewriting, last: Operation) -> bool:
    """Return whether a slice takes some neighbouring channels of everything."""
    attributes = last.attributes
    whole = tuple(attributes["count"][:-1]) == state.shape(last.inputs[0])[:-1]
    plain = (
        set(attributes["stride"]) == {1} and not attributes["dropped"] and not attributes["added"]
    )
    return whole and plain and not any(attributes["begin"][:-1])


def dilated(state: Rewriting, last: Operation) -> list[Operation] | None:
    """Rewrite SPACE_TO_BATCH_ND, convolution, BATCH_TO_SPACE_ND: a dilated convolution.

    If the model has rows instead of images, there are reshapes between them.
    """
    after = state.maker(last.inputs[0], *RESHAPES)
    layer = state.maker(after.inputs[0] if after else last.inputs[0], *_CONVOLUTIONS)
    before = layer and state.maker(layer.inputs[0], *RESHAPES)
    if layer is None or (after is None) != (before is None):
        return None
    first = state.maker(before.inputs[0] if before else layer.inputs[0], "SPACE_TO_BATCH_ND")
    if first is None or not all(map(state.read_once, (*layer.outputs, last.inputs[0]))):
        return None
    attributes, blocks = layer.attributes, first.attributes["blocks"]
    steps = {*attributes["stride"], *attributes["dilation"]}
    plain = attributes["padding"] == "VALID" and steps == {1}
    shape, result = state.shape(first.inputs[0]), state.shape(last.outputs[0])
    rank = 3 if after else 4
    if not plain or blocks != last.attributes["blocks"] or len(shape) != rank:
        return None
    if len(blocks) != rank - 2:
        return None
    if before and not all(
        state.shape(one) == (rest[0], 1, *rest[1:])
        for one, rest in (
            (layer.inputs[0], state.shape(first.outputs[0])),
            (layer.outputs[0], state.shape(last.inputs[0])),
        )
    ):
        return None
    pairs = zip(first.attributes["margins"], last.attributes["margins"], strict=True)
    margins = [(a - c, b - d) for (a, b), (c, d) in pairs]
    if min(map(min, margins)) < 0:
        return None
    return _dilation(state, (first, before, layer, after, last), margins, (shape, result))


def _dilation(
    state: Rewriting,
    chain: tuple[Operation, Operation | None, Operation, Operation | None, Operation],
    margins: list[tuple[int, int]],
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> list[Operation] | None:
    """Return the operations of a dilated convolution; None if there are no numbers for them."""
    first, before, layer, after, last = chain
    (shape, result), blocks = shapes, first.attributes["blocks"]
    # Numbers of operators that are left out: each new one takes one of them.
    places = [one.place for one in (last, after) if one]
    if state.read_once(first.outputs[0]):
        places.append(first.place)
        if before and state.read_once(before.outputs[0]):
            places.append(before.place)
    wanted = 2 * (after is not None) + any(map(any, margins))
    if len(places) < wanted:
        return None
    new, source, target = list[Operation](), first.inputs[0], last.outputs[0]
    dilation, image = tuple(blocks), shape
    if after:
        dilation, image = (1, *blocks), (shape[0], 1, *shape[1:])
        margins = [(0, 0), *margins]
        source = state.fresh(source, image)
        new.append(reshape(places.pop(), first.inputs[0], source))
        target = state.fresh(last.outputs[0], (result[0], 1, *result[1:]))
    if any(map(any, margins)):
        around = [(0, 0), *margins, (0, 0)]
        extents = [n + sum(each) for n, each in zip(image, around, strict=True)]
        padded, meaning = state.fresh(source, extents), state.tensors[source].quantization
        attributes = {
            "before": tuple(each[0] for each in around),
            "after": tuple(each[1] for each in around),
            "value": meaning.zero_point if meaning else 0,
        }
        new.append(Operation("PAD", places.pop(), (source,), (padded,), attributes))
        source = padded
    inputs = (source, *layer.inputs[1:])
    attributes = layer.attributes | {"dilation": dilation}
    new.append(replace(layer, inputs=inputs, outputs=(target,), attributes=attributes))
    if after:
        new.append(reshape(places.pop(), target, last.outputs[0]))
    return new


def nearest(state: Rewriting, last: Operation) -> list[Operation] | None:
    """Rewrite EXPAND_DIMS, TILE, reshape: rows or columns repeated."""
    tile = state.maker(last.inputs[0], "TILE")
    expand = tile and state.maker(tile.inputs[0], *RESHAPES)
    if tile is None or expand is None or len(state.shape(expand.inputs[0])) != 4:
        return None
    shape, result = state.shape(expand.inputs[0]), state.shape(last.outputs[0])
    times, repeated = (
        tile.attributes["multiples"],
        [n for n in tile.attributes["multiples"] if n > 1],
    )
    ways = {2: (*shape[:2], 1, *shape[2:]), 3: (*shape[:3], 1, shape[3])}
    for axis, wide in ways.items():
        if len(repeated) != 1 or state.shape(tile.inputs[0]) != wide or times[axis] == 1:
            continue
        count = times[axis]
        wanted = tuple(n * count if each == axis - 1 else n for each, n in enumerate(shape))
        # The kernel multiplies by the inverse, in single precision.
        inverse = np.float32(shape[axis - 1]) / np.float32(wanted[axis - 1])
        places = np.floor(np.arange(wanted[axis - 1], dtype=np.float32) * inverse)
        exact = (places == np.arange(wanted[axis - 1]) // count).all()
        if result == wanted and exact:
            attributes = {"align_corners": False, "half_pixel_centers": False}
            return [
                Operation(
                    "RESIZE_NEAREST_NEIGHBOR", last.place, expand.inputs, last.outputs, attributes
                )
            ]
    return None
