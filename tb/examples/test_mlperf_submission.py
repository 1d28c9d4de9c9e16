"""The folder of a submission to MLPerf Tiny, and the device with its serial protocol."""

import json
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import prerequisites
import pytest

from celosia import InputError
from celosia.sw.cli import main
from celosia.sw.ir.parts import Port
from celosia_examples.mlperf import submission
from celosia_examples.mlperf.device import LINE_BYTES, TASKS, Device, load, serve
from celosia_examples.mlperf.published import MODELS
from celosia_examples.mlperf.submission import Sample, data_set, infer

ROOT = Path(__file__).resolve().parents[2]
#: Files that the benchmark's checker requires of each mode.
REQUIRED = {"log.txt", "results.txt", "results.json"}
#: Lines of results.txt that the benchmark's checker looks for.
THROUGHPUT = r".* Median throughput is\s+([\d\.]+) inf\./sec\..*"
TOP = r".* Top[- ]1%?\s?[:=] ([\d\.]+).*"
AREA = r".* AUC\s?[:=] ([\d\.]+).*"
CLOCK = 1_000_000


def value(pattern: str, path: Path) -> float:
    (line,) = (line for line in path.read_text().splitlines() if re.match(pattern, line))
    match = re.match(pattern, line)
    assert match
    return float(match[1])


class Reversed:
    """A session of a device without cycles that returns its input the other way round."""

    def __init__(self, elements: int, cycles: int | None = None) -> None:
        port = Port("x", (elements,), 1, 0.5, -3, 0)
        self.program = SimpleNamespace(inputs=[port], outputs=[port])
        self.statistics = SimpleNamespace(cycles_per_input=cycles)
        self.inputs: list[np.ndarray] = []

    def run(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        self.inputs += arrays
        return [arrays[0][:, ::-1]]


def device(task: str, elements: int = 40, counted: int | None = None) -> tuple[Device, Reversed]:
    session: Any = Reversed(elements, counted)
    return Device(session, TASKS[task], clock_hz=CLOCK, cycles=2000), session


def test_commands() -> None:
    """Responses of ``benchmark/api/internally_implemented.cpp``."""
    one, _ = device("KWS", 4)
    assert one.respond("name") == ["m-name-dut-[celosia]", "m-ready"]
    assert one.respond("profile")[1:] == ["m-model-[kws01]", "m-ready"]
    assert one.respond("db load 4") == ["m-[Expecting 4 bytes]", "m-ready"]
    assert one.respond("db 01ff") == ["m-ready"]
    assert one.respond("infer 1 0") == ["e-[wanted 4 bytes, got 2]", "m-ready"]
    assert one.respond("db 7f8000") == ["m-load-done", "m-ready"]
    assert one.respond("infer 3 1") == [
        *("m-warmup-start-1", "m-warmup-done", "m-infer-start-3"),
        *("m-lap-us-2000", "m-lap-us-8000", "m-infer-done"),
        *("m-results-[-62.500,65.000,1.000,2.000]", "m-ready"),
    ]
    assert one.respond("results") == ["m-results-[-62.500,65.000,1.000,2.000]", "m-ready"]
    assert one.respond("timestamp") == ["m-lap-us-8000", "m-ready"]
    unknown = ",no,infer,db,db xy,db load many,db load -4,infer a b,infer -1"
    for wrong in unknown.split(","):
        *_, error, ready = one.respond(wrong)
        assert error.startswith("e-[Unknown command: ") and ready == "m-ready", wrong


def test_a_line(capsys) -> None:
    """Parts of commands, and more than one at a time."""
    one, _ = device("KWS", 4)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for text in (b"na", b"me%db load 4%db 000", b"1ff7f%infer 1 0%"):
            theirs.sendall(text)
        theirs.shutdown(socket.SHUT_WR)
        serve(one, ours.fileno())
        lines = theirs.recv(4096).decode().split("\r\n")
    assert lines[:4] == ["m-init-done", "m-ready", "m-name-dut-[celosia]", "m-ready"]
    assert lines.count("m-ready") == 5 and "m-load-done" in lines
    assert lines[-3:] == ["m-results-[65.000,1.000,2.000,1.500]", "m-ready", ""]


def test_inputs_and_results_of_the_tasks() -> None:
    pixels = bytes([0, 127, 128, 255]) * 10
    for task, expected in (("IC", [-128, -1, 0, 127]), ("VWW", [-128, -1, 0, 127])):
        one, session = device(task)
        assert load(one, pixels).count("m-ready") == 1 + -(-40 // LINE_BYTES)
        infer(one, 1, 0)
        assert session.inputs[0].tolist() == [expected * 10], task
    one, session = device("AD")
    floats = np.arange(40, dtype="<f4") - 20
    load(one, floats.tobytes())
    (error,) = infer(one, 1, 0)[0].scores
    # Quantised with scale 0.5, and back: exact; the other way round the output is 39 - x - 20.
    assert session.inputs[0].tolist() == [(floats * 2 - 3).tolist()]
    assert error == pytest.approx(np.mean((floats[::-1] - floats) ** 2), abs=1e-3)


def test_windows_last_ten_seconds_of_the_board() -> None:
    one, session = device("KWS", counted=50_000)
    files = submission.performance(one, [bytes([n] * 40) for n in range(5)])
    windows = json.loads(files["results.json"])
    assert len(windows) == 5 and files.keys() == REQUIRED
    for scores, inferences, microseconds in (e.values() for e in windows):
        assert 10_000_000 < microseconds < 10_300_000 and len(scores) == 40
        assert microseconds == inferences * 50_000 * 1_000_000 // CLOCK
    assert {tuple(array[0]) for array in session.inputs} == {(n,) * 40 for n in range(5)}
    assert b"Median throughput is     20.000 inf./sec." in files["results.txt"]


def test_accuracy_is_of_the_mean_scores() -> None:
    one, _ = device("KWS", 3)
    samples = [Sample("a", 0, [bytes([1, 2, 9]), bytes([9, 0, 1])]), Sample("b", 1, [bytes(3)])]
    samples += [Sample("c", 2, [bytes([7, 1, 1])])]
    files = submission.accuracy(one, samples)
    a, b, c = json.loads(files["results.json"])
    # Scores are half of what is loaded and 1.5 more, in the other order; a tie is the first one.
    assert a == {"file": "a", "class": 0, "scores": [4.0, 2.0, 4.0]}
    assert (b["scores"], c["scores"]) == ([1.5] * 3, [2.0, 2.0, 5.0])
    assert b"Top 1% = 66.7\n" in files["results.txt"]
    # Class 0: 4 above 1.5 and 2; class 1: 1.5 below 2, twice; class 2: 5 above 4 and 1.5.
    assert b"AUC = 0.667\n" in files["results.txt"]


@pytest.mark.parametrize(
    ("scores", "labels", "area"),
    [
        # A tie counts one half: of four pairs two are in order, and two are ties.
        ([[3], [1], [1], [1]], [1, 1, 0, 0], 0.75),
        ([[9, 2], [9, 2], [0, 1]], [1, 0, 0], 0.75),
        ([[1], [2]], [1, 0], 0.0),
    ],
)
def test_ties_are_half_of_the_area(scores: Any, labels: list[int], area: float) -> None:
    assert submission._area(np.array(scores), np.array(labels)) == area


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder with shipped models under the names of three tasks, and data sets of them."""
    prerequisites.package("ai_edge_litert.interpreter")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(submission, "TASKS", {n: TASKS[n] for n in ("IC", "KWS", "VWW")})
    models = tmp_path / "models"
    models.mkdir()
    for model in MODELS:
        shutil.copy(ROOT / "sw" / "models" / "mnist_mlp.tflite", models / model.file)
    rng = np.random.default_rng(2)
    for name in ("ic01", "kws01", "vww01"):
        data = tmp_path / "data" / name
        data.mkdir(parents=True)
        for n in range(3):
            (data / f"{n}.bin").write_bytes(rng.bytes(784))
        (data / "y_labels.csv").write_text("0.bin,10,0\n1.bin,10,1\n2.bin,10,2\n")
    return models


def test_the_folder(folder: Path, capsys) -> None:
    for options, modes in (
        ("one", ["performance"]),
        ("two --data data --submitter me", ["accuracy", "performance"]),
    ):
        assert main(f"mlperf --models models --submission {options}".split()) == 0
        error = capsys.readouterr().err
        assert ("wanted --data" in error) == (len(modes) == 1)
        (top,) = Path(options.split()[0]).glob("closed/*")
        assert top.name == ("me" if "me" in options else "celosia")
        system = json.loads((top / "systems" / "ulx3s-85f.json").read_text())
        assert system["Status"].lower() in ("available", "preview", "rdi")
        assert system["Accelerator(s) Frequencies"] == "83.3 MHz"
        assert (top / "code" / "README.md").stat().st_size > 300
        for task in ("ic", "kws", "vww"):
            results = top / "results" / "ulx3s-85f" / task
            assert sorted(path.name for path in results.iterdir()) == modes
            assert main("report mnist_mlp --board ulx3s-85f --json r.json".split()) == 0
            pace = json.loads(Path("r.json").read_text())["inferences_per_second"]
            found = value(THROUGHPUT, results / "performance" / "results.txt")
            assert found == pytest.approx(pace, rel=1e-4)
            for mode in modes:
                assert {path.name for path in (results / mode).iterdir()} == REQUIRED
            if "accuracy" in modes:
                assert 0 <= value(TOP, results / "accuracy" / "results.txt") <= 100
                assert 0 <= value(AREA, results / "accuracy" / "results.txt") <= 1
        assert not [path for path in top.rglob("*") if path.is_dir() and not any(path.iterdir())]


def test_a_data_set_is_cut_into_windows(tmp_path: Path) -> None:
    data = tmp_path / "ad01"
    data.mkdir()
    (data / "a.bin").write_bytes(bytes(range(10)))
    (data / "y_labels.csv").write_text("a.bin,2,1,6,2\n")
    (sample,) = data_set(tmp_path, TASKS["AD"], 40)
    assert sample == Sample("a.bin", 1, [bytes(range(n, n + 6)) for n in (0, 2, 4)])
    (data / "y_labels.csv").write_text("a.bin,2,1\n")
    with pytest.raises(ValueError, match="a.bin: wanted at least 40 bytes, got 10"):
        data_set(tmp_path, TASKS["AD"], 40)


@pytest.mark.parametrize("line", ["", "a", "a,2,x", "a,2,1,-6", "a,2,1,6,2,9", "\xff"])
def test_labels_that_are_none(line: str, tmp_path: Path) -> None:
    path = tmp_path / "ad01" / "y_labels.csv"
    path.parent.mkdir()
    path.write_text(f"{line}\n")
    with pytest.raises(InputError, match="y_labels.csv: wanted .* line"):
        data_set(tmp_path, TASKS["AD"], 40)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("full", "full: wanted a new or an empty folder"),
        ("models/vww_96_int8.tflite", "wanted a new or an empty folder"),
        ("new --board ulx3s-85f ulx3s-45f", "--submission: wanted one --board, got 2"),
        ("--serial KWS --board ulx3s-85f ulx3s-45f", "--serial: wanted one --board, got 2"),
        ("new --submitter a/b", "--submitter: wanted letters and digits, got 'a/b'"),
        ("new -o n.md", "mlperf: wanted one of -o, --submission and --serial"),
        ("new --serial KWS", "mlperf: wanted one of -o, --submission and --serial"),
        ("--data models", "mlperf: --data wants --submission, got none"),
        ("--serial KWS --submitter me", "mlperf: --submitter wants --submission, got none"),
        ("gone.bin/new", "wanted a directory to write into (Not a directory)"),
        ("new --data one", "one/kws01/y_labels.csv: no such file; wanted the data sets of https:"),
        ("new --data none", "none/ic01/y_labels.csv: no such file; wanted the data sets of https:"),
    ],
)
def test_refused(options: str, wanted: str, folder: Path, refused: Callable[[str], str]) -> None:
    shutil.copytree("data", "full")
    shutil.copytree("data/ic01", "one/ic01")
    Path("gone.bin").touch()
    option = "" if options.startswith("--") else "--submission "
    assert wanted in refused(f"mlperf --models models {option}{options}")
    assert not Path("new").exists()
