"""A lamp through the real tools, to a bitstream; what cells may take from register to register."""

from dataclasses import replace

import prerequisites
import pytest
from amaranth.hdl import Module, signed
from amaranth.lib.wiring import In, Out
from any_ports import Component

from celosia.hw.flow.flow import Design, packed, placed
from celosia.hw.flow.parts import PARTS
from celosia.hw.flow.report import as_text, examine
from celosia.hw.flow.tools import ToolError, find
from celosia.hw.folded import Folded
from celosia.hw.synthesis import OPENED
from celosia.hw.verilog.build import TOP, convert_with_sources

#: The oscillator of a ULX3S, doubled, a counter, and a lamp.
LAMP = """\
module lamp(input clk25, output led);
  wire clk, back;
  EHXPLLL #(.CLKI_DIV(1), .CLKFB_DIV(2), .CLKOP_DIV(12), .FEEDBK_PATH("CLKOP")) pll (
    .CLKI(clk25), .CLKFB(back), .CLKOP(back), .RST(1'b0));
  assign clk = back;
  reg [23:0] count = 0;
  always @(posedge clk) count <= count + 1;
  assign led = count[23];
endmodule
"""
PINS = """\
LOCATE COMP "clk25" SITE "G2";
LOCATE COMP "led" SITE "B2";
FREQUENCY PORT "clk25" 25.0 MHz;
"""


def test_a_design_becomes_a_bitstream(tmp_path, figure):
    part = PARTS["LFE5U-12F-CABGA381"]
    for tool in ("yosys", part.family.router, part.family.packer[0]):
        with prerequisites.needed(ToolError):
            find(tool)
    made = Design(name="lamp", verilog=LAMP, part=part, megahertz=50, pins=PINS)
    runs = placed(made, tmp_path, seeds=[1])
    report = replace(examine(made, tmp_path, runs), bitstream=packed(made, runs[0]))
    assert report.bitstream is not None and report.bitstream.stat().st_size > 10_000
    assert sum(row["FF"] for row in report.blocks.values()) == 24
    least, _, _ = report.fmax_mhz
    assert least > 50 and report.is_fast_enough
    assert report.slowest[0].nanoseconds == pytest.approx(1000 / least, rel=0.02)
    assert "slowest paths" in as_text(report)
    assert {place.kind for place in report.places} >= {"LUT", "FF"}
    figure(f"lamp: {least:.0f} MHz")


#: The lamp, and a counter with another clock of the same loop; a bit crosses each way.
TWO_CLOCKS = """\
module lamp(input clk25, output led);
  wire back, out, core_clk;
  EHXPLLL #(.CLKI_DIV(1), .CLKFB_DIV(2), .CLKOP_DIV(12), .CLKOS_ENABLE("ENABLED"), .CLKOS_DIV(7),
    .FEEDBK_PATH("CLKOP")) pll (
    .CLKI(clk25), .CLKFB(back), .CLKOP(back), .CLKOS(out), .RST(1'b0));
  assign core_clk = out;
  reg [23:0] count = 0, fast = 0;
  reg [1:0] there = 0, again = 0;
  always @(posedge back) begin count <= count + 1; again <= {again[0], fast[23]}; end
  always @(posedge core_clk) begin fast <= fast + there[1]; there <= {there[0], count[5]}; end
  assign led = count[23] ^ again[1];
endmodule
"""


def test_two_clocks_that_meet_in_crossings(tmp_path):
    """Crossings have no time to keep: a clock that is reached by each of the two is enough."""
    part = PARTS["LFE5U-12F-CABGA381"]
    with prerequisites.needed(ToolError):
        find(part.family.router)
    made = Design(
        name="lamp",
        verilog=TWO_CLOCKS,
        part=part,
        megahertz=85.7,
        pins=PINS,
        own_clock="core_clk",
        other_megahertz=50,
    )
    runs = placed(made, tmp_path, seeds=[1])
    (run,) = runs
    assert sorted(round(clock.wanted, 1) for clock in run.clocks) == [50.0, 85.7]
    shares = [clock.reached / clock.wanted for clock in run.clocks]
    assert run.fmax == pytest.approx(85.7 * min(shares)) and min(shares) > 1
    report = examine(made, tmp_path, runs)
    late = report.late
    assert late is not None and late.late == 0 and late.ends >= 48
    # A tenth faster than the fastest run, its slowest path is late.
    assert [clock / run.fmax for clock, _ in report.beyond] == pytest.approx([1.1, 1.25, 1.5, 2])
    counts = [beyond.late for _, beyond in report.beyond]
    assert 0 < counts[0] and counts == sorted(counts)
    domains = {"count": 0, "again": 0, "led": 0, "fast": 1, "there": 1}
    pairs = [(domains[path.start.name], domains[path.end.name]) for path in report.slowest]
    assert set(pairs) == {(0, 0), (1, 1)}


class MultiplyAdd(Component):
    """A multiplier without registers and an adder, one after the other."""

    def __init__(self):
        shape = {"a": In(signed(18)), "b": In(signed(18)), "c": In(signed(36))}
        super().__init__({**shape, "q": Out(signed(36))})

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.q.eq(self.a * self.b + self.c)
        return m


@pytest.mark.slow
def test_one_multiplier_and_one_adder(tmp_path, figure):
    """The yardstick of docs/reference/boards.md: what cells may take from register to register."""
    part = PARTS["LFE5U-85F"]
    verilog, sources = convert_with_sources(Folded(MultiplyAdd()))
    made = Design(
        name=TOP, verilog=verilog, part=part, megahertz=100, opened=OPENED, sources=sources
    )
    report = examine(made, tmp_path, placed(made, tmp_path, seeds=[1]))
    assert report.unwired is not None and report.unwired.wires == 0
    assert report.runs[0].used["MULT18X18D"][0] == 1
    assert report.unwired.nanoseconds == pytest.approx(6.51, abs=0.01)
    figure(f"one multiplier and one adder, cells alone: {report.unwired.nanoseconds:.2f} ns")
