"""All boards: a new one is a row here, and a part of ``hw/flow/parts.py`` if it has a new one."""

from celosia.hw.arch.config import PRESETS
from celosia.hw.boards.board import Board, Sdram
from celosia.hw.sdram.pads import PAD_PHASES


def _ulx3s(size: int, preset: str, clock_hz: int) -> Board:
    return Board(
        name=f"ulx3s-{size}f",
        title=f"ULX3S with LFE5U-{size}F",
        platform=f"amaranth_boards.ulx3s:ULX3S_{size}F_Platform",
        part=f"LFE5U-{size}F-CABGA381",
        config=PRESETS[preset],
        oscillator="clk25",
        oscillator_hz=25_000_000,
        clock_hz=clock_hz,
        sdram=Sdram(part="IS42S16160G-7", read_phase=PAD_PHASES + 2),
        loader="ulx3s",
    )


BOARDS = {
    board.name: board
    for board in (
        _ulx3s(85, "edge", 75_000_000),
        _ulx3s(45, "micro", 75_000_000),
        _ulx3s(25, "nano", 75_000_000),
        _ulx3s(12, "nano", 75_000_000),
    )
}
