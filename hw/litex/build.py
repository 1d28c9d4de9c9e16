"""Bitstreams of boards: a LiteX system with a core, through Yosys and nextpnr."""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from litex.build.generic_platform import ConstraintError
from litex.soc.cores.uart import RS232PHY

from celosia.hw.build import TOP, verilog_with_sources
from celosia.hw.flow import tools
from celosia.hw.flow.flow import Design, packed, placed
from celosia.hw.flow.packages import inner_pins
from celosia.hw.flow.report import Report, examine
from celosia.hw.flow.tools import Progress
from celosia.hw.litex.boards import BAUD, Board
from celosia.hw.litex.processor import processor_verilog
from celosia.hw.litex.system import describe, equip, quiet
from celosia.hw.litex.target import target

#: Top module, and files.
NAME = "board"
#: Instances from the top down that are no blocks; the cores of a pod are blocks.
_OPENED = (TOP, f"{TOP}.core")

#: Comments of LiteX, which name the day, and modules in no order.
_COMMENT = re.compile(r"(?ms)^/\*.*?\*/\n|^//[^\n]*\n")
#: Names of the one clock of the pads, one for each register; their order changes.
_ALIAS = re.compile(r"\bsdrio_clk(?:_\d+)?\b")
_ALIASES = re.compile(rf"(?m)^(?:wire +|assign )({_ALIAS.pattern})(?: = (\w+))?;\n")


#: The Verilog of a core or a pod, the same for all boards, and the sources of its signals.
_core = cache(verilog_with_sources)


def system(board: Board) -> Any:
    """Return the system of a board with its core, not finished.

    Raises
    ------
    ValueError
        If the board has no LiteDRAM.
    """
    soc = target(board)
    equip(soc, board.sizes, RS232PHY(soc.platform.request("serial"), board.clock_hz, BAUD))
    return soc


def _settled(text: str) -> str:
    """Return the Verilog of a system without what differs from one run of LiteX to the next."""
    text = _COMMENT.sub("", text)
    (clock,) = {found[2] for found in _ALIASES.finditer(text)} - {None} or {""}
    return _ALIAS.sub(clock, _ALIASES.sub("", text))


def design(board: Board) -> tuple[Design, dict[str, Any]]:
    """Return what the flow builds for a board, and the description of its system for the host.

    Parameters
    ----------
    board : Board
        Target, core and clock.

    Raises
    ------
    ValueError
        If the board has no LiteDRAM, its PLL cannot make the clock, there is no such pod, or it has
        a processor and a pod.
    """
    core, sources = _core(board.sizes)
    with quiet(), TemporaryDirectory() as folder:
        try:
            soc = system(board)
            soc.finalize()
            files = processor_verilog(soc)
            soc.build(build_name=NAME, build_dir=folder, run=False)
        except ConstraintError as error:
            raise ValueError(f"{board.name}: pins: {error}") from None
        except (AssertionError, ValueError) as error:
            text = str(error) or "No PLL config found"
            raise ValueError(f"{board.name}: {text}, {board.clock_hz / 1e6:g} MHz") from None
        base = Path(folder) / NAME
        suffixes = (".v", board.fpga.family.suffixes[0])
        text, pins = (base.with_suffix(suffix).read_text() for suffix in suffixes)
        pins = pins.replace(f"{folder}/", "")
        timing = board.fpga.family.timing
        clocks = base.with_suffix(timing).read_text() if timing else ""
    made = Design(
        name=NAME,
        verilog="\n".join((core, *files, _settled(text))),
        part=board.fpga,
        megahertz=board.clock_hz / 1e6,
        pins=f"{pins}\n{inner_pins(board.fpga)}",
        timing=clocks,
        opened=_OPENED,
        sources=sources,
    )
    return made, describe(soc, board.sizes, BAUD)


def build(
    board: Board,
    *,
    seeds: Iterable[int],
    directory: Path,
    report: Progress = lambda line: None,
) -> tuple[Report, dict[str, Any]]:
    """Make the bitstream of a board out of the fastest of some runs.

    Parameters
    ----------
    board : Board
        Target, core and clock.
    seeds : iterable of int
        Seeds of the placer; one run each.
    directory : Path
        Folder of the files.
    report : function of str
        Called with messages about the progress.

    Returns
    -------
    tuple
        The report, and the description of the system for the host.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    ValueError
        If there are no seeds, or the board does not fit together, see ``design``.
    """
    seeds = tuple(seeds)
    if not seeds:
        raise ValueError("seeds: wanted at least one, got none")
    family = board.fpga.family
    for tool in ("yosys", family.router, family.packer[0]):
        tools.find(tool)
    report(f"elaborating {board.config.name} for {board.title}")
    made, description = design(board)
    runs = placed(made, directory, seeds=seeds, report=report)
    report("examining the fastest run, packing its bitstream")
    found = replace(examine(made, directory, runs), bitstream=packed(made, runs[0]))
    return found, description
