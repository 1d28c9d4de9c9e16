"""LiteX system for simulators: LiteDRAM before a model of its chip, the host's line as streams."""

import re
from collections.abc import Callable
from typing import Any

from litedram.modules import MT48LC16M16
from litedram.phy.model import SDRAM_VERBOSE_STD, SDRAMPHYModel
from litex.build.generic_platform import Pins, Subsignal
from litex.build.io import CRG
from litex.build.sim import SimPlatform
from litex.soc.cores.uart import RS232PHYModel
from litex.soc.integration.soc_core import SoCCore

from celosia.hw.arch.config import Config
from celosia.hw.build import verilog
from celosia.hw.litex.phy import RegisteredPhy
from celosia.hw.litex.system import describe, equip, quiet

TOP = "soc"
#: Frequency by which the timing of the memory is derived.
_SDRAM_HZ = 75e6
_SDRAM_BITS = 16
#: Statement by which the model of the chip complains of a command that comes too early.
_COMPLAINT = re.compile(r'\$display\("[^"]*violation[^;]*;')

_STREAMS = [
    (f"{side}_{name}", width)
    for side in ("source", "sink")
    for name, width in (("valid", 1), ("ready", 1), ("data", 8))
]


_System: Any = SoCCore


class SimulatedSystem(_System):
    """ULX3S-like system: a core, 32 MB of SDRAM with 16 data lines, and a line; no processor.

    Parameters
    ----------
    config : Config
        Sizes of the core.
    """

    #: Cycles of a simulated second: so few that the time-outs of the line pass quickly.
    clock_hz = 100_000
    #: Data sheet by which the model of the chip checks the controller.
    chip = MT48LC16M16
    #: Names and widths of the pads of the line.
    pads = _STREAMS

    def __init__(self, config: Config) -> None:
        serial = [Subsignal(name, Pins(width)) for name, width in self.pads]
        platform = SimPlatform("SIM", [("sys_clk", 0, Pins(1)), ("serial", 0, *serial)])
        self.crg = CRG(platform.request("sys_clk"))
        none = dict.fromkeys(("integrated_sram_size", "with_uart", "with_timer", "with_ctrl"), 0)
        super().__init__(platform, self.clock_hz, cpu_type=None, **none)
        options = {"data_width": _SDRAM_BITS, "clk_freq": _SDRAM_HZ, "verbosity": SDRAM_VERBOSE_STD}
        self.sdrphy = SDRAMPHYModel(self.chip(_SDRAM_HZ, "1:1"), **options)
        self.phy = RegisteredPhy(self.sdrphy)
        self.add_sdram(phy=self.phy, module=MT48LC16M16(_SDRAM_HZ, "1:1"), l2_cache_size=0)
        equip(self, config, self.line(platform.request("serial")))

    def line(self, pads: Any) -> Any:
        """Return the line of some pads: streams of bytes."""
        return RS232PHYModel(pads)


def simulated(
    config: Config, system: Callable[[Config], Any] = SimulatedSystem
) -> tuple[str, dict[str, Any]]:
    """Return the Verilog of a simulated system, its top module ``soc``, and its description.

    The simulation ends when the memory chip is driven against its data sheet.

    Parameters
    ----------
    config : Config
        Sizes of the core.
    system : class
        The system; its ``baud`` in the description is the frequency of its clock.
    """
    with quiet():
        soc = system(config)
        soc.finalize()
        text = soc.platform.get_verilog(soc, name=TOP).main_source
    text = _COMPLAINT.sub(lambda match: f"begin {match[0]} $finish; end", text)
    return f"{text}\n{verilog(config)}", describe(soc, config, baud=soc.clock_hz)
