"""Bitstreams of boards."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from celosia.hw.boards.board import Board
from celosia.hw.boards.top import design
from celosia.hw.flow import tools
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
        Where everything goes.
    report : function of str
        Told what is going on.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    ValueError
        If there are no seeds, or the board does not fit together, see ``design``.
    BoardError
        See ``design``.
    """
    seeds = tuple(seeds)
    if not seeds:
        raise ValueError("seeds: wanted at least one, got none")
    board.check()
    family = board.fpga.family
    for tool in ("yosys", family.router, family.packer[0]):
        tools.find(tool)
    report(f"elaborating {board.config.name} for {board.title}")
    made = design(board)
    runs = placed(made, directory, seeds=seeds, report=report)
    report("examining the fastest run, packing its bitstream")
    return replace(examine(made, directory, runs), bitstream=packed(made, runs[0]))
