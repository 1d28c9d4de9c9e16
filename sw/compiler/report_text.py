"""Cost of each layer as a table for people."""

from collections import Counter
from collections.abc import Callable, Sequence
from os.path import commonprefix

from celosia.sw.compiler.report import Measured, Row, difference
from celosia.sw.ir.program import Program

#: Longest name of a layer in the table for people.
_NAME = 32

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


def _short(name: str) -> str:
    """Return a name of at most ``_NAME`` characters.

    For a name that a converter has made of many, ``a/b/Relu;a/b/BiasAdd`` for instance, the common
    prefix is left, ``a/b``; for a long path its end.
    """
    parts = name.split(";")
    if len(parts) > 1:
        name = commonprefix(parts).rpartition("/")[0] or parts[0]
    while len(name) > _NAME and "/" in name:
        name = name.partition("/")[2]
    return name if len(name) <= _NAME else "..." + name[3 - _NAME :]


def labels(names: Sequence[str]) -> list[str]:
    """Return short names; two are equal only if the full names are.

    A name that stands for several others is followed by its first component, then a number.
    """
    found = [_short(name) for name in names]
    count = Counter(found)
    first = [_short(name.partition(";")[0]) for name in names]
    found = [f if count[label] > 1 else label for label, f in zip(found, first, strict=True)]
    count, seen = Counter(found), Counter[str]()
    for n, label in enumerate(found):
        seen[label] += 1
        if count[label] > 1:
            found[n] = f"{label} #{seen[label]}"
    return found


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

    ``peak`` and ``again`` are as of ``celosia.sw.compiler.report.as_dict``.
    """
    names = [*labels([row.layer for row in table[:-1]]), table[-1].layer]
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
