"""Rewritings of a graph that save work and change no byte of its results.

Converters write some operators as chains of others. Each rule here finds one such chain by its last
operator, and returns its replacement; operations without readers are then left out.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from celosia.sw.compiler.shapes import RESHAPES
from celosia.sw.compiler.tables import BYTES
from celosia.sw.ir.graph import Graph, Operation, Tensor
from celosia.sw.operators.host import evaluate
from celosia.sw.operators.registry import OPERATORS

#: Operators that change the type or the scale of each element.
_CONVERSIONS = ("DEQUANTIZE", "QUANTIZE")
_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")


class _Rewriting:
    """A graph during its rewriting."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tensors = list(graph.tensors)
        self.operations = list(graph.operations)

    def maker(self, number: int, *kinds: str) -> Operation | None:
        """Return the operation that makes a tensor, if it is of one of the kinds."""
        found = (o for o in self.operations if number in o.outputs)
        operation = next(found, None)
        return operation if operation is not None and operation.kind in kinds else None

    def read_once(self, number: int) -> bool:
        """Return whether one operation reads a tensor, once, and it is no output of the model."""
        count = sum(operation.inputs.count(number) for operation in self.operations)
        return count == 1 and number not in self.graph.outputs

    def shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self.tensors[number].shape

    def fresh(self, like: int, shape: Sequence[int], data: np.ndarray | None = None) -> int:
        """Return the number of a new tensor, of the type and quantisation of another."""
        old = self.tensors[like]
        self.tensors.append(Tensor(old.name, tuple(shape), old.dtype, old.quantization, data))
        return len(self.tensors) - 1

    def put(self, last: Operation, new: Sequence[Operation]) -> None:
        """Replace an operation by others, and leave out operations without readers."""
        place = self.operations.index(last)
        self.operations[place : place + 1] = new
        orphans = [number for number in last.inputs if number != -1]
        while orphans:
            number = orphans.pop()
            read = any(number in operation.inputs for operation in self.operations)
            maker = next((o for o in self.operations if number in o.outputs), None)
            ends = self.graph.outputs
            if maker is None or read or any(n in ends for n in maker.outputs):
                continue
            if not any(n in o.inputs for n in maker.outputs for o in self.operations):
                self.operations.remove(maker)
                orphans += [n for n in maker.inputs if n != -1]

    def finished(self) -> Graph:
        """Return the graph."""
        return replace(self.graph, tensors=tuple(self.tensors), operations=tuple(self.operations))


_Rule = Callable[[_Rewriting, Operation], Sequence[Operation] | None]


def simplified(graph: Graph) -> Graph:
    """Return a graph of fewer operators, with the same outputs."""
    state = _Rewriting(graph)
    while any(_apply(state)):
        pass
    return (
        state.finished()
        if len(state.tensors) > len(graph.tensors) or (state.operations != list(graph.operations))
        else graph
    )


def _apply(state: _Rewriting) -> Iterator[bool]:
    """Try each rule on each operation; yield True after the first one that finds its chain."""
    for operation in state.operations:
        for rule in _RULES.get(operation.kind, ()):
            new = rule(state, operation)
            if new is not None:
                state.put(operation, new)
                yield True
                return


def _reshape(state: _Rewriting, place: int, source: int, result: int) -> Operation:
    return Operation("RESHAPE", place, (source,), (result,))


def _two_reshapes(state: _Rewriting, last: Operation) -> list[Operation] | None:
    """Rewrite two reshapes as one."""
    first = state.maker(last.inputs[0], *RESHAPES)
    if first is None:
        return None
    return [_reshape(state, last.place, first.inputs[0], last.outputs[0])]


def _nothing(state: _Rewriting, last: Operation) -> list[Operation] | None:
    """Leave out a reshape or transpose that changes nothing, if others read its result."""
    source, result = last.inputs[0], last.outputs[0]
    order = last.attributes.get("permutation", ())
    same = state.shape(source) == state.shape(result) and list(order) == sorted(order)
    if not same or result in state.graph.outputs:
        return None
    for place, reader in enumerate(state.operations):
        inputs = tuple(source if number == result else number for number in reader.inputs)
        if inputs != reader.inputs:
            state.operations[place] = replace(reader, inputs=inputs)
    return []


def _two_transposes(state: _Rewriting, last: Operation) -> list[Operation] | None:
    """Rewrite two transposes as one."""
    first = state.maker(last.inputs[0], "TRANSPOSE")
    if first is None:
        return None
    order = first.attributes["permutation"]
    both = tuple(order[axis] for axis in last.attributes["permutation"])
    return [replace(last, inputs=first.inputs, attributes={"permutation": both})]


def _transpose_of_ones(state: _Rewriting, last: Operation) -> list[Operation] | None:
    """Rewrite a transpose that only moves dimensions of 1 as a reshape."""
    shape = state.shape(last.inputs[0])
    moved = [axis for axis in last.attributes["permutation"] if shape[axis] != 1]
    if moved != sorted(moved) or state.shape(last.outputs[0]) == shape:
        return None
    return [_reshape(state, last.place, last.inputs[0], last.outputs[0])]


def _transposed_rows(state: _Rewriting, last: Operation) -> list[Operation] | None:
    """Rewrite TRANSPOSE, reshape, FULLY_CONNECTED: the weights are permuted instead."""
    reshape = state.maker(last.inputs[0], *RESHAPES)
    transpose = reshape and state.maker(reshape.inputs[0], "TRANSPOSE")
    weights = state.tensors[last.inputs[1]]
    if reshape is None or transpose is None or weights.data is None:
        return None
    order, shape = transpose.attributes["permutation"], state.shape(transpose.outputs[0])
    rows = shape[0], math.prod(shape[1:])
    if order[0] != 0 or state.shape(reshape.outputs[0]) != rows or weights.shape[1] != rows[1]:
        return None
    inverse = [order.index(axis) for axis in range(len(order))]
    data = weights.data.reshape(-1, *shape[1:]).transpose(inverse)
    number = state.fresh(last.inputs[1], weights.shape, data.reshape(weights.shape))
    source = state.fresh(reshape.outputs[0], rows)
    return [
        _reshape(state, reshape.place, transpose.inputs[0], source),
        replace(last, inputs=(source, number, *last.inputs[2:])),
    ]


def _turned_matrices(state: _Rewriting, last: Operation) -> list[Operation] | None:
    """Rewrite BATCH_MATMUL of a transpose that swaps the last dimensions: it reads them swapped."""
    for side, flag in enumerate(("adj_x", "adj_y")):
        transpose = state.maker(last.inputs[side], "TRANSPOSE")
        if transpose is None:
            continue
        *others, last_but_one, final = transpose.attributes["permutation"]
        if last_but_one < final:
            continue
        order = (*others, final, last_but_one)
        shape = state.shape(transpose.inputs[0])
        result = state.fresh(transpose.outputs[0], [shape[axis] for axis in order])
        inputs = tuple(result if n == side else x for n, x in enumerate(last.inputs))
        attributes = last.attributes | {flag: not last.attributes[flag]}
        return [
            replace(transpose, outputs=(result,), attributes={"permutation": order}),
            replace(last, inputs=inputs, attributes=attributes),
        ]
    return None


def _dilated(state: _Rewriting, last: Operation) -> list[Operation] | None:
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
    said, blocks = layer.attributes, first.attributes["blocks"]
    plain = (said["padding"], *said["stride"], *said["dilation"]) == ("VALID", 1, 1, 1, 1)
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
    state: _Rewriting,
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
        new.append(_reshape(state, places.pop(), first.inputs[0], source))
        target = state.fresh(last.outputs[0], (result[0], 1, *result[1:]))
    if any(map(any, margins)):
        around = [(0, 0), *margins, (0, 0)]
        extents = [n + sum(each) for n, each in zip(image, around, strict=True)]
        padded, meaning = state.fresh(source, extents), state.tensors[source].quantization
        said = {
            "before": tuple(each[0] for each in around),
            "after": tuple(each[1] for each in around),
            "value": meaning.zero_point if meaning else 0,
        }
        new.append(Operation("PAD", places.pop(), (source,), (padded,), said))
        source = padded
    inputs = (source, *layer.inputs[1:])
    attributes = layer.attributes | {"dilation": dilation}
    new.append(replace(layer, inputs=inputs, outputs=(target,), attributes=attributes))
    if after:
        new.append(_reshape(state, places.pop(), target, last.outputs[0]))
    return new


def _nearest(state: _Rewriting, last: Operation) -> list[Operation] | None:
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
            said = {"align_corners": False, "half_pixel_centers": False}
            return [
                Operation("RESIZE_NEAREST_NEIGHBOR", last.place, expand.inputs, last.outputs, said)
            ]
    return None


def _function(state: _Rewriting, last: Operation) -> list[Operation] | None:
    """Rewrite operators that compute each element from one int8 as a table of 256 entries.

    For instance x · LOGISTIC(x), or functions of float32 between DEQUANTIZE and QUANTIZE.
    """
    found = _pointwise(state, last)
    if found is None:
        return None
    source, chain = found
    ends = [state.tensors[number] for number in (source, last.outputs[0])]
    if len({(each.shape, each.dtype) for each in ends}) > 1:
        return None
    if any(each.quantization is None or len(each.quantization.scales) > 1 for each in ends):
        return None
    shape = BYTES.shape
    tensors = dict(enumerate(state.tensors))
    tensors[source] = replace(ends[0], shape=shape, data=BYTES.astype(np.int8))
    for operation in chain:
        (number,) = operation.outputs
        tensors[number] = replace(tensors[number], shape=shape, data=None)
        results = evaluate(tensors, operation)
        assert results
        tensors[number] = replace(tensors[number], data=results[0].reshape(shape))
    entries = tensors[last.outputs[0]].data
    assert entries is not None
    said = {"entries": tuple(entries.tolist())}
    return [Operation("LookupTable", last.place, (source,), last.outputs, said)]


def _pointwise(state: _Rewriting, last: Operation) -> tuple[int, list[Operation]] | None:
    """Return the nearest tensor of which an operation's result is a function, element by element.

    Returns also the operations of the function, in order: two at least, or one that reads the
    tensor twice. None if there is no such tensor.
    """
    if not _is_pointwise(state, last):
        return None
    order = {number: n for n, o in enumerate(state.operations) for number in o.outputs}
    chain, sources = [last], _computed(state, last)
    while (
        len(sources) > 1
        or (len(chain) == 1 and last.inputs.count(*sources) < 2)
        or any(state.tensors[number].dtype != np.int8 for number in sources)
    ):
        latest = max(sources, key=lambda number: order.get(number, -1))
        operation = state.operations[order[latest]] if latest in order else None
        if operation is None or not _is_pointwise(state, operation):
            return None
        chain.insert(0, operation)
        sources = sources - {latest} | _computed(state, operation)
    return (*sources, chain) if sources else None


def _computed(state: _Rewriting, operation: Operation) -> set[int]:
    """Return the inputs of an operation that are not constant."""
    return {n for n in operation.inputs if n != -1 and state.tensors[n].data is None}


def _is_pointwise(state: _Rewriting, operation: Operation) -> bool:
    """Return whether an operation makes each element of one element of each computed input."""
    record = OPERATORS.get(operation.kind)
    if record is None or record.kernel is None:
        return False
    result = state.shape(operation.outputs[0])
    alike = all(state.shape(number) == result for number in _computed(state, operation))
    numbers = set(operation.inputs) - _computed(state, operation) - {-1}
    single = all(state.tensors[number].elements == 1 for number in numbers)
    return alike and single and (record.table is not None or operation.kind in _CONVERSIONS)


#: Rules by the kind of the last operator of their chains.
_RULES: dict[str, tuple[_Rule, ...]] = {
    **dict.fromkeys(RESHAPES, (_nothing, _two_reshapes, _nearest)),
    "TRANSPOSE": (_nothing, _two_transposes, _transpose_of_ones),
    "BATCH_MATMUL": (_turned_matrices,),
    **dict.fromkeys(("ADD", "MUL", "QUANTIZE", "SUB"), (_function,)),
    "FULLY_CONNECTED": (_transposed_rows,),
    "BATCH_TO_SPACE_ND": (_dilated,),
}
