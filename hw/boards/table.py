"""All boards: a new one is a row here, and a part of ``hw/flow/parts.py`` if it has a new one."""

from celosia.hw.arch.presets import preset
from celosia.hw.boards.board import Board, Sdram


def _ulx3s(size: int, core: str, clock_hz: int) -> Board:
    return Board(
        name=f"ulx3s-{size}f",
        title=f"ULX3S with LFE5U-{size}F",
        platform=f"amaranth_boards.ulx3s:ULX3S_{size}F_Platform",
        part=f"LFE5U-{size}F-CABGA381",
        config=preset(core),
        oscillator="clk25",
        oscillator_hz=25_000_000,
        clock_hz=clock_hz,
        sdram=Sdram(part="IS42S16160G-7"),
        loader="ulx3s",
    )


BOARDS = {
    board.name: board
    for board in (
        _ulx3s(85, "edge", 70_000_000),
        _ulx3s(45, "micro", 75_000_000),
        # 56 block memories: half of the unified buffer. A pipelined requantiser wants one more.
        _ulx3s(25, "nano,unified_bytes=65536,requantizer=sequential", 55_000_000),
        _ulx3s(12, "nano,unified_bytes=65536,requantizer=sequential", 55_000_000),
        Board(
            name="tang-nano-20k",
            title="Tang Nano 20K with GW2AR-18",
            platform="celosia.constraints:tang_nano_20k",
            part="GW2AR-18",
            config=preset("nano,unified_bytes=32768,requantizer=sequential,counters=none"),
            oscillator="clk27",
            oscillator_hz=27_000_000,
            clock_hz=54_000_000,
            sdram=Sdram(part="GW2AR-18"),
            loader="tangnano20k",
            high=("sdram_masked",),
        ),
    )
}
