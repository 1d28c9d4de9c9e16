"""Synthesis, placement and routing of a core alone."""

from collections.abc import Iterable
from pathlib import Path

from celosia.hw.arch.config import Config
from celosia.hw.build import TOP, convert_with_sources
from celosia.hw.core import Core
from celosia.hw.flow import tools
from celosia.hw.flow.flow import Design, placed
from celosia.hw.flow.parts import PARTS, Part
from celosia.hw.flow.report import Report, examine
from celosia.hw.flow.tools import Say
from celosia.hw.folded import Folded

#: The clock in MHz that is asked for, and what around the core is no room.
MEGAHERTZ = 120
OPENED = ("inner",)


def synthesise(
    config: Config,
    *,
    seeds: Iterable[int],
    directory: Path,
    part: Part = PARTS["LFE5U-85F"],
    report: Say = lambda line: None,
) -> Report:
    """Synthesise, place and route the core alone.

    Inputs and outputs are folded into registers, see ``Folded``. The netlist is kept in
    ``directory`` and made anew only when the Verilog changed; so is the result of each seed. As many
    seeds run at once as the machine has cores.

    Parameters
    ----------
    config : Config
        Sizes of the core. It is made of the multipliers that the part has, see ``Part.suited``.
    seeds : iterable of int
        Seeds of the placer; one run each. Without any the core is synthesised and no more.
    directory : Path
        Where Verilog, netlist, logs and reports go.
    part : Part
        What is built for.
    report : function of str
        Told what is going on.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    """
    seeds = tuple(seeds)
    for tool in ("yosys", part.family.router)[: 2 if seeds else 1]:
        tools.find(tool)
    text, sources = convert_with_sources(Folded(Core(config=part.suited(config))))
    design = Design(
        name=TOP, verilog=text, part=part, megahertz=MEGAHERTZ, opened=OPENED, sources=sources
    )
    return examine(design, directory, placed(design, directory, seeds=seeds, report=report))
