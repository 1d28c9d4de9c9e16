"""All models of MLPerf Tiny on one page; runs the blocks of docs/how-to/mlperf.md."""

import html
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Hashable
from dataclasses import replace
from pathlib import Path
from typing import Any

import documents
import numpy as np
import prerequisites
import pytest
from random_networks.recurrent import shift_register

from celosia.hw.arch.presets import preset
from celosia.hw.litex.boards import BOARDS
from celosia.sw.cli import main
from celosia.sw.networks.comparison import Setting
from celosia.sw.runtime.machine import MachineDevice
from celosia.sw.runtime.session import Session
from celosia_examples.mlperf import benchmark, page
from celosia_examples.mlperf.published import MODELS, PEERS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "mlperf.md").read_text(encoding="utf-8")
#: Shipped models, of ten classes each, under the names of the benchmark.
_NAMES = ("mnist_mlp", "fashion_cnn", "mnist_mlp", "mnist_cnn_3x3", "fashion_cnn")
STAND_INS = {model.file: name for model, name in zip(MODELS, _NAMES, strict=True)}
CYCLES = 12_345


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder with shipped models, below the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CELOSIA_MODELS", raising=False)
    made = tmp_path / "FOLDER"
    made.mkdir()
    for name, model in STAND_INS.items():
        shutil.copy(ROOT / "sw" / "models" / f"{model}.tflite", made / name)
    return made


def once(function: Callable[..., Any], name: Callable[[Any], Hashable]) -> Callable[..., Any]:
    """Return the function with a memory; ``name`` gives a key for its first argument."""
    results: dict[Hashable, Any] = {}

    def call(first: Any, *others: Any, **options: Any) -> Any:
        key = (name(first), *others, *sorted(options.items()))
        if key not in results:
            results[key] = function(first, *others, **options)
        return results[key]

    return call


PROFILE = once(benchmark.profile, Path.read_bytes)


@pytest.fixture(autouse=True)
def compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tests share what the compiler and the estimate give for a file and a core."""
    monkeypatch.setattr(benchmark, "profile", PROFILE)


@pytest.fixture
def litert() -> None:
    prerequisites.package("ai_edge_litert.interpreter")


def figures(options: str, code: int = 0) -> dict[str, Any]:
    assert main(f"mlperf --models FOLDER -o m.json {options}".split()) == code
    return json.loads(Path("m.json").read_text())


def of(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the figures of a model at each setting."""
    return [row for made in found["settings"] for row in made["models"] if row["model"] == name]


def test_all_bytes_and_cycles(litert: None, folder: Path) -> None:
    found = figures("--inputs 3 --preset micro --board ulx3s-85f ulx3s-45f")
    assert [made["preset"] for made in found["settings"]] == [
        "micro",
        "edge,counters=luts",
        "micro,counters=luts",
    ]
    rows = [row for made in found["settings"] for row in made["models"]]
    assert [row["file"] for row in rows] == 3 * [model.file for model in MODELS]
    assert {row["bytes_compared"] for row in rows} == {30}
    assert not any(row["bytes_different"] or row["published"] for row in rows)
    assert all(row["cycles"] == row["cycles_estimated"] > 0 for row in rows)
    assert all(row["cycles_counted"] is None for row in rows)
    model = STAND_INS["kws_ref_model.tflite"]
    machines = ("--preset micro", "--board ulx3s-85f", "--board ulx3s-45f")
    for row, machine in zip(of(found, "KWS"), machines, strict=True):
        assert main(f"report {model} --json r.json {machine}".split()) == 0
        wanted = json.loads(Path("r.json").read_text())
        for name in ("macs", "bound", "cycles", "utilisation", "inferences_per_second"):
            assert row[name] == wanted[name], name


def test_json_fields_are_documented(litert: None, folder: Path) -> None:
    found = figures("--inputs 1 --preset micro --board ulx3s-45f")
    parts = (found, found["settings"][0], found["settings"][0]["models"][0], found["peers"][0])
    text = (ROOT / "docs" / "reference" / "json.md").read_text()
    assert not {field for part in parts for field in part if f"`{field}`" not in text}


def session_of(kind: type[Session]) -> Callable[..., Session]:
    """Return a function in the place of ``open_session``."""
    return lambda program, **_: kind(program, MachineDevice(program.config, program.memory_bytes))


def test_a_wrong_byte_is_found(litert, folder, monkeypatch, capsys) -> None:
    wrong = next(file for file, name in STAND_INS.items() if name == "mnist_cnn_3x3")
    name = next(model.name for model in MODELS if model.file == wrong)

    class Flipped(Session):
        def run(self, *arguments: Any, **options: Any) -> list[np.ndarray]:
            results = super().run(*arguments, **options)
            if self.statistics.inputs == 2 and self.program.macs == 2_631_040:
                results[0] = results[0].copy()
                results[0].flat[3] ^= 1
            return results

    monkeypatch.setattr(benchmark, "open_session", session_of(Flipped))
    found = figures("--inputs 3 --preset micro --board ulx3s-45f", code=1)
    assert [row["bytes_different"] for row in of(found, name)] == [1, 1]
    rows = [row for made in found["settings"] for row in made["models"]]
    assert sum(row["bytes_different"] for row in rows) == 2
    printed = capsys.readouterr().err
    assert printed == (
        f"celosia: mlperf: output bytes differ from LiteRT: 1 of 30 of {name} on core micro; "
        f"1 of 30 of {name} on ULX3S with LFE5U-45F\n"
    )


class Counting(MachineDevice):
    """A machine model that counts ``CYCLES`` for every run."""

    def run(self, address: int, count: int) -> Any:
        return replace(super().run(address, count), cycles=CYCLES)


def test_rtl_counts_with_the_memory_of_each_setting(litert, folder, monkeypatch) -> None:
    opened = []

    def opening(program: Any, **options: Any) -> Session:
        opened.append(options)
        return Session(program, Counting(program.config, program.memory_bytes))

    monkeypatch.setattr(benchmark, "open_session", opening)
    found = figures("--inputs 2 --device rtl --preset micro --board ulx3s-45f")
    board = BOARDS["ulx3s-45f"]
    memory = {"latency": board.memory_latency, "bandwidth": board.memory_bandwidth}
    usual = {"latency": 32, "bandwidth": 1.0}
    assert opened == 5 * [{"device": "rtl", **usual}] + 5 * [{"device": "rtl", **memory}]
    core, on_board = (made["models"] for made in found["settings"])
    assert all(row["cycles"] == row["cycles_counted"] == CYCLES for row in (*core, *on_board))
    assert {row["inferences_per_second"] for row in core} == {None}
    assert {row["inferences_per_second"] for row in on_board} == {board.clock_hz / CYCLES}
    assert core[0]["utilisation"] == core[0]["macs"] / (CYCLES * 64)


def test_the_simulated_core(verilator: None, litert: None, folder: Path) -> None:
    found = figures("--inputs 2 --device rtl --preset micro --board ulx3s-45f")
    rows = [row for made in found["settings"] for row in made["models"]]
    assert len(rows) == 10 and {row["bytes_different"] for row in rows} == {0}
    for row in rows:
        assert abs(row["cycles_counted"] / row["cycles_estimated"] - 1) < 0.005
    assert rows[5]["cycles_counted"] > rows[0]["cycles_counted"]


def test_runs_are_shared_and_variables_kept(litert, folder, rng, monkeypatch) -> None:
    (folder / MODELS[-1].file).write_bytes(shift_register(rng))
    settings = [Setting(name=n, memory="", config=preset("micro")) for n in ("one", "other")]
    settings[1] = replace(settings[1], latency=100, clock_hz=1_000_000)
    files = benchmark.model_files(folder)
    found = benchmark.run_benchmark(files, settings, inputs=4, seed=3)
    last = [result for result in found.results if result.model is MODELS[-1]]
    assert not any(result.different for result in found.results)
    # The second memory is slower, and its clock is known.
    one, other = last
    assert 0 < one.cycles < other.cycles and one.pace is None
    assert other.pace == pytest.approx(1_000_000 / other.cycles)
    assert one.utilisation == other.utilisation == 0

    class Forgetful(Session):
        def run(self, *arguments: Any, **options: Any) -> list[np.ndarray]:
            self.reset()
            return super().run(*arguments, **options)

    monkeypatch.setattr(benchmark, "open_session", session_of(Forgetful))
    found = benchmark.run_benchmark({MODELS[-1]: files[MODELS[-1]]}, settings, inputs=4, seed=3)
    assert all(result.different for result in found.results)


def test_html_has_the_cells_of_markdown(litert: None, folder: Path) -> None:
    options = "mlperf --models FOLDER --inputs 1 --preset micro --board ulx3s-45f"
    for ending in ("md", "html"):
        assert main(f"{options} -o m.{ending}".split()) == 0
    text, made = Path("m.md").read_text(), Path("m.html").read_text()
    pattern = r"<t[dh](?: [^>]*)?>(?:<a[^>]*>)?([^<]*)"
    shown = [html.unescape(cell) for cell in re.findall(pattern, made)]
    links = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    rows = [line for line in links.splitlines() if line.startswith("|") and "---" not in line]
    assert [cell.strip() for row in rows for cell in row.strip("|").split("|")] == shown
    assert len(rows) == 2 * 6 + (1 + 1 + 8) + (1 + 2 + 8)
    assert "(another file)" in text and "Not the published files" in text
    assert set(re.findall(r'href="([^"]*)"', made)) == {p.source for p in PEERS if p.throughput}
    for heading in re.findall("(?m)^#+ (.*)$", text):
        assert re.search(rf"<h\d>{re.escape(heading)}</h", made), heading


def test_peers_cycles_follow_from_clock_and_throughput() -> None:
    for peer in PEERS:
        assert set(peer.throughput) | set(peer.cycles) <= {model.name for model in MODELS}
        assert peer.name and peer.note and peer.source
        if peer.clock_mhz:
            assert set(peer.cycles) == set(peer.throughput)
    zc706 = PEERS[0]
    assert zc706.clock_mhz == 200 and round(zc706.cycles["IC"], -3) == 29_000


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("", "mlperf: wanted --models FOLDER or CELOSIA_MODELS, with the models of https:"),
        ("--models NONE", "NONE: no such folder; wanted one with the models of https:"),
        ("--models PART", "PART: has no kws_ref_model.tflite, ad01_int8.tflite; wanted the models"),
        ("--models FOLDER -o m.txt", "wanted a file that ends in .md, .html, .json, got m.txt"),
        ("--models FOLDER -o none/m.md", "none/m.md: no such directory"),
        ("--models FOLDER --device litex:sim", "wanted the device machine or rtl, got litex:sim"),
        ("--models FOLDER --board vcu128", "board: wanted one of colorlight-i5"),
        ("--models FOLDER --inputs 0", "wanted a whole number of at least 1, got '0'"),
    ],
)
def test_refused(options: str, wanted: str, folder: Path, refused: Callable[[str], str]) -> None:
    part = folder.with_name("PART")
    shutil.copytree(folder, part)
    for name in ("kws_ref_model.tflite", "ad01_int8.tflite"):
        (part / name).unlink()
    assert wanted in refused(f"mlperf {options}")


def test_no_litert(folder, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    assert main("mlperf --models FOLDER -o m.md".split()) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("celosia: mlperf: LiteRT is not installed: ")
    assert printed.count("\n") == 1
    assert not Path("m.md").exists()


def test_blocks_of_the_page(litert: None, folder: Path) -> None:
    block, *_ = documents.blocks(PAGE)
    for command, _ in documents.shell_commands(block.text):
        words = command.split()
        assert words.pop(0) == "celosia" and main(words) == 0
        assert Path(words[-1]).stat().st_size > 1000


def cells(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|") and "---" not in line
    ]


def test_the_page_has_the_published_figures() -> None:
    assert all(f"`{model.file}`" in PAGE and model.task in PAGE for model in MODELS)
    generated = page.as_markdown(benchmark.Benchmark(device="rtl", inputs=20, seed=0, results=()))
    for line in generated.splitlines():
        assert line in PAGE.splitlines(), line
    assert sum(peer.source in generated for peer in PEERS) == len(PEERS)


@pytest.mark.thorough
def test_the_page_has_the_cycles_of_today(litert: None, more_models: Path, tmp_path: Path) -> None:
    assert main(f"mlperf --models {more_models} --inputs 2 -o {tmp_path / 'm.md'}".split()) == 0
    tables = cells((tmp_path / "m.md").read_text())
    shown = cells(PAGE.partition("<!-- begin -->")[2].partition("<!-- end -->")[0])
    assert len(shown) == len(tables)
    heads = tables[0]
    rows = [pair for pair in zip(tables, shown, strict=True) if len(pair[0]) == len(heads)]
    assert len(rows) == 2 * (1 + len(MODELS))
    for got, there in rows:
        both = {name: (a, b) for name, a, b in zip(heads, got, there, strict=True)}
        for name in ("model", "file", "on the host", "MACs", "bound", "cycles, estimate"):
            assert both[name][0] == both[name][1], (name, both)
        if got == heads:
            continue
        assert both["bytes that differ"] == ("0", "0")
        texts = [both[f"cycles, {name}"][1].replace(",", "") for name in ("estimate", "RTL")]
        estimate, counted = map(int, texts)
        assert abs(estimate / counted - 1) < 0.005


@pytest.mark.thorough
def test_published_models(litert: None, more_models: Path, tmp_path: Path) -> None:
    output = tmp_path / "m.json"
    options = ["--preset", "micro", "--inputs", "5", "-o", str(output)]
    assert main(["mlperf", "--models", str(more_models), *options]) == 0
    (core, _) = json.loads(output.read_text())["settings"]
    assert all(row["published"] for row in core["models"])
    compared = [row["bytes_compared"] for row in core["models"]]
    assert compared == [5 * outputs for outputs in (10, 12, 2, 640, 3)]
    assert not any(row["bytes_different"] for row in core["models"])


def test_the_folder_of_the_environment(litert, folder, monkeypatch, capsys) -> None:
    monkeypatch.setitem(os.environ, "CELOSIA_MODELS", "FOLDER")
    assert main("mlperf --inputs 1 --preset micro --board ulx3s-45f".split()) == 0
    assert capsys.readouterr().out.startswith("# MLPerf Tiny\n\nModels of https:")
