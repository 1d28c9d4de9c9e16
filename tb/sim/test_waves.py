"""Waves of the simulated core, and their views."""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import prerequisites
import pytest

from celosia.hw.arch import commands, isa
from celosia.sim.rtl.waves import NANOSECONDS, Waves, ports, views
from celosia.sw.cli import main

COPY = "LOAD external=0x100 length=16 post=1\nSTORE external=0x200 length=16 wait=1\nHALT\n"
GROUPS = ["registers (AXI4-Lite)", "external memory (AXI4)"]
GROUPS += ["sequencer", "load", "matrix", "vector", "store"]


@pytest.fixture(scope="module")
def recorded(verilator: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Waves of cycles 10 to 149 of a run that copies 16 bytes."""
    folder = tmp_path_factory.mktemp("waves")
    (folder / "copy.bin").write_bytes(commands.encode(isa.assemble(COPY)))
    np.save(folder / "x.npy", np.arange(16, dtype=np.int8))
    command = f"run {folder}/copy.bin --preset nano --device rtl --memory 0x100={folder}/x.npy "
    command += f"--dump 0x200:16={folder}/y.npy --waves {folder}/o.fst --waves-cycles 10:150"
    assert main(command.split()) == 0
    np.testing.assert_array_equal(np.load(folder / "y.npy"), np.arange(16))
    return folder


def dumped(path: Path) -> str:
    """Return waves as VCD."""
    program = prerequisites.fst2vcd()
    return subprocess.run([program, path], capture_output=True, text=True, check=True).stdout


def names(vcd: str) -> Iterator[tuple[str, str]]:
    """Yield the full name of each signal with its bits, and its identifier."""
    scopes: list[str] = []
    for line in vcd.partition("$enddefinitions")[0].splitlines():
        match line.split():
            case ["$scope", _, name, "$end"]:
                scopes.append(name)
            case ["$upscope", "$end"]:
                scopes.pop()
            case ["$var", _, _, identifier, name, *bits, "$end"]:
                yield ".".join([*scopes, name]) + "".join(bits), identifier


def test_every_signal_of_the_views_is_in_the_file(recorded: Path) -> None:
    found = dict(names(dumped(recorded / "o.fst")))
    lines = (recorded / "o.gtkw").read_text().splitlines()
    shown = [line for line in lines if line.startswith("TOP.")]
    assert len(shown) > 100 and not [name for name in shown if name not in found]
    assert [line[1:] for line in lines if line.startswith("-")][::2] == GROUPS
    commands = [line.partition(" ") for line in (recorded / "o.sucl").read_text().splitlines()]
    assert {command for command, *_ in commands} == {"divider_add", "variable_add", "zoom_fit"}
    added = [name for command, _, name in commands if command == "variable_add"]
    assert set(added) <= {name.partition("[")[0] for name in found}
    assert [name for command, _, name in commands if command == "divider_add"] == GROUPS
    assert [name.partition("[")[0] for name in shown][1:] == added
    for unit in ("load", "matrix", "vector", "store"):
        assert {f"TOP.celosia.core.{unit}.{name}" for name in ("done", "idle")} <= set(added)


def test_the_file_holds_the_cycles_that_were_chosen(recorded: Path) -> None:
    vcd = dumped(recorded / "o.fst")
    found = {name: identifier for name, identifier in names(vcd)}
    times = [int(time) for time in re.findall(r"(?m)^#(\d+)$", vcd)]
    assert min(times) == 10 * NANOSECONDS and max(times) < 150 * NANOSECONDS
    clock = re.escape(found["TOP.celosia.clk"])
    assert len(re.findall(rf"(?m)^1{clock}$", vcd)) == 140
    assert "$timescale" in vcd and "1ns" in vcd


def test_nothing_else_is_left(recorded: Path) -> None:
    wanted = ["copy.bin", "o.fst", "o.gtkw", "o.sucl", "x.npy", "y.npy"]
    assert sorted(path.name for path in recorded.iterdir()) == wanted


def test_ports_are_narrow_and_named() -> None:
    units = ("sequencer", "load_unit", "matrix_unit", "vector_unit", "store_unit")
    modules = ["celosia", *(f"celosia_{unit}" for unit in units)]
    body = "  input clk,  // a.py:1\n  (* keep = 32'd1 *) input reset_x,\n"
    body += "  output reg [3:0] a = 4'h0,  // a.py:2: x [3:0]\n  input m_axi__r,\n"
    body += "  input s_axil__w,\n  output [128:0] wide,\n  output b$1\n);\n"
    body += "  wire inner;\nendmodule\n"
    found = ports("".join(f"module {name}(\n{body}" for name in modules))
    assert list(found) == GROUPS
    assert found["external memory (AXI4)"] == ["TOP.celosia.m_axi__r"]
    start = "TOP.celosia.core.store"
    assert found["store"] == [f"{start}.a[3:0]", f"{start}.m_axi__r", f"{start}.s_axil__w"]
    assert sorted(path.suffix for path in views(Waves(Path("w.fst")), found)) == [".gtkw", ".sucl"]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("--waves o.fst --device machine", "--waves: wanted the device rtl"),
        ("--waves o.fst --workers 2", "--waves: wanted the device rtl in one process"),
        ("--waves o.vcd", "--waves: wanted a file that ends in .fst, got o.vcd"),
        ("--waves-cycles 1:2", "--waves-cycles: wanted --waves FILE.fst, too"),
        ("--waves o.fst --waves-cycles 5:5", "wanted FIRST below LAST, got '5:5'"),
        ("--waves o.fst --waves-cycles 5", "wanted a whole number of at least 1, got ''"),
        ("--waves nowhere/o.fst", "no such directory as nowhere"),
    ],
)
def test_refusals(refused: Callable[[str], str], options: str, wanted: str) -> None:
    np.save("x.npy", np.zeros((1, 784), np.int8))
    assert wanted in refused(f"run mnist_mlp --input x.npy --output y.npy {options}")


def test_a_machine_without_zlib_is_reported(monkeypatch, tmp_path, verilator) -> None:
    from celosia.hw.arch.presets import preset
    from celosia.sim.rtl.core import RtlDevice, verilate
    from celosia.sim.rtl.simulators import SimulatorNotFound

    monkeypatch.setattr(verilate, "has_zlib", lambda: False)
    with pytest.raises(SimulatorNotFound, match="zlib1g-dev"):
        RtlDevice(preset("nano"), waves=Waves(tmp_path / "o.fst"))
