"""Functions of one int8 as tables."""

from dataclasses import replace

import numpy as np

from celosia.sw.compiler.legalise import require_defined
from celosia.sw.compiler.passes.rewriting import Rewriting
from celosia.sw.ir.graph import Operation
from celosia.sw.layers.errors import UndefinedError
from celosia.sw.layers.tables import BYTES
from celosia.sw.operators.host import evaluate
from celosia.sw.operators.registry import OPERATORS

#: Operators that change the type or the scale of each element.
_CONVERSIONS = ("DEQUANTIZE", "QUANTIZE")


def function(state: Rewriting, last: Operation) -> list[Operation] | None:
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
    graph = state.finished()
    try:
        for operation in chain:
            require_defined(graph, operation)
    except UndefinedError:
        # Refused later, with the name of the operator.
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
    attributes = {"entries": tuple(entries.tolist())}
    return [Operation("LookupTable", last.place, (source,), last.outputs, attributes)]


def _pointwise(state: Rewriting, last: Operation) -> tuple[int, list[Operation]] | None:
    """Return the nearest tensor of which an operation's result is a function, element by element.

    Returns also the operations of the function, in order: two at least, or one that reads the
    tensor twice. None if there is no such tensor.
    """
    if not is_pointwise(state, last):
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
        if operation is None or not is_pointwise(state, operation):
            return None
        chain.insert(0, operation)
        sources = sources - {latest} | _computed(state, operation)
    return (min(sources), chain) if sources else None


def _computed(state: Rewriting, operation: Operation) -> set[int]:
    """Return the inputs of an operation that are not constant."""
    return {n for n in operation.inputs if n != -1 and state.tensors[n].data is None}


def is_pointwise(state: Rewriting, operation: Operation) -> bool:
    """Return whether an operation makes each element of one element of each computed input."""
    record = OPERATORS.get(operation.kind)
    if record is None or record.kernel is None:
        return False
    result = state.shape(operation.outputs[0])
    alike = all(state.shape(number) == result for number in _computed(state, operation))
    numbers = set(operation.inputs) - _computed(state, operation) - {-1}
    single = all(state.tensors[number].elements == 1 for number in numbers)
    return alike and single and (record.table is not None or operation.kind in _CONVERSIONS)
