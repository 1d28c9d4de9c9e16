"""Lowering of a graph to the layers that the core runs.

Reshapes and paddings move nothing: they are views of a value, and padding becomes bytes around it.
Maxima and activations after a product become part of it.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from celosia.sw.ir.graph import Graph
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.lowering import Lowering
from celosia.sw.layers.network import Network
from celosia.sw.layers.spec import DynamicProduct, Layer, MatrixLayer, Padded, Sum
from celosia.sw.layers.values import Value
from celosia.sw.operators.registry import OPERATORS

#: Ways to load values again, tried in turn: those of so many bytes that no layer reads in so many
#: layers. Those of ``_STORED`` bytes are stored in any case.
RELOADS = (1 << 11, 12), (1 << 11, 5), (1 << 9, 12), (1 << 9, 5)
_STORED = 1 << 8


def lower(graph: Graph, items: int | None = None) -> Network:
    """Return the layers of a graph, or of a part of one whose batch is ``items``.

    Raises CompileError if an operator cannot run; the message names it and the reason.
    """
    lowering = Lowering(graph, OPERATORS, items)
    for operation in graph.operations:
        if operation.place in lowering.fused:
            continue
        label = graph.label(operation)
        try:
            record = OPERATORS.get(operation.kind)
            if record is None or record.lower is None:
                raise CompileError("operator is not supported")
            record.lower(lowering, operation)
        except CompileError as error:
            raise error.at(label, operation.place) from None
    outputs = lowering.finish()
    layers = onto_grids(lowering, early_copies(in_order(lowering.layers)))
    return _in_place(lowering.network(layers, outputs), graph)


def onto_grids(lowering: Lowering, layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Return layers without the copies to grids that are not needed.

    Inputs are loaded to their grids, and products write results to a grid that nothing else reads.
    """
    users = Counter(value for x in layers for value in {*x.sources, x.result})
    makers = {x.result: n for n, x in enumerate(layers)}
    result = dict(enumerate(layers))
    for place, layer in enumerate(layers):
        if not isinstance(layer, Padded) or layer.grid.diagonal or layer.grid.stride != (1, 1):
            continue
        if not layer.seen:
            continue
        rows, columns, channels = layer.seen
        image = rows // layer.grid.images, columns
        if layer.source not in makers and _is_loaded(lowering.values, layer, image):
            del result[place]
            continue
        maker = layers[makers.get(layer.source, place)]
        if users[layer.source] == 2 and isinstance(maker, DynamicProduct):
            alike = (math.prod(maker.output), maker.channels) == (rows * columns, channels)
            image = maker.image if maker.grid else image
            if alike and not maker.shares and not lowering.values[layer.source].is_output:
                output = 1, layer.grid.pixels
                fields = {"result": layer.result, "grid": layer.grid, "image": image}
                result[makers[layer.source]] = replace(maker, **fields, output=output)
                del result[place]
    return tuple(result.values())


def _is_loaded(values: list[Value], layer: Padded, image: tuple[int, int]) -> bool:
    """Let an input be loaded to the grid of a copy, and to later copies of that, if it can be."""
    source, number = values[layer.source], layer.result
    copies = [number, *(n for n, value in enumerate(values) if value.original == number)]
    spread = any(values[n].spread and values[n].channels > 1 for n in copies)
    if spread or not source.is_input or source.contents is not None or source.pitch:
        return False
    original = layer.source if source.original < 0 else source.original
    place = {"original": original, "offset": source.offset, "is_input": True, "is_output": False}
    for n in copies:
        values[n] = replace(values[n], **place, grid=layer.grid, image=image)
    return True


def _in_place(network: Network, graph: Graph) -> Network:
    """Return a network whose new states take the external memory of the old ones.

    States of one row are loaded as one; nothing may load the old one after a layer begins the new.
    """
    values = list(network.values)
    for state in graph.states:
        old, new = network.inputs.get(state.tensor, -1), network.outputs.get(state.successor, -1)
        if old == new or -1 in (old, new) or values[new].is_input or values[new].original >= 0:
            continue
        first = old if values[old].original < 0 else values[old].original
        copies = [n for n, v in enumerate(values) if first in (n, v.original)]
        sizes = {values[n].bytes_per_item for n in (old, new)}
        rows = values[first].height, values[new].height
        parts = [n for n, v in enumerate(values) if v.original == new] or [new]
        if rows == (1, 1) and len(sizes) == 1 and not values[first].is_output:
            if all(_is_read_before(network, part, copies) for part in parts):
                for number in {new, *parts}:
                    values[number] = replace(values[number], original=first)
    return replace(network, values=tuple(values))


def _is_read_before(network: Network, new: int, copies: Sequence[int]) -> bool:
    """Return whether no layer loads bytes of a value from copies after a layer begins new ones."""
    loads = [n for n, x in enumerate(network.layers) if getattr(x, "stored", -1) in copies]
    for number in copies:
        readers = network.readers[number]
        if readers and _meet(network.values[new], network.values[number]):
            loads.append(readers[0])
    return max(loads, default=0) <= min(network.makers[new])


def _meet(one: Value, other: Value) -> bool:
    """Return whether two parts of a value in external memory have bytes in common."""
    if pitch := one.pitch if one.pitch == other.pitch else 0:
        first, second = one.offset % pitch, other.offset % pitch
        return first < second + other.channels and second < first + one.channels
    return one.offset < other.end and other.offset < one.end


def with_reloads(network: Network, large: int, near: int) -> Network:
    """Return a network whose large values leave the unified buffer while no layer reads them.

    They are stored when they are made, and later loaded as other values with the same bytes.
    ``large``: their bytes, at least; ``near``: layers without a reader, at most, before they leave.
    """
    values, layers = list(network.values), list(network.layers)
    for number, value in enumerate(network.values):
        least = _STORED if value.is_output else large
        if value.contents is not None or value.bytes_per_item < least:
            continue
        current = number
        for before, after in pairwise(sorted({*network.makers[number], *network.readers[number]})):
            if after - before > near:
                original = number if value.original < 0 else value.original
                copy = replace(value, original=original, is_input=True, is_output=False)
                current = len(values)
                values.append(copy)
                if not value.is_input:
                    values[number] = replace(values[number], is_output=True)
            if current != number:
                layers[after] = _reading(layers[after], number, current)
    return replace(network, values=tuple(values), layers=tuple(layers))


def _reading(layer: Layer, old: int, new: int) -> Layer:
    """Return a layer that reads another value instead of one."""

    def value(number: int) -> int:
        return new if number == old else number

    layer = replace(layer, source=value(layer.source))
    if isinstance(layer, Sum | DynamicProduct):
        layer = replace(layer, second=value(layer.second))
    if isinstance(layer, DynamicProduct):
        addends = tuple(replace(one, value=value(one.value)) for one in layer.addends)
        layer = replace(layer, blocks=tuple(map(value, layer.blocks)), addends=addends)
    return layer


def early_copies(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Return layers with each copy to a grid right after the layer that makes its source.

    So the vector unit can copy while the array works for layers between.
    """
    result = list[Layer]()
    for layer in layers:
        place = len(result)
        if isinstance(layer, Padded):
            makers = (n for n, before in enumerate(result) if before.result == layer.source)
            place = max(makers, default=place - 1) + 1
            while place < len(result) and _joins(result[place]):
                place += 1
        result.insert(place, layer)
    return tuple(result)


def _joins(layer: Layer) -> bool:
    """Return whether a layer may run jointly with the one before it."""
    return isinstance(layer, Sum) or (isinstance(layer, DynamicProduct) and layer.shares)


def in_order(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Return layers with the longer of two matrix layers right before the sum of both.

    The sum runs jointly with the matrix layer before it, at the same time as its matrix work.
    """
    result = list(layers)
    for place in range(2, len(result)):
        first, second, last = result[place - 2 : place + 1]
        if (
            isinstance(first, MatrixLayer)
            and isinstance(second, MatrixLayer)
            and isinstance(last, Sum)
            and {first.result, second.result} == {last.source, last.second}
            and first.result != second.source
            and first.macs > second.macs
        ):
            result[place - 2], result[place - 1] = second, first
    return tuple(result)
