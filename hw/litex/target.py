"""System of a board without a core, from litex-boards."""

import importlib
import inspect
from dataclasses import replace
from typing import Any

from celosia.hw.arch.presets import preset
from celosia.hw.litex.boards import SMALL, SMALLER, Board
from celosia.hw.litex.phy import RegisteredPhy
from celosia.hw.litex.processor import OPTIONS, PACKAGE, hold
from celosia.hw.litex.system import quiet

#: What no host needs; a board with a processor has its options besides.
_BARE = {
    "cpu_type": None,
    "with_uart": False,
    "integrated_sram_size": 0,
    "with_timer": False,
    "with_ctrl": False,
    "with_led_chaser": False,
}


def target(board: Board) -> Any:
    """Return the system of a board without a core, not finished.

    Its ``chip`` is the memory chip, of ``litedram.modules``; ``phy_settings`` are those of the PHY
    of the board.
    """
    base: Any = importlib.import_module(f"litex_boards.targets.{board.module}").BaseSoC

    class System(base):
        """The target without a cache, which the core does not see, flash memory and its name."""

        def add_sdram(self, name: str = "sdram", *, phy: Any, **options: Any) -> None:
            self.chip, self.phy_settings = options["module"], phy.settings
            if phy.settings.memtype == "SDR":
                phy = self.celosia_phy = RegisteredPhy(phy)
            super().add_sdram(name, phy=phy, **{**options, "l2_cache_size": 0})

        def add_spi_flash(self, *_: Any, **__: Any) -> None:
            pass

        def add_identifier(self, *_: Any, **__: Any) -> None:
            pass

    options = {**_BARE, **board.options, "sys_clk_freq": board.clock_hz}
    if board.processor:
        importlib.import_module(PACKAGE)
        options |= OPTIONS
    soc = System(**options)
    if board.processor:
        hold(soc)
    if board.pins:
        platform = importlib.import_module(f"litex_boards.platforms.{board.module}")
        soc.platform.add_extension(getattr(platform, board.pins))
    return soc


def board_found(name: str) -> Board | None:
    """Return a board that has no row in ``boards.py`` as litex-boards describes it, or None.

    Its core and its clock are a start: nobody has built it.

    Parameters
    ----------
    name : str
        Module of ``litex_boards.targets``; None is returned if there is none.

    Raises
    ------
    ValueError
        If the target wants options or files, or has no memory of LiteDRAM.
    ImportError
        If a package that the target wants is not installed.
    """
    if not name.isidentifier():
        return None
    place = f"litex_boards.targets.{name}"
    try:
        base: Any = importlib.import_module(place).BaseSoC
    except ModuleNotFoundError as error:
        if error.name != place:
            raise
        return None
    title = name.replace("_", " ")
    try:
        board = Board(
            name=name,
            title=title,
            module=name,
            part="",
            config=preset(SMALLER),
            clock_hz=round(inspect.signature(base).parameters["sys_clk_freq"].default),
            memory="none",
            memory_bytes=0,
        )
        with quiet():
            soc = target(board)
    except (AssertionError, KeyError, OSError, TypeError) as error:
        raise ValueError(f"{name}: its target cannot be made without more: {error}") from None
    if not hasattr(soc, "chip"):
        raise ValueError(f"{name}: wanted a target with LiteDRAM, got none")
    device, phy = soc.platform.device, soc.phy_settings
    edges = 1 if phy.memtype == "SDR" else 2
    board = replace(
        board,
        title=f"{title} with {device}",
        part=device,
        memory=type(soc.chip).__name__,
        memory_bytes=soc.bus.regions["main_ram"].size,
        memory_width=phy.databits * phy.nphases * edges // 8,
    )
    multipliers = board.fpga.multipliers
    core = "micro" if multipliers >= 64 else SMALL
    return replace(board, config=preset(core)) if multipliers else board
