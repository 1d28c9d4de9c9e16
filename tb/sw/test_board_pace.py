"""Rates of a network with a board's core, memory and clock."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from celosia.hw.arch.presets import preset
from celosia.hw.litex import boards as table
from celosia.sw import boards
from celosia.sw.cli import main
from celosia.sw.runtime import backends
from celosia.sw.runtime.machine import MachineDevice

pytestmark = pytest.mark.thorough

BOARD = replace(
    table.BOARDS["ulx3s-12f"], config=preset("nano"), clock_hz=50_000_000, bus_clock_hz=0
)
CYCLES = 12_345


class Counting(MachineDevice):
    """A machine model that reports for every run ``CYCLES``."""

    def run(self, address: int, count: int) -> Any:
        return replace(super().run(address, count), cycles=CYCLES)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(boards, "_NETWORKS", ("mnist_mlp",))
    monkeypatch.setattr(table, "BOARDS", {BOARD.name: BOARD})
    np.save("x.npy", np.zeros((2, 784), np.int8))
    return tmp_path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Arguments of the device that was opened last."""
    seen = SimpleNamespace()

    def open_device(name: str, config: Any, memory_bytes: int, **options: Any) -> Counting:
        seen.name, seen.config, seen.options = name, config, options
        return Counting(config, memory_bytes)

    monkeypatch.setattr(backends, "open_device", open_device)
    return seen


def test_a_board_reports_core_memory_and_clock(opened, capsys):
    command = "run mnist_mlp --input x.npy --output y.npy --stats s.json"
    assert main(f"{command} --board ulx3s-12f --batch 1".split()) == 0
    assert opened.config == BOARD.config
    wanted = {"latency": BOARD.memory_latency, "bandwidth": BOARD.memory_bandwidth}
    assert opened.options == wanted
    pace = 50e6 / CYCLES
    assert f"{pace:,.1f} a second at 50 MHz" in capsys.readouterr().out
    stats = json.loads(Path("s.json").read_text())
    assert stats["board"] == "ulx3s-12f" and stats["clock_hz"] == 50_000_000
    assert stats["inputs_per_second"] == pytest.approx(pace)


def test_what_is_given_goes_before_the_board(opened, capsys):
    command = "run mnist_mlp --input x.npy --output y.npy --board ulx3s-12f"
    assert main(f"{command} --preset micro --latency 7".split()) == 0
    assert opened.config == preset("micro")
    # Four bytes a cycle are half of a beat of eight, less what refreshes take.
    assert opened.options["latency"] == 7
    assert opened.options["bandwidth"] == pytest.approx(0.5, rel=0.05)


def test_without_a_board_nothing_is_reported_of_seconds(opened, capsys):
    command = "run mnist_mlp --input x.npy --output y.npy --stats s.json"
    assert main(command.split()) == 0
    assert opened.config == preset("edge")
    assert opened.options == {"latency": 32, "bandwidth": 1.0}
    assert "inputs_per_second" not in json.loads(Path("s.json").read_text())


def test_an_estimate_is_that_of_the_same_memory(capsys):
    printed = []
    memory = f"--latency {BOARD.memory_latency} --bandwidth {BOARD.memory_bandwidth}"
    for options in ("--board ulx3s-12f", f"--preset nano {memory}", "--preset nano"):
        assert main(f"report mnist_mlp --json r.json {options}".split()) == 0
        printed.append(json.loads(Path("r.json").read_text())["total"]["cycles"])
    assert printed[0] == printed[1] > printed[2]


def test_bad_input(refused):
    assert "wanted one of ulx3s-12f, got" in refused("report mnist_mlp --board toaster")


def test_table(opened, capsys):
    blocks = {"matrix": {"LUT": 1200, "FF": 30, "DSP": 4, "block RAM": 5}}
    blocks["store"] = {"LUT": 34, "FF": 5, "DSP": 0, "block RAM": 1}
    seeds = {"1": 51.0, "2": 50.04, "3": 55.55}
    fmax = {"minimum": 50.04, "median": 51.0, "maximum": 55.55, "seeds": seeds}
    made = Path("made/ulx3s-12f")
    made.mkdir(parents=True)
    report = {"core": "nano", "asked_mhz": 50, "blocks": blocks, "fmax_mhz": fmax}
    (made / "report.json").write_text(json.dumps(report))
    assert main(["boards", "--measure", "--directory", "made"]) == 0
    head, line, row = capsys.readouterr().out.splitlines()
    assert head.count("|") == line.count("|") == row.count("|")
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:6] == ["`ulx3s-12f`", "`nano`", "1,234", "35", "4", "6"]
    assert cells[6:9] == ["50.0 / 51.0 / 55.5 (3)", "50", "1.6"]
    assert cells[9] == f"{50e6 / CYCLES:,.0f}"
    assert opened.name == "rtl" and opened.options["latency"] == BOARD.memory_latency


def test_table_of_estimates_and_nothing_built(capsys):
    assert main(["boards"]) == 0
    captured = capsys.readouterr()
    row = captured.out.splitlines()[-1]
    assert "not built" in row and "| `nano` |  |" in row
    assert "celosia build BOARD" in captured.err
    assert float(row.split("|")[-2].replace(",", "")) > 1000


@pytest.mark.parametrize(
    "seeds, requested, spread",
    [
        ({"1": 51.0}, 50, "51.0 (1)"),
        ({"1": 51.0, "2": 50.04}, 50, "50.0 / 55.5 (2)"),
        ({"1": 51.0, "2": 50.04}, 60, "50.0 / 55.5 (2), 60 requested"),
    ],
)
def test_seeds_of_the_table(capsys, seeds, requested, spread):
    fmax = {"minimum": 50.04, "median": 51.0, "maximum": 55.55, "seeds": seeds}
    made = Path("build/boards/ulx3s-12f")
    made.mkdir(parents=True)
    report = {"core": "nano", "asked_mhz": requested, "blocks": {}, "fmax_mhz": fmax}
    (made / "report.json").write_text(json.dumps(report))
    assert main(["boards"]) == 0
    assert f"| {spread} |" in capsys.readouterr().out
    (made / "report.json").write_text(json.dumps({**report, "core": "micro"}))
    assert main(["boards"]) == 0
    assert "| not built |" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"core": "nano", "blocks": 3}'])
def test_a_damaged_report_is_refused(refused, text):
    made = Path("build/boards/ulx3s-12f")
    made.mkdir(parents=True)
    (made / "report.json").write_text(text)
    assert "report.json: not the report of a board" in refused("boards")
