"""Logic of every board: link, core, memory controller and the registers at the memory's pads."""

from typing import Any

from amaranth.hdl import ClockDomain, Module
from amaranth.lib import io, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.arch.config import Config
from celosia.hw.boards.board import Board
from celosia.hw.lib.component import Component
from celosia.hw.link.system import ID_BITS, System
from celosia.hw.sdram.controller import SdramController
from celosia.hw.sdram.pads import Pads
from celosia.hw.sdram.signature import DATA_BITS, WORD_BYTES, pins

#: Instances, from the top of a board down, that are no rooms of their own.
OPENED = ("machine", "machine.system", "machine.system.core")


class Machine(Component):
    """All of a board but its clock and the pads of clock and line.

    Parameters
    ----------
    board : Board
        Sizes, frequencies, memory chip.
    ports : group of ports
        Pins of the memory chip, see ``Pads``.
    config : Config, optional
        Sizes of the core, the board's own unless given.

    Members
    -------
    rx, tx : In(1), Out(1)
        The serial line.
    started : Out(1)
        The memory may be used.
    irq : Out(1)
        Interrupt of the core.

    Raises
    ------
    ValueError
        If clock, line or memory do not go together.
    """

    def __init__(self, board: Board, ports: Any, config: Config | None = None) -> None:
        config = config or board.config
        self.system = System(config=config, divisor=board.divisor, memory_bytes=board.memory_bytes)
        self.memory = SdramController(
            part=board.chip,
            clock_hz=board.clock_hz,
            cas_latency=board.sdram.cas_latency,
            data_bytes=config.bus_bytes,
            id_bits=ID_BITS,
            read_delay=board.sdram.read_delay,
        )
        self.pads = Pads(ports, row_bits=board.chip.row_bits)
        super().__init__(
            {
                "rx": In(1, init=1),  # pyright: ignore[reportCallIssue]
                "tx": Out(1, init=1),  # pyright: ignore[reportCallIssue]
                "started": Out(1),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.system = system = self.system
        m.submodules.memory = memory = self.memory
        m.submodules.pads = pads = self.pads
        wiring.connect(m, system.m_axi, memory.bus)
        wiring.connect(m, memory.pins, pads.pins)
        m.d.comb += [
            system.rx.eq(self.rx),
            self.tx.eq(system.tx),
            self.started.eq(memory.started),
            self.irq.eq(system.irq),
        ]
        return m


class Bench(Component):
    """A board for simulators: its clock comes from outside, its pads are wires.

    Parameters
    ----------
    board, config
        See ``Machine``.

    Members
    -------
    clk : In(1)
        Clock of everything.
    rx, tx, started, irq
        Ports of ``Machine``.
    pins : Out(signature.pins)
        Levels at the memory chip.
    """

    def __init__(self, board: Board, config: Config | None = None) -> None:
        self.ports = _SimulatedPins(board.chip.row_bits)
        self.machine = Machine(board, self.ports, config)
        members = self.machine.signature.members
        super().__init__({"clk": In(1), **members, "pins": Out(pins(board.chip.row_bits))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sync: Any = ClockDomain(reset_less=True)
        m.domains.sync = sync
        m.submodules.machine = machine = self.machine
        ports, levels = self.ports, self.pins
        for name in ("tx", "started", "irq"):
            m.d.comb += getattr(self, name).eq(getattr(machine, name))
        m.d.comb += [
            sync.clk.eq(self.clk),
            machine.rx.eq(self.rx),
            levels.cke.eq(ports.clk_en.o),
            levels.cs_n.eq(ports.cs.o),
            levels.ras_n.eq(ports.ras.o),
            levels.cas_n.eq(ports.cas.o),
            levels.we_n.eq(ports.we.o),
            levels.ba.eq(ports.ba.o),
            levels.a.eq(ports.a.o),
            levels.dqm.eq(ports.dqm.o),
            levels.dq_o.eq(ports.dq.o),
            levels.dq_oe.eq(ports.dq.oe[0]),
            ports.dq.i.eq(levels.dq_i),
        ]
        return m


class _SimulatedPins:
    """Pins of a memory chip as ``SDRAMResource`` names them, each a signal."""

    def __init__(self, row_bits: int) -> None:
        def out(width: int, *, invert: bool = False) -> Any:
            return io.SimulationPort("o", width, invert=invert)

        self.clk_en = out(1)
        self.cs, self.ras, self.cas, self.we = (out(1, invert=True) for _ in range(4))
        self.ba, self.a, self.dqm = out(2), out(row_bits), out(WORD_BYTES)
        self.dq: Any = io.SimulationPort("io", DATA_BITS)
