import pytest
from amaranth.back import verilog
from amaranth.hdl import Module
from amaranth.lib.wiring import In, Out
from any_ports import Component
from cocotbext.axi import axi_channels, axil_channels

from celosia.hw.axi.reader import ReadMaster
from celosia.hw.axi.signature import axi4, axi4_lite, axi4_read, axi4_write, join
from celosia.hw.axi.writer import WriteMaster


class Joined(Component):
    def __init__(self):
        super().__init__({"m_axi": Out(axi4(8)), "s_axil": In(axi4_lite(12)), "abort": In(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.reader = reader = ReadMaster(data_bytes=8, burst_beats=4, outstanding=2)
        m.submodules.writer = writer = WriteMaster(data_bytes=8, burst_beats=4, outstanding=2)
        join(m, self.m_axi, reader.bus, writer.bus)
        m.d.comb += [writer.abort.eq(self.abort), self.s_axil.awready.eq(self.s_axil.awvalid)]
        return m


def channels(module, prefix, letters):
    """Return the names that cocotbext-axi needs, and those that it takes."""
    buses = [getattr(module, f"{prefix}{letter}Bus") for letter in letters]
    needed = {name for bus in buses for name in bus._signals}
    return needed, needed | {name for bus in buses for name in bus._optional_signals}


@pytest.mark.parametrize(
    ("signature", "module", "prefix"),
    [(axi4(16), axi_channels, "Axi"), (axi4_lite(12), axil_channels, "AxiLite")],
)
def test_names_are_those_of_cocotbext_axi(signature, module, prefix):
    needed, known = channels(module, prefix, ("AW", "W", "B", "AR", "R"))
    assert needed <= set(signature.members) <= known


def test_halves_make_the_whole():
    halves = {**axi4_read(16).members, **axi4_write(16).members}
    assert halves == dict(axi4(16).members.items())


def test_joined_port_has_the_names_of_the_protocol():
    text = verilog.convert(Joined(), name="joined")
    top = text[text.index("module joined(") :]
    for line in (
        "output [31:0] m_axi__awaddr",
        "output [63:0] m_axi__wdata",
        "output [7:0] m_axi__wstrb",
        "input [63:0] m_axi__rdata",
        "input m_axi__rlast",
        "input [11:0] s_axil__araddr",
        "output [31:0] s_axil__rdata",
    ):
        assert line + ";" in top
