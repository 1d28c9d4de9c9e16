"""All operators, by kind."""

from celosia.sw.operators import (
    arithmetic,
    batches,
    casts,
    choices,
    comparisons,
    copies,
    detection,
    elementwise,
    extremes,
    functions,
    gather,
    joins,
    lstm,
    matrix,
    normalisation,
    onnxruntime,
    permute,
    pointwise,
    pooling,
    reductions,
    resize,
    scans,
    slices,
    softmax,
    static,
    transposed,
    views,
)
from celosia.sw.operators.record import Operator

__all__ = ["OPERATORS", "runs_on_host"]

_FAMILIES = (
    arithmetic,
    batches,
    comparisons,
    casts,
    choices,
    copies,
    detection,
    elementwise,
    extremes,
    functions,
    gather,
    joins,
    lstm,
    matrix,
    normalisation,
    onnxruntime,
    permute,
    pointwise,
    pooling,
    reductions,
    resize,
    scans,
    slices,
    softmax,
    static,
    transposed,
    views,
)

OPERATORS: dict[str, Operator] = {
    record.kind: record
    for record in sorted(
        (record for family in _FAMILIES for record in family.OPERATORS),
        key=lambda record: record.kind,
    )
}


def runs_on_host(kind: str) -> bool:
    """Return whether the host has a kernel for operators of a kind."""
    return kind in OPERATORS and OPERATORS[kind].kernel is not None
