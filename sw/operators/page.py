"""The page of all operators: where each runs, and within which limits."""

from celosia.sw.layers.record import Operator
from celosia.sw.layers.shapes import RESHAPES
from celosia.sw.operators.registry import OPERATORS

_HEAD = """# Operators

Written by `celosia report --operators`. `celosia report MODEL` shows where each operator of a
model runs.

- An operator runs on the core if it meets the limits of the third column.
- Else it runs on the host if it meets the limits of the fourth column. The program then has several
  parts: the core stops between them, and tensors go through external memory.
- An operator that meets neither is refused with its number, kind and result.

Words of the second column:

- *table*: a table of 256 entries after the clamp of a layer.
- *view*: no bytes move.
- *constant*: computed when the model is read.

These operators need neither core nor host:

- VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE, CALL_ONCE: other operators read and make the tensors
  that are kept between invocations.
- WHILE is unrolled. Its number of rounds must follow from constants, with at most 4,096 operators
  in all rounds together.
- IF is one of its branches if its condition is constant. Otherwise both branches run, and SELECT_V2
  selects the results.

Operators whose limits are *a step of training* are in the graphs of [training
steps](../design/training.md#a-step-as-a-graph), not in files.

uint8 counts as int8: a tensor of uint8 becomes int8, 128 less, when the model is read.

## Exactness

Every byte is that of LiteRT's reference kernel (`BUILTIN_REF`), with these exceptions:

| operators | bytes |
|---|---|
| CEIL, ELU, ROUND; SUM of int8 and int16 | those of the built-in kernels: there is no reference kernel, or it takes int8 for uint8 |
| EXP, LOG, SIN, COS, TANH, LOGISTIC, ELU, GELU, POW, SOFTMAX, LOG_SOFTMAX, LOCAL_RESPONSE_NORMALIZATION in float32 | correctly rounded; LiteRT's last bits depend on its C library |
| SVDF and recurrent layers in float32 | added in the order of LiteRT on x86, four numbers at a time |
| LookupTable and operators of quantised ONNX models (QLinear…, QuantizeLinear) | [those of ONNX Runtime](onnx.md) |

## All operators

| operator | runs on | limits on the core | limits on the host otherwise |
|---|---|---|---|
"""


def where(record: Operator) -> str:
    """Return the targets of an operator: core, table, view, host or constant, or two of them."""
    if record.static:
        return "constant"
    lines = []
    if record.kind in (*RESHAPES, "PAD", "PADV2"):
        lines.append("view")
    elif record.lower:
        always = record.table is not None and not record.single
        lines.append("core (table)" if always or record.kind == "PRELU" else "core")
    if record.kernel:
        lines.append("host")
    return ", ".join(lines)


def as_markdown() -> str:
    """Return the page of all operators, docs/reference/operators.md."""
    rows = [
        f"| {kind} | {where(record)} | {record.core or '—'} | {record.host or '—'} |\n"
        for kind, record in OPERATORS.items()
    ]
    return _HEAD + "".join(rows)
