"""A LiteX system for simulators: LiteDRAM before a model of its chip, UARTBone on streams."""

import re
from typing import Any

from litedram.modules import MT48LC16M16
from litedram.phy.model import SDRAM_VERBOSE_STD, SDRAMPHYModel
from litex.build.generic_platform import Pins, Subsignal
from litex.build.io import CRG
from litex.build.sim import SimPlatform
from litex.soc.cores.uart import RS232PHYModel, UARTBone
from litex.soc.integration.soc_core import SoCCore

from celosia.hw.arch.config import Config
from celosia.hw.litex.system import describe, equip, quiet, sources

TOP = "soc"
#: Cycles of a simulated second: so few that the time-outs of the line pass quickly.
CLOCK_HZ = 100_000
#: Frequency by which the timing of the memory is derived.
_SDRAM_HZ = 75e6
_SDRAM_BITS = 16
#: Statement by which the model of the chip complains of a command that comes too early.
_COMPLAINT = re.compile(r'\$display\("[^"]*violation[^;]*;')

_STREAM = (("valid", 1), ("ready", 1), ("data", 8))


def _io() -> list[Any]:
    signals = [
        Subsignal(f"{side}_{name}", Pins(width))
        for side in ("source", "sink")
        for name, width in _STREAM
    ]
    return [("sys_clk", 0, Pins(1)), ("serial", 0, *signals)]


_System: Any = SoCCore


class SimulatedSystem(_System):
    """ULX3S-like system: a core, 32 MB of SDRAM with 16 data lines, and UARTBone; no processor.

    Parameters
    ----------
    config : Config
        Sizes of the core.
    """

    #: Data sheet by which the model of the chip checks the controller.
    chip = MT48LC16M16

    def __init__(self, config: Config) -> None:
        platform = SimPlatform("SIM", _io())
        self.crg = CRG(platform.request("sys_clk"))
        none = {"integrated_sram_size": 0, "with_uart": False, "with_timer": False}
        super().__init__(platform, CLOCK_HZ, cpu_type=None, **none)
        self.uartbone_phy = RS232PHYModel(platform.request("serial"))
        self.uartbone = UARTBone(self.uartbone_phy, clk_freq=CLOCK_HZ)
        self.bus.add_master("uartbone", self.uartbone.wishbone)
        options = {"data_width": _SDRAM_BITS, "clk_freq": _SDRAM_HZ, "verbosity": SDRAM_VERBOSE_STD}
        self.sdrphy = SDRAMPHYModel(self.chip(_SDRAM_HZ, "1:1"), **options)
        self.add_sdram(phy=self.sdrphy, module=MT48LC16M16(_SDRAM_HZ, "1:1"), l2_cache_size=0)
        equip(self, config)


def simulated(config: Config) -> tuple[str, dict[str, Any]]:
    """Return the Verilog of a simulated system, its top module ``soc``, and its description.

    The simulation ends when the memory chip is driven against its data sheet.
    """
    with quiet():
        soc = SimulatedSystem(config)
        soc.finalize()
        text = soc.platform.get_verilog(soc, name=TOP).main_source
    text = _COMPLAINT.sub(lambda match: f"begin {match[0]} $finish; end", text)
    return f"{text}\n{sources(config)}", describe(soc, config, baud=CLOCK_HZ)
