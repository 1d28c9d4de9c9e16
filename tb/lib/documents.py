"""Code blocks of the pages, with the marker that stands before a block which is not simply run.

Markers are comments of one line:

======================= ===========================================================
``<!-- slow -->``       run by the slow tests only
``<!-- file: NAME -->`` content of a file that later blocks use
``<!-- run by FILE -->`` run by another test, which names the page
``<!-- excerpt of FILE -->`` part of a source file, compared with it
``<!-- not run: REASON -->`` cannot run here; ``REASONS`` has the reasons
======================= ===========================================================
"""

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from celosia.hw.arch import isa
from celosia.sw.cli import main

#: Languages of blocks; ``text`` is a diagram or the output of a program.
LANGUAGES = ("asm", "c", "console", "python", "text", "toml", "verilog")

REASONS = {
    "board": "needs a board, or the tools that build for it",
    "extra": "needs an optional package and minutes; the page's own test runs the like",
    "hours": "takes hours",
    "install": "installs packages",
    "sets": "needs data sets that are not part of Celosia; another test runs the like",
    "make": "runs this test among others",
    "writes": "changes the working tree",
}

_BLOCK = re.compile(
    r"^(?:<!-- *(?P<marker>[^\n]*?) *-->\n)?```(?P<language>[^\n]*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A fenced code block: its line in the page, marker, argument of the marker, language, text."""

    line: int
    marker: str
    argument: str
    language: str
    text: str


def blocks(page: str) -> list[Block]:
    """Return the code blocks of a page, in order."""
    found = []
    for match in _BLOCK.finditer(page):
        marker = re.fullmatch(
            r"(slow|file|run by|excerpt of|not run)(?:: *| +|$)(.*)", match["marker"] or ""
        )
        kind, argument = marker.groups() if marker else ("", "")
        line = page.count("\n", 0, match.start("language")) + 1
        found.append(Block(line, kind, argument, match["language"], match["text"]))
    return found


def shell_commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a console block with the lines of output that the page shows."""
    command, output = "", []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            if command:
                yield command, output
            command, output = line[2:].split(" #")[0].strip(), []
        else:
            output.append(line)
    if command:
        yield command, output


def _celosia(words: list[str]) -> str:
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main(words)
    assert code == 0, f"celosia {shlex.join(words)}: {errors.getvalue()}"
    return out.getvalue()


def _run_command(command: str) -> str:
    words = shlex.split(command)
    target = words[words.index(">") + 1] if ">" in words else None
    words = words[: words.index(">")] if target else words
    if words[0] in ("celosia", ".venv/bin/celosia"):
        out = _celosia(words[1:])
    elif words[0] in ("python", ".venv/bin/python"):
        done = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        out = done.stdout
    elif words[0] == "cat":
        out = "".join(Path(name).read_text(encoding="utf-8") for name in words[1:])
    else:
        raise AssertionError(f"no way to run {words[0]!r}: mark the block, or use celosia, python")
    if target:
        Path(target).write_text(out, encoding="utf-8")
    return out


def _run_console(text: str) -> None:
    for command, wanted in shell_commands(text):
        got = [line.rstrip() for line in _run_command(command).splitlines()]
        for line in wanted:
            assert line == "..." or line.rstrip() in got, f"{command}: wanted {line!r}, got {got}"


def run_blocks(found: list[Block]) -> None:
    """Run the blocks of a page in the current folder, in order, Python with one namespace.

    Raises ``AssertionError`` if a command fails, or its output lacks a line of the page.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in found:
        if block.marker == "file":
            Path(block.argument).write_text(block.text, encoding="utf-8")
        if block.marker not in ("", "slow", "file") or block.language == "text":
            continue
        if block.language == "console":
            _run_console(block.text)
        elif block.language == "asm":
            isa.assemble(block.text)
        elif block.marker != "file":
            exec(compile(block.text, f"line {block.line}", "exec"), names)
