"""PHY of a simulated system whose reads must be levelled, as those of an ECP5 before DDR3."""

from typing import Any

from litedram.phy.dfi import Interface
from litex.gen import LiteXModule
from litex.soc.interconnect.csr import CSR, CSRStatus, CSRStorage
from migen import If, Signal

_BITS = 8
#: For each byte lane in turn: the bitslip, then the first and last delay with which it reads.
WINDOWS = ((1, 2, 5), (3, 0, 2))

_Module: Any = LiteXModule


class Levelled(_Module):
    """The model of a PHY and its chip, with registers as ``ECP5DDRPHY`` of LiteDRAM has them.

    A byte lane reads ones until the host has found its delay and bitslip.

    Parameters
    ----------
    model : SDRAMPHYModel
        PHY and chip. Its settings count delays and bitslips.

    Attributes
    ----------
    settings : PhySettings
        Those of the model.
    dfi : Interface
        Bus of the memory controller.
    """

    def __init__(self, model: Any) -> None:
        self.settings = settings = model.settings
        phases = model.dfi.phases
        address, bank = len(phases[0].address), len(phases[0].bank)
        self.dfi = Interface(
            address, bank, settings.nranks, settings.dfi_databits, settings.nphases
        )
        self.dly_sel = CSRStorage(settings.strobes)
        self.rdly_dq_rst = CSR()
        self.rdly_dq_inc = CSR()
        self.rdly_dq_bitslip_rst = CSR()
        self.rdly_dq_bitslip = CSR()
        self.burstdet_clr = CSR()
        self.burstdet_seen = CSRStatus(settings.strobes)
        self.comb += self.dfi.connect(model.dfi)
        for lane in range(settings.strobes):
            self._lane(lane, *WINDOWS[lane % len(WINDOWS)])

    def _lane(self, lane: int, wanted: int, first: int, last: int) -> None:
        """Read ones in a lane outside its window."""
        delay, bitslip = Signal(max=self.settings.delays), Signal(max=self.settings.bitslips)
        found = Signal()
        selected = self.dly_sel.storage[lane]
        self.comb += found.eq((delay >= first) & (delay <= last))
        self.sync += If(
            selected,
            If(self.rdly_dq_inc.re, delay.eq(delay + 1)),
            If(self.rdly_dq_rst.re, delay.eq(0)),
            If(self.rdly_dq_bitslip.re, bitslip.eq(bitslip + 1)),
            If(self.rdly_dq_bitslip_rst.re, bitslip.eq(0)),
        )
        seen = self.burstdet_seen.status[lane]
        self.sync += [
            If(self.burstdet_clr.re, seen.eq(0)),
            If(found & self.dfi.phases[0].rddata_valid, seen.eq(1)),
        ]
        words = self.settings.dfi_databits // self.settings.databits
        for phase in self.dfi.phases:
            for word in range(words):
                start = word * self.settings.databits + _BITS * lane
                byte = phase.rddata[start : start + _BITS]
                self.comb += If(~found | (bitslip != wanted), byte.eq(2**_BITS - 1))
