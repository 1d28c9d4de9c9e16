"""All operators, by kind."""

from importlib import import_module

from celosia.sw.layers.record import Operator

#: Modules with records of operators.
_FAMILIES = (
    "arithmetic",
    "batches",
    "casts",
    "choices",
    "comparisons",
    "copies",
    "detection",
    "dynamic",
    "elementwise",
    "extremes",
    "floats",
    "functions",
    "gather",
    "joins",
    "lstm",
    "matrix",
    "normalisation",
    "onnxruntime",
    "permute",
    "pointwise",
    "pooling",
    "reductions",
    "resize",
    "rnn",
    "scans",
    "shifted",
    "step_groups",
    "step_windows",
    "slices",
    "softmax",
    "static",
    "step_errors",
    "svdf",
    "transposed",
    "views",
)

_RECORDS = (
    record
    for family in _FAMILIES
    for record in import_module(f"celosia.sw.operators.{family}").OPERATORS
)

OPERATORS: dict[str, Operator] = {
    record.kind: record for record in sorted(_RECORDS, key=lambda record: record.kind)
}


def runs_on_host(kind: str) -> bool:
    """Return whether the host has a kernel for operators of a kind."""
    return kind in OPERATORS and OPERATORS[kind].kernel is not None
