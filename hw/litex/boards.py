"""All boards: a new one is a row here, and a part of ``hw/flow/parts.py`` if it has a new one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from celosia.hw.arch.config import Config
from celosia.hw.arch.pod import PodConfig
from celosia.hw.arch.presets import preset
from celosia.hw.flow.parts import Part, part_named

#: Bits per second on the line.
BAUD = 3_000_000

#: Share of cycles in which long bursts move data: refreshes and changes of rows take the others.
_SHARE = 0.97


@dataclass(frozen=True, kw_only=True)
class Board:
    """A board of litex-boards, and the core on it.

    Parameters
    ----------
    name : str
        What the command line calls it.
    title : str
        Board and part in words.
    module : str
        Module of ``litex_boards.targets``: pins, clocks and memory of the board.
    options : mapping
        Of the ``BaseSoC`` of that module.
    pins : str
        List of the board's file in ``litex_boards.platforms`` with the pins ``serial``, where the
        target does not have them.
    part : str
        Name in ``hw/flow/parts.py``, or ordering code.
    config : Config
        Sizes of the core.
    clock_hz : int
        Frequency of core, bus and memory controller.
    memory : str
        Memory chip.
    memory_bytes : int
        Bytes of external memory.
    memory_width : int
        Bytes that it moves in a cycle of the core.
    loader : str
        What openFPGALoader calls the board; empty where nobody looked.
    memory_latency : int
        Cycles from an address to the first beat.
    processor : bool
        Whether its system has a processor.
    cores, ports : int
        Cores of a pod, or 1, and its memory ports.
    """

    name: str
    title: str
    module: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    pins: str = ""
    part: str
    config: Config
    clock_hz: int
    memory: str
    memory_bytes: int
    loader: str = ""
    memory_width: int = 4
    memory_latency: int = 32
    processor: bool = False
    cores: int = 1
    ports: int = 1

    @property
    def sizes(self) -> Config | PodConfig:
        """Sizes of its core, or of its pod; raises ValueError as ``PodConfig``."""
        core = self.fpga.suited(self.config, self.cores)
        return core if self.cores == 1 else PodConfig(core, self.cores, self.ports)

    @property
    def fpga(self) -> Part:
        """Its part; raises ValueError if no tool is known for it."""
        part = part_named(self.part)
        if part is None:
            raise ValueError(f"{self.name}: wanted a part of a known family, got {self.part}")
        return part

    @property
    def memory_bandwidth(self) -> float:
        """Beats of the core's bus for each cycle, of long bursts."""
        return _SHARE * min(1, self.memory_width / self.config.bus_bytes)


def _ulx3s(size: int, core: str, clock_hz: int) -> Board:
    return Board(
        name=f"ulx3s-{size}f",
        title=f"ULX3S with LFE5U-{size}F",
        module="radiona_ulx3s",
        # The memory runs at twice the clock: four bytes a cycle.
        options={"device": f"LFE5U-{size}F", "sdram_rate": "1:2"},
        part=f"LFE5U-{size}F-CABGA381",
        config=preset(core),
        clock_hz=clock_hz,
        memory="MT48LC16M16",
        memory_bytes=32 << 20,
        loader="ulx3s",
    )


def _colorlight(board: str, size: int, core: str, clock_hz: int, **options: str) -> Board:
    return Board(
        name=f"colorlight-{board}",
        title=f"Colorlight {board} with LFE5U-{size}F",
        module="colorlight_i5",
        options={"board": board, **options},
        part=f"LFE5U-{size}F-CABGA381",
        config=preset(core),
        clock_hz=clock_hz,
        memory="M12L64322A",
        memory_bytes=8 << 20,
        loader=f"colorlight-{board}",
    )


#: What fits beside the memory controller where there are 56 block memories, and where fewer.
SMALL = "nano,unified_bytes=65536,requantizer=sequential,counters=luts"
SMALLER = "nano,unified_bytes=32768,requantizer=sequential"

BOARDS = {
    board.name: board
    for board in (
        _ulx3s(85, "micro", 60_000_000),
        _ulx3s(45, "micro", 55_000_000),
        _ulx3s(25, SMALL, 50_000_000),
        _ulx3s(12, SMALL, 50_000_000),
        _colorlight("i9", 45, "micro", 50_000_000, revision="7.2"),
        _colorlight("i5", 25, SMALL, 50_000_000),
        Board(
            name="ecpix5-85f",
            title="ECPIX-5 with LFE5UM5G-85F",
            module="lambdaconcept_ecpix5",
            options={"device": "85F"},
            part="LFE5UM5G-85F-CABGA554",
            config=preset("edge"),
            clock_hz=75_000_000,
            memory="MT41K256M16",
            memory_bytes=512 << 20,
            memory_width=8,
            loader="ecpix5",
        ),
        Board(
            name="orangecrab-25f",
            title="OrangeCrab with LFE5U-25F",
            module="gsd_orangecrab",
            options={"device": "25F"},
            pins="feather_serial",
            part="LFE5U-25F-CSFBGA285",
            config=preset(SMALL),
            clock_hz=48_000_000,
            memory="MT41K64M16",
            memory_bytes=128 << 20,
            memory_width=8,
            loader="orangeCrab",
        ),
        Board(
            name="tang-nano-20k",
            title="Tang Nano 20K with GW2AR-18",
            module="sipeed_tang_nano_20k",
            options={"with_buttons": False},
            part="GW2AR-18",
            # Without skid buffers and counters: with them, nextpnr places it in no useful time.
            config=preset(f"{SMALLER},links=register,counters=none"),
            clock_hz=48_000_000,
            memory="in the package",
            memory_bytes=8 << 20,
            loader="tangnano20k",
        ),
        Board(
            name="tang-primer-20k",
            title="Tang Primer 20K with GW2A-18",
            module="sipeed_tang_primer_20k",
            options={"with_buttons": False},
            part="GW2A-18",
            config=preset(SMALLER),
            clock_hz=48_000_000,
            memory="MT41K64M16",
            memory_bytes=128 << 20,
            memory_width=8,
            loader="tangprimer20k",
        ),
        Board(
            name="minispartan6",
            title="miniSpartan6+ with XC6SLX25",
            module="scarabhardware_minispartan6",
            options={"sdram_rate": "1:2"},
            part="XC6SLX25",
            config=preset(f"{SMALLER},counters=luts"),
            clock_hz=48_000_000,
            memory="AS4C16M16",
            memory_bytes=32 << 20,
            loader="minispartan6",
        ),
    )
}
