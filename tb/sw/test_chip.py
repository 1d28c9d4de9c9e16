"""Standard cells: a library of five cells, and a counter with a memory."""

import ctypes
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import prerequisites
import pytest
from networks import FullyConnected, write_sequential
from small_liberty import LIBRARY

from celosia.hw.environment.extras import ToolError
from celosia.sw.chip.energy import Gates, Memories, simulator
from celosia.sw.chip.liberty import Library
from celosia.sw.chip.synthesis import Netlist, run
from celosia.sw.cli import main
from celosia.sw.runtime.opening import open_program, open_session

MACRO = """
library (ram) { nom_voltage : 2.0; capacitive_load_unit (1, ff);
  cell (RAM) { area : 100; memory() { type : ram; address_width : 5; word_width : 4; }
    pin (clk) { direction : input; clock : true;
      internal_power() { rise_power(scalar) { values ("40"); } fall_power(scalar) { values ("40"); } } } } }
"""
#: Four bits that count, and a memory of 32 words that takes the count and gives what it held.
COUNTER = """
module counter(clk, run, count, old);
  input clk, run;
  output reg [3:0] count = 0;
  output reg [3:0] old = 0;
  reg [3:0] words [0:31];
  always @(posedge clk) begin
    if (run) count <= count + 1;
    if (run) words[{1'b0, count}] <= count;
    old <= words[5'd2];
  end
endmodule
"""


def library(folder: Path, text: str = LIBRARY, name: str = "tiny.lib") -> Library:
    path = folder / name
    path.write_text(text)
    return Library(path)


@pytest.fixture
def counter(tmp_path: Path) -> Netlist:
    return Netlist(COUNTER, "counter", library(tmp_path), tmp_path / "out")


def clocked(netlist: Netlist, cycles: int) -> tuple[Gates, list[int], tuple]:
    """Return the count after each cycle of a run, and what the simulator has counted."""
    gates, chip = Gates(netlist), simulator()
    gates.load(chip)
    counts = []
    for _ in range(cycles):
        for clock in (0, 1):
            inputs, outputs = (ctypes.c_uint32 * 1)(2 | clock), (ctypes.c_uint32 * 1)()
            chip.celosia_chip(inputs, outputs)
        counts.append(outputs[0] & 15)
    return gates, counts, gates.take(chip)


def test_area_and_changes_of_a_counter(counter: Netlist) -> None:
    blocks = counter.blocks()
    block = blocks["counter"]
    assert block.memories == ((32, 4),) and block.bits == 128
    assert block.registers == 4
    gates, counts, (cycles, changes, accesses) = clocked(counter, 32)
    assert counts == [(n + 1) % 16 for n in range(32)]
    bits = gates.ports["count"]["bits"]
    assert cycles == 32 and [changes[bit] for bit in bits] == [32, 16, 8, 4]
    # The same word is read again only where it has changed.
    assert accesses.tolist() == [[4 * 2, 4 * 32]]


def test_flip_flops_with_an_inverse_output_alone(tmp_path: Path) -> None:
    text = LIBRARY.replace('function : "IQ"', 'function : "IQN"')
    netlist = Netlist(COUNTER, "counter", library(tmp_path, text), tmp_path / "out")
    _, counts, _ = clocked(netlist, 32)
    assert counts == [(n + 1) % 16 for n in range(32)]


def test_energy_by_hand(counter: Netlist, tmp_path: Path) -> None:
    gates, _, (cycles, changes, accesses) = clocked(counter, 32)
    memories = Memories(counter.library)
    assert (memories.bit_area, memories.bit_energy) == (2, 100 * 1 * 2**2)
    energy = gates.energies(cycles, changes, accesses, memories, 10.0)["between"]
    # Each edge of the clock: half of 1 fF at 2 V, and 5 fJ in the cell.
    assert energy.clock == pytest.approx(4 * 64 * (2 + 5) * 1e-6)
    assert energy.memories == pytest.approx(136 * 400 * 1e-6)
    leakage, results = {"INV": 1, "BUF": 2, "NAND": 2, "NOR": 2, "FLOP": 4}, {"FLOP": "Q"}
    counts = {kind: len(pins[results.get(kind, "Y")]) for (kind, _), pins in gates.pins.items()}
    watts = sum(leakage[kind] * count for kind, count in counts.items())
    assert energy.leakage == pytest.approx(watts * 320 * 1e-3 * 1e-6)
    logic = sum(
        int(changes[net]) * (2.0 if pin in ("A", "B", "D") else 3.0 * (kind == "NAND"))
        for (kind, _), pins in gates.pins.items()
        for pin, nets in pins.items()
        if pin != "CK"
        for net in nets
    )
    assert energy.logic == pytest.approx(logic * 1e-6)
    macros = Memories(counter.library, macros=[library(tmp_path, MACRO, "ram.lib")])
    assert macros.area(33, 5) == 4 * 100
    assert macros.energy(32, 8) == 2 * 80 / 8


def test_flip_flops_have_buffers(tmp_path: Path) -> None:
    """No net has more than 16 loads, with the clock left out."""
    text = """
module fan(clk, enable, data, kept);
  input clk, enable;
  input [63:0] data;
  output reg [63:0] kept;
  reg stored;
  always @(posedge clk) begin
    stored <= enable;
    if (stored) kept <= data;
  end
endmodule
"""
    netlist = Netlist(text, "fan", library(tmp_path), tmp_path / "out")
    loads = Counter(
        net
        for (kind, _), pins in Gates(netlist).pins.items()
        for pin, cell in netlist.library.cells[kind].pins.items()
        if cell.function is None and pin != "CK"
        for net in pins[pin]
    )
    assert max(loads.values()) <= 16


def test_a_second_synthesis_is_the_same(counter: Netlist, tmp_path: Path) -> None:
    again = Netlist(COUNTER, "counter", counter.library, tmp_path / "again")
    assert again.mapped.read_bytes() == counter.mapped.read_bytes()


def test_longest_path(counter: Netlist) -> None:
    if shutil.which("sta") is None:
        with pytest.raises(ToolError, match=r"sta: .*apt-get install opensta"):
            counter.longest_path()
        return
    nanoseconds, start, end = counter.longest_path()
    # A gate takes 0.18 ns and 0.02 ns for each fF: 0.2 at least.
    assert 0.1 + 3 * 0.2 < nanoseconds < 5
    assert start and end


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "wanted a library"),
        ("module x; endmodule", "wanted a library"),
        ("cell (x) { ", "library"),
    ],
)
def test_no_library(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        library(tmp_path, text)


def test_functions(tmp_path: Path) -> None:
    tiny = library(tmp_path)
    assert tiny.cells["INV"].table("Y")[1] & 3 == 0b01
    assert tiny.cells["NAND"].table("Y")[1] & 15 == 0b0111
    assert tiny.nand is tiny.cells["NAND"] and tiny.volts == 2.0
    cell = library(tmp_path, LIBRARY.replace("!(A * B)", "(A' + B) ^ A"), "other.lib").cells["NAND"]
    bits = [n for n in range(4) if ((not n & 1) or n & 2 != 0) != bool(n & 1)]
    assert cell.table("Y")[1] & 15 == sum(1 << n for n in bits)
    with pytest.raises(ValueError, match="function"):
        library(tmp_path, LIBRARY.replace("!(A * B)", "f(A)"), "bad.lib").cells["NAND"].table("Y")


def test_missing_tool(tmp_path: Path) -> None:
    message = r"nosuch: wanted it on PATH, found none \(apt-get install x"
    with pytest.raises(ToolError, match=message):
        run("nosuch", "x", [], tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--macro other.lib", "--macro wants --liberty, got none"),
        ("--bit-area 1", "--bit-area wants --liberty, got none"),
        ("--model mnist_mlp", "--model wants --liberty, got none"),
        ("--liberty cells.lib --input x.npy", "--input wants --model, got none"),
        ("--liberty cells.lib --clock 5", "--clock with --liberty wants --model, got none"),
        ("--liberty none.lib", "none.lib: No such file or directory"),
        ("--liberty cells.lib --model mnist_mlp --input none.npy", "none.npy: no such file"),
        ("--liberty cells.lib --model mnist_mlp --input cells.lib", "cells.lib: not an .npy file"),
        ("--liberty cells.lib --model mnist_mlp --input x.npy", "x.npy: .*shape"),
    ],
)
def test_refusals(arguments: str, message: str, refused, tmp_path) -> None:
    (tmp_path / "cells.lib").write_text(LIBRARY)
    np.save(tmp_path / "x.npy", np.zeros((1, 3), np.int8))
    assert re.search(message, refused(f"synth --preset nano {arguments}"))


#: A core with few gates.
SMALL = "pico,columns=2,dsp_columns=2,weight_tiles=16,parameter_channels=32"
SMALL += ",outstanding=2,unified_bytes=512"


@pytest.mark.slow
def test_energy_of_a_network(tmp_path, rng, capsys, monkeypatch, figure) -> None:
    """The command, on a network of two layers: cycles of the RTL, and energy of all blocks."""
    with prerequisites.needed(ToolError):
        run("yosys", "yosys berkeley-abc", ["-V"], tmp_path)
    prerequisites.verilator()
    monkeypatch.chdir(tmp_path)
    library(tmp_path, name="cells.lib")
    scales: dict[str, Any] = {"weight_scale": 0.01, "output_scale": 1.5}
    weights = [rng.integers(-127, 128, shape).astype(np.int8) for shape in ((13, 22), (7, 13))]
    layers = [FullyConnected(weights=one, **scales) for one in weights]
    content = write_sequential(layers, input_shape=(1, 22), input_scale=0.5)
    Path("net.tflite").write_bytes(content)
    x = rng.integers(-128, 128, (1, 22)).astype(np.int8)
    np.save("x.npy", x)
    options = "--model net.tflite --input x.npy --clock 100 --directory out --json e.json"
    assert main(f"synth --preset {SMALL} --liberty cells.lib {options}".split()) == 0
    figures = json.loads(Path("e.json").read_text())
    with open_session(open_program(content, config=SMALL), device="rtl") as session:
        session.run([x])
        counted = session.statistics.cycles
    inference, blocks = figures["inference"], figures["blocks"]
    # The host writes registers before and reads them after.
    assert counted is not None and counted <= inference["cycles"] < counted + 1000
    assert inference["macs"] == 13 * 22 + 7 * 13
    energies = inference["nanojoules"]
    assert set(energies) == set(blocks) - {"total"}
    assert all(min(row["clock"], row["leakage"]) > 0 for row in energies.values())
    assert min(energies[name]["logic"] for name in ("matrix", "vector", "sequencer")) > 0
    for name, row in energies.items():
        assert (row["memories"] > 0) == (blocks[name]["memory bits"] > 0), name
    assert "memory" in capsys.readouterr().out
    total = sum(sum(row.values()) for row in energies.values())
    figure(f"{inference['cycles']:,} cycles, {total:.0f} nJ")
