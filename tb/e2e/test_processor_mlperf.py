"""The firmware of MLPerf Tiny on a simulated processor: docs/how-to/mlperf.md."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import prerequisites
import pytest

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.export.files import verilog_files
from celosia.sw.export.program import c_program
from celosia.sw.frontend.tflite import load
from celosia.sw.networks.comparison import reference
from celosia.sw.runtime.interpreter import open_session
from celosia_examples.mlperf.device import TASKS, Device
from celosia_examples.mlperf.submission import run_modes

prerequisites.package("litex")
prerequisites.package("pythondata_cpu_vexriscv")

pytestmark = [pytest.mark.thorough, pytest.mark.slow]

PRESET = preset("nano,softmax=true")
FILES = {"KWS": "kws_ref_model.tflite", "AD": "ad01_int8.tflite"}
#: Cycles of the bus in a simulated second.
CLOCK = 100_000


def data_set(folder: Path, name: str, elements: int) -> Path:
    """Return a folder with a data set of three samples."""
    task, rng = TASKS[name], np.random.default_rng(2)
    data = folder / "data" / task.model
    data.mkdir(parents=True)
    for n in range(3):
        reals = rng.normal(0, 1, elements).astype("<f4").tobytes()
        (data / f"{n}.bin").write_bytes(reals if task.item_bytes == 4 else rng.bytes(elements))
    lines = "".join(f"{n}.bin,12,{n % 2}\n" for n in range(3))
    (data / "y_labels.csv").write_text(lines)
    return data.parent


def without_times(log: str) -> list[str]:
    """Return the responses in a log but for what depends on the time."""
    # The firmware adds the squares in order, NumPy by pairs: errors, of one number, differ.
    times = r"m-lap-us-\d+|(?<=m-infer-start-)\d+|(?<=m-results-\[)[\d.]+(?=\])"
    lines = re.sub(times, "#", log).splitlines()
    return [line for line in lines if line.startswith(("m-", "e-"))]


@pytest.mark.parametrize("name", FILES)
def test_both_modes(name: str, root: Path, more_models: Path, tmp_path: Path) -> None:
    """The responses are those of the simulated device, whose bytes are LiteRT's."""
    prerequisites.riscv()
    prerequisites.verilator()
    prerequisites.package("ai_edge_litert.interpreter")
    folder = shutil.copytree(root / "docs/how-to/processor", tmp_path / "processor")
    program = compile_graph(load(model := more_models / FILES[name]), PRESET, 1)
    sources = verilog_files(PRESET, "celosia.v", everything=True)
    for file, text in {**sources, "network.c": c_program(program, "network")}.items():
        (folder / file).write_text(text)
    make = ["make", "--silent", "mlperf.bin", f"MODEL={TASKS[name].model}"]
    subprocess.run(make, cwd=folder, check=True)
    data = data_set(tmp_path, name, program.inputs[0].elements)
    arguments = ["mlperf.bin", str(model), name, "modes", str(data)]
    subprocess.run([sys.executable, "mlperf.py", *arguments], cwd=folder, check=True)

    with open_session(program, device="machine") as session:
        device = Device(session, TASKS[name], clock_hz=CLOCK, cycles=2 * CLOCK)
        modes = run_modes(device, {"seed": 0, "data": data})
    for mode, files in modes.items():
        log = (folder / "modes" / mode / "log.txt").read_text()
        assert without_times(log) == without_times(files["log.txt"].decode()), mode

    (output,) = program.outputs
    results = json.loads((folder / "modes" / "accuracy" / "results.json").read_text())
    assert len(results) == 3
    for n, result in enumerate(results):
        content = np.frombuffer((data / TASKS[name].model / f"{n}.bin").read_bytes(), np.uint8)
        array = TASKS[name].read(content, program.inputs[0]).reshape(1, *program.inputs[0].shape)
        quantized = reference(model.read_bytes(), [array])[0][0].reshape(-1)
        real = (quantized.astype(np.float32) - output.zero_point) * np.float32(output.scale)
        if TASKS[name].is_error:
            error = np.mean((real - content.view("<f4")) ** 2)
            assert result["scores"] == pytest.approx([error], rel=1e-5, abs=1e-3)
        else:
            # Steps of the scores are larger than those of the text: each byte is LiteRT's.
            numbers = np.array(result["scores"]) / output.scale + output.zero_point
            assert np.rint(numbers).tolist() == quantized.tolist()

    windows = json.loads((folder / "modes" / "performance" / "results.json").read_text())
    assert len(windows) == 5
    for window in windows:
        cycles = window["microseconds"] / 1e6 * CLOCK / window["inferences"]
        assert window["microseconds"] >= 10_000_000 and 90_000 < cycles < 300_000
