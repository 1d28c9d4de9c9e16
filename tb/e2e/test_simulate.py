"""The Verilog of ``celosia verilog`` means the same to Icarus in both languages and to Verilator.

A plain Verilog bench runs a compiled network; its outputs are those of the machine model.
"""

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import prerequisites
import pytest
from networks import FullyConnected, write_fully_connected
from test_tutorials import check

from celosia.hw.arch.presets import preset
from celosia.hw.flow import tools
from celosia.sim.model.machine import Machine
from celosia.sim.rtl.converted import core_verilog
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.export.files import waivers
from celosia.sw.export.program import hex_program
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.program import Program

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
BENCH = Path(__file__).parents[2] / "sw" / "export" / "bench.v"
#: Settings of Verilator's makefile: one file of C++ reads the headers once, and an inference takes
#: less time than to optimise its program.
MAKE = "VM_PARALLEL_BUILDS=0 OPT_FAST=-O0 OPT_GLOBAL=-O0"
#: What finds Verilator's own objects again.
OBJECTS = {"OBJCACHE": "ccache"} if shutil.which("ccache") else {}


@cache
def written(sizes: str) -> str:
    """Return what ``celosia verilog`` writes."""
    return core_verilog(preset(sizes))


def network(sizes: str, rng: np.random.Generator) -> tuple[Program, bytes, bytes]:
    """Return a compiled network of two layers, its inputs, and the outputs of the machine model."""
    widths = (20, 14, 5)
    layers = [
        FullyConnected(
            weights=rng.integers(-127, 128, (channels, taps)).astype(np.int8),
            weight_scale=0.01,
            bias=rng.integers(-3000, 3000, channels).astype(np.int32),
            output_scale=0.1 * float(np.sqrt(taps)),
            output_zero_point=3,
        )
        for taps, channels in zip(widths, widths[1:], strict=False)
    ]
    model = load(write_fully_connected(layers, input_scale=0.05, input_zero_point=3))
    program = compile_graph(model, preset(sizes))
    inputs = rng.integers(0, 256, widths[0], np.uint8).tobytes()
    machine = Machine(program.config, memory_bytes=program.memory_bytes)
    (source,), (result,) = program.inputs, program.outputs
    contents = [(s.address, s.data) for s in program.segments]
    contents += [(s.address, s.code) for _, s in program.sections]
    for address, content in (*contents, (source.address, inputs)):
        machine.memory[address : address + len(content)] = np.frombuffer(content, np.uint8)
    for section in (*program.once, *program.per_batch):
        machine.run(section.code)
    return program, inputs, machine.memory[result.address :][: widths[-1]].tobytes()


def compiled(simulator: str, parameters: dict[str, int], folder: Path) -> list[str]:
    """Build the bench with ``celosia.v``; return the command that runs it."""
    if simulator == "verilator":
        given = [f"-G{name}={value}" for name, value in parameters.items()]
        words = [str(prerequisites.verilator()), "--binary", *given, "--top-module", "bench"]
        words += ["-MAKEFLAGS", MAKE, "celosia.vlt", str(BENCH), "celosia.v"]
        command = ["obj_dir/Vbench"]
    else:
        given = [f"-Pbench.{name}={value}" for name, value in parameters.items()]
        compiler = prerequisites.icarus()
        words = [str(compiler), f"-g{simulator}", "-s", "bench", *given, "-o", "bench"]
        words += ["celosia.v", str(BENCH)]
        command = [str(compiler.with_name("vvp")), "-n", "bench"]
    done = subprocess.run(
        words, cwd=folder, env=os.environ | OBJECTS, capture_output=True, text=True, check=False
    )
    assert not done.returncode and "arning" not in done.stderr, done.stderr
    return command


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("sizes", "simulator"),
    [
        # The page builds this one.
        pytest.param("nano", "verilator", marks=pytest.mark.slow),
        *((sizes, "verilator") for sizes in ("micro", "pico")),
        *((sizes, year) for sizes in ("nano", "micro", "pico") for year in ("2012", "2005")),
    ],
)
def test_a_network_in_each_simulator(sizes: str, simulator: str, tmp_path: Path, seed: int) -> None:
    program, inputs, wanted = network(sizes, np.random.default_rng(seed))
    (tmp_path / "celosia.v").write_text(written(sizes))
    (tmp_path / "celosia.vlt").write_text(waivers("celosia.v"))
    image = hex_program(program)
    (tmp_path / "net.hex").write_text(image)
    (source,), (result,) = program.inputs, program.outputs
    words = np.frombuffer(inputs, "<u4")
    lines = [f"@{source.address // 4:x}", *(f"{word:08x}" for word in words)]
    (tmp_path / "in.hex").write_text("\n".join((*lines, "")))
    options = ["+program=net.hex", "+inputs=in.hex", f"+outputs={result.address:x}"]
    options.append(f"+bytes={len(wanted)}")
    for name, (section,) in (("once", program.once), ("each", program.per_batch)):
        options += [f"+{name}={section.address:x}", f"+{name}_words={section.words}"]
    sizes_of_bench = {"BYTES": program.config.bus_bytes, "WORDS": image.count("\n") - 6}
    command = compiled(simulator, sizes_of_bench, tmp_path)
    printed = subprocess.run(
        [*command, *options], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert printed.stdout.count("status 2") == 2, printed.stdout
    (scores,) = re.findall(r"(?m)^((?: -?\d+)+)$", printed.stdout)
    assert np.array(scores.split(), np.int8).tobytes() == wanted


def test_yosys_reads_both_languages_alike(tmp_path: Path) -> None:
    """No loop of logic, and the same cells with the same initial values."""
    with prerequisites.needed(tools.ToolError):
        tools.find("yosys")
    (tmp_path / "celosia.v").write_text(written("pico"))
    netlists = []
    for option in ("", "-sv"):
        script = f"read_verilog {option} celosia.v; hierarchy -check -top celosia; proc; "
        script += "check -assert; setattr -unset src */*; write_rtlil netlist.il"
        tools.run("yosys", ["-q", "-p", script], tmp_path / "yosys.log")
        netlists.append((tmp_path / "netlist.il").read_text())
    text, other = (re.sub(r"(?m)^ *attribute \\src .*\n|^#.*\n", "", one) for one in netlists)
    assert text == other and text.count("attribute \\init") > 300


@pytest.mark.thorough
@pytest.mark.skipif(" " in sys.prefix, reason="cocotb's makefiles take no path with a blank")
def test_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"MAKEFLAGS": f"-- {MAKE}", **OBJECTS}.items():
        monkeypatch.setenv(name, value)
    prerequisites.icarus()
    prerequisites.verilator()
    folder = tmp_path / "docs" / "how-to" / "simulate"
    shutil.copytree(HOW_TO / "simulate", folder)
    shutil.copytree(HOW_TO.parent / "tutorial" / "soc", tmp_path / "docs" / "tutorial" / "soc")
    assert check((HOW_TO / "simulate.md").read_text(), folder) == 14
