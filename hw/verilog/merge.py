"""Less Verilog of a large core: equal modules made one, wires that nothing reads left out.

Amaranth writes a module for each submodule, and a wire for each field of a layout.
"""

import re
from collections import Counter

_MODULE = re.compile(r"(?ms)^module (\\\S+ |\w+) ?(\(.*?^endmodule\n)")

#: Module of an instance, two blanks from the margin.
_INSTANCE = re.compile(r"(?m)^  (\\\S+|\w+)(?= +\S+ +\()")

_IDENTIFIER = re.compile(r"\\\S+|[A-Za-z_]\w*")
_ASSIGNED = re.compile(r"  assign (\\\S+|\w+) +=.*;")
_DECLARED = re.compile(r"  wire (?:signed )?(?:\[\d+:\d+\] )?(\\\S+|\w+) *;")


def merged(text: str) -> str:
    """Return Verilog in which modules that differ in their names alone are one.

    Leaves come first: parents whose parts have become the same module may be equal, too. Names of
    instances stay.
    """
    text = _MODULE.sub(lambda match: _read(match[0]), text)
    while True:
        first: dict[str, str] = {}
        names = {}
        for name, body in _MODULE.findall(text):
            leader = first.setdefault(body, name.strip())
            if leader != name.strip():
                names[name.strip()] = leader
        if not names:
            return text
        text = _MODULE.sub(lambda match, n=names: "" if match[1].strip() in n else match[0], text)
        text = _INSTANCE.sub(lambda match, n=names: f"  {n.get(match[1], match[1])}", text)


def _read(text: str) -> str:
    """Return a module without the wires that are assigned and never read."""
    while True:
        counts = Counter(_IDENTIFIER.findall(text))
        lines = text.split("\n")
        assigned = (_ASSIGNED.fullmatch(line) for line in lines)
        alone = {match[1] for match in assigned if match and counts[match[1]] == 2}
        if not alone:
            return text
        kept = []
        for line in lines:
            match = _ASSIGNED.fullmatch(line) or _DECLARED.fullmatch(line)
            if not match or match[1] not in alone:
                kept.append(line)
                continue
            while kept and kept[-1].startswith("  (*"):
                kept.pop()
        text = "\n".join(kept)
