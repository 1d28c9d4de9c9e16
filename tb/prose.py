"""Check of the prose: lines of the pages; words of pages, docstrings and comments.

``python tb/prose.py`` prints each finding, and the docstrings that begin with a word such as "What"
or "Whether". The rules are in ``tb/prose.toml``.
"""

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RULES = tomllib.loads((ROOT / "tb" / "prose.toml").read_text(encoding="utf-8"))

_CODE = re.compile(r"``?[^`\n]+``?|\]\([^)\s]+\)|<!--.*?-->|https?://\S+")
_WORDS = {
    re.compile(rf"\b(?:{word})\b", re.IGNORECASE): instead
    for word, instead in RULES["words"].items()
}
_ANY = re.compile(rf"\b(?:{'|'.join(RULES['words'])})\b", re.IGNORECASE)
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
        yield from wrong_words(number, line)


def wrong_words(number: int, line: str) -> Iterator[tuple[int, str]]:
    """Yield line number and message of each refused word in a line."""
    text = _CODE.sub(" ", line)
    if _ANY.search(text):
        for pattern, instead in _WORDS.items():
            for match in pattern.finditer(text):
                yield number, f"word: got {match[0]!r}, wanted one of: {instead}"


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield line number and text of each docstring of a module."""
    kinds = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield line number and text of each comment of a module."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def module_findings(source: str) -> Iterator[tuple[int, str]]:
    """Yield line number and message of each finding in the docstrings and comments of a module."""
    described = list(docstrings(source))
    for number, text in described:
        if text.split(maxsplit=1)[0].strip(",:") in RULES["first_words"]:
            yield number, f"first word: {text.splitlines()[0]}"
    for number, text in (*described, *comments(source)):
        for offset, line in enumerate(text.splitlines()):
            yield from wrong_words(number + offset, line)


def packages(root: Path = ROOT) -> dict[str, list[Path]]:
    """Return the Python files of each folder, by its path."""
    found: dict[str, list[Path]] = {}
    for top in ("hw", "sim", "sw", "examples", "tb"):
        for file in sorted((root / top).rglob("*.py")):
            found.setdefault(file.parent.relative_to(root).as_posix(), []).append(file)
    return found


def main() -> int:
    """Print all findings; return 1 if there are any."""
    wrong = 0
    modules = [(file, module_findings) for files in packages().values() for file in files]
    for file, check in [*((page, findings) for page in pages()), *modules]:
        for number, message in check(file.read_text(encoding="utf-8")):
            wrong += 1
            print(f"{file.relative_to(ROOT)}:{number}: {message}")
    print(f"{wrong} findings")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
