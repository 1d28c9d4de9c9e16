"""Targets of ``make nightly``: they have all long tests, and their commands are understood."""

import importlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CAMPAIGNS, main
from nightly import run


def recipes(root: Path) -> dict[str, list[list[str]]]:
    """Return the commands of each target of ``make nightly``, without Python and variables."""
    text = (root / "Makefile").read_text()
    (names,) = re.findall(r"^NIGHTLY := (.*)$", text, re.MULTILINE)
    found = {}
    for name in names.split():
        match = re.search(rf"^{name}:.*\n((?:\t.*\n)+)", text, re.MULTILINE)
        assert match, name
        lines = re.sub(r"\$\((?:\w+_ARGS|LONG)\)", "", match[1]).splitlines()
        found[name] = [shlex.split(line.strip().removeprefix("@$(BIN)/python ")) for line in lines]
    return found


def ways(root: Path) -> Iterator[list[str]]:
    """Yield the arguments of pytest of each target."""
    for commands in recipes(root).values():
        for command in commands:
            if command[:2] == ["-m", "pytest"]:
                yield command[2:]


def test_every_long_test_has_a_target(root: Path) -> None:
    """Once: none is left out, and only proofs and netlists also have their quick tests."""
    files = [path for path in root.glob("tb/**/test_*.py") if "mark.slow" in path.read_text()]
    assert len(files) > 30
    for file in files:
        fits = 0
        for arguments in ways(root):
            assert "--long" in arguments
            ignored = [arguments[n + 1] for n, word in enumerate(arguments) if word == "--ignore"]
            paths = [word for word in arguments if word.startswith("tb") and word not in ignored]
            assert paths and all((root / path).exists() for path in (*paths, *ignored))
            inside = any(file.is_relative_to(root / path) for path in paths)
            fits += inside and not any(file.is_relative_to(root / path) for path in ignored)
        assert fits == 1, file


def test_campaigns_are_understood(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaigns = [
        command[1:]
        for commands in recipes(root).values()
        for command in commands
        if command[0] == "tb/campaigns"
    ]
    assert {command[0] for command in campaigns} == set(CAMPAIGNS)
    started = []
    for name in CAMPAIGNS:
        module = importlib.import_module(f"{name}.command")
        monkeypatch.setattr(module, "run", lambda options, name=name: started.append(name))
    assert [main(command) for command in campaigns] == [0] * len(campaigns)
    assert started == [command[0] for command in campaigns]


def test_a_target_that_fails_does_not_end_the_night(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = {"one": 0, "two": 2, "three": 0}
    table = tmp_path / "build" / "nightly.md"
    assert run([*codes], codes.__getitem__, table) == 1
    printed = capsys.readouterr().out
    assert printed == table.read_text()
    rows = [line.strip("| ").split(" | ") for line in printed.splitlines()[2:]]
    assert [(row[1], row[3]) for row in rows] == [
        ("`make one`", "passed"),
        ("`make two`", "failed: exit code 2"),
        ("`make three`", "passed"),
    ]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", row[0]) for row in rows)
    assert all(re.fullmatch(r"\d+:\d\d:\d\d", row[2]) for row in rows)
    assert run(["one"], codes.__getitem__, table) == 0


def test_make_runs_the_targets(tmp_path: Path, root: Path) -> None:
    """In their order, by a Makefile of another folder."""
    (tmp_path / "Makefile").write_text("%:\n\t@echo made $@; test $@ != bad\n")
    done = subprocess.run(
        [sys.executable, str(root / "tb" / "nightly.py"), "good", "bad", "better"],
        cwd=tmp_path,
        env={**os.environ, "MAKEFLAGS": ""},
        capture_output=True,
        text=True,
    )
    made = re.findall(r"^made (\w+)$", done.stdout, re.MULTILINE)
    assert (done.returncode, made) == (1, ["good", "bad", "better"])
