"""Clocks of boards, out of an oscillator through the part's phase-locked loop."""

from abc import ABC, abstractmethod
from typing import ClassVar

from amaranth.hdl import Const, Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.boards import pll


class Clock(wiring.Component, ABC):
    """Makes the clock of a board.

    It is held back until the loop has locked, so that everything starts from the values that the
    bitstream gives it: no reset is needed.

    Parameters
    ----------
    oscillator_hz, clock_hz : int
        What comes in and what is wanted, in Hz.
    lead_ns : float
        By how much ``early`` rises before ``clk``; as near as the loop can set it.

    Members
    -------
    oscillator : In(1)
        Clock from the board.
    clk, early : Out(1)
        The clock, and the same some time earlier, on global nets.

    Raises
    ------
    ValueError
        If the loop cannot make that clock.
    """

    LIMITS: ClassVar[pll.Limits]

    oscillator: Signal
    clk: Signal
    early: Signal

    def __init__(self, *, oscillator_hz: int, clock_hz: int, lead_ns: float) -> None:
        self.settings = pll.settings(self.LIMITS, oscillator_hz=oscillator_hz, clock_hz=clock_hz)
        self.oscillator_hz = oscillator_hz
        self.clock_hz = clock_hz
        self.lag = pll.lag(self.LIMITS, self.settings, lead_ns=lead_ns)
        super().__init__({"oscillator": In(1), "clk": Out(1), "early": Out(1)})

    @abstractmethod
    def elaborate(self, platform: object) -> Module:
        """Return the loop and the gate behind it."""


class Ecp5Clock(Clock):
    """The clock of a board on an ECP5."""

    LIMITS = pll.ECP5

    def elaborate(self, platform: object) -> Module:
        m = Module()
        back = Signal()
        made = Signal()
        lagging = Signal()
        locked = Signal()
        found = self.settings
        coarse, fine = divmod(self.lag, self.LIMITS.steps)
        m.submodules.pll = Instance(
            "EHXPLLL",
            a_FREQUENCY_PIN_CLKI=f"{self.oscillator_hz / 1e6:g}",
            a_FREQUENCY_PIN_CLKOS=f"{self.clock_hz / 1e6:g}",
            a_FREQUENCY_PIN_CLKOS2=f"{self.clock_hz / 1e6:g}",
            a_ICP_CURRENT="12",
            a_LPF_RESISTOR="8",
            a_MFG_ENABLE_FILTEROPAMP="1",
            a_MFG_GMCREF_SEL="2",
            p_PLLRST_ENA="DISABLED",
            p_INTFB_WAKE="DISABLED",
            p_STDBY_ENABLE="DISABLED",
            p_DPHASE_SOURCE="DISABLED",
            p_OUTDIVIDER_MUXA="DIVA",
            p_OUTDIVIDER_MUXB="DIVB",
            p_OUTDIVIDER_MUXC="DIVC",
            p_OUTDIVIDER_MUXD="DIVD",
            p_FEEDBK_PATH="CLKOP",
            p_CLKI_DIV=found.reference,
            p_CLKFB_DIV=found.feedback,
            p_CLKOP_ENABLE="ENABLED",
            p_CLKOP_DIV=found.feedback_output,
            p_CLKOP_CPHASE=0,
            p_CLKOP_FPHASE=0,
            p_CLKOS_ENABLE="ENABLED",
            p_CLKOS_DIV=found.output,
            p_CLKOS_CPHASE=0,
            p_CLKOS_FPHASE=0,
            p_CLKOS2_ENABLE="ENABLED",
            p_CLKOS2_DIV=found.output,
            p_CLKOS2_CPHASE=coarse,
            p_CLKOS2_FPHASE=fine,
            i_CLKI=self.oscillator,
            i_CLKFB=back,
            i_RST=0,
            i_STDBY=0,
            i_PHASESEL0=0,
            i_PHASESEL1=0,
            i_PHASEDIR=1,
            i_PHASESTEP=1,
            i_PHASELOADREG=1,
            i_PLLWAKESYNC=0,
            i_ENCLKOP=0,
            o_CLKOP=back,
            o_CLKOS=made,
            o_CLKOS2=lagging,
            o_LOCK=locked,
        )
        m.submodules.gate = Instance("DCCA", i_CLKI=made, i_CE=locked, o_CLKO=self.clk)
        m.submodules.gate_early = Instance("DCCA", i_CLKI=lagging, i_CE=locked, o_CLKO=self.early)
        return m


class GowinClock(Clock):
    """The clock of a board on a Gowin GW2A."""

    LIMITS = pll.GOWIN

    def elaborate(self, platform: object) -> Module:
        m = Module()
        made = Signal()
        lagging = Signal()
        locked = Signal()
        found = self.settings
        m.submodules.pll = Instance(
            "rPLL",
            p_DEVICE="GW2AR-18C",
            p_FCLKIN=f"{self.oscillator_hz / 1e6:g}",
            p_IDIV_SEL=found.reference - 1,
            p_FBDIV_SEL=found.feedback - 1,
            p_ODIV_SEL=found.output,
            p_DYN_IDIV_SEL="false",
            p_DYN_FBDIV_SEL="false",
            p_DYN_ODIV_SEL="false",
            p_DYN_DA_EN="false",
            p_DYN_SDIV_SEL=2,
            p_PSDA_SEL=f"{self.lag:04b}",
            # Where it falls: half a period later.
            p_DUTYDA_SEL=f"{(self.lag + 8) % 16:04b}",
            p_CLKFB_SEL="internal",
            p_CLKOUT_BYPASS="false",
            p_CLKOUTP_BYPASS="false",
            p_CLKOUTD_BYPASS="false",
            p_CLKOUTD_SRC="CLKOUT",
            p_CLKOUTD3_SRC="CLKOUT",
            p_CLKOUT_FT_DIR=1,
            p_CLKOUT_DLY_STEP=0,
            p_CLKOUTP_FT_DIR=1,
            p_CLKOUTP_DLY_STEP=0,
            i_CLKIN=self.oscillator,
            i_CLKFB=0,
            i_RESET=0,
            i_RESET_P=0,
            i_FBDSEL=Const(0, 6),
            i_IDSEL=Const(0, 6),
            i_ODSEL=Const(0, 6),
            i_PSDA=Const(0, 4),
            i_DUTYDA=Const(0, 4),
            i_FDLY=Const(0, 4),
            o_CLKOUT=made,
            o_CLKOUTP=lagging,
            o_LOCK=locked,
        )
        m.submodules.gate = Instance("DQCE", i_CLKIN=made, i_CE=locked, o_CLKOUT=self.clk)
        m.submodules.gate_early = Instance(
            "DQCE", i_CLKIN=lagging, i_CE=locked, o_CLKOUT=self.early
        )
        return m


#: By family of parts.
CLOCKS: dict[str, type[Clock]] = {"ECP5": Ecp5Clock, "Gowin": GowinClock}
