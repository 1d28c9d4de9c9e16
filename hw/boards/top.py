"""The top of a board: clock, machine and pads, and what of it the tools are given."""

import importlib
from dataclasses import replace
from typing import Any

from amaranth.hdl import ClockDomain, Elaboratable, Module
from amaranth.lib import io

from celosia.hw.boards.board import Board
from celosia.hw.boards.clock import CLOCKS
from celosia.hw.boards.machine import OPENED, Bench, Machine
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
        clock = _clock(board)
        sdram = platform.request("sdram", 0, dir="-")
        machine = Machine(board, sdram)
        sync: Any = ClockDomain(reset_less=True)
        m.domains.sync = sync
        m.submodules.clock = clock
        m.d.comb += sync.clk.eq(clock.clk)
        m.submodules.machine = machine
        m.submodules.clock_pad = ClockPad(sdram.clk)
        uart = platform.request("uart", 0, dir="-")
        inputs = {
            "oscillator": (platform.request(board.oscillator, 0, dir="-"), clock.oscillator),
            "rx": (uart.rx, machine.rx),
        }
        outputs = {
            "tx": (uart.tx, machine.tx),
            "lamp_started": (platform.request("led", 0, dir="-"), machine.started),
            "lamp_irq": (platform.request("led", 1, dir="-"), machine.irq),
        }
        for name, (port, signal) in inputs.items():
            m.submodules[name] = pad = io.Buffer(io.Direction.Input, port)
            m.d.comb += signal.eq(pad.i)
        for name, (port, signal) in outputs.items():
            m.submodules[name] = pad = io.Buffer(io.Direction.Output, port)
            m.d.comb += pad.o.eq(signal)
        return m


def _clock(board: Board) -> Any:
    known = CLOCKS[board.fpga.family.name]
    return known(oscillator_hz=board.oscillator_hz, clock_hz=board.clock_hz)


def check(board: Board) -> None:
    """Refuse a board that cannot be, before anything takes time.

    Raises
    ------
    ValueError
        If oscillator, clock, line and memory do not go together.
    """
    _clock(board)
    Bench(board)


def design(board: Board) -> Design:
    """Return what the flow builds for a board.

    Raises
    ------
    BoardError
        If the package that knows its pins is not there.
    ValueError
        If clock, line and memory do not go together.
    """
    from amaranth.back import verilog

    platform = _platform(board)
    board = replace(board, config=board.fpga.suited(board.config))
    prepared = platform.prepare(Top(board), name=TOP)
    text, sources = separate(verilog.convert_fragment(prepared, name=TOP)[0])
    pins = [Pin(*bit) for bit in platform.iter_port_constraints_bits()]
    (oscillator,) = (pin.port for pin in pins if pin.port.startswith(board.oscillator))
    clocks = {oscillator: board.oscillator_hz}
    return Design(
        name=TOP,
        verilog=tidy(text),
        part=board.fpga,
        megahertz=board.clock_hz / 1e6,
        pins=pin_file(board.fpga.family, pins, clocks),
        opened=OPENED,
        sources=sources,
    )


class BoardError(RuntimeError):
    """What is needed for a board is missing; the message is one line."""


def _platform(board: Board) -> Any:
    """Return the platform of a board, which hands out pins and makes pads, and builds nothing."""
    module, _, name = board.platform.partition(":")
    try:
        known = getattr(importlib.import_module(module), name)
    except ImportError:
        raise BoardError(
            f"{board.name}: wanted the package amaranth-boards, found none "
            "(pip install 'celosia[synth]')"
        ) from None

    class Pins(known):
        def toolchain_prepare(self, fragment: Any, name: str, **settings: Any) -> Any:
            return fragment

    return Pins()
