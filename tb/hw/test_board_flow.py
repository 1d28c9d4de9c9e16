"""A lamp, and a memory controller, through the real tools of each family."""

from dataclasses import replace
from typing import Any

import prerequisites
import pytest
from amaranth.hdl import ClockDomain, Elaboratable, Module, Signal, signed
from amaranth.lib import io, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.boards.clock import CLOCKS
from celosia.hw.boards.table import BOARDS
from celosia.hw.boards.top import design
from celosia.hw.build import TOP, convert_with_sources
from celosia.hw.flow.flow import Design, packed, placed
from celosia.hw.flow.parts import PARTS
from celosia.hw.flow.report import as_text, examine
from celosia.hw.flow.tools import ToolError, find
from celosia.hw.folded import Folded
from celosia.hw.lib.component import Component
from celosia.hw.sdram.controller import SdramController
from celosia.hw.sdram.pads import ClockPad, Pads
from celosia.hw.synthesis import OPENED


class Lamp(Elaboratable):
    """Clock of a board and a counter that drives a lamp; ``memory`` adds the chip and pads."""

    def __init__(self, board, *, memory=False):
        self.board = board
        self.memory = memory

    def elaborate(self, platform):
        m = Module()
        board = self.board
        sync: Any = ClockDomain(reset_less=True)
        early: Any = ClockDomain(reset_less=True)
        m.domains.sync = sync
        m.domains.early = early
        m.submodules.clock = clock = CLOCKS[board.fpga.family.name](
            oscillator_hz=board.oscillator_hz,
            clock_hz=board.clock_hz,
            lead_ns=board.sdram.clock_lead_ns,
        )
        oscillator = io.Buffer(io.Direction.Input, platform.request(board.oscillator, 0, dir="-"))
        lamp = io.Buffer(io.Direction.Output, platform.request("led", 0, dir="-"))
        m.submodules += [oscillator, lamp]
        count = Signal(24)
        m.d.comb += [clock.oscillator.eq(oscillator.i), sync.clk.eq(clock.clk)]
        m.d.comb += early.clk.eq(clock.early)
        m.d.comb += lamp.o.eq(count[-1])
        m.d.sync += count.eq(count + 1)
        if self.memory:
            ports = platform.request("sdram", 0, dir="-")
            controller = SdramController(
                part=board.chip,
                clock_hz=board.clock_hz,
                data_bytes=4,
                read_delay=board.sdram.read_delay,
            )
            pads = Pads(ports, row_bits=board.chip.row_bits)
            m.submodules += [controller, pads, ClockPad(ports.clk, domain="early")]
            wiring.connect(m, controller.pins, pads.pins)
            # Reads of a rising address, so that nothing is optimised away.
            m.d.comb += [
                controller.bus.arvalid.eq(1),
                controller.bus.araddr.eq(count << 2),
                controller.bus.arsize.eq(2),
                controller.bus.arburst.eq(1),
                controller.bus.rready.eq(1),
            ]
            with m.If(controller.bus.rvalid):
                m.d.sync += count.eq(count + controller.bus.rdata)
        return m


def built(name, folder, *, memory):
    board = BOARDS[name]
    for tool in ("yosys", board.fpga.family.router, board.fpga.family.packer[0]):
        with prerequisites.needed(ToolError):
            find(tool)
    made = design(board, Lamp(board, memory=memory))
    runs = placed(made, folder, seeds=[1])
    return replace(examine(made, folder, runs), bitstream=packed(made, runs[0]))


@pytest.mark.parametrize(
    ("name", "memory"),
    [
        ("ulx3s-12f", False),
        pytest.param("ulx3s-12f", True, marks=pytest.mark.slow),
        pytest.param("tang-nano-20k", False, marks=pytest.mark.slow),
        pytest.param("tang-nano-20k", True, marks=pytest.mark.slow),
    ],
)
def test_a_design_becomes_a_bitstream(name, memory, tmp_path, figure):
    board = BOARDS[name]
    report = built(name, tmp_path, memory=memory)
    assert report.bitstream is not None and report.bitstream.stat().st_size > 10_000
    assert report.rooms and sum(row["FF"] for row in report.rooms.values()) >= 24
    least, _, _ = report.fmax_mhz
    assert least > board.clock_hz / 1e6
    slowest = report.slowest[0]
    assert slowest.nanoseconds == pytest.approx(1000 / least, rel=0.02)
    assert slowest.start.source and "slowest paths" in as_text(report)
    assert {place.kind for place in report.places} >= {"LUT", "FF"}
    figure(f"{name}, {'memory' if memory else 'lamp'}: {least:.0f} MHz")


class MultiplyAdd(Component):
    """A multiplier without registers and an adder, one behind the other."""

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
