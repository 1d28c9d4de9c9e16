"""System of a board without a core, from litex-boards."""

import importlib
from typing import Any

from celosia.hw.litex.boards import Board
from celosia.hw.litex.phy import RegisteredPhy
from celosia.hw.litex.processor import OPTIONS, PACKAGE, hold

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
