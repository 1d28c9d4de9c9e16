import argparse
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from celosia.sw.cli import MODULES, plugins

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
FOLDERS = ("docs", "examples", "hw", "sim", "sw", "tb")

LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(rf"(?<![\w/.~<-])(?:{'|'.join(FOLDERS)})/[\w./*-]*[\w/*]")
MODULE = re.compile(r"\bcelosia(?:\.hw|\.sim|\.sw|_examples)(?:\.\w+)*")
COMMAND = re.compile(r"\bcelosia (?!compiler|core)([a-z]+)\b([^\n`]*)")
TARGET = re.compile(r"(?:`|\$ )make ([a-z]+(?:-[a-z]+)*)\b")
#: Code spans and blocks of consoles: commands elsewhere are prose.
CODE = re.compile(
    r"^```(?:console|python|sh|bash)?\n(.*?)^```|`([^`\n]+)`", re.DOTALL | re.MULTILINE
)


def code(text: str) -> Iterator[str]:
    for block, span in CODE.findall(text):
        yield block.replace("\\\n", " ") or span


def anchors(page: Path) -> set[str]:
    """Return the names that a page's headings are linked by."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def help_texts() -> dict[str, str]:
    """Return the help of each command."""
    parsers: dict[str, argparse.ArgumentParser] = {}

    def command(name: str, text: str, run: object) -> argparse.ArgumentParser:
        return parsers.setdefault(name, argparse.ArgumentParser(prog=name, description=text))

    for name in MODULES:
        import_module(f"celosia.sw.cli.{name}").add_parsers(command)
    plugins.add_commands(command, list(parsers), None)
    return {name: parser.format_help() for name, parser in parsers.items()}


def broken_links(page: Path) -> Iterator[str]:
    for link in LINK.findall(re.sub(r"<!--.*?-->", "", page.read_text(), flags=re.DOTALL)):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


def missing_files(text: str) -> Iterator[str]:
    for name in FILE.findall(text):
        if not any(ROOT.glob(name.rstrip("/"))):
            yield name


def missing_modules(text: str) -> Iterator[str]:
    for name in MODULE.findall(text):
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            yield name


def wrong_commands(text: str, helps: dict[str, str]) -> Iterator[str]:
    for span in code(text):
        for name, rest in COMMAND.findall(span):
            known = re.findall(r"--[\w-]+", helps.get(name, ""))
            # What follows a pipe, a redirection or another command belongs to that.
            options = re.findall(r"(?<![\w-])--[a-z][\w-]*", re.split(r"[|>;#]|&&", rest)[0])
            if name not in helps or not set(options) <= set(known):
                yield f"celosia {name}{rest}"


def missing_targets(text: str) -> Iterator[str]:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return (name for name in TARGET.findall(text) if name not in targets)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_name_only_what_exists(page: Path) -> None:
    text = page.read_text()
    assert not list(broken_links(page))
    assert not list(missing_files(text))
    assert not list(missing_modules(text))
    assert not list(missing_targets(text))
    assert not list(wrong_commands(text, help_texts()))


def test_the_checks_find_mistakes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One\n[a](#one) [b](#two) [c](other.md) [d](https://example.org/x)\n")
    assert list(broken_links(page)) == ["#two", "other.md"]
    assert list(missing_files("sw/cli/run.py sw/cli/ran.py tb/hw/test_axi_* tb/hw/test_cab_*")) == [
        "sw/cli/ran.py",
        "tb/hw/test_cab_*",
    ]
    assert list(missing_modules("celosia.sw.cli.main celosia.sw.clo.main celosia_examples.x")) == [
        "celosia.sw.clo.main",
        "celosia_examples.x",
    ]
    assert list(missing_targets("`make test`, `make tests`")) == ["tests"]
    printed = "`celosia run x --device rtl`, `celosia run --devise rtl`, `celosia ran`"
    assert list(wrong_commands(printed, help_texts())) == [
        "celosia run --devise rtl",
        "celosia ran",
    ]


@pytest.mark.parametrize("folder", ["how-to", "tutorial"])
def test_pages_that_run_tests_name_what_installs_them(folder: str) -> None:
    """Pytest, cocotb and lint come with ``make setup``, or a target that needs it."""
    for page in (ROOT / "docs" / folder).glob("*.md"):
        text = page.read_text()
        if re.search(r"(?m)^\$ .*-m pytest|cocotb-config", text):
            assert re.search(r"make (setup|prose|docs|check|test)", text), page.name


def test_pictures_are_small() -> None:
    for path in (ROOT / "docs" / "images").glob("*.png"):
        assert path.stat().st_size <= 200_000, path
