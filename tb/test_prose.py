"""Prose of pages, docstrings and comments, by the rules of ``tb/prose.toml``."""

import subprocess
import sys
from pathlib import Path

import prerequisites
import prose
import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("page", prose.pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_are_clean(page: Path) -> None:
    assert not list(prose.findings(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", sorted(prose.packages()))
def test_docstrings_and_comments_are_clean(name: str) -> None:
    found = {
        file.name: list(prose.module_findings(file.read_text(encoding="utf-8")))
        for file in prose.packages()[name]
    }
    assert not {file: wrong for file, wrong in found.items() if wrong}


def test_spelling() -> None:
    prerequisites.package("codespell_lib")
    words = [sys.executable, "-m", "codespell_lib", "README.md", "CHANGELOG.md"]
    words += ["docs", "hw", "sim", "sw", "examples", "tb"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_lines() -> None:
    assert prose.is_long("word " * 21)
    assert not prose.is_long("w " * 50)
    assert not prose.is_long("| cell " * 20)
    assert not prose.is_long("- https://example.org/" + "x" * 100)


def test_words() -> None:
    assert [number for number, _ in prose.findings("A hostile file\nis\nJUDGED here.\n")] == [1, 3]
    assert not list(prose.findings("```text\na hostile file\n```\n`judge` and [a](judge.md)\n"))
    assert not list(prose.findings("The first 8 cycles give 2 responses.\n"))


def test_each_word_has_an_example() -> None:
    examples = (
        "answered|asked|behind|confined|cutting|feeder|hostile|judged|piece|rooms|said|strips|"
        "walker|as it is|of its own"
    ).split("|")
    assert len(examples) == len(prose.RULES["words"])
    for example in examples:
        assert len(list(prose.findings(f"one {example} two\n"))) == 1, example


def test_first_words() -> None:
    source = '"""What it is."""\n\ndef f():\n    """Return 1."""\n\ndef g():\n    """How: so."""\n'
    found = list(prose.module_findings(source))
    assert found == [(1, "first word: What it is."), (7, "first word: How: so.")]


def test_words_of_a_module() -> None:
    source = '"""A part.\n\nIt asks.\n"""\nsaid = 1  # ``said`` once, by a judge\n'
    assert [number for number, _ in prose.module_findings(source)] == [3, 5]
