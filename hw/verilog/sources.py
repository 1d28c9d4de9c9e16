"""Python source lines of the signals of a Verilog text."""

import re
from pathlib import Path
from typing import NamedTuple

import celosia.hw

_ROOT = Path(celosia.hw.__file__).parent.parent
_SOURCE = re.compile(r'\(\* src = "([^"]*)" \*\) ?')
_MODULE = re.compile(r"module \\?(\S+?) ?\(")
_DECLARATION = re.compile(
    r"\s*(wire|reg|input|output|inout)\b(?: signed)?(?: \[[^]]*\])? \\?(\S+?) ?[;=]"
)
#: File whose lines stand for signals declared elsewhere: the line of the module is more useful.
HELPERS = ("hw/lib/fanout.py",)


class Source(NamedTuple):
    """Declaration of a signal, as ``file:line``, and whether its module assigns it."""

    place: str
    assigned: bool


def separate(text: str) -> tuple[str, dict[str, Source]]:
    """Return Verilog without source attributes, and the sources.

    Parameters
    ----------
    text : str
        As Amaranth writes it with ``emit_src``.

    Returns
    -------
    text : str
        As Amaranth writes it without.
    sources : dict of str to Source
        Of each signal that is no input of its module, by the instances down to it below the top and
        its name, joined by dots.
    """
    sources: dict[str, Source] = {}
    inputs: set[str] = set()
    path, latest, own = "", "", ""
    for line in text.split("\n"):
        if line.startswith("module "):
            match = _MODULE.match(line)
            assert match is not None
            path = match[1].partition(".")[2]
            own = latest
        elif (found := _SOURCE.search(line)) and not line.rpartition("*)")[2].strip():
            latest = found[1]
        elif match := _DECLARATION.match(line):
            place = shortened(latest)
            if place.partition(":")[0] in HELPERS:
                place = shortened(own)
            name = f"{path}.{match[2]}" if path else match[2]
            if match[1] == "input":
                inputs.add(name)
            elif name not in inputs:
                sources[name] = Source(place, match[1] == "reg")
    bare = ((_SOURCE.sub("", line), line) for line in text.split("\n"))
    return "\n".join(line for line, was in bare if line.strip() or not was.strip()), sources


def shortened(place: str) -> str:
    """Return ``file:line`` with the file as seen from the top of its package."""
    path = Path(place)
    if path.is_relative_to(_ROOT / "hw"):
        return str(path.relative_to(_ROOT))
    return "/".join(path.parts[-3:])
