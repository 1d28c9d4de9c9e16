"""Counters of Verilator, taken back to lines and signals of Amaranth."""

import ctypes
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import prerequisites
import pytest

from celosia.hw.memory.run_start import RunStart
from celosia.hw.verilog.conversion import run_yosys
from celosia.hw.verilog.emitter import Elaborated
from celosia.hw.verilog.origins import PASSES, convert_with_origins
from celosia.sim.rtl.counting import Counting, Tally, Toggles, counting, current, origins_of, tally
from celosia.sim.rtl.verilate import TOGGLES, compile_library, require_tools

pytestmark = pytest.mark.thorough

TINY = """
from amaranth.hdl import Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out


class Tiny(wiring.Component):
    def __init__(self):
        super().__init__({"word": In(8), "o": Out(4), "p": Out(4), "q": Out(4)})

    def elaborate(self, platform):
        m = Module()
        choice = self.word[:2]
        with m.If(choice == 0):
            m.d.comb += self.o.eq(1)
        with m.Elif(choice == 1):  # missed
            m.d.comb += self.o.eq(2)  # missed
        with m.Else():
            m.d.comb += self.o.eq(4)
            with m.If(self.word[7]):  # missed
                m.d.sync += self.p.eq(8)  # missed
        with m.Switch(choice):
            with m.Case(0, 2):
                m.d.sync += self.p.eq(1)
            with m.Case(1):  # missed
                m.d.sync += self.p.eq(2)  # missed
            with m.Default():
                m.d.sync += self.p.eq(4)
        with m.FSM():
            with m.State("A"):
                m.next = "B"
            with m.State("B"):
                with m.If(self.word[6]):  # missed
                    m.next = "C"
            with m.State("C"):  # missed
                m.d.comb += self.q[0].eq(1)  # missed
                m.next = "A"
        for n in range(3):
            with m.If(choice == n + 2):
                m.d.comb += self.q[1].eq(1)
        held = Signal(4)
        kept = Signal(4, init=8)
        wide = Signal(2)
        pair = Signal(data.StructLayout({"one": 2, "two": data.ArrayLayout(signed(1), 2)}))
        m.d.sync += [held.eq(self.word[2:6]), kept[:3].eq(self.word[2:5])]
        m.d.comb += [pair.one.eq(held[2:]), pair.two[1].eq(held[1])]
        m.d.comb += [wide[0].eq(held[0]), wide[1].eq(1)]
        return m
"""

HARNESS = """
#include "Vcelosia.h"
#include "points.h"

extern "C" void drive(const uint8_t* words, int count) {
    VerilatedContext context;
    Vcelosia core(&context);
    std::vector<uint32_t*> counters = celosia::points.taken();
    core.rst = 0;
    core.eval();
    celosia::points.settled(counters);
    for (int n = 0; n < count; n++) {
        core.word = words[n];
        core.clk = 0;
        core.eval();
        core.clk = 1;
        core.eval();
    }
    celosia::points.add(counters);
}
"""


def tiny(folder: Path) -> Any:
    """Return a component whose source lies in its own folder."""
    path = folder / "hw" / "tiny.py"
    path.parent.mkdir()
    path.write_text(TINY)
    spec = importlib.util.spec_from_file_location("tiny", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Tiny()


def outside_of_branches(text: str) -> list[str]:
    """Return all lines of Verilog that drive a signal unconditionally."""
    plain = re.sub(r"/\*verilator coverage_(on|off)\*/", "", text).split("\n")
    return [line for line in plain if re.match(r"  (assign|input|output) |    \S+ <= ", line)]


def test_only_branches_have_marks(tmp_path: Path) -> None:
    component = tiny(tmp_path)
    text, origins = convert_with_origins(component, name="celosia", folder=tmp_path / "hw")
    plain = run_yosys(Elaborated(component, "celosia").rtlil(has_sources=False), PASSES)
    assert outside_of_branches(text) == outside_of_branches(plain)
    assert len(outside_of_branches(plain)) > 10
    sources = [source for found in origins.branches.values() for source in found]
    assert {source.partition(":")[0] for source in sources} == {"hw/tiny.py"}
    assert "branch$" in text and "branch$" not in plain


@pytest.fixture(scope="module")
def met(tmp_path_factory: pytest.TempPathFactory) -> Tally:
    """Coverage of the tiny component: choices 0, 2 and 3, all of bits 2 to 4, never 5 to 7."""
    with prerequisites.needed():
        require_tools()
    folder = tmp_path_factory.mktemp("tiny")
    text, origins = convert_with_origins(tiny(folder), name="celosia", folder=folder / "hw")
    (folder / "drive.cpp").write_text(HARNESS)
    target = folder / "tiny.so"
    compile_library(text, target, [folder / "drive.cpp"], level="-O0", counting=TOGGLES)
    origins_of(target).write_text(json.dumps(origins._asdict()))
    library = ctypes.CDLL(str(target))
    counted = Counting()
    counted.note(target, library)
    for words in ([0, 2, 3, 0], [28, 2, 28, 0]):
        library.drive((ctypes.c_uint8 * len(words))(*words), len(words))
    found = counted.take()
    assert not any(counted.take().lines.values())
    return found


def test_lines_not_covered_are_exact(met: Tally) -> None:
    lines = TINY.split("\n")
    wanted = {n for n, text in enumerate(lines, 1) if text.endswith("# missed")}
    missed = {source for source, taken in met.lines.items() if not taken}
    assert missed == {f"hw/tiny.py:{n}" for n in wanted}
    taken = {lines[int(source.partition(":")[2]) - 1].strip() for source in met.lines}
    for text in ("with m.If(choice == 0):", 'with m.State("A"):', "with m.Case(0, 2):"):
        assert text in taken
    assert "m.d.comb += self.q[1].eq(1)" in taken


def test_bits_that_never_changed_are_exact(met: Tally) -> None:
    bits = {name: mask for (_, name), mask in met.signals.items()}
    assert bits["held"] == Toggles(0b1111, 0b0111, 0)
    # The highest bit keeps its initial value: no statement writes it.
    assert bits["kept"] == Toggles(0b0111, 0b0111, 0b1000)
    assert bits["wide"] == Toggles(0b01, 0b01, 0b10)
    assert bits["pair.one"] == Toggles(0b11, 0b01, 0)
    assert bits["pair.two.0"] == Toggles(0, 0, 1) and bits["pair.two.1"] == Toggles(1, 1, 0)
    assert "word" not in bits and not any("$" in name for name in bits)
    (source,) = (source for source, name in met.signals if name == "held")
    assert TINY.split("\n")[int(source.partition(":")[2]) - 1].strip() == "held = Signal(4)"


def test_tallies_of_cores_join() -> None:
    narrow, wide = Tally(), Tally()
    narrow.add_line("hw/a.py:1", True)
    narrow.add_line("hw/a.py:2", False)
    wide.add_line("hw/a.py:1", False)
    wide.add_line("hw/a.py:3", False)
    # Two bits of which one is constant in the narrow core; another two in the wide one.
    narrow.add_bits("hw/a.py:4", "x", Toggles(0b01, 0b01, 0b10))
    wide.add_bits("hw/a.py:4", "x", Toggles(0b0111, 0b0100, 0b1000))
    narrow.add(wide)
    assert narrow.lines == {"hw/a.py:1": True, "hw/a.py:2": False, "hw/a.py:3": False}
    assert narrow.signals == {("hw/a.py:4", "x"): Toggles(0b0111, 0b0101, 0b1000)}


def test_points_become_lines_and_bits() -> None:
    def point(line: int, page: str, comment: str, lines: str = "") -> str:
        return f"lineno\t{line}\tpage\t{page}/m\tcomment\t{comment}\tlinescov\t{lines}\t"

    origins = {
        "branches": {"7": ["hw/a.py:1"], "12": ["hw/a.py:1", "hw/b.py:2"], "30": ["hw/b.py:3"]},
        "signals": {
            "3": [["hw/a.py:9", "x.low", 0, 1, 0], ["hw/a.py:9", "x.high", 1, 2, 0b10]],
            "4": [["hw/b.py:9", "y", 0, 1, 0]],
        },
    }
    points = [
        (point(6, "v_line", "if", "6-8"), 1),
        (point(11, "v_branch", "else", "5,11-12"), 0),
        (point(30, "v_line", "block", ""), 5),
        (point(3, "v_toggle", "x[0]"), 2),
        (point(3, "v_toggle", "x[1]"), 1),
        (point(3, "v_toggle", "x[2]"), 7),
        (point(4, "v_toggle", "y"), 3),
        (point(5, "v_toggle", "z"), 3),
    ]
    found = tally(origins, "\n".join(text for text, _ in points), [count for _, count in points])
    assert found.lines == {"hw/a.py:1": True, "hw/b.py:2": False}
    assert found.signals == {
        ("hw/a.py:9", "x.low"): Toggles(1, 1, 0),
        ("hw/a.py:9", "x.high"): Toggles(0b01, 0, 0b10),
        ("hw/b.py:9", "y"): Toggles(1, 1, 0),
    }


def test_counting_ends_with_its_context() -> None:
    assert current() is None
    with counting() as one:
        assert current() is one
        with counting() as other:
            assert current() is other
        assert current() is one
    assert current() is None


def test_a_port_of_fields_belongs_to_its_component() -> None:
    _, origins = convert_with_origins(RunStart(lanes=2, row_bits=4))
    homes = {bits.place.partition(":")[0] for bits in sum(origins.signals.values(), ())}
    assert homes == {"hw/memory/run_start.py"}
