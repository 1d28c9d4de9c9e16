"""Folder of a submission to MLPerf Tiny: systems, code, results of the runner's two modes.

The two modes do what ``benchmark/runner`` of the benchmark's repository does, with a simulated
device; the files have its names and lines, which ``submission_checker.py`` reads.
"""

import csv
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from celosia import InputError, __version__, profile
from celosia.sw.files import read_file
from celosia.sw.networks.comparison import Setting
from celosia.sw.runtime.opening import open_session
from celosia_examples.mlperf.device import TASKS, Device, Target, Task, load
from celosia_examples.mlperf.published import REPOSITORY, Model

#: Windows of the performance mode, and the seconds that each takes at least.
WINDOWS, SECONDS = 5, 10

#: Microseconds of an inference that one alone measures well.
_SHORT = 100_000

#: File of the labels in the folder of a data set, and its columns.
LABELS = "y_labels.csv"
_COLUMNS = ("file", "classes", "class", "bytes", "stride")


class Window(NamedTuple):
    """Result of one ``infer``: the scores, inferences and microseconds."""

    scores: list[float]
    inferences: int
    microseconds: int

    @property
    def throughput(self) -> float:
        """Inferences per second."""
        return self.inferences / self.microseconds * 1e6


class Sample(NamedTuple):
    """A file of a data set: its name, its class, and the inputs in it."""

    file: str
    label: int
    inputs: list[bytes]


def infer(device: Target, count: int, warmups: int) -> tuple[Window, list[str]]:
    """Return the result of ``infer``, and all lines of the response."""
    lines = device.respond(f"infer {count} {warmups}")
    text = "\n".join(lines)
    laps = [int(lap) for lap in re.findall(r"m-lap-us-(\d+)", text)]
    scores = re.search(r"m-results-\[(.*)\]", text)
    if len(laps) != 2 or scores is None:
        raise InputError(f"infer: wanted two times and the results, got {text}")
    values = [float(value) for value in scores[1].split(",")]
    return Window(values, count, laps[1] - laps[0]), lines


def performance(device: Target, inputs: Sequence[bytes]) -> dict[str, bytes]:
    """Return the files of the performance mode: a window of inferences for each input."""
    load(device, inputs[0])
    first, _ = infer(device, 1, 0)
    if first.microseconds < _SHORT:
        first, _ = infer(device, 1000, 0)
    count = 1 + math.ceil(1.01 * SECONDS * first.throughput)
    lines, log, windows = [], [], []
    for number, data in enumerate(inputs, 1):
        log += load(device, data)
        window, response = infer(device, count, 10)
        log += response
        if window.microseconds < SECONDS * 1e6:
            raise InputError(f"infer: wanted {SECONDS} s, got {window.microseconds / 1e6} s")
        windows.append(window)
        lines += [
            f"Performance results for window {number}",
            f"    # Inferences : {window.inferences}",
            f"    Runtime: {window.microseconds / 1e6} sec.",
            f"    Throughput: {window.throughput} inf./sec.",
            "    Runtime requirements have been met.",
        ]
    median = float(np.median([window.throughput for window in windows]))
    rule = _stamped("-" * 57)
    lines += [rule, _stamped(f"Median throughput is {median:>10.3f} inf./sec."), rule]
    return _files(lines, log, [window._asdict() for window in windows])


def accuracy(device: Target, samples: Iterable[Sample]) -> dict[str, bytes]:
    """Return the files of the accuracy mode: the mean scores of each file beside its class."""
    log, results = [], []
    for sample in samples:
        windows = []
        for data in sample.inputs:
            log += load(device, data)
            window, response = infer(device, 1, 0)
            log += response
            windows.append(window.scores)
        scores = np.mean(windows, axis=0)
        results.append({"file": sample.file, "class": sample.label, "scores": scores.tolist()})
    labels = np.array([result["class"] for result in results])
    scores = np.array([result["scores"] for result in results])
    lines = []
    if scores.shape[1] > 1:
        right = 100 * float(np.mean(scores.argmax(axis=1) == labels))
        lines.append(_stamped(f"Top 1% = {right:2.1f}"))
    lines.append(_stamped(f"AUC = {_area(scores, labels):.3f}"))
    return _files(lines, log, results)


def _area(scores: np.ndarray, labels: np.ndarray) -> float:
    """Return the area under the curve of true and false positives, of each class beside the rest.

    Scores of one column, or of two classes, are those of class 1.
    """
    if scores.shape[1] > 2:
        classes = range(scores.shape[1])
        areas = [_area(scores[:, [n]], (labels == n).astype(int)) for n in classes]
        return float(np.nanmean(areas))
    values, is_one = scores[:, -1], labels == 1
    if is_one.all() or not is_one.any():
        return math.nan
    above = np.sign(values[is_one][:, None] - values[~is_one][None, :])
    return float(np.mean((above + 1) / 2))


def _stamped(text: str) -> str:
    """Return a line of the runner: time, its name, a text."""
    return f"{datetime.now():%m%d.%H%M%S} ulp-mlperf: {text}"


def _files(lines: Sequence[str], log: Sequence[str], results: Any) -> dict[str, bytes]:
    return {
        "results.txt": "".join(f"{line}\n" for line in lines).encode(),
        "log.txt": "".join(f"{line}\n" for line in (*log, *lines)).encode(),
        "results.json": (json.dumps(results, indent=1) + "\n").encode(),
    }


@contextmanager
def device_of(path: Path, task: Task, setting: Setting, kind: str) -> Iterator[Device]:
    """Return the simulated device of a task, as a context.

    - ``path``: the model.
    - ``setting``: core, memory and clock.
    - ``kind``: ``machine``, with estimated cycles, or ``rtl``, with counted ones.
    """
    memory = {"latency": setting.latency, "bandwidth": setting.bandwidth}
    estimate = profile(path, config=setting.config, **memory)
    with open_session(estimate.program, device=kind, **(memory if kind == "rtl" else {})) as one:
        clock = setting.clock_hz or 1
        yield Device(one, task, clock_hz=clock, cycles=estimate.total.cycles)


def run_modes(device: Target, options: Mapping[str, Any]) -> dict[str, dict[str, bytes]]:
    """Return the files of each mode; accuracy where there is a data set.

    - ``options``: ``seed`` of random inputs, and ``data``, the folder of the data sets.
    """
    task, size = device.task, device.input_bytes
    samples = data_set(options["data"], task, size) if options["data"] else []
    loaded = [data for sample in samples[:WINDOWS] for data in sample.inputs[:1]]
    rng = np.random.default_rng(options["seed"])
    while len(loaded) < WINDOWS:
        numbers = rng.normal(0, 1, size // 4).astype("<f4")
        loaded.append(numbers.tobytes() if task.item_bytes == 4 else rng.bytes(size))
    results = {"performance": performance(device, loaded)}
    if samples:
        results["accuracy"] = accuracy(device, samples)
    return results


def summary(files: Mapping[str, bytes]) -> str:
    """Return the results of a mode in a few words."""
    text = files["results.txt"].decode()
    phrases = re.findall(r"ulp-mlperf: (?:Median throughput is +)?(\w.*?)\.?$", text, re.MULTILINE)
    return ", ".join(phrases)


def labels_of(folder: Path, task: Task) -> list[tuple[str, int, int, int]]:
    """Return file, class, bytes and stride, or 0 for those of an input, of a data set's samples.

    Raises InputError if there is no such data set, or a line is none of a sample.
    """
    path = folder / task.model / LABELS
    if not path.is_file():
        raise InputError(f"{path}: no such file; wanted the data sets of {REPOSITORY}")
    samples = []
    for row in filter(None, csv.reader(read_file(path).decode("utf-8", "replace").splitlines())):
        try:
            file, _, *words = (*row, *[""] * (len(_COLUMNS) - len(row)))
            label, size, stride = int(words[0]), *(int(word or 0) for word in words[1:])
            if min(label, size, stride) < 0:
                raise ValueError("below 0")
        except ValueError:
            columns = ",".join(_COLUMNS)
            raise InputError(f"{path}: wanted {columns} in a line, got {','.join(row)!r}") from None
        samples.append((file, label, size, stride))
    if not samples:
        raise InputError(f"{path}: wanted a line of each sample, got none")
    return samples


def data_set(folder: Path, task: Task, input_bytes: int) -> list[Sample]:
    """Return the samples of a data set as the runner has them: ``ic01/y_labels.csv``, and files.

    Raises InputError as ``labels_of``, or if a file is missing or too short.
    """
    samples = []
    for file, label, *extents in labels_of(folder, task):
        data = read_file(folder / task.model / file)
        size, stride = (extent or input_bytes for extent in extents)
        inputs = [data[n : n + size] for n in range(0, len(data) - size + 1, stride)]
        if not inputs:
            raise InputError(f"{file}: wanted at least {size} bytes, got {len(data)}")
        samples.append(Sample(file, label, inputs))
    return samples


def system(setting: Setting, how: str) -> dict[str, str]:
    """Return the description of the system; ``how`` names the source of the cycles."""
    config, clock = setting.config, f"{(setting.clock_hz or 0) / 1e6:g} MHz"
    return {
        "Status": "RDI",
        "Board Name": setting.name,
        "Processor(s) Name": "host of the simulation",
        "Processor(s) Frequencies": "",
        "Processor memory type and capacity": "",
        "Accelerator": f"Celosia {config.name}, {config.rows} x {config.columns} multipliers",
        "Accelerator(s) Frequencies": clock,
        "Accelerator memory type and capacity": setting.memory,
        "Hardware Notes": f"Simulated: {how} at {clock}; no board was measured. Operators on the "
        "host and transfers of inputs and outputs take no time.",
        "Inference Framework": f"Celosia {__version__}",
        "Software Libraries": "",
        "Software Notes": "Models as published, int8, unmodified.",
    }


#: Page beside the results.
_README = """\
# Celosia

Simulated with Celosia {version}: `celosia mlperf --submission FOLDER --board {board} --device {device}`.
The core's cycles at the board's clock are the time of the device; nothing was measured on a board.
Models: the published files of {repository}, by SHA-256:

{models}
"""


def readme(board: str, device: str, models: Iterable[Model]) -> bytes:
    """Return the page on how to repeat the results."""
    rows = "\n".join(f"- {model.name}: `{model.file}`, {model.sha256}" for model in models)
    text = _README.format(
        version=__version__, board=board, device=device, repository=REPOSITORY, models=rows
    )
    return text.encode()


def tasks_of(files: dict[Model, Path]) -> dict[Model, tuple[Task, Path]]:
    """Return the task and the file of the models that a submission must have."""
    return {m: (TASKS[m.name], path) for m, path in files.items() if m.name in TASKS}
