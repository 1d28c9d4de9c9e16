"""Boards, each a file of ``constraints``: part, clock, memory, core and target of litex-boards."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from celosia.hw.arch.config import Config
from celosia.hw.arch.pod import PodConfig
from celosia.hw.arch.presets import preset
from celosia.hw.flow.parts import CONSTRAINTS, FpgaPart, part_named

#: Bits per second on the line.
BAUD = 3_000_000

#: Share of cycles in which long bursts move data: refreshes and changes of rows take the others.
_SHARE = 0.97
#: Cycles that a transfer of an AXI channel takes between two clocks, of its sender and of its
#: receiver (``hw/litex/crossing.py``): half a cycle more or less, as their edges meet.
CROSSING = (0.5, 3.5)


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
    serial_pins : str
        List of the board's file in ``litex_boards.platforms`` with the pins ``serial``, where the
        target does not have them.
    pins : str
        Lines for the file of pins that LiteX does not give.
    part : str
        Name in ``hw/flow/parts.py``, or ordering code.
    config : Config
        Sizes of the core.
    clock_hz : int
        Frequency of the core.
    bus_clock_hz : int
        Frequency of bus, bridge and memory controller; 0 for that of the core.
    memory : str
        Memory chip.
    memory_bytes : int
        Bytes of external memory.
    memory_width : int
        Bytes that it moves in a cycle of the bus.
    loader : str
        What openFPGALoader calls the board; empty where nobody looked.
    bus_latency : int
        Cycles of the bus from an address to the first beat.
    seeds : int
        Number of placements.
    processor : bool
        Whether its system has a processor.
    cores, ports : int
        Cores of a pod, or 1, and its memory ports.
    """

    name: str
    title: str
    module: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    serial_pins: str = ""
    pins: str = ""
    part: str
    config: Config
    clock_hz: int
    bus_clock_hz: int = 0
    memory: str
    memory_bytes: int
    loader: str = ""
    memory_width: int = 4
    bus_latency: int = 32
    seeds: int = 5
    processor: bool = False
    cores: int = 1
    ports: int = 1

    @property
    def sizes(self) -> Config | PodConfig:
        """Sizes of its core, or of its pod; raises ValueError as ``PodConfig``."""
        core = self.fpga.suited(self.config, self.cores)
        return core if self.cores == 1 else PodConfig(core, self.cores, self.ports)

    @property
    def fpga(self) -> FpgaPart:
        """Its part; raises ValueError if no tool is known for it."""
        part = part_named(self.part)
        if part is None:
            raise ValueError(
                f"{self.name}: wanted a name of PARTS or an ordering code such as "
                f"LFE5U-25F-6BG256C, got {self.part}"
            )
        return part

    @property
    def has_own_clock(self) -> bool:
        """True if the core has another clock than the rest of the system."""
        return self.bus_clock_hz > 0

    @property
    def bus_hz(self) -> int:
        """Frequency of bus, bridge and memory controller."""
        return self.bus_clock_hz or self.clock_hz

    @property
    def clocks(self) -> tuple[int, int]:
        """Frequencies of the core and of the bus."""
        return self.clock_hz, self.bus_hz

    @property
    def memory_latency(self) -> int:
        """Cycles of the core from an address to the first beat."""
        if not self.has_own_clock:
            return self.bus_latency
        # The address crosses to the bus, the data back.
        sender, receiver = CROSSING
        bus = self.bus_latency + receiver + sender
        return math.ceil(sender + receiver + bus * self.clock_hz / self.bus_hz)

    @property
    def memory_bandwidth(self) -> float:
        """Beats of the core's bus for each of its cycles, of long bursts."""
        beats = self.memory_width / self.config.bus_bytes
        return _SHARE * min(1, beats * self.bus_hz / self.clock_hz)


#: Keys of a board's file, each with its type and the field of ``Board``.
_KEYS: dict[str, tuple[type, str]] = {
    "title": (str, "title"),
    "part": (str, "part"),
    "core": (str, "config"),
    "clock_hz": (int, "clock_hz"),
    "bus_clock_hz": (int, "bus_clock_hz"),
    "loader": (str, "loader"),
    "seeds": (int, "seeds"),
    "memory.chip": (str, "memory"),
    "memory.bytes": (int, "memory_bytes"),
    "memory.width": (int, "memory_width"),
    "memory.latency": (int, "bus_latency"),
    "litex.target": (str, "module"),
    "litex.serial_pins": (str, "serial_pins"),
    "litex.options": (dict, "options"),
}
_OPTIONAL = ("bus_clock_hz", "loader", "seeds", "memory.width", "memory.latency")
_OPTIONAL += ("litex.serial_pins", "litex.options")
#: Hz of a clock at least and at most: other numbers have another unit.
CLOCKS = 10**6, 10**9
_KINDS = {str: "a text", int: "a whole number above 0", dict: "a table"}


def _fields(path: Path) -> dict[str, Any]:
    """Return the fields of ``Board`` that a file gives; raises ValueError."""
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"not the file of a board ({error})") from None
    for table in ("memory", "litex"):
        values = content.pop(table, {})
        if not isinstance(values, dict):
            raise ValueError(f"{table}: wanted a table, got {values!r}")
        content |= {f"{table}.{key}": value for key, value in values.items()}
    for key, value in content.items():
        if key not in _KEYS:
            raise ValueError(f"wanted keys of {', '.join(_KEYS)}, got {key!r}")
        kind = _KEYS[key][0]
        if type(value) is not kind or (kind is int and value < 1):
            raise ValueError(f"{key}: wanted {_KINDS[kind]}, got {value!r}")
        if key.endswith("clock_hz") and not CLOCKS[0] <= value <= CLOCKS[1]:
            raise ValueError(f"{key}: wanted {CLOCKS[0]} to {CLOCKS[1]} Hz, got {value}")
    missing = [key for key in _KEYS if key not in content and key not in _OPTIONAL]
    if missing:
        raise ValueError(f"wanted {', '.join(missing)}, got none")
    return {_KEYS[key][1]: value for key, value in content.items()}


def read_board(path: Path) -> Board:
    """Return the board that a file describes; its name is that of the file.

    Parameters
    ----------
    path : Path
        TOML file, see ``docs/how-to/boards.md``. A file beside it with the same name and the suffix
        of the family's pins, such as ``.cst``, has pins that LiteX does not give.

    Raises
    ------
    ValueError
        If the file cannot be read, a key is unknown, missing or of another type, there is no such
        core, or its part is of no known family.
    """
    try:
        fields = _fields(path)
        board = Board(name=path.stem, **{**fields, "config": preset(fields["config"])})
        pins = path.with_suffix(board.fpga.family.suffixes[0])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return replace(board, pins=pins.read_text("utf-8")) if pins.is_file() else board


BOARDS = {path.stem: read_board(path) for path in sorted(CONSTRAINTS.glob("*.toml"))}


def board_named(name: str) -> Board | None:
    """Return a board of ``constraints``, or of a file with the suffix ``.toml``; None for others.

    Raises ValueError as ``read_board``.
    """
    return read_board(Path(name)) if name.endswith(".toml") else BOARDS.get(name)
