"""Parts of the text of Verilog: attributes, comments, parameters, lines of short items."""

from collections.abc import Iterable, Mapping

from celosia.hw.verilog.emitter import CLASS, FIELDS, ZEROS
from celosia.hw.verilog.sources import shortened

#: Most characters of a line of short items.
LINE = 100
#: Attributes that are no part of Verilog.
_APART = (*("src", "init", "generator", "top", "unused_bits", "full_case", "hdlname"),)
_APART += (FIELDS, CLASS, ZEROS, "module_not_derived", "cells_not_processed")


def place(attributes: Mapping[str, str]) -> str:
    """Return where something is declared, as ``file:line``; of several places the first."""
    return shortened(attributes.get("src", "").partition("|")[0])


def attributes_of(attributes: Mapping[str, str]) -> str:
    """Return attributes as Verilog has them before a declaration."""
    texts = [
        f"{key} = {literal(value)}"
        for key, value in attributes.items()
        if key not in _APART and not key.startswith("enum_")
    ]
    return f"(* {', '.join(texts)} *) " if texts else ""


def comment(attributes: Mapping[str, str]) -> str:
    """Return the comment with the source of something, and with its fields."""
    words = [place(attributes), attributes.get(FIELDS, "")]
    return f"  // {': '.join(word for word in words if word)}" if any(words) else ""


def literal(value: str) -> str:
    """Return a parameter or an attribute: bits as a number, else a string."""
    if value and set(value) <= set("01xz"):
        number = int(value, 2) if set(value) <= set("01") else None
        return f"{len(value)}'b{value}" if number is None else f"{len(value)}'d{number}"
    text = value.removesuffix(" ") if set(value.rstrip()) <= set("01xz") else value
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def wide(width: int) -> str:
    """Return the range of so many bits; nothing for one."""
    return f"[{width - 1}:0] " if width > 1 else ""


def packed(items: Iterable[str], indent: str, separator: str = ",") -> list[str]:
    """Return lines of items with a separator between them."""
    lines = [indent]
    items = list(items)
    for n, item in enumerate(items):
        text = item + separator * (n + 1 < len(items))
        if lines[-1] != indent and len(lines[-1]) + 1 + len(text) > LINE:
            lines.append(indent)
        lines[-1] += text if lines[-1] == indent else f" {text}"
    return [line for line in lines if line.strip()]
