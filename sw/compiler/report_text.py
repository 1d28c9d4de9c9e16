"""Cost of each layer as a table for people."""

from collections.abc import Callable, Sequence

from celosia.sw.compiler.report import Measured, Row, difference
from celosia.sw.ir.labels import labels
from celosia.sw.ir.program import Program
from celosia.sw.operators.work import host_share

#: Columns of texts, which are aligned to the left.
_TEXTS = ("layer", "operator", "runs on", "weights")

_Columns = dict[str, Callable[[Row], str]]
_LAYER: _Columns = {
    "operator": lambda row: row.operator,
    "runs on": lambda row: row.runs_on,
    "MACs": lambda row: f"{row.macs:,}",
    "bound": lambda row: f"{row.bound:,}",
}
_ESTIMATED: _Columns = _LAYER | {
    "cycles": lambda row: f"{row.cycles:,}",
    "per input": lambda row: f"{row.cycles_per_input:,.1f}",
    "used": lambda row: f"{row.utilisation:.1%}",
    "bytes": lambda row: f"{row.bytes:,}",
    "once": lambda row: f"{row.setup_bytes:,}",
    "weights": lambda row: row.weights,
}
_MEASURED: _Columns = _LAYER | {
    "estimate": lambda row: f"{row.estimated_alone or 0:,}",
    "measured": lambda row: f"{row.counted_alone or 0:,}",
    "difference": lambda row: f"{row.difference or 0.0:+.1%}",
}


def as_text(
    program: Program,
    table: Sequence[Row],
    setup_cycles: int,
    measured: Measured | None = None,
    *,
    peak: int,
    again: int = 0,
) -> str:
    """Return the rows as a table for people, with counts of the RTL if given.

    ``peak`` and ``again`` are as in ``celosia.sw.compiler.report.as_dict``.
    """
    layers = table[:-1]
    names = labels([row.layer for row in layers], [row.operator for row in layers])
    names.append(table[-1].layer)
    title = f"{program.name} on {program.config.name}, batch {program.batch}"
    if measured:
        title += "; cycles of each layer on its own"
        foot = [
            f"{name}: estimated {cycles.estimated:,}, measured {cycles.counted:,} cycles "
            f"({difference(cycles):+.1%})"
            for name, cycles in (
                ("whole program", measured.whole),
                ("one-time load", measured.setup),
            )
        ]
        columns = _MEASURED
    else:
        title += "; cycles are estimates"
        foot = [f"one-time load: {setup_cycles:,} cycles"]
        columns = _ESTIMATED
    pairs = zip(names, table, strict=True)
    cells = [[name, *(show(row) for show in columns.values())] for name, row in pairs]
    lines = _lines(["layer", *columns], cells)
    notes = [f"{name}: {row.note}" for name, row in zip(names, table, strict=True) if row.note]
    if again:
        notes.append(f"loaded again for each batch, between parts: {again:,} of the cycles")
    if share := host_share(program):
        notes.append(share)
    notes.append(f"unified buffer: {peak:,} of {program.config.unified_bytes:,} bytes")
    return "\n".join([title, "", *lines, "", *notes, *foot, ""])


def _lines(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    """Return a table with a line before its last row."""
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]

    def line(words: Sequence[str]) -> str:
        padded = (
            word.ljust(width) if head in _TEXTS else word.rjust(width)
            for head, word, width in zip(heads, words, widths, strict=True)
        )
        return "  ".join(padded).rstrip()

    rule = "-" * (sum(widths) + 2 * len(widths) - 2)
    body = [line(row) for row in cells]
    return [line(heads), rule, *body[:-1], rule, body[-1]]
