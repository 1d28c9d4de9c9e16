"""The Verilog of components: it behaves as that of Amaranth, and nothing is unread."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import icarus
import prerequisites
import pytest
from amaranth.back import verilog as amaranth_verilog
from amaranth.hdl import ClockDomain, Instance, Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from any_ports import Component

from celosia.hw.arch.pod import PodConfig
from celosia.hw.arch.presets import preset
from celosia.hw.verilog.build import convert, verilog
from celosia.hw.verilog.conversion import Conversion
from celosia.sim.rtl.converted import core_verilog
from celosia.sw.export import files

PAIR = data.StructLayout({"used": 5, "unread": 3, "high": signed(4)})

BENCH = """
module bench;
  reg clk = 0, rst = 1;
  reg [31:0] x = {seed};
  integer n;
  wire [63:0] one, other;
  source a(.clk(clk), .rst(rst), .a(x[6:0]), .b(x[10:7]), .c(x[31:20]), .pair(x[24:13]), .y(one));
  written b(.clk(clk), .rst(rst), .a(x[6:0]), .b(x[10:7]), .c(x[31:20]), .pair(x[24:13]), .y(other));
  initial begin
    for (n = 0; n < 5000; n = n + 1) begin
      x = x ^ (x << 13); x = x ^ (x >> 17); x = x ^ (x << 5);
      rst = n < 4;
      #1 clk = 1; #1 clk = 0; #1;
      if (one !== other) begin $display("%d: %h %h", n, one, other); $finish; end
    end
    $display("compared");
  end
endmodule
"""


class Inner(Component):
    """A block with an input that it does not read, and outputs that nobody reads."""

    def __init__(self) -> None:
        ports = {"pair": In(PAIR), "spare": In(4), "sum": Out(signed(6)), "unread": Out(8)}
        super().__init__({**ports, "twice": Out(5)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += [self.sum.eq(self.pair.used + self.pair.high), self.twice.eq(self.pair.used)]
        m.d.sync += self.unread.eq(self.unread + self.twice)
        m.submodules.nothing = Nothing(self.pair)
        return m


class Nothing(wiring.Component):
    """A block whose work nobody reads."""

    def __init__(self, pair: object) -> None:
        self.pair = pair
        super().__init__({"o": Out(8)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.sync += self.o.eq(self.o ^ data.View(PAIR, self.pair).used)  # pyright: ignore
        return m


class Mixed(Component):
    """Operators on operands of unequal width and sign."""

    def __init__(self) -> None:
        ports = {"clk": In(1), "rst": In(1), "a": In(signed(7)), "b": In(4), "c": In(signed(12))}
        super().__init__({**ports, "pair": In(PAIR), "y": Out(64)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sync: Any = ClockDomain()
        m.domains.sync = sync
        m.d.comb += [sync.clk.eq(self.clk), sync.rst.eq(self.rst)]
        m.submodules.inner = inner = Inner()
        m.submodules.memory = memory = Memory(shape=8, depth=16, init=[])
        write = memory.write_port(granularity=4)
        read = memory.read_port()
        seen = memory.read_port(domain="comb")
        a, b, c, y, pair = self.a, self.b, self.c, self.y, self.pair
        kept = Signal(signed(9), init=-3)
        nested = Signal(12)
        choice = Signal(3)
        none = Signal(0)
        m.d.comb += [
            inner.pair.eq(self.pair),
            inner.spare.eq(b),
            write.addr.eq(b),
            write.data.eq(c),
            write.en.eq(a[:2]),
            seen.addr.eq(a[:4]),
            read.addr.eq(c[:4]),
            read.en.eq(1),
        ]
        m.d.sync += kept.eq(a - b)
        with m.If(b[0]):
            # No `else` before that of the outer condition.
            with m.If(a[0]):
                m.d.sync += nested.eq(c)
        with m.Else():
            m.d.sync += nested.eq(0)
        with m.Switch(b):
            with m.Case(1, 2, 3):
                m.d.comb += choice.eq(a[:3])
            with m.Case(9):
                m.d.comb += choice.eq(5)
        m.d.comb += y.eq(
            (a + c) ^ (b - a) ^ (-a << 7) ^ (c << b) ^ (c >> b) ^ (kept * c) ^ (c.bit_select(b, 3) << 9)
            ^ ((a < c) << 20) ^ ((b > 9) << 21) ^ ((b <= 15) << 22) ^ ((a == 0) << 23)
            ^ ((b == c) << 24) ^ ((a & c) << 25) ^ ((c | b) << 40) ^ (~a << 50)
            ^ (none.all() << 51) ^ (none.any() << 52) ^ ((none == 0) << 53) ^ (none + b)
            ^ (choice << 30) ^ (inner.sum << 33) ^ (read.data << 55) ^ (seen.data << 40)
            ^ ((a - (c - b))[:13] << 10)
            ^ (nested << 44) ^ (c.word_select(b[:2], 3) << 20) ^ (pair.as_value().as_signed() >> b)
        )  # fmt: skip
        return m


@pytest.fixture(scope="module")
def written() -> str:
    stages = []
    text = Conversion([("written", Mixed())], report=stages.append).text
    assert len(stages) == 3 and all("written" in stage for stage in stages)
    return text


def test_it_behaves_the_same(written: str, tmp_path: Path, seed: int) -> None:
    (tmp_path / "source.v").write_text(amaranth_verilog.convert(Mixed(), name="source"))
    (tmp_path / "written.v").write_text(written)
    (tmp_path / "bench.v").write_text(BENCH.format(seed=1 + seed % (1 << 31)))
    assert icarus.printed(tmp_path, "bench.v", "source.v", "written.v") == "compared\n"


def test_nothing_is_unread(written: str) -> None:
    """Ports, wires and blocks that nothing reads are gone; names and sources stay."""
    fields = "used [4:0], unread [7:5], high [11:8]"
    assert written.count(fields) == 2
    assert not re.search(r"spare|unread|nothing", written.replace(fields, ""))
    for name in ("kept", "choice", "inner", "twice"):
        assert bool(re.search(rf"\b{name}\b", written)) == (name != "twice"), name
    place = Path(__file__).name
    assert re.search(rf"reg \[8:0\] kept;  // \S*{place}:\d+\n", written)
    assert re.search(r"  initial begin\n    kept = 9'h1fd;", written)
    assert re.search(rf"assign .*; +// .*{place}:\d+\n", written)
    assert str(Path.home()) not in written and str(Path(__file__).parents[2]) not in written


def assert_no_warnings(text: str, top: str, folder: Path) -> None:
    """Run lint, of an old and a new Verilator, with the waivers of ``celosia verilog``."""
    (folder / "design.v").write_text(text)
    (folder / "design.vlt").write_text(files.waivers("design.v"))
    for verilator in {prerequisites.verilator(), prerequisites.verilator((5, 48))}:
        if " " in str(verilator):
            continue  # The script that starts Verilator takes no path with a blank.
        command = [str(verilator), "--lint-only", "-Wall", "--top-module", top]
        command += ["design.vlt", "design.v"]
        printed = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert not printed.returncode and "%Warning" not in printed.stderr, printed.stderr


def test_it_is_free_of_warnings(written: str, tmp_path: Path) -> None:
    assert_no_warnings(written, "written", tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text",
    [
        lambda: core_verilog(preset("nano")),
        lambda: verilog(PodConfig(preset("pico,lanes=2"), cores=2, ports=1)),
    ],
    ids=["nano", "pod"],
)
def test_cores_are_free_of_warnings(text: Callable[[], str], tmp_path: Path) -> None:
    assert_no_warnings(text(), "celosia", tmp_path)


def test_a_primitive_keeps_its_connections() -> None:
    class Foreign(Component):
        def __init__(self) -> None:
            super().__init__({"a": In(4), "y": Out(4)})

        def elaborate(self, platform: object) -> Module:
            m = Module()
            unread = Signal(2)
            m.submodules.cell = Instance("CELL", i_A=self.a, o_B=unread, o_Y=self.y)
            return m

    text = convert(Foreign(), name="foreign")
    assert re.search(r"CELL .*\.A\(a\), \.B\(_1_\), \.Y\(y\)", text, re.S), text


class Couple(Component):
    """Two equal blocks, one of another width, registers under one condition, a memory of two."""

    def __init__(self) -> None:
        super().__init__(
            {"go": In(1), "a": In(4), "b": In(4), "c": In(8), "y": Out(8), "z": Out(4)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        values = []
        for name, port in (("left", self.a), ("right", self.b), ("wide", self.c)):
            m.submodules[name] = step = Step(len(port))
            m.d.comb += step.i.eq(port)
            values.append(step.o)
        with m.If(self.go):
            m.d.sync += [self.y.eq(values[0] + values[1] + values[2]), self.z.eq(values[0])]
        with m.Elif(self.a == 3):
            m.d.sync += self.z.eq(0)
        return m


class Step(Component):
    """A number and one."""

    def __init__(self, width: int) -> None:
        super().__init__({"i": In(width), "o": Out(width)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o.eq(self.i + 1)
        return m


def test_equal_modules_are_written_once() -> None:
    text = convert(Couple(), name="couple")
    assert re.findall(r"(?m)^module (\w+)\(", text) == ["couple", "couple_step", "couple_step_2"]
    instances = [("couple_step", "left"), ("couple_step", "right"), ("couple_step_2", "wide")]
    assert re.findall(r"(?m)^  (couple_step\w*) (\w+) \(", text) == instances


def test_registers_under_one_condition_stand_below_it() -> None:
    text = convert(Couple(), name="couple")
    assert text.count("always @(posedge clk)") == text.count("if (go)") == 1
    assert re.search(r"else if \(.*\) z <= 4'h0;", text)


def test_sources_have_the_path_of_their_instances() -> None:
    sources = Conversion([("couple", Couple())]).sources("couple", "top")
    assert {"top.y", "top.z", "top.left.o", "top.right.o", "top.wide.o"} <= sources.keys()
    assert sources["top.y"].assigned and not sources["top.left.o"].assigned
    assert sources["top.left.o"].place.partition(":")[0].endswith("test_verilog.py")
