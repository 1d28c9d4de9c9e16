"""Reshapes, transposes and slices that need not move bytes."""

import math
from collections.abc import Sequence
from dataclasses import replace

from celosia.sw.compiler.passes.functions import is_pointwise
from celosia.sw.compiler.passes.rewriting import Rewriting, reshape
from celosia.sw.ir.graph import Operation
from celosia.sw.layers.shapes import RESHAPES, STEPS

#: Dimensions of a tensor, at most, that gets one more.
_MOST = 4


def two_reshapes(state: Rewriting, last: Operation) -> list[Operation] | None:
    """Rewrite two reshapes as one."""
    first = state.maker(last.inputs[0], *RESHAPES)
    if first is None:
        return None
    return [reshape(last.place, first.inputs[0], last.outputs[0])]


def nothing(state: Rewriting, last: Operation) -> list[Operation] | None:
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


def two_transposes(state: Rewriting, last: Operation) -> list[Operation] | None:
    """Rewrite two transposes as one."""
    first = state.maker(last.inputs[0], "TRANSPOSE")
    if first is None:
        return None
    order = first.attributes["permutation"]
    both = tuple(order[axis] for axis in last.attributes["permutation"])
    return [replace(last, inputs=first.inputs, attributes={"permutation": both})]


def transpose_of_ones(state: Rewriting, last: Operation) -> list[Operation] | None:
    """Rewrite a transpose that only moves dimensions of 1 as a reshape."""
    shape = state.shape(last.inputs[0])
    moved = [axis for axis in last.attributes["permutation"] if shape[axis] != 1]
    if moved != sorted(moved) or state.shape(last.outputs[0]) == shape:
        return None
    return [reshape(last.place, last.inputs[0], last.outputs[0])]


def turned_matrices(state: Rewriting, last: Operation) -> list[Operation] | None:
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


def reshape_later(state: Rewriting, last: Operation) -> list[Operation] | None:
    """Rewrite a function of each element of a reshape: the reshape comes after it."""
    source = last.inputs[0]
    shaped = state.maker(source, *RESHAPES)
    if shaped is None or not state.read_once(source) or not is_pointwise(state, last):
        return None
    # Another value would keep its shape.
    others = [n for n in last.inputs[1:] if n != -1]
    if any(state.tensors[number].elements != 1 for number in others):
        return None
    result = state.fresh(last.outputs[0], state.shape(shaped.inputs[0]))
    first = replace(last, inputs=(shaped.inputs[0], *last.inputs[1:]), outputs=(result,))
    return [first, reshape(shaped.place, result, last.outputs[0])]


def with_batch(state: Rewriting, last: Operation) -> list[Operation] | None:
    """Rewrite TRANSPOSE and BATCH_MATMUL so that their first dimension is a batch of 1.

    Reshapes before and after them add and remove it, or move it to another position.
    """
    shapes = [state.shape(number) for number in (*last.inputs[:2], *last.outputs)]
    if last.kind == "TRANSPOSE":
        shapes = [shapes[0], shapes[-1]]
    if not state.alone or max(map(len, shapes)) > _MOST or all(s[0] == 1 for s in shapes):
        return None
    number = state.place()
    if last.kind == "BATCH_MATMUL":
        result = state.fresh(last.outputs[0], (1, *shapes[-1]))
        read, before = list[int](), list[Operation]()
        for position, source in enumerate(last.inputs[:2]):
            data = state.tensors[source].data
            read.append(
                state.fresh(source, (1, *state.shape(source)), None if data is None else data[None])
            )
            if data is None:
                before.append(reshape(number + position, source, read[-1]))
        middle = replace(last, inputs=tuple(read), outputs=(result,))
        return [*before, middle, reshape(number + 2, result, last.outputs[0])]
    source, order = last.inputs[0], last.attributes["permutation"]
    before = []
    if shapes[0][0] != 1:
        source = state.fresh(source, (1, *shapes[0]))
        before = [reshape(number, last.inputs[0], source)]
        order = [0, *(axis + 1 for axis in order)]
    order = (0, *(axis for axis in order if axis))
    result = state.fresh(source, [state.shape(source)[axis] for axis in order])
    middle = replace(last, inputs=(source,), outputs=(result,), attributes={"permutation": order})
    return [*before, middle, reshape(number + 1, result, last.outputs[0])]


def without_ones(state: Rewriting, last: Operation) -> list[Operation] | None:
    """Rewrite a reduction of dimensions of 1 and others as one of the others."""
    source, axes = last.inputs[0], last.attributes["axes"]
    shape = state.shape(source)
    others = tuple(axis for axis in axes if shape[axis] != 1)
    if not state.alone or not others or others == tuple(axes):
        return None
    kept = state.fresh(
        last.outputs[0], [1 if n in others else extent for n, extent in enumerate(shape)]
    )
    attributes = last.attributes | {"axes": others, "keep_dims": True}
    return [
        replace(last, outputs=(kept,), attributes=attributes),
        reshape(state.place(), kept, last.outputs[0]),
    ]


def slice_first(state: Rewriting, last: Operation) -> list[Operation] | None:
    """Rewrite a slice of a transpose, or of a reshape that divides channels: the slice comes first.

    Only slices along one dimension, without others left out.
    """
    attributes, shape = last.attributes, state.shape(last.inputs[0])
    changed = [n for n, extent in enumerate(shape) if attributes["count"][n] != extent]
    if not state.alone or len(changed) != 1 or attributes["dropped"] or attributes["added"]:
        return None
    if set(attributes["stride"]) != {1}:
        return None
    transpose = state.maker(last.inputs[0], "TRANSPOSE")
    if transpose is not None:
        return _before_transpose(state, last, transpose)
    shaped = state.maker(last.inputs[0], *RESHAPES)
    if shaped is None:
        return None
    before = state.shape(shaped.inputs[0])
    found = _same_axis(before, shape, changed[0])
    # Images of a batch that are rows stay so: the core slices rows.
    is_batch = before[0] > 1 or state.maker(shaped.inputs[0], *STEPS) is not None
    images = len(before) == 4 > len(shape) and is_batch
    if found is None or images:
        return None
    axis, inner = found
    begin = tuple(
        attributes["begin"][changed[0]] * inner if n == axis else 0 for n in range(len(before))
    )
    count = tuple(
        attributes["count"][changed[0]] * inner if n == axis else extent
        for n, extent in enumerate(before)
    )
    result = state.fresh(last.outputs[0], count)
    first = replace(
        last,
        inputs=(shaped.inputs[0], *last.inputs[1:]),
        outputs=(result,),
        attributes=attributes | {"begin": begin, "count": count, "stride": (1,) * len(before)},
    )
    return [first, reshape(state.place(), result, last.outputs[0])]


def _same_axis(before: Sequence[int], after: Sequence[int], axis: int) -> tuple[int, int] | None:
    """Return the dimension before a reshape that one after it is, or is the outer part of.

    Returns also the size of the inner part. None if the reshape does more than divide the last
    dimension, or add and remove dimensions of 1.
    """
    kept = [[n for n, extent in enumerate(shape) if extent != 1] for shape in (before, after)]
    if [before[n] for n in kept[0]] == [after[n] for n in kept[1]]:
        return kept[0][kept[1].index(axis)], 1
    inner = math.prod(after[axis + 1 :])
    return (len(before) - 1, inner) if before and before[-1] == after[axis] * inner else None


def _before_transpose(state: Rewriting, last: Operation, transpose: Operation) -> list[Operation]:
    """Return the slice of a transpose's source, and the transpose of that."""
    order, attributes = transpose.attributes["permutation"], last.attributes
    inverse = [order.index(axis) for axis in range(len(order))]
    moved = {
        name: tuple(attributes[name][axis] for axis in inverse)
        for name in ("begin", "count", "stride")
    }
    result = state.fresh(last.outputs[0], moved["count"])
    first = replace(
        last,
        inputs=(transpose.inputs[0], *last.inputs[1:]),
        outputs=(result,),
        attributes=attributes | moved,
    )
    second = replace(transpose, place=state.place(), inputs=(result,), outputs=last.outputs)
    return [first, second]
