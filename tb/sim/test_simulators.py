import re
from pathlib import Path
from typing import Any

import pytest

from celosia.sim import simulators


def program(path: Path, output: str) -> Path:
    """Write a program that prints one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{output}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty path and empty cache."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    simulators._version.cache_clear()


def private(tmp_path: Path, version: str) -> Path:
    folder = tmp_path / f"cache/celosia/verilator-{version}/usr/bin"
    return program(folder / "verilator", f"Verilator {version} 2026-01-01")


def test_system_verilator_comes_first(tmp_path: Path) -> None:
    system = program(tmp_path / "bin/verilator", "Verilator 5.040 2025-08-30")
    private(tmp_path, "5.048")
    assert simulators.find_verilator((5, 36)) == system


def test_newest_private_verilator_where_the_system_has_an_old_one(tmp_path: Path) -> None:
    system = program(tmp_path / "bin/verilator", "Verilator 5.006 2023-01-22 rev (Debian 5.006-3)")
    private(tmp_path, "5.048")
    newest = private(tmp_path, "5.102")
    assert simulators.find_verilator() == system
    assert simulators.find_verilator((5, 36)) == newest


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
def test_viewers_are_installed_where_they_are_missing(
    can_install: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    requested = []

    def install(packages: list[str]) -> None:
        requested.extend(packages)
        if can_install:
            program(tmp_path / "bin/chromium", "")
            program(tmp_path / "bin/fst2vcd", "")
            program(tmp_path / "bin/riscv64-unknown-elf-gcc", "")

    monkeypatch.setattr(simulators, "_apt_install", install)
    simulators.install_viewers()
    simulators.install_viewers()
    assert requested == ["chromium", "gtkwave", "gcc-riscv64-unknown-elf"] * (
        1 if can_install else 2
    )
    assert ("no fst2vcd: its tests are skipped" in capsys.readouterr().err) != can_install


def test_packages_are_named_where_apt_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulators, "_root_prefix", lambda: None)
    with pytest.raises(simulators.SimulatorNotFound, match="iverilog verilator g[+][+] make"):
        simulators.install()


def test_older_verilator_is_used_if_no_newer_is_available(tmp_path, monkeypatch, capsys) -> None:
    program(tmp_path / "bin/verilator", "Verilator 5.006 2023-01-22")
    monkeypatch.setattr(simulators, "_missing", dict)
    simulators.install()
    printed, log = capsys.readouterr(), simulators.user_cache() / "verilator.log"
    assert printed.out == (
        f"Verilator 5.006 is used; a newer one could not be fetched ({log}). Nothing to do.\n"
    )
    assert not printed.err and log.read_text() == "not a Debian system\n"
    assert [*(tmp_path / "cache").rglob("*")] == [log.parent, log]


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path, monkeypatch, capsys) -> None:
    program(tmp_path / "bin/verilator", "Verilator 5.006 2023-01-22")
    monkeypatch.setattr(simulators, "_missing", dict)
    (tmp_path / "cache").write_text("a file")
    simulators.install()
    assert "Nothing to do." in capsys.readouterr().out


ONE_LINE = """
# deb http://commented.example/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/a.gpg] http://mirror.example/debian/ bookworm main
deb-src http://source.example/debian bookworm main
deb http://mirror.example/debian-security bookworm-security main  # other suite
deb http://vendor.example/apt bookworm main
deb http://vendor.example/more bookworm contrib
"""
STANZAS = """
# a comment
Types: deb
URIs: http://mirror.example/debian
# between fields
Suites: bookworm bookworm-updates
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 aaaa

Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
Enabled: no

Types: deb-src
URIs: http://source.example/debian
Suites: bookworm
Components: main
"""


@pytest.fixture
def bookworm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulators, "_os_release", lambda: "ID=debian\nVERSION_CODENAME=bookworm\n")


@pytest.mark.usefixtures("bookworm")
def test_mirrors_of_one_line_sources(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text(ONE_LINE)
    stanzas = simulators._suite_stanzas(tmp_path)
    assert [re.findall("URIs: (.*)", stanza) for stanza in stanzas] == [
        ["http://mirror.example/debian/"],
        ["http://vendor.example/apt"],
    ]
    assert "Signed-By: /usr/share/keyrings/a.gpg\n" in stanzas[0]
    assert "Suites: forky\n" in stanzas[0] and "Signed-By" not in stanzas[1]


@pytest.mark.usefixtures("bookworm")
def test_mirrors_of_stanzas(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d/debian.sources").write_text(STANZAS)
    (stanza,) = simulators._suite_stanzas(tmp_path)
    assert "URIs: http://mirror.example/debian\n" in stanza
    assert stanza.endswith("Signed-By: \n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n aaaa\n")


@pytest.mark.usefixtures("bookworm")
def test_no_mirror(tmp_path: Path) -> None:
    assert simulators._suite_stanzas(tmp_path) == []


def test_cache_is_an_absolute_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert simulators.user_cache() == tmp_path / ".cache" / "celosia"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert simulators.user_cache() == tmp_path / "here" / "celosia"
