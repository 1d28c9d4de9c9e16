"""Check of the prose: lines and words of the pages, first words of the docstrings.

``python tb/prose.py`` prints each finding, and the docstrings of each package that begin with a
word such as "What" or "Whether". The rules are in ``tb/prose.toml``.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RULES = tomllib.loads((ROOT / "tb" / "prose.toml").read_text(encoding="utf-8"))

_CODE = re.compile(r"`[^`\n]+`|\]\([^)\s]+\)|<!--.*?-->|https?://\S+")
_WORDS = {
    re.compile(rf"\b(?:{word})\b", re.IGNORECASE): instead
    for word, instead in RULES["words"].items()
}
_FENCE = re.compile(r"\s*(```|~~~)")


def pages(root: Path = ROOT) -> list[Path]:
    """Return the pages that the rules name, in order."""
    return [page for pattern in RULES["pages"] for page in sorted(root.glob(pattern))]


def prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line outside of code blocks."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield number, line


def is_long(line: str) -> bool:
    """Return True for a line past the limit that is no table and could be broken."""
    table = line.lstrip().startswith("|")
    words = line.strip().removeprefix("- ").split()
    return len(line) > RULES["columns"] and not table and len(words) > 1


def findings(text: str) -> Iterator[tuple[int, str]]:
    """Yield line number and message of each finding in a page."""
    for number, line in prose_lines(text):
        if is_long(line):
            yield number, f"line: wanted at most {RULES['columns']} characters, got {len(line)}"
        for pattern, instead in _WORDS.items():
            for match in pattern.finditer(_CODE.sub(" ", line)):
                yield number, f"word: got {match[0]!r}, wanted one of: {instead}"


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield line number and text of each docstring of a module."""
    kinds = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text


def wrong_first_words(source: str) -> list[tuple[int, str]]:
    """Return line number and first line of the docstrings that begin with a question word."""
    return [
        (number, text.splitlines()[0])
        for number, text in docstrings(source)
        if text.split(maxsplit=1)[0].strip(",:") in RULES["first_words"]
    ]


def packages(root: Path = ROOT) -> dict[str, list[Path]]:
    """Return the Python files of each folder, by its path."""
    found: dict[str, list[Path]] = {}
    for top in ("hw", "sim", "sw", "tb"):
        for file in sorted((root / top).rglob("*.py")):
            found.setdefault(file.parent.relative_to(root).as_posix(), []).append(file)
    return found


def main() -> int:
    """Print all findings; return 1 if there are any."""
    wrong = 0
    for page in pages():
        for number, message in findings(page.read_text(encoding="utf-8")):
            wrong += 1
            print(f"{page.relative_to(ROOT)}:{number}: {message}")
    for files in packages().values():
        for file in files:
            for number, line in wrong_first_words(file.read_text(encoding="utf-8")):
                wrong += 1
                print(f"{file.relative_to(ROOT)}:{number}: first word: {line}")
    print(f"{wrong} findings")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
