"""Operators that a table does."""

from celosia.sw.compiler.errors import CompileError
from celosia.sw.compiler.lowering import Lowering
from celosia.sw.compiler.quantize import identity_scaling
from celosia.sw.compiler.tables import tabulated
from celosia.sw.ir.graph import Operation

__all__ = ["function"]


def function(lowering: Lowering, operation: Operation, label: str) -> None:
    """Lower an operator whose result depends on one int8, and those of its kind that follow it."""
    if not tabulated(operation):
        raise CompileError("wanted one slope for all channels")
    view = lowering.view(operation)
    entries = lowering.table(operation)
    last, kinds, entries = lowering.looked_up(operation.outputs[0], entries)
    shape = view.height, view.width, lowering.values[view.value].channels
    kind = "+".join([operation.kind, *kinds])
    windows, scalings = lowering.each(view), [identity_scaling()]
    lowering.vector(operation, last, kind, view, windows, scalings, shape, table=entries)
