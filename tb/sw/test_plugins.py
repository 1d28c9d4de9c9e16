"""Commands of other packages; runs the blocks of docs/reference/python.md."""

import pkgutil
import re
import shlex
import subprocess
import sys
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path

import pytest

import celosia
from celosia.hw.environment.extras import examples_command
from celosia.sw.cli import main, plugins

COMMANDS = ("demo", "generate", "mlperf", "paper", "serve")


@pytest.fixture
def page(root: Path) -> str:
    return (root / "docs" / "reference" / "python.md").read_text(encoding="utf-8")


def hello(command) -> None:
    command("hello", "print a greeting", lambda arguments: print("hello"))


def late(command) -> None:
    command("late", "half of a command", print)
    raise OSError("100% of\nnothing")


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """Entry points of a package that is not broken, and of some that are."""
    module = sys.modules[__name__]
    monkeypatch.setitem(sys.modules, "good", module)
    values = {
        "hello": "good:hello",
        "gone": "no_such_module:add",
        "late": "good:late",
        "nameless": "good:no_such_name",
        "run": "good:hello",
    }
    found = [EntryPoint(name, value, plugins.GROUP) for name, value in values.items()]
    monkeypatch.setattr(plugins, "entry_points", lambda group: found)
    return found


def test_a_command_of_a_package(entries, capsys) -> None:
    assert main(["hello"]) == 0
    assert capsys.readouterr() == ("hello\n", "")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gone", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("late", "OSError: 100% of nothing"),
        ("nameless", "AttributeError: module"),
    ],
)
def test_a_broken_package_gives_one_line(entries, capsys, name: str, reason: str) -> None:
    assert main([name, "--some", "option"]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    assert printed.err.startswith(f"celosia: {name}: cannot be loaded from ")
    assert reason in printed.err


def test_the_help_lists_broken_packages_and_all_others(entries, capsys) -> None:
    assert main([]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "hello print a greeting" in printed and "run a model, a program" in printed
    assert "gone cannot be loaded from no_such_module: ModuleNotFoundError" in printed


def test_no_package_replaces_a_command(entries, capsys) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    assert "usage: celosia run" in capsys.readouterr().out


def test_commands_of_celosia_look_for_no_package(monkeypatch, capsys) -> None:
    monkeypatch.setattr(plugins, "entry_points", lambda group: pytest.fail("looked for"))
    assert main(["models"]) == 0


@pytest.mark.parametrize("name", ["demo", "frobnicate"])
def test_without_the_examples(name: str, monkeypatch, capsys) -> None:
    monkeypatch.setattr(plugins, "entry_points", lambda group: [])
    with pytest.raises(SystemExit) as caught:
        main([name, "--images", "3"])
    line = capsys.readouterr().err
    assert caught.value.code == 2 and line.count("\n") == 1
    assert line.startswith("celosia: wanted one of quantize, train, ") and f"got {name!r}; " in line
    assert line.endswith(f"are examples: {examples_command()}\n")
    assert all(command in line for command in COMMANDS)


def test_with_the_examples(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["frobnicate"])
    line = capsys.readouterr().err
    assert "are examples" not in line and all(f", {command}" in line for command in COMMANDS)


def test_the_command_that_installs_the_examples(root, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("sys.prefix", str(root / ".venv"))
    monkeypatch.chdir(root)
    assert examples_command() == ".venv/bin/pip install -e examples"
    monkeypatch.chdir(tmp_path)
    command = [f"{root}/.venv/bin/pip", "install", "-e", f"{root}/examples"]
    assert examples_command() == shlex.join(command)
    monkeypatch.setattr("celosia.hw.environment.extras._ROOT", tmp_path)
    assert examples_command().endswith(" install ./examples in the folder of Celosia's sources")


def test_the_page_on_commands(page: str, tmp_path: Path) -> None:
    """The package of the page, as if it were installed."""
    (code,) = re.findall(r"```python\n(def add_hello.*?)```", page, re.DOTALL)
    (table,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "commands.py").write_text(code)
    records = tmp_path / "my_package-1.dist-info"
    records.mkdir()
    (records / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1\n")
    entry = table.split("\n")[1].replace('"', "")
    (records / "entry_points.txt").write_text(f"[{plugins.GROUP}]\n{entry}\n")
    assert plugins.GROUP in table
    text = "import sys; from celosia.sw.cli import main; sys.exit(main(['hello', '--name', 'you']))"
    command, variables = [sys.executable, "-c", text], {"PYTHONPATH": str(tmp_path), "PATH": ""}
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("hello, you\n", "", 0)


def test_every_public_name_exists(page: str) -> None:
    names = re.findall(r"^\| `(celosia\.[\w.]+)", page, re.MULTILINE)
    modules = [name for name in names if name.count(".") > 1]
    assert sorted({*names} - {*modules}) == sorted(f"celosia.{name}" for name in celosia.__all__)
    for name in modules:
        # Its classes derive from those of the package, an extra.
        if name.startswith("celosia.executorch.") and not find_spec("executorch"):
            continue
        assert pkgutil.resolve_name(name).__doc__
