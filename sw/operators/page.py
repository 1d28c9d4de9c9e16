"""The page of all operators: where each runs, and within which limits."""

from celosia.sw.compiler.shapes import RESHAPES
from celosia.sw.operators.record import Operator
from celosia.sw.operators.registry import OPERATORS

__all__ = ["as_markdown", "where"]

_HEAD = """# Operators

Written by `celosia report --operators`. `celosia report MODEL` shows where each operator of a
model runs.

Every byte is that of LiteRT's reference kernel (`BUILTIN_REF`), with four exceptions:

- CEIL, ELU and ROUND have no reference kernel, and that of SUM takes int8 for uint8: theirs are the
  bytes of the built-in kernels.
- In float32 the last bits of EXP, LOG, SIN, COS, TANH, LOGISTIC, ELU, GELU, POW, SOFTMAX, LOG_SOFTMAX
  and LOCAL_RESPONSE_NORMALIZATION depend on the C library that LiteRT runs with. Here they are
  rounded correctly.
- In float32, SVDF and the recurrent layers add in the order of LiteRT on x86, four numbers at a time.
- LookupTable and the operators of quantised ONNX models (QLinear…, QuantizeLinear): see
  [onnx.md](onnx.md).

An operator runs on the core where it meets the limits of the third column, else on the host where
it meets those of the fourth. The program then has several parts: the core stops between them, and
tensors go through external memory. An operator that meets neither is refused, with its number, kind
and result.

VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE and CALL_ONCE are no work of either: operators read and
make tensors that are kept between invocations.

IF and WHILE are none either. A WHILE is unrolled: how many rounds it takes must follow from constants,
and they may have 4,096 operators in all. An IF is one of its branches where its condition is constant;
otherwise both run, and SELECT_V2 takes the results of one.

uint8 counts as int8: it is that, 128 less, once a model is read.

- *table*: a table of 256 entries after a layer's clamp.
- *view*: no bytes move.
- *constant*: computed when the model is read.

| operator | runs on | on the core | on the host, besides |
|---|---|---|---|
"""


def where(record: Operator) -> str:
    """Return where an operator runs: core, table, view, host or constant, or two of them."""
    if record.static:
        return "constant"
    found = []
    if record.kind in (*RESHAPES, "PAD", "PADV2"):
        found.append("view")
    elif record.lower:
        always = record.table is not None and not record.single
        found.append("core (table)" if always or record.kind == "PRELU" else "core")
    if record.kernel:
        found.append("host")
    return ", ".join(found)


def as_markdown() -> str:
    """Return the page of all operators, docs/reference/operators.md."""
    rows = [
        f"| {kind} | {where(record)} | {record.core or '—'} | {record.host or '—'} |\n"
        for kind, record in OPERATORS.items()
    ]
    return _HEAD + "".join(rows)
