"""The page: an overview, and each file with its lines and signals."""

from collections.abc import Iterator, Sequence
from html import escape

from command_line import aligned

from coverage.summary import Counts, File, Met, Signal, Summary

_STYLE = """
body { font: 15px/1.4 sans-serif; margin: 2em; color: #222; }
pre { margin: 0; font: 13px/1.35 monospace; }
.line { display: flex; }
.number { width: 3.5em; color: #888; text-align: right; padding-right: 1em; flex: none; }
.text { white-space: pre-wrap; flex: 1 1 60%; }
.note { flex: 1 1 40%; font-size: 12px; color: #555; padding-left: 1em; }
.met { background: #dff5df; } .missed { background: #ffd9d9; } .explained { background: #fff3c9; }
.key span { padding: 1px 6px; margin-right: 1em; }
details { margin: 4px 0; } summary { cursor: pointer; }
"""

_LEGEND = (
    '<p class="key"><span class="met">branch taken</span><span class="missed">never taken, or bits '
    'that never changed both ways</span><span class="explained">not met, and explained</span>'
    "<span>no colour: no branch</span></p>"
)


def ranges(mask: int) -> str:
    """Return the bits of a mask as text.

    Examples
    --------
    >>> ranges(0b1011100)
    '6, 4:2'
    """
    texts = []
    high = mask.bit_length() - 1
    while high >= 0:
        low = high
        while low and mask >> low - 1 & 1:
            low -= 1
        texts.append(f"{high}:{low}" if high > low else str(high))
        mask &= (1 << low) - 1
        high = mask.bit_length() - 1
    return ", ".join(texts)


def _percent(met: Met) -> str:
    return f"{met.percent:.1f} %" if met.total else "–"


def _cells(counts: Counts) -> list[str]:
    cells = []
    for met in counts:
        cells += [f"{met.met}", f"{met.total}", _percent(met), f"{met.explained}", f"{met.missing}"]
    return cells


_HEADS = ("lines", "of", "", "explained", "missing", "bits", "of", "", "explained", "missing")


def table(summary: Summary, *, files: bool = False) -> str:
    """Return the overview as text: a line for each block, or for each file, and one for all."""
    rows: list[tuple[str, ...]] = [("", *_HEADS)]
    for block, held in summary.blocks.items():
        counts = sum((file.counts for file in held[1:]), held[0].counts)
        rows.append((block, *_cells(counts)))
        if files:
            rows += [(f"  {file.path.rpartition('/')[2]}", *_cells(file.counts)) for file in held]
    rows.append(("all", *_cells(summary.counts)))
    return aligned(rows)


def _note(signal: Signal) -> str:
    texts = []
    if signal.missing:
        texts.append(f"never changed: {ranges(signal.missing)}")
    if signal.explained:
        texts.append(f"explained: {ranges(signal.explained)} ({'; '.join(signal.why)})")
    if signal.constant:
        texts.append(f"constant: {ranges(signal.constant)}")
    return f"<b>{escape(signal.name)}</b> {escape('; '.join(texts))}"


def _source(file: File) -> Iterator[str]:
    notes: dict[int, list[Signal]] = {}
    for signal in file.signals:
        if signal.live & ~signal.toggled:
            notes.setdefault(signal.number, []).append(signal)
    yield f"<details><summary>{escape(file.path)}</summary><pre>"
    for number, text in enumerate(file.text, 1):
        line = file.lines.get(number)
        uncovered = notes.get(number, [])
        kind, words = "", [_note(signal) for signal in uncovered]
        if line:
            kind = "met" if line.met else "explained" if line.why else "missed"
            words += [escape(line.why)] if line.why else []
        if kind in ("", "met") and uncovered:
            kind = "missed" if any(signal.missing for signal in uncovered) else kind or "explained"
        yield (
            f'<div class="line {kind}"><span class="number">{number}</span>'
            f'<span class="text">{escape(text)}</span>'
            f'<span class="note">{"<br>".join(words)}</span></div>'
        )
    yield "</pre></details>"


def page(summary: Summary, remarks: Sequence[str]) -> str:
    """Return the page.

    ``summary``: coverage of all files; ``remarks``: descriptions of the runs, one line each.
    """
    texts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Celosia: coverage</title>',
        f"<style>{_STYLE}</style></head><body><h1>Coverage of the core</h1>",
        *(f"<p>{escape(remark)}</p>" for remark in remarks),
        f"<pre>{escape(table(summary, files=True))}</pre>",
    ]
    if summary.stale:
        stale = "".join(f"<li>{escape(key.text)}</li>" for key in summary.stale)
        texts.append(f"<h2>Explanations of nothing</h2><ul>{stale}</ul>")
    texts.append(f"<h2>Sources</h2>{_LEGEND}")
    for file in summary.files:
        texts += _source(file)
    texts.append("</body></html>\n")
    return "\n".join(texts)
