"""A processor beside the core, in a simulated LiteX system: docs/how-to/litex.md."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import prerequisites
import pytest

from celosia.hw.arch.presets import PRESETS
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.export.files import verilog_files
from celosia.sw.export.program import c_program
from celosia.sw.frontend.tflite import load
from celosia.sw.runtime.interpreter import open_session

prerequisites.package("litex")
prerequisites.package("pythondata_cpu_vexriscv")

pytestmark = [pytest.mark.thorough, pytest.mark.slow]

NANO = PRESETS["nano"]


def test_digits_through_the_driver_in_c(
    root: Path, mnist_model: Path, mnist: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    prerequisites.riscv()
    prerequisites.verilator()
    folder = shutil.copytree(root / "docs/how-to/processor", tmp_path / "processor")
    program = compile_graph(load(mnist_model), NANO, 1)
    sources = verilog_files(NANO, "celosia.v", everything=True)
    for name, text in {**sources, "digits.c": c_program(program, "digits")}.items():
        (folder / name).write_text(text)
    subprocess.run(["make", "--silent"], cwd=folder, check=True)
    pixels = mnist[0][:4].reshape(4, -1).astype(np.int16)
    np.save(folder / "x.npy", x := (pixels - 128).astype(np.int8))
    with open_session(program, device="machine") as session:
        wanted = session.run([x])[0]
    command = [sys.executable, "digits.py", "main.bin", "x.npy"]
    said = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    lines = said.splitlines()
    assert len(lines) == len(wanted)
    for line, scores in zip(lines, wanted, strict=True):
        digit, _, rest = line.partition(", ")
        cycles, _, found = rest.partition(" cycles: ")
        assert found == str(scores) and int(digit) == scores.argmax()
        assert 60_000 < int(cycles) < 70_000
