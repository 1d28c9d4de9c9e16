"""Bitstreams of boards."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from celosia.hw.boards.board import Board
from celosia.hw.boards.top import design
from celosia.hw.flow.flow import packed, placed
from celosia.hw.flow.report import Report, examine
from celosia.hw.flow.tools import Say


def build(
    board: Board,
    *,
    seeds: Iterable[int],
    directory: Path,
    report: Say = lambda line: None,
) -> Report:
    """Make the bitstream of a board out of the fastest of some runs.

    Parameters
    ----------
    board : Board
        What is built.
    seeds : iterable of int
        Seeds of the placer; one run each.
    directory : Path
        Where everything goes; the bitstream has the board's name.
    report : function of str
        Told what is going on.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    BoardError, ValueError
        See ``design``.
    """
    board.check()
    report(f"elaborating {board.config.name} for {board.title}")
    made = design(board)
    runs = placed(made, directory, seeds=seeds, report=report)
    bitstream = directory / f"{board.name}.{board.fpga.family.bitstream}"
    report("packing the bitstream")
    packed(made, runs[0], bitstream)
    return replace(examine(made, directory, runs), bitstream=bitstream)
