"""Lowering of a graph to the layers that the core runs.

Reshapes and paddings move nothing: they are views of a value, and padding becomes bytes around it.
Maxima and activations after a product become part of it.
"""

from collections.abc import Sequence

from celosia.sw.ir.graph import Graph
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.lowering import Lowering
from celosia.sw.layers.network import Network
from celosia.sw.layers.spec import Layer, MatrixLayer, Sum
from celosia.sw.operators.registry import OPERATORS


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
    return lowering.network(in_order(lowering.layers), outputs)


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
