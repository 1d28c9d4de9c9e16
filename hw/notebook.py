"""Tables that notebooks show of an object, as HTML."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(
    title: str, rows: Iterable[Sequence[object]], heads: Sequence[str] = (), most: int = 24
) -> str:
    """Return a table as HTML; all texts are escaped.

    Parameters
    ----------
    title : str
        Caption.
    rows : iterable of sequence
        Cells; whole numbers are shown with commas, others with six digits.
    heads : sequence of str
        Names of the columns, if any.
    most : int
        Rows that are shown; of more only their number is.

    Examples
    --------
    >>> html_table("a < b", [["x", 1000]])
    '<table><caption>a &lt; b</caption><tbody><tr><td>x</td><td>1,000</td></tr></tbody></table>'
    """
    listed = list(rows)
    head = f"<thead>{_row(heads, 'th')}</thead>" if heads else ""
    body = "".join(_row(row, "td") for row in listed[:most])
    if len(listed) > most:
        body += _row([f"… {len(listed) - most} more"], "td")
    return f"<table><caption>{escape(title)}</caption>{head}<tbody>{body}</tbody></table>"


def _row(cells: Sequence[object], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(_text(cell))}</{tag}>' for cell in cells)}</tr>"


def _text(cell: object) -> str:
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)
