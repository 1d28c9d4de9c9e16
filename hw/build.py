"""Verilog of a core, and what it depends on."""

import hashlib
import re
from importlib.metadata import version
from pathlib import Path

from amaranth.back import verilog as backend
from amaranth.lib.wiring import Component

from celosia.hw.arch.config import Config
from celosia.hw.core import Core
from celosia.hw.top import Top

TOP = "celosia"

#: Files that read the core, and do not make it.
_APART = ("synthesis.py", "folded.py", "reference.py")


#: A block that sets every word of a memory to zero, one statement a word.
_ZEROS = re.compile(
    r"initial begin\n\s+(\S+)\[0\] = (\d+'[dh]0+);\n(?:\s+\1\[(\d+)\] = \2;\n)+\s+end\n"
)


def convert(component: Component) -> str:
    """Return the Verilog of a component, memories of zeros said in one line each.

    Amaranth writes a statement for each word: a third of a million for a core of 16 × 16, which
    simulators and synthesis then read.
    """

    def loop(match: re.Match[str]) -> str:
        name, zero, last = match.groups()
        return (
            f"initial begin : zeros_of_{name}\n    integer place;\n"
            f"    for (place = 0; place <= {last}; place = place + 1) {name}[place] = {zero};\n  end\n"
        )

    return _ZEROS.sub(loop, backend.convert(component, name=TOP, emit_src=False))


def verilog(config: Config) -> str:
    """Return the Verilog of a core; its top module is ``celosia``, see ``Top``."""
    return convert(Top(Core(config=config)))


def sources_digest() -> str:
    """Return a digest of everything that decides the Verilog, sizes apart.

    Saves elaborating a core just to learn that it was built before.
    """
    digest = hashlib.sha256(version("amaranth").encode())
    room = Path(__file__).parent
    for path in sorted(room.rglob("*.py")):
        if path.name in _APART:
            continue
        digest.update(str(path.relative_to(room)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
