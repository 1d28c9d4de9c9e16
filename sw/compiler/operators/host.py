"""Operators that the host runs, on what the core leaves."""

from celosia.sw.compiler.lowering import Lowering
from celosia.sw.compiler.quantize import ends
from celosia.sw.compiler.spec import CompileError, HostStep
from celosia.sw.graph import Operation

__all__ = ["softmax"]


def softmax(lowering: Lowering, operation: Operation, label: str) -> None:
    """Leave SOFTMAX to the host, which can do what comes last."""
    graph, result = lowering.graph, operation.outputs[0]
    if lowering.readers.get(result) or result not in graph.outputs:
        raise CompileError(f"{label}: runs on the host, wanted it at the end of the model")
    lowering.views[result] = lowering.view(operation)
    lowering.host.append(
        HostStep(
            name=graph.tensors[result].name,
            kind=operation.kind,
            place=operation.place,
            output=graph.outputs.index(result),
            attributes={
                "beta": operation.attributes["beta"],
                "scale": ends(graph, operation)[0].scale,
            },
        )
    )
