"""Cores that were explored, synthesised and simulated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from celosia.hw.flow.parts import COLUMNS, FpgaPart
from celosia.hw.flow.tools import Progress, choose
from celosia.sim.rtl.simulators import find_verilator
from celosia.sw.explore.area import Area
from celosia.sw.explore.search import Candidate, text_of
from celosia.sw.ir.graph import Graph


@dataclass(frozen=True)
class Verification:
    """A core, its measured area, and the cycles of each network that the RTL has counted."""

    candidate: Candidate
    area: Area
    cycles: tuple[int, ...]

    def rows(self, networks: Sequence[str]) -> list[list[str]]:
        """Return the core and each figure: promised, measured, relative error of the promise."""
        names = (*COLUMNS, *(f"{name}, cycles" for name in networks))
        promised = (*self.candidate.area, *self.candidate.cycles)
        rows = []
        for name, first, second in zip(names, promised, (*self.area, *self.cycles), strict=True):
            error = f"{first / second - 1:+.1%}" if second else ""
            rows.append([text_of(self.candidate.config), name, f"{first:,}", f"{second:,}", error])
        return rows


def require_tools() -> None:
    """Raise ToolError or SimulatorNotFound without Yosys or Verilator."""
    choose("yosys")
    find_verilator()


def verify(
    candidate: Candidate,
    graphs: Sequence[Graph],
    *,
    part: FpgaPart,
    memory: Mapping[str, Any],
    directory: Path,
    report: Progress,
) -> Verification:
    """Synthesise a core, and run each network on its RTL.

    Parameters
    ----------
    candidate : Candidate
        The core.
    graphs : sequence of Graph
        Its networks.
    part : FpgaPart
        FPGA of its cells.
    memory : mapping
        ``latency`` and ``bandwidth`` of external memory.
    directory : Path
        Folder of the synthesis, as that of ``celosia synth``.
    report : function of str
        Called with lines of progress.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    DeviceError
        If the core gives other bytes than the machine model.
    """
    from celosia.hw.synthesis import synthesise
    from celosia.sw.compiler.compile import compile_steps
    from celosia.sw.measure import measure

    config = replace(candidate.config, name=text_of(candidate.config))
    report(config.name)
    total = synthesise(config, part=part, seeds=(), directory=directory, report=report).total
    cycles = []
    for graph in graphs:
        report(f"simulating {graph.name}")
        steps = compile_steps(graph, config, 1)
        cycles.append(measure(steps, **memory).whole.counted)
    return Verification(candidate, Area(*(total[column] for column in COLUMNS)), tuple(cycles))
