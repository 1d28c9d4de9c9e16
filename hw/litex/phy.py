"""Registers between a memory controller and its pads."""

from copy import copy
from typing import Any

from litedram.phy.dfi import Interface
from litex.gen import LiteXModule
from migen.genlib.record import DIR_M_TO_S

_Module: Any = LiteXModule


class RegisteredPhy(_Module):
    """PHY with registers before and after it, in the clock of the controller.

    The registers of the pads have a faster clock on some boards, and half the time for a wire.

    Parameters
    ----------
    phy : module
        PHY of SDR memory: ``dfi`` and ``settings``.

    Attributes
    ----------
    dfi : Interface
        Side of the controller.
    settings : PhySettings
        Those of ``phy`` with the latency of the registers.

    Timing
    ------
    Commands and written data take one cycle more, read data two.
    """

    def __init__(self, phy: Any) -> None:
        first = phy.dfi.p0
        sizes = (len(getattr(first, name)) for name in ("address", "bank", "cs_n", "wrdata"))
        self.dfi: Any = Interface(*sizes, nphases=len(phy.dfi.phases))
        self.settings = copy(phy.settings)
        self.settings.read_latency += 2
        for near, far in zip(self.dfi.phases, phy.dfi.phases, strict=True):
            for name, _, direction in near.layout:
                sent, taken = getattr(near, name), getattr(far, name)
                self.sync += taken.eq(sent) if direction == DIR_M_TO_S else sent.eq(taken)
