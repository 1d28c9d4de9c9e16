"""Registers and drivers in the pads of an FPGA, and the chip's clock."""

from typing import Any, NamedTuple

from amaranth.hdl import Module
from amaranth.lib import io, wiring
from amaranth.lib.wiring import In

from celosia.hw.lib.component import Component
from celosia.hw.sdram.signature import pins
from celosia.hw.sdram.timing import Part

#: Cycles that the registers in the pads add to ``read_delay``: one out, one in.
PAD_CYCLES = 2
#: From a register in a pad to the chip, and from the chip to one; estimates, see
#: ``docs/reference/sdram.md``.
PAD_OUT_NS, PAD_IN_NS = 3.0, 1.0


class Margins(NamedTuple):
    """By how much, in ns, levels are there before an edge wants them, and stay after it."""

    command_setup: float
    command_hold: float
    read_setup: float
    read_hold: float


def margins(
    part: Part, *, clock_hz: float, cas_latency: int, clock_lead_ns: float, read_delay: int
) -> Margins:
    """Return how far from their limits commands and words are, through :class:`Pads`.

    The chip's edge comes ``clock_lead_ns`` before the levels change, and a word ``access`` after
    the edge before the one at which the data sheet has it; both go through pads.

    Parameters
    ----------
    part : Part
        The chip.
    clock_hz : float
        Clock of ``sync`` and of the chip.
    cas_latency, read_delay : int
        See ``SdramController``.
    clock_lead_ns : float
        By how much the chip's clock rises before ``sync``.
    """
    period = 1e9 / clock_hz
    access = part.access_cl2_ns if cas_latency == 2 else part.access_cl3_ns
    captured = (read_delay - PAD_CYCLES) * period
    edge = PAD_OUT_NS - clock_lead_ns
    return Margins(
        command_setup=period - clock_lead_ns - part.setup_ns,
        command_hold=clock_lead_ns - part.hold_ns,
        read_setup=captured - (edge - period + access + PAD_IN_NS),
        read_hold=edge + part.output_hold_ns - captured,
    )


class Pads(Component):
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
    One cycle to the pads and one back: ``PAD_CYCLES`` of the controller's ``read_delay``.
    """

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
    """Gives the chip the clock of a domain that rises a little before ``sync``.

    So levels have nearly a period to reach the chip, and stay for as long as the lead. The clock goes
    through a register, as they do, and takes as long.

    Parameters
    ----------
    port : port
        Pad of the clock. Amaranth cannot simulate it.
    domain : str
        Whose clock it is.
    """

    def __init__(self, port: Any, *, domain: str) -> None:
        self.port = port
        self.domain = domain
        super().__init__({})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pad: Any = io.DDRBuffer(io.Direction.Output, self.port, o_domain=self.domain)
        m.submodules.pad = pad
        m.d.comb += [pad.o[0].eq(1), pad.o[1].eq(0)]
        return m
