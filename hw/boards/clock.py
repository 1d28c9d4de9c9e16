"""Clocks of boards, out of an oscillator through the part's phase-locked loop."""

from typing import Any

from amaranth.hdl import Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.boards import pll


class Ecp5Clock(wiring.Component):
    """Makes the clock of a board on an ECP5.

    It is held back until the loop has locked, so that everything starts from the values that the
    bitstream gives it: no reset is needed.

    Parameters
    ----------
    oscillator_hz, clock_hz : int
        What comes in and what is wanted, in Hz.

    Members
    -------
    oscillator : In(1)
        Clock from the board.
    clk : Out(1)
        The clock, on a global net.

    Raises
    ------
    ValueError
        If the loop cannot make that clock.
    """

    oscillator: Signal
    clk: Signal

    def __init__(self, *, oscillator_hz: int, clock_hz: int) -> None:
        self.settings = pll.settings(pll.ECP5, oscillator_hz=oscillator_hz, clock_hz=clock_hz)
        self.oscillator_hz = oscillator_hz
        self.clock_hz = clock_hz
        super().__init__({"oscillator": In(1), "clk": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        back = Signal()
        made = Signal()
        locked = Signal()
        found = self.settings
        m.submodules.pll = Instance(
            "EHXPLLL",
            a_FREQUENCY_PIN_CLKI=f"{self.oscillator_hz / 1e6:g}",
            a_FREQUENCY_PIN_CLKOS=f"{self.clock_hz / 1e6:g}",
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
            o_LOCK=locked,
        )
        m.submodules.gate = Instance("DCCA", i_CLKI=made, i_CE=locked, o_CLKO=self.clk)
        return m


#: By family of parts.
CLOCKS: dict[str, Any] = {"ECP5": Ecp5Clock}
