"""System of a board without a core, from litex-boards."""

import importlib
import traceback
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from litex.build.generic_platform import ConstraintError

from celosia.hw.arch.presets import preset
from celosia.hw.litex.boards import BOARDS, Board
from celosia.hw.litex.phy import RegisteredPhy
from celosia.hw.litex.processor import OPTIONS, PACKAGE, hold
from celosia.hw.litex.system import quiet, require_memory

#: Cores for boards without a file: what fits beside the memory controller where there are 56 block
#: memories, and where fewer.
SMALL = "nano,unified_bytes=65536,counters=luts,links=skid"
SMALLER = "nano,unified_bytes=32768,requantizer=sequential"

#: What no host needs, and options that targets read; a board with a processor has its own besides.
_BARE = {
    "cpu_type": None,
    "with_uart": False,
    "uart_name": "serial",
    "with_uartbone": False,
    "with_jtagbone": False,
    "integrated_sram_size": 0,
    "with_timer": False,
    "with_ctrl": False,
    "with_led_chaser": False,
}
#: What a target raises that wants options, pins, packages or files.
_NOT_MADE = (
    AssertionError,
    AttributeError,
    ConstraintError,
    ImportError,
    KeyError,
    OSError,
    TypeError,
)


def _made(module: str, options: Mapping[str, Any]) -> Any:
    """Return the system of a module of ``litex_boards.targets``, with these options."""
    base: Any = importlib.import_module(f"litex_boards.targets.{module}").BaseSoC

    class System(base):
        """The target without a cache, which the core does not see, flash memory, name and video."""

        def add_sdram(self, name: str = "sdram", *, phy: Any, **options: Any) -> None:
            self.chip, self.phy_settings = options["module"], phy.settings
            if phy.settings.memtype == "SDR":
                phy = self.celosia_phy = RegisteredPhy(phy)
            super().add_sdram(name, phy=phy, **{**options, "l2_cache_size": 0})

        def _left_out(self, *_: Any, **__: Any) -> None:
            pass

        add_spi_flash = add_identifier = _left_out
        add_video_terminal = add_video_framebuffer = add_video_colorbars = _left_out

    return System(**{**_BARE, **options})


def target(board: Board) -> Any:
    """Return the system of a board without a core, not finished.

    Its ``chip`` is the memory chip, of ``litedram.modules``; ``phy_settings`` are those of the PHY
    of the board. Raises ValueError if litex-boards has no such target, or this one other options.
    """
    if not _is_target(board.module):
        requirement = "wanted a module of litex_boards.targets"
        raise ValueError(f"{board.name}: litex.target: {requirement}, got {board.module!r}")
    options = {**board.options, "sys_clk_freq": board.bus_hz}
    if board.processor:
        importlib.import_module(PACKAGE)
        options |= OPTIONS
    try:
        soc = _made(board.module, options)
    except _NOT_MADE as error:
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        if frame.f_globals["__name__"].startswith("litex.soc.cores.clock"):
            # The clock is wrong, not an option.
            raise
        requirement = f"litex.options: wanted those that {board.module} takes"
        raise ValueError(f"{board.name}: {requirement}, got {board.options} ({error!r})") from error
    if board.processor:
        hold(soc)
    if board.serial_pins:
        platform = importlib.import_module(f"litex_boards.platforms.{board.module}")
        if not hasattr(platform, board.serial_pins):
            requirement = f"litex.serial_pins: wanted a list of {platform.__name__}"
            raise ValueError(f"{board.name}: {requirement}, got {board.serial_pins!r}")
        soc.platform.add_extension(getattr(platform, board.serial_pins))
    return soc


def _is_target(name: str) -> bool:
    """Return True if litex-boards has a target of this name; raises ValueError for its packages."""
    module = f"litex_boards.targets.{name}"
    try:
        return name.isidentifier() and hasattr(importlib.import_module(module), "BaseSoC")
    except ModuleNotFoundError as error:
        if error.name == module:
            return False
        if error.name == "litex_boards":
            raise
        raise ValueError(f"{name}: its target wants the package {error.name}") from None


def board_of_target(name: str) -> Board | None:
    """Return a board that has no file in ``constraints`` as litex-boards describes it, or None.

    Its core and its clock are a start: nobody has built it.

    Parameters
    ----------
    name : str
        Module of ``litex_boards.targets``; None is returned if there is none.

    Raises
    ------
    ValueError
        If a file has this target, it needs options or packages, it has no memory that a core can
        use, or a part of an unknown family.
    ImportError
        If litex-boards is not installed.
    """
    if not _is_target(name):
        return None
    rows = [row.name for row in BOARDS.values() if row.module == name]
    if rows:
        raise ValueError(f"board: wanted {' or '.join(rows)}, got the name of its target, {name}")
    try:
        with quiet():
            soc = _made(name, {})
        require_memory(soc)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    except _NOT_MADE as error:
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        if frame.f_globals["__name__"].startswith("litex.soc.cores.clock"):
            # The clock is wrong, not an option.
            raise
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ValueError(f"{name}: LiteX cannot make it from its name alone: {text}") from None
    device, phy = soc.platform.device, soc.phy_settings
    edges = 1 if phy.memtype == "SDR" else 2
    board = Board(
        name=name,
        title=f"{name.replace('_', ' ')} with {device}",
        module=name,
        part=device,
        config=preset(SMALLER),
        clock_hz=round(soc.sys_clk_freq),
        memory=type(soc.chip).__name__,
        memory_bytes=soc.bus.regions["main_ram"].size,
        memory_width=phy.databits * phy.nphases * edges // 8,
    )
    multipliers = board.fpga.multipliers
    core = "micro" if multipliers >= 64 else SMALL
    return replace(board, config=preset(core)) if multipliers else board
