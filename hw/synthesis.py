"""Synthesis, placement and routing of a core alone."""

from collections.abc import Iterable
from pathlib import Path

from celosia.hw.arch.config import Config
from celosia.hw.core import Core
from celosia.hw.flow import tools
from celosia.hw.flow.flow import Design, placed
from celosia.hw.flow.parts import CONSTRAINTS, PARTS, FpgaPart
from celosia.hw.flow.report import Report, examine
from celosia.hw.flow.tools import Progress
from celosia.hw.folded import Folded
from celosia.hw.verilog.build import TOP, convert_with_sources

#: Constraints of a core alone.
CORE = CONSTRAINTS / "core.sdc"

#: Instances around the core that are not blocks.
OPENED = ("inner",)


def megahertz() -> float:
    """Return the clock that ``constraints/core.sdc`` requests, in MHz."""
    _, _, text = CORE.read_text("utf-8").partition(" -period ")
    return round(1000 / float(text.split()[0]), 1)


def synthesise(
    config: Config,
    *,
    seeds: Iterable[int],
    directory: Path,
    part: FpgaPart = PARTS["LFE5U-85F"],
    clock: float | None = None,
    report: Progress = lambda line: None,
) -> Report:
    """Synthesise, place and route the core alone.

    Inputs and outputs are wrapped, see ``Folded``. The netlist and the result of each seed are kept
    in ``directory`` and made again only after a change of the Verilog. As many seeds run at once as
    the machine has cores.

    Parameters
    ----------
    config : Config
        Sizes of the core. Its multipliers are those of the part, see ``FpgaPart.suited``.
    seeds : iterable of int
        Seeds of the placer; one run each. Without seeds the core is only synthesised.
    directory : Path
        Folder of Verilog, netlist, logs and reports.
    part : FpgaPart
        FPGA.
    clock : float, optional
        Clock in MHz that is requested of the router; :func:`megahertz` if left out.
    report : function of str
        Called with messages about the progress.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    """
    seeds = tuple(seeds)
    for tool in ("yosys", part.family.router)[: 2 if seeds else 1]:
        report(f"{tool}: {tools.choose(tool)}")
    text, sources = convert_with_sources(Folded(Core(config=part.suited(config))))
    design = Design(
        name=TOP,
        verilog=text,
        part=part,
        megahertz=clock or megahertz(),
        opened=OPENED,
        sources=sources,
    )
    return examine(design, directory, placed(design, directory, seeds=seeds, report=report))
