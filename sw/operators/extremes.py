"""MAXIMUM and MINIMUM of two operands that broadcast."""

from typing import Any

from celosia.hw.arch.isa import Mode
from celosia.sw.ir.graph import Operation
from celosia.sw.layers.lowering import Lowering, add_sum, lookup
from celosia.sw.layers.node import Node
from celosia.sw.layers.quantize import identity_scaling
from celosia.sw.layers.record import Operator
from celosia.sw.layers.tables import of_kernel
from celosia.sw.operators.elementwise import (
    BROADCAST,
    COMPLEMENT,
    PAIRS,
    REPEATED,
    addends,
    complement,
    single_constant,
    two,
)
from celosia.sw.operators.plain import greater, of_two, smaller


def _read_extreme(node: Node) -> dict[str, Any]:
    node.require_inputs(2)
    return single_constant(node.tensor(0), node.tensor(1))


def _lower_extreme(lowering: Lowering, operation: Operation) -> None:
    """Lower MAXIMUM and MINIMUM of a value and one number, or of two values.

    The least of two is the complement of the greatest of their complements.
    """
    if "constant" in operation.attributes:
        lookup(lowering, operation)
        return
    least = operation.kind == "MINIMUM"
    views = addends(lowering, operation, 0 if least else 2)
    sources = [view.value for view in views]
    if least:
        sources = [complement(lowering, operation, view) for view in views]
    same = identity_scaling()
    table = COMPLEMENT if least else None
    add_sum(
        lowering, operation, sources, (same, same, same), tail=not least, mode=Mode.MAX, table=table
    )


OPERATORS = (
    *(
        Operator(
            kind=kind,
            read=_read_extreme,
            shapes=two,
            keeps_scale=True,
            kernel=of_two(choose),
            lower=_lower_extreme,
            table=of_kernel(of_two(choose), "constant"),
            core=f"two values, or a value and a constant; {REPEATED}",
            host=f"{BROADCAST}, of one scale and zero point",
            **PAIRS,
        )
        for kind, choose in (("MAXIMUM", greater), ("MINIMUM", smaller))
    ),
)
