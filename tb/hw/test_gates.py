"""A small design and what Yosys makes of it, side by side in Icarus."""

import json
from collections import Counter
from dataclasses import replace

import icarus
import prerequisites
import pytest
from amaranth.hdl import Cat, Module, Signal, signed, unsigned
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from any_ports import Component

from celosia.hw.flow.flow import Design, synthesised
from celosia.hw.flow.gates import gates
from celosia.hw.flow.parts import PARTS
from celosia.hw.flow.tools import ToolError, find
from celosia.hw.lib.race import UNDEFINED
from celosia.hw.targets.product import Product
from celosia.hw.verilog.build import convert
from celosia.sim.rtl import parts
from celosia.sim.rtl.simulators import find_icarus

BENCH = """\
module bench;
  reg clk = 0, rst = 1;
  reg [38:0] in = 0;
  wire [49:0] wanted, got;
  integer n, seed = {seed};
  source source_0 (.clk(clk), .rst(rst), .in(in), .out(wanted));
  mapped mapped_0 (.clk(clk), .rst(rst), .in(in), .out(got));
  initial begin
    for (n = 0; n < 4000; n = n + 1) begin
      #1 if (n > 0 && got !== wanted) $display("%d: wanted %h, got %h", n, wanted, got);
      clk = 1; #1 clk = 0; rst = n < 3;
      in = {{$random(seed), $random(seed)}};
    end
    $display("compared");
  end
endmodule
"""


class Small(Component):
    """A block memory, a small memory, a product and a sum."""

    def __init__(self, primitive):
        self.primitive = primitive
        super().__init__({"in": In(39), "out": Out(50)})

    def elaborate(self, platform):
        m = Module()
        source = Signal(39)
        m.d.comb += source.eq(getattr(self, "in"))
        address, value, write = source[:10], source[10:22], source[22]
        m.submodules.large = large = Memory(
            shape=unsigned(12),
            depth=1024,
            init=[n * 37 % 4096 for n in range(1024)],
            attrs=UNDEFINED,
        )
        m.submodules.little = little = Memory(shape=unsigned(4), depth=16, init=[])
        for memory in (large, little):
            port = memory.write_port()
            m.d.comb += [port.addr.eq(address), port.data.eq(value), port.en.eq(write)]
        read = large.read_port()
        few = little.read_port(domain="comb")
        m.submodules.product = product = Product(signed(9), signed(9), primitive=self.primitive)
        total = Signal(16, init=5)
        m.d.sync += total.eq(total + source[3:19])
        m.d.comb += [
            # Never what is written.
            read.addr.eq(Cat(~address[0], source[30:39])),
            few.addr.eq(source[26:30]),
            product.a.eq(source[:9]),
            product.b.eq(source[18:27]),
            product.a_enable.eq(source[36]),
            product.b_enable.eq(source[37]),
            self.out.eq(Cat(read.data, few.data, total, product.p)),
        ]
        return m


@pytest.mark.parametrize(
    ("part", "primitive", "kinds"),
    [
        ("LFE5U-12F-CABGA381", "ecp5", {"DP16KD", "TRELLIS_DPR16X4", "MULT18X18D", "CCU2C"}),
        ("iCE40UP5K", "portable", {"SB_RAM40_4K", "SB_CARRY", "SB_DFF"}),
    ],
)
def test_gates_do_as_their_source(part, primitive, kinds, seed, tmp_path):
    with prerequisites.needed(ToolError):
        find("yosys")
        find_icarus()
    text = convert(Small(primitive), name="mapped")
    design = Design(name="mapped", verilog=text, part=PARTS[part], megahertz=50)
    cells = json.loads(synthesised(design, tmp_path).read_text())["modules"]["mapped"]["cells"]
    assert Counter(cell["type"] for cell in cells.values()).keys() >= kinds
    made = gates(design, tmp_path)
    assert gates(design, tmp_path) == made
    (tmp_path / "source.v").write_text(text.replace("module mapped(", "module source("))
    (tmp_path / "bench.v").write_text(BENCH.format(seed=seed % (1 << 31)))
    sources = ["bench.v", "source.v", str(made), *map(str, parts.models("*"))]
    assert icarus.printed(tmp_path, *sources) == "compared\n"


def test_families_without_models_are_refused(tmp_path):
    part = replace(PARTS["iCE40UP5K"], family=replace(PARTS["iCE40UP5K"].family, models=""))
    design = Design(name="mapped", verilog="", part=part, megahertz=50)
    with pytest.raises(ValueError, match="^gates: wanted a family with models .*, got iCE40$"):
        gates(design, tmp_path)
