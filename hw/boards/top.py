"""The top of a board: clock, machine and pads, and what of it the tools are given."""

from dataclasses import replace
from typing import Any

from amaranth.hdl import ClockDomain, Const, Elaboratable, Module
from amaranth.lib import io

from celosia.hw.boards.board import Board
from celosia.hw.boards.clock import CLOCKS
from celosia.hw.boards.machine import OPENED, Machine
from celosia.hw.boards.platform import platform_of
from celosia.hw.build import TOP, tidy
from celosia.hw.flow.flow import Design
from celosia.hw.flow.pins import Pin, pin_file
from celosia.hw.flow.sources import separate
from celosia.hw.sdram.pads import ClockPad


class Top(Elaboratable):
    """A board from pad to pad.

    The first lamp says that the memory may be used, the second that the core asks for its host.

    Parameters
    ----------
    board : Board
        What is built.
    """

    def __init__(self, board: Board) -> None:
        self.board = board

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        board = self.board
        clock = CLOCKS[board.fpga.family.name](
            oscillator_hz=board.oscillator_hz,
            clock_hz=board.clock_hz,
            lead_ns=board.sdram.clock_lead_ns,
        )
        sdram = platform.request("sdram", 0, dir="-")
        machine = Machine(board, sdram)
        sync: Any = ClockDomain(reset_less=True)
        early: Any = ClockDomain(reset_less=True)
        m.domains.sync = sync
        m.domains.early = early
        m.submodules.clock = clock
        m.d.comb += [sync.clk.eq(clock.clk), early.clk.eq(clock.early)]
        m.submodules.machine = machine
        m.submodules.clock_pad = ClockPad(sdram.clk, domain="early")
        uart = platform.request("uart", 0, dir="-")
        inputs = {
            "oscillator": (platform.request(board.oscillator, 0, dir="-"), clock.oscillator),
            "rx": (uart.rx, machine.rx),
        }
        outputs: dict[str, tuple[Any, Any]] = {
            "tx": (uart.tx, machine.tx),
            "lamp_started": (platform.request("led", 0, dir="-"), machine.started),
            "lamp_irq": (platform.request("led", 1, dir="-"), machine.irq),
        }
        for name, (port, signal) in inputs.items():
            m.submodules[name] = pad = io.Buffer(io.Direction.Input, port)
            m.d.comb += signal.eq(pad.i)
        for name in board.high:
            outputs[name] = (platform.request(name, 0, dir="-"), Const(-1))
        for name, (port, signal) in outputs.items():
            m.submodules[name] = pad = io.Buffer(io.Direction.Output, port)
            m.d.comb += pad.o.eq(signal)
        return m


def design(board: Board, top: Any = None) -> Design:
    """Return what the flow builds for a board.

    Parameters
    ----------
    board : Board
        Part, pins and clock.
    top : elaboratable, optional
        What is built for it, :class:`Top` unless given.

    Raises
    ------
    BoardError
        If the package that knows its pins is not there.
    ValueError
        If clock, line and memory do not go together.
    """
    from amaranth.back import verilog

    platform = platform_of(board)
    board = replace(board, config=board.fpga.suited(board.config))
    prepared = platform.prepare(top or Top(board), name=TOP)
    text, sources = separate(verilog.convert_fragment(prepared, name=TOP)[0])
    pins = [Pin(*bit) for bit in platform.iter_port_constraints_bits()]
    clocks = {
        pin.port: board.oscillator_hz for pin in pins if pin.port.startswith(board.oscillator)
    }
    return Design(
        name=TOP,
        verilog=tidy(text),
        part=board.fpga,
        megahertz=board.clock_hz / 1e6,
        pins=pin_file(board.fpga.family, pins, clocks),
        opened=OPENED,
        sources=sources,
    )
