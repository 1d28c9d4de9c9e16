"""The Verilog that simulators and synthesis read."""

import re

import pytest

from celosia.hw.arch.presets import preset
from celosia.hw.memory.weight_buffer import WeightBuffer
from celosia.hw.verilog.build import convert, sources_digest, verilog


def test_the_core_is_one_module_tree_with_clock_and_reset():
    text = verilog(preset("nano,unified_bytes=1024,weight_tiles=4"))
    top = text[text.rindex("module celosia(") :]
    top = top[: top.index(");")]
    for port in ("clk", "rst", "irq", "m_axi__awvalid", "m_axi__rdata", "s_axil__araddr"):
        assert re.search(rf"(input|output) .*\b{port}\b", top)
    assert set(re.findall(r"always *@ *(\S+)", text)) == {"(posedge"}


def test_signals_of_no_bits_are_left_out():
    text = convert(
        WeightBuffer(rows=4, columns=4, weight_tiles=4, weight_rows=4, bus_bytes=4), name="buffer"
    )
    assert "[-1:0]" not in text and "{}" not in text and "module buffer(" in text


def test_a_memory_is_cleared_in_one_line():
    buffer = WeightBuffer(rows=4, columns=3, weight_tiles=16, weight_rows=2, bus_bytes=4)
    text = convert(buffer, name="buffer")
    loops = re.findall(r"for \(_n_ = 0; _n_ < 32; _n_ = _n_ \+ 1\) (\w+)\[_n_\] = 8'h0;", text)
    assert len(set(loops)) == 6
    assert "[1] = 8'h00" not in text and "module buffer(" in text


def test_a_core_that_gateware_cannot_be_is_refused_at_once():
    with pytest.raises(ValueError, match="bus_bytes: wanted at most 64 for gateware, got 128"):
        verilog(preset("tpu_v1,bus_bytes=128,burst_beats=32"))


def test_the_digest_is_of_the_sources():
    assert sources_digest() == sources_digest()
    assert re.fullmatch(r"[0-9a-f]{64}", sources_digest())
