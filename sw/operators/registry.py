"""All operators, by kind."""

from celosia.sw.operators import (
    elementwise,
    functions,
    joins,
    matrix,
    permute,
    pointwise,
    pooling,
    reductions,
    resize,
    slices,
    softmax,
    static,
    views,
)
from celosia.sw.operators.record import Operator

__all__ = ["OPERATORS"]

_FAMILIES = (
    elementwise,
    functions,
    joins,
    matrix,
    permute,
    pointwise,
    pooling,
    reductions,
    resize,
    slices,
    softmax,
    static,
    views,
)

OPERATORS: dict[str, Operator] = {
    record.kind: record
    for record in sorted(
        (record for family in _FAMILIES for record in family.OPERATORS),
        key=lambda record: record.kind,
    )
}
