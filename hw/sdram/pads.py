"""Registers and drivers in the pads of an FPGA, and the chip's clock."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import io, wiring
from amaranth.lib.wiring import In

from celosia.hw.sdram.signature import pins

#: Half periods that the registers in the pads add to ``read_phase``: one out, one in.
PAD_PHASES = 4


class Pads(wiring.Component):
    """Ties a controller to the pads of a board.

    Every level leaves from a register in its pad and every word is captured in one. The clock is
    left to :class:`ClockPad`.

    Parameters
    ----------
    ports : group of ports
        ``clk_en``, ``cs``, ``ras``, ``cas``, ``we``, ``ba``, ``a``, ``dqm``, ``dq`` as
        ``SDRAMResource`` of amaranth-boards names them, requested with direction ``"-"``.
    row_bits : int
        Address pins.

    Members
    -------
    pins : In(signature.pins)
        The controller's side.

    Timing
    ------
    One cycle to the pads and one back: ``PAD_PHASES`` of the controller's ``read_phase``.
    """

    pins: Any

    def __init__(self, ports: Any, *, row_bits: int) -> None:
        self.ports = ports
        super().__init__({"pins": In(pins(row_bits))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        levels = self.pins
        for name, level in {
            "clk_en": levels.cke,
            "cs": ~levels.cs_n,
            "ras": ~levels.ras_n,
            "cas": ~levels.cas_n,
            "we": ~levels.we_n,
            "ba": levels.ba,
            "a": levels.a,
            "dqm": levels.dqm,
        }.items():
            pad: Any = io.FFBuffer(io.Direction.Output, getattr(self.ports, name))
            m.submodules[name] = pad
            m.d.comb += pad.o.eq(level)
        dq: Any = io.FFBuffer(io.Direction.Bidir, self.ports.dq)
        m.submodules.dq = dq
        m.d.comb += [dq.o.eq(levels.dq_o), dq.oe.eq(levels.dq_oe), levels.dq_i.eq(dq.i)]
        return m


class ClockPad(wiring.Component):
    """Gives the chip ``sync`` upside down: levels change half a period before its rising edge.

    Parameters
    ----------
    port : port
        Pad of the clock. Amaranth cannot simulate it.
    """

    def __init__(self, port: Any) -> None:
        self.port = port
        super().__init__({})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pad: Any = io.DDRBuffer(io.Direction.Output, self.port)
        m.submodules.pad = pad
        m.d.comb += [pad.o[0].eq(0), pad.o[1].eq(1)]
        return m
