"""The Verilog that simulators and synthesis read."""

import re

import pytest
from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import Module, signed
from amaranth.lib.memory import Memory

from celosia.hw.arch.presets import preset
from celosia.hw.memory.weight_buffer import WeightBuffer
from celosia.hw.verilog.build import Emitter, convert, sources_digest, verilog


def test_the_core_is_one_module_tree_with_clock_and_reset():
    text = verilog(preset("nano,unified_bytes=1024,weight_tiles=4"))
    top = text[text.rindex("module celosia(") :]
    for port in ("clk", "rst", "irq", "m_axi__awvalid", "m_axi__rdata", "s_axil__araddr"):
        assert re.search(rf"(input|output) .*\b{port};", top)
    assert set(re.findall(r"always *@ *(\S+)", text)) == {"(posedge"}


def test_signals_of_no_bits_are_left_out():
    text = convert(
        WeightBuffer(rows=4, columns=4, weight_tiles=4, weight_rows=4, bus_bytes=4), name="buffer"
    )
    assert "[-1:0]" not in text and "module buffer(" in text


def test_a_memory_is_cleared_in_one_line():
    buffer = WeightBuffer(rows=4, columns=3, weight_tiles=16, weight_rows=2, bus_bytes=4)
    text = convert(buffer, name="buffer")
    loops = re.findall(r"for \((n_of_\S+) = 0; \1 <= 31; \1 = \1 \+ 1\)", text)
    assert len(set(loops)) == 6
    assert "[1] = 8'h00" not in text and "module buffer(" in text


def test_a_core_that_gateware_cannot_be_is_refused_at_once():
    with pytest.raises(ValueError, match="bus_bytes: wanted at most 64 for gateware, got 128"):
        verilog(preset("tpu_v1,bus_bytes=128,burst_beats=32"))


def test_the_digest_is_of_the_sources():
    assert sources_digest() == sources_digest()
    assert re.fullmatch(r"[0-9a-f]{64}", sources_digest())


def test_initial_words_are_those_of_amaranth(monkeypatch):
    def made() -> str:
        m = Module()
        m.submodules.memory = memory = Memory(shape=signed(3), depth=3, init=[-3, 2])
        m.submodules.nothing = nothing = Memory(shape=0, depth=2, init=[])
        ports = [memory.read_port(), nothing.read_port()]
        return rtlil.convert(m, ports=[port.addr for port in ports] + [ports[0].data])

    quick = made()
    assert "9'000010101" in quick and rtlil.ModuleEmitter is Emitter
    monkeypatch.setattr(rtlil, "ModuleEmitter", Emitter.__base__)
    assert made() == quick
