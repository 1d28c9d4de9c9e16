"""LiteX system for simulators: LiteDRAM before a model of its chip, the host's line as streams."""

import math
from collections.abc import Callable
from typing import Any

from litedram.modules import MT48LC16M16
from litedram.phy.model import SDRAM_VERBOSE_STD, SDRAMPHYModel, get_sdram_phy_settings
from litex.build.generic_platform import Pins, Subsignal
from litex.build.io import CRG
from litex.build.sim import SimPlatform
from litex.soc.cores.uart import RS232PHYModel
from litex.soc.integration.soc_core import SoCCore
from migen import ClockDomain

from celosia.hw.arch.config import Config
from celosia.hw.arch.pod import PodConfig
from celosia.hw.litex.boards import Board
from celosia.hw.litex.levelled import Levelled
from celosia.hw.litex.phy import RegisteredPhy
from celosia.hw.litex.processor import OPTIONS, hold, processor_verilog
from celosia.hw.litex.system import describe, equip, quiet
from celosia.hw.litex.target import target

TOP = "soc"
#: Frequency by which the timing of the memory is derived.
_SDRAM_HZ = 75e6
_SDRAM_BITS = 16
#: Statement by which the model of the chip complains of a command that comes too early.
_DISPLAY, _COMPLAINT = "$display(", "violation"

_STREAMS = [
    (f"{side}_{name}", width)
    for side in ("source", "sink")
    for name, width in (("valid", 1), ("ready", 1), ("data", 8))
]


_System: Any = SoCCore


def _in_picoseconds(hertz: float, phases: int) -> float:
    """Return a clock with whole picoseconds in a cycle of the chip, at most one more.

    The model counts picoseconds, and would take four cycles of 6,666.7 for more than four of 6,666.
    ``phases``: cycles of the chip in one of the clock.
    """
    return 1e12 / (phases * math.ceil(round(1e12 / (hertz * phases), 3)))


class SimulatedSystem(_System):
    """A core or a pod, a memory chip with its controller, and a line.

    Parameters
    ----------
    config : Config or PodConfig
        Sizes.
    board : Board, optional
        Board whose memory chip, PHY and ratio of clocks it has; otherwise it has 32 MB of SDRAM
        with 16 data lines, and one clock.
    processor : bool
        Whether it has a processor.
    """

    #: Cycles of the bus in a simulated second: so few that the time-outs of the line pass quickly.
    clock_hz = 100_000
    #: Data sheet by which the model of the chip checks the controller.
    chip = MT48LC16M16

    def __init__(
        self, config: Config | PodConfig, board: Board | None = None, processor: bool = False
    ) -> None:
        serial = [Subsignal(name, Pins(width)) for name, width in _STREAMS]
        clocks = [(name, 0, Pins(1)) for name in ("sys_clk", "core_clk")]
        platform = SimPlatform("SIM", [*clocks, ("serial", 0, *serial)])
        core_clock = platform.request("core_clk")
        self.crg = CRG(platform.request("sys_clk"))
        none = ("integrated_sram_size", "with_uart", "with_timer", "with_ctrl")
        options = {**dict.fromkeys(none, 0), "cpu_type": None, **(OPTIONS if processor else {})}
        super().__init__(platform, self.clock_hz, **options)
        if processor:
            hold(self)
        if board is None:
            chip, module = (kind(_SDRAM_HZ, "1:1") for kind in (self.chip, MT48LC16M16))
            phy: Any = get_sdram_phy_settings("SDR", _SDRAM_BITS, _SDRAM_HZ)
        else:
            base = target(board)
            chip = module = base.chip
            phy = base.phy_settings
        hertz = _in_picoseconds(chip.clk_freq, phy.nphases)
        model = SDRAMPHYModel(chip, phy, clk_freq=hertz, verbosity=SDRAM_VERBOSE_STD)
        self.sdrphy = model
        self.ddrphy = (Levelled if phy.read_leveling else RegisteredPhy)(model)
        self.add_sdram(phy=self.ddrphy, module=module, l2_cache_size=0)
        domain, self.core_hz = None, self.clock_hz
        if board and board.has_own_clock:
            domain = ClockDomain("core")
            self.comb += domain.clk.eq(core_clock)
            self.core_hz = round(self.clock_hz * board.clock_hz / board.bus_hz)
        equip(self, config, self.line(platform.request("serial")), domain)

    def line(self, pads: Any) -> Any:
        """Return the line of some pads: streams of bytes."""
        return RS232PHYModel(pads)


def simulated(
    config: Config | PodConfig,
    system: Callable[[Config | PodConfig, Board | None, bool], Any] = SimulatedSystem,
    board: Board | None = None,
    processor: bool = False,
) -> tuple[str, dict[str, Any]]:
    """Return the Verilog of a simulated system, its top module ``soc``, and its description.

    The Verilog of the core or the pod is not in it. The simulation ends when the memory chip is
    driven against its data sheet.

    Parameters
    ----------
    config : Config or PodConfig
        Sizes.
    system : class
        The system; its ``baud`` in the description is the frequency of its clock.
    board : Board, optional
        Board whose memory it has.
    processor : bool
        Whether it has a processor.
    """
    with quiet():
        soc = system(config, board, processor)
        soc.finalize()
        text = soc.platform.get_verilog(soc, name=TOP).main_source
    described = describe(soc, config, baud=soc.clock_hz, clock_hz=soc.core_hz)
    return "\n".join((_ended(text), *processor_verilog(soc))), described


def _ended(text: str) -> str:
    """Return the Verilog of a system, in which a complaint of the chip ends the simulation."""
    before, *statements = text.split(_DISPLAY)
    for statement in statements:
        call, _, after = statement.partition(";")
        call = f"{_DISPLAY}{call};"
        before += (f"begin {call} $finish; end" if _COMPLAINT in call else call) + after
    return before
