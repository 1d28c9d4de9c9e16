"""First pass: from the graph to the layers that the core runs, and what the host does after it.

Reshapes and paddings move nothing: they are views of a value, padding becomes bytes around it.
Maxima and activations behind a product become part of it.
"""

from celosia.sw.compiler.lowering import Lowering
from celosia.sw.compiler.operators import OPERATORS
from celosia.sw.compiler.spec import CompileError, Network
from celosia.sw.graph import Graph

__all__ = ["lower"]


def lower(graph: Graph) -> Network:
    """Return the layers of a graph.

    Raises
    ------
    CompileError
        Naming the operator that cannot be run, and why.
    """
    lowering = Lowering(graph)
    for operation in graph.operations:
        if operation.place in lowering.fused:
            continue
        label = graph.label(operation)
        if operation.kind not in OPERATORS:
            raise CompileError(f"{label}: operator is not supported")
        OPERATORS[operation.kind](lowering, operation, label)
    return lowering.network()
