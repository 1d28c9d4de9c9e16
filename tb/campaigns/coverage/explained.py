"""Table of lines and bits that no run covers, with reasons: by text of lines, names of signals."""

import re
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

#: The table of this tree.
TABLE = Path(__file__).with_name("explained.toml")

_SIGNAL = re.compile(r"(?P<file>\S+): (?P<name>[^\s\[]+)(?:\[(?P<low>\d+)(?::(?P<high>\d+))?\])?")
_LINE = re.compile(r"(?P<file>\S+): (?P<text>\S.*)")


class TableError(ValueError):
    """The table is not as it must be; the message is one line."""


class Key(NamedTuple):
    """An entry: lines or signals, and the reason.

    ``text``: as in the table; ``why``: the reason; ``file``: source, from the top of the tree; a
    pattern of a shell; ``name``: text of the line, without the space around it; or name of the
    signal, a pattern; ``bits``: mask of the bits; all of them is -1. 0 for a line.
    """

    text: str
    why: str
    file: str
    name: str
    bits: int

    def line(self, file: str, text: str) -> bool:
        """Return True if the entry applies to a line."""
        return not self.bits and self.name == text.strip() and fnmatchcase(file, self.file)

    def signal(self, file: str, name: str) -> int:
        """Return the bits of a signal that it stands for, as a mask; -1 for all."""
        fits = fnmatchcase(file, self.file) and fnmatchcase(name, self.name)
        return self.bits if fits else 0


def _key(text: str, why: str, bits: bool) -> Key:
    match = (_SIGNAL if bits else _LINE).fullmatch(text)
    if match is None:
        wanted = "'file: signal[low:high]'" if bits else "'file: text of the line'"
        raise TableError(f"explanation: wanted {wanted}, got {text!r}")
    if not bits:
        return Key(text, why, match["file"], match["text"].strip(), 0)
    if match["low"] is None:
        return Key(text, why, match["file"], match["name"], -1)
    low = int(match["low"])
    high = int(match["high"] or low + 1)
    if high <= low:
        raise TableError(f"explanation: wanted bits from low up to below high, got {text!r}")
    return Key(text, why, match["file"], match["name"], (1 << high) - (1 << low))


def _entries(reason: Mapping[str, Any]) -> list[Key]:
    why = reason.get("why")
    unknown = sorted(set(reason) - {"why", "lines", "signals"})
    if not isinstance(why, str) or not why or unknown:
        raise TableError(f"explanation: wanted why, lines and signals, got {dict(reason)!r}")
    keys = []
    for name in ("lines", "signals"):
        texts = reason.get(name, [])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise TableError(f"explanation: {name}: wanted a list of texts, got {texts!r}")
        keys += [_key(text, why, name == "signals") for text in texts]
    return keys


def explanations(text: str) -> list[Key]:
    """Return the entries of a table in TOML: ``[[reason]]`` with ``why``, ``lines``, ``signals``.

    Raises ``TableError`` if it is none.

    Examples
    --------
    >>> (key,) = explanations('[[reason]]\\nwhy = "w"\\nsignals = ["hw/a.py: count[4:6]"]')
    >>> key.signal("hw/a.py", "count")
    48
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TableError(f"explanations: {error}") from None
    reasons = table.pop("reason", [])
    if table or not isinstance(reasons, list):
        raise TableError(f"explanations: wanted [[reason]] alone, got {sorted(table)}")
    return [key for reason in reasons for key in _entries(reason)]
